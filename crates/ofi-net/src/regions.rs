//! The regions of a domain, by the number that the engine knows them by.
//!
//! A region that was closed while requests still referred to it leaves its number unused until they
//! are gone: an operation of theirs then finds nothing, and not somebody else's memory.

use crate::error::{Code, NetError};
use crate::region::{RegionView, Registration};
use crate::waits::Waits;
use ofi_pools::mr::Handle;
use ofi_pools::{Key, Table};
use ofi_rdma::RegionId;

/// Regions are named by 22 bits in the words that callers hold.
const REGIONS_MAX: u32 = 1 << 22;

/// One region of the caller.
#[derive(Debug)]
pub(crate) struct Region {
    /// `None` once closed, while the number rests, and for regions that the cache owns.
    pub(crate) registration: Option<Registration>,
    /// Its entry in the registration cache, if it came through that.
    pub(crate) cached: Option<Handle>,
}

/// The table. Number 0 is the domain's flush page.
#[derive(Debug)]
pub(crate) struct Regions {
    table: Table<Region>,
    views: Vec<Option<RegionView>>,
    resting: Vec<Key>,
    /// Until when deregistrations wait for requests.
    pub(crate) waits: Waits,
}

/// The flush page as a region.
pub(crate) const FLUSH_REGION: RegionId = RegionId(0);

impl Regions {
    /// A table with the flush page in it.
    pub(crate) fn new(flush_page: RegionView) -> Self {
        let mut table = Table::with_max(REGIONS_MAX);
        let placed = table.insert(Region {
            registration: None,
            cached: None,
        });
        debug_assert!(placed.is_ok_and(|key| key.index() == FLUSH_REGION.0));
        Self {
            table,
            views: vec![Some(flush_page)],
            resting: Vec::new(),
            waits: Waits::default(),
        }
    }

    /// Puts a region in that the data path has to know as `view`; `None`, and it is closed again, when
    /// there are too many.
    pub(crate) fn insert(&mut self, registration: Registration, view: RegionView) -> Option<Key> {
        let region = Region {
            registration: Some(registration),
            cached: None,
        };
        let key = self.table.insert(region).ok()?;
        self.set_view(key, view);
        Some(key)
    }

    /// Puts a region of the cache in; `None` when there are too many.
    pub(crate) fn insert_cached(&mut self, view: RegionView, handle: Handle) -> Option<Key> {
        let region = Region {
            registration: None,
            cached: Some(handle),
        };
        let key = self.table.insert(region).ok()?;
        self.set_view(key, view);
        Some(key)
    }

    /// Why there is no number for a region.
    #[cold]
    pub(crate) fn full() -> NetError {
        let what = format!("more than {REGIONS_MAX} memory registrations on a device");
        NetError::new(Code::OutOfIds, what)
    }

    fn set_view(&mut self, key: Key, view: RegionView) {
        let index = key.index() as usize;
        if self.views.len() <= index {
            self.views.resize(index + 1, None);
        }
        if let Some(slot) = self.views.get_mut(index) {
            *slot = Some(view);
        }
    }

    /// The region of a caller's word; `None` when it is gone.
    #[inline]
    pub(crate) fn get(&self, key: Key) -> Option<(RegionId, &RegionView)> {
        let id = RegionId(key.index());
        // The flush page has no word: one that names it is a damaged one.
        if id == FLUSH_REGION {
            return None;
        }
        self.table.get(key)?;
        self.view(id).map(|view| (id, view))
    }

    /// The whole entry of a caller's word.
    pub(crate) fn entry_mut(&mut self, key: Key) -> Option<&mut Region> {
        if key.index() == FLUSH_REGION.0 {
            None
        } else {
            self.table.get_mut(key)
        }
    }

    /// The region of an operation.
    #[inline]
    pub(crate) fn view(&self, id: RegionId) -> Option<&RegionView> {
        self.views.get(id.0 as usize)?.as_ref()
    }

    /// Takes a region out, to be closed. Its number is used again only when `referenced` is 0 (see
    /// [`Regions::sweep`]).
    pub(crate) fn take(&mut self, key: Key, referenced: u32) -> Option<Registration> {
        let registration = self.entry_mut(key)?.registration.take()?;
        self.forget(key, referenced);
        Some(registration)
    }

    /// As [`Regions::take`], for a region that the cache owned.
    pub(crate) fn forget(&mut self, key: Key, referenced: u32) {
        if self.entry_mut(key).is_none() {
            return;
        }
        if let Some(view) = self.views.get_mut(key.index() as usize) {
            *view = None;
        }
        if referenced == 0 {
            self.table.remove(key);
        } else {
            self.resting.push(key);
        }
    }

    /// Frees the numbers of closed regions that nothing refers to any more.
    pub(crate) fn sweep(&mut self, references: impl Fn(RegionId) -> u32) {
        let Self { table, resting, .. } = self;
        resting.retain(|&key| {
            let rests = references(RegionId(key.index())) > 0;
            if !rests {
                table.remove(key);
            }
            rests
        });
    }
}
