//! isend: checks, window, eager or not, plan (protocol 2e.2).

use ofi_pools::Key;
use ofi_sched::Policy;

use super::{Admission, NotNow};
use crate::comm::CommKind;
use crate::dialect::Dialect;
use crate::engine::{Early, EarlyCtrl, Engine};
use crate::error::{Error, OpKind};
use crate::key::{CommKey, ReqKey};
use crate::limits::MESSAGE_BYTES_MAX;
use crate::outbox::Waiting;
use crate::port::{Lane, RegionId};
use crate::request::{Kind, Request};
use crate::state::CommState;
use crate::window::Slot;

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

pub(super) fn checked_len(len: u64) -> Result<u32, Error> {
    let max = MESSAGE_BYTES_MAX;
    match u32::try_from(len) {
        Ok(short) if len <= max => Ok(short),
        _ => Err(Error::TooLong { len, max }),
    }
}

impl<D: Dialect, S: Policy> Engine<D, S> {
    /// Whether the CTRL of the next message of a send communicator is here. If not, a look at the
    /// completion queues before [`Engine::isend`] may save an eager message.
    #[must_use]
    pub fn ctrl_known(&self, comm: CommKey) -> bool {
        self.comms
            .get(comm.0)
            .is_some_and(|c| matches!(c.window.peek_next(), Slot::Early(_)))
    }

    /// Starts a send. The buffer is the engine's until `test` says done, or the communicator is
    /// closed and drained.
    ///
    /// # Errors
    /// A failed or foreign communicator, a length beyond the limit.
    pub fn isend(&mut self, comm: CommKey, buf: SendBuf) -> Result<Admission, Error> {
        let len = checked_len(buf.len)?;
        let c = self.usable(comm, CommKind::Send)?;
        let refusal = if c.state != CommState::Up {
            Some(NotNow::Connecting)
        } else {
            self.refusal(comm.0.index(), c.has_room())
        };
        if let Some(why) = refusal {
            self.counters.not_now += 1;
            return Ok(Admission::NotNow(why));
        }
        let early = c.window.peek_next();
        let eager =
            early == Slot::Empty && c.writes_out == 0 && c.eager_max.is_some_and(|max| len <= max);
        let kind = if eager { Kind::EagerSend } else { Kind::Send };
        let request = Request::new(comm.0, kind, buf.region, buf.addr, len);
        let Some(key) = self.new_request(request) else {
            return Ok(Admission::NotNow(NotNow::InFlightCap));
        };
        self.admit(comm.0, key, eager);
        if eager {
            self.start_eager(comm.0, key, len);
        } else if let Slot::Early(index) = early {
            let held = self.early.key_at(index).and_then(|k| self.early.remove(k));
            if let Some(Early::Ctrl(ctrl)) = held {
                self.start_writes(key, &ctrl);
            }
        }
        self.news();
        Ok(Admission::Admitted(ReqKey(key)))
    }

    /// Back-pressure common to both directions.
    pub(super) fn refusal(&self, comm: u32, has_room: bool) -> Option<NotNow> {
        if !has_room {
            Some(NotNow::InFlightCap)
        } else if self.outbox.waiting(comm) > 0 {
            Some(NotNow::PostsWaiting)
        } else {
            None
        }
    }

    fn admit(&mut self, comm: Key, key: Key, eager: bool) {
        let epoch = self.epoch;
        let Some(c) = self.comms.get_mut(comm) else {
            return;
        };
        let seq = c.window.start(key.index());
        c.writes_out += u16::from(!eager);
        c.moved = true;
        self.counters.sends += 1;
        self.counters.eager_sends += u64::from(eager);
        if let Some(request) = self.requests.get_mut(key) {
            request.seq = seq;
            request.epoch = epoch;
        }
    }

    /// Completes by its own send and by the CTRL that comes all the same (trap 3).
    fn start_eager(&mut self, comm: Key, key: Key, len: u32) {
        let plan = self.policy.plan(u64::from(len), self.data_rails);
        // A stripe holds any eager message (Config::check), so there is one.
        let rail = plan.get(0).map_or(0, |stripe| stripe.rail);
        let Some(request) = self.requests.get_mut(key) else {
            return;
        };
        request.need = 2;
        request.bytes = len;
        request.queued = 1;
        let waiting = Waiting {
            op: OpKind::Eager,
            owner: key,
            offset: 0,
            len,
        };
        self.outbox.push(comm.index(), Lane::data(rail), waiting);
    }

    /// The CTRL is here: never more than the receiver has room for, one operation a stripe.
    pub(super) fn start_writes(&mut self, key: Key, ctrl: &EarlyCtrl) {
        let Some(request) = self.requests.get_mut(key) else {
            return;
        };
        let len = request.len.min(ctrl.len);
        let plan = self.policy.plan(u64::from(len), self.data_rails);
        let stripes = plan.stripe_count().get();
        request.len = len;
        request.bytes = len;
        request.wire_addr = ctrl.addr;
        request.keys = ctrl.keys;
        request.no_imm = ctrl.no_completion;
        request.ctrl_seen = true;
        request.need = stripes;
        request.queued = stripes;
        let comm = request.comm.index();
        self.counters.segments += u64::from(stripes);
        for stripe in plan.iter() {
            // Both are at most `len`, which has 32 bits.
            let offset = u32::try_from(stripe.offset).unwrap_or(len);
            let bytes = u32::try_from(stripe.len).unwrap_or(0);
            let waiting = Waiting {
                op: OpKind::Write,
                owner: key,
                offset,
                len: bytes,
            };
            self.outbox.push(comm, Lane::data(stripe.rail), waiting);
        }
    }
}
