//! One write of a peer: from the entry of a completion queue to the request; and queues full of them.

use core::hint::black_box;
use core::time::Duration;
use std::time::Instant;

use ofi_bench::Board;
use ofi_bench::random::Steps;
use ofi_rdma::{Base, Dialect, ReqKey};

use crate::bench::{Bench, Comm, imm};
use crate::peers::{Dash, Find, Locked, Papaya, Peer};
use crate::reference::Table;

/// Receives that wait at a time, on as many communicators drawn at random.
const WAITING: usize = 64;
/// Segments of a message.
const SEGMENTS: u8 = 4;
const LEN: u64 = 1000;

/// What is timed of a message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    ButLast,
    Last,
}

impl Part {
    const fn segments(self) -> core::ops::Range<u8> {
        match self {
            Self::ButLast => 0..SEGMENTS - 1,
            Self::Last => SEGMENTS - 1..SEGMENTS,
        }
    }
}

/// Who is told of writes.
trait Receiver {
    /// Posts a receive on communicator `at`; returns the immediate of its writes.
    fn post(&mut self, at: usize) -> u64;
    fn write(&mut self, rail: u8, data: u64);
    /// Ends the messages of a batch, all of whose writes came.
    fn take(&mut self, at: &[usize]);
}

struct Ours {
    bench: Bench,
    comms: Vec<Comm>,
    waiting: Vec<ReqKey>,
}

impl Ours {
    fn new(count: usize) -> Self {
        let mut bench = Bench::new(4);
        let comms = (0..count).map(|_| bench.receiver()).collect();
        Self {
            bench,
            comms,
            waiting: Vec::new(),
        }
    }
}

impl Receiver for Ours {
    fn post(&mut self, at: usize) -> u64 {
        let comm = &mut self.comms[at];
        self.waiting.push(self.bench.irecv(comm));
        self.bench.complete();
        imm(comm, SEGMENTS)
    }

    #[inline]
    fn write(&mut self, rail: u8, data: u64) {
        self.bench.engine.on_remote_write(rail, data, Some(LEN));
    }

    fn take(&mut self, _: &[usize]) {
        let waiting = core::mem::take(&mut self.waiting);
        waiting.iter().for_each(|req| self.bench.done(*req));
    }
}

impl<F: Find> Receiver for F {
    fn post(&mut self, at: usize) -> u64 {
        let id = u32::try_from(at).unwrap();
        let seq = self.with(id, Peer::post).unwrap();
        Base::encode_imm(SEGMENTS, id, seq).into()
    }

    #[inline]
    fn write(&mut self, rail: u8, data: u64) {
        let fields = Base::decode_imm(u32::try_from(data).unwrap());
        let found = self.with(fields.comm, |peer| {
            peer.land(fields.seq, fields.nseg, rail, LEN)
        });
        assert!(black_box(found.flatten()).is_some());
    }

    fn take(&mut self, at: &[usize]) {
        for &at in at {
            self.with(u32::try_from(at).unwrap(), Peer::take);
        }
    }
}

/// The time of at least `rounds` writes, scaled to that many.
fn writes(receiver: &mut impl Receiver, comms: u64, part: Part, rounds: u64) -> Duration {
    let mut steps = Steps::new();
    let (mut total, mut count) = (Duration::ZERO, 0);
    while count < rounds {
        let draw = |_| usize::try_from(steps.below(comms)).unwrap();
        let at: Vec<usize> = (0..WAITING).map(draw).collect();
        let datas: Vec<u64> = at.iter().map(|&at| receiver.post(at)).collect();
        for segment in 0..SEGMENTS {
            let start = Instant::now();
            for &data in &datas {
                let (segment, data) = black_box((segment, data));
                receiver.write(segment, data);
            }
            if part.segments().contains(&segment) {
                total += start.elapsed();
                count += WAITING as u64;
            }
        }
        receiver.take(&at);
    }
    total.mul_f64(rounds as f64 / count as f64)
}

pub(crate) fn run(board: &mut Board) {
    for (comms, title) in [(1, "1"), (1000, "1 000"), (32_000, "32 000")] {
        let ids = u32::try_from(comms).unwrap();
        let mut ours = Ours::new(ids as usize);
        let mut table = Table::new(ids);
        let mut dash = Dash::new(ids);
        let mut papaya = Papaya::new(ids);
        let mut locked = Locked::new(ids);
        for (part, name) in [(Part::ButLast, "not the last"), (Part::Last, "the last")] {
            board
                .group(format!("write of a peer, {name}, {title} communicators"))
                .timed("ofi-rdma", |n| writes(&mut ours, comms, part, n))
                .timed("table, 4 mutexes, %", |n| {
                    writes(&mut table, comms, part, n)
                })
                .timed("dashmap + mutex", |n| writes(&mut dash, comms, part, n))
                .timed("papaya + mutex", |n| writes(&mut papaya, comms, part, n))
                .timed("hashbrown in a mutex", |n| {
                    writes(&mut locked, comms, part, n)
                })
                .run();
        }
    }
    drain(board);
}

/// Queues full of completions of one communicator, in batches.
fn drain(board: &mut Board) {
    for batch in [1_usize, 4, 16, 64] {
        let mut bench = Bench::new(4);
        let mut comm = bench.receiver();
        board
            .group(format!("completion queue, batches of {batch}"))
            .timed("ofi-rdma", |n| drained(&mut bench, &mut comm, batch, n))
            .run();
    }
}

/// The time of at least `rounds` completions, scaled to that many.
fn drained(bench: &mut Bench, comm: &mut Comm, batch: usize, rounds: u64) -> Duration {
    let (mut total, mut count) = (Duration::ZERO, 0);
    while count < rounds {
        let mut entries = Vec::new();
        let mut requests = Vec::new();
        for _ in 0..WAITING {
            requests.push(bench.irecv(comm));
            bench.complete();
            let data = imm(comm, SEGMENTS);
            entries.extend((0..SEGMENTS).map(|_| (data, Some(LEN))));
        }
        let rail = black_box(2);
        let start = Instant::now();
        for entries in entries.chunks(batch) {
            for &(data, len) in black_box(entries) {
                bench.engine.on_remote_write(rail, data, len);
            }
        }
        total += start.elapsed();
        count += entries.len() as u64;
        requests.iter().for_each(|req| bench.done(*req));
    }
    total.mul_f64(rounds as f64 / count as f64)
}
