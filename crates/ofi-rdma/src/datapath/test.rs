//! test: is it done, and is a look at the completion queues due (protocol 2e.5, decision 35)?

use ofi_sched::Policy;

use crate::dialect::Dialect;
use crate::engine::Engine;
use crate::error::Error;
use crate::key::ReqKey;
use crate::port::Rails;
use crate::state::{ReqInput, ReqState};

/// What became of a request that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Done {
    /// Bytes moved (protocol 2e.4): what both sides had room for. 0 for a flush, and for a receive that
    /// needed no completion.
    pub bytes: u64,
    /// Data rails that carried them; for a receive by writes, those they came in on.
    pub rails: Rails,
}

/// Where a request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Test {
    /// Done; its key names nothing any more.
    Done(Done),
    /// Not yet.
    Pending {
        /// The first test of a poll epoch: make a progress pass, then [`Engine::recheck`].
        poll: bool,
    },
}

impl<D: Dialect, S: Policy> Engine<D, S> {
    /// Asks for a request, and whether the completion queues are to be looked at: once an epoch,
    /// however many requests are tested. The epoch ends when a request already tested in it is
    /// tested again, and after every post and completion.
    ///
    /// # Errors
    /// The failure of its communicator, which ends the request; a key that names none.
    #[inline]
    pub fn test(&mut self, request: ReqKey) -> Result<Test, Error> {
        let epoch = self.epoch;
        let Some(r) = self.requests.get_mut(request.0) else {
            return Err(Error::NoSuchRequest);
        };
        if self.calm == epoch && r.is_first_test(epoch) {
            return Ok(Test::Pending { poll: false });
        }
        self.test_closely(request)
    }

    /// A request that may be over, or is the first of an epoch.
    #[inline(never)]
    fn test_closely(&mut self, request: ReqKey) -> Result<Test, Error> {
        let r = self.requests.get(request.0);
        let is_calm = self.failed_comms == 0;
        if !(is_calm && r.is_some_and(|r| r.state() == ReqState::Live)) {
            if let Some(done) = self.recheck(request)? {
                return Ok(Test::Done(done));
            }
        }
        if let Some(r) = self.requests.get_mut(request.0) {
            let again = u64::from(!r.is_first_test(self.epoch));
            self.retests = self.retests.wrapping_add(again);
            self.epoch = self.epoch.wrapping_add(again);
            r.is_first_test(self.epoch);
        }
        let epoch = self.epoch;
        let poll = self.polled != epoch;
        self.polled = epoch;
        if is_calm {
            self.calm = epoch;
        }
        Ok(Test::Pending { poll })
    }

    /// As [`Engine::test`], without asking for a look.
    ///
    /// # Errors
    /// The failure of its communicator, which ends the request; a key that names none.
    pub fn recheck(&mut self, request: ReqKey) -> Result<Option<Done>, Error> {
        let r = self
            .requests
            .get_mut(request.0)
            .ok_or(Error::NoSuchRequest)?;
        match r.state() {
            ReqState::Done => Ok(Some(self.retire(request.0))),
            ReqState::Orphan | ReqState::Gone => Err(Error::NoSuchRequest),
            ReqState::Live if self.failed_comms == 0 => Ok(None),
            ReqState::Live => self.look_for_failure(request),
        }
    }

    /// Some communicator has failed: that of this request?
    #[cold]
    fn look_for_failure(&mut self, request: ReqKey) -> Result<Option<Done>, Error> {
        let comm = self.requests.get(request.0).map(|r| r.comm);
        let comm = comm.and_then(|key| self.comms.get(key));
        match comm.and_then(crate::comm::Comm::failure) {
            None => Ok(None),
            Some(failure) => {
                self.end_failed(request);
                Err(Error::Failed(failure))
            }
        }
    }

    /// A request of a failed communicator ends with the report of the failure (trap 14): its slot
    /// goes when the provider gave back its operations.
    #[cold]
    fn end_failed(&mut self, request: ReqKey) {
        let Some(r) = self.requests.get_mut(request.0) else {
            return;
        };
        r.step(ReqInput::Report);
        self.drop_orphan(request.0);
    }
}
