//! iwrite, iwriteInline, iread: memory that the caller names, on data rail 0, with no message and no
//! sequence number (protocol 2c.8, 2e.8).

use ofi_pools::Key;
use ofi_sched::Policy;

use super::isend::checked_len;
use super::{Admission, NotNow};
use crate::batch::Batch;
use crate::comm::{Comm, CommKind};
use crate::dialect::Dialect;
use crate::engine::Engine;
use crate::error::{Error, OpKind};
use crate::key::{CommKey, ReqKey};
use crate::outbox::Waiting;
use crate::port::{Lane, Outcome, PutSource, RailPort, RegionId, Remote, Wire};
use crate::request::{Kind, Request};

/// All one-sided operations go over this one (protocol 2c.8).
const LANE: Lane = Lane::data(0);

/// A one-sided operation: bytes here and memory there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OneSided {
    /// Local address of the first byte.
    pub addr: u64,
    /// Bytes; at most [`MESSAGE_BYTES_MAX`](crate::limits::MESSAGE_BYTES_MAX).
    pub len: u64,
    /// Region that holds them. For an inline write and for 0 bytes: any region of the port's own.
    pub region: RegionId,
    /// Virtual address of the peer's memory.
    pub remote_addr: u64,
    /// Key of the peer's region on data rail 0, as its `getMrKey` gave it.
    pub remote_key: u64,
}

impl<D: Dialect, S: Policy> Engine<D, S> {
    /// Starts a write to the peer of a send communicator, which is not told. The buffer is the
    /// engine's until `test` says done.
    ///
    /// # Errors
    /// A failed or foreign communicator, a length beyond the limit.
    pub fn iwrite(&mut self, comm: CommKey, what: &OneSided) -> Result<Admission, Error> {
        self.one_sided(comm, Kind::Put, what)
    }

    /// Starts a read from the peer of a *receive* communicator (protocol 2a.2). The buffer is the
    /// engine's until `test` says done.
    ///
    /// # Errors
    /// A failed or foreign communicator, a length beyond the limit.
    pub fn iread(&mut self, comm: CommKey, what: &OneSided) -> Result<Admission, Error> {
        self.one_sided(comm, Kind::Get, what)
    }

    /// As [`Engine::iwrite`], and the bytes are the caller's again when this returns: so it is
    /// offered to the port now, and is "not now" when the port is busy. The port checks the length
    /// against what it can take at once.
    ///
    /// # Errors
    /// A failed or foreign communicator, a length beyond the limit.
    pub fn iwrite_inline<P: RailPort>(
        &mut self,
        comm: CommKey,
        what: &OneSided,
        port: &mut P,
    ) -> Result<Admission, Error> {
        let request = match self.admit_one_sided(comm, Kind::Put, what)? {
            Ok(request) => request,
            Err(why) => return Ok(self.refuse(why)),
        };
        let happened = self.happened();
        let backoff = &mut self.backoff[LANE.index()];
        if !backoff.is_due(happened) {
            return Ok(self.refuse(NotNow::ProviderBusy));
        }
        let Some(key) = self.new_request(request) else {
            return Ok(self.refuse(NotNow::InFlightCap));
        };
        let waiting = Waiting {
            op: OpKind::Put,
            owner: key,
            offset: 0,
            len: 0,
        };
        let Some(mut post) = self.build(&waiting, LANE) else {
            self.drop_request(key);
            return Err(Error::NoSuchComm);
        };
        post.take_inline();
        let outcome = port.post(&post);
        if outcome == Outcome::Busy {
            self.count_busy(waiting.op, key);
            self.backoff[LANE.index()].busy(happened);
            self.drop_request(key);
            return Ok(self.refuse(NotNow::ProviderBusy));
        }
        self.count_one_sided(comm.0);
        self.commit(&waiting, &post, outcome);
        Ok(Admission::Admitted(ReqKey(key)))
    }

    fn one_sided(
        &mut self,
        comm: CommKey,
        kind: Kind,
        what: &OneSided,
    ) -> Result<Admission, Error> {
        let request = match self.admit_one_sided(comm, kind, what)? {
            Ok(request) => request,
            Err(why) => return Ok(self.refuse(why)),
        };
        let Some(key) = self.new_request(request) else {
            return Ok(self.refuse(NotNow::InFlightCap));
        };
        let op = if kind == Kind::Put {
            OpKind::Put
        } else {
            OpKind::Get
        };
        self.ready.push(Batch::one(op, key, LANE.rail(), 0));
        self.count_one_sided(comm.0);
        Ok(Admission::Admitted(ReqKey(key)))
    }

    /// The request, if one more may be in flight now.
    fn admit_one_sided(
        &self,
        comm: CommKey,
        kind: Kind,
        what: &OneSided,
    ) -> Result<Result<Request, NotNow>, Error> {
        let len = checked_len(what.len)?;
        let side = if kind == Kind::Put {
            CommKind::Send
        } else {
            CommKind::Recv
        };
        if !self.comms.get(comm.0).is_some_and(|c| c.is_ready(side)) {
            return self.why_not(comm, side).map(Err);
        }
        let buf = (what.region, what.addr, len);
        let wire = (what.remote_addr, [what.remote_key, 0, 0, 0]);
        let mut request = Request::new(comm.0, kind, buf, wire, self.epoch);
        request.needs(1);
        request.queued = 1;
        request.bytes = len;
        Ok(Ok(request))
    }

    const fn refuse(&mut self, why: NotNow) -> Admission {
        self.counters.not_now += 1;
        Admission::NotNow(why)
    }

    fn count_one_sided(&mut self, comm: Key) {
        if let Some(c) = self.comms.get_mut(comm) {
            c.one_sided_out += 1;
            c.queue(1);
            c.moved = true;
        }
        self.counters.one_sided += 1;
        self.news();
    }
}

/// What a one-sided operation does.
#[cold]
pub(super) fn wire_of<D: Dialect>(comm: &Comm<D>, request: &Request, op: OpKind) -> Wire {
    let target = Remote {
        peer: comm.peer.data[usize::from(LANE.rail())],
        addr: request.wire_addr,
        key: request.keys[0],
    };
    let &Request {
        addr, len, region, ..
    } = request;
    if op == OpKind::Put {
        let source = PutSource::Region(region);
        Wire::Put {
            target,
            addr,
            len,
            source,
        }
    } else {
        Wire::Get {
            target,
            addr,
            len,
            region,
        }
    }
}
