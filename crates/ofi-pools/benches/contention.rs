//! Ids taken and given back by 1, 2 and 4 threads at once; what is told is the time of one of all operations. The
//! transport has a pool for each domain, behind the lock of the domain: a mutex around ours is that.

#![expect(clippy::unwrap_used, reason = "benchmark")]
#![expect(clippy::disallowed_types, reason = "what is measured is a lock")]

mod reference;

use core::hint::black_box;
use crossbeam_queue::ArrayQueue;
use ofi_bench::{Board, threads};
use ofi_pools::IdPool;
use reference::Scan;
use sharded_slab::Slab;
use std::sync::Mutex;

const IDS: u32 = 1 << 18;
const USED: u32 = IDS / 2;

fn main() {
    let mut board = Board::new("contention");
    let mut pool = IdPool::full(64);
    (0..USED).for_each(|_| assert!(pool.alloc().is_some()));
    let pool = Mutex::new(pool);
    let scan = Scan::new(IDS);
    (0..USED).for_each(|_| assert!(scan.alloc().is_some()));
    let queue = ArrayQueue::new(IDS as usize);
    (USED..IDS).for_each(|id| queue.push(id).unwrap());
    let slab = Slab::new();
    (0..USED).for_each(|_| assert!(slab.insert(()).is_some()));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    for count in [1, 2, 4] {
        let over = if count > cores {
            ", oversubscribed"
        } else {
            ""
        };
        board
            .group(format!("ids, half, {count} threads{over}"))
            .timed("ofi-pools in a mutex", |rounds| {
                threads::share(count, rounds, |_| {
                    let id = black_box(pool.lock().unwrap().alloc()).unwrap();
                    pool.lock().unwrap().free(black_box(id.raw)).unwrap();
                })
            })
            .timed("mutex + scan", |rounds| {
                threads::share(count, rounds, |_| {
                    let id = black_box(scan.alloc()).unwrap();
                    scan.free(black_box(id));
                })
            })
            .timed("ArrayQueue, not the lowest", |rounds| {
                threads::share(count, rounds, |_| {
                    let id = black_box(queue.pop()).unwrap();
                    queue.push(black_box(id)).unwrap();
                })
            })
            .timed("sharded-slab, not the lowest", |rounds| {
                threads::share(count, rounds, |_| {
                    let id = black_box(slab.insert(())).unwrap();
                    assert!(slab.remove(black_box(id)));
                })
            })
            .run();
    }
    board.finish();
}
