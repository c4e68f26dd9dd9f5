//! Numbers that both ends of a connection draw alike.

use crate::size::MAX_BYTES;

/// A well-mixed number from any number (splitmix64's finaliser).
pub(crate) const fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A sequence of numbers that is one rank's own.
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(mix(seed))
    }

    pub(crate) const fn roll(&mut self) -> u64 {
        self.0 = mix(self.0);
        self.0
    }

    /// 0 to `n - 1`; 0 for `n` 0.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        below(self.roll(), n)
    }
}

/// `r` folded to 0 .. n; 0 for `n` 0.
pub(crate) fn below(r: u64, n: usize) -> usize {
    let n = u64::try_from(n.max(1)).unwrap_or(u64::MAX);
    usize::try_from(r % n).unwrap_or(0)
}

/// The size of a random message: mostly small, with the neighbours of powers of two, a few over the
/// whole range and the largest itself.
pub(crate) fn size(key: u64, max: usize) -> usize {
    let max = max.min(MAX_BYTES);
    let r = mix(key ^ 0x51);
    let within = |n: usize| below(r >> 8, n.min(max) + 1);
    let near_power = |top: u32| {
        let power = 1_usize << below(r >> 8, usize::try_from(top).unwrap_or(0) + 1);
        (power + below(r >> 32, 3)).saturating_sub(1)
    };
    let drawn = match r & 15 {
        0..=4 => within(64),
        5..=8 => near_power(16),
        9..=12 => within(16 << 10),
        13 | 14 => within(256 << 10),
        _ if r & 0x70 == 0 => max,
        _ => near_power(max.max(1).ilog2()),
    };
    drawn.min(max)
}

/// The room of the receive buffer for a message of `size` bytes: exact, larger by up to 4 KiB, or,
/// if `truncate`, sometimes too short.
pub(crate) fn room(key: u64, size: usize, truncate: bool) -> usize {
    let r = mix(key ^ 0x77);
    match r & 7 {
        0..=2 => size,
        3 if truncate => below(r >> 8, size + 1),
        _ => size + below(r >> 8, 4097),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_stay_in_range_and_reach_both_ends() {
        for max in [0, 1, 100, 16 << 20] {
            let drawn: Vec<usize> = (0..4000).map(|k| size(k, max)).collect();
            assert!(drawn.iter().all(|s| *s <= max));
            assert!(drawn.contains(&0) && drawn.contains(&max), "{max}");
        }
    }

    #[test]
    fn rooms_are_short_only_when_asked_for() {
        assert!((0..1000).all(|k| room(k, 100, false) >= 100));
        assert!((0..1000).any(|k| room(k, 100, true) < 100));
        assert!((0..1000).any(|k| room(k, 100, false) == 100));
    }
}
