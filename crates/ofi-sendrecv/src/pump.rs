//! From the outbox to the port: peek, offer, commit.

use ofi_rdma::{Outcome, Token};

use crate::comm::Place;
use crate::engine::Engine;
use crate::limits::BUSY_TRIES;
use crate::port::{Post, TagPort, Wire};
use crate::state::CommInput;
use crate::token::{Named, Op};
use crate::wire::Connect;

/// The operation whose turn it is. Dropped without [`Pending::commit`], nothing happened.
///
/// There is one at a time, and it is committed once:
///
/// ```compile_fail,E0382
/// # use ofi_sendrecv::Engine;
/// # use ofi_rdma::Outcome;
/// fn twice(engine: &mut Engine) {
///     let Some(pending) = engine.peek_post() else { return };
///     pending.commit(Outcome::Accepted);
///     pending.commit(Outcome::Accepted);
/// }
/// ```
#[derive(Debug)]
#[must_use]
pub struct Pending<'a> {
    engine: &'a mut Engine,
    named: Named,
    post: Post,
}

impl Pending<'_> {
    /// The operation to offer.
    #[must_use]
    pub const fn post(&self) -> &Post {
        &self.post
    }

    /// Says what the port made of it. Busy leaves it at the head of its communicator and gives the
    /// next communicator its turn.
    pub fn commit(self, outcome: Outcome) {
        let Self {
            engine,
            named,
            post,
        } = self;
        if outcome == Outcome::Busy {
            engine.count_busy(named);
            engine.outbox.rotate();
            return;
        }
        engine.outbox.pop();
        engine.mark_flying(named);
        engine.count_posted(&post, outcome);
        match outcome {
            Outcome::Completed => engine.on_local(post.token, 0),
            Outcome::Failed(cause) => engine.on_failed(post.token, cause),
            Outcome::Accepted => engine.sent_to_self(named),
            Outcome::Busy => {}
        }
    }
}

impl Engine {
    /// The operation whose turn it is.
    pub fn peek_post(&mut self) -> Option<Pending<'_>> {
        loop {
            let (_, named) = self.outbox.peek()?;
            if let Some(post) = self.build(named) {
                return Some(Pending {
                    engine: self,
                    named,
                    post,
                });
            }
            // Its owner is gone: cannot be, since owners drop what they queued; never post it.
            debug_assert!(false, "a queued operation without owner: {named:?}");
            self.outbox.pop();
        }
    }

    /// Takes a receive that is to be cancelled.
    pub fn take_cancel(&mut self) -> Option<Token> {
        self.cancels.pop()
    }

    /// Cancels what is to be cancelled, and offers what waits until nothing is left or the provider is
    /// busy.
    #[inline]
    pub fn pump<P: TagPort>(&mut self, port: &mut P) {
        while let Some(token) = self.take_cancel() {
            port.cancel(token);
        }
        if self.outbox.len() == 0 || !self.outbox.is_due(self.happened) {
            return;
        }
        let mut tries = self.outbox.ring_len().min(BUSY_TRIES);
        while tries > 0 {
            let Some(pending) = self.peek_post() else {
                return;
            };
            let outcome = port.post(pending.post());
            pending.commit(outcome);
            tries -= usize::from(outcome == Outcome::Busy);
        }
        self.outbox.busy(self.happened);
    }

    #[inline]
    fn build(&self, named: Named) -> Option<Post> {
        let owner = if named.op.is_own() {
            None
        } else {
            Some(self.requests.get(named.owner)?)
        };
        let comm = self.comms.get(owner.map_or(named.owner, |r| r.comm))?;
        let (tags, peer) = (self.config.tags, comm.peer);
        let wire = match (named.op, owner.map(|r| r.buffer)) {
            (Op::Connect, _) => Wire::Connect {
                peer,
                tag: tags.connect(comm.tag),
            },
            (Op::Await, _) => Wire::Await {
                tag: tags.connect(comm.tag),
            },
            (Op::Send, Some(buffer)) => Wire::Send {
                peer,
                tag: tags.data(comm.tag),
                buffer,
            },
            (Op::Recv, Some(buffer)) => Wire::Recv {
                tag: tags.data(comm.tag),
                buffer,
            },
            (Op::Flush, Some(buffer)) => Wire::FlushRead {
                addr: buffer.addr,
                region: buffer.region,
            },
            (_, None) => return None,
        };
        let connect = Connect {
            name: self.config.name,
            to_self: comm.to_self,
        };
        Some(Post {
            token: named.token(),
            op: named.op,
            wire,
            connect,
        })
    }

    /// The provider said EAGAIN.
    #[cold]
    fn count_busy(&mut self, named: Named) {
        self.counters.busy += 1;
        if let Some(comm) = self.comm_of(named) {
            comm.counters.busy += 1;
        }
    }

    /// The provider took an operation.
    #[inline]
    fn count_posted(&mut self, post: &Post, outcome: Outcome) {
        let is_send = matches!(post.wire, Wire::Send { .. });
        let is_taken = matches!(outcome, Outcome::Accepted | Outcome::Completed);
        self.counters.segments += u64::from(is_send && is_taken);
    }

    /// The provider has it.
    fn mark_flying(&mut self, named: Named) {
        let comm = if named.op.is_own() {
            named.owner
        } else {
            let Some(request) = self.requests.get_mut(named.owner) else {
                return;
            };
            request.place = Place::Flying;
            request.comm
        };
        if let Some(comm) = self.comms.get_mut(comm) {
            comm.flying += 1;
            comm.moved = true;
            if named.op.is_own() {
                comm.own_flying = Some(named.op);
            }
        }
        self.news();
    }

    /// To ourselves, a connect message is out once the provider has it.
    #[inline]
    fn sent_to_self(&mut self, named: Named) {
        if named.op != Op::Connect {
            return;
        }
        if let Some(comm) = self.comms.get_mut(named.owner).filter(|c| c.to_self) {
            if comm.step(CommInput::ConnectSent) {
                self.connected(named.owner);
            }
        }
    }
}
