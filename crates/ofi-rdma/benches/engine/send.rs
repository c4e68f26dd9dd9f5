//! isend and irecv to their posts.

use core::time::Duration;
use std::time::Instant;

use ofi_bench::Board;

use crate::bench::{Bench, Comm, LONG, imm};
use crate::reference::Sender;

/// Messages timed at a time.
const BURST: u64 = 64;

/// The time of at least `rounds` messages, scaled: `start` is timed, `end` is not.
fn bursts<W, R>(
    world: &mut W,
    rounds: u64,
    prepare: impl Fn(&mut W),
    start: impl Fn(&mut W) -> R,
    end: impl Fn(&mut W, R),
) -> Duration {
    let (mut total, mut count) = (Duration::ZERO, 0);
    let mut open = Vec::with_capacity(usize::try_from(BURST).unwrap());
    while count < rounds {
        prepare(world);
        let clock = Instant::now();
        for _ in 0..BURST {
            open.push(start(world));
        }
        total += clock.elapsed();
        count += BURST;
        open.drain(..).for_each(|one| end(world, one));
    }
    total.mul_f64(rounds as f64 / count as f64)
}

/// An engine and a communicator of it.
struct Ours {
    bench: Bench,
    comm: Comm,
}

/// The CTRLs of the messages to come.
fn tell(ours: &mut Ours) {
    let mut ahead = ours.comm;
    for _ in 0..BURST {
        let (bytes, used) = ours.bench.ctrl(&ahead, LONG);
        ours.bench.engine.on_control(&bytes[..used]);
        ahead.seq = (ahead.seq + 1) & 0x3FF;
    }
}

fn isend(board: &mut Board, rails: u8) {
    let mut bench = Bench::new(rails);
    let comm = bench.sender();
    let mut ours = Ours { bench, comm };
    let mut reference = Sender::new(rails);
    let s = if rails == 1 { "" } else { "s" };
    board
        .group(format!("isend to the post, {rails} stripe{s}"))
        .timed("ofi-rdma", |n| {
            let start = |w: &mut Ours| w.bench.isend(&mut w.comm, LONG);
            bursts(&mut ours, n, tell, start, |w, req| {
                // All of the burst, at its first request.
                w.bench.complete();
                w.bench.done(req);
            })
        })
        .timed("mutexes, %, Vec", |n| {
            let start = |w: &mut Sender| w.isend(LONG.into());
            bursts(&mut reference, n, |_| (), start, |w, req| w.free_send(req))
        })
        .run();
}

fn irecv(board: &mut Board, rails: u8) {
    let mut bench = Bench::new(rails);
    let comm = bench.receiver();
    let mut ours = Ours { bench, comm };
    let mut reference = Sender::new(rails);
    let s = if rails == 1 { "" } else { "s" };
    board
        .group(format!("irecv to the post of its CTRL, {rails} rail{s}"))
        .timed("ofi-rdma", |n| {
            let start = |w: &mut Ours| {
                let request = w.bench.irecv(&mut w.comm);
                (request, imm(&w.comm, 1))
            };
            bursts(
                &mut ours,
                n,
                |_| (),
                start,
                |w, (request, data)| {
                    w.bench.complete();
                    w.bench.engine.on_remote_write(0, data, Some(1000));
                    w.bench.done(request);
                },
            )
        })
        .timed("mutexes, %", |n| {
            let start = |w: &mut Sender| w.irecv(LONG.into());
            bursts(&mut reference, n, |_| (), start, |w, req| w.free_recv(req))
        })
        .run();
}

pub(crate) fn run(board: &mut Board) {
    for rails in [1, 4] {
        isend(board, rails);
        irecv(board, rails);
    }
}
