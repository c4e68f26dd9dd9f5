//! The state machine of the cache: who holds which region, and who is registering one.

use crate::key::Key;
use crate::mr::answer::{Handle, Lookup, Released, StaleHandle, StaleTicket, Ticket};
use crate::mr::interval::IntervalIndex;
use crate::mr::last::LastHit;
use crate::mr::recent::Recent;
use crate::mr::request::{Class, Plain, Request, RequestError, Span};
use crate::table::{CacheLine, Table};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;
use core::num::NonZeroU32;

/// What the cache has seen, since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Requests answered by a region that was there.
    pub hits: u64,
    /// Requests that made their caller register.
    pub misses: u64,
    /// Requests that were told to ask again.
    pub busy: u64,
    /// Registrations that failed.
    pub failures: u64,
    /// Bytes registered through the cache now.
    pub bytes: u64,
}

/// What a look-up reads is one cache line, with the region itself if that is a word.
#[repr(C)]
struct Entry<R> {
    span: Span,
    plain: Plain,
    references: NonZeroU32,
    /// Slot of its group, which there is while it has an entry: the class itself is 32 bytes.
    group: u32,
    region: R,
}

const _: () = assert!(
    size_of::<Option<Entry<u64>>>() + 8 <= 64,
    "with what a slot of a table has beside its value"
);

/// The regions of one class.
struct Group {
    class: Class,
    index: IntervalIndex,
}

struct Pending {
    serial: u64,
    span: Span,
    class: Class,
}

/// The cache, as a state machine that registers nothing itself. See the [module](crate::mr) for
/// the picture.
///
/// # Examples
///
/// ```
/// use ofi_pools::mr::Attr;
/// use ofi_pools::{Lookup, MrCache, Released, Request};
///
/// let mut cache = MrCache::new(4096)?;
/// let request = Request::new(0x1_2345, 10, Attr::default())?;
/// let Lookup::Miss(ticket) = cache.lookup(&request)? else { return Err("known already".into()) };
/// assert_eq!((ticket.request().address(), ticket.request().bytes()), (0x1_2000, 4096));
/// let handle = cache.complete(ticket, "region")?;
/// let within = Request::new(0x1_2fff, 1, Attr::default())?;
/// assert!(matches!(cache.lookup(&within)?, Lookup::Hit(hit) if hit == handle));
/// assert_eq!(cache.release(handle)?, Released::Held { references: 1 });
/// assert_eq!(cache.release(handle)?, Released::Last("region"));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
///
/// # Costs
///
/// `lookup`: four comparisons when the region hit last covers the request too; else one cache line of a table
/// of pages that requests began at, and one of the region; for a page that is new, a logarithm of the number
/// of regions with the same attributes. `get`, `retain`, and `release` while others hold the region: O(1).
/// The last release, and `complete`: as a lookup of a page that is new, and now and then a move of n/16 words.
/// Memory: 64 bytes and the region for each, and 16 to 32 of the table of pages.
pub struct MrCache<R> {
    /// Checked before any search.
    last: LastHit,
    entries: Table<Entry<R>, CacheLine>,
    recent: Recent,
    /// Registered regions only, so that a failed registration has nothing to take back.
    groups: Table<Group>,
    by_class: BTreeMap<Class, Key>,
    /// As many as there are callers registering at this moment: few.
    pending: Vec<Pending>,
    serial: u64,
    page: u64,
    stats: CacheStats,
}

impl<R> fmt::Debug for MrCache<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MrCache")
            .field("entries", &self.entries)
            .field("pending", &self.pending.len())
            .field("page", &self.page)
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}

impl<R> MrCache<R> {
    /// An empty cache that rounds ranges to `page` bytes: at most the page size of the system (a
    /// larger one would register addresses that are not mapped), 1 for no rounding.
    ///
    /// # Errors
    ///
    /// [`RequestError::Page`] when it is not a power of two.
    pub fn new(page: u64) -> Result<Self, RequestError> {
        if !page.is_power_of_two() {
            return Err(RequestError::Page { page });
        }
        Ok(Self {
            last: LastHit::NONE,
            entries: Table::default(),
            recent: Recent::default(),
            groups: Table::new(),
            by_class: BTreeMap::new(),
            pending: Vec::new(),
            serial: 0,
            page,
            stats: CacheStats::default(),
        })
    }

    /// Looks for a region that covers `request` with the same attributes.
    ///
    /// # Errors
    ///
    /// [`RequestError`] for a range that nothing can cover.
    #[inline]
    pub fn lookup(&mut self, request: &Request) -> Result<Lookup, RequestError> {
        if self.last.answers(request) {
            // 2^64 do not happen.
            self.last.taken = self.last.taken.wrapping_add(1);
            return Ok(Lookup::Hit(self.last.handle));
        }
        self.search(request)
    }

    #[inline(never)]
    fn search(&mut self, request: &Request) -> Result<Lookup, RequestError> {
        if let Some(handle) = self.find_again(request).or_else(|| self.find(request)) {
            self.stats.hits = self.stats.hits.wrapping_add(1);
            return Ok(Lookup::Hit(handle));
        }
        let class = request.class();
        let is_awaited = |other: &Pending| other.class == class && other.span.covers(request.span);
        if self.pending.iter().any(is_awaited) {
            self.stats.busy = self.stats.busy.wrapping_add(1);
            return Ok(Lookup::Busy);
        }
        let request = request.rounded(self.page)?;
        self.stats.misses = self.stats.misses.wrapping_add(1);
        self.serial = self.serial.wrapping_add(1);
        let serial = self.serial;
        self.pending.push(Pending {
            serial,
            span: request.span,
            class,
        });
        Ok(Lookup::Miss(Ticket { serial, request }))
    }

    /// The region that answered a request at this page, if it answers this one.
    #[inline]
    fn find_again(&mut self, request: &Request) -> Option<Handle> {
        let slot = self.recent.find(request)?;
        let (_, entry) = self.entries.at_mut(slot)?;
        // Two in dma-bufs may differ in more: none of them was ever put where this was found, but the slot
        // may have another entry by now.
        let plain = request.plain();
        let answers = entry.span.covers(request.span) && entry.plain == plain;
        (answers && !plain.is_in_dmabuf()).then_some(())?;
        self.hit(slot)
    }

    /// A covering region.
    #[inline(never)]
    fn find(&mut self, request: &Request) -> Option<Handle> {
        let class = request.class();
        let group = self.groups.get(*self.by_class.get(&class)?)?;
        let slot = group.index.find(request.span)?;
        if !class.plain.is_in_dmabuf() {
            self.recent.put(request.address(), class.plain, slot);
        }
        self.hit(slot)
    }

    /// One reference more to the region in `slot`, which is the last hit from now on.
    #[inline]
    fn hit(&mut self, slot: u32) -> Option<Handle> {
        self.settle_last();
        let (key, entry) = self.entries.at_mut(slot)?;
        entry.references = entry.references.saturating_add(1);
        let (span, plain, handle) = (entry.span, entry.plain, Handle { key });
        self.remember(span, plain, handle);
        Some(handle)
    }

    /// The last hit, which has no references that its entry does not know.
    #[inline]
    fn remember(&mut self, span: Span, plain: Plain, handle: Handle) {
        self.last = match plain.is_in_dmabuf() {
            true => LastHit::NONE,
            false => LastHit::of(span, plain, handle),
        };
    }

    /// What the last hit has counted goes to its entry and to the numbers.
    #[inline]
    fn settle_last(&mut self) {
        let taken = core::mem::take(&mut self.last.taken);
        if taken == 0 {
            return;
        }
        self.stats.hits = self.stats.hits.wrapping_add(taken);
        if let Some(entry) = self.entries.get_mut(self.last.handle.key) {
            let taken = u32::try_from(taken).unwrap_or(u32::MAX);
            entry.references = entry.references.saturating_add(taken);
        }
    }

    /// The registration succeeded: from here on `region` answers requests. The handle holds one
    /// reference.
    ///
    /// # Errors
    ///
    /// [`StaleTicket`] with the region when the ticket is of another cache.
    pub fn complete(&mut self, ticket: Ticket, region: R) -> Result<Handle, StaleTicket<R>> {
        let Some(Pending { span, class, .. }) = self.take_pending(&ticket) else {
            return Err(StaleTicket { region });
        };
        // Asked first, so that a full cache has no new group to take back.
        let room = self.entries.next_key().and_then(|_| self.group_of(class));
        let Some(group) = room else {
            return Err(StaleTicket { region });
        };
        let entry = Entry {
            span,
            plain: class.plain,
            references: NonZeroU32::MIN,
            group: group.index(),
            region,
        };
        let key = self.entries.insert(entry).map_err(|full| StaleTicket {
            region: full.value.region,
        })?;
        if let Some(group) = self.groups.get_mut(group) {
            group.index.insert(span, key.index());
        }
        self.stats.bytes = self.stats.bytes.wrapping_add(span.bytes());
        self.settle_last();
        self.remember(span, class.plain, Handle { key });
        self.make_known(span, class.plain, key.index());
        Ok(Handle { key })
    }

    /// Requests at the start of a new entry will find it.
    fn make_known(&mut self, span: Span, plain: Plain, slot: u32) {
        if self.recent.fit(self.entries.len()) {
            let known = self.entries.iter().filter(|(_, e)| !e.plain.is_in_dmabuf());
            for (key, entry) in known {
                self.recent.put(entry.span.start, entry.plain, key.index());
            }
        } else if !plain.is_in_dmabuf() {
            self.recent.put(span.start, plain, slot);
        }
    }

    /// The group of a class, which is made if there is none.
    fn group_of(&mut self, class: Class) -> Option<Key> {
        if let Some(&group) = self.by_class.get(&class) {
            return Some(group);
        }
        let index = IntervalIndex::default();
        let group = self.groups.insert(Group { class, index }).ok()?;
        self.by_class.insert(class, group);
        Some(group)
    }

    /// The registration failed: nothing of it is left, and who waited may try.
    pub fn fail(&mut self, ticket: Ticket) {
        if self.take_pending(&ticket).is_some() {
            self.stats.failures = self.stats.failures.wrapping_add(1);
        }
    }

    /// The registration that a ticket stands for; its range is compared too, since another cache
    /// counts its serials from the same start.
    fn take_pending(&mut self, ticket: &Ticket) -> Option<Pending> {
        let (span, class) = (ticket.request.span, ticket.request.class());
        let at = self.pending.iter().position(|pending| {
            pending.serial == ticket.serial && pending.span == span && pending.class == class
        })?;
        Some(self.pending.swap_remove(at))
    }

    /// The region of a handle.
    #[inline]
    #[must_use]
    pub fn get(&self, handle: Handle) -> Option<&R> {
        self.entries.get(handle.key).map(|entry| &entry.region)
    }

    /// How many references there are to a region; `None` for a stale handle.
    #[must_use]
    pub fn references(&self, handle: Handle) -> Option<u32> {
        let entry = self.entries.get(handle.key)?;
        let taken = match handle == self.last.handle {
            true => u32::try_from(self.last.taken).unwrap_or(u32::MAX),
            false => 0,
        };
        Some(entry.references.get().saturating_add(taken))
    }

    /// Takes one more reference: for an operation that outlives its caller's.
    ///
    /// # Errors
    ///
    /// [`StaleHandle`].
    #[inline]
    pub fn retain(&mut self, handle: Handle) -> Result<(), StaleHandle> {
        self.settle_last();
        let entry = self
            .entries
            .get_mut(handle.key)
            .ok_or(StaleHandle { handle })?;
        entry.references = entry.references.saturating_add(1);
        Ok(())
    }

    /// Gives one reference back; the last one takes the region out of the cache.
    ///
    /// # Errors
    ///
    /// [`StaleHandle`]; nothing is changed then.
    #[inline]
    pub fn release(&mut self, handle: Handle) -> Result<Released<R>, StaleHandle> {
        self.settle_last();
        let entry = self
            .entries
            .get_mut(handle.key)
            .ok_or(StaleHandle { handle })?;
        if let Some(references) = NonZeroU32::new(entry.references.get() - 1) {
            entry.references = references;
            return Ok(Released::Held {
                references: references.get(),
            });
        }
        self.evict(handle)
            .map(Released::Last)
            .ok_or(StaleHandle { handle })
    }

    /// Takes a region out, whatever its references. (A policy that keeps unused regions would
    /// call this for those with no reference, in its order.)
    #[inline(never)]
    fn evict(&mut self, handle: Handle) -> Option<R> {
        self.settle_last();
        let entry = self.entries.remove(handle.key)?;
        if self.last.handle == handle {
            self.last = LastHit::NONE;
        }
        self.stats.bytes = self.stats.bytes.wrapping_sub(entry.span.bytes());
        if let Some((_, group)) = self.groups.at_mut(entry.group) {
            group.index.remove(entry.span, handle.key.index());
            if group.index.is_empty() {
                self.by_class.remove(&group.class);
                self.groups.remove_at(entry.group);
            }
        }
        Some(entry.region)
    }

    /// Takes every region out, whatever its references, to be closed with the domain.
    pub fn drain(&mut self) -> Vec<R> {
        let handles: Vec<Handle> = self.entries.iter().map(|(key, _)| Handle { key }).collect();
        handles
            .into_iter()
            .filter_map(|handle| self.evict(handle))
            .collect()
    }

    /// How many regions are in the cache.
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.entries.len()
    }

    /// Whether no region is in the cache.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many registrations are under way.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// The most regions that were in the cache at once.
    #[must_use]
    pub fn high_water(&self) -> u32 {
        self.entries.high_water()
    }

    /// The granule that ranges are rounded to, in bytes.
    #[must_use]
    pub const fn page(&self) -> u64 {
        self.page
    }

    /// What the cache has seen.
    #[must_use]
    pub const fn stats(&self) -> CacheStats {
        CacheStats {
            hits: self.stats.hits.wrapping_add(self.last.taken),
            ..self.stats
        }
    }
}
