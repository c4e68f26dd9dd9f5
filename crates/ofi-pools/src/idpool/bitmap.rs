//! A set of up to 2^18 numbers that gives its lowest in three steps.
//!
//! ```text
//! top    1 word    bit i: mid[i] is not zero
//! mid   64 words   bit j of mid[i]: leaves[64 i + j] is not zero
//! leaf  up to 4096 words, made when first needed; bit k of leaves[n]: 64 n + k is in the set
//! ```

use alloc::vec::Vec;

#[derive(Clone, Debug)]
pub(super) struct Bitmap {
    top: u64,
    mid: [u64; 64],
    leaves: Vec<u64>,
}

impl Bitmap {
    pub(super) const fn new() -> Self {
        Self {
            top: 0,
            mid: [0; 64],
            leaves: Vec::new(),
        }
    }

    /// Puts `raw` (below 2^18) into the set.
    #[inline]
    pub(super) fn insert(&mut self, raw: u32) {
        let (leaf, mid) = ((raw >> 6) as usize, (raw >> 12) as usize & 63);
        if leaf >= self.leaves.len() {
            self.leaves.resize(leaf + 1, 0);
        }
        self.leaves[leaf] |= 1 << (raw & 63);
        self.mid[mid] |= 1 << (leaf & 63);
        self.top |= 1 << mid;
    }

    /// Takes the lowest number out of the set.
    #[inline]
    pub(super) fn take_lowest(&mut self) -> Option<u32> {
        if self.top == 0 {
            return None;
        }
        let i = self.top.trailing_zeros() & 63;
        let mid = &mut self.mid[i as usize];
        let n = (i << 6) | (mid.trailing_zeros() & 63);
        let leaf = self.leaves.get_mut(n as usize)?;
        let raw = (n << 6) | (leaf.trailing_zeros() & 63);
        // `x & (x - 1)` clears the lowest bit; a word that empties clears its bit above.
        *leaf &= leaf.wrapping_sub(1);
        if *leaf == 0 {
            *mid &= mid.wrapping_sub(1);
            if *mid == 0 {
                self.top &= self.top.wrapping_sub(1);
            }
        }
        Some(raw)
    }
}
