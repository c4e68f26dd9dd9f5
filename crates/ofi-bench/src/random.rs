//! Indices that no prefetcher guesses, for three instructions.

/// A sequence of indices; the same in every run.
#[derive(Clone, Debug)]
pub struct Steps(u64);

impl Steps {
    /// From the start.
    #[must_use]
    pub const fn new() -> Self {
        Self(1)
    }

    /// The next index, below `count` (which is at most 2^31).
    #[must_use]
    #[inline(always)]
    pub fn below(&mut self, count: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d);
        self.0 = self.0.wrapping_add(0x1405_7b7e_f767_814f);
        ((self.0 >> 33) * count) >> 31
    }
}

impl Default for Steps {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::Steps;

    #[test]
    fn indices_are_in_range_and_reach_everything() {
        let mut steps = Steps::new();
        let mut seen = [0_u32; 10];
        for _ in 0..10_000 {
            seen[usize::try_from(steps.below(10)).unwrap()] += 1;
        }
        assert!(seen.iter().all(|n| (800..1200).contains(n)), "{seen:?}");
    }
}
