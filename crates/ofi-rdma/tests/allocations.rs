//! The engine over a rail that takes everything allocates nothing once it is warm.
#![expect(clippy::unwrap_used, reason = "test code")]

#[path = "../examples/hot_path/bench.rs"]
mod bench;

use bench::{Bench, Comm, LONG, imm};
use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use std::alloc::System;

thread_local! {
    /// Allocations of this thread, while they are counted.
    static COUNT: Cell<Option<u64>> = const { Cell::new(None) };
}

struct Counting;

// SAFETY: the system's allocator does all the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // No thread allocates after its variables are gone.
        let _counted = COUNT.try_with(|count| count.set(count.get().map(|so_far| so_far + 1)));
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(start, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How many allocations this thread makes in `work`.
fn allocations(work: impl FnOnce()) -> u64 {
    COUNT.set(Some(0));
    work();
    COUNT.replace(None).unwrap()
}

/// A message with its CTRL first, one with its CTRL after isend, a short one without: `RAILS` rails.
fn send(bench: &mut Bench, comm: &mut Comm) {
    for (len, ctrl_first) in [(LONG, true), (LONG, false), (4096, false), (0, true)] {
        let (bytes, used) = bench.ctrl(comm, LONG);
        if ctrl_first {
            bench.engine.on_control(&bytes[..used]);
        }
        let request = bench.isend(comm, len);
        bench.complete();
        if !ctrl_first {
            bench.engine.on_control(&bytes[..used]);
            bench.settle();
        }
        bench.done(request);
    }
}

fn receive(bench: &mut Bench, comm: &mut Comm) {
    let request = bench.irecv(comm);
    bench.complete();
    for rail in 0..RAILS {
        let len = u64::from(LONG) / u64::from(RAILS);
        bench
            .engine
            .on_remote_write(rail, imm(comm, RAILS), Some(len));
    }
    bench.settle();
    bench.done(request);
}

const RAILS: u8 = 4;

#[test]
fn a_million_messages_allocate_nothing() {
    let mut bench = Bench::new(RAILS);
    let (mut to, mut from) = (bench.sender(), bench.receiver());
    let mut rounds = |rounds| {
        for _ in 0..rounds {
            send(&mut bench, &mut to);
            receive(&mut bench, &mut from);
        }
    };
    rounds(2000);
    assert_eq!(allocations(|| rounds(200_000)), 0, "in a million messages");
    let probe = allocations(|| drop(core::hint::black_box(Box::new(1_u64))));
    assert_eq!(probe, 1, "they are counted");
}
