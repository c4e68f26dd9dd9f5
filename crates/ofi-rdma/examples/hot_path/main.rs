//! What the engine costs, in instructions: one case a run, under callgrind, which counts only inside
//! [`measured`].
//!
//! ```text
//! cargo build --release -p ofi-rdma --example hot_path
//! valgrind --tool=callgrind --toggle-collect='*measured*' --callgrind-out-file=/dev/null \
//!     target/release/examples/hot_path isend1
//! ```
//!
//! The program prints how many operations were measured; `Collected` divided by it, less the same of
//! the case `frame`, is the cost of one. `cargo xtask hot` does that for all cases, and
//! compares with `docs/hot-path.md`. Without an argument the cases are listed.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a measurement that cannot start is none"
)]

mod bench;

use core::hint::black_box;

use ofi_rdma::limits::EP_NAME_BYTES;
use ofi_rdma::{Lane, RailPort, Target, Test};

use bench::{Bench, Comm, LONG, Taken, imm};

/// Operations measured, but for cases that say otherwise.
const ROUNDS: u64 = 10_000;

/// The part of a run that is counted.
#[inline(never)]
fn measured<R>(work: impl FnOnce() -> R) -> R {
    work()
}

fn frame() -> u64 {
    for _ in 0..ROUNDS {
        measured(|| black_box(()));
    }
    ROUNDS
}

/// The rail alone.
fn rail() -> u64 {
    let mut bench = Bench::new(1);
    let _comm = bench.sender();
    let target = Target {
        control_name: [1; EP_NAME_BYTES],
        listener_id: 0,
    };
    let Bench { engine, port, .. } = &mut bench;
    engine.connect(0, port, &target).unwrap();
    let pending = engine.peek_post(Lane::control(0)).unwrap();
    for _ in 0..ROUNDS {
        measured(|| port.post(black_box(pending.post())));
    }
    ROUNDS
}

/// A message that fits `rails` stripes, whose CTRL is here: isend to the last post.
fn isend(rails: u8) -> u64 {
    let mut bench = Bench::new(rails);
    let mut comm = bench.sender();
    for _ in 0..ROUNDS {
        let (bytes, used) = bench.ctrl(&comm, LONG);
        bench.engine.on_control(&bytes[..used]);
        let req = measured(|| bench.isend(&mut comm, LONG));
        bench.complete();
        bench.done(req);
    }
    ROUNDS
}

/// A short message whose CTRL is not here.
fn eager() -> u64 {
    let mut bench = Bench::new(4);
    let mut comm = bench.sender();
    for _ in 0..ROUNDS {
        let (bytes, used) = bench.ctrl(&comm, LONG);
        let req = measured(|| bench.isend(&mut comm, 4096));
        bench.complete();
        bench.engine.on_control(&bytes[..used]);
        bench.done(req);
    }
    ROUNDS
}

/// A CTRL for a send that waits: its arrival to the last post.
fn late_ctrl(rails: u8) -> u64 {
    let mut bench = Bench::new(rails);
    let mut comm = bench.sender();
    for _ in 0..ROUNDS {
        let (bytes, used) = bench.ctrl(&comm, LONG);
        let req = bench.isend(&mut comm, LONG);
        measured(|| {
            bench.engine.on_control(black_box(&bytes[..used]));
            bench.engine.pump(&mut bench.port);
        });
        bench.complete();
        bench.done(req);
    }
    ROUNDS
}

/// A CTRL whose isend is to come.
fn early_ctrl() -> u64 {
    let mut bench = Bench::new(4);
    let mut comm = bench.sender();
    for _ in 0..ROUNDS {
        let (bytes, used) = bench.ctrl(&comm, LONG);
        measured(|| bench.engine.on_control(black_box(&bytes[..used])));
        let req = bench.isend(&mut comm, LONG);
        bench.complete();
        bench.done(req);
    }
    ROUNDS
}

/// Completions of our own writes, all but the last or only the last of a message.
fn local() -> u64 {
    let mut bench = Bench::new(4);
    let mut comm = bench.sender();
    let mut count = 0;
    for _ in 0..ROUNDS {
        let (bytes, used) = bench.ctrl(&comm, LONG);
        bench.engine.on_control(&bytes[..used]);
        let req = bench.isend(&mut comm, LONG);
        let tokens = core::mem::replace(&mut bench.port.taken.tokens, Taken::EMPTY);
        bench.port.taken.len = 0;
        for token in tokens.into_iter().flatten() {
            measured(|| bench.engine.on_local(black_box(token)));
            count += 1;
        }
        bench.done(req);
    }
    count
}

/// `test` of a request that is done.
fn done() -> u64 {
    let mut bench = Bench::new(4);
    let mut comm = bench.sender();
    for _ in 0..ROUNDS {
        let (bytes, used) = bench.ctrl(&comm, LONG);
        bench.engine.on_control(&bytes[..used]);
        let req = bench.isend(&mut comm, LONG);
        bench.complete();
        measured(|| bench.done(black_box(req)));
    }
    ROUNDS
}

/// irecv to the post of its CTRL.
fn irecv(rails: u8) -> u64 {
    let mut bench = Bench::new(rails);
    let mut comm = bench.receiver();
    for _ in 0..ROUNDS {
        let req = measured(|| bench.irecv(&mut comm));
        bench.complete();
        bench.engine.on_remote_write(0, imm(&comm, 1), Some(1000));
        bench.done(req);
    }
    ROUNDS
}

/// Writes of a peer: of four segments the first three, or the last; on one of `comms` communicators.
fn remote_write(comms: usize, last: bool) -> u64 {
    let mut bench = Bench::new(4);
    let mut all: Vec<Comm> = (0..comms).map(|_| bench.receiver()).collect();
    let mut at = 0;
    let mut count = 0;
    for _ in 0..ROUNDS {
        // Somewhere else each time: 7919 is prime to all numbers of communicators here.
        at = (at + 7919) % comms;
        let comm = &mut all[at];
        let req = bench.irecv(comm);
        bench.complete();
        let data = imm(comm, 4);
        for segment in 0..4_u8 {
            let engine = &mut bench.engine;
            let (segment, data, len) = black_box((segment, data, Some(1000)));
            let mut write = move || engine.on_remote_write(segment, data, len);
            if (segment == 3) == last {
                measured(write);
                count += 1;
            } else {
                write();
            }
        }
        bench.done(req);
    }
    count
}

/// Batches of `batch` completions, as a queue gives them: segments of four of many messages.
fn drain(batch: usize) -> u64 {
    const OUTSTANDING: usize = 64;
    let mut bench = Bench::new(4);
    let mut comm = bench.receiver();
    let mut count = 0;
    for _ in 0..ROUNDS / OUTSTANDING as u64 {
        let mut entries = Vec::new();
        let mut requests = Vec::new();
        for _ in 0..OUTSTANDING {
            requests.push(bench.irecv(&mut comm));
            bench.complete();
            let data = imm(&comm, 4);
            entries.extend((0..4).map(|_| (data, Some(1000_u64))));
        }
        for batch in entries.chunks(batch) {
            let engine = &mut bench.engine;
            // A queue is of one rail.
            let rail = black_box(2);
            measured(move || {
                for &(data, len) in black_box(batch) {
                    engine.on_remote_write(rail, data, len);
                }
            });
            count += batch.len() as u64;
        }
        requests.iter().for_each(|req| bench.done(*req));
    }
    count
}

/// `test` of requests that are not done, `outstanding` of them over as many of `comms` communicators as
/// they need: all of an epoch but the first.
fn idle(outstanding: usize, comms: usize) -> u64 {
    let mut bench = Bench::new(1);
    let mut all: Vec<Comm> = (0..comms).map(|_| bench.receiver()).collect();
    let mut requests = Vec::new();
    for comm in &mut all {
        while comm.seq < 128 && requests.len() < outstanding {
            requests.push(bench.irecv(comm));
            bench.complete();
        }
    }
    assert_eq!(requests.len(), outstanding);
    let (first, others) = requests.split_first().unwrap();
    let (mut count, mut polls) = (0, 0);
    while count < ROUNDS {
        let engine = &mut bench.engine;
        assert_eq!(engine.test(*first), Ok(Test::Pending { poll: true }));
        measured(|| {
            for req in black_box(others) {
                match engine.test(*req) {
                    Ok(Test::Pending { poll: false }) => {}
                    _ => polls += 1,
                }
            }
        });
        count += others.len() as u64;
    }
    assert_eq!(polls, 0);
    count
}

/// Connecting both ways, with `comms` of each kind there before: four calls and two messages.
fn connect(comms: u64) -> u64 {
    const PAIRS: u64 = 100;
    let mut bench = Bench::new(4);
    for _ in 0..comms {
        bench.sender();
        bench.receiver();
    }
    for _ in 0..PAIRS {
        measured(|| (bench.sender(), bench.receiver()));
    }
    PAIRS
}

/// A case: its name, and what runs it and says how many operations were measured.
type Case = (&'static str, fn() -> u64);

const CASES: [Case; 25] = [
    ("frame", frame),
    ("rail", rail),
    ("isend1", || isend(1)),
    ("isend4", || isend(4)),
    ("eager", eager),
    ("early_ctrl", early_ctrl),
    ("late_ctrl1", || late_ctrl(1)),
    ("late_ctrl4", || late_ctrl(4)),
    ("irecv1", || irecv(1)),
    ("irecv4", || irecv(4)),
    ("local", local),
    ("done", done),
    ("write", || remote_write(1, false)),
    ("write_last", || remote_write(1, true)),
    ("write_32k", || remote_write(32_000, false)),
    ("write_last_32k", || remote_write(32_000, true)),
    ("drain1", || drain(1)),
    ("drain4", || drain(4)),
    ("drain16", || drain(16)),
    ("drain64", || drain(64)),
    ("idle2", || idle(2, 1)),
    ("idle128", || idle(128, 1)),
    ("idle1024", || idle(1024, 8)),
    ("connect", || connect(0)),
    ("connect_16k", || connect(16_000)),
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
