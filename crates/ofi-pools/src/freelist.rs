//! Equal buffers with stable addresses, carved from blocks that somebody else provides.
//!
//! ```text
//! block 0  [ buffer | buffer | buffer | ... ]   first: registered once, whole pages
//! block 1  [ buffer | buffer ]                  grow:  when all are taken, up to the maximum
//!              ^
//! Slot { index, generation } -place-> Place { block, offset, address, bytes }
//! ```
//!
//! The freelist never touches the bytes and does not know how they were registered: it keeps the
//! numbers. A [`Slot`] is eight bytes, fits a completion context, and is refused once given back.

mod layout;
mod source;

pub use crate::freelist::layout::{BlockLayout, ConfigError, FreelistConfig};
pub use crate::freelist::source::{Block, BlockSource, HeapBlock, HeapBlocks, NotCovered};

use crate::key::Key;
use alloc::vec::Vec;
use core::fmt;

const NIL: u32 = u32::MAX;

/// A buffer taken from a freelist: a copyable name, good until it is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot {
    /// Its generation is odd: no buffer that is not taken has it.
    key: Key,
}

impl Slot {
    /// The number of the buffer: dense from 0, below the capacity of the freelist, the same each
    /// time this buffer is taken. Fit to index a side table.
    #[must_use]
    pub const fn index(self) -> u32 {
        self.key.index()
    }

    /// The slot as one word, for a completion context; never 0 or 1 for a slot that was taken.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        self.key.to_bits()
    }

    /// The inverse of [`Slot::to_bits`]; a word that is no slot is refused where it is used.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        let key = Key::from_bits(bits);
        // Sorted out here, so that those who use a slot need not ask whether it is one.
        let is_one = key.generation() & 1 == 1;
        Self {
            key: if is_one { key } else { Key::new(NIL, 1) },
        }
    }

    /// The slot as a [`Key`].
    #[must_use]
    pub const fn key(self) -> Key {
        self.key
    }
}

/// Where the bytes of a slot are.
#[derive(Debug)]
pub struct Place<'a, B> {
    /// The block that holds them: ask it for descriptor and keys.
    pub block: &'a B,
    /// The number of that block, in order of growth.
    pub block_index: u32,
    /// Bytes from the start of the block: what a provider with offset addressing wants.
    pub offset: usize,
    /// The address of the first byte.
    pub address: usize,
    /// How many bytes belong to the slot: the entry size asked for.
    pub bytes: usize,
}

/// The slot is not taken: it was given back before, or is of another freelist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaleSlot {
    /// The slot given.
    pub slot: Slot,
    /// How many buffers this freelist has.
    pub capacity: u32,
}

impl fmt::Display for StaleSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "buffer {} (generation {}) is not taken from this freelist of {}: it was given back \
             before (a second completion for one post?) or belongs to another freelist",
            self.slot.key.index(),
            self.slot.key.generation(),
            self.capacity
        )
    }
}

impl core::error::Error for StaleSlot {}

#[derive(Debug)]
struct Entry {
    /// Odd while taken.
    generation: u32,
    /// The next buffer on the list; meaningful only while not taken.
    next: u32,
    block: u32,
    /// In units of the smallest alignment (8), so that a block may have 32 GiB.
    offset_units: u32,
}

/// A pool of equal buffers. See the [module](self) for the picture.
///
/// # Examples
///
/// ```
/// use ofi_pools::freelist::HeapBlocks;
/// use ofi_pools::{Freelist, FreelistConfig};
///
/// let mut source = HeapBlocks; // in earnest: allocate pages and register them, once a block
/// let config = FreelistConfig { entry_bytes: 528, first: 64, grow: 16, ..FreelistConfig::default() };
/// let mut list = Freelist::new(config)?;
/// let slot = list.take(&mut source)?.ok_or("at its maximum")?;
/// let place = list.place(slot)?;
/// assert_eq!((place.address % 8, place.bytes), (0, 528));
/// list.give(slot)?;
/// assert!(list.give(slot).is_err()); // twice
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
///
/// # Costs
///
/// `take` and `give` are O(1) and touch 16 bytes; they allocate only when the list grows. The
/// buffer given back last is taken first, while it is still in the cache.
pub struct Freelist<B> {
    entries: Vec<Entry>,
    head: u32,
    len: u32,
    high_water: u32,
    config: FreelistConfig,
    blocks: Vec<(B, usize)>,
}

impl<B> fmt::Debug for Freelist<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Freelist")
            .field("len", &self.len)
            .field("high_water", &self.high_water)
            .field("capacity", &self.entries.len())
            .field("blocks", &self.blocks.len())
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl<B> Freelist<B> {
    /// An empty list; the first block is asked for by the first [`Freelist::take`].
    ///
    /// # Errors
    ///
    /// [`ConfigError`] when the sizes make no sense.
    pub fn new(config: FreelistConfig) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self {
            entries: Vec::new(),
            head: NIL,
            len: 0,
            high_water: 0,
            config,
            blocks: Vec::new(),
        })
    }

    /// Takes the buffer given back last; `None` when all are taken, without growing.
    ///
    /// The bytes are as the last holder left them.
    #[inline]
    pub fn try_take(&mut self) -> Option<Slot> {
        let index = self.head;
        // NIL is beyond the end of any list, so that one check serves for both.
        let entry = self.entries.get_mut(index as usize)?;
        self.head = entry.next;
        entry.generation = entry.generation.wrapping_add(1);
        self.len = self.len.wrapping_add(1);
        self.high_water = self.high_water.max(self.len);
        Some(Slot {
            key: Key::new(index, entry.generation),
        })
    }

    /// Takes a buffer, growing from `source` when all are taken; `None` at the maximum.
    ///
    /// # Errors
    ///
    /// That of the source; the list is then as before, and the next call asks again.
    #[inline]
    pub fn take<S>(&mut self, source: &mut S) -> Result<Option<Slot>, S::Error>
    where
        S: BlockSource<Block = B>,
        B: Block,
        S::Error: From<NotCovered>,
    {
        match self.try_take() {
            Some(slot) => Ok(Some(slot)),
            None => self.grow_and_take(source),
        }
    }

    #[cold]
    #[inline(never)]
    fn grow_and_take<S>(&mut self, source: &mut S) -> Result<Option<Slot>, S::Error>
    where
        S: BlockSource<Block = B>,
        B: Block,
        S::Error: From<NotCovered>,
    {
        let Some(layout) = self.next_block() else {
            return Ok(None);
        };
        let block = source.block(layout.bytes, layout.align)?;
        self.add_block(layout, block)?;
        Ok(self.try_take())
    }

    /// Gives a buffer back.
    ///
    /// # Errors
    ///
    /// [`StaleSlot`]; nothing is changed then.
    #[inline]
    pub fn give(&mut self, slot: Slot) -> Result<(), StaleSlot> {
        match self.entries.get_mut(slot.index() as usize) {
            Some(entry) if entry.is_taken_as(slot) => {
                entry.generation = entry.generation.wrapping_add(1);
                entry.next = self.head;
                self.head = slot.index();
                self.len = self.len.wrapping_sub(1);
                Ok(())
            }
            _ => Err(self.stale(slot)),
        }
    }

    /// Where the bytes of a taken buffer are: stable until the list is dropped.
    ///
    /// # Errors
    ///
    /// [`StaleSlot`].
    #[inline]
    pub fn place(&self, slot: Slot) -> Result<Place<'_, B>, StaleSlot> {
        let entry = match self.entries.get(slot.index() as usize) {
            Some(entry) if entry.is_taken_as(slot) => entry,
            _ => return Err(self.stale(slot)),
        };
        let Some((block, base)) = self.blocks.get(entry.block as usize) else {
            return Err(self.stale(slot));
        };
        let offset = entry.offset_units as usize * layout::UNIT;
        Ok(Place {
            block,
            block_index: entry.block,
            offset,
            address: base.wrapping_add(offset),
            bytes: self.config.entry_bytes,
        })
    }

    /// The slot under which buffer `index` is taken now, if it is.
    #[must_use]
    pub fn taken(&self, index: u32) -> Option<Slot> {
        let entry = self.entries.get(index as usize)?;
        (entry.generation & 1 == 1).then(|| Slot {
            key: Key::new(index, entry.generation),
        })
    }

    /// The block that the list would grow by now; `None` at the maximum. With
    /// [`Freelist::add_block`], growing without a [`BlockSource`]: a caller can let go of its lock
    /// while it registers.
    #[must_use]
    pub fn next_block(&self) -> Option<BlockLayout> {
        self.config.block(self.capacity(), self.blocks.is_empty())
    }

    /// Adds a block of the layout that [`Freelist::next_block`] gave. If the list has grown in
    /// between, the block is added all the same, up to the maximum.
    ///
    /// # Errors
    ///
    /// [`NotCovered`] when the block is smaller than its layout or not aligned to it; it is
    /// dropped.
    pub fn add_block(&mut self, layout: BlockLayout, block: B) -> Result<(), NotCovered>
    where
        B: Block,
    {
        let base = block.address();
        if block.bytes() < layout.bytes || base % layout.align != 0 {
            return Err(NotCovered {
                layout,
                address: base,
                bytes: block.bytes(),
            });
        }
        let (first, number) = (self.capacity(), self.blocks.len());
        let count = layout.entries.min(self.config.room(first));
        let Ok(number) = u32::try_from(number) else {
            return Ok(());
        };
        self.entries.reserve(count as usize);
        for i in 0..count {
            let last = i + 1 == count;
            self.entries.push(Entry {
                generation: 0,
                next: if last { self.head } else { first + i + 1 },
                block: number,
                offset_units: i * self.config.stride_units(),
            });
        }
        if count > 0 {
            self.head = first;
        }
        self.blocks.push((block, base));
        Ok(())
    }

    /// The blocks, in order of growth.
    pub fn blocks(&self) -> impl Iterator<Item = &B> {
        self.blocks.iter().map(|(block, _)| block)
    }

    /// Ends the list and hands its blocks out, to be closed one by one with their errors seen.
    /// Slots still taken are then names of nothing: see that [`Freelist::len`] is 0.
    pub fn into_blocks(self) -> impl Iterator<Item = B> {
        self.blocks.into_iter().map(|(block, _)| block)
    }

    /// How many buffers are taken.
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// Whether no buffer is taken.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many buffers there are, taken or not.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        // `room` keeps the number of entries below 2^32.
        u32::try_from(self.entries.len()).unwrap_or(NIL)
    }

    /// The most buffers that were taken at once.
    #[must_use]
    pub const fn high_water(&self) -> u32 {
        self.high_water
    }

    /// How many times the list grew.
    #[must_use]
    pub fn grown(&self) -> usize {
        self.blocks.len()
    }

    /// What the list was made with.
    #[must_use]
    pub const fn config(&self) -> &FreelistConfig {
        &self.config
    }

    #[cold]
    #[inline(never)]
    fn stale(&self, slot: Slot) -> StaleSlot {
        StaleSlot {
            slot,
            capacity: self.capacity(),
        }
    }
}

impl Entry {
    #[inline]
    const fn is_taken_as(&self, slot: Slot) -> bool {
        self.generation == slot.key.generation()
    }
}
