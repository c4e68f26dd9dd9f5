//! Registration cache: a hit among 1 to 10^6 regions, random and last, with its release; against
//! the sorted array with a linear scan of protocol 2g.4 under a mutex, and a `BTreeMap` (which is
//! right only while ranges do not nest). And a registration with its removal.

#![expect(clippy::unwrap_used, reason = "benchmark")]
#![expect(
    clippy::disallowed_types,
    reason = "the contender locks as the reference does"
)]

mod ratio;

use core::hint::black_box;
use criterion::Criterion;
use ofi_pools::mr::Attr;
use ofi_pools::{Handle, Lookup, MrCache, Released, Request};
use ratio::Board;
use std::collections::BTreeMap;
use std::sync::Mutex;

const STRIDE: u64 = 0x1_0000;
const BYTES: u64 = 0x8000;
const ATTR: Attr = Attr {
    access: 0x3f00,
    kind: 0,
    device: 0,
    dmabuf: None,
};

/// The algorithm of protocol 2g.4: page address, pages, references; walked from the start.
struct Scan {
    entries: Mutex<Vec<(u64, u64, u32)>>,
}

impl Scan {
    fn lookup(&self, address: u64, bytes: u64) -> Option<usize> {
        let page = address & !4095;
        let pages = (address + bytes).div_ceil(4096) - page / 4096;
        let mut entries = self.entries.lock().unwrap();
        for (at, (start, length, references)) in entries.iter_mut().enumerate() {
            if page < *start {
                return None;
            }
            if (page - *start) / 4096 + pages <= *length {
                *references += 1;
                return Some(at);
            }
        }
        None
    }

    fn release(&self, at: usize) {
        self.entries.lock().unwrap()[at].2 -= 1;
    }
}

const fn request(nth: u64) -> Request {
    Request {
        address: nth * STRIDE + 100,
        bytes: 5000,
        attr: ATTR,
    }
}

fn filled(count: u64) -> MrCache<u64> {
    let mut cache = MrCache::new(4096).unwrap();
    for nth in 0..count {
        let whole = Request {
            address: nth * STRIDE,
            bytes: BYTES,
            attr: ATTR,
        };
        let Lookup::Miss(ticket) = cache.lookup(&whole).unwrap() else {
            unreachable!()
        };
        cache.complete(ticket, nth).unwrap();
    }
    cache
}

fn acquire(cache: &mut MrCache<u64>, request: &Request) -> Handle {
    match cache.lookup(black_box(request)).unwrap() {
        Lookup::Hit(handle) => handle,
        Lookup::Miss(ticket) => cache.complete(ticket, 0).unwrap(),
        Lookup::Busy => unreachable!(),
    }
}

/// A step through `0..count` that no prefetcher guesses.
fn next(state: &mut u64, count: u64) -> u64 {
    *state = state
        .wrapping_mul(0x5851_f42d_4c95_7f2d)
        .wrapping_add(0x1405_7b7e_f767_814f);
    (*state >> 33) % count
}

fn hits(criterion: &mut Criterion, board: &Board, count: u64) {
    let random = format!("hit+release, {count:>7}, random");
    let last = format!("hit+release, {count:>7}, last");
    let mut cache = filled(count);
    let mut state = 1;
    board.run(criterion, (&random, "ofi-pools"), || {
        let handle = acquire(&mut cache, &request(next(&mut state, count)));
        assert!(matches!(
            cache.release(black_box(handle)),
            Ok(Released::Held { .. })
        ));
    });
    let nth = count - 1;
    board.run(criterion, (&last, "ofi-pools"), || {
        let handle = acquire(&mut cache, &request(nth));
        assert!(matches!(
            cache.release(black_box(handle)),
            Ok(Released::Held { .. })
        ));
    });
    let entries = (0..count)
        .map(|nth| (nth * STRIDE, BYTES / 4096, 1))
        .collect();
    let scan = Scan {
        entries: Mutex::new(entries),
    };
    board.run(criterion, (&random, "mutex + scan"), || {
        let wanted = request(next(&mut state, count));
        let at = scan
            .lookup(black_box(wanted.address), black_box(wanted.bytes))
            .unwrap();
        scan.release(black_box(at));
    });
    board.run(criterion, (&last, "mutex + scan"), || {
        let wanted = request(nth);
        let at = scan
            .lookup(black_box(wanted.address), black_box(wanted.bytes))
            .unwrap();
        scan.release(black_box(at));
    });
    let mut tree: BTreeMap<u64, (u64, u32)> = (0..count)
        .map(|nth| (nth * STRIDE, (nth * STRIDE + BYTES, 1)))
        .collect();
    board.run(criterion, (&random, "BTreeMap, no nesting"), || {
        let wanted = black_box(request(next(&mut state, count)));
        let (start, (end, references)) = tree.range_mut(..=wanted.address).next_back().unwrap();
        assert!(*end >= wanted.address + wanted.bytes);
        *references += 1;
        let start = *start;
        tree.get_mut(&black_box(start)).unwrap().1 -= 1;
    });
}

fn changes(criterion: &mut Criterion, board: &Board, count: u64) {
    let group = format!("register+close, {count:>7}");
    let mut cache = filled(count);
    let mut state = 1;
    let gap = |nth: u64| Request {
        address: nth * STRIDE + BYTES,
        bytes: 4096,
        attr: ATTR,
    };
    board.run(criterion, (&group, "ofi-pools"), || {
        let handle = acquire(&mut cache, &gap(next(&mut state, count)));
        assert!(matches!(
            cache.release(black_box(handle)),
            Ok(Released::Last(_))
        ));
    });
    let mut sorted: Vec<(u64, u64, u32)> = (0..count)
        .map(|nth| (nth * STRIDE, BYTES / 4096, 1))
        .collect();
    board.run(criterion, (&group, "sorted Vec"), || {
        let wanted = black_box(gap(next(&mut state, count)));
        let at = sorted.partition_point(|entry| entry.0 <= wanted.address);
        sorted.insert(at, (wanted.address, 1, 1));
        sorted.remove(black_box(at));
    });
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let board = Board::default();
    for count in [1, 100, 10_000, 1_000_000] {
        hits(&mut criterion, &board, count);
    }
    for count in [100, 10_000, 1_000_000] {
        changes(&mut criterion, &board, count);
    }
    criterion.final_summary();
    board.print("ofi-pools");
}
