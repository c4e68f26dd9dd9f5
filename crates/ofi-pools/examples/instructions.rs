//! Counts instructions: run under callgrind once with 0 rounds and once with many; the difference
//! divided by the rounds is what one round costs, its loop and `black_box` included.
//!
//! ```text
//! cargo build --release -p ofi-pools --example instructions
//! valgrind --tool=callgrind --callgrind-out-file=/dev/null target/release/examples/instructions table 100000
//! ```

#![expect(clippy::unwrap_used, reason = "a measurement that is wrong should end")]

use core::hint::black_box;
use ofi_pools::freelist::HeapBlocks;
use ofi_pools::mr::Attr;
use ofi_pools::{Freelist, FreelistConfig, IdPool, Lookup, MrCache, Request, Table};

fn table(rounds: u64) {
    let mut table: Table<u64> = Table::new();
    assert!(table.reserve(64));
    for _ in 0..rounds {
        let key = table.insert(black_box(7)).unwrap();
        black_box(table.remove(black_box(key)).unwrap());
    }
}

fn get(rounds: u64) {
    let mut table: Table<u64> = Table::new();
    let key = table.insert(7).unwrap();
    for _ in 0..rounds {
        black_box(table.get(black_box(key)).unwrap());
    }
}

fn freelist(rounds: u64) {
    let mut list = Freelist::new(FreelistConfig::default()).unwrap();
    let first = list.take(&mut HeapBlocks).unwrap().unwrap();
    list.give(first).unwrap();
    for _ in 0..rounds {
        let slot = list.try_take().unwrap();
        list.give(black_box(slot)).unwrap();
    }
}

fn idpool(rounds: u64) {
    let mut pool = IdPool::full(64);
    for _ in 0..256 {
        assert!(pool.alloc().is_some());
    }
    (0..128).for_each(|raw| pool.free(raw).unwrap());
    for _ in 0..rounds {
        let id = pool.alloc().unwrap();
        pool.free(black_box(id.raw)).unwrap();
    }
}

fn mrcache(rounds: u64, regions: u64, step: u64) {
    let mut cache = MrCache::new(4096).unwrap();
    let attr = Attr {
        access: 0x3f00,
        ..Attr::default()
    };
    let request = |nth: u64| Request {
        address: nth * 8192,
        bytes: 4096,
        attr,
    };
    for nth in 0..regions {
        let Lookup::Miss(ticket) = cache.lookup(&request(nth)).unwrap() else {
            unreachable!()
        };
        cache.complete(ticket, nth).unwrap();
    }
    let mut nth = regions - 1;
    for _ in 0..rounds {
        let Lookup::Hit(handle) = cache.lookup(&black_box(request(nth))).unwrap() else {
            unreachable!()
        };
        black_box(handle);
        nth += step;
        if nth >= regions {
            nth -= regions;
        }
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let what = arguments.next();
    let rounds = arguments.next().map_or(0, |rounds| rounds.parse().unwrap());
    match what.as_deref() {
        Some("table") => table(rounds),
        Some("get") => get(rounds),
        Some("freelist") => freelist(rounds),
        Some("idpool") => idpool(rounds),
        Some("mr-last") => mrcache(rounds, 10_000, 0),
        Some("mr-random") => mrcache(rounds, 10_000, 7_919),
        _ => panic!("usage: instructions table|get|freelist|idpool|mr-last|mr-random ROUNDS"),
    }
}
