//! Numbers for the wire: the lowest that is free, and none again before it has rested.
//!
//! ```text
//!            alloc: lowest rested id, else the next fresh one, else the longest resting one
//!   fresh --------------> live --free--> resting (FIFO of `quarantine` ids) --> rested (bitmap)
//!   (never used)           ^                                                       |
//!                          +-------------------------------------------------------+
//! ```
//!
//! A message of a dead peer can carry the id of a communicator that is gone. As long as the id
//! rests, the message finds nobody and is dropped; an id handed out again at once (as the
//! lowest-free-first pool of protocol 2g.3 does) would deliver it to a stranger. And because rested
//! ids are taken before fresh ones, a table indexed by id stays as small as the most ids in use at
//! once plus the quarantine.

mod bitmap;

use crate::idpool::bitmap::Bitmap;
use alloc::vec::Vec;
use core::fmt;

const NIL: u32 = u32::MAX;

/// An id and the generation of its number: two uses of one number differ in the generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Id {
    /// The number, below the capacity of the pool: this goes on the wire.
    pub raw: u32,
    /// Odd, and different for each use of `raw` (until 2^31 uses later): kept locally.
    pub generation: u32,
}

/// Why the pool refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdError {
    /// A pool cannot have so many ids.
    Capacity {
        /// What was asked for.
        capacity: u32,
    },
    /// The number is not one of this pool.
    OutOfRange {
        /// The number given.
        raw: u32,
        /// The pool holds `0..capacity`.
        capacity: u32,
    },
    /// The number is not in use: freed before, never handed out, or reserved.
    NotAllocated {
        /// The number given.
        raw: u32,
    },
    /// The number is in use, but by someone else: the caller's id was freed before.
    Stale {
        /// The id given.
        id: Id,
        /// The generation that is in use now.
        current: u32,
    },
    /// The number was handed out already, so it can no longer be kept from use.
    AlreadyUsed {
        /// The number given.
        raw: u32,
    },
}

impl fmt::Display for IdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Capacity { capacity } => write!(
                f,
                "id pool of {capacity} ids: at most {} are possible, the width of an id on the \
                 wire is 18 bits",
                IdPool::CAPACITY_MAX
            ),
            Self::OutOfRange { raw, capacity } => write!(
                f,
                "id {raw} is not of this pool, which holds 0..{capacity}: it comes from another \
                 pool or from a corrupt handle"
            ),
            Self::NotAllocated { raw } => write!(
                f,
                "id {raw} is not allocated: it was freed before, or never handed out; its owner \
                 frees it twice"
            ),
            Self::Stale { id, current } => write!(
                f,
                "id {} of generation {} was freed before; the number now belongs to generation \
                 {current}",
                id.raw, id.generation
            ),
            Self::AlreadyUsed { raw } => {
                write!(
                    f,
                    "id {raw} cannot be reserved: it was handed out already; reserve first"
                )
            }
        }
    }
}

impl core::error::Error for IdError {}

#[derive(Clone, Debug)]
struct Entry {
    /// Odd while the id is live.
    generation: u32,
    /// The id that began to rest next; meaningful only while resting.
    next: u32,
}

/// A pool of the numbers `0..capacity`.
///
/// # Examples
///
/// ```
/// use ofi_pools::IdPool;
///
/// let mut pool = IdPool::new(1 << 18, 2)?;
/// let (a, b) = (pool.alloc().ok_or("none")?, pool.alloc().ok_or("none")?);
/// assert_eq!((a.raw, b.raw), (0, 1));
/// pool.free(a.raw)?;
/// assert_eq!(pool.alloc().map(|id| id.raw), Some(2)); // 0 rests
/// assert!(pool.free(a.raw).is_err()); // twice
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
///
/// # Costs
///
/// `alloc` and `free` are O(1): three words of a 64-ary bitmap, at any fill. Memory: 8.1 bytes for
/// each number used so far, 600 for the pool.
#[derive(Clone, Debug)]
pub struct IdPool {
    /// Free ids below `fresh`: those that have rested.
    rested: Bitmap,
    /// One for each id below `fresh`.
    entries: Vec<Entry>,
    /// The longest resting id, from which the others are linked, and the last; NIL when none is.
    first_resting: u32,
    last_resting: u32,
    resting: usize,
    /// Numbers kept from use that `fresh` has not passed yet; descending.
    reserved: Vec<u32>,
    fresh: u32,
    capacity: u32,
    quarantine: usize,
    live: u32,
    high_water: u32,
}

impl IdPool {
    /// The largest capacity: ids have 18 bits on the wire (protocol 2c.1).
    pub const CAPACITY_MAX: u32 = 1 << 18;

    /// The id that is never handed out: all ones in 18 bits, which peers read as "no id".
    pub const NEVER: u32 = Self::CAPACITY_MAX - 1;

    /// A pool of the ids `0..capacity`, of which [`IdPool::NEVER`] is reserved. A freed id becomes
    /// free again when `quarantine` others were freed after it; with 0, at once.
    ///
    /// # Errors
    ///
    /// [`IdError::Capacity`] above [`IdPool::CAPACITY_MAX`].
    pub fn new(capacity: u32, quarantine: usize) -> Result<Self, IdError> {
        if capacity > Self::CAPACITY_MAX {
            return Err(IdError::Capacity { capacity });
        }
        Ok(Self {
            // NEVER is the last number, so leaving it out needs no entry in `reserved`.
            capacity: capacity.min(Self::NEVER),
            ..Self::full(quarantine)
        })
    }

    /// The pool for communicators: every id of 18 bits but [`IdPool::NEVER`].
    #[must_use]
    pub fn full(quarantine: usize) -> Self {
        Self {
            rested: Bitmap::new(),
            entries: Vec::new(),
            first_resting: NIL,
            last_resting: NIL,
            resting: 0,
            reserved: Vec::new(),
            fresh: 0,
            capacity: Self::NEVER,
            quarantine,
            live: 0,
            high_water: 0,
        }
    }

    /// Keeps `raw` from ever being handed out. Reserving it twice is the same as once.
    ///
    /// # Errors
    ///
    /// [`IdError::AlreadyUsed`] when it was handed out before, [`IdError::OutOfRange`] when it is
    /// not of this pool.
    pub fn reserve(&mut self, raw: u32) -> Result<(), IdError> {
        if raw >= self.capacity {
            return Err(IdError::OutOfRange {
                raw,
                capacity: self.capacity,
            });
        }
        if raw < self.fresh {
            return Err(IdError::AlreadyUsed { raw });
        }
        if let Err(at) = self.reserved.binary_search_by(|other| raw.cmp(other)) {
            self.reserved.insert(at, raw);
        }
        Ok(())
    }

    /// The lowest id that is free and not resting; when there is none, the one that has rested
    /// longest; `None` when all are in use.
    #[inline]
    pub fn alloc(&mut self) -> Option<Id> {
        let raw = match self.rested.take_lowest() {
            Some(raw) => raw,
            None => self.fresh_or_resting()?,
        };
        let entry = self.entries.get_mut(raw as usize)?;
        entry.generation = entry.generation.wrapping_add(1);
        self.live = self.live.wrapping_add(1);
        self.high_water = self.high_water.max(self.live);
        Some(Id {
            raw,
            generation: entry.generation,
        })
    }

    fn fresh_or_resting(&mut self) -> Option<u32> {
        while self.fresh < self.capacity {
            let raw = self.fresh;
            self.fresh += 1;
            self.entries.push(Entry {
                generation: 0,
                next: NIL,
            });
            if self.reserved.last() == Some(&raw) {
                self.reserved.pop();
            } else {
                return Some(raw);
            }
        }
        self.longest_resting()
    }

    /// Gives `raw` back; it rests.
    ///
    /// # Errors
    ///
    /// [`IdError::OutOfRange`] and [`IdError::NotAllocated`]; the pool is then unchanged.
    #[inline]
    pub fn free(&mut self, raw: u32) -> Result<(), IdError> {
        match self.entries.get_mut(raw as usize) {
            Some(entry) if entry.generation & 1 == 1 => {
                entry.generation = entry.generation.wrapping_add(1);
                self.live = self.live.wrapping_sub(1);
                self.rest(raw);
                Ok(())
            }
            _ if raw >= self.capacity => Err(IdError::OutOfRange {
                raw,
                capacity: self.capacity,
            }),
            _ => Err(IdError::NotAllocated { raw }),
        }
    }

    /// Gives exactly `id` back: unlike [`IdPool::free`], not the later use of its number.
    ///
    /// # Errors
    ///
    /// Those of [`IdPool::free`], and [`IdError::Stale`]; the pool is then unchanged.
    pub fn free_exact(&mut self, id: Id) -> Result<(), IdError> {
        match self.generation(id.raw) {
            Some(current) if current != id.generation => Err(IdError::Stale { id, current }),
            _ => self.free(id.raw),
        }
    }

    #[inline]
    fn rest(&mut self, raw: u32) {
        if self.quarantine == 0 {
            self.rested.insert(raw);
            return;
        }
        if self.resting >= self.quarantine {
            if let Some(rested) = self.longest_resting() {
                self.rested.insert(rested);
            }
        }
        // With none resting, `last_resting` is NIL or old; the list then starts anew.
        match self.entries.get_mut(self.last_resting as usize) {
            Some(last) if self.resting > 0 => last.next = raw,
            _ => self.first_resting = raw,
        }
        self.last_resting = raw;
        self.resting = self.resting.wrapping_add(1);
    }

    /// Takes the id that has rested longest off the list.
    #[inline]
    fn longest_resting(&mut self) -> Option<u32> {
        if self.resting == 0 {
            return None;
        }
        let raw = self.first_resting;
        self.first_resting = self.entries.get(raw as usize)?.next;
        self.resting = self.resting.wrapping_sub(1);
        Some(raw)
    }

    /// Whether `raw` is handed out now.
    #[inline]
    #[must_use]
    pub fn is_live(&self, raw: u32) -> bool {
        self.generation(raw).is_some()
    }

    /// The generation under which `raw` is handed out now.
    #[inline]
    #[must_use]
    pub fn generation(&self, raw: u32) -> Option<u32> {
        let generation = self.entries.get(raw as usize)?.generation;
        (generation & 1 == 1).then_some(generation)
    }

    /// How many ids are handed out.
    #[must_use]
    pub const fn live(&self) -> u32 {
        self.live
    }

    /// The most ids that were handed out at once.
    #[must_use]
    pub const fn high_water(&self) -> u32 {
        self.high_water
    }

    /// How many freed ids rest, and are taken only when nothing else is left.
    #[must_use]
    pub const fn resting(&self) -> usize {
        self.resting
    }

    /// All ids ever handed out are below this: the size that a table indexed by id needs.
    #[must_use]
    pub const fn watermark(&self) -> u32 {
        self.fresh
    }

    /// The pool holds the ids below this, less the reserved ones.
    #[must_use]
    pub const fn capacity(&self) -> u32 {
        self.capacity
    }
}
