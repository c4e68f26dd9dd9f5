//! Flush: a 4-byte read of the caller's buffer through every data rail, so that everything written
//! before is visible (protocol 2e.7).

use ofi_sched::Policy;

use crate::batch::Batch;
use crate::comm::CommKind;
use crate::dialect::Dialect;
use crate::engine::Engine;
use crate::error::{Error, OpKind};
use crate::key::{CommKey, ReqKey};
use crate::limits::{FLUSH_BYTES, FLUSHES_MAX};
use crate::port::RegionId;
use crate::request::{Kind, NO_WIRE, Request};

impl<D: Dialect, S: Policy> Engine<D, S> {
    /// Starts a flush of a received buffer. Never answered "not now": a caller would take that for
    /// "nothing to wait for" (decision 10). Each rail's read is queued on its own, so a busy rail
    /// resumes where it stopped (trap 12).
    ///
    /// # Errors
    /// A failed or foreign communicator, [`FLUSHES_MAX`] flushes outstanding.
    pub fn flush(&mut self, comm: CommKey, addr: u64, region: RegionId) -> Result<ReqKey, Error> {
        let c = self.usable(comm, CommKind::Recv)?;
        if c.flushes_out >= FLUSHES_MAX {
            return Err(Error::TooManyFlushes);
        }
        let rails = self.data_rails.get();
        let buf = (region, addr, FLUSH_BYTES);
        let mut request = Request::new(comm.0, Kind::Flush, buf, NO_WIRE, self.epoch);
        request.needs(rails);
        request.queued = rails;
        let key = self.new_request(request).ok_or(Error::TooManyFlushes)?;
        self.ready.push(Batch::each(OpKind::Flush, key, rails));
        if let Some(c) = self.comms.get_mut(comm.0) {
            c.flushes_out += 1;
            c.queue(rails);
            c.moved = true;
        }
        self.news();
        Ok(ReqKey(key))
    }
}
