//! How many buffers a block has, and how large it is (protocol 2g.5).

use core::fmt;

/// Offsets are multiples of this: the smallest alignment of a buffer.
pub(super) const UNIT: usize = 8;

/// What a freelist is made of. All counts are in buffers, all sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreelistConfig {
    /// Bytes of one buffer, at least 1. The distance between buffers is this, rounded up to the
    /// alignment.
    pub entry_bytes: usize,
    /// Alignment of each buffer: a power of two; less than 8 counts as 8.
    pub align: usize,
    /// Blocks start at a multiple of this and are a multiple of it long: a power of two, the page
    /// size of the system for blocks that are registered (a registration that shares its page with
    /// something else is not safe across fork), 8 for those that are not.
    pub page: usize,
    /// Buffers of the first block, at least 1. Enlarged so that its pages are filled.
    pub first: u32,
    /// Buffers of each further block, at least 1. Enlarged in the same way.
    pub grow: u32,
    /// The most buffers there may ever be; `None` for as many as an index can name.
    pub max: Option<u32>,
}

impl Default for FreelistConfig {
    /// Buffers of 64 bytes, 16 at a time, aligned to 8, in pages of 4096, without a maximum.
    fn default() -> Self {
        Self {
            entry_bytes: 64,
            align: UNIT,
            page: 4096,
            first: 16,
            grow: 16,
            max: None,
        }
    }
}

/// The next block of a freelist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockLayout {
    /// Its length: a multiple of the page size.
    pub bytes: usize,
    /// The alignment of its first byte.
    pub align: usize,
    /// How many buffers it holds.
    pub entries: u32,
}

/// The configuration of a freelist makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// `entry_bytes`, `first` or `grow` is 0.
    Zero,
    /// `align` or `page` is not a power of two.
    NotPowerOfTwo {
        /// The alignment given.
        align: usize,
        /// The page size given.
        page: usize,
    },
    /// A block would be larger than 32 GiB or than an address can name.
    TooLarge {
        /// The buffer size given.
        entry_bytes: usize,
        /// The larger of `first` and `grow`.
        entries: u32,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Zero => f.write_str("freelist: entry_bytes, first and grow must be at least 1"),
            Self::NotPowerOfTwo { align, page } => write!(
                f,
                "freelist: alignment {align} and page size {page} must both be powers of two"
            ),
            Self::TooLarge {
                entry_bytes,
                entries,
            } => write!(
                f,
                "freelist: a block of {entries} buffers of {entry_bytes} bytes passes the limit of \
                 32 GiB; use fewer buffers a block"
            ),
        }
    }
}

impl core::error::Error for ConfigError {}

impl FreelistConfig {
    /// The distance between two buffers, in bytes, where it can be named.
    fn stride(&self) -> Option<usize> {
        self.entry_bytes
            .checked_next_multiple_of(self.align.max(UNIT))
    }

    /// The distance between two buffers in units; `check` has seen that it fits.
    pub(super) fn stride_units(&self) -> u32 {
        self.stride()
            .and_then(|bytes| u32::try_from(bytes / UNIT).ok())
            .unwrap_or(0)
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        if self.entry_bytes == 0 || self.first == 0 || self.grow == 0 {
            return Err(ConfigError::Zero);
        }
        if !self.align.is_power_of_two() || !self.page.is_power_of_two() {
            return Err(ConfigError::NotPowerOfTwo {
                align: self.align,
                page: self.page,
            });
        }
        let entries = self.first.max(self.grow);
        match self.sized(entries, u32::MAX) {
            Some(layout) if u32::try_from(layout.bytes / UNIT).is_ok() => Ok(()),
            _ => Err(ConfigError::TooLarge {
                entry_bytes: self.entry_bytes,
                entries,
            }),
        }
    }

    /// How many more buffers may be added to `capacity` of them.
    pub(super) fn room(&self, capacity: u32) -> u32 {
        // u32::MAX itself is the end of the list, and no index.
        self.max
            .unwrap_or(u32::MAX - 1)
            .min(u32::MAX - 1)
            .saturating_sub(capacity)
    }

    /// The block to add to `capacity` buffers; `None` at the maximum.
    pub(super) fn block(&self, capacity: u32, is_first: bool) -> Option<BlockLayout> {
        let room = self.room(capacity);
        let wanted = if is_first { self.first } else { self.grow };
        if room == 0 {
            None
        } else {
            self.sized(wanted.min(room), room)
        }
    }

    /// Whole pages for `wanted` buffers, filled with up to `room` of them.
    fn sized(&self, wanted: u32, room: u32) -> Option<BlockLayout> {
        let stride = self.stride()?;
        let page = self.page.max(UNIT);
        let bytes = stride
            .checked_mul(wanted as usize)?
            .checked_next_multiple_of(page)?;
        let entries = u32::try_from(bytes / stride).unwrap_or(u32::MAX).min(room);
        Some(BlockLayout {
            bytes,
            align: page.max(self.align),
            entries,
        })
    }
}
