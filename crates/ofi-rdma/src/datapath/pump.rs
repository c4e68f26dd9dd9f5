//! From the outbox to the port: peek, offer, commit.

use ofi_sched::{Policy, Threshold};

use super::post::{Message, Post};
use crate::dialect::{Base, Dialect};
use crate::engine::Engine;
use crate::error::OpKind;
use crate::limits::{BUSY_TRIES_PER_LANE, CLOSE_BYTES, CONN_BYTES};
use crate::outbox::Waiting;
use crate::port::{Lane, Outcome, RailPort, Wire};
use crate::request::Taken;
use crate::wire::close::Close;

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
        engine.settle_head(&waiting, &post, outcome);
    }
}

impl<D: Dialect, S: Policy> Engine<D, S> {
    /// The operation whose turn it is on a lane.
    #[inline]
    pub fn peek_post(&mut self, lane: Lane) -> Option<Pending<'_, D, S>> {
        self.queue_ready(0);
        let (waiting, post) = self.head(lane)?;
        Some(Pending {
            engine: self,
            waiting,
            post,
        })
    }

    /// Offers what was made since the last pump, and what waits, to the port: lane by lane, until each
    /// lane is empty or busy.
    #[inline]
    pub fn pump<P: RailPort>(&mut self, port: &mut P) {
        let mut tried = None;
        if self.outbox.len() > 0 {
            self.queue_ready(0);
        } else if self.ready.is_empty() {
            return;
        } else {
            tried = self.offer_ready(port);
        }
        if self.outbox.len() > 0 {
            self.pump_lanes(tried, port);
        }
    }

    /// What was made, from batch `from` on, waits in the outbox like all that waits.
    pub(super) fn queue_ready(&mut self, from: usize) {
        for batch in self.ready.iter_mut().skip(from) {
            let Some(comm) = self.requests.get(batch.owner).map(|r| r.comm) else {
                continue;
            };
            while let Some((lane, waiting)) = batch.peek(self.data_rails) {
                self.outbox.push(comm.index(), lane, waiting);
                batch.advance();
            }
        }
        self.ready.clear();
    }

    pub(super) fn pump_lanes<P: RailPort>(&mut self, tried: Option<Lane>, port: &mut P) {
        for rail in 0..self.config.control_rails {
            self.pump_lane(Lane::control(rail), tried, port);
        }
        for rail in 0..self.config.data_rails {
            self.pump_lane(Lane::data(rail), tried, port);
        }
    }

    /// `tried`: the lane that was busy once in this pump.
    fn pump_lane<P: RailPort>(&mut self, lane: Lane, tried: Option<Lane>, port: &mut P) {
        // Each communicator's head is tried once after a busy answer, a few at most.
        let was_busy = tried == Some(lane);
        let happened = self.happened();
        let mut tries = self.outbox.ring_len(lane).min(BUSY_TRIES_PER_LANE);
        if tries == 0 || !(was_busy || self.backoff[lane.index()].is_due(happened)) {
            return;
        }
        tries -= usize::from(was_busy);
        while tries > 0 {
            let Some((waiting, post)) = self.head(lane) else {
                return;
            };
            let outcome = port.post(&post);
            self.settle_head(&waiting, &post, outcome);
            tries -= usize::from(outcome == Outcome::Busy);
        }
        let happened = self.happened();
        self.backoff[lane.index()].busy(happened);
    }

    /// The head of a lane, as it is offered.
    fn head(&mut self, lane: Lane) -> Option<(Waiting, Post)> {
        loop {
            let waiting = self.outbox.peek(lane)?;
            if let Some(post) = self.build(&waiting, lane) {
                return Some((waiting, post));
            }
            // Its owner is gone: cannot be, since owners drop what they queued; never post it.
            debug_assert!(false, "a queued operation without owner: {waiting:?}");
            self.outbox.pop(lane);
        }
    }

    fn settle_head(&mut self, waiting: &Waiting, post: &Post, outcome: Outcome) {
        let lane = post.lane;
        if outcome == Outcome::Busy {
            self.count_busy(waiting.op, waiting.owner);
            self.outbox.rotate(lane);
            return;
        }
        self.counters.retried += 1;
        self.outbox.pop(lane);
        self.commit(waiting, post, outcome);
    }

    pub(super) fn build(&self, waiting: &Waiting, lane: Lane) -> Option<Post> {
        if waiting.op.is_own() {
            return self.build_own(waiting, lane);
        }
        let request = self.requests.get(waiting.owner)?;
        let comm = self.comms.get(request.comm)?;
        Post::of_request(&self.config, comm, request, (waiting, lane))
    }

    #[cold]
    fn build_own(&self, waiting: &Waiting, lane: Lane) -> Option<Post> {
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
        let wire = Wire::Control { peer, len };
        Some(Post::new(waiting, lane, wire, message))
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
        let taken = Taken::one(lane);
        let comm = if waiting.op.is_own() {
            waiting.owner
        } else {
            let Some(request) = self.requests.get_mut(waiting.owner) else {
                return;
            };
            request.launched(taken);
            request.comm
        };
        if let Some(comm) = self.comms.get_mut(comm) {
            comm.launched(taken);
            if waiting.op.is_own() {
                comm.own_flying = Some(waiting.op);
            }
        }
        self.news();
    }
}
