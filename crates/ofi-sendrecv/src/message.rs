//! isend, irecv, flush, test (protocol 2e.12).

use ofi_pools::Key;
use ofi_rdma::{Admission, CommKey, CommKind, Done, NotNow, Rails, RegionId, ReqKey, Test};

use crate::comm::{Kind, Request};
use crate::engine::{Engine, key_of, req_key};
use crate::error::Error;
use crate::limits::{FLUSH_BYTES, FLUSHES_MAX, INFLIGHT_MAX, MESSAGE_BYTES_MAX};
use crate::port::Buffer;
use crate::state::{CommState, ReqInput, ReqState};
use crate::token::Named;
use crate::view::low;

impl Engine {
    /// Starts a send. The buffer is the engine's until `test` says done, or the communicator is closed
    /// and drained.
    ///
    /// # Errors
    /// A failed or foreign communicator, a length beyond the limit.
    pub fn isend(&mut self, comm: CommKey, buffer: Buffer) -> Result<Admission, Error> {
        self.start(comm, Kind::Send, buffer)
    }

    /// Starts a receive. The provider may write to the buffer until `test` says done.
    ///
    /// # Errors
    /// As [`Engine::isend`].
    pub fn irecv(&mut self, comm: CommKey, buffer: Buffer) -> Result<Admission, Error> {
        self.start(comm, Kind::Recv, buffer)
    }

    #[inline]
    fn start(&mut self, comm: CommKey, kind: Kind, buffer: Buffer) -> Result<Admission, Error> {
        let max = self.config.message_bytes_max.min(MESSAGE_BYTES_MAX);
        let len = buffer.len;
        // Only what is sent has to fit: a receive may have more room than a message can fill.
        if len > MESSAGE_BYTES_MAX || (kind == Kind::Send && len > max) {
            return Err(ofi_rdma::Error::TooLong { len, max }.into());
        }
        let side = match kind {
            Kind::Send => CommKind::Send,
            Kind::Recv | Kind::Flush => CommKind::Recv,
        };
        let (key, c) = self.usable(comm, side)?;
        let refusal = if c.state != CommState::Up {
            Some(NotNow::Connecting)
        } else if c.outstanding >= INFLIGHT_MAX {
            Some(NotNow::InFlightCap)
        } else if self.outbox.waiting(key.index()) > 0 {
            Some(NotNow::PostsWaiting)
        } else {
            None
        };
        if let Some(why) = refusal {
            self.counters.not_now += 1;
            return Ok(Admission::NotNow(why));
        }
        let seq = low(c.counters.messages);
        let request = Request {
            seq,
            ..Request::new(key, kind, buffer, self.epoch)
        };
        let Some(request) = self.queue(key, request) else {
            return Ok(Admission::NotNow(NotNow::InFlightCap));
        };
        if let Some(c) = self.comms.get_mut(key) {
            c.outstanding += 1;
            c.counters.messages += 1;
        }
        match kind {
            Kind::Send => self.counters.sends += 1,
            Kind::Recv | Kind::Flush => self.counters.recvs += 1,
        }
        Ok(Admission::Admitted(req_key(request)))
    }

    fn queue(&mut self, comm: Key, request: Request) -> Option<Key> {
        let op = request.kind.op();
        let owner = self.new_request(request)?;
        self.outbox.push(comm.index(), Named { op, owner });
        if let Some(c) = self.comms.get_mut(comm) {
            c.moved = true;
        }
        self.news();
        Some(owner)
    }

    /// Starts a flush of a received buffer. Never answered "not now": a caller would take that for
    /// "nothing to wait for" (decision 10). It is queued where the reference spins.
    ///
    /// # Errors
    /// A failed or foreign communicator, [`FLUSHES_MAX`] flushes outstanding.
    pub fn flush(&mut self, comm: CommKey, addr: u64, region: RegionId) -> Result<ReqKey, Error> {
        let (key, c) = self.usable(comm, CommKind::Recv)?;
        if c.flushes_out >= FLUSHES_MAX {
            return Err(ofi_rdma::Error::TooManyFlushes.into());
        }
        let len = FLUSH_BYTES;
        let buffer = Buffer { addr, len, region };
        let request = Request::new(key, Kind::Flush, buffer, self.epoch);
        let request = self
            .queue(key, request)
            .ok_or(ofi_rdma::Error::TooManyFlushes)?;
        if let Some(c) = self.comms.get_mut(key) {
            c.flushes_out += 1;
        }
        Ok(req_key(request))
    }

    /// Asks for a request, and whether the completion queue is to be looked at: once an epoch, however
    /// many requests are tested (decision 35).
    ///
    /// # Errors
    /// The failure of its communicator, or a message that did not fit, which end the request; a key
    /// that names none.
    #[inline]
    pub fn test(&mut self, request: ReqKey) -> Result<Test, Error> {
        if let Some(bytes) = self.recheck(request)? {
            let rails = Rails::FIRST;
            return Ok(Test::Done(Done { bytes, rails }));
        }
        let epoch = self.epoch;
        let Some(r) = self.requests.get_mut(key_of(request.to_bits())) else {
            return Err(Error::NO_SUCH_REQUEST);
        };
        let again = r.epoch == epoch;
        r.epoch = epoch.wrapping_add(u32::from(again));
        if again {
            self.next_epoch();
        }
        let poll = !self.polled;
        self.polled = true;
        Ok(Test::Pending { poll })
    }

    /// As [`Engine::test`], without asking for a look: bytes moved when it is done.
    ///
    /// # Errors
    /// As [`Engine::test`].
    #[inline]
    pub fn recheck(&mut self, request: ReqKey) -> Result<Option<u64>, Error> {
        let key = key_of(request.to_bits());
        let r = self.requests.get(key).ok_or(Error::NO_SUCH_REQUEST)?;
        let (comm, room) = (r.comm, r.buffer.len);
        match r.state {
            ReqState::Done => Ok(Some(self.retire(key))),
            ReqState::Short => {
                let tag = self.comms.get(comm).map_or(0, |c| c.tag);
                self.retire(key);
                Err(Error::Truncated { tag, room })
            }
            ReqState::Orphan | ReqState::Gone => Err(Error::NO_SUCH_REQUEST),
            ReqState::Live => match self.comms.get(comm).and_then(|c| c.failure) {
                None => Ok(None),
                Some(failure) => {
                    self.end_failed(key);
                    Err(Error::failed(failure))
                }
            },
        }
    }

    /// A request of a failed communicator ends with the report of the failure: its slot goes when the
    /// provider gave back its operation.
    #[cold]
    fn end_failed(&mut self, key: Key) {
        if let Some(r) = self.requests.get_mut(key) {
            r.step(ReqInput::Report);
            self.drop_orphan(key);
        }
    }

    /// `test` takes a finished request.
    fn retire(&mut self, key: Key) -> u64 {
        let Some(request) = self.requests.get_mut(key) else {
            return 0;
        };
        let (kind, bytes) = (request.kind, request.bytes);
        request.step(ReqInput::Take);
        if let Some(comm) = self.comms.get_mut(request.comm) {
            match kind {
                Kind::Flush => comm.flushes_out -= 1,
                Kind::Send | Kind::Recv => {
                    comm.outstanding -= 1;
                    comm.counters.bytes += bytes;
                }
            }
        }
        match kind {
            Kind::Send => self.counters.bytes_sent += bytes,
            Kind::Recv => self.counters.bytes_received += bytes,
            Kind::Flush => {}
        }
        self.drop_request(key);
        bytes
    }
}
