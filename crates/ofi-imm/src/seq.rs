//! Sequence numbers that wrap: arithmetic modulo 2^`BITS`.
//!
//! There is no order between two of them (each is both before and after the other), so there is
//! no `Ord`; what exists is the distance from one to the other.

use core::fmt;

/// A message sequence number modulo 2^`BITS` (`BITS` in 1..=16).
///
/// Two numbers have a distance, not an order. This does not compile:
///
/// ```compile_fail,E0369
/// use ofi_imm::Seq;
/// let (a, b) = (Seq::ZERO, Seq::ZERO.next());
/// let _ = a < b;
/// ```
///
/// Nor do numbers of different widths mix:
///
/// ```compile_fail,E0308
/// use ofi_imm::{Seq, SerialSeq};
/// let _ = Seq::ZERO.distance(SerialSeq::<3>::ZERO);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SerialSeq<const BITS: u32>(u16);

/// The sequence number of the engine's wire format: 10 bits, wraps at 1024 (protocol 2c.1).
pub type Seq = SerialSeq<10>;

impl<const BITS: u32> SerialSeq<BITS> {
    /// How many numbers there are before they wrap.
    pub const COUNT: u32 = Self::MAX_RAW as u32 + 1;

    /// The largest number, after which zero follows.
    pub const MAX_RAW: u16 = {
        assert!(
            BITS >= 1 && BITS <= 16,
            "a sequence number has 1 to 16 bits"
        );
        u16::MAX >> (16 - BITS)
    };

    /// The first number of a communicator (protocol 2c.1: starts at 0).
    pub const ZERO: Self = Self(0);

    /// A number, or `None` when `raw` does not fit `BITS` bits.
    #[must_use]
    #[inline]
    pub const fn new(raw: u16) -> Option<Self> {
        if raw <= Self::MAX_RAW {
            Some(Self(raw))
        } else {
            None
        }
    }

    /// The number in the lowest `BITS` bits of `word`; what stands above is dropped. Also turns a
    /// running 32-bit count of messages into its number.
    #[must_use]
    #[inline(always)]
    pub const fn from_low_bits(word: u32) -> Self {
        let bytes = word.to_le_bytes();
        Self(u16::from_le_bytes([bytes[0], bytes[1]]) & Self::MAX_RAW)
    }

    /// The plain number, 0..2^`BITS`.
    #[must_use]
    #[inline(always)]
    pub const fn get(self) -> u16 {
        self.0
    }

    /// The number as an index, to be masked down to a window's size.
    #[must_use]
    #[inline(always)]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The number that follows.
    #[must_use]
    #[inline(always)]
    pub const fn next(self) -> Self {
        self.add(1)
    }

    /// The number `n` steps later; any `n`, modulo 2^`BITS`.
    #[must_use]
    #[inline(always)]
    pub const fn add(self, n: u16) -> Self {
        Self(self.0.wrapping_add(n) & Self::MAX_RAW)
    }

    /// How many steps lead from `from` to `self`: 0..2^`BITS`.
    ///
    /// ```
    /// use ofi_imm::Seq;
    /// let last = Seq::new(1023).unwrap();
    /// assert_eq!(last.next().distance(last), 1);
    /// assert_eq!(last.distance(last.next()), 1023);
    /// ```
    #[must_use]
    #[inline(always)]
    pub const fn distance(self, from: Self) -> u16 {
        self.0.wrapping_sub(from.0) & Self::MAX_RAW
    }

    /// Whether `self` is one of the `window` numbers that start at `base`.
    ///
    /// A receiver whose peer may run `window` messages ahead tells new from old by this, as long
    /// as 2 * `window` <= 2^`BITS`.
    #[must_use]
    #[inline(always)]
    pub const fn is_within(self, base: Self, window: u16) -> bool {
        self.distance(base) < window
    }
}

impl<const BITS: u32> fmt::Display for SerialSeq<BITS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
