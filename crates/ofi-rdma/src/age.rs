//! How old a request is, for people: counted from the first look of the stall detector, so that starting a
//! request costs nothing for it. It lies in the request, so that looking allocates nothing.

/// When a request was first looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Age(
    /// The low half of milliseconds, at least 1; 0: not yet. 2^32 ms are 49 days.
    u32,
);

const fn low(ms: u64) -> u32 {
    let [a, b, c, d, ..] = ms.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

impl Age {
    /// Of a request that no look has seen.
    pub const UNSEEN: Self = Self(0);

    /// The request is there at `now_ms`: from the first look on it ages.
    pub const fn look(&mut self, now_ms: u64) {
        if self.0 == 0 {
            let seen = low(now_ms);
            self.0 = if seen == 0 { 1 } else { seen };
        }
    }

    /// How old the request is at least, milliseconds; 0 for one that no look has seen.
    #[must_use]
    pub const fn ms(self, now_ms: u64) -> u64 {
        if self.0 == 0 {
            return 0;
        }
        // Seen at 0 ms is told as seen 1 ms later.
        let old = low(now_ms).wrapping_sub(self.0);
        if old == u32::MAX { 0 } else { old as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_counts_from_the_first_look() {
        let mut age = Age::UNSEEN;
        assert_eq!(age.ms(100), 0);
        age.look(1000);
        age.look(1500);
        assert_eq!((age.ms(1000), age.ms(4000)), (0, 3000));
    }

    #[test]
    fn the_clock_may_begin_at_0_and_pass_32_bits() {
        let mut first = Age::UNSEEN;
        first.look(0);
        assert_eq!((first.ms(0), first.ms(1), first.ms(11)), (0, 0, 10));
        let mut late = Age::UNSEEN;
        late.look(0xFFFF_FFFF);
        assert_eq!(late.ms(0x1_0000_0009), 10);
        let mut wrapped = Age::UNSEEN;
        wrapped.look(0x1_0000_0000);
        assert_eq!(wrapped.ms(0x1_0000_0005), 4);
    }
}
