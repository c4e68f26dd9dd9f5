//! The one source of chance: a small generator that gives the same numbers on every machine.

/// `xoshiro256**`, seeded by `splitmix64` (both public domain, Blackman and Vigna).
///
/// # Examples
/// ```
/// let (mut a, mut b) = (ofi_sim::Rng::new(7), ofi_sim::Rng::new(7));
/// assert_eq!(a.next_u64(), b.next_u64());
/// assert!(a.below(10) < 10);
/// ```
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

/// One step of `splitmix64`: a good mix of all 64 bits.
#[must_use]
pub(crate) const fn mix(value: u64) -> u64 {
    let z = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl Rng {
    /// The generator of a seed; every seed is fine, 0 included.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        let a = mix(seed);
        let b = mix(a);
        let c = mix(b);
        Self {
            state: [a, b, c, mix(c) | 1],
        }
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = b.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let (c, d) = (c ^ a, d ^ b);
        self.state = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        result
    }

    /// A number below `bound`; 0 for a bound of 0. The bias is below 2^-32 for bounds below 2^32.
    pub fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.next_u64()) * u128::from(bound);
        u64::try_from(wide >> 64).unwrap_or(0)
    }

    /// A number in `low..=high`; `low` when the range is empty.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }

    /// True `ppm` times in a million. Draws nothing for a rate of 0, so that a fault that is off
    /// costs nothing.
    pub fn chance(&mut self, ppm: u32) -> bool {
        ppm != 0 && self.below(1_000_000) < u64::from(ppm)
    }

    /// A size in `0..=max`, all orders of magnitude alike.
    pub fn magnitude(&mut self, max: u64) -> u64 {
        let bits = u64::from(u64::BITS - max.leading_zeros());
        let top = 1_u64 << self.below(bits + 1).min(63);
        self.below(top.saturating_add(1)).min(max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_splitmix_vector_holds() {
        // First output of splitmix64 for state 0, as the authors' reference code prints it.
        assert_eq!(mix(0), 0xE220_A839_7B1D_CDAF);
    }

    #[test]
    fn numbers_stay_in_range_and_reach_both_ends() {
        let mut rng = Rng::new(1);
        let mut seen = [false; 6];
        for _ in 0..1000 {
            let n = rng.between(5, 10);
            assert!((5..=10).contains(&n));
            seen[usize::try_from(n - 5).unwrap()] = true;
            assert!(rng.magnitude(100) <= 100);
        }
        assert_eq!(seen, [true; 6]);
        assert_eq!(rng.below(0), 0);
        assert_eq!(rng.magnitude(0), 0);
    }

    #[test]
    fn chances_hit_about_as_often_as_asked() {
        let mut rng = Rng::new(2);
        let hits = (0..100_000).filter(|_| rng.chance(100_000)).count();
        assert!(
            (9_000..11_000).contains(&hits),
            "{hits} of 100000 at a rate of one in ten"
        );
        assert!(!(0..1000).any(|_| rng.chance(0)));
        assert!((0..1000).all(|_| rng.chance(1_000_000)));
    }
}
