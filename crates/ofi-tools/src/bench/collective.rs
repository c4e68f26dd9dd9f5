//! allreduce, allgather and alltoall: buffers, rounds, verification.

use std::time::Instant;

use super::alltoall::AllToAll;
use super::bandwidth::scaled;
use super::context::Context;
use super::element::{BYTES, Numbers};
use super::exchange::{self, Lane, Script, Track};
use super::fail::{At as _, Fail};
use super::flow::End;
use super::measure::Measure;
use super::payload::{self, GUARD_BYTE};
use super::plan::Mode;
use super::ring::{self, Reduce, Ring};
use crate::abi::{Buffer, Region};
use crate::report::row::Row;
use crate::size::human;

/// Guard bytes on either side of each area.
const MARGIN: usize = 256;
/// Operations of a point, at most.
const MOST_ROUNDS: u64 = 20_000;

/// Runs one of the collectives over all its sizes and windows.
pub(crate) fn run(ctx: &mut Context<'_>, mode: Mode) -> Result<(), Fail> {
    let peers: Vec<usize> = (0..ctx.link.world)
        .filter(|p| *p != ctx.link.rank)
        .collect();
    if mode == Mode::Alltoall {
        ctx.connect(&peers, &peers)?;
    } else {
        let (next, previous) = (ctx.next(), ctx.previous());
        ctx.connect(&[next], &[previous])?;
    }
    for window in ctx.plan.windows_of(mode) {
        for size in ctx.plan.sizes_of(mode) {
            point(ctx, mode, (size, window))?;
        }
    }
    Ok(())
}

/// The three buffers of a collective, each with a margin on both sides.
#[derive(Debug, Clone, Copy)]
struct Areas {
    regions: [Region; 3],
    lens: [usize; 3],
}

/// A communicator's end with the areas registered on it.
#[derive(Debug)]
struct Held {
    peer: usize,
    comm: usize,
    sending: bool,
    buffers: [Option<Buffer>; 3],
}

#[derive(Debug)]
enum Work {
    Ring(Ring),
    AllToAll(AllToAll),
}

/// One point: what is moved, where it lies.
struct Job {
    mode: Mode,
    /// Bytes as the user counts them: a whole number of units for every rank.
    size: usize,
    window: usize,
    areas: Areas,
    work: Work,
    numbers: Numbers,
}

fn point(ctx: &mut Context<'_>, mode: Mode, (size, window): (usize, usize)) -> Result<(), Fail> {
    ctx.begin(mode, &format!("{} B, window {window}", human(size)));
    let mut job = Job::new(ctx, mode, (size, window))?;
    let held = register(ctx, &job)?;
    let count = match ctx.plan.iters {
        Some(n) => n,
        None => {
            let trial = rounds(ctx, &mut job, &held, 1)?.combine(ctx.link)?;
            scaled(1, ctx.plan.seconds / trial.seconds.max(1e-7)).clamp(3, MOST_ROUNDS)
        }
    };
    let measure = rounds(ctx, &mut job, &held, count)?;
    let total = measure.combine(ctx.link)?;
    release(ctx, held)?;
    for region in job.areas.regions {
        ctx.recycle(region);
    }
    if ctx.link.rank == 0 {
        let operations = job.size as f64 * count as f64;
        let algorithm = operations / total.seconds.max(1e-9) / 1e9;
        ctx.link.row(Row {
            mode,
            size: job.size,
            window,
            window_asked: window,
            comms: ctx.mesh.width(),
            iterations: count,
            messages: total.messages,
            latency_us: total.latency,
            algorithm_gbps: algorithm,
            bus_gbps: algorithm * bus_factor(mode, ctx.link.world),
            messages_per_s: total.rate(),
            verified: ctx.plan.check,
        })?;
    }
    Ok(())
}

/// What each link must carry at least, per byte of the operation.
fn bus_factor(mode: Mode, world: usize) -> f64 {
    let n = world as f64;
    if mode == Mode::Allreduce {
        2.0 * (n - 1.0) / n
    } else {
        (n - 1.0) / n
    }
}

impl Job {
    fn new(
        ctx: &mut Context<'_>,
        mode: Mode,
        (size, window): (usize, usize),
    ) -> Result<Self, Fail> {
        let (rank, world) = (ctx.link.rank, ctx.link.world);
        let slice = ctx.plan.slice;
        let unit = if mode == Mode::Allreduce { BYTES } else { 1 };
        let units = if unit == BYTES {
            size / BYTES
        } else {
            size / world * world
        };
        let slices = Ring::slices_for(units, unit, world, slice);
        let mut ring = Ring {
            rank,
            world,
            units,
            unit,
            slices,
            base: MARGIN,
            reduce: None,
        };
        let slots = window * ctx.mesh.width();
        let numbers = Numbers {
            kind: ctx.plan.element,
            seed: super::draw::mix(ctx.plan.seed ^ ctx.epoch),
            world,
        };
        let lens = [units * unit, units * unit, slots * ring.largest()];
        let mut regions = Vec::new();
        for len in lens {
            regions.push(ctx.region(len + 2 * MARGIN)?);
        }
        let regions = [regions[0], regions[1], regions[2]];
        let [input, output, scratch] = regions;
        let work = if mode == Mode::Alltoall {
            Work::AllToAll(AllToAll {
                rank,
                world,
                block: units / world,
                slice,
                base: MARGIN,
            })
        } else {
            if mode == Mode::Allreduce {
                ring.reduce = Some(Reduce {
                    numbers,
                    input,
                    output,
                    scratch,
                    slots,
                });
            }
            Work::Ring(ring)
        };
        let areas = Areas { regions, lens };
        let job = Self {
            mode,
            size: units * unit,
            window,
            areas,
            work,
            numbers,
        };
        job.prepare(ctx);
        Ok(job)
    }

    /// Bytes of one rank's block.
    fn block(&self) -> usize {
        self.size / self.numbers.world
    }

    /// The input of this rank, and the margins.
    fn prepare(&self, ctx: &Context<'_>) {
        let Areas {
            regions: [input, ..],
            lens,
        } = self.areas;
        for (region, len) in self.areas.regions.iter().zip(lens) {
            payload::paint(*region, 0, MARGIN, GUARD_BYTE);
            payload::paint(*region, MARGIN + len, MARGIN, GUARD_BYTE);
        }
        let (me, block) = (ctx.link.rank, self.block());
        match self.mode {
            Mode::Allreduce => self.numbers.fill(input, MARGIN, self.size / BYTES, me),
            Mode::Allgather => {
                payload::fill(input, MARGIN + me * block, block, key(ctx, (me, me)));
            }
            _ => {
                for to in 0..ctx.link.world {
                    payload::fill(input, MARGIN + to * block, block, key(ctx, (me, to)));
                }
            }
        }
    }

    /// What a rank has without the network: its own block.
    fn own_block(&self, rank: usize) {
        if self.mode == Mode::Allreduce {
            return;
        }
        let [input, output, _] = self.areas.regions;
        let (from, len) = (MARGIN + rank * self.block(), self.block());
        let mut bytes = [0; 4096];
        for done in (0..len).step_by(bytes.len()) {
            let n = bytes.len().min(len - done);
            input.read(from + done, &mut bytes[..n]);
            output.write(from + done, &bytes[..n]);
        }
    }

    /// Every element of the output, and the margins of all areas.
    fn verify(&self, ctx: &Context<'_>, round: u64) -> Result<(), Fail> {
        let (operation, world, me) = (self.mode.name(), ctx.link.world, ctx.link.rank);
        let [_, output, _] = self.areas.regions;
        if self.mode == Mode::Allreduce {
            if let Some((index, bits)) = self.numbers.wrong(output, MARGIN, self.size / BYTES) {
                let (got, want) = (
                    self.numbers.show(bits),
                    self.numbers.show(self.numbers.sum(index)),
                );
                return Err(Fail::Element {
                    operation,
                    round,
                    index,
                    got,
                    want,
                });
            }
        } else {
            let block = self.block();
            for from in 0..world {
                let ends = if self.mode == Mode::Allgather {
                    (from, from)
                } else {
                    (from, me)
                };
                let at = MARGIN + from * block;
                if let Some(d) = payload::difference(output, at, block, key(ctx, ends)) {
                    let (got, want) = (format!("{:#04x}", d.got), format!("{:#04x}", d.want));
                    let index = from * block + d.at;
                    return Err(Fail::Element {
                        operation,
                        round,
                        index,
                        got,
                        want,
                    });
                }
            }
        }
        self.verify_margins(operation, round)
    }

    fn verify_margins(&self, operation: &'static str, round: u64) -> Result<(), Fail> {
        let names = ["input", "output", "scratch"];
        for ((region, len), area) in self.areas.regions.iter().zip(self.areas.lens).zip(names) {
            let before = payload::unpainted(*region, 0, MARGIN, GUARD_BYTE);
            let after = payload::unpainted(*region, MARGIN + len, MARGIN, GUARD_BYTE);
            if let Some(at) = before.or_else(|| after.map(|at| MARGIN + len + at)) {
                return Err(Fail::AreaGuard {
                    operation,
                    round,
                    area,
                    at,
                });
            }
        }
        Ok(())
    }
}

/// What a block holds.
fn key(ctx: &Context<'_>, ends: (usize, usize)) -> u64 {
    ctx.source(ends, 0).key(0)
}

/// Ends of communicators that the mode uses, each with the areas that it sends from or receives
/// into.
fn register(ctx: &Context<'_>, job: &Job) -> Result<Vec<Held>, Fail> {
    let lanes: Vec<(usize, bool)> = match &job.work {
        Work::Ring(_) => vec![(ctx.next(), true), (ctx.previous(), false)],
        Work::AllToAll(all) => (0..2 * (all.world - 1))
            .map(|l| (all.peer(l), l % 2 == 0))
            .collect(),
    };
    let mut held = Vec::new();
    for (peer, sending) in lanes {
        for comm in 0..ctx.mesh.width() {
            held.push(register_end(ctx, job, (peer, comm, sending))?);
        }
    }
    Ok(held)
}

fn register_end(
    ctx: &Context<'_>,
    job: &Job,
    (peer, comm, sending): (usize, usize, bool),
) -> Result<Held, Fail> {
    let wanted = if sending {
        [true, true, false]
    } else {
        [false, true, true]
    };
    let mut buffers = [None, None, None];
    for i in (0..3).filter(|i| wanted[*i]) {
        let region = job.areas.regions[i];
        buffers[i] = Some(if sending {
            let (end, place) = ctx.sender(peer, comm)?;
            let stage = Context::registering(place, region.len());
            ctx.plugin.register_send(end, region).at(stage)?
        } else {
            let (end, place) = ctx.receiver(peer, comm)?;
            let stage = Context::registering(place, region.len());
            ctx.plugin.register_recv(end, region).at(stage)?
        });
        ctx.link.board.step();
    }
    Ok(Held {
        peer,
        comm,
        sending,
        buffers,
    })
}

fn release(ctx: &Context<'_>, held: Vec<Held>) -> Result<(), Fail> {
    for h in held {
        for buffer in h.buffers.into_iter().flatten() {
            let region = if h.sending {
                ctx.plugin
                    .deregister_send(ctx.sender(h.peer, h.comm)?.0, buffer)
            } else {
                ctx.plugin
                    .deregister_recv(ctx.receiver(h.peer, h.comm)?.0, buffer)
            };
            region.map_err(|e| Context::at("deregister a buffer", e))?;
        }
    }
    Ok(())
}

/// Runs the operation `n` times; with --check every round is verified, otherwise the last.
fn rounds(ctx: &mut Context<'_>, job: &mut Job, held: &[Held], n: u64) -> Result<Measure, Fail> {
    let [_, output, _] = job.areas.regions;
    let check = ctx.plan.check;
    let mut measure = Measure::default();
    ctx.link.barrier()?;
    for round in 0..n {
        if check {
            payload::paint(output, MARGIN, job.areas.lens[1], !GUARD_BYTE);
            ctx.link.barrier()?;
        }
        let (seconds, moved) = once(ctx, job, held)?;
        measure.seconds += seconds;
        measure.samples.push(seconds * 1e6);
        measure.messages += moved.messages;
        measure.bytes += moved.bytes;
        ctx.tally.retries += moved.retries;
        if check || round + 1 == n {
            job.verify(ctx, round)?;
        }
        if check {
            ctx.tally.verified_messages += moved.messages;
            ctx.tally.verified_bytes += moved.bytes;
        }
    }
    Ok(measure)
}

/// What one operation has moved into this rank.
struct Moved {
    messages: u64,
    bytes: u64,
    retries: u64,
}

fn once(ctx: &Context<'_>, job: &mut Job, held: &[Held]) -> Result<(f64, Moved), Fail> {
    let messages = match &job.work {
        Work::Ring(r) => r.messages(),
        Work::AllToAll(a) => a.messages(),
    };
    let mut lanes = Vec::new();
    for tracks in held.chunks(ctx.mesh.width()) {
        lanes.push(lane(ctx, tracks, (messages, job.window))?);
    }
    let idle = ctx.idle(ctx.link.world);
    let start = Instant::now();
    job.own_block(ctx.link.rank);
    match &mut job.work {
        Work::Ring(ring) => exchange::run(ctx.plugin, &mut lanes, ring, idle)?,
        Work::AllToAll(all) => exchange::run(ctx.plugin, &mut lanes, all, idle)?,
    }
    let seconds = start.elapsed().as_secs_f64();
    let bytes = match &job.work {
        Work::Ring(r) => received(r, &[ring::RECV]),
        Work::AllToAll(a) => {
            let receiving: Vec<usize> = (0..a.world - 1).map(|k| 2 * k + 1).collect();
            received(a, &receiving)
        }
    };
    let receiving = u64::try_from(lanes.len() / 2).unwrap_or(0);
    let retries = lanes.iter().map(|l| l.retries).sum();
    ctx.link.board.clear_gauges();
    Ok((
        seconds,
        Moved {
            messages: messages * receiving,
            bytes,
            retries,
        },
    ))
}

/// Bytes that the messages of these lanes carry.
fn received(script: &impl Script, lanes: &[usize]) -> u64 {
    let len = |lane: usize, m: u64| u64::try_from(script.piece(lane, m).len).unwrap_or(0);
    lanes
        .iter()
        .flat_map(|l| (0..script.messages()).map(move |m| len(*l, m)))
        .sum()
}

fn lane<'c>(
    ctx: &'c Context<'_>,
    held: &'c [Held],
    (messages, window): (u64, usize),
) -> Result<Lane<'c>, Fail> {
    let mut tracks = Vec::new();
    for h in held {
        let (end, place) = if h.sending {
            let (comm, place) = ctx.sender(h.peer, h.comm)?;
            (End::Send(comm), place)
        } else {
            let (comm, place) = ctx.receiver(h.peer, h.comm)?;
            (End::Recv(comm), place)
        };
        tracks.push(Track {
            end,
            place,
            buffers: h.buffers.each_ref().map(Option::as_ref),
        });
    }
    let label = tracks
        .first()
        .map(|t| t.place.to_string())
        .unwrap_or_default();
    let gauge = ctx.link.board.gauge(label, messages);
    Ok(Lane::new(tracks, (messages, window), ctx.plan.flush, gauge))
}
