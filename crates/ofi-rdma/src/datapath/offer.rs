//! What was just made goes to the port in order, while nothing waits: the way of every message that
//! goes well, written out for each kind so that nothing is looked up or decided twice.

use ofi_sched::{Policy, RailCount};

use super::post::{Post, Segments};
use crate::Config;
use crate::batch::Batch;
use crate::comm::Comm;
use crate::dialect::Dialect;
use crate::engine::Engine;
use crate::error::OpKind;
use crate::port::{Cause, Lane, Outcome, RailPort, Token};
use crate::request::{Request, Taken};

/// How far the offering of a batch got.
enum Offered {
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
                    self.counters.busy += 1;
                    self.queue_ready(at);
                    self.outbox.rotate(lane);
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
        let segments = Segments::of(self.comm, self.request);
        // Copies, so that they can stay in registers beside the calls of the port.
        let (mut left, mut taken, mut offered) = (*batch, Taken::default(), Offered::All);
        while let Some((rail, part)) = left.peek_data(self.rails) {
            let at = usize::from(rail);
            let to = (self.comm.peer.data[at], self.request.keys[at]);
            let post = segments.post(&part, rail, to);
            let outcome = port.post(&post);
            if outcome == Outcome::Accepted {
                left.advance();
                taken.add(post.lane);
                continue;
            }
            if outcome != Outcome::Busy {
                left.advance();
                taken.add(post.lane);
            }
            offered = Offered::of(outcome, &post);
            break;
        }
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
