//! Registration cache: a hit among 1 to 10^6 regions, random and last, with its release; against
//! the sorted array with a linear scan of protocol 2g.4 under a mutex, and a `BTreeMap` and `rangemap` (which are
//! right only while ranges do not nest); and with the least that anybody can do: a table of pages without a collision,
//! where nothing is checked. And a registration with its removal.

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
const ATTR: Attr = Attr::new(0x3f00);

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

fn range(address: u64, bytes: u64) -> Request {
    Request::new(address, bytes, ATTR).unwrap()
}

fn request(nth: u64) -> Request {
    range(nth * STRIDE + 100, 5000)
}

fn filled(count: u64) -> MrCache<u64> {
    let mut cache = MrCache::new(4096).unwrap();
    for nth in 0..count {
        let whole = range(nth * STRIDE, BYTES);
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
    let wanted = black_box(request(nth));
    let at = scan.lookup(wanted.address(), wanted.bytes()).unwrap();
    scan.release(black_box(at));
}

/// A word for each page of 64 KiB, and references by region: two loads that depend on each other, and a store.
struct Bare {
    regions: Vec<u32>,
    references: Vec<[u32; 16]>,
}

impl Bare {
    fn new(count: u64) -> Self {
        Self {
            regions: (0..u32::try_from(count).unwrap()).collect(),
            references: vec![[1; 16]; usize::try_from(count).unwrap()],
        }
    }

    fn hit(&mut self, nth: u64) {
        let wanted = black_box(request(nth));
        let region = self.regions[usize::try_from(wanted.address() / STRIDE).unwrap()] as usize;
        self.references[region][0] += 1;
        self.references[black_box(region)][0] -= 1;
    }
}

/// End and references, by start.
type Tree = BTreeMap<u64, (u64, u32)>;

fn in_tree(tree: &mut Tree, nth: u64) {
    let wanted = black_box(request(nth));
    let (start, (end, references)) = tree.range_mut(..=wanted.address()).next_back().unwrap();
    assert!(*end >= wanted.address() + wanted.bytes());
    *references += 1;
    let start = *start;
    tree.get_mut(&black_box(start)).unwrap().1 -= 1;
}

/// A look-up alone: its values are not to be changed.
fn in_ranges(ranges: &RangeMap<u64, u64>, nth: u64) {
    let wanted = black_box(request(nth));
    let (range, region) = ranges.get_key_value(&wanted.address()).unwrap();
    assert!(range.end >= wanted.address() + wanted.bytes());
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
    let mut bare = Bare::new(count);
    for is_random in [true, false] {
        let mut nth = [const { Steps::new() }; 6].map(|mut steps| {
            move || match is_random {
                true => steps.below(count),
                false => count - 1,
            }
        });
        let [ours, within, scans, trees, maps, bares] = &mut nth;
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
            .with("table of pages, nothing checked", || bare.hit(bares()))
            .run_and_cold();
    }
}

fn changes(board: &mut Board, count: u64) {
    let mut cache = filled(count);
    let gap = |nth: u64| range(nth * STRIDE + BYTES, 4096);
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
            let at = sorted.partition_point(|entry| entry.0 <= wanted.address());
            sorted.insert(at, (wanted.address(), 1, 1));
            sorted.remove(black_box(at));
        })
        .with("rangemap, no nesting", || {
            let wanted = black_box(gap(mapped.below(count)));
            let range = wanted.address()..wanted.address() + wanted.bytes();
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
