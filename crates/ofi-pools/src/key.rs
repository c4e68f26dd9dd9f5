//! The handle of a slot: where it is, and which of its lives is meant.

/// A slot number with a generation: finds a value in O(1), and stops finding it once it is gone.
///
/// The generation of a slot is odd while it is occupied and even while it is vacant, and grows by
/// one at each change. So a key handed out by a container is odd, is never all zero, and no key of
/// an earlier life of the slot equals it until that one slot has been used 2^31 times more.
///
/// Any bit pattern is a valid `Key`: one that no container handed out finds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    index: u32,
    generation: u32,
}

impl Key {
    /// A key from its two parts, as they come back out of a handle that carried them.
    #[must_use]
    pub const fn new(index: u32, generation: u32) -> Self {
        Self { index, generation }
    }

    /// The number of the slot: dense from 0, below the capacity of the container. Fit to index a
    /// side table.
    #[must_use]
    pub const fn index(self) -> u32 {
        self.index
    }

    /// The generation of the slot when this key was made; odd for every key handed out.
    #[must_use]
    pub const fn generation(self) -> u32 {
        self.generation
    }

    /// Both parts in one word, `generation << 32 | index`: for a context or a C handle. Never 0
    /// and never 1 for a key that was handed out.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        // `u64::from` is not const.
        let (generation, index) = (self.generation as u64, self.index as u64);
        generation << 32 | index
    }

    /// The inverse of [`Key::to_bits`]; total, since any word is a key that may find nothing.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the low half is what is wanted"
        )]
        let index = bits as u32;
        let generation = (bits >> 32) as u32;
        Self { index, generation }
    }
}

#[cfg(test)]
mod tests {
    use super::Key;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bits_round_trip(index: u32, generation: u32, bits: u64) {
            let key = Key::new(index, generation);
            prop_assert_eq!(Key::from_bits(key.to_bits()), key);
            prop_assert_eq!(Key::from_bits(bits).to_bits(), bits);
            prop_assert_eq!(key.to_bits(), (u64::from(generation) << 32) | u64::from(index));
        }
    }
}
