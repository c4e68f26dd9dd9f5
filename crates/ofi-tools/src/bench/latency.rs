//! lat: ping-pong between two ranks, the receive always posted beforehand.

use std::time::Instant;

use super::bandwidth::{self, MOST, Side, counts, scaled};
use super::context::Context;
use super::fail::Fail;
use super::flow::{Flow, Spec};
use super::measure::{Measure, Total};
use super::plan::Mode;
use crate::report::row::Row;
use crate::size::human;

/// Receives posted ahead: the one waited for and the next.
const WINDOW: usize = 2;

/// Runs over all sizes, on the first communicator.
pub(crate) fn run(ctx: &mut Context<'_>) -> Result<(), Fail> {
    let peers: Vec<usize> = ctx.partner().into_iter().collect();
    ctx.connect(&peers, &peers)?;
    for size in ctx.plan.sizes_of(Mode::Lat) {
        point(ctx, size)?;
    }
    Ok(())
}

fn point(ctx: &mut Context<'_>, size: usize) -> Result<(), Fail> {
    ctx.begin(Mode::Lat, &format!("{} B", human(size)));
    let mut sides = Vec::new();
    if let Some(peer) = ctx.partner() {
        for sending in [true, false] {
            let bytes = Spec::stride(size) * WINDOW;
            sides.push(bandwidth::register(ctx, (peer, 0, sending), bytes)?);
        }
    }
    let rounds = match ctx.plan.iters {
        Some(n) => n,
        None => {
            let trial = 20;
            let total = timed(ctx, &sides, size, trial)?;
            scaled(trial, ctx.plan.seconds / total.seconds.max(1e-7)).clamp(20, MOST)
        }
    };
    let total = timed(ctx, &sides, size, rounds)?;
    bandwidth::close(ctx, sides)?;
    if ctx.link.rank == 0 {
        let gbps = total
            .latency
            .map_or(0.0, |l| size as f64 / l.median.max(1e-3) / 1e3);
        ctx.link.row(Row {
            mode: Mode::Lat,
            size,
            window: 1,
            window_asked: 1,
            comms: 1,
            iterations: rounds,
            messages: total.messages,
            latency_us: total.latency,
            algorithm_gbps: gbps,
            bus_gbps: gbps,
            messages_per_s: total.rate(),
            verified: ctx.plan.check,
        })?;
    }
    Ok(())
}

fn timed(ctx: &mut Context<'_>, sides: &[Side], size: usize, rounds: u64) -> Result<Total, Fail> {
    ctx.epoch += 1;
    let mut flows = Vec::new();
    for side in sides {
        flows.push(bandwidth::flow(ctx, side, (size, WINDOW), rounds)?);
    }
    let idle = ctx.idle(ctx.busy_in_pairs());
    let mut measure = Measure::default();
    if let [send, recv] = flows.as_mut_slice() {
        let mut game = Game {
            ctx,
            send,
            recv,
            rounds,
            idle,
        };
        game.serve()?;
        ctx.link.barrier()?;
        let start = Instant::now();
        let samples = if ctx.link.rank % 2 == 0 {
            game.ping()?
        } else {
            game.pong().map(|()| Vec::new())?
        };
        let seconds = start.elapsed().as_secs_f64();
        measure = Measure {
            seconds,
            bytes: recv.bytes,
            messages: recv.done,
            samples,
        };
    } else {
        ctx.link.barrier()?;
    }
    let (messages, bytes, retries) = counts(&flows);
    drop(flows);
    ctx.link.board.clear_gauges();
    ctx.tally.verified_messages += messages;
    ctx.tally.verified_bytes += bytes;
    ctx.tally.retries += retries;
    measure.combine(ctx.link)
}

struct Game<'g, 'c, 'r> {
    ctx: &'g Context<'r>,
    send: &'g mut Flow<'c>,
    recv: &'g mut Flow<'c>,
    rounds: u64,
    idle: fn(),
}

impl Game<'_, '_, '_> {
    /// Posts the next receive, if there is one.
    fn serve(&mut self) -> Result<(), Fail> {
        if self.recv.posted < self.rounds {
            while !self.recv.post(self.ctx.plugin)? {
                (self.idle)();
            }
        }
        Ok(())
    }

    fn post_send(&mut self) -> Result<(), Fail> {
        while !self.send.post(self.ctx.plugin)? {
            (self.idle)();
        }
        Ok(())
    }

    /// The side that begins; half round trips in microseconds.
    fn ping(&mut self) -> Result<Vec<f64>, Fail> {
        let mut samples = Vec::new();
        for round in 1..=self.rounds {
            let start = Instant::now();
            self.post_send()?;
            self.wait(round, round)?;
            samples.push(start.elapsed().as_secs_f64() * 0.5e6);
            self.serve()?;
        }
        Ok(samples)
    }

    fn pong(&mut self) -> Result<(), Fail> {
        for round in 1..=self.rounds {
            self.wait(round - 1, round)?;
            self.serve()?;
            self.post_send()?;
        }
        self.wait(self.rounds, self.rounds)
    }

    /// Until so many sends and receives are through.
    fn wait(&mut self, sends: u64, recvs: u64) -> Result<(), Fail> {
        while self.send.done < sends || self.recv.done < recvs {
            let sent = self.send.done < sends && self.send.retire(self.ctx.plugin)?;
            let received = self.recv.done < recvs && self.recv.retire(self.ctx.plugin)?;
            if !(sent || received) {
                (self.idle)();
            }
        }
        Ok(())
    }
}
