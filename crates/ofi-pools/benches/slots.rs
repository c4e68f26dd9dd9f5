//! Slots: one request in and out of a table and one buffer out of and into a freelist, against the
//! `slab` crate, malloc, and a mutex around a LIFO stack (protocol 2g.5).

#![expect(clippy::unwrap_used, reason = "benchmark")]
#![expect(
    clippy::disallowed_types,
    reason = "the contender locks as the reference does"
)]

mod ratio;

use core::hint::black_box;
use criterion::Criterion;
use ofi_pools::freelist::HeapBlocks;
use ofi_pools::{Freelist, FreelistConfig, Table};
use ratio::Board;
use slab::Slab;
use std::sync::Mutex;

const REQUEST_WORDS: usize = 16;
type Request = [u64; REQUEST_WORDS];

fn small_values(criterion: &mut Criterion, board: &Board) {
    let group = "insert+remove, 8 B";
    let mut table: Table<u64> = Table::new();
    board.run(criterion, (group, "ofi-pools"), || {
        let key = table.insert(black_box(7)).unwrap();
        black_box(table.remove(black_box(key)).unwrap());
    });
    let mut slab: Slab<u64> = Slab::new();
    board.run(criterion, (group, "slab, no generation"), || {
        let key = slab.insert(black_box(7));
        black_box(slab.try_remove(black_box(key)).unwrap());
    });
    board.run(criterion, (group, "Box (malloc)"), || {
        drop(black_box(Box::new(black_box(7_u64))));
    });
}

fn requests(criterion: &mut Criterion, board: &Board) {
    let group = "insert+remove, 128 B";
    let request: Request = [1; REQUEST_WORDS];
    let mut table: Table<Request> = Table::new();
    board.run(criterion, (group, "ofi-pools"), || {
        let key = table.insert(black_box(request)).unwrap();
        black_box(table.remove(black_box(key)).unwrap());
    });
    let mut slab: Slab<Request> = Slab::new();
    board.run(criterion, (group, "slab, no generation"), || {
        let key = slab.insert(black_box(request));
        black_box(slab.try_remove(black_box(key)).unwrap());
    });
    board.run(criterion, (group, "Box (malloc)"), || {
        drop(black_box(Box::new(black_box(request))));
    });
}

fn lookups(criterion: &mut Criterion, board: &Board) {
    let group = "get, 4096 live, random";
    let mut table: Table<u64> = Table::new();
    let mut slab: Slab<u64> = Slab::new();
    let keys: Vec<_> = (0..4096).map(|i| table.insert(i).unwrap()).collect();
    let slabs: Vec<_> = (0..4096).map(|i| slab.insert(i)).collect();
    let mut at = 0_usize;
    board.run(criterion, (group, "ofi-pools"), || {
        at = (at * 5 + 1) % 4096;
        black_box(table.get(black_box(keys[at])).unwrap());
    });
    board.run(criterion, (group, "slab, no generation"), || {
        at = (at * 5 + 1) % 4096;
        black_box(slab.get(black_box(slabs[at])).unwrap());
    });
}

fn buffers(criterion: &mut Criterion, board: &Board) {
    let group = "take+give, 8 KiB buffer";
    let config = FreelistConfig {
        entry_bytes: 8192,
        align: 128,
        first: 64,
        ..Default::default()
    };
    let mut list = Freelist::new(config).unwrap();
    board.run(criterion, (group, "ofi-pools"), || {
        let slot = list.take(&mut HeapBlocks).unwrap().unwrap();
        list.give(black_box(slot)).unwrap();
    });
    board.run(criterion, (group, "ofi-pools, placed"), || {
        let slot = list.take(&mut HeapBlocks).unwrap().unwrap();
        black_box(list.place(black_box(slot)).unwrap());
        list.give(black_box(slot)).unwrap();
    });
    let stack = Mutex::new((0..64_usize).collect::<Vec<_>>());
    board.run(criterion, (group, "mutex + stack"), || {
        let index = black_box(stack.lock().unwrap().pop()).unwrap();
        stack.lock().unwrap().push(black_box(index));
    });
    board.run(criterion, (group, "malloc"), || {
        drop(black_box(Vec::<u8>::with_capacity(black_box(8192))));
    });
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let board = Board::default();
    small_values(&mut criterion, &board);
    requests(&mut criterion, &board);
    lookups(&mut criterion, &board);
    buffers(&mut criterion, &board);
    criterion.final_summary();
    board.print("ofi-pools");
}
