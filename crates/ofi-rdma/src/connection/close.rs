//! Close detaches: it never waits, and nothing of the communicator's is given up before the
//! provider gave it back (decision 13).

use alloc::vec::Vec;
use ofi_pools::Key;
use ofi_sched::Policy;

use crate::comm::CommKind;
use crate::dialect::Dialect;
use crate::engine::Engine;
use crate::error::{Error, OpKind};
use crate::event::Stray;
use crate::key::CommKey;
use crate::state::{CommInput, CommState, ReqInput};
use crate::window::{Lookup, Slot};

impl<D: Dialect, S: Policy> Engine<D, S> {
    /// Closes a communicator or listener, also with requests in flight: their keys are stale from
    /// now on, queued operations are dropped (nothing is posted for it any more: protocol 2.k 2),
    /// and its slots live until the operations at the provider completed. With CLOSE messages on, the
    /// id of a sender lives until its peer's CLOSE came, or the bound of connect passed: so a CTRL that
    /// is still on its way finds the id it was sent to.
    ///
    /// # Errors
    /// It is closed already.
    pub fn close(&mut self, comm: CommKey, now_ms: u64) -> Result<(), Error> {
        let key = comm.0;
        let c = self.comms.get_mut(key).ok_or(Error::NoSuchComm)?;
        if c.state.is_closed() {
            return Err(Error::NoSuchComm);
        }
        let handshake =
            self.config.close_messages && c.state == CommState::Up && c.failure().is_none();
        // Exactly one CLOSE, only after at least one CTRL (decision 13): a sender that got none waits
        // for nothing.
        let input = match c.kind {
            CommKind::Recv if handshake => CommInput::CloseAndSay,
            CommKind::Send if handshake && c.ctrls > 0 && !c.is_heard_out() => {
                CommInput::CloseAndAwait
            }
            _ => CommInput::Close,
        };
        c.step(input);
        c.wait_from(now_ms);
        let child = c.child.take();
        self.drop_queued(key);
        self.orphan_requests(key);
        if let Some(child) = child {
            self.close(CommKey(child), now_ms)?;
        }
        self.reap_if_quiet(key);
        self.news();
        Ok(())
    }

    /// Nobody will test the requests of a closed communicator.
    fn orphan_requests(&mut self, key: Key) {
        for owned in self.requests_of(key) {
            let Some(request) = self.requests.get_mut(owned) else {
                continue;
            };
            request.step(ReqInput::Close);
            self.drop_orphan(owned);
        }
    }

    fn requests_of(&self, key: Key) -> Vec<Key> {
        let Some(comm) = self.comms.get(key) else {
            return Vec::new();
        };
        let mut owned = Vec::new();
        let mut seq = comm.window.oldest();
        for _ in 0..comm.window.outstanding() {
            if let Lookup::Within(Slot::Active(index)) = comm.window.lookup(seq) {
                // A request that `test` reported failed may be gone, its slot another's by now.
                let owner = self.requests.key_at(index);
                let ours = |k: &Key| self.requests.get(*k).is_some_and(|r| r.comm == key);
                owned.extend(owner.filter(ours));
            }
            seq = seq.wrapping_add(1);
        }
        if comm.out_of_window() > 0 {
            let others = self
                .requests
                .iter()
                .filter(|(_, r)| r.comm == key && !r.kind.in_window());
            owned.extend(others.map(|(k, _)| k));
        }
        owned
    }

    /// A CTRL for a communicator that is closed. One that lingers counts it: CLOSE says how many there
    /// are. For everybody else it is a stray.
    #[cold]
    pub(crate) fn late_ctrl(&mut self, id: u32, seq: u16) {
        let found = self.comms.at_mut(id);
        let lingering = found.filter(|(_, comm)| comm.state == CommState::Lingering);
        let Some((key, comm)) = lingering else {
            return self.stray(Stray::Ctrl(id, seq));
        };
        comm.ctrls += 1;
        self.end_if_heard_out(key);
    }

    /// Ends a communicator that lingers, if its peer has nothing more to say.
    #[cold]
    pub(crate) fn end_if_heard_out(&mut self, key: Key) {
        let Some(comm) = self.comms.get_mut(key) else {
            return;
        };
        if comm.is_heard_out() && comm.step(CommInput::HeardOut) {
            self.reap_if_quiet(key);
        }
    }

    /// A closed communicator with nothing at the provider: says CLOSE if it has to, else ends.
    pub(crate) fn reap_if_quiet(&mut self, key: Key) {
        let Some(comm) = self.comms.get_mut(key) else {
            return;
        };
        let quiet = comm.flying == 0 && comm.queued == 0;
        if !quiet || !comm.step(CommInput::Quiet) {
            return;
        }
        if comm.state == CommState::Ending {
            // It was Parting. Nothing to say if no CTRL went out; else how many did: the sender
            // waits for that many.
            if comm.ctrls > 0 {
                return self.queue_own(key, OpKind::Close);
            }
            comm.step(CommInput::Quiet);
        }
        let (id, failed) = (comm.local_id, comm.has_failed());
        self.failed_comms -= u32::from(failed);
        if let Some(comm) = self.comms.remove(key) {
            self.counters.take_over(&comm);
        }
        self.free_id(id);
    }
}
