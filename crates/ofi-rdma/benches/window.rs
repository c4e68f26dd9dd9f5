//! The window of sequence numbers: a message inserted, found and completed; against the locked version with
//! remainders of protocol 2e.9, and with the least that anybody can do: a load and a store for each call, and nothing
//! checked, which is what is left to win.

#![expect(
    clippy::disallowed_types,
    reason = "the contender locks as the reference does"
)]
#![expect(clippy::unwrap_used, reason = "benchmark")]

use core::hint::black_box;
use std::sync::Mutex;

use ofi_bench::Board;
use ofi_rdma::bench_window::Window;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Status {
    Completed,
    InProgress,
    NotStarted,
    Unavailable,
}

/// Protocol 2e.9: sizes known at run time only, a mutex for each call.
struct Reference {
    inner: Mutex<Inner>,
}

struct Inner {
    slots: Vec<(Status, u64)>,
    last_incomplete: u16,
    next: u16,
    /// Sequence numbers there are.
    space: u16,
}

impl Inner {
    fn dist(&self, a: u16, b: u16) -> u16 {
        (a + self.space - b) % self.space
    }

    fn slot(&mut self, seq: u16) -> &mut (Status, u64) {
        let count = self.slots.len();
        &mut self.slots[usize::from(seq) % count]
    }

    fn status(&mut self, seq: u16) -> Status {
        let capacity = u16::try_from(self.slots.len()).unwrap();
        let (last, next) = (self.last_incomplete, self.next);
        if self.dist(seq, last) < self.dist(next, last) {
            return self.slot(seq).0;
        }
        if seq != last && self.dist(last, seq) <= capacity {
            return Status::Completed;
        }
        if self.dist(seq, next) < capacity - self.dist(next, last) {
            return Status::NotStarted;
        }
        Status::Unavailable
    }
}

impl Reference {
    fn new(space: u16, capacity: usize) -> Self {
        let inner = Inner {
            slots: vec![(Status::NotStarted, 0); capacity],
            last_incomplete: 0,
            next: 0,
            space,
        };
        Self {
            inner: Mutex::new(inner),
        }
    }

    fn insert(&self, seq: u16, element: u64) -> bool {
        let mut inner = self.inner.lock().unwrap();
        if inner.status(seq) != Status::NotStarted {
            return false;
        }
        *inner.slot(seq) = (Status::InProgress, element);
        while inner.dist(seq, inner.next) < inner.dist(inner.next, seq) || inner.next == seq {
            if inner.next != seq {
                let next = inner.next;
                inner.slot(next).0 = Status::NotStarted;
            }
            inner.next = (inner.next + 1) % inner.space;
        }
        true
    }

    fn retrieve(&self, seq: u16) -> Option<u64> {
        let mut inner = self.inner.lock().unwrap();
        let is_active = inner.status(seq) == Status::InProgress;
        is_active.then(|| inner.slot(seq).1)
    }

    fn complete(&self, seq: u16) -> bool {
        let mut inner = self.inner.lock().unwrap();
        if inner.status(seq) != Status::InProgress {
            return false;
        }
        *inner.slot(seq) = (Status::Completed, 0);
        while inner.last_incomplete != inner.next {
            let last = inner.last_incomplete;
            if inner.slot(last).0 != Status::Completed {
                break;
            }
            inner.last_incomplete = (last + 1) % inner.space;
        }
        true
    }
}

/// An array, and two numbers.
struct Bare {
    slots: [u32; 256],
    oldest: u16,
    next: u16,
}

impl Bare {
    const fn start(&mut self, index: u32) -> u16 {
        let seq = self.next;
        self.slots[(seq & 0xFF) as usize] = index + 1;
        self.next = (seq + 1) & 0x3FF;
        seq
    }

    const fn active(&self, seq: u16) -> u32 {
        self.slots[(seq & 0xFF) as usize]
    }

    const fn finish(&mut self, seq: u16) {
        self.slots[(seq & 0xFF) as usize] = 0;
        self.oldest = (self.oldest + 1) & 0x3FF;
    }
}

/// As many messages at a time as one has in flight; completed in the order of `at(n)`.
const BURST: u16 = 64;

fn burst(board: &mut Board, name: &str, at: impl Fn(u16) -> u16 + Copy) {
    let mut window = Window::new();
    let reference = Reference::new(black_box(1024), black_box(256));
    let mut bare = Bare {
        slots: [0; 256],
        oldest: 0,
        next: 0,
    };
    let mut next = 0;
    board
        .group(format!("window, {BURST} messages, {name}"))
        .with("ofi-rdma", || {
            let mut first = 0;
            for n in 0..BURST {
                let seq = window.start(black_box(u32::from(n)));
                if n == 0 {
                    first = seq;
                }
            }
            for n in 0..BURST {
                let seq = black_box((first + at(n)) & 0x3FF);
                assert!(black_box(window.active(seq)).is_some());
                window.finish(seq);
            }
        })
        .with("mutex + remainders", || {
            for n in 0..BURST {
                assert!(reference.insert(black_box((next + n) % 1024), u64::from(n)));
            }
            for n in 0..BURST {
                let seq = black_box((next + at(n)) % 1024);
                assert!(black_box(reference.retrieve(seq)).is_some());
                assert!(reference.complete(seq));
            }
            next = (next + BURST) % 1024;
        })
        .with("an array, nothing checked", || {
            let mut first = 0;
            for n in 0..BURST {
                let seq = bare.start(black_box(u32::from(n)));
                if n == 0 {
                    first = seq;
                }
            }
            for n in 0..BURST {
                let seq = black_box((first + at(n)) & 0x3FF);
                assert!(black_box(bare.active(seq)) != 0);
                bare.finish(seq);
            }
        })
        .run();
}

fn main() {
    let mut board = Board::new("window");
    burst(&mut board, "in order", |n| n);
    burst(&mut board, "reversed", |n| BURST - 1 - n);
    board.finish();
}
