//! Lanes: numbered messages in one direction between two ranks, spread over the communicators
//! between them, each posted when a script says that it may be. The engine of the collectives.

use std::collections::VecDeque;
use std::sync::Arc;

use super::draw::below;
use super::fail::{Fail, Place};
use super::flow::End;
use crate::abi::{Buffer, Net, Request, Span};
use crate::coord::Gauge;

/// Which of a collective's buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Area {
    Input,
    Output,
    /// Where pieces wait to be added.
    Scratch,
}

/// Bytes of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) area: Area,
    pub(crate) at: usize,
    pub(crate) len: usize,
}

/// What a collective moves, in which order.
pub(crate) trait Script {
    /// Messages of each lane.
    fn messages(&self) -> u64;
    /// The bytes of message `message` of lane `lane`.
    fn piece(&self, lane: usize, message: u64) -> Piece;
    /// Whether it may be posted, given how many messages of each lane are through.
    fn may_post(&self, lane: usize, message: u64, through: &[u64]) -> bool;
    /// A message has arrived.
    fn arrived(&mut self, lane: usize, message: u64);
}

/// One communicator of a lane, and the buffers registered with it (by [`Area`]).
#[derive(Debug)]
pub(crate) struct Track<'c> {
    pub(crate) end: End<'c>,
    pub(crate) place: Place,
    pub(crate) buffers: [Option<&'c Buffer>; 3],
}

/// One direction to one rank.
#[derive(Debug)]
pub(crate) struct Lane<'c> {
    pub(crate) tracks: Vec<Track<'c>>,
    pub(crate) total: u64,
    /// Messages in flight on all tracks together, at most.
    pub(crate) window: usize,
    pub(crate) flush: bool,
    pub(crate) gauge: Arc<Gauge>,
    pub(crate) retries: u64,
    posted: u64,
    flight: VecDeque<(Request, Piece, bool)>,
}

impl<'c> Lane<'c> {
    pub(crate) fn new(
        tracks: Vec<Track<'c>>,
        (total, window): (u64, usize),
        flush: bool,
        gauge: Arc<Gauge>,
    ) -> Self {
        let window = window * tracks.len();
        Self {
            tracks,
            total,
            window,
            flush,
            gauge,
            retries: 0,
            posted: 0,
            flight: VecDeque::new(),
        }
    }

    fn is_receiving(&self) -> bool {
        self.tracks.first().is_some_and(|t| !t.place.sending)
    }

    fn track(&self, message: u64) -> &Track<'c> {
        &self.tracks[below(message, self.tracks.len())]
    }

    fn span(&self, message: u64, piece: Piece) -> Option<Span<'c>> {
        let buffer = self.track(message).buffers[usize::from(match piece.area {
            Area::Input => 0_u8,
            Area::Output => 1,
            Area::Scratch => 2,
        })]?;
        Some(Span {
            buffer,
            at: piece.at,
            len: piece.len,
        })
    }

    fn call(&self, message: u64, error: crate::abi::CallError) -> Fail {
        Fail::Call {
            place: self.track(message).place,
            message,
            error,
        }
    }
}

/// Runs every lane to its end; `idle` is called after a round in which nothing moved.
pub(crate) fn run<N: Net>(
    net: &N,
    lanes: &mut [Lane<'_>],
    script: &mut impl Script,
    idle: impl Fn(),
) -> Result<(), Fail> {
    let mut through = vec![0; lanes.len()];
    loop {
        let mut moved = false;
        for (i, lane) in lanes.iter_mut().enumerate() {
            moved |= post(net, (i, lane), script, &through)?;
            moved |= retire(net, (i, lane), script, &mut through)?;
        }
        if lanes.iter().zip(&through).all(|(l, t)| l.total == *t) {
            return Ok(());
        }
        if !moved {
            idle();
        }
    }
}

fn post<N: Net>(
    net: &N,
    (i, lane): (usize, &mut Lane<'_>),
    script: &impl Script,
    through: &[u64],
) -> Result<bool, Fail> {
    let mut moved = false;
    while lane.posted < lane.total
        && lane.flight.len() < lane.window
        && script.may_post(i, lane.posted, through)
    {
        let message = lane.posted;
        let piece = script.piece(i, message);
        let Some(span) = lane.span(message, piece) else {
            return Ok(moved);
        };
        match lane
            .track(message)
            .end
            .post(net, span)
            .map_err(|e| lane.call(message, e))?
        {
            None => {
                lane.retries += 1;
                break;
            }
            Some(request) => {
                lane.flight.push_back((request, piece, false));
                lane.posted += 1;
                moved = true;
            }
        }
    }
    Ok(moved)
}

fn retire<N: Net>(
    net: &N,
    (i, lane): (usize, &mut Lane<'_>),
    script: &mut impl Script,
    through: &mut [u64],
) -> Result<bool, Fail> {
    let mut moved = false;
    while let Some((request, piece, flushed)) = lane.flight.front() {
        let (message, piece, flushed) = (through[i], *piece, *flushed);
        let Some(size) = net.test(request).map_err(|e| lane.call(message, e))? else {
            break;
        };
        if !flushed && size != piece.len {
            let place = lane.track(message).place;
            let (reported, sent, room) = (size, piece.len, piece.len);
            return Err(Fail::Size {
                place,
                message,
                reported,
                sent,
                room,
            });
        }
        if lane.flush && !flushed && size > 0 {
            let Some(span) = lane.span(message, piece) else {
                break;
            };
            let end = lane.track(message).end;
            if let Some(r) = end.flush(net, span).map_err(|e| lane.call(message, e))? {
                lane.flight[0] = (r, piece, true);
                continue;
            }
        }
        lane.flight.pop_front();
        if lane.is_receiving() {
            script.arrived(i, message);
        }
        through[i] += 1;
        lane.gauge.set(lane.posted, through[i]);
        moved = true;
    }
    Ok(moved)
}
