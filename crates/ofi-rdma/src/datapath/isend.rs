//! isend: checks, window, eager or not, plan (protocol 2e.2).

use ofi_pools::Key;
use ofi_sched::{Plan, Policy};

use super::{Admission, NotNow};
use crate::batch::Batch;
use crate::comm::CommKind;
use crate::counts::add;
use crate::dialect::Dialect;
use crate::engine::{Early, EarlyCtrl, Engine};
use crate::error::{Error, OpKind};
use crate::key::{CommKey, ReqKey};
use crate::limits::MESSAGE_BYTES_MAX;
use crate::port::RegionId;
use crate::request::{Kind, NO_WIRE, Request, low};
use crate::state::CommState;

/// What to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendBuf {
    /// Address of the first byte.
    pub addr: u64,
    /// Bytes; at most [`MESSAGE_BYTES_MAX`].
    pub len: u64,
    /// Region that holds them. For 0 bytes: any region the port can send nothing from.
    pub region: RegionId,
}

#[inline]
pub(super) fn checked_len(len: u64) -> Result<u32, Error> {
    let max = MESSAGE_BYTES_MAX;
    if len <= max {
        Ok(low(len))
    } else {
        Err(Error::TooLong { len, max })
    }
}

const _: () = assert!(MESSAGE_BYTES_MAX <= u32::MAX as u64);

impl<D: Dialect, S: Policy> Engine<D, S> {
    /// Whether the CTRL of the next message of a send communicator is here. If not, a look at the
    /// completion queues before [`Engine::isend`] may save an eager message.
    #[must_use]
    pub fn ctrl_known(&self, comm: CommKey) -> bool {
        self.comms
            .get(comm.0)
            .is_some_and(|c| c.window.next_early().is_some())
    }

    /// Starts a send. The buffer is the engine's until `test` says done, or the communicator is
    /// closed and drained.
    ///
    /// # Errors
    /// A failed or foreign communicator, a length beyond the limit.
    #[inline]
    pub fn isend(&mut self, comm: CommKey, buf: SendBuf) -> Result<Admission, Error> {
        let len = checked_len(buf.len)?;
        let epoch = self.epoch;
        let c = self.comms.get_mut(comm.0);
        let Some(c) = c.filter(|c| c.is_ready(CommKind::Send)) else {
            return self.not_now(comm, CommKind::Send);
        };
        let early = c.window.next_early();
        let eager = early.is_none() && c.may_be_eager(len);
        let place = (buf.region, buf.addr, len);
        let mut request = Request::new(comm.0, Kind::Send, place, NO_WIRE, epoch);
        request.seq = c.window.next();
        let Some(vacant) = self.requests.vacant() else {
            return self.not_now(comm, CommKind::Send);
        };
        let key = vacant.key();
        let request = vacant.fill(request);
        c.window.start(key.index());
        c.moved = true;
        add(&mut self.counters.sends, 1);
        if eager {
            let plan = self.policy.plan(u64::from(len), self.data_rails);
            c.eager.add(1);
            c.queue(1);
            self.ready.push(start_eager(key, request, &plan));
        } else {
            c.writes_out = c.writes_out.wrapping_add(1);
            if let Some(index) = early {
                if let Some(Early::Ctrl(ctrl)) = self.early.remove_at(index) {
                    let len = len.min(ctrl.len);
                    let plan = self.policy.plan(u64::from(len), self.data_rails);
                    let batch = start_writes(key, request, &ctrl, &plan);
                    c.queue(batch.left());
                    self.counters.add_segments(batch.left());
                    self.ready.push(batch);
                }
            }
        }
        self.refer(buf.region);
        self.news();
        Ok(Admission::Admitted(ReqKey(key)))
    }

    /// A message or one-sided operation that is not taken: in error, or not now.
    #[cold]
    pub(super) fn not_now(&mut self, comm: CommKey, kind: CommKind) -> Result<Admission, Error> {
        let why = self.why_not(comm, kind)?;
        self.counters.not_now += 1;
        Ok(Admission::NotNow(why))
    }

    /// Why a communicator of this kind takes nothing now.
    #[cold]
    pub(super) fn why_not(&self, comm: CommKey, kind: CommKind) -> Result<NotNow, Error> {
        let c = self.usable(comm, kind)?;
        Ok(if c.state != CommState::Up {
            NotNow::Connecting
        } else if c.has_room() && c.queued > 0 {
            NotNow::PostsWaiting
        } else {
            NotNow::InFlightCap
        })
    }

    /// The CTRL of a send that waits is here.
    #[inline]
    pub(super) fn writes_of(&mut self, key: Key, ctrl: &EarlyCtrl) {
        let Some(request) = self.requests.get_mut(key) else {
            return;
        };
        let len = request.len.min(ctrl.len);
        let plan = self.policy.plan(u64::from(len), self.data_rails);
        let batch = start_writes(key, request, ctrl, &plan);
        if let Some(c) = self.comms.get_mut(request.comm) {
            c.queue(batch.left());
        }
        self.counters.add_segments(batch.left());
        self.ready.push(batch);
    }
}

/// Completes by its own send and by the CTRL that comes all the same (trap 3).
#[inline]
fn start_eager(key: Key, request: &mut Request, plan: &Plan) -> Batch {
    // A stripe holds any eager message (Config::check), so there is one.
    let rail = plan.get(0).map_or(0, |stripe| stripe.rail);
    request.kind = Kind::EagerSend;
    request.needs(2);
    request.bytes = request.len;
    request.queued = 1;
    Batch::one(OpKind::Eager, key, rail, request.len)
}

/// The CTRL is here: never more than the receiver has room for, one operation a stripe.
#[inline]
fn start_writes(key: Key, request: &mut Request, ctrl: &EarlyCtrl, plan: &Plan) -> Batch {
    let len = request.len.min(ctrl.len);
    let batch = Batch::writes(key, plan, (len, ctrl.no_completion));
    request.len = len;
    request.bytes = len;
    request.wire_addr = ctrl.addr;
    request.keys = ctrl.keys;
    request.no_imm = ctrl.no_completion;
    request.ctrl_seen = true;
    request.needs(batch.left());
    request.queued = batch.left();
    batch
}
