//! Id pool: allocate and free at different fills of 2^18 and 2^15 ids, against the mutex and first-fit word
//! scan of protocol 2g.3, the keys of `slab` and `sharded-slab`, and a stack of free ids.

#![expect(clippy::unwrap_used, reason = "benchmark")]
#![expect(
    clippy::disallowed_types,
    reason = "the contender locks as the reference does"
)]

mod reference;

use core::hint::black_box;
use ofi_bench::Board;
use ofi_pools::IdPool;
use reference::Scan;
use sharded_slab::Slab as Sharded;
use slab::Slab;
use std::sync::Mutex;

fn pool(ids: u32, quarantine: usize, used: u32) -> IdPool {
    let mut pool = IdPool::new(ids - 1, quarantine).unwrap();
    (0..used).for_each(|_| assert!(pool.alloc().is_some()));
    pool
}

fn fill(board: &mut Board, ids: u32, name: &str, used: u32) {
    let mut plain = pool(ids, 0, used);
    let mut resting = pool(ids, 64, used);
    let locked = Mutex::new(pool(ids, 0, used));
    let scan = Scan::new(ids);
    (0..used).for_each(|_| assert!(scan.alloc().is_some()));
    let mut slab = Slab::new();
    (0..used).for_each(|id| assert_eq!(slab.insert(()), id as usize));
    let sharded = Sharded::new();
    (0..used).for_each(|_| assert!(sharded.insert(()).is_some()));
    let mut stack: Vec<u32> = (used..ids - 1).rev().collect();
    board
        .group(format!("id pool of {ids}, {name}"))
        .with("ofi-pools", || {
            let id = black_box(plain.alloc()).unwrap();
            plain.free(black_box(id.raw)).unwrap();
        })
        .with("ofi-pools, 64 resting", || {
            let id = black_box(resting.alloc()).unwrap();
            resting.free(black_box(id.raw)).unwrap();
        })
        .with("ofi-pools in a mutex", || {
            let id = black_box(locked.lock().unwrap().alloc()).unwrap();
            locked.lock().unwrap().free(black_box(id.raw)).unwrap();
        })
        .with("mutex + scan", || {
            let id = black_box(scan.alloc()).unwrap();
            scan.free(black_box(id));
        })
        .with("slab", || {
            let id = black_box(slab.insert(()));
            slab.remove(black_box(id));
        })
        .with("sharded-slab", || {
            let id = black_box(sharded.insert(())).unwrap();
            assert!(sharded.remove(black_box(id)));
        })
        // Not the lowest, no check of what is freed, 1 MiB from the start: the floor for any pool.
        .with("unchecked stack", || {
            let id = black_box(stack.pop()).unwrap();
            stack.push(black_box(id));
        })
        .run_and_cold();
}

fn main() {
    let mut board = Board::new("idpool");
    for ids in [1 << 18, 1 << 15] {
        fill(&mut board, ids, "empty", 0);
        fill(&mut board, ids, "half", ids / 2);
        fill(&mut board, ids, "99.9 %", ids - ids / 1000);
    }
    board.finish();
}
