//! check: random sizes, offsets, test order, bursts and pauses around a ring, every byte verified.
//!
//! Both ends draw size and room of a message from its key, so nothing but the messages themselves
//! travels. The seed is printed with the result; the same seed draws the same messages.

use std::sync::Arc;
use std::time::Instant;

use super::bandwidth::{Side, close, register};
use super::context::Context;
use super::draw::{self, Dice};
use super::fail::{Fail, Place};
use super::flow::{End, signed};
use super::measure::Measure;
use super::payload::{self, GUARD, GUARD_BYTE, Source};
use super::plan::{CheckPlan, Mode};
use crate::abi::{Buffer, Net, Request, Span};
use crate::coord::Gauge;
use crate::report::row::Row;
use crate::size::human;

#[path = "check_arena.rs"]
mod arena;
use arena::Arena;

/// Runs the check once for each window.
pub(crate) fn run(ctx: &mut Context<'_>) -> Result<(), Fail> {
    let (next, previous) = (ctx.next(), ctx.previous());
    ctx.connect(&[next], &[previous])?;
    for window in ctx.plan.windows_of(Mode::Check) {
        point(ctx, (next, previous), window)?;
    }
    Ok(())
}

fn point(
    ctx: &mut Context<'_>,
    (next, previous): (usize, usize),
    window: usize,
) -> Result<(), Fail> {
    let (plan, width) = (ctx.plan, ctx.mesh.width());
    let (max, messages) = (plan.check_plan.max_size, plan.check_plan.messages);
    ctx.begin(
        Mode::Check,
        &format!("up to {} B, window {window}", human(max)),
    );
    // The largest message always fits, whatever the pool.
    let bytes = (plan.pool / width).max(max + Block::OVERHEAD);
    let mut sides = Vec::new();
    for comm in 0..width {
        sides.push(register(ctx, (next, comm, true), bytes)?);
        sides.push(register(ctx, (previous, comm, false), bytes)?);
    }
    let mut flows = Vec::new();
    for side in &sides {
        flows.push(RandomFlow::new(ctx, side, window)?);
    }
    let idle = ctx.idle(ctx.link.world);
    ctx.link.barrier()?;
    let start = Instant::now();
    run_flows(ctx.plugin, &mut flows, idle)?;
    let seconds = start.elapsed().as_secs_f64();
    let arrived = || flows.iter().filter(|f| !f.place.sending);
    let measure = Measure {
        seconds,
        bytes: arrived().map(|f| f.bytes).sum(),
        messages: arrived().map(|f| f.done).sum(),
        samples: Vec::new(),
    };
    let retries: u64 = flows.iter().map(|f| f.retries).sum();
    drop(flows);
    ctx.link.board.clear_gauges();
    ctx.tally.verified_messages += measure.messages;
    ctx.tally.verified_bytes += measure.bytes;
    ctx.tally.retries += retries;
    let total = measure.combine(ctx.link)?;
    close(ctx, sides)?;
    if ctx.link.rank == 0 {
        ctx.link.row(Row {
            mode: Mode::Check,
            size: max,
            window,
            window_asked: window,
            comms: width,
            iterations: messages,
            messages: total.messages,
            latency_us: None,
            algorithm_gbps: total.gbps(),
            bus_gbps: total.gbps(),
            messages_per_s: total.rate(),
            verified: true,
        })?;
    }
    Ok(())
}

fn run_flows<N: Net>(net: &N, flows: &mut [RandomFlow<'_>], idle: impl Fn()) -> Result<(), Fail> {
    loop {
        let (mut moved, mut open) = (false, false);
        for flow in flows.iter_mut().filter(|f| f.done < f.total) {
            moved |= flow.turn(net)?;
            open |= flow.done < flow.total;
        }
        if !open {
            return Ok(());
        }
        if !moved {
            idle();
        }
    }
}

/// Where a message lies: guard, payload at a random alignment, guard.
#[derive(Debug, Clone, Copy)]
struct Block {
    message: u64,
    start: usize,
    len: usize,
    /// First byte of the payload.
    at: usize,
    /// Bytes on the wire, before truncation.
    sent: usize,
    /// Bytes that the receiver posts.
    room: usize,
}

impl Block {
    /// Room for two guards, the alignment and the largest surplus of a receive.
    const OVERHEAD: usize = 2 * GUARD + 64 + 4096;
}

#[derive(Debug)]
struct Live {
    block: Block,
    request: Request,
    /// The size that the receive reported, while it is flushed.
    flushing: Option<usize>,
}

/// One direction of one communicator.
#[derive(Debug)]
struct RandomFlow<'c> {
    end: End<'c>,
    place: Place,
    buffer: &'c Buffer,
    source: Source,
    rules: &'c CheckPlan,
    flush: bool,
    window: usize,
    gauge: Arc<Gauge>,
    arena: Arena,
    dice: Dice,
    /// In the order of posting.
    live: Vec<Live>,
    prepared: Option<Block>,
    total: u64,
    posted: u64,
    done: u64,
    bytes: u64,
    retries: u64,
}

impl<'c> RandomFlow<'c> {
    fn new(ctx: &'c Context<'_>, side: &'c Side, window: usize) -> Result<Self, Fail> {
        let me = ctx.link.rank;
        let (end, place) = if side.sending {
            let (comm, place) = ctx.sender(side.peer, side.comm)?;
            (End::Send(comm), place)
        } else {
            let (comm, place) = ctx.receiver(side.peer, side.comm)?;
            (End::Recv(comm), place)
        };
        let ends = if side.sending {
            (me, side.peer)
        } else {
            (side.peer, me)
        };
        let source = ctx.source(ends, side.comm);
        let total = ctx.plan.check_plan.messages;
        Ok(Self {
            end,
            place,
            buffer: &side.buffer,
            source,
            rules: &ctx.plan.check_plan,
            flush: ctx.plan.flush,
            window,
            gauge: ctx.link.board.gauge(place.to_string(), total),
            arena: Arena::new(side.buffer.region.len()),
            dice: Dice::new(source.key(u64::MAX) ^ u64::from(side.sending)),
            live: Vec::new(),
            prepared: None,
            total,
            posted: 0,
            done: 0,
            bytes: 0,
            retries: 0,
        })
    }

    /// A few posts, a few tests, in a random order; true if anything moved.
    fn turn<N: Net>(&mut self, net: &N) -> Result<bool, Fail> {
        let before = (self.posted, self.done);
        let roll = self.dice.roll();
        if roll & 3 != 0 {
            // One message, or as many as there is room for.
            while self.may_post() && self.post(net)? && roll & 4 == 0 {}
        }
        let (count, start) = (self.live.len(), self.dice.below(self.live.len()));
        let mut i = 0;
        while i < self.live.len() && i < count {
            let at = (start + i) % self.live.len();
            if self.retire(net, at)? && roll & 8 == 0 {
                break;
            }
            i += 1;
        }
        self.gauge
            .set_with_oldest(self.posted, self.done, self.oldest());
        Ok(before != (self.posted, self.done))
    }

    /// The window is a span of message numbers: a library posts nothing new before the oldest is
    /// through.
    fn may_post(&self) -> bool {
        let window = u64::try_from(self.window).unwrap_or(u64::MAX);
        self.posted < self.total && self.posted - self.oldest() < window
    }

    fn oldest(&self) -> u64 {
        self.live.first().map_or(self.posted, |l| l.block.message)
    }

    fn post<N: Net>(&mut self, net: &N) -> Result<bool, Fail> {
        let Some(block) = self.prepared.take().or_else(|| self.prepare()) else {
            return Ok(false);
        };
        let span = self.span(block);
        match self.end.post(net, span).map_err(|e| self.call(block, e))? {
            None => {
                self.retries += 1;
                self.prepared = Some(block);
                Ok(false)
            }
            Some(request) => {
                self.live.push(Live {
                    block,
                    request,
                    flushing: None,
                });
                self.posted += 1;
                self.pause();
                Ok(true)
            }
        }
    }

    fn pause(&mut self) {
        let roll = self.dice.roll();
        if self.rules.pauses && roll & 63 == 0 {
            std::thread::sleep(core::time::Duration::from_micros((roll >> 8) % 2000));
        }
    }

    /// Finds room for the next message and makes its bytes; None if there is no room now.
    fn prepare(&mut self) -> Option<Block> {
        let message = self.posted;
        let key = self.source.key(message);
        let sent = draw::size(key, self.rules.max_size);
        let room = draw::room(key, sent, self.rules.truncate);
        let payload = if self.place.sending { sent } else { room };
        let skew = draw::below(key >> 20 ^ u64::from(self.place.sending), 64);
        let len = GUARD + skew + payload + GUARD;
        let start = self.arena.take(len)?;
        let block = Block {
            message,
            start,
            len,
            at: start + GUARD + skew,
            sent,
            room,
        };
        let region = self.buffer.region;
        if self.place.sending {
            payload::fill(region, block.at, sent, key);
        }
        // What lies before the payload, and what lies behind its last byte on the wire.
        let used = payload.min(sent);
        payload::paint(region, start, block.at - start, GUARD_BYTE);
        let tail = block.at + used;
        payload::paint(region, tail, start + len - tail, GUARD_BYTE);
        Some(block)
    }

    fn span(&self, block: Block) -> Span<'c> {
        let len = if self.place.sending {
            block.sent
        } else {
            block.room
        };
        Span {
            buffer: self.buffer,
            at: block.at,
            len,
        }
    }

    /// Tests one of the live messages; true if it is through and gone.
    fn retire<N: Net>(&mut self, net: &N, at: usize) -> Result<bool, Fail> {
        let live = &self.live[at];
        let block = live.block;
        let Some(reported) = net.test(&live.request).map_err(|e| self.call(block, e))? else {
            return Ok(false);
        };
        let size = match self.live[at].flushing {
            Some(size) => size,
            None if self.flush && reported > 0 => {
                let span = self.span(block);
                let request = self.end.flush(net, span).map_err(|e| self.call(block, e))?;
                if let Some(request) = request {
                    self.live[at] = Live {
                        block,
                        request,
                        flushing: Some(reported),
                    };
                    return Ok(false);
                }
                reported
            }
            None => reported,
        };
        self.verify(block, size)?;
        self.live.remove(at);
        self.arena.give(block.start);
        self.done += 1;
        Ok(true)
    }

    fn verify(&mut self, block: Block, reported: usize) -> Result<(), Fail> {
        let (place, message, region) = (self.place, block.message, self.buffer.region);
        let arrived = block.sent.min(block.room);
        let good = if place.sending {
            // What a sender learns of truncation depends on the protocol (protocol 2e.4, 2e.12).
            reported == arrived || reported == block.sent
        } else {
            let lax = self.rules.lax_sizes && reported >= arrived && reported <= block.room;
            reported == arrived || lax
        };
        if !good {
            let Block { sent, room, .. } = block;
            return Err(Fail::Size {
                place,
                message,
                reported,
                sent,
                room,
            });
        }
        let len = if place.sending { block.sent } else { arrived };
        if let Some(d) = payload::difference(region, block.at, len, self.source.key(message)) {
            return Err(if place.sending {
                Fail::SendChanged {
                    place,
                    message,
                    at: d.at,
                    len,
                }
            } else {
                Fail::WrongByte {
                    place,
                    message,
                    at: d.at,
                    len,
                    got: d.got,
                    want: d.want,
                }
            });
        }
        self.verify_guards(block, len)?;
        self.bytes += u64::try_from(len).unwrap_or(0);
        Ok(())
    }

    fn verify_guards(&self, block: Block, len: usize) -> Result<(), Fail> {
        let region = self.buffer.region;
        let lead = block.at - block.start;
        let tail = block.at + len;
        let before = payload::unpainted(region, block.start, lead, GUARD_BYTE);
        let after = payload::unpainted(region, tail, block.start + block.len - tail, GUARD_BYTE);
        let at = match (before, after) {
            (Some(at), _) => signed(at) - signed(lead),
            (None, Some(at)) => signed(len + at),
            (None, None) => return Ok(()),
        };
        Err(Fail::Guard {
            place: self.place,
            message: block.message,
            at,
            len,
        })
    }

    fn call(&self, block: Block, error: crate::abi::CallError) -> Fail {
        Fail::Call {
            place: self.place,
            message: block.message,
            error,
        }
    }
}
