//! A generational slab: values that stay where they are, under handles that expire with them.
//!
//! ```text
//! blocks -> [ 64 slots ] [ 64 slots ] ...      a block never moves and is never given back
//!              slot = { value, generation, next }
//! head -> last slot vacated -> the one before -> ... -> NIL      (LIFO: the warm one first)
//! fresh -> the lowest slot that was never used                   (taken when the list is empty)
//! ```

use crate::key::Key;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

const BLOCK_SHIFT: u32 = 6;
const BLOCK_SLOTS: u32 = 1 << BLOCK_SHIFT;
const BLOCK_LEN: usize = 1 << BLOCK_SHIFT;
const BLOCK_MASK: usize = BLOCK_LEN - 1;
const NIL: u32 = u32::MAX;

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

struct Entry<T> {
    value: Option<T>,
    /// Odd while `value` is `Some`.
    generation: u32,
    /// The next vacant slot, or NIL; meaningful only while vacant.
    next: u32,
}

impl<T> Entry<T> {
    const fn vacant() -> Self {
        Self {
            value: None,
            generation: 0,
            next: NIL,
        }
    }
}

type Block<T> = Box<[Entry<T>; BLOCK_LEN]>;

/// A bounded table of values with stable addresses and handles that expire.
///
/// The memory grows by blocks of 64 slots when all are occupied, and never shrinks: a value does
/// not move between `insert` and `remove`, and after warm-up nothing is allocated.
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
/// `insert`, `get`, `remove`: O(1), no search; 8 bytes a slot beside `Option<T>`.
pub struct Table<T> {
    blocks: Vec<Block<T>>,
    /// The slot vacated last, or NIL.
    head: u32,
    /// The lowest slot never used: it and those above it are on no list.
    fresh: u32,
    len: u32,
    high_water: u32,
    capacity: u32,
    max: u32,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for Table<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table")
            .field("len", &self.len)
            .field("high_water", &self.high_water)
            .field("capacity", &self.capacity)
            .field("max", &self.max)
            .finish_non_exhaustive()
    }
}

impl<T> Table<T> {
    /// The largest number of values of any table: 2^32 - 64, so that every number fits an index.
    pub const MAX: u32 = u32::MAX - (BLOCK_SLOTS - 1);

    /// An empty table bounded by [`Table::MAX`]; allocates nothing yet.
    #[must_use]
    pub const fn new() -> Self {
        Self::with_max(Self::MAX)
    }

    /// An empty table of at most `max` values (more than [`Table::MAX`] counts as that);
    /// allocates nothing yet.
    #[must_use]
    pub const fn with_max(max: u32) -> Self {
        let max = if max < Self::MAX { max } else { Self::MAX };
        Self {
            blocks: Vec::new(),
            head: NIL,
            fresh: 0,
            len: 0,
            high_water: 0,
            capacity: 0,
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
        self.insert_mut(value).map(|(key, _)| key)
    }

    /// As [`Table::insert`], and gives the value in its place, to go on with.
    ///
    /// # Errors
    ///
    /// [`Full`] with the value when the maximum is reached.
    #[inline]
    pub fn insert_mut(&mut self, value: T) -> Result<(Key, &mut T), Full<T>> {
        let max = self.max;
        if self.head == NIL && !self.refill() {
            return Err(Full { value, max });
        }
        let index = self.head;
        let Some(entry) = entry_mut(&mut self.blocks, index) else {
            return Err(Full { value, max });
        };
        self.head = entry.next;
        entry.generation = entry.generation.wrapping_add(1);
        self.len = self.len.wrapping_add(1);
        self.high_water = self.high_water.max(self.len);
        let key = Key::new(index, entry.generation);
        Ok((key, entry.value.insert(value)))
    }

    /// The key that the next successful [`Table::insert`] returns, for a value that must know its
    /// own handle; `None` when the table is full. Grows the table if it has to.
    #[inline]
    pub fn next_key(&mut self) -> Option<Key> {
        if self.head == NIL && !self.refill() {
            return None;
        }
        let entry = entry_ref(&self.blocks, self.head)?;
        Some(Key::new(self.head, entry.generation.wrapping_add(1)))
    }

    /// The value under `key`, unless it was removed.
    #[inline]
    #[must_use]
    pub fn get(&self, key: Key) -> Option<&T> {
        let entry = entry_ref(&self.blocks, key.index())?;
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
        let entry = entry_mut(&mut self.blocks, key.index())?;
        if entry.generation == key.generation() {
            entry.value.as_mut()
        } else {
            None
        }
    }

    /// Takes the value under `key` out; the key, and all copies of it, then find nothing.
    #[inline]
    pub fn remove(&mut self, key: Key) -> Option<T> {
        let entry = entry_mut(&mut self.blocks, key.index())?;
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
        let entry = entry_mut(&mut self.blocks, index)?;
        let key = Key::new(index, entry.generation);
        entry.value.as_mut().map(|value| (key, value))
    }

    /// Takes the value in slot `index` out, as [`Table::remove`] does by its key.
    #[inline]
    pub fn remove_at(&mut self, index: u32) -> Option<T> {
        let entry = entry_mut(&mut self.blocks, index)?;
        let value = entry.value.take()?;
        entry.generation = entry.generation.wrapping_add(1);
        entry.next = self.head;
        self.head = index;
        self.len = self.len.wrapping_sub(1);
        Some(value)
    }

    /// The key of the value in slot `index` now, if the slot is occupied: for walks that must be
    /// resumable while values come and go.
    #[must_use]
    pub fn key_at(&self, index: u32) -> Option<Key> {
        let entry = entry_ref(&self.blocks, index)?;
        entry.value.as_ref()?;
        Some(Key::new(index, entry.generation))
    }

    /// All values with their keys, in slot order. Costs a visit of each slot of the capacity.
    pub fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        let entries = self.blocks.iter().flat_map(|block| block.iter());
        (0_u32..).zip(entries).filter_map(|(index, entry)| {
            entry
                .value
                .as_ref()
                .map(|value| (Key::new(index, entry.generation), value))
        })
    }

    /// All values with their keys, to change, in slot order. Costs a visit of each slot.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Key, &mut T)> {
        let entries = self.blocks.iter_mut().flat_map(|block| block.iter_mut());
        (0_u32..).zip(entries).filter_map(|(index, entry)| {
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
    pub const fn capacity(&self) -> u32 {
        self.capacity
    }

    /// The bound on the number of values.
    #[must_use]
    pub const fn max(&self) -> u32 {
        self.max
    }

    /// The most values that were in the table at once.
    #[must_use]
    pub const fn high_water(&self) -> u32 {
        self.high_water
    }

    /// How many times memory was allocated for slots.
    #[must_use]
    pub fn grown(&self) -> usize {
        self.blocks.len()
    }

    /// Grows until at least `count` values fit (or the maximum is reached), so that what follows
    /// allocates nothing. Returns whether `count` values fit.
    pub fn reserve(&mut self, count: u32) -> bool {
        while self.capacity < count {
            if !self.grow() {
                return false;
            }
        }
        true
    }

    /// Puts the lowest slot that was never used on the empty list; false at the maximum.
    #[inline(never)]
    fn refill(&mut self) -> bool {
        if self.fresh == self.capacity && !self.grow() {
            return false;
        }
        self.head = self.fresh;
        self.fresh += 1;
        true
    }

    /// Adds one block of vacant slots; false at the maximum.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) -> bool {
        let fresh = BLOCK_SLOTS.min(self.max.saturating_sub(self.capacity));
        if fresh == 0 {
            return false;
        }
        // Slots beyond the maximum exist in the last block, but `fresh` never reaches them.
        let block: Vec<Entry<T>> = core::iter::repeat_with(Entry::vacant)
            .take(BLOCK_LEN)
            .collect();
        let Ok(block) = Block::<T>::try_from(block.into_boxed_slice()) else {
            return false;
        };
        self.blocks.push(block);
        self.capacity += fresh;
        true
    }
}

#[inline]
fn entry_ref<T>(blocks: &[Block<T>], index: u32) -> Option<&Entry<T>> {
    let block = blocks.get((index >> BLOCK_SHIFT) as usize)?;
    Some(&block[index as usize & BLOCK_MASK])
}

#[inline]
fn entry_mut<T>(blocks: &mut [Block<T>], index: u32) -> Option<&mut Entry<T>> {
    let block = blocks.get_mut((index >> BLOCK_SHIFT) as usize)?;
    Some(&mut block[index as usize & BLOCK_MASK])
}
