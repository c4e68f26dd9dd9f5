//! One operation, as it is offered to a port: built from its request and its communicator when its turn
//! comes, so that nothing is kept twice.

use alloc::boxed::Box;

use crate::comm::Comm;
use crate::dialect::Dialect;
use crate::error::OpKind;
use crate::key::Named;
use crate::outbox::Waiting;
use crate::port::{Lane, PeerAddr, PutSource, RegionId, Token, Wire};
use crate::request::Request;
use crate::wire::capability::with_length;
use crate::wire::close::Close;
use crate::wire::conn::Conn;
use crate::wire::ctrl::{Ctrl, ctrl_bytes};
use crate::{Config, KeyWidth};

/// One operation, as offered to a port.
#[derive(Debug)]
pub struct Post {
    pub(super) token: Token,
    pub(super) lane: Lane,
    op: OpKind,
    wire: Wire,
    message: Message,
}

#[derive(Debug)]
pub(super) enum Message {
    None,
    Conn(Box<Conn>),
    Ctrl(Ctrl, u8, KeyWidth),
    Close(Close),
}

impl Post {
    #[inline]
    pub(super) const fn new(waiting: &Waiting, lane: Lane, wire: Wire, message: Message) -> Self {
        let named = Named {
            op: waiting.op,
            rail: lane.rail(),
            owner: waiting.owner,
        };
        Self {
            token: named.token(),
            lane,
            op: waiting.op,
            wire,
            message,
        }
    }

    /// An operation of a request; `None` for one that its request cannot have.
    pub(super) fn of_request<D: Dialect>(
        config: &Config,
        comm: &Comm<D>,
        request: &Request,
        (waiting, lane): (&Waiting, Lane),
    ) -> Option<Self> {
        let (addr, region) = (request.addr, request.region);
        let wire = match waiting.op {
            OpKind::Write => return Some(Self::write(comm, request, (waiting, lane))),
            OpKind::Ctrl => return Some(Self::ctrl(config, comm, request, (waiting, lane))),
            OpKind::Eager => return Some(Self::eager(comm, request, (waiting, lane))),
            OpKind::EagerCopy => Wire::EagerCopy {
                rx: request.rx?,
                len: waiting.len,
                addr,
                region,
            },
            OpKind::Flush => Wire::FlushRead { addr, region },
            op => super::one_sided::wire_of(comm, request, op),
        };
        Some(Self::new(waiting, lane, wire, Message::None))
    }

    /// One segment.
    #[inline(always)]
    pub(super) fn write<D: Dialect>(
        comm: &Comm<D>,
        request: &Request,
        (waiting, lane): (&Waiting, Lane),
    ) -> Self {
        let at = usize::from(lane.rail());
        let to = (comm.peer.data[at], request.keys[at]);
        Segments::of(comm, request, request.need()).post(waiting, lane.rail(), to)
    }

    /// A whole message before its CTRL.
    #[inline]
    pub(super) fn eager<D: Dialect>(
        comm: &Comm<D>,
        request: &Request,
        (waiting, lane): (&Waiting, Lane),
    ) -> Self {
        let wire = Wire::Eager {
            peer: comm.peer.data[usize::from(lane.rail())],
            addr: request.addr,
            len: waiting.len,
            region: request.region,
            imm: D::encode_imm(1, comm.remote_id, request.seq),
        };
        Self::new(waiting, lane, wire, Message::None)
    }

    /// Address and keys of a receive.
    #[inline]
    pub(super) fn ctrl<D: Dialect>(
        config: &Config,
        comm: &Comm<D>,
        request: &Request,
        (waiting, lane): (&Waiting, Lane),
    ) -> Self {
        let &Config {
            data_rails,
            key_width,
            ..
        } = config;
        let ctrl = Ctrl {
            no_completion: request.no_imm,
            seq: request.seq,
            comm_id: comm.remote_id,
            buff_len: request.len,
            buff_addr: request.wire_addr,
            keys: request.keys,
        };
        let peer = comm.peer.control[usize::from(lane.rail())];
        // 48 at most: limits.rs.
        let len = u16::try_from(ctrl_bytes(data_rails, key_width)).unwrap_or(u16::MAX);
        let message = Message::Ctrl(ctrl, data_rails, key_width);
        Self::new(waiting, lane, Wire::Control { peer, len }, message)
    }

    /// What the completion has to carry.
    #[must_use]
    pub const fn token(&self) -> Token {
        self.token
    }

    /// The endpoint to post on.
    #[must_use]
    pub const fn lane(&self) -> Lane {
        self.lane
    }

    /// Its kind, for messages and traces.
    #[must_use]
    pub const fn op(&self) -> OpKind {
        self.op
    }

    /// What to do.
    #[must_use]
    pub const fn wire(&self) -> &Wire {
        &self.wire
    }

    /// The bytes of a one-sided write are taken by the call that offers it.
    pub(super) const fn take_inline(&mut self) {
        if let Wire::Put { source, .. } = &mut self.wire {
            *source = PutSource::Inline;
        }
    }

    /// Writes the bytes of a [`Wire::Control`] into a buffer of at least its length; returns that
    /// length. Writes nothing for other operations.
    pub fn encode(&self, out: &mut [u8]) -> usize {
        match &self.message {
            Message::None => 0,
            Message::Conn(conn) => conn.encode(out),
            Message::Ctrl(ctrl, rails, width) => ctrl.encode(*rails, *width, out),
            Message::Close(close) => close.encode(out),
        }
    }
}

/// What the segments of a message have in common.
#[derive(Clone, Copy)]
pub(super) struct Segments {
    pub(super) imm: u32,
    pub(super) region: RegionId,
    pub(super) addr: u64,
    pub(super) remote_addr: u64,
    pub(super) no_imm: bool,
    pub(super) len_in_data: bool,
}

impl Segments {
    #[inline(always)]
    pub(super) fn of<D: Dialect>(comm: &Comm<D>, request: &Request, count: u8) -> Self {
        Self {
            imm: D::encode_imm(count, comm.remote_id, request.seq),
            region: request.region,
            addr: request.addr,
            remote_addr: request.wire_addr,
            no_imm: request.no_imm,
            len_in_data: comm.len_in_data,
        }
    }

    /// One of them; `to` is the peer's address and key of this rail.
    #[inline(always)]
    pub(super) fn post(&self, part: &Waiting, rail: u8, to: (PeerAddr, u64)) -> Post {
        let data = match self.len_in_data {
            true => with_length(self.imm, part.len),
            false => u64::from(self.imm),
        };
        let offset = u64::from(part.offset);
        let wire = Wire::Write {
            peer: to.0,
            addr: self.addr.wrapping_add(offset),
            len: u64::from(part.len),
            region: self.region,
            remote_addr: self.remote_addr.wrapping_add(offset),
            remote_key: to.1,
            data: (!self.no_imm).then_some(data),
        };
        Post::new(part, Lane::data(rail), wire, Message::None)
    }
}
