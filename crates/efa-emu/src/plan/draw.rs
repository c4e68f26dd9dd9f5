//! Chance without state: the n-th draw of a stream is a function of the stream's key and n.
//!
//! So what happens to the n-th operation does not depend on how many draws other streams made
//! before, that is, on how threads and processes took turns.

/// One step of `splitmix64` (public domain, Vigna): a good mix of all 64 bits.
const fn mix(value: u64) -> u64 {
    let z = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// One stream of random numbers, addressed by position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Stream {
    key: u64,
}

impl Stream {
    /// The stream that these numbers name; the order of the names counts.
    pub(super) fn named(names: [u64; 4]) -> Self {
        let fold = |key, name| mix(mix(key) ^ mix(name).rotate_left(32));
        Self {
            key: names.into_iter().fold(0x0EFA, fold),
        }
    }

    /// 64 random bits at position `n`.
    pub(super) const fn bits(self, n: u64) -> u64 {
        mix(self.key ^ mix(n))
    }

    /// A number in `low..=high` at position `n`; `low` when the range is empty.
    pub(super) fn between(self, n: u64, low: u64, high: u64) -> u64 {
        let span = u128::from(high.saturating_sub(low)) + 1;
        let wide = u128::from(self.bits(n)) * span;
        // Below the span, which is at most 2^64.
        low + u64::try_from(wide >> 64).unwrap_or(0)
    }

    /// True `ppm` times in a million.
    pub(super) fn chance(self, n: u64, ppm: u32) -> bool {
        self.between(n, 0, 999_999) < u64::from(ppm)
    }

    /// Exponentially distributed around `mean`, in whole numbers only, so that every machine draws
    /// the same: the logarithm is linear between powers of two, which is off by 4 % at most.
    pub(super) fn exponential(self, n: u64, mean: u64) -> u64 {
        let bits = self.bits(n) | 1;
        let zeros = u64::from(bits.leading_zeros());
        let fraction = (bits << zeros << 1) >> 32;
        // -log2 of the number in units of 2^-32; its mean is 1.5.
        let halvings = ((zeros + 1) << 32) - fraction;
        let scaled = (u128::from(halvings) * u128::from(mean) * 2 / 3) >> 32;
        u64::try_from(scaled).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::{Stream, mix};

    const ONE: [u64; 4] = [1, 2, 3, 4];

    #[test]
    fn the_published_splitmix_vector_holds() {
        // First output for state 0, as the author's reference code prints it.
        assert_eq!(mix(0), 0xE220_A839_7B1D_CDAF);
    }

    #[test]
    fn every_part_of_the_name_makes_another_stream() {
        let base = Stream::named(ONE);
        for i in 0..4 {
            let mut other = ONE;
            other[i] += 1;
            assert_ne!(Stream::named(other).bits(0), base.bits(0), "{i}");
        }
        assert_ne!(
            Stream::named([2, 1, 3, 4]).bits(0),
            base.bits(0),
            "order counts"
        );
        assert_eq!(Stream::named(ONE).bits(77), base.bits(77));
    }

    #[test]
    fn ranges_are_kept_and_both_ends_reached() {
        let stream = Stream::named(ONE);
        let drawn: Vec<u64> = (0..1000).map(|n| stream.between(n, 5, 9)).collect();
        assert!(drawn.iter().all(|d| (5..=9).contains(d)));
        assert!(drawn.contains(&5) && drawn.contains(&9));
        assert_eq!(stream.between(3, 8, 2), 8);
        assert_eq!(
            stream.between(3, 0, u64::MAX),
            stream.bits(3),
            "the whole range"
        );
    }

    #[test]
    fn chances_hit_about_as_often_as_asked() {
        let stream = Stream::named(ONE);
        let hits = (0..100_000).filter(|n| stream.chance(*n, 100_000)).count();
        assert!((9_000..11_000).contains(&hits), "{hits}");
        assert!(!(0..1000).any(|n| stream.chance(n, 0)));
        assert!((0..1000).all(|n| stream.chance(n, 1_000_000)));
    }

    #[test]
    fn exponential_draws_have_the_mean_and_the_tail() {
        let stream = Stream::named(ONE);
        let drawn: Vec<u64> = (0..100_000)
            .map(|n| stream.exponential(n, 10_000))
            .collect();
        let mean = drawn.iter().sum::<u64>() / 100_000;
        assert!((9_800..10_200).contains(&mean), "{mean}");
        let above_three = drawn.iter().filter(|d| **d > 30_000).count();
        // e^-3 of them: 4979.
        assert!((4_000..6_000).contains(&above_three), "{above_three}");
        assert_eq!(stream.exponential(0, 0), 0);
    }
}
