//! A fast hash of 64 bits for states: not for anything that somebody could attack.

use core::hash::Hasher;

/// Folds words by a widening multiplication.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mixer(u64);

const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

impl Mixer {
    const fn word(&mut self, word: u64) {
        let wide = (self.0 ^ word ^ 0x5851_F42D_4C95_7F2D) as u128 * (FACTOR as u128);
        let [low, high] = split(wide);
        self.0 = (low ^ high).wrapping_add(self.0.rotate_left(23));
    }
}

/// The halves of a wide word.
const fn split(wide: u128) -> [u64; 2] {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = wide.to_le_bytes();
    [
        u64::from_le_bytes([a, b, c, d, e, f, g, h]),
        u64::from_le_bytes([i, j, k, l, m, n, o, p]),
    ]
}

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        let mut last = *self;
        last.word(0);
        last.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..piece.len()].copy_from_slice(piece);
            self.word(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.word(value.into());
    }

    fn write_u16(&mut self, value: u16) {
        self.word(value.into());
    }

    fn write_u32(&mut self, value: u32) {
        self.word(value.into());
    }

    fn write_u64(&mut self, value: u64) {
        self.word(value);
    }

    fn write_usize(&mut self, value: usize) {
        self.word(value as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::hash::Hash;
    use std::collections::HashSet;

    #[test]
    fn words_that_differ_in_a_bit_or_in_order_differ() {
        let hash = |words: [u64; 2]| {
            let mut mixer = Mixer::default();
            words.hash(&mut mixer);
            mixer.finish()
        };
        let mut seen = HashSet::from([hash([0, 0])]);
        for bit in 0..64 {
            assert!(seen.insert(hash([1 << bit, 0])), "bit {bit}, first");
            assert!(seen.insert(hash([0, 1 << bit])), "bit {bit}, second");
        }
    }
}
