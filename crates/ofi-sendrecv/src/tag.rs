//! Tag arithmetic (protocol 2c.10).
//!
//! ```text
//! mem_tag_format   0 0 0 1 0 1 0 1 ...      bits = 64 - leading zeros
//!                        |<-- bits --->|
//! a tag                  c t t t t ... t    t: number of the listener, 1..=max
//!                        +------------------ control bit: set in connect messages only
//! ```

use crate::config::ConfigError;
use crate::limits::TAG_BITS_MIN;

/// The tags of one endpoint. Both hosts have to see the same `mem_tag_format` (protocol 2l): the
/// control bit stands above the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TagSpace {
    control: u64,
}

impl TagSpace {
    /// From the provider's `ep_attr.mem_tag_format` (`fi_endpoint(3)`).
    ///
    /// # Errors
    /// [`ConfigError::TagBits`]: fewer than 33 bits are usable.
    pub const fn of(mem_tag_format: u64) -> Result<Self, ConfigError> {
        let bits = u64::BITS - mem_tag_format.leading_zeros();
        if bits < TAG_BITS_MIN {
            return Err(ConfigError::TagBits(bits));
        }
        Ok(Self {
            control: 1 << (bits - 1),
        })
    }

    /// The largest number that a peer may put into a handle: `2^(bits-1) - 1`, cut to the 32 bits that
    /// a handle has.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "compared with the bound first"
    )]
    pub const fn max(self) -> u32 {
        let max = self.control - 1;
        if max < u32::MAX as u64 {
            max as u32
        } else {
            u32::MAX
        }
    }

    /// Whether `tag` can be the number of a listener.
    #[must_use]
    pub const fn holds(self, tag: u32) -> bool {
        tag >= 1 && tag <= self.max()
    }

    /// The tag of the connect message for the listener `tag`.
    #[must_use]
    pub const fn connect(self, tag: u32) -> u64 {
        self.control | tag as u64
    }

    /// The tag of the messages for the listener `tag`.
    #[must_use]
    pub const fn data(self, tag: u32) -> u64 {
        tag as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_control_bit_is_the_top_one_of_the_format() {
        // FI_TAG_GENERIC, what most providers say: all 64 bits.
        let generic = TagSpace::of(0xAAAA_AAAA_AAAA_AAAA).unwrap();
        assert_eq!(generic.connect(1), 0x8000_0000_0000_0001);
        assert_eq!(generic.max(), u32::MAX);
        // 48 bits: max_tag is 2^47 - 1.
        let narrower = TagSpace::of(0x0000_FFFF_0000_FFFF).unwrap();
        assert_eq!(narrower.connect(7), 1 << 47 | 7);
        assert_eq!(narrower.data(7), 7);
    }

    #[test]
    fn thirty_three_bits_are_needed() {
        let least = TagSpace::of(1 << 32).unwrap();
        assert_eq!((least.max(), least.connect(3)), (u32::MAX, 1 << 32 | 3));
        assert_eq!(
            TagSpace::of(u64::from(u32::MAX)),
            Err(ConfigError::TagBits(32))
        );
        assert_eq!(TagSpace::of(0), Err(ConfigError::TagBits(0)));
    }

    #[test]
    fn tag_0_is_nobody() {
        let tags = TagSpace::of(u64::MAX).unwrap();
        assert!(!tags.holds(0) && tags.holds(1) && tags.holds(u32::MAX));
    }
}
