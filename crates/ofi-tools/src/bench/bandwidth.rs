//! bw, bidir and rate: a window of messages in flight between two ranks.

use std::time::Instant;

use super::context::Context;
use super::fail::{At as _, Fail, Place};
use super::flow::{self, End, Flow, Spec};
use super::measure::{Measure, Total};
use super::plan::Mode;
use crate::abi::Buffer;
use crate::report::row::Row;
use crate::size::human;

/// One direction of one communicator, with its registered buffer.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) peer: usize,
    pub(crate) comm: usize,
    pub(crate) sending: bool,
    pub(crate) buffer: Buffer,
}

/// Runs one of the modes over all its sizes and windows.
pub(crate) fn run(ctx: &mut Context<'_>, mode: Mode) -> Result<(), Fail> {
    let peers: Vec<usize> = ctx.partner().into_iter().collect();
    ctx.connect(&peers, &peers)?;
    for window in ctx.plan.windows_of(mode) {
        for size in ctx.plan.sizes_of(mode) {
            point(ctx, mode, size, window)?;
        }
    }
    Ok(())
}

fn point(ctx: &mut Context<'_>, mode: Mode, size: usize, asked: usize) -> Result<(), Fail> {
    let width = ctx.mesh.width();
    let window = asked
        .min(ctx.plan.pool / (width * Spec::stride(size)))
        .max(1);
    ctx.begin(mode, &format!("{} B, window {window}", human(size)));
    let sides = open(ctx, mode, Spec::stride(size) * window)?;
    let iterations = match ctx.plan.iters {
        Some(n) => n,
        None => calibrate(ctx, &sides, (size, window))?,
    };
    let total = timed(ctx, &sides, (size, window), iterations)?;
    close(ctx, sides)?;
    if ctx.link.rank == 0 {
        ctx.link.row(Row {
            mode,
            size,
            window,
            window_asked: asked,
            comms: width,
            iterations,
            messages: total.messages,
            latency_us: total.latency,
            algorithm_gbps: total.gbps(),
            bus_gbps: total.gbps(),
            messages_per_s: total.rate(),
            verified: ctx.plan.check,
        })?;
    }
    Ok(())
}

/// Registers the buffers of this rank's directions; none if it has no partner.
fn open(ctx: &mut Context<'_>, mode: Mode, bytes: usize) -> Result<Vec<Side>, Fail> {
    let Some(peer) = ctx.partner() else {
        return Ok(Vec::new());
    };
    let mut sides = Vec::new();
    for comm in 0..ctx.mesh.width() {
        for sending in [true, false] {
            if mode == Mode::Bidir || sending == (ctx.link.rank % 2 == 0) {
                sides.push(register(ctx, (peer, comm, sending), bytes)?);
            }
        }
    }
    Ok(sides)
}

/// Maps and registers a buffer for one direction of a communicator.
pub(crate) fn register(
    ctx: &mut Context<'_>,
    (peer, comm, sending): (usize, usize, bool),
    bytes: usize,
) -> Result<Side, Fail> {
    let region = ctx.region(bytes)?;
    let buffer = if sending {
        let (end, place) = ctx.sender(peer, comm)?;
        ctx.plugin
            .register_send(end, region)
            .at(Context::registering(place, bytes))?
    } else {
        let (end, place) = ctx.receiver(peer, comm)?;
        ctx.plugin
            .register_recv(end, region)
            .at(Context::registering(place, bytes))?
    };
    ctx.link.board.step();
    Ok(Side {
        peer,
        comm,
        sending,
        buffer,
    })
}

/// Gives the buffers back; every rank does so at this point.
pub(crate) fn close(ctx: &mut Context<'_>, sides: Vec<Side>) -> Result<(), Fail> {
    for side in sides {
        let region = if side.sending {
            let (end, _) = ctx.sender(side.peer, side.comm)?;
            ctx.plugin.deregister_send(end, side.buffer)
        } else {
            let (end, _) = ctx.receiver(side.peer, side.comm)?;
            ctx.plugin.deregister_recv(end, side.buffer)
        };
        let region = region.map_err(|e| Context::at("deregister a buffer", e))?;
        ctx.recycle(region);
    }
    Ok(())
}

/// How many messages a flow takes to run for the time asked for: what the slowest rank says.
fn calibrate(
    ctx: &mut Context<'_>,
    sides: &[Side],
    (size, window): (usize, usize),
) -> Result<u64, Fail> {
    let mut n = u64::try_from(window.clamp(4, 16)).unwrap_or(4);
    loop {
        let total = timed(ctx, sides, (size, window), n)?;
        let wanted = scaled(n, ctx.plan.seconds / total.seconds.max(1e-7));
        if total.seconds >= ctx.plan.seconds / 8.0 || n >= MOST {
            return Ok(wanted.clamp(4, MOST));
        }
        n = wanted.clamp(n + 1, n * 8).min(MOST);
    }
}

/// Messages of a flow in one measurement, at most.
pub(crate) const MOST: u64 = 2_000_000;

/// `n * factor` for small positive factors.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "both are positive and the result is clamped to MOST by the callers"
)]
pub(crate) fn scaled(n: u64, factor: f64) -> u64 {
    (n as f64 * factor.clamp(0.0, 1e9)) as u64
}

/// Runs `n` messages through each flow of all ranks.
fn timed(
    ctx: &mut Context<'_>,
    sides: &[Side],
    (size, window): (usize, usize),
    n: u64,
) -> Result<Total, Fail> {
    ctx.epoch += 1;
    let mut flows = Vec::new();
    for side in sides {
        flows.push(flow(ctx, side, (size, window), n)?);
    }
    let idle = ctx.idle(ctx.busy_in_pairs());
    ctx.link.barrier()?;
    let start = Instant::now();
    flow::run(ctx.plugin, &mut flows, idle)?;
    let seconds = start.elapsed().as_secs_f64();
    let measure = collect(&flows, seconds);
    let (messages, bytes, retries) = counts(&flows);
    drop(flows);
    ctx.link.board.clear_gauges();
    ctx.tally.verified_messages += messages;
    ctx.tally.verified_bytes += bytes;
    ctx.tally.retries += retries;
    measure.combine(ctx.link)
}

/// The flow of one direction.
pub(crate) fn flow<'c>(
    ctx: &'c Context<'_>,
    side: &'c Side,
    (size, window): (usize, usize),
    n: u64,
) -> Result<Flow<'c>, Fail> {
    let me = ctx.link.rank;
    let (end, ends): ((End<'c>, Place), (usize, usize)) = if side.sending {
        let (comm, place) = ctx.sender(side.peer, side.comm)?;
        ((End::Send(comm), place), (me, side.peer))
    } else {
        let (comm, place) = ctx.receiver(side.peer, side.comm)?;
        ((End::Recv(comm), place), (side.peer, me))
    };
    let spec = Spec {
        size,
        window,
        check: ctx.plan.check,
        random: ctx.plan.random_sizes,
        flush: ctx.plan.flush,
        lax_sizes: ctx.plan.check_plan.lax_sizes,
        source: ctx.source(ends, side.comm),
    };
    let gauge = ctx.link.board.gauge(end.1.to_string(), n);
    Ok(Flow::new(end, &side.buffer, spec, n, gauge))
}

/// Messages and bytes are counted where they arrive.
fn collect(flows: &[Flow<'_>], seconds: f64) -> Measure {
    let receiving = || flows.iter().filter(|f| f.is_receiving());
    Measure {
        seconds,
        bytes: receiving().map(|f| f.bytes).sum(),
        messages: receiving().map(|f| f.done).sum(),
        samples: flows
            .iter()
            .filter(|f| !f.is_receiving())
            .flat_map(|f| f.samples.iter().copied())
            .collect(),
    }
}

/// Verified messages and bytes, and refused posts.
pub(crate) fn counts(flows: &[Flow<'_>]) -> (u64, u64, u64) {
    let verified = || flows.iter().filter(|f| f.is_receiving() && f.verifies());
    (
        verified().map(|f| f.done).sum(),
        verified().map(|f| f.bytes).sum(),
        flows.iter().map(|f| f.retries).sum(),
    )
}
