//! Bounded integers: a value that does not fit its field cannot be built.
//!
//! Each type carries its width, so fields of different layouts do not mix by accident, and
//! encoding needs no check: the check was made where the number came in.

use core::fmt;

/// The largest value of a field of `bits` bits (1..=32).
const fn max32(bits: u32) -> u32 {
    u32::MAX >> (32 - bits)
}

/// Implements what all bounded integers share: the raw value and its plain printing.
macro_rules! bounded {
    ($name:ident, $raw:ty) => {
        impl<const BITS: u32> $name<BITS> {
            /// The plain number.
            #[must_use]
            #[inline(always)]
            pub const fn get(self) -> $raw {
                self.0
            }
        }

        impl<const BITS: u32> fmt::Display for $name<BITS> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

/// A communicator id of `BITS` bits (1..=32).
///
/// In an immediate it names the *receiver's* communicator, in a CTRL message the *sender's*
/// (protocol 2c.1, 2c.4; trap 2 of section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id<const BITS: u32>(u32);

bounded!(Id, u32);

/// The communicator id of the engine's wire format: 18 bits.
///
/// Everything below 2^18 is accepted, since a peer may use any of it. A pool must not hand out
/// [`CommId::INVALID_RAW`] (protocol 2c.1).
pub type CommId = Id<18>;

impl<const BITS: u32> Id<BITS> {
    /// How many ids there are: 2^`BITS`.
    pub const COUNT: u64 = Self::MAX_RAW as u64 + 1;

    /// The largest id that fits the field.
    pub const MAX_RAW: u32 = {
        assert!(BITS >= 1 && BITS <= 32, "an id has 1 to 32 bits");
        max32(BITS)
    };

    /// An id, or `None` when `raw` does not fit `BITS` bits.
    #[must_use]
    #[inline]
    pub const fn new(raw: u32) -> Option<Self> {
        if raw <= Self::MAX_RAW {
            Some(Self(raw))
        } else {
            None
        }
    }

    /// The id in the lowest `BITS` bits of `word`; what stands above is dropped. For decoders of
    /// other messages that hold the same field, after a shift.
    #[must_use]
    #[inline(always)]
    pub const fn from_low_bits(word: u32) -> Self {
        Self(word & Self::MAX_RAW)
    }

    /// The id as an index into a table of [`Id::COUNT`] entries.
    #[must_use]
    #[inline(always)]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl Id<18> {
    /// The local sentinel for "no communicator": never allocated, accepted from a peer like any
    /// other id (protocol 2c.1).
    pub const INVALID_RAW: u32 = 0x3_FFFF;

    /// Whether this is the sentinel: an id which a pool must not hand out.
    #[must_use]
    #[inline(always)]
    pub const fn is_sentinel(self) -> bool {
        self.0 == Self::INVALID_RAW
    }
}

/// The number of segments of a message in a field of `BITS` bits (1..=8): 1..2^`BITS`.
///
/// Zero is no count: a message of zero bytes still is one segment (protocol 2c.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Segs<const BITS: u32>(u8);

bounded!(Segs, u8);

/// The segment count of the engine's wire format: 1..=15.
pub type SegCount = Segs<4>;

impl<const BITS: u32> Segs<BITS> {
    /// The largest count.
    pub const MAX_RAW: u8 = {
        assert!(BITS >= 1 && BITS <= 8, "a segment count has 1 to 8 bits");
        u8::MAX >> (8 - BITS)
    };

    /// One segment: every eager message, every message on one rail.
    pub const ONE: Self = Self(1);

    /// A count, or `None` when `raw` is zero or does not fit `BITS` bits.
    #[must_use]
    #[inline]
    pub const fn new(raw: u8) -> Option<Self> {
        if raw != 0 && raw <= Self::MAX_RAW {
            Some(Self(raw))
        } else {
            None
        }
    }
}

/// The index of a receive within a group, in a field of `BITS` bits (1..=8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Idx<const BITS: u32>(u8);

bounded!(Idx, u8);

/// The receive index of [`Nseg4Recv3Comm15Seq10`](crate::Nseg4Recv3Comm15Seq10): 0..=7.
pub type RecvIdx = Idx<3>;

impl<const BITS: u32> Idx<BITS> {
    /// The largest index.
    pub const MAX_RAW: u8 = {
        assert!(BITS >= 1 && BITS <= 8, "a receive index has 1 to 8 bits");
        u8::MAX >> (8 - BITS)
    };

    /// An index, or `None` when `raw` does not fit `BITS` bits.
    #[must_use]
    #[inline]
    pub const fn new(raw: u8) -> Option<Self> {
        if raw <= Self::MAX_RAW {
            Some(Self(raw))
        } else {
            None
        }
    }

    /// The index in the lowest `BITS` bits; what stands above is dropped.
    #[must_use]
    #[inline(always)]
    pub(crate) const fn from_low_bits(word: u32) -> Self {
        Self(low_byte(word) & Self::MAX_RAW)
    }
}

/// A remote key in a field of `BITS` bits (1..=63).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key<const BITS: u32>(u64);

bounded!(Key, u64);

/// The key of [`Rkey36Comm18Seq10`](crate::Rkey36Comm18Seq10): 36 bits.
pub type Rkey36 = Key<36>;

impl<const BITS: u32> Key<BITS> {
    /// The largest key.
    pub const MAX_RAW: u64 = {
        assert!(BITS >= 1 && BITS <= 63, "a key has 1 to 63 bits");
        u64::MAX >> (64 - BITS)
    };

    /// A key, or `None` when `raw` does not fit `BITS` bits.
    #[must_use]
    #[inline]
    pub const fn new(raw: u64) -> Option<Self> {
        if raw <= Self::MAX_RAW {
            Some(Self(raw))
        } else {
            None
        }
    }

    /// The key in the lowest `BITS` bits; what stands above is dropped.
    #[must_use]
    #[inline(always)]
    pub(crate) const fn from_low_bits(word: u64) -> Self {
        Self(word & Self::MAX_RAW)
    }
}

/// The lowest eight bits of a word.
#[inline(always)]
pub(crate) const fn low_byte(word: u32) -> u8 {
    word.to_le_bytes()[0]
}
