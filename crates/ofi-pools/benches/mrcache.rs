//! Registration cache: a hit among 1 to 10^6 regions, random and last, with its release; against
//! the sorted array with a linear scan of protocol 2g.4 under a mutex, and a `BTreeMap` and `rangemap` (which are
//! right only while ranges do not nest). And a registration with its removal.

#![expect(clippy::unwrap_used, reason = "benchmark")]
#![expect(
    clippy::disallowed_types,
    reason = "the contender locks as the reference does"
)]

use core::hint::black_box;
use ofi_bench::Board;
use ofi_bench::random::Steps;
use ofi_pools::mr::Attr;
use ofi_pools::{Handle, Lookup, MrCache, Released, Request};
use rangemap::RangeMap;
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

fn hit(cache: &mut MrCache<u64>, nth: u64) {
    let handle = acquire(cache, &request(nth));
    let released = cache.release(black_box(handle));
    assert!(matches!(released, Ok(Released::Held { .. })));
}

fn scanned(scan: &Scan, nth: u64) {
    let Request { address, bytes, .. } = request(nth);
    let at = scan.lookup(black_box(address), black_box(bytes)).unwrap();
    scan.release(black_box(at));
}

/// End and references, by start.
type Tree = BTreeMap<u64, (u64, u32)>;

fn in_tree(tree: &mut Tree, nth: u64) {
    let wanted = black_box(request(nth));
    let (start, (end, references)) = tree.range_mut(..=wanted.address).next_back().unwrap();
    assert!(*end >= wanted.address + wanted.bytes);
    *references += 1;
    let start = *start;
    tree.get_mut(&black_box(start)).unwrap().1 -= 1;
}

/// A look-up alone: its values are not to be changed.
fn in_ranges(ranges: &RangeMap<u64, u64>, nth: u64) {
    let wanted = black_box(request(nth));
    let (range, region) = ranges.get_key_value(&wanted.address).unwrap();
    assert!(range.end >= wanted.address + wanted.bytes);
    black_box(region);
}

fn hits(board: &mut Board, count: u64) {
    let mut cache = filled(count);
    let locked = Mutex::new(filled(count));
    let entries = (0..count).map(|nth| (nth * STRIDE, BYTES / 4096, 1));
    let scan = Scan {
        entries: Mutex::new(entries.collect()),
    };
    let whole = |nth: u64| (nth * STRIDE, (nth * STRIDE + BYTES, 1));
    let mut tree: Tree = (0..count).map(whole).collect();
    let range = |nth: u64| (nth * STRIDE..nth * STRIDE + BYTES, nth);
    let ranges: RangeMap<u64, u64> = (0..count).map(range).collect();
    for is_random in [true, false] {
        let mut nth = [const { Steps::new() }; 5].map(|mut steps| {
            move || match is_random {
                true => steps.below(count),
                false => count - 1,
            }
        });
        let [ours, within, scans, trees, maps] = &mut nth;
        let name = if is_random { "random" } else { "last" };
        board
            .group(format!("hit+release, {count:>7}, {name}"))
            .with("ofi-pools", || hit(&mut cache, ours()))
            .with("ofi-pools in a mutex", || {
                hit(&mut locked.lock().unwrap(), within());
            })
            .with("mutex + scan", || scanned(&scan, scans()))
            .with("BTreeMap, no nesting", || in_tree(&mut tree, trees()))
            .with("rangemap, no nesting", || in_ranges(&ranges, maps()))
            .run_and_cold();
    }
}

fn changes(board: &mut Board, count: u64) {
    let mut cache = filled(count);
    let gap = |nth: u64| Request {
        address: nth * STRIDE + BYTES,
        bytes: 4096,
        attr: ATTR,
    };
    let entry = |nth: u64| (nth * STRIDE, BYTES / 4096, 1);
    let mut sorted: Vec<(u64, u64, u32)> = (0..count).map(entry).collect();
    let range = |nth: u64| (nth * STRIDE..nth * STRIDE + BYTES, nth);
    let mut ranges: RangeMap<u64, u64> = (0..count).map(range).collect();
    let [mut ours, mut theirs, mut mapped] = [const { Steps::new() }; 3];
    board
        .group(format!("register+close, {count:>7}"))
        .with("ofi-pools", || {
            let handle = acquire(&mut cache, &gap(ours.below(count)));
            let released = cache.release(black_box(handle));
            assert!(matches!(released, Ok(Released::Last(_))));
        })
        .with("sorted Vec", || {
            let wanted = black_box(gap(theirs.below(count)));
            let at = sorted.partition_point(|entry| entry.0 <= wanted.address);
            sorted.insert(at, (wanted.address, 1, 1));
            sorted.remove(black_box(at));
        })
        .with("rangemap, no nesting", || {
            let wanted = black_box(gap(mapped.below(count)));
            let range = wanted.address..wanted.address + wanted.bytes;
            ranges.insert(range.clone(), u64::MAX);
            ranges.remove(black_box(range));
        })
        .run();
}

fn main() {
    let mut board = Board::new("mrcache");
    for count in [1, 100, 10_000, 1_000_000] {
        if board.is_trial() && count > 10_000 {
            continue;
        }
        hits(&mut board, count);
        changes(&mut board, count);
    }
    board.finish();
}
