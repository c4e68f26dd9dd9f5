//! Nothing is allocated on the data path once it is warm: isend, irecv, test, flush and the one-sided
//! calls, with every kind of message and with as many in flight as there can be. Counted are allocations
//! of ours; what the provider allocates for itself is its own affair.
#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use common::{
    Buffer, Side, config, connect, finish, in_one_process, irecv, isend, on_each_provider, pattern,
    until, wait,
};
use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use core::time::Duration;
use ofi_net::log::NoLog;
use ofi_net::{CommWord, Config, DumpConfig, LocalMemory, RemoteMemory, ReqWord, Transport};
use std::alloc::System;
use std::sync::Arc;
use std::time::Instant;

thread_local! {
    /// Allocations of this thread, while they are counted.
    static COUNT: Cell<Option<u64>> = const { Cell::new(None) };
    /// Bytes that this thread has allocated and not given back.
    static HELD: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

fn count() {
    // No thread of ours allocates after its variables are gone.
    let _counted = COUNT.try_with(|count| count.set(count.get().map(|so_far| so_far + 1)));
}

fn hold(more: usize, less: usize) {
    // As above. What another thread allocated may be given back here.
    let _held = HELD.try_with(|held| held.set(held.get().wrapping_add(more).wrapping_sub(less)));
}

// SAFETY: the system's allocator does all the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        hold(layout.size(), 0);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        hold(0, layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(start, layout) }
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count();
        hold(new_size, layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.realloc(start, layout, new_size) }
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

/// From nothing to stripes on all rails; of eager size and above.
const SIZES: [usize; 6] = [0, 8, 1000, 8000, 20_000, 300_000];
const LARGE: usize = 300_000;
/// Long enough for control messages of this process to arrive.
const LOOKING: Duration = Duration::from_millis(100);
/// Requests in flight on one communicator.
const CAP: usize = 128;

struct Pair {
    a: Side,
    b: Side,
    comms: (CommWord, CommWord),
    source: Buffer,
    sink: Buffer,
}

impl Pair {
    fn new(config: &Config) -> Self {
        let (a, b) = (Side::new(config.clone()), Side::new(config.clone()));
        let comms = connect(&a.net, &b.net);
        let source = Buffer::new(&a.net, comms.0, pattern(1, LARGE));
        let sink = Buffer::new(&b.net, comms.1, vec![0; LARGE]);
        Self {
            a,
            b,
            comms,
            source,
            sink,
        }
    }

    /// One message of each size, its receive first or last, and a flush of each.
    fn messages(&mut self) {
        let (a, b) = (&self.a.net, &self.b.net);
        for (n, len) in SIZES.into_iter().enumerate() {
            let (sent, received) = if n % 2 == 0 {
                let received = irecv(b, self.comms.1, &mut self.sink, 0, len);
                (isend(a, self.comms.0, &mut self.source, 0, len), received)
            } else {
                let sent = isend(a, self.comms.0, &mut self.source, 0, len);
                (sent, irecv(b, self.comms.1, &mut self.sink, 0, len))
            };
            let size = len as u64;
            assert_eq!(finish(a, sent, b, received), (size, size));
            let (at, mr) = (self.sink.at(0), self.sink.mr);
            // SAFETY: the buffer lives as long as the pair.
            if let Some(flush) = unsafe { b.iflush(self.comms.1, at, len, mr) }.unwrap() {
                wait(b, flush);
            }
        }
    }

    /// As many as there can be, and one that is not taken.
    fn burst(&mut self, requests: &mut [(Option<ReqWord>, Option<ReqWord>); CAP]) {
        let (a, b) = (&self.a.net, &self.b.net);
        for request in requests.iter_mut() {
            let sent = isend(a, self.comms.0, &mut self.source, 0, 5000);
            let received = irecv(b, self.comms.1, &mut self.sink, 0, 5000);
            *request = (Some(sent), Some(received));
        }
        let (at, mr) = (self.source.at(0), self.source.mr);
        // SAFETY: not taken.
        let one_more = unsafe { a.isend(self.comms.0, at, 8, Some(mr)) };
        assert_eq!(one_more.unwrap(), None);
        for request in requests {
            let (sent, received) = (request.0.take().unwrap(), request.1.take().unwrap());
            assert_eq!(finish(a, sent, b, received), (5000, 5000));
        }
    }

    /// As many receives as there can be are known to the sender before it sends: what it keeps of them grows
    /// with the most that there ever were.
    fn all_early(&mut self, requests: &mut [(Option<ReqWord>, Option<ReqWord>); CAP]) {
        let (a, b) = (&self.a.net, &self.b.net);
        let mut handle = [0; 128];
        let nobody = a.listen(0, &mut handle).unwrap();
        for request in requests.iter_mut() {
            request.1 = Some(irecv(b, self.comms.1, &mut self.sink, 0, 5000));
        }
        let start = Instant::now();
        while start.elapsed() < LOOKING {
            assert!(a.accept(nobody).unwrap().is_none(), "nobody connects");
            let first = requests[0].1.unwrap();
            assert_eq!(b.test(first).unwrap(), None, "nothing was sent");
        }
        a.close_listen(nobody).unwrap();
        for request in requests {
            let sent = isend(a, self.comms.0, &mut self.source, 0, 5000);
            let received = request.1.take().unwrap();
            assert_eq!(finish(a, sent, b, received), (5000, 5000));
        }
    }

    /// A write and an inline write by the sender, a read by the receiver.
    fn one_sided(&mut self) {
        let (a, b) = (&self.a.net, &self.b.net);
        let (mut here, there) = (local(&mut self.source), exposed(b, &mut self.sink));
        let write = until("iwrite", || {
            // SAFETY: both buffers live as long as the pair.
            unsafe { a.iwrite(self.comms.0, here, there) }.unwrap()
        });
        wait(a, write);
        let inline = until("iwriteInline", || {
            // SAFETY: as above.
            unsafe { a.iwrite_inline(self.comms.0, &[1, 2, 3], there) }.unwrap()
        });
        wait(a, inline);
        here = local(&mut self.sink);
        let there = exposed(a, &mut self.source);
        let read = until("iread", || {
            // SAFETY: as above.
            unsafe { b.iread(self.comms.1, here, there) }.unwrap()
        });
        wait(b, read);
    }
}

fn local(buffer: &mut Buffer) -> LocalMemory {
    LocalMemory {
        addr: buffer.at(0),
        len: 5000,
        mr: Some(buffer.mr),
    }
}

fn exposed(net: &Transport, buffer: &mut Buffer) -> RemoteMemory {
    RemoteMemory {
        addr: buffer.at(0).expose_provenance() as u64,
        key: net.mr_key(buffer.mr).unwrap(),
    }
}

fn nothing_is_allocated(config: &Config, is_one_sided: bool) {
    let mut pair = Pair::new(config);
    let (mut requests, mut early) = ([(None, None); CAP], [(None, None); CAP]);
    let mut rounds = |pair: &mut Pair, rounds| {
        for _ in 0..rounds {
            pair.messages();
            pair.burst(&mut requests);
            if is_one_sided {
                pair.one_sided();
            }
        }
    };
    rounds(&mut pair, 20);
    pair.all_early(&mut early);
    let made = allocations(|| rounds(&mut pair, 50));
    assert_eq!(
        made,
        0,
        "allocations in 50 rounds of {} requests",
        2 * (CAP + 6)
    );
    let probe = allocations(|| drop(core::hint::black_box(Box::new(1_u64))));
    assert_eq!(probe, 1, "they are counted");
}

fn rdma() {
    nothing_is_allocated(&config(2), true);
}

fn sendrecv() {
    nothing_is_allocated(&common::sendrecv(), false);
}

#[test]
fn the_warm_data_path_allocates_nothing() {
    in_one_process("the_warm_data_path_allocates_nothing", rdma);
}

#[test]
fn the_warm_data_path_of_sendrecv_allocates_nothing() {
    in_one_process("the_warm_data_path_of_sendrecv_allocates_nothing", sendrecv);
}

/// With the last records of what happens kept for dumps, whichever protocol.
fn remembered() {
    let dir = tempfile::tempdir().unwrap();
    let remembering = |config| Config {
        trace_ring: 64,
        dump: Some(DumpConfig {
            dir: dir.path().to_owned(),
            rank: None,
            world: None,
        }),
        ..config
    };
    nothing_is_allocated(&remembering(config(2)), true);
    nothing_is_allocated(&remembering(common::sendrecv()), false);
}

#[test]
fn keeping_the_last_records_allocates_nothing() {
    in_one_process("keeping_the_last_records_allocates_nothing", remembered);
}

/// Lives of a transport that are looked at, after those in which caches of the process fill.
const LIVES: usize = 100;

/// After as many lives the heap holds as much as before them, to the byte.
fn nothing_is_left_of(what: &str, life: impl Fn()) {
    (0..3).for_each(|_| life());
    let before = HELD.get();
    (0..LIVES).for_each(|_| life());
    assert_eq!(
        HELD.get() - before,
        0,
        "bytes left of {LIVES} lives: {what}"
    );
}

/// Found and ended, listened on, and so often as a failed start.
fn lives_of(config: &Config) {
    let init = |config: &Config| Transport::init(config.clone(), Arc::new(NoLog));
    nothing_is_left_of("init", || drop(init(config).unwrap()));
    nothing_is_left_of("listen", || {
        let net = init(config).unwrap();
        net.listen(0, &mut [0; 128]).unwrap();
    });
    let nowhere = Config {
        nic_groups: Some("nosuch".to_owned()),
        protocol: Some(ofi_net::Protocol::Rdma),
        ..config.clone()
    };
    nothing_is_left_of("a start that fails", || drop(init(&nowhere).unwrap_err()));
    let probe = core::hint::black_box(Box::new(1_u64));
    let before = HELD.get();
    drop(probe);
    assert_eq!(before - HELD.get(), 8, "they are counted");
}

/// Of either protocol: a process may start and end the plugin for each of its jobs.
#[test]
fn a_life_leaves_the_heap_where_it_was() {
    on_each_provider("a_life_leaves_the_heap_where_it_was", || {
        lives_of(&config(1));
        lives_of(&common::sendrecv());
    });
}
