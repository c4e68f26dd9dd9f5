//! What every message contains and how long it is, as a function of its number: both sides know
//! without telling each other.

use crate::config::SimConfig;
use crate::rng::{Rng, mix};

/// What a receive buffer and its surroundings hold before anything arrives.
pub(crate) const GUARD: u8 = 0xA5;

/// Guard bytes before and after each buffer.
pub(crate) const GUARD_BYTES: u64 = 32;

/// Lengths of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// Bytes given to isend.
    pub(crate) send: u64,
    /// Bytes given to irecv.
    pub(crate) recv: u64,
}

impl Sizes {
    /// Bytes that travel (protocol 2e.6).
    pub(crate) const fn moved(self) -> u64 {
        if self.send < self.recv {
            self.send
        } else {
            self.recv
        }
    }
}

/// The messages of one life of a link.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
}

impl Plan {
    /// Lengths of message `k`.
    pub(crate) fn sizes(self, k: u64, config: &SimConfig) -> Sizes {
        let mut rng = Rng::new(self.content(k) ^ 0x51E5);
        let max = u64::from(config.max_bytes);
        let send = if rng.chance(config.zero_ppm) {
            0
        } else {
            length(&mut rng, config)
        };
        let recv = if rng.chance(config.truncate_ppm) {
            rng.below(send)
        } else if rng.chance(500_000) {
            send
        } else {
            rng.between(send, max)
        };
        Sizes { send, recv }
    }

    /// The seed of the bytes of message `k`.
    pub(crate) const fn content(self, k: u64) -> u64 {
        mix(self.seed ^ mix(k))
    }
}

/// A length: any magnitude, and often next to a border of the protocol.
fn length(rng: &mut Rng, config: &SimConfig) -> u64 {
    let max = u64::from(config.max_bytes);
    if rng.chance(800_000) {
        return rng.magnitude(max);
    }
    let stripe = u64::from(config.stripe);
    let eager = u64::try_from(config.eager_max).unwrap_or(0);
    let borders = [
        eager,
        stripe,
        2 * stripe,
        4 * stripe,
        u64::from(config.small_max),
        max,
    ];
    let border = borders[usize::try_from(rng.below(6)).unwrap_or(0)];
    (border + rng.below(3)).saturating_sub(1).min(max)
}

/// Writes the bytes that belong to `seed`.
pub(crate) fn fill(bytes: &mut [u8], seed: u64) {
    let mut word = seed;
    let mut chunks = bytes.chunks_exact_mut(8);
    for chunk in &mut chunks {
        word = next_word(word);
        chunk.copy_from_slice(&word.to_le_bytes());
    }
    let last = next_word(word).to_le_bytes();
    for (byte, value) in chunks.into_remainder().iter_mut().zip(last) {
        *byte = value;
    }
}

/// Index of the first byte that is not what [`fill`] writes.
pub(crate) fn first_difference(bytes: &[u8], seed: u64) -> Option<usize> {
    let mut word = seed;
    let mut chunks = bytes.chunks_exact(8);
    for (n, chunk) in (&mut chunks).enumerate() {
        word = next_word(word);
        let want = word.to_le_bytes();
        if chunk != want {
            return chunk
                .iter()
                .zip(want)
                .position(|(a, b)| *a != b)
                .map(|at| n * 8 + at);
        }
    }
    let rest = chunks.remainder();
    let last = next_word(word).to_le_bytes();
    let at = rest.iter().zip(last).position(|(a, b)| *a != b)?;
    Some(bytes.len() - rest.len() + at)
}

/// Index of the first byte that is not `byte`.
pub(crate) fn first_other(bytes: &[u8], byte: u8) -> Option<usize> {
    let pieces = bytes.chunks(64).enumerate();
    // Whole pieces without a branch a byte: almost all are as they should be.
    let mut differ =
        pieces.filter(|(_, piece)| piece.iter().fold(0, |sum, &other| sum | (other ^ byte)) != 0);
    let (number, piece) = differ.next()?;
    let at = piece.iter().position(|&other| other != byte)?;
    Some(64 * number + at)
}

/// A cheap walk through 64-bit words in which no piece looks like another.
const fn next_word(word: u64) -> u64 {
    word.wrapping_mul(0xD134_2543_DE82_EF95)
        .wrapping_add(0x2545_F491_4F6C_DD1D)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_changed_byte_is_found() {
        for len in [0, 1, 7, 8, 9, 64, 100] {
            let mut bytes = vec![0; len];
            fill(&mut bytes, 5);
            assert_eq!(first_difference(&bytes, 5), None);
            for at in 0..len {
                bytes[at] ^= 1;
                assert_eq!(first_difference(&bytes, 5), Some(at));
                bytes[at] ^= 1;
            }
        }
    }

    #[test]
    fn any_other_byte_is_found() {
        for len in [0, 1, 63, 64, 65, 200] {
            let mut bytes = vec![7; len];
            assert_eq!(first_other(&bytes, 7), None);
            for at in (0..len).rev() {
                bytes[at] = 8;
                assert_eq!(first_other(&bytes, 7), Some(at));
            }
        }
    }

    #[test]
    fn sizes_are_fixed_by_number_and_hit_truncation_and_borders() {
        let config = SimConfig {
            truncate_ppm: 100_000,
            ..SimConfig::default()
        };
        let plan = Plan { seed: 9 };
        let all: Vec<_> = (0..2000).map(|k| plan.sizes(k, &config)).collect();
        assert_eq!(all[17], plan.sizes(17, &config));
        let eager = u64::try_from(config.eager_max).unwrap();
        assert!(all.iter().any(|s| s.send > s.recv), "truncation");
        assert!(all.iter().any(|s| s.send == 0), "empty");
        assert!(all.iter().any(|s| s.send == eager + 1), "just beyond eager");
        assert!(all.iter().all(|s| s.send <= 16 << 10 && s.recv <= 16 << 10));
    }
}
