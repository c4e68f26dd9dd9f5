//! An operation that was posted, and the order in which operations go.

use std::collections::VecDeque;

use super::address::Address;
use super::exec::Went;
use super::process::Process;
use super::vector::Target;
use crate::mem::copy::Piece;
use crate::mem::receives::Claim;
use crate::mem::relay;
use crate::mem::unexpected::{Fate, Ticket, fate};
use crate::plan::OpFault;

/// Pieces of local memory that one operation can have.
pub(crate) const IOV: usize = 4;

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Send,
    Write,
    Read,
}

/// Local memory.
#[derive(Clone, Debug)]
pub(crate) enum Local {
    /// Pieces with their keys, where a key was given.
    Pieces {
        pieces: [Piece; IOV],
        keys: [Option<u32>; IOV],
        count: usize,
    },
    /// A copy of its own.
    Inline(Box<[u8]>),
}

impl Local {
    /// The pieces; `inline` has room for the one that a copy is.
    pub(super) fn pieces<'a>(&'a self, inline: &'a mut [Piece; 1]) -> &'a [Piece] {
        match self {
            Self::Pieces { pieces, count, .. } => &pieces[..*count],
            Self::Inline(bytes) => {
                let at = bytes.as_ptr().expose_provenance() as u64;
                *inline = [(at, bytes.len() as u64)];
                inline
            }
        }
    }
}

/// Memory of the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Remote {
    pub(crate) addr: u64,
    pub(crate) key: u64,
}

/// How far an operation is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    #[default]
    Bytes,
    /// The bytes are there; the target is to be told.
    Tell,
    /// All is done but the own completion.
    Complete,
}

/// An operation.
#[derive(Debug)]
pub(crate) struct Op {
    pub(crate) kind: Kind,
    pub(crate) context: u64,
    /// Bits of fi_cq(3) that its completion shows.
    pub(crate) flags: u64,
    /// Whether success is told.
    pub(crate) report: bool,
    pub(crate) data: Option<u32>,
    pub(crate) tag: Option<u64>,
    pub(crate) local: Local,
    pub(crate) len: u64,
    pub(crate) remote: Remote,
    pub(crate) target: Target,
    /// Success means that the bytes are where the receiver wants them (FI_DELIVERY_COMPLETE).
    pub(crate) until_delivered: bool,
    /// The doorbell is still to come (FI_MORE).
    pub(crate) more: bool,
    /// How it is to go.
    pub(crate) course: Course,
    /// How it went so far.
    pub(crate) state: State,
}

impl Op {
    /// Whether it is a message that waits at its receiver.
    pub(super) fn is_parked(&self) -> bool {
        self.state.ticket.is_some()
    }

    /// Whether it does, and nobody has received it yet.
    pub(super) fn still_waits(&self, process: &Process) -> bool {
        let (Some(ticket), Some(peer)) = (self.state.ticket, &self.target.peer) else {
            return false;
        };
        let endpoints = &peer.segment(process).endpoints;
        let endpoint = endpoints.get(usize::from(self.target.address.qpn));
        endpoint.is_some_and(|endpoint| fate(endpoint, ticket) == Fate::Waits)
    }

    /// Whether it is known already that its peer does not answer any more.
    pub(super) fn is_unanswered(&self, process: &Process) -> bool {
        let peer = self.target.peer.as_ref();
        peer.is_none_or(|peer| {
            peer.is_known_dead() || peer.is_silent(process, self.target.address.nic)
        })
    }
}

/// How an operation is to go.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Course {
    /// Counts the posts of the endpoint.
    pub(crate) ordinal: u64,
    /// Goes after operations whose `due` is lower.
    pub(crate) due: u64,
    /// Not before, in nanoseconds of the process.
    pub(crate) not_before: u64,
    /// Until then it waits for those that may overtake it.
    pub(crate) held_until: u64,
    /// So often the receiver is pretended not to be ready.
    pub(crate) rnr: u32,
    pub(crate) late_ns: u64,
    pub(crate) late_remote_ns: u64,
    pub(crate) fault: OpFault,
}

/// How an operation went so far.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) stage: Stage,
    pub(crate) claim: Option<Claim>,
    /// It is announced at its receiver, and waits there for its receive.
    pub(crate) ticket: Option<Ticket>,
    pub(crate) under: relay::Under,
    /// Its use of the remote key is counted: that is one, however many turns its bytes take.
    pub(crate) has_used_key: bool,
    /// Receiver not ready, so many times.
    pub(crate) refusals: u32,
    /// When the peer was first found to be dead.
    pub(crate) dead_since: Option<u64>,
    /// What came of it, while its completion has no place.
    pub(super) ended: Option<Went>,
}

/// Operations that have not completed, in the order in which they go.
#[derive(Debug, Default)]
pub(crate) struct Line {
    ops: VecDeque<Op>,
    /// Messages that wait at their receivers: they hold up nothing, and take no place of the queue.
    parked: Vec<Op>,
    posted: u64,
    /// The latest one that went.
    newest: u64,
    /// Operations whose doorbell is still to come.
    unrung: usize,
    /// Peers who wait for a message that never comes, where messages keep their order.
    holes: Vec<Address>,
    /// When peers of parked ones were asked after, in nanoseconds of the process, and how often.
    looked_ns: u64,
    looks: usize,
}

impl Line {
    /// Room for as many operations as there can be.
    pub(crate) fn new(depth: usize) -> Self {
        Self {
            ops: VecDeque::with_capacity(depth),
            ..Self::default()
        }
    }

    /// Adds an operation; `hold` later ones may overtake it.
    pub(crate) fn post(&mut self, mut op: Op, hold: u32) {
        self.posted += 1;
        op.course.ordinal = self.posted;
        op.course.due = self.posted + u64::from(hold);
        if op.more {
            self.unrung += 1;
        } else {
            self.ring();
        }
        let due = op.course.due;
        let behind = self.ops.iter().rev().take_while(|o| o.course.due > due);
        let at = self.ops.len() - behind.count();
        self.ops.insert(at, op);
    }

    /// The doorbell: everything posted so far goes.
    pub(crate) fn ring(&mut self) {
        if self.unrung > 0 {
            self.ops.iter_mut().for_each(|op| op.more = false);
            self.unrung = 0;
        }
    }

    /// Notes that an operation goes; whether a later one went before it.
    pub(crate) fn goes(&mut self, op: &Op) -> bool {
        let was_overtaken = op.course.ordinal < self.newest;
        self.newest = self.newest.max(op.course.ordinal);
        was_overtaken
    }

    /// Notes that an ordered message never comes.
    pub(crate) fn leave_hole(&mut self, target: Address) {
        if !self.has_hole(&target) {
            self.holes.push(target);
        }
    }

    /// Whether the peer waits for a message that never comes.
    pub(crate) fn has_hole(&self, target: &Address) -> bool {
        self.holes.contains(target)
    }

    /// Posts so far.
    pub(crate) fn posted(&self) -> u64 {
        self.posted
    }

    pub(crate) fn len(&self) -> usize {
        self.ops.len()
    }

    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut Op> {
        self.ops.get_mut(index)
    }

    pub(crate) fn remove(&mut self, index: usize) -> Option<Op> {
        self.ops.remove(index)
    }

    /// Sets an operation aside whose message waits at its receiver.
    pub(crate) fn park(&mut self, index: usize) {
        self.parked.extend(self.ops.remove(index));
    }

    /// Messages that wait at their receivers.
    pub(crate) fn parked(&mut self) -> &mut Vec<Op> {
        &mut self.parked
    }

    /// Whose turn it is among those, if it is time for a turn again.
    pub(crate) fn turn(&mut self, now: u64, every_ns: u64) -> Option<usize> {
        if now.saturating_sub(self.looked_ns) < every_ns {
            return None;
        }
        self.looked_ns = now;
        self.looks = self.looks.wrapping_add(1);
        Some(self.looks)
    }

    /// Operations that have not completed, wherever they wait.
    pub(crate) fn pending(&self) -> usize {
        self.ops.len() + self.parked.len()
    }

    /// Those, to look at.
    pub(super) fn all(&mut self) -> impl Iterator<Item = &mut Op> {
        self.parked.iter_mut().chain(self.ops.iter_mut())
    }

    /// Everything, first things first.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Op> + '_ {
        self.parked.drain(..).chain(self.ops.drain(..))
    }
}
