//! A flow: one direction of one communicator, a window of messages posted and retired in order, as
//! a collectives library's proxy does it.

use std::sync::Arc;
use std::time::Instant;

use super::draw;
use super::fail::{Fail, Place};
use super::payload::{self, GUARD, GUARD_BYTE, Source};
use crate::abi::{Buffer, CallError, Net, RecvComm, Request, SendComm, Span};
use crate::coord::Gauge;

/// The end of a communicator.
#[derive(Debug, Clone, Copy)]
pub(crate) enum End<'c> {
    Send(&'c SendComm),
    Recv(&'c RecvComm),
}

impl End<'_> {
    /// isend or irecv.
    pub(crate) fn post<N: Net>(
        &self,
        net: &N,
        span: Span<'_>,
    ) -> Result<Option<Request>, CallError> {
        match self {
            Self::Send(c) => net.isend(c, span),
            Self::Recv(c) => net.irecv(c, span),
        }
    }

    /// iflush after a receive; nothing to wait for after a send.
    pub(crate) fn flush<N: Net>(
        &self,
        net: &N,
        span: Span<'_>,
    ) -> Result<Option<Request>, CallError> {
        match self {
            Self::Send(_) => Ok(None),
            Self::Recv(c) => net.iflush(c, span),
        }
    }
}

/// How the messages of a flow look.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spec {
    pub(crate) size: usize,
    pub(crate) window: usize,
    /// Fill, guard and verify every message.
    pub(crate) check: bool,
    /// Sizes are drawn up to `size`.
    pub(crate) random: bool,
    pub(crate) flush: bool,
    pub(crate) lax_sizes: bool,
    pub(crate) source: Source,
}

impl Spec {
    /// Bytes of buffer that a message takes.
    pub(crate) const fn stride(size: usize) -> usize {
        (size + 2 * GUARD).next_multiple_of(64)
    }
}

#[derive(Debug)]
enum Slot {
    Empty,
    Posted(Request, Option<Instant>),
    /// Received with so many bytes, being flushed.
    Flushing(Request, usize, Option<Instant>),
}

/// One direction of one communicator at work.
#[derive(Debug)]
pub(crate) struct Flow<'c> {
    end: End<'c>,
    place: Place,
    buffer: &'c Buffer,
    spec: Spec,
    gauge: Arc<Gauge>,
    slots: Vec<Slot>,
    /// The message whose bytes stand ready, whether the plugin took it or not.
    prepared: Option<u64>,
    pub(crate) total: u64,
    pub(crate) posted: u64,
    pub(crate) done: u64,
    pub(crate) bytes: u64,
    pub(crate) retries: u64,
    /// Microseconds from post to completion, of a part of the messages.
    pub(crate) samples: Vec<f64>,
}

/// Small messages are sampled, so that reading the clock does not slow them down.
const SAMPLE_ALL_FROM: usize = 64 << 10;
const SAMPLE_EVERY: u64 = 16;

impl<'c> Flow<'c> {
    pub(crate) fn new(
        (end, place): (End<'c>, Place),
        buffer: &'c Buffer,
        spec: Spec,
        total: u64,
        gauge: Arc<Gauge>,
    ) -> Self {
        let slots = (0..spec.window).map(|_| Slot::Empty).collect();
        Self {
            end,
            place,
            buffer,
            spec,
            gauge,
            slots,
            prepared: None,
            total,
            posted: 0,
            done: 0,
            bytes: 0,
            retries: 0,
            samples: Vec::new(),
        }
    }

    pub(crate) const fn is_done(&self) -> bool {
        self.done == self.total
    }

    pub(crate) const fn is_receiving(&self) -> bool {
        !self.place.sending
    }

    pub(crate) const fn verifies(&self) -> bool {
        self.spec.check
    }

    /// Posts while there is room, retires what is done; true if anything moved.
    pub(crate) fn turn<N: Net>(&mut self, net: &N) -> Result<bool, Fail> {
        let before = (self.posted, self.done);
        while self.has_room() && self.post(net)? {}
        while self.retire(net)? {}
        Ok(before != (self.posted, self.done))
    }

    fn has_room(&self) -> bool {
        let window = u64::try_from(self.spec.window).unwrap_or(u64::MAX);
        self.posted < self.total && self.posted - self.done < window
    }

    /// Posts the next message; false if the plugin says "not now".
    pub(crate) fn post<N: Net>(&mut self, net: &N) -> Result<bool, Fail> {
        let message = self.posted;
        if self.spec.check && self.prepared != Some(message) {
            self.prepare(message);
            self.prepared = Some(message);
        }
        let slot = self.slot_of(message);
        let span = self.span(message);
        let timed = self.spec.size >= SAMPLE_ALL_FROM || message % SAMPLE_EVERY == 0;
        let start = timed.then(Instant::now);
        match self
            .end
            .post(net, span)
            .map_err(|e| self.call(message, e))?
        {
            None => {
                self.retries += 1;
                Ok(false)
            }
            Some(request) => {
                self.slots[slot] = Slot::Posted(request, start);
                self.posted += 1;
                self.gauge.set(self.posted, self.done);
                Ok(true)
            }
        }
    }

    /// Tests the oldest message; true if it is through.
    pub(crate) fn retire<N: Net>(&mut self, net: &N) -> Result<bool, Fail> {
        if self.done == self.posted {
            return Ok(false);
        }
        let (message, slot) = (self.done, self.slot_of(self.done));
        let request = match &self.slots[slot] {
            Slot::Empty => return Ok(false),
            Slot::Posted(request, _) | Slot::Flushing(request, ..) => request,
        };
        let Some(size) = net.test(request).map_err(|e| self.call(message, e))? else {
            return Ok(false);
        };
        match core::mem::replace(&mut self.slots[slot], Slot::Empty) {
            Slot::Posted(_, start) if self.spec.flush && size > 0 => {
                self.flush(net, (message, slot, size), start)
            }
            Slot::Posted(_, start) => self.finish(message, size, start),
            Slot::Flushing(_, size, start) => self.finish(message, size, start),
            Slot::Empty => Ok(false),
        }
    }

    fn flush<N: Net>(
        &mut self,
        net: &N,
        (message, slot, size): (u64, usize, usize),
        start: Option<Instant>,
    ) -> Result<bool, Fail> {
        let span = self.span(message);
        match self
            .end
            .flush(net, span)
            .map_err(|e| self.call(message, e))?
        {
            None => self.finish(message, size, start),
            Some(request) => {
                self.slots[slot] = Slot::Flushing(request, size, start);
                Ok(false)
            }
        }
    }

    fn finish(&mut self, message: u64, size: usize, start: Option<Instant>) -> Result<bool, Fail> {
        if let Some(start) = start {
            self.samples.push(start.elapsed().as_secs_f64() * 1e6);
        }
        if self.spec.check {
            self.verify(message, size)?;
        }
        self.bytes += u64::try_from(size).unwrap_or(0);
        self.done += 1;
        self.gauge.set(self.posted, self.done);
        Ok(true)
    }

    fn slot_of(&self, message: u64) -> usize {
        draw::below(message, self.spec.window)
    }

    fn key(&self, message: u64) -> u64 {
        self.spec.source.key(message)
    }

    /// Bytes that message number `message` carries.
    fn size(&self, message: u64) -> usize {
        if self.spec.random {
            draw::size(self.key(message), self.spec.size)
        } else {
            self.spec.size
        }
    }

    /// Senders name what they send, receivers the room of the slot.
    fn span(&self, message: u64) -> Span<'c> {
        let len = if self.place.sending {
            self.size(message)
        } else {
            self.spec.size
        };
        let at = self.slot_of(message) * Spec::stride(self.spec.size) + GUARD;
        Span {
            buffer: self.buffer,
            at,
            len,
        }
    }

    fn prepare(&self, message: u64) {
        let (span, region) = (self.span(message), self.buffer.region);
        let stride = Spec::stride(self.spec.size);
        payload::paint(region, span.at - GUARD, stride, GUARD_BYTE);
        if self.place.sending {
            payload::fill(region, span.at, span.len, self.key(message));
        }
    }

    fn verify(&self, message: u64, reported: usize) -> Result<(), Fail> {
        let (span, region, place) = (self.span(message), self.buffer.region, self.place);
        let (sent, stride) = (self.size(message), Spec::stride(self.spec.size));
        let lax = self.spec.lax_sizes && reported >= sent && reported <= span.len;
        if reported != sent && !lax {
            let room = self.spec.size;
            return Err(Fail::Size {
                place,
                message,
                reported,
                sent,
                room,
            });
        }
        if let Some(d) = payload::difference(region, span.at, sent, self.key(message)) {
            return Err(if place.sending {
                Fail::SendChanged {
                    place,
                    message,
                    at: d.at,
                    len: sent,
                }
            } else {
                Fail::WrongByte {
                    place,
                    message,
                    at: d.at,
                    len: sent,
                    got: d.got,
                    want: d.want,
                }
            });
        }
        let before = payload::unpainted(region, span.at - GUARD, GUARD, GUARD_BYTE);
        let rest = stride - GUARD - sent;
        let after = payload::unpainted(region, span.at + sent, rest, GUARD_BYTE);
        let at = match (before, after) {
            (Some(at), _) => signed(at) - signed(GUARD),
            (None, Some(at)) => signed(sent + at),
            (None, None) => return Ok(()),
        };
        Err(Fail::Guard {
            place,
            message,
            at,
            len: sent,
        })
    }

    fn call(&self, message: u64, error: CallError) -> Fail {
        Fail::Call {
            place: self.place,
            message,
            error,
        }
    }
}

pub(crate) fn signed(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// Runs flows until all are through; `idle` is called after a round in which nothing moved.
pub(crate) fn run<N: Net>(net: &N, flows: &mut [Flow<'_>], idle: impl Fn()) -> Result<(), Fail> {
    loop {
        let (mut moved, mut open) = (false, false);
        for flow in flows.iter_mut().filter(|f| !f.is_done()) {
            moved |= flow.turn(net)?;
            open |= !flow.is_done();
        }
        if !open {
            return Ok(());
        }
        if !moved {
            idle();
        }
    }
}

#[cfg(test)]
#[path = "flow_tests.rs"]
mod tests;
