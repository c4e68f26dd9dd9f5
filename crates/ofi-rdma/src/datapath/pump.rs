//! From the outbox to the port: peek, offer, commit.

use alloc::boxed::Box;
use ofi_sched::{Policy, Threshold};

use crate::dialect::{Base, Dialect};
use crate::engine::Engine;
use crate::error::OpKind;
use crate::key::Named;
use crate::limits::{BUSY_TRIES_PER_LANE, CLOSE_BYTES, CONN_BYTES};
use crate::outbox::Waiting;
use crate::port::{Lane, Outcome, PutSource, RailPort, Token, Wire};
use crate::wire::capability::with_length;
use crate::wire::close::Close;
use crate::wire::conn::Conn;
use crate::wire::ctrl::{Ctrl, ctrl_bytes};
use crate::{Config, KeyWidth};

/// One operation, as offered to a port.
#[derive(Debug)]
pub struct Post {
    token: Token,
    lane: Lane,
    op: OpKind,
    wire: Wire,
    message: Message,
}

#[derive(Debug)]
enum Message {
    None,
    Conn(Box<Conn>),
    Ctrl(Ctrl, u8, KeyWidth),
    Close(Close),
}

impl Post {
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

/// The operation at the head of a lane. Dropped without [`Pending::commit`], nothing happened.
///
/// There is one at a time, and it is committed once:
///
/// ```compile_fail,E0382
/// # use ofi_rdma::{Engine, Lane, Outcome};
/// fn twice(engine: &mut Engine) {
///     let Some(pending) = engine.peek_post(Lane::data(0)) else { return };
///     pending.commit(Outcome::Accepted);
///     pending.commit(Outcome::Accepted);
/// }
/// ```
///
/// ```compile_fail,E0499
/// # use ofi_rdma::{Engine, Lane, Outcome};
/// fn both(engine: &mut Engine) {
///     let (a, b) = (engine.peek_post(Lane::data(0)), engine.peek_post(Lane::data(1)));
///     if let Some(a) = a { a.commit(Outcome::Busy) }
/// }
/// ```
#[derive(Debug)]
#[must_use]
pub struct Pending<'a, D: Dialect = Base, S: Policy = Threshold> {
    engine: &'a mut Engine<D, S>,
    waiting: Waiting,
    post: Post,
}

impl<D: Dialect, S: Policy> Pending<'_, D, S> {
    /// The operation to offer.
    #[must_use]
    pub const fn post(&self) -> &Post {
        &self.post
    }

    /// Says what the port made of it. Busy leaves it at the head of its communicator and gives the
    /// next communicator of the lane its turn.
    pub fn commit(self, outcome: Outcome) {
        let Self {
            engine,
            waiting,
            post,
            ..
        } = self;
        let lane = post.lane;
        if outcome == Outcome::Busy {
            engine.counters.busy += 1;
            engine.outbox.rotate(lane);
            return;
        }
        engine.outbox.pop(lane);
        engine.commit(&waiting, &post, outcome);
    }
}

impl<D: Dialect, S: Policy> Engine<D, S> {
    /// The operation whose turn it is on a lane.
    #[inline]
    pub fn peek_post(&mut self, lane: Lane) -> Option<Pending<'_, D, S>> {
        loop {
            let waiting = self.outbox.peek(lane)?;
            if let Some(post) = self.build(waiting, lane) {
                return Some(Pending {
                    engine: self,
                    waiting,
                    post,
                });
            }
            // Its owner is gone: cannot be, since owners drop what they queued; never post it.
            debug_assert!(false, "a queued operation without owner: {waiting:?}");
            self.outbox.pop(lane);
        }
    }

    /// Offers what waits to the port, lane by lane, until each lane is empty or busy.
    #[inline]
    pub fn pump<P: RailPort>(&mut self, port: &mut P) {
        if self.outbox.len() == 0 {
            return;
        }
        for rail in 0..self.config.control_rails {
            self.pump_lane(Lane::control(rail), port);
        }
        for rail in 0..self.config.data_rails {
            self.pump_lane(Lane::data(rail), port);
        }
    }

    fn pump_lane<P: RailPort>(&mut self, lane: Lane, port: &mut P) {
        // Each communicator's head is tried once after a busy answer, a few at most.
        let mut tries = self.outbox.ring_len(lane).min(BUSY_TRIES_PER_LANE);
        if tries == 0 || !self.backoff[lane.index()].is_due(self.happened) {
            return;
        }
        while tries > 0 {
            let Some(pending) = self.peek_post(lane) else {
                return;
            };
            let outcome = port.post(pending.post());
            pending.commit(outcome);
            tries -= usize::from(outcome == Outcome::Busy);
        }
        self.backoff[lane.index()].busy(self.happened);
    }

    pub(super) fn build(&self, waiting: Waiting, lane: Lane) -> Option<Post> {
        let named = Named {
            op: waiting.op,
            rail: lane.rail(),
            owner: waiting.owner,
        };
        let (wire, message) = match waiting.op {
            op if op.is_own() => self.build_own(waiting)?,
            OpKind::Ctrl => self.build_ctrl(waiting, lane)?,
            _ => (self.build_data(waiting, lane)?, Message::None),
        };
        Some(Post {
            token: named.token(),
            lane,
            op: waiting.op,
            wire,
            message,
        })
    }

    #[cold]
    fn build_own(&self, waiting: Waiting) -> Option<(Wire, Message)> {
        let comm = self.comms.get(waiting.owner)?;
        let peer = comm.peer.control[0];
        let (message, len) = if waiting.op == OpKind::Close {
            let close = Close {
                ctrl_count: comm.ctrls,
                send_comm_id: comm.remote_id,
            };
            (Message::Close(close), CLOSE_BYTES)
        } else {
            let conn = self.own_conn(waiting.owner, waiting.op == OpKind::ConnResp)?;
            (Message::Conn(conn), CONN_BYTES)
        };
        let len = u16::try_from(len).ok()?;
        Some((Wire::Control { peer, len }, message))
    }

    fn build_ctrl(&self, waiting: Waiting, lane: Lane) -> Option<(Wire, Message)> {
        let request = self.requests.get(waiting.owner)?;
        let comm = self.comms.get(request.comm)?;
        let Config {
            data_rails,
            key_width,
            ..
        } = self.config;
        let ctrl = Ctrl {
            no_completion: request.no_imm,
            seq: request.seq,
            comm_id: comm.remote_id,
            buff_len: request.len,
            buff_addr: request.wire_addr,
            keys: request.keys,
        };
        let peer = comm.peer.control[usize::from(lane.rail())];
        let len = u16::try_from(ctrl_bytes(data_rails, key_width)).ok()?;
        Some((
            Wire::Control { peer, len },
            Message::Ctrl(ctrl, data_rails, key_width),
        ))
    }

    #[inline]
    fn build_data(&self, waiting: Waiting, lane: Lane) -> Option<Wire> {
        let request = self.requests.get(waiting.owner)?;
        let (addr, region) = (request.addr, request.region);
        let rail = usize::from(lane.rail());
        Some(match waiting.op {
            OpKind::EagerCopy => Wire::EagerCopy {
                rx: request.rx?,
                len: waiting.len,
                addr,
                region,
            },
            OpKind::Flush => Wire::FlushRead { addr, region },
            OpKind::Put | OpKind::Get => self.build_one_sided(request, waiting.op)?,
            OpKind::Eager => {
                let comm = self.comms.get(request.comm)?;
                let imm = D::encode_imm(1, comm.remote_id, request.seq);
                Wire::Eager {
                    peer: comm.peer.data[rail],
                    addr,
                    len: waiting.len,
                    region,
                    imm,
                }
            }
            _ => {
                let comm = self.comms.get(request.comm)?;
                let imm = D::encode_imm(request.need, comm.remote_id, request.seq);
                let data = match comm.len_in_data {
                    true => with_length(imm, waiting.len),
                    false => u64::from(imm),
                };
                let offset = u64::from(waiting.offset);
                Wire::Write {
                    peer: comm.peer.data[rail],
                    addr: addr.wrapping_add(offset),
                    len: u64::from(waiting.len),
                    region,
                    remote_addr: request.wire_addr.wrapping_add(offset),
                    remote_key: request.keys[rail],
                    data: (!request.no_imm).then_some(data),
                }
            }
        })
    }

    /// An operation that the provider was not too busy for is at the provider, and may be over.
    pub(super) fn commit(&mut self, waiting: &Waiting, post: &Post, outcome: Outcome) {
        self.mark_flying(waiting, post.lane);
        match outcome {
            Outcome::Completed => self.finish_op(post.token, Ok(())),
            Outcome::Failed(cause) => self.finish_op(post.token, Err(cause)),
            Outcome::Accepted | Outcome::Busy => {}
        }
    }

    /// The provider has it.
    fn mark_flying(&mut self, waiting: &Waiting, lane: Lane) {
        let comm = if waiting.op.is_own() {
            waiting.owner
        } else {
            let Some(request) = self.requests.get_mut(waiting.owner) else {
                return;
            };
            request.queued -= 1;
            request.flying |= lane.bit();
            request.used |= lane.bit();
            request.comm
        };
        if let Some(comm) = self.comms.get_mut(comm) {
            comm.flying += 1;
            comm.moved = true;
            if waiting.op.is_own() {
                comm.own_flying = Some(waiting.op);
            }
        }
        self.news();
    }
}
