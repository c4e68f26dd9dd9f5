//! How many rails a message may use.

use core::fmt;
use core::num::NonZeroU8;

/// The most rails that a schedule spreads over.
///
/// BASE knows at most 4 (protocol 2c.3) and counts segments in four bits, so that a wire with its
/// immediate word takes 15: whoever offers 16 rails needs a wider count.
pub const MAX_RAILS: usize = 16;

/// A number of rails, 1..=[`MAX_RAILS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RailCount(NonZeroU8);

impl RailCount {
    /// One rail.
    pub const ONE: Self = Self(NonZeroU8::MIN);

    /// [`MAX_RAILS`] rails.
    pub const MAX: Self = Self(NonZeroU8::MIN.saturating_add(15));

    /// A count, or `None` when `count` is 0 or above [`MAX_RAILS`].
    #[must_use]
    pub const fn new(count: u8) -> Option<Self> {
        match NonZeroU8::new(count) {
            Some(rails) if count as usize <= MAX_RAILS => Some(Self(rails)),
            _ => None,
        }
    }

    /// The plain number, 1..=16.
    #[must_use]
    #[inline(always)]
    pub const fn get(self) -> u8 {
        self.0.get()
    }

    /// `rail` brought into range, modulo the count. Free where it is in range already, which it
    /// always is unless the count has shrunk since.
    #[inline(always)]
    pub(crate) const fn wrap(self, rail: u8) -> u8 {
        let mut rail = rail;
        while rail >= self.get() {
            rail -= self.get();
        }
        rail
    }
}

const _: () = assert!(
    RailCount::MAX.get() as usize == MAX_RAILS,
    "the two limits are one"
);

impl fmt::Display for RailCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
