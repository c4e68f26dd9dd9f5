//! Caches without what is measured.

use core::hint::black_box;

/// More than the last cache of a machine on which one measures.
const BYTES: usize = 64 << 20;
const LINE_WORDS: usize = 8;

/// 64 MiB to write over.
#[derive(Debug)]
pub struct Thrash {
    words: Vec<u64>,
}

impl Thrash {
    /// Takes the memory.
    #[must_use]
    pub fn new() -> Self {
        let words = vec![1; BYTES / size_of::<u64>()];
        Self { words }
    }

    /// Writes to each line of it, which drops what was in the caches before.
    pub fn run(&mut self) {
        for word in self.words.iter_mut().step_by(LINE_WORDS) {
            *word = word.wrapping_add(1);
        }
        black_box(self.words.first());
    }
}

impl Default for Thrash {
    fn default() -> Self {
        Self::new()
    }
}
