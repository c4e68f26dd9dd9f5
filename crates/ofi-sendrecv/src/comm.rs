//! Communicators and requests: what the engine keeps of each.

use ofi_pools::Key;
use ofi_rdma::{Age, CommCounters, CommKind, FailedRequest, Failure, PeerAddr, RequestKind};

use crate::engine::req_key;
use crate::port::Buffer;
use crate::state::{CommInput, CommState, ReqInput, ReqState};
use crate::token::Op;
use crate::wire::Connect;

#[derive(Debug)]
pub(crate) struct Comm {
    pub(crate) kind: CommKind,
    pub(crate) state: CommState,
    /// Number of the listener: ours, for a send communicator the peer's.
    pub(crate) tag: u32,
    /// Send: whom to. Receive: who connected.
    pub(crate) peer: PeerAddr,
    /// Send: the listener is on our own endpoint.
    pub(crate) to_self: bool,
    pub(crate) failure: Option<Failure>,
    /// Messages not taken by `test`.
    pub(crate) outstanding: u16,
    /// Flushes not taken by `test`.
    pub(crate) flushes_out: u16,
    /// Operations at the provider, of this communicator and its requests.
    pub(crate) flying: u32,
    /// Its own operation at the provider: a connect message sent or awaited, never two.
    pub(crate) own_flying: Option<Op>,
    /// Something completed or was posted since the last look of the stall detector.
    pub(crate) moved: bool,
    /// When something was last known to move; for connecting: when it began.
    pub(crate) since_ms: u64,
    /// Of the time since `since_ms`, what the caller spent without calling.
    pub(crate) away_ms: u32,
    /// Listener: looks of the stall detector until accept counts as no longer being called.
    pub(crate) asked: u8,
    pub(crate) warned: bool,
    /// Listener: the connect message that came.
    pub(crate) arrived: Option<Connect>,
    /// What happened on it.
    pub(crate) counters: CommCounters,
}

impl Comm {
    pub(crate) const fn new(kind: CommKind, state: CommState, tag: u32, now_ms: u64) -> Self {
        Self {
            kind,
            state,
            tag,
            peer: PeerAddr(u64::MAX),
            to_self: false,
            failure: None,
            outstanding: 0,
            flushes_out: 0,
            flying: 0,
            own_flying: None,
            moved: true,
            since_ms: now_ms,
            away_ms: 0,
            asked: 0,
            warned: false,
            arrived: None,
            counters: CommCounters {
                messages: 0,
                eager: 0,
                bytes: 0,
                busy: 0,
            },
        }
    }

    /// Takes a step of its state machine; false when the table has none.
    pub(crate) const fn step(&mut self, input: CommInput) -> bool {
        match self.state.next(input) {
            Some(next) => {
                self.state = next;
                true
            }
            None => false,
        }
    }

    /// Whatever it waits for, it waits from now on.
    pub(crate) const fn wait_from(&mut self, now_ms: u64) {
        self.since_ms = now_ms;
        self.away_ms = 0;
        self.moved = false;
        self.warned = false;
    }

    /// How long nothing has moved while the caller looked, milliseconds.
    pub(crate) const fn idle_ms(&self, now_ms: u64) -> u64 {
        let all = now_ms.saturating_sub(self.since_ms);
        all.saturating_sub(self.away_ms as u64)
    }

    /// The peer's endpoint; `None` for a listener.
    pub(crate) fn peer_address(&self) -> Option<PeerAddr> {
        (self.kind != CommKind::Listener).then_some(self.peer)
    }

    /// Neither failed nor closed.
    #[inline]
    pub(crate) const fn is_healthy(&self) -> bool {
        self.failure.is_none() && !self.state.is_closed()
    }
}

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Send,
    Recv,
    Flush,
}

impl Kind {
    pub(crate) const fn op(self) -> Op {
        match self {
            Self::Send => Op::Send,
            Self::Recv => Op::Recv,
            Self::Flush => Op::Flush,
        }
    }

    /// What others call it.
    pub(crate) const fn told(self) -> RequestKind {
        match self {
            Self::Send => RequestKind::Send,
            Self::Recv => RequestKind::Recv,
            Self::Flush => RequestKind::Flush,
        }
    }

    /// Whether it is a message, which has a number.
    pub(crate) const fn is_message(self) -> bool {
        matches!(self, Self::Send | Self::Recv)
    }
}

/// Where the one operation of a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Queued,
    Flying,
    /// Completed, or dropped before it was posted.
    Home,
}

/// One request: what `test` polls. One cache line.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) comm: Key,
    pub(crate) kind: Kind,
    pub(crate) state: ReqState,
    pub(crate) place: Place,
    /// Number of the message, modulo 2^16; 0 for a flush.
    pub(crate) seq: u16,
    /// Poll epoch in which it was last tested.
    pub(crate) epoch: u32,
    pub(crate) buffer: Buffer,
    /// Bytes moved.
    pub(crate) bytes: u64,
    /// For people.
    pub(crate) age: Age,
}

const _: () = assert!(size_of::<Request>() <= 64, "a cache line");

impl Request {
    pub(crate) const fn new(comm: Key, kind: Kind, buffer: Buffer, epoch: u32) -> Self {
        Self {
            comm,
            kind,
            state: ReqState::Live,
            place: Place::Queued,
            seq: 0,
            epoch,
            buffer,
            bytes: 0,
            age: Age::UNSEEN,
        }
    }

    /// Takes a step of its state machine; an input its state does not know changes nothing.
    pub(crate) const fn step(&mut self, input: ReqInput) {
        if let Some(next) = self.state.next(input) {
            self.state = next;
        }
    }

    /// What a failure says of it.
    pub(crate) fn told(&self, key: Key) -> FailedRequest {
        FailedRequest {
            key: req_key(key),
            kind: self.kind.told(),
            len: self.buffer.len,
        }
    }

    pub(crate) const fn is_quiet(&self) -> bool {
        matches!(self.place, Place::Home)
    }
}
