//! Id pool: allocate and free at different fills of 2^18 ids, against the mutex and first-fit word
//! scan of protocol 2g.3, and a stack of free ids.

#![expect(clippy::unwrap_used, reason = "benchmark")]
#![expect(
    clippy::disallowed_types,
    reason = "the contender locks as the reference does"
)]

mod ratio;

use core::hint::black_box;
use criterion::Criterion;
use ofi_pools::IdPool;
use ratio::Board;
use std::sync::Mutex;

const IDS: u32 = (1 << 18) - 1;

/// The algorithm of protocol 2g.3: one bit an id, 1 = free, the lowest word with a set bit.
struct Scan {
    words: Mutex<Vec<u64>>,
}

impl Scan {
    fn new(ids: u32) -> Self {
        Self {
            words: Mutex::new(vec![u64::MAX; ids as usize / 64]),
        }
    }

    fn alloc(&self) -> Option<usize> {
        let mut words = self.words.lock().unwrap();
        let (at, word) = words.iter_mut().enumerate().find(|(_, word)| **word != 0)?;
        let bit = word.trailing_zeros();
        *word &= *word - 1;
        Some(at * 64 + bit as usize)
    }

    fn free(&self, id: usize) {
        let mut words = self.words.lock().unwrap();
        let bit = 1 << (id % 64);
        assert!(words[id / 64] & bit == 0, "freed twice");
        words[id / 64] |= bit;
    }
}

fn fill(criterion: &mut Criterion, board: &Board, name: &str, used: u32) {
    let group = format!("idpool alloc+free, {name}");
    for (contender, quarantine) in [("ofi-pools", 0), ("ofi-pools quarantine", 64)] {
        let mut pool = IdPool::full(quarantine);
        (0..used).for_each(|_| assert!(pool.alloc().is_some()));
        board.run(criterion, (&group, contender), || {
            let id = black_box(pool.alloc()).unwrap();
            pool.free(black_box(id.raw)).unwrap();
        });
    }
    let scan = Scan::new(1 << 18);
    (0..used).for_each(|_| assert!(scan.alloc().is_some()));
    board.run(criterion, (&group, "mutex + scan"), || {
        let id = black_box(scan.alloc()).unwrap();
        scan.free(black_box(id));
    });
    // No lowest-first, no double-free check, 1 MiB from the start: the floor for any pool.
    let mut stack: Vec<u32> = (used..IDS).rev().collect();
    board.run(criterion, (&group, "unchecked stack"), || {
        let id = black_box(stack.pop()).unwrap();
        stack.push(black_box(id));
    });
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let board = Board::default();
    fill(&mut criterion, &board, "empty", 0);
    fill(&mut criterion, &board, "half", IDS / 2);
    fill(&mut criterion, &board, "99.9 %", IDS - IDS / 1000);
    criterion.final_summary();
    board.print("ofi-pools");
}
