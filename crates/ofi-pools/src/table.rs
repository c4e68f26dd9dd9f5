//! A generational slab: values under handles that expire with them.
//!
//! ```text
//! slots: [ generation, next, value ] [ generation, next, value ] ...     one array, never shrunk
//! head -> last slot vacated -> the one before -> ... -> NIL      (LIFO: the warm one first)
//! fresh -> the lowest slot that was never used                   (taken when the list is empty)
//! ```

use crate::key::Key;
use alloc::vec::Vec;
use core::fmt;

/// Slots of the first growth; each further one doubles them.
const SLOTS_FIRST: u32 = 64;
const NIL: u32 = u32::MAX;

/// Values of any table, at most.
const MAX: u32 = u32::MAX - 63;

/// The value did not fit: the table holds its maximum. The value comes back.
pub struct Full<T> {
    /// What was to be inserted.
    pub value: T,
    /// The bound that was reached, in values.
    pub max: u32,
}

impl<T> fmt::Debug for Full<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Full")
            .field("max", &self.max)
            .finish_non_exhaustive()
    }
}

impl<T> fmt::Display for Full<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "table full: all {} slots are occupied; remove values that are done with, or build the \
             table with a larger maximum",
            self.max
        )
    }
}

impl<T> core::error::Error for Full<T> {}

/// Slots of a [`Table`] that begin with a cache line: a slot of 128 bytes is then two of them, not three, and
/// is found by a shift.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub struct CacheLine;

/// What is compared first stands first.
#[derive(Clone)]
#[repr(C)]
struct Entry<T, A> {
    align: [A; 0],
    /// Odd while `value` is `Some`.
    generation: u32,
    /// The next vacant slot, or NIL; meaningful only while vacant.
    next: u32,
    value: Option<T>,
}

impl<T, A> Entry<T, A> {
    const fn vacant() -> Self {
        Self {
            align: [],
            generation: 0,
            next: NIL,
            value: None,
        }
    }
}

/// A vacant slot of a [`Table`], from [`Table::vacant`].
pub struct Vacant<'a, T, A = u32> {
    key: Key,
    entry: &'a mut Entry<T, A>,
    head: &'a mut u32,
    len: &'a mut u32,
}

impl<T, A> fmt::Debug for Vacant<'_, T, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Vacant").field(&self.key).finish()
    }
}

impl<'a, T, A> Vacant<'a, T, A> {
    /// The key of what is put here.
    #[inline]
    #[must_use]
    pub const fn key(&self) -> Key {
        self.key
    }

    /// Puts `value` here; gives it in its place.
    #[inline]
    pub fn fill(self, value: T) -> &'a mut T {
        *self.head = self.entry.next;
        *self.len = self.len.wrapping_add(1);
        self.entry.generation = self.key.generation();
        self.entry.value.insert(value)
    }
}

/// An occupied slot of a [`Table`], from [`Table::occupied_at`].
pub struct Occupied<'a, T> {
    index: u32,
    slot: &'a mut Option<T>,
    generation: &'a mut u32,
    next: &'a mut u32,
    head: &'a mut u32,
    len: &'a mut u32,
}

impl<T: fmt::Debug> fmt::Debug for Occupied<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Occupied")
            .field("index", &self.index)
            .field("value", &self.slot)
            .finish_non_exhaustive()
    }
}

impl<T> Occupied<'_, T> {
    /// Its value.
    #[inline]
    #[must_use]
    pub const fn value(&self) -> Option<&T> {
        self.slot.as_ref()
    }

    /// Takes the value out, as [`Table::remove_at`] does.
    #[inline(always)]
    pub fn take(self) -> Option<T> {
        let value = self.slot.take();
        self.discard();
        value
    }

    /// Drops the value; the slot is vacant then.
    #[inline(always)]
    pub fn discard(self) {
        *self.slot = None;
        *self.generation = self.generation.wrapping_add(1);
        *self.next = *self.head;
        *self.head = self.index;
        *self.len = self.len.wrapping_sub(1);
    }
}

/// A bounded table of values under handles that expire.
///
/// A value is found by one comparison and one multiplication: all slots are one array. It doubles when all
/// are occupied, which moves the values, and never shrinks: after warm-up, or [`Table::reserve`], nothing
/// is allocated.
///
/// # Examples
///
/// ```
/// let mut table = ofi_pools::Table::new();
/// let key = table.insert("first")?;
/// assert_eq!(table.remove(key), Some("first"));
/// let again = table.insert("second")?;
/// assert_eq!(again.index(), key.index()); // the same slot, warm in the cache
/// assert_eq!(table.get(key), None); // and the old handle does not see it
/// # Ok::<(), ofi_pools::Full<&str>>(())
/// ```
///
/// # Costs
///
/// `insert`, `get`, `remove`: O(1), no search; 8 bytes a slot beside `Option<T>`. Slots are aligned as `A` is,
/// if `T` does not ask for more: see [`CacheLine`].
#[derive(Clone)]
pub struct Table<T, A = u32> {
    entries: Vec<Entry<T, A>>,
    /// The slot vacated last, or NIL.
    head: u32,
    /// The lowest slot never used: it and those above it are on no list.
    fresh: u32,
    len: u32,
    grown: u32,
    max: u32,
}

impl<T, A> Default for Table<T, A> {
    fn default() -> Self {
        Self::aligned(u32::MAX)
    }
}

impl<T, A> fmt::Debug for Table<T, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table")
            .field("len", &self.len)
            .field("high_water", &self.high_water())
            .field("capacity", &self.capacity())
            .field("max", &self.max)
            .finish_non_exhaustive()
    }
}

impl<T> Table<T> {
    /// The largest number of values of any table: 2^32 - 64, so that every number fits an index.
    pub const MAX: u32 = MAX;

    /// An empty table bounded by [`Table::MAX`]; allocates nothing yet.
    #[must_use]
    pub const fn new() -> Self {
        Self::with_max(Self::MAX)
    }

    /// An empty table of at most `max` values (more than [`Table::MAX`] counts as that);
    /// allocates nothing yet.
    #[must_use]
    pub const fn with_max(max: u32) -> Self {
        Self::aligned(max)
    }
}

impl<T, A> Table<T, A> {
    /// As [`Table::with_max`], with slots aligned as `A` is.
    #[must_use]
    pub const fn aligned(max: u32) -> Self {
        let max = if max < MAX { max } else { MAX };
        Self {
            entries: Vec::new(),
            head: NIL,
            fresh: 0,
            len: 0,
            grown: 0,
            max,
        }
    }

    /// Stores `value` in the slot vacated last, or in a new one.
    ///
    /// # Errors
    ///
    /// [`Full`] with the value when the maximum is reached.
    #[inline]
    pub fn insert(&mut self, value: T) -> Result<Key, Full<T>> {
        let max = self.max;
        match self.vacant() {
            Some(vacant) => {
                let key = vacant.key();
                vacant.fill(value);
                Ok(key)
            }
            None => Err(Full { value, max }),
        }
    }

    /// The slot that the next [`Table::insert`] fills, to fill it: for a value that must know its own
    /// key, or that is gone on with in its place. `None` when the table is full. Grows the table if it
    /// has to; a slot that is not filled stays vacant.
    #[inline(always)]
    pub fn vacant(&mut self) -> Option<Vacant<'_, T, A>> {
        if self.head == NIL && !self.refill() {
            return None;
        }
        let index = self.head;
        let entry = self.entries.get_mut(index as usize)?;
        Some(Vacant {
            key: Key::new(index, entry.generation.wrapping_add(1)),
            entry,
            head: &mut self.head,
            len: &mut self.len,
        })
    }

    /// The key that the next successful [`Table::insert`] returns; `None` when the table is full.
    /// Grows the table if it has to.
    #[inline]
    pub fn next_key(&mut self) -> Option<Key> {
        self.vacant().map(|vacant| vacant.key())
    }

    /// The value under `key`, unless it was removed.
    #[inline]
    #[must_use]
    pub fn get(&self, key: Key) -> Option<&T> {
        let entry = self.entries.get(key.index() as usize)?;
        if entry.generation == key.generation() {
            entry.value.as_ref()
        } else {
            None
        }
    }

    /// The value under `key`, to change, unless it was removed.
    #[inline]
    #[must_use]
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let entry = self.entries.get_mut(key.index() as usize)?;
        if entry.generation == key.generation() {
            entry.value.as_mut()
        } else {
            None
        }
    }

    /// Takes the value under `key` out; the key, and all copies of it, then find nothing.
    #[inline]
    pub fn remove(&mut self, key: Key) -> Option<T> {
        let entry = self.entries.get_mut(key.index() as usize)?;
        if entry.generation != key.generation() {
            return None;
        }
        // A vacant slot has an even generation, which a forged key can hold: no value, no change.
        let value = entry.value.take()?;
        entry.generation = entry.generation.wrapping_add(1);
        entry.next = self.head;
        self.head = key.index();
        self.len = self.len.wrapping_sub(1);
        Some(value)
    }

    /// Whether `key` still finds a value.
    #[inline]
    #[must_use]
    pub fn contains(&self, key: Key) -> bool {
        self.get(key).is_some()
    }

    /// The value in slot `index` now, with its key: for whoever knows, by other means, whose it is.
    #[inline]
    #[must_use]
    pub fn at_mut(&mut self, index: u32) -> Option<(Key, &mut T)> {
        let entry = self.entries.get_mut(index as usize)?;
        let key = Key::new(index, entry.generation);
        entry.value.as_mut().map(|value| (key, value))
    }

    /// The occupied slot `index`, to look at its value and then, perhaps, take it out.
    #[inline(always)]
    #[must_use]
    pub fn occupied_at(&mut self, index: u32) -> Option<Occupied<'_, T>> {
        let entry = self.entries.get_mut(index as usize)?;
        entry.value.as_ref()?;
        Some(Occupied {
            index,
            slot: &mut entry.value,
            generation: &mut entry.generation,
            next: &mut entry.next,
            head: &mut self.head,
            len: &mut self.len,
        })
    }

    /// Takes the value in slot `index` out, as [`Table::remove`] does by its key.
    #[inline]
    pub fn remove_at(&mut self, index: u32) -> Option<T> {
        self.occupied_at(index)?.take()
    }

    /// The key of the value in slot `index` now, if the slot is occupied: for walks that must be
    /// resumable while values come and go.
    #[must_use]
    pub fn key_at(&self, index: u32) -> Option<Key> {
        let entry = self.entries.get(index as usize)?;
        entry.value.as_ref()?;
        Some(Key::new(index, entry.generation))
    }

    /// All values with their keys, in slot order. Costs a visit of each slot of the capacity.
    pub fn iter(&self) -> impl Iterator<Item = (Key, &T)> + Clone {
        (0_u32..).zip(&self.entries).filter_map(|(index, entry)| {
            entry
                .value
                .as_ref()
                .map(|value| (Key::new(index, entry.generation), value))
        })
    }

    /// All values with their keys, to change, in slot order. Costs a visit of each slot.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Key, &mut T)> {
        (0_u32..)
            .zip(&mut self.entries)
            .filter_map(|(index, entry)| {
                let generation = entry.generation;
                entry
                    .value
                    .as_mut()
                    .map(|value| (Key::new(index, generation), value))
            })
    }

    /// How many values are in the table.
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// Whether no value is in the table.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many values fit without growing; the indices of all keys are below it.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        // At most `max`, which has 32 bits.
        u32::try_from(self.entries.len()).unwrap_or(self.max)
    }

    /// The bound on the number of values.
    #[must_use]
    pub const fn max(&self) -> u32 {
        self.max
    }

    /// The most values that were in the table at once.
    #[must_use]
    pub fn high_water(&self) -> u32 {
        // A slot is used for the first time when all others are occupied. The last one may be on
        // the list and not be used yet.
        let last = self.fresh.checked_sub(1);
        let unused = last.and_then(|last| self.entries.get(last as usize));
        self.fresh - u32::from(unused.is_some_and(|entry| entry.generation == 0))
    }

    /// How many times memory was allocated for slots.
    #[must_use]
    pub const fn grown(&self) -> u32 {
        self.grown
    }

    /// Grows until at least `count` values fit (or the maximum is reached), so that what follows
    /// allocates nothing. Returns whether `count` values fit.
    pub fn reserve(&mut self, count: u32) -> bool {
        let count_fits = count <= self.max;
        let more = count.min(self.max).saturating_sub(self.capacity());
        if more > 0 {
            self.grow(more);
        }
        count_fits
    }

    /// Puts the lowest slot that was never used on the empty list; false at the maximum.
    #[inline(never)]
    fn refill(&mut self) -> bool {
        let capacity = self.capacity();
        if self.fresh == capacity {
            let more = capacity.max(SLOTS_FIRST).min(self.max - capacity);
            if more == 0 {
                return false;
            }
            self.grow(more);
        }
        self.head = self.fresh;
        self.fresh += 1;
        true
    }

    /// Adds so many vacant slots, which the maximum allows.
    #[cold]
    #[inline(never)]
    fn grow(&mut self, more: u32) {
        let len = self.entries.len() + more as usize;
        self.entries.reserve_exact(more as usize);
        self.entries.resize_with(len, Entry::vacant);
        self.grown += 1;
    }
}
