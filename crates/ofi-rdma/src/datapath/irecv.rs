//! irecv: one CTRL for every receive, eager data already here or not (protocol 2e.3, trap 3).

use ofi_pools::Key;
use ofi_sched::Policy;

use super::Admission;
use super::isend::checked_len;
use crate::batch::Batch;
use crate::comm::CommKind;
use crate::config::KeyWidth;
use crate::counts::add;
use crate::dialect::Dialect;
use crate::engine::{Early, Engine};
use crate::error::{Error, OpKind};
use crate::key::{CommKey, ReqKey};
use crate::limits::MAX_RAILS;
use crate::port::RegionId;
use crate::request::{Kind, Request};
use crate::wire::ctrl::ctrl_bytes;

/// What a receive waits for: its CTRL's own completion, and "all data is here" (trap 14 of section 0).
pub(super) const CTRL_AND_DATA: u8 = 2;

/// Where to receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecvBuf {
    /// Local address of the first byte.
    pub addr: u64,
    /// Room, in bytes. For 0 bytes the caller gives a buffer of its own that a zero-length write
    /// can name (EFA checks address and key of those, too).
    pub len: u64,
    /// Region that holds it.
    pub region: RegionId,
    /// What CTRL advertises: the address, or the offset in the region (decision 15).
    pub wire_addr: u64,
    /// The region's key on each data rail.
    pub keys: [u64; MAX_RAILS],
    /// The caller sees for itself that the data is there: where [`Config::early_completion`] is on,
    /// the receive is done, with 0 bytes, when its CTRL is sent, and the peer writes without immediates
    /// (protocol 2e.10). Nothing tells the engine when that data comes, so it is the caller who starts
    /// no more than 128 receives beyond the first whose data it has not seen: a peer that is told of
    /// 256 fails the communicator. A receive without room is ordinary.
    ///
    /// [`Config::early_completion`]: crate::Config::early_completion
    pub optional: bool,
}

impl<D: Dialect, S: Policy> Engine<D, S> {
    /// Starts a receive. The peer may write to the buffer until `test` says done.
    ///
    /// # Errors
    /// A failed or foreign communicator, a length or a key beyond what the wire carries.
    #[inline]
    pub fn irecv(&mut self, comm: CommKey, buf: &RecvBuf) -> Result<Admission, Error> {
        let len = checked_len(buf.len)?;
        self.check_keys(buf)?;
        let epoch = self.epoch;
        let c = self.comms.get_mut(comm.0);
        let Some(c) = c.filter(|c| c.is_ready(CommKind::Recv)) else {
            return self.not_now(comm, CommKind::Recv);
        };
        let early = c.window.next_early();
        let Some(vacant) = self.requests.vacant() else {
            return self.not_now(comm, CommKind::Recv);
        };
        let key = vacant.key();
        let place = (buf.region, buf.addr, len);
        let wire = (buf.wire_addr, buf.keys);
        let request = vacant.fill(Request::new(comm.0, Kind::Recv, place, wire, epoch));
        request.seq = c.window.start(key.index());
        // Where there is no room, there is nothing that the caller could see.
        let optional = buf.optional && len > 0;
        if optional && self.config.early_completion && early.is_none() {
            request.needs(1);
            request.no_imm = true;
            request.expect_no_segments();
        } else {
            request.needs(CTRL_AND_DATA);
            request.expect_segments(D::encode_imm(1, comm.0.index(), request.seq));
        }
        request.queued = 1;
        c.moved = true;
        c.queue(1);
        // A CTRL goes on one control rail, whatever the stripe size (protocol 2.k 6).
        let bytes = ctrl_bytes(self.config.data_rails, self.config.key_width);
        let rail = self.policy.plan_one(bytes as u64, self.control_rails);
        self.ready.push(Batch::one(OpKind::Ctrl, key, rail, 0));
        add(&mut self.counters.recvs, 1);
        add(&mut self.counters.ctrls, 1);
        self.refer(buf.region);
        if let Some(index) = early {
            self.take_early(comm.0, key, index);
        }
        self.news();
        Ok(Admission::Admitted(ReqKey(key)))
    }

    /// Eager data came before its receive.
    fn take_early(&mut self, comm: Key, key: Key, index: u32) {
        if let Some(Early::Eager { rx, len }) = self.early.remove_at(index) {
            self.start_copy(comm, key, rx, len);
        }
    }

    #[inline]
    pub(super) fn check_keys(&self, buf: &RecvBuf) -> Result<(), Error> {
        if self.config.key_width == KeyWidth::Long {
            return Ok(());
        }
        for (rail, &key) in (0..self.config.data_rails).zip(&buf.keys) {
            if u32::try_from(key).is_err() {
                return Err(Error::KeyTooWide { rail, key });
            }
        }
        Ok(())
    }
}
