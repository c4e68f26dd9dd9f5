//! Algorithms as protocol 2g describes them.

use std::sync::Mutex;

/// Protocol 2g.3: one bit an id, 1 = free, the lowest word with a set bit, under a mutex.
pub(crate) struct Scan {
    words: Mutex<Vec<u64>>,
}

impl Scan {
    pub(crate) fn new(ids: u32) -> Self {
        Self {
            words: Mutex::new(vec![u64::MAX; ids as usize / 64]),
        }
    }

    pub(crate) fn alloc(&self) -> Option<usize> {
        let mut words = self.words.lock().unwrap();
        let (at, word) = words.iter_mut().enumerate().find(|(_, word)| **word != 0)?;
        let bit = word.trailing_zeros();
        *word &= *word - 1;
        Some(at * 64 + bit as usize)
    }

    pub(crate) fn free(&self, id: usize) {
        let mut words = self.words.lock().unwrap();
        let bit = 1 << (id % 64);
        assert!(words[id / 64] & bit == 0, "freed twice");
        words[id / 64] |= bit;
    }
}
