//! Slots: one request in and out of a table and one buffer out of and into a freelist, against `slab`,
//! `ArrayQueue`, malloc, and a mutex around a LIFO stack (protocol 2g.5). No other allocator: the process of a
//! collective library has the C library's.

#![expect(clippy::unwrap_used, reason = "benchmark")]
#![expect(
    clippy::disallowed_types,
    reason = "the contender locks as the reference does"
)]

use core::hint::black_box;
use crossbeam_queue::ArrayQueue;
use ofi_bench::Board;
use ofi_bench::random::Steps;
use ofi_pools::freelist::HeapBlocks;
use ofi_pools::{Freelist, FreelistConfig, Table};
use slab::Slab;
use std::sync::Mutex;

const REQUEST_WORDS: usize = 16;
type Request = [u64; REQUEST_WORDS];
const BUFFERS: usize = 64;

fn values<T: Copy>(board: &mut Board, name: &str, value: T) {
    let mut table: Table<T> = Table::new();
    let mut slab: Slab<T> = Slab::new();
    board
        .group(format!("insert+remove, {name}"))
        .with("ofi-pools", || {
            let key = table.insert(black_box(value)).ok().unwrap();
            black_box(table.remove(black_box(key)).unwrap());
        })
        .with("slab, no generation", || {
            let key = slab.insert(black_box(value));
            black_box(slab.try_remove(black_box(key)).unwrap());
        })
        .with("malloc + free", || {
            drop(black_box(Box::new(black_box(value))));
        })
        .run_and_cold();
}

fn lookups(board: &mut Board) {
    const LIVE: u64 = 4096;
    let mut table: Table<u64> = Table::new();
    let mut slab: Slab<u64> = Slab::new();
    let keys: Vec<_> = (0..LIVE).map(|i| table.insert(i).unwrap()).collect();
    let slabs: Vec<_> = (0..LIVE).map(|i| slab.insert(i)).collect();
    let (mut ours, mut theirs) = (Steps::new(), Steps::new());
    board
        .group("get, 4096 live, random")
        .with("ofi-pools", || {
            let key = keys[index(ours.below(LIVE))];
            black_box(table.get(black_box(key)).unwrap());
        })
        .with("slab, no generation", || {
            let key = slabs[index(theirs.below(LIVE))];
            black_box(slab.get(black_box(key)).unwrap());
        })
        .run_and_cold();
}

fn index(n: u64) -> usize {
    usize::try_from(n).unwrap()
}

fn freelist() -> Freelist<ofi_pools::freelist::HeapBlock> {
    let config = FreelistConfig {
        entry_bytes: 8192,
        align: 128,
        first: 64,
        ..Default::default()
    };
    Freelist::new(config).unwrap()
}

fn buffers(board: &mut Board) {
    let (mut list, mut placed, locked) = (freelist(), freelist(), Mutex::new(freelist()));
    let stack = Mutex::new((0..BUFFERS).collect::<Vec<_>>());
    let queue = ArrayQueue::new(BUFFERS);
    (0..BUFFERS).for_each(|at| queue.push(at).unwrap());
    let mut slab: Slab<u64> = Slab::with_capacity(BUFFERS);
    board
        .group("take+give, 8 KiB buffer")
        .with("ofi-pools", || {
            let slot = list.take(&mut HeapBlocks).unwrap().unwrap();
            list.give(black_box(slot)).unwrap();
        })
        .with("ofi-pools, with its address", || {
            let slot = placed.take(&mut HeapBlocks).unwrap().unwrap();
            black_box(placed.place(black_box(slot)).unwrap());
            placed.give(black_box(slot)).unwrap();
        })
        .with("ofi-pools in a mutex", || {
            let slot = locked.lock().unwrap().take(&mut HeapBlocks);
            let slot = slot.unwrap().unwrap();
            locked.lock().unwrap().give(black_box(slot)).unwrap();
        })
        .with("mutex + stack", || {
            let index = black_box(stack.lock().unwrap().pop()).unwrap();
            stack.lock().unwrap().push(black_box(index));
        })
        .with("ArrayQueue", || {
            let index = black_box(queue.pop()).unwrap();
            queue.push(black_box(index)).unwrap();
        })
        .with("slab, no generation", || {
            let index = black_box(slab.insert(0));
            slab.remove(black_box(index));
        })
        .with("malloc + free", || {
            drop(black_box(Vec::<u8>::with_capacity(black_box(8192))));
        })
        .run_and_cold();
}

fn main() {
    let mut board = Board::new("slots");
    values(&mut board, "8 B", 7_u64);
    values::<Request>(&mut board, "128 B", [1; REQUEST_WORDS]);
    lookups(&mut board);
    buffers(&mut board);
    board.finish();
}
