//! What was just made goes to the port in order, while nothing waits: the way of every message that
//! goes well, written out for each kind so that nothing is looked up or decided twice.

use ofi_sched::{Policy, RailCount};

use super::post::{Post, Segments};
use crate::Config;
use crate::batch::Batch;
use crate::comm::{Comm, Peer};
use crate::dialect::Dialect;
use crate::engine::Engine;
use crate::error::OpKind;
use crate::limits::MAX_RAILS;
use crate::port::{Cause, Lane, Outcome, RailPort, Token};
use crate::request::{Request, Taken};

/// How far the offering of a batch got.
pub(super) enum Offered {
    /// Nothing is left of it.
    All,
    /// The provider has the operation, which is over at once: the batch goes on after that.
    Over(Token, Result<(), Cause>),
    /// The provider is busy.
    Busy(Lane),
}

/// Where the operations of a batch come from.
struct Origin<'a, D: Dialect> {
    config: &'a Config,
    rails: RailCount,
    comm: &'a mut Comm<D>,
    request: &'a mut Request,
}

impl<D: Dialect, S: Policy> Engine<D, S> {
    /// Whether something waits to be posted.
    #[inline]
    pub(super) fn has_posts(&self) -> bool {
        !self.ready.is_empty() || self.outbox.len() > 0
    }

    /// What is ready, from batch `from` on, waits; `lane` was busy for the first of it.
    pub(super) fn wait_for(&mut self, lane: Lane, from: usize) {
        if let Some(batch) = self.ready.get(from) {
            let (op, owner) = (batch.op, batch.owner);
            self.count_busy(op, owner);
        }
        self.queue_ready(from);
        self.outbox.rotate(lane);
    }

    /// Offers what was just made, while nothing waits. Returns the lane that was busy; the operation
    /// it was busy for waits now behind all others that are left.
    #[inline]
    pub(super) fn offer_ready<P: RailPort>(&mut self, port: &mut P) -> Option<Lane> {
        let mut at = 0;
        while at < self.ready.len() {
            match self.offer_batch(at, port) {
                Offered::All => at += 1,
                Offered::Over(token, result) => self.finish_op(token, result),
                Offered::Busy(lane) => {
                    self.wait_for(lane, at);
                    return Some(lane);
                }
            }
        }
        self.ready.clear();
        None
    }

    #[inline]
    fn offer_batch<P: RailPort>(&mut self, at: usize, port: &mut P) -> Offered {
        let Some(batch) = self.ready.get_mut(at).filter(|batch| batch.left() > 0) else {
            return Offered::All;
        };
        let Some(request) = self.requests.get_mut(batch.owner) else {
            return Offered::All;
        };
        let Some(comm) = self.comms.get_mut(request.comm) else {
            return Offered::All;
        };
        let mut origin = Origin {
            config: &self.config,
            rails: self.data_rails,
            comm,
            request,
        };
        let offered = match batch.op {
            OpKind::Write if batch.is_single() => origin.write(batch, port),
            OpKind::Write => origin.writes(batch, port),
            OpKind::Ctrl => origin.ctrl(batch, port),
            OpKind::Eager => origin.eager(batch, port),
            _ => origin.others(batch, port),
        };
        self.news();
        offered
    }
}

impl<D: Dialect> Origin<'_, D> {
    /// A message in one piece: most short ones, and all where there is one rail.
    #[inline]
    fn write<P: RailPort>(&mut self, batch: &mut Batch, port: &mut P) -> Offered {
        let (lane, waiting) = batch.single();
        let post = Post::write(self.comm, self.request, (&waiting, lane));
        let outcome = port.post(&post);
        self.took(batch, &post, outcome)
    }

    #[inline]
    fn writes<P: RailPort>(&mut self, batch: &mut Batch, port: &mut P) -> Offered {
        let segments = Segments::of(self.comm, self.request, self.request.need());
        let to = (&self.comm.peer, &self.request.keys);
        // A copy, so that it can stay in registers beside the calls of the port.
        let mut left = *batch;
        let (taken, offered) = left.post_parts(&segments, to, self.rails, port);
        *batch = left;
        self.launched(taken);
        offered
    }

    #[inline]
    fn ctrl<P: RailPort>(&mut self, batch: &mut Batch, port: &mut P) -> Offered {
        let (lane, waiting) = batch.single();
        let post = Post::ctrl(self.config, self.comm, self.request, (&waiting, lane));
        let outcome = port.post(&post);
        self.took(batch, &post, outcome)
    }

    #[inline]
    fn eager<P: RailPort>(&mut self, batch: &mut Batch, port: &mut P) -> Offered {
        let (lane, waiting) = batch.single();
        let post = Post::eager(self.comm, self.request, (&waiting, lane));
        let outcome = port.post(&post);
        self.took(batch, &post, outcome)
    }

    /// Copies, flushes and one-sided operations.
    fn others<P: RailPort>(&mut self, batch: &mut Batch, port: &mut P) -> Offered {
        while let Some((lane, waiting)) = batch.peek(self.rails) {
            let what = (&waiting, lane);
            let Some(post) = Post::of_request(self.config, self.comm, self.request, what) else {
                debug_assert!(
                    false,
                    "an operation that its request cannot have: {waiting:?}"
                );
                return Offered::All;
            };
            let outcome = port.post(&post);
            let offered = self.took(batch, &post, outcome);
            if !matches!(offered, Offered::All) {
                return offered;
            }
        }
        Offered::All
    }

    /// What became of one operation.
    #[inline]
    fn took(&mut self, batch: &mut Batch, post: &Post, outcome: Outcome) -> Offered {
        if outcome == Outcome::Busy {
            return Offered::Busy(post.lane);
        }
        batch.advance();
        self.launched(Taken::one(post.lane));
        Offered::of(outcome, post)
    }

    #[inline]
    fn launched(&mut self, taken: Taken) {
        self.request.launched(taken);
        self.comm.launched(taken);
    }
}

impl Batch {
    /// As [`Batch::post_parts`], for a message in one piece.
    #[inline(always)]
    pub(super) fn post_single<P: RailPort>(
        &mut self,
        segments: &Segments,
        to: (&Peer, &[u64; MAX_RAILS]),
        port: &mut P,
    ) -> Offered {
        let (lane, part) = self.single();
        let at = usize::from(lane.rail());
        let post = segments.post(&part, lane.rail(), (to.0.data[at], to.1[at]));
        match port.post(&post) {
            Outcome::Accepted => Offered::All,
            outcome => self.not_accepted(outcome, &post),
        }
    }

    /// The port has something else to say of the operation whose turn it was.
    #[cold]
    pub(super) fn not_accepted(&mut self, outcome: Outcome, post: &Post) -> Offered {
        if outcome != Outcome::Busy {
            self.advance();
        }
        Offered::of(outcome, post)
    }

    /// Posts the segments that are left, in order, until the port does not simply accept; `to`: where
    /// the peer is, and its keys.
    #[inline(always)]
    pub(super) fn post_parts<P: RailPort>(
        &mut self,
        segments: &Segments,
        to: (&Peer, &[u64; MAX_RAILS]),
        rails: RailCount,
        port: &mut P,
    ) -> (Taken, Offered) {
        let mut taken = Taken::default();
        while let Some((rail, part)) = self.peek_data(rails) {
            let at = usize::from(rail);
            let post = segments.post(&part, rail, (to.0.data[at], to.1[at]));
            let outcome = port.post(&post);
            if outcome == Outcome::Accepted {
                self.advance();
                taken.add(post.lane);
                continue;
            }
            if outcome != Outcome::Busy {
                taken.add(post.lane);
            }
            return (taken, self.not_accepted(outcome, &post));
        }
        (taken, Offered::All)
    }
}

impl Offered {
    #[inline]
    fn of(outcome: Outcome, post: &Post) -> Self {
        match outcome {
            Outcome::Accepted => Self::All,
            Outcome::Completed => Self::Over(post.token, Ok(())),
            Outcome::Failed(cause) => Self::Over(post.token, Err(cause)),
            Outcome::Busy => Self::Busy(post.lane),
        }
    }
}
