//! A communicator fails: once, with what happened to whom; nothing of it goes out any more.

use ofi_pools::Key;
use ofi_sched::Policy;

use crate::dialect::Dialect;
use crate::engine::{Early, Engine};
use crate::error::{FailedRequest, Failure, OpKind, Why};
use crate::event::Event;
use crate::key::{CommKey, ReqKey};
use crate::window::{Lookup, Slot};

impl<D: Dialect, S: Policy> Engine<D, S> {
    /// The first failure of a communicator sticks; what follows is counted (decision 11). Its
    /// queued operations are dropped: nothing more goes to a peer that may be gone.
    #[cold]
    pub(crate) fn fail(&mut self, key: Key, seq: Option<u16>, why: Why) {
        let comm = self.comms.get(key);
        let place = comm.zip(seq).map(|(comm, seq)| comm.window.lookup(seq));
        let request = match place {
            Some(Lookup::Within(Slot::Active(index))) => self.requests.key_at(index),
            _ => None,
        };
        self.fail_at(key, (seq, request), why);
    }

    /// As [`Engine::fail`], by something that happened to a request.
    #[cold]
    pub(crate) fn fail_of(&mut self, key: Key, request: Option<Key>, why: Why) {
        let known = request.and_then(|request| self.requests.get(request));
        let seq = known.filter(|r| r.kind.in_window()).map(|r| r.seq);
        self.fail_at(key, (seq, request), why);
    }

    fn fail_at(&mut self, key: Key, (seq, request): (Option<u16>, Option<Key>), why: Why) {
        let request = request.and_then(|key| {
            let request = self.requests.get(key)?;
            Some(FailedRequest {
                key: ReqKey(key),
                kind: request.kind.into(),
                len: request.len.into(),
            })
        });
        let Some(comm) = self.comms.get_mut(key) else {
            return;
        };
        if !comm.takes_messages() {
            // What a communicator that closes gets back is no failure.
            self.counters.followers += u64::from(comm.has_failed());
            return;
        }
        let failure = Failure {
            comm_id: comm.local_id,
            seq,
            request,
            why,
            peer: comm.peer_address(),
        };
        comm.set_failure(failure);
        self.failed_comms += 1;
        self.counters.failures += 1;
        self.drop_queued(key);
        self.event(Event::Failed(CommKey(key), failure));
        self.news();
    }

    /// Drops queued operations and kept messages of a communicator.
    pub(crate) fn drop_queued(&mut self, key: Key) {
        let Self {
            ready,
            outbox,
            requests,
            released,
            comms,
            early,
            ..
        } = self;
        for batch in ready {
            let Some(request) = requests.get_mut(batch.owner) else {
                continue;
            };
            if request.comm != key {
                continue;
            }
            request.queued -= batch.left();
            if batch.left() > 0 && batch.op == OpKind::EagerCopy {
                released.extend(request.rx.take());
            }
            batch.cancel();
        }
        outbox.drop_comm(key.index(), |waiting| {
            if waiting.op.is_own() {
                return;
            }
            let Some(request) = requests.get_mut(waiting.owner) else {
                return;
            };
            request.queued -= 1;
            if waiting.op == OpKind::EagerCopy {
                released.extend(request.rx.take());
            }
        });
        let Some(comm) = comms.get_mut(key) else {
            return;
        };
        comm.queued = 0;
        comm.message = None;
        for index in comm.window.drain_early() {
            if let Some(Early::Eager { rx, .. }) = early.remove_at(index) {
                released.push(rx);
            }
        }
    }
}
