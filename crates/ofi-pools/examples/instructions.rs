//! Counts instructions: one case a run, under callgrind, which counts only inside `measured`; the program prints how
//! many operations those were. `cargo xtask hot` does that, and takes the case `frame` off: a loop, and a word or two
//! that the compiler knows nothing of.
//!
//! ```text
//! cargo build --release -p ofi-pools --example instructions
//! valgrind --tool=callgrind --toggle-collect='*measured*' --callgrind-out-file=/dev/null \
//!     target/release/examples/instructions take
//! ```

#![expect(clippy::print_stdout, reason = "this is the report")]
#![expect(clippy::unwrap_used, reason = "a measurement that is wrong should end")]

use core::hint::black_box;
use ofi_pools::freelist::HeapBlocks;
use ofi_pools::mr::Attr;
use ofi_pools::{Freelist, FreelistConfig, IdPool, Key, Lookup, MrCache, Request, Slot, Table};

const ROUNDS: u32 = 10_000;
/// Slots and ids taken at a time.
const BURST: usize = 64;

/// The part of a run that is counted.
#[inline(never)]
fn measured(work: impl FnOnce()) {
    work();
}

/// What is counted or only done.
fn counted(is_counted: bool, mut work: impl FnMut()) {
    if is_counted {
        measured(work);
    } else {
        work();
    }
}

fn frame() -> u32 {
    let words = [7_u64; BURST];
    let mut count = 0;
    while count < ROUNDS {
        measured(|| {
            for word in &words {
                black_box(*word);
            }
        });
        count += 64;
    }
    count
}

/// One operation for each of [`BURST`] things: `first` and `second` in turn, one of them counted.
fn turns<W, T: Copy>(
    world: &mut W,
    mut first: impl FnMut(&mut W) -> T,
    mut second: impl FnMut(&mut W, T),
    is_first: bool,
) -> u32 {
    let mut taken: [Option<T>; BURST] = [None; BURST];
    let mut count = 0;
    while count < ROUNDS {
        let take = || taken.iter_mut().for_each(|slot| *slot = Some(first(world)));
        counted(is_first, take);
        let give = || taken.iter().flatten().for_each(|one| second(world, *one));
        counted(!is_first, give);
        count += 64;
    }
    count
}

fn freelist(is_take: bool) -> u32 {
    let mut list = Freelist::new(FreelistConfig::default()).unwrap();
    // All blocks there are: what is counted never grows.
    let slots: Vec<Slot> = (0..BURST)
        .map(|_| list.take(&mut HeapBlocks).unwrap().unwrap())
        .collect();
    slots.iter().for_each(|slot| list.give(*slot).unwrap());
    turns(
        &mut list,
        |list| list.try_take().unwrap(),
        |list, slot| list.give(slot).unwrap(),
        is_take,
    )
}

fn table(is_insert: bool) -> u32 {
    let mut table: Table<u64> = Table::new();
    assert!(table.reserve(64));
    turns(
        &mut table,
        |table| table.insert(7).unwrap(),
        |table, key: Key| {
            table.remove(key).unwrap();
        },
        is_insert,
    )
}

fn idpool(is_alloc: bool) -> u32 {
    let mut pool = IdPool::full(64);
    for _ in 0..256 {
        assert!(pool.alloc().is_some());
    }
    (0..128).for_each(|raw| pool.free(raw).unwrap());
    turns(
        &mut pool,
        |pool| pool.alloc().unwrap().raw,
        |pool, raw| pool.free(raw).unwrap(),
        is_alloc,
    )
}

fn get() -> u32 {
    let mut table: Table<u64> = Table::new();
    let key = table.insert(7).unwrap();
    measured(|| {
        for _ in 0..ROUNDS {
            black_box(*table.get(black_box(key)).unwrap());
        }
    });
    ROUNDS
}

fn mrcache(regions: u64, step: u64) -> u32 {
    let mut cache = MrCache::new(4096).unwrap();
    let request = |nth: u64| Request::new(nth * 8192, 4096, Attr::new(0x3f00)).unwrap();
    for nth in 0..regions {
        let Lookup::Miss(ticket) = cache.lookup(&request(nth)).unwrap() else {
            unreachable!()
        };
        cache.complete(ticket, nth).unwrap();
    }
    // As a caller has them: made before.
    let at = |n: u64| request((regions - 1 + n * step) % regions);
    let requests: Vec<Request> = (0..u64::from(ROUNDS)).map(at).collect();
    measured(|| {
        for request in &requests {
            let Ok(Lookup::Hit(handle)) = cache.lookup(request) else {
                unreachable!()
            };
            black_box(handle);
        }
    });
    ROUNDS
}

/// A case: its name, and what runs it and says how many operations were measured.
type Case = (&'static str, fn() -> u32);

const CASES: [Case; 10] = [
    ("frame", frame),
    ("take", || freelist(true)),
    ("give", || freelist(false)),
    ("insert", || table(true)),
    ("remove", || table(false)),
    ("get", get),
    ("id_alloc", || idpool(true)),
    ("id_free", || idpool(false)),
    ("mr_last", || mrcache(10_000, 0)),
    ("mr_random", || mrcache(10_000, 7_919)),
];

fn main() {
    let wanted = std::env::args().nth(1);
    for (name, run) in CASES {
        match &wanted {
            None => println!("{name}"),
            Some(wanted) if wanted == name => println!("{}", run()),
            Some(_) => {}
        }
    }
}
