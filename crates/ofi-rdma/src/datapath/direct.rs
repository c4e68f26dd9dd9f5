//! The short way of a send or a receive while nothing waits, which is most of what a training job does: everything
//! is written down once, as if the port took all operations, and then they go to the port. What it does not take is
//! taken back.

use ofi_sched::Policy;

use super::Admission;
use super::irecv::{CTRL_AND_DATA, RecvBuf};
use super::isend::{SendBuf, checked_len};
use super::offer::Offered;
use super::post::{Post, Segments};
use crate::batch::Batch;
use crate::comm::CommKind;
use crate::counts::add;
use crate::dialect::Dialect;
use crate::engine::{Early, Engine};
use crate::error::{Error, OpKind};
use crate::key::{CommKey, ReqKey};
use crate::port::{Outcome, RailPort};
use crate::request::{Kind, NO_WIRE, Request};
use crate::wire::ctrl::ctrl_bytes;

/// What became of a send or receive.
enum Direct {
    /// The port has all of it.
    Sent(ReqKey),
    /// The port has what is before the first of this batch, and this is what it said of that.
    Partly(Batch, Offered),
    /// Nothing happened: it is to go the long way.
    Not,
}

impl<D: Dialect, S: Policy> Engine<D, S> {
    /// [`Engine::isend`] and [`Engine::pump`] in one, and cheaper than the two where the CTRL of the
    /// message is here and nothing waits.
    ///
    /// # Errors
    /// As [`Engine::isend`].
    #[inline]
    pub fn isend_to<P: RailPort>(
        &mut self,
        comm: CommKey,
        buf: SendBuf,
        port: &mut P,
    ) -> Result<Admission, Error> {
        match self.send_at_once(comm, &buf, port) {
            Direct::Sent(key) => Ok(Admission::Admitted(key)),
            Direct::Partly(batch, offered) => {
                self.take_back(batch, offered, port);
                Ok(Admission::Admitted(ReqKey(batch.owner)))
            }
            Direct::Not => self.isend_and_pump(comm, buf, port),
        }
    }

    #[inline(never)]
    fn isend_and_pump<P: RailPort>(
        &mut self,
        comm: CommKey,
        buf: SendBuf,
        port: &mut P,
    ) -> Result<Admission, Error> {
        let admission = self.isend(comm, buf);
        self.pump(port);
        admission
    }

    #[inline(always)]
    fn send_at_once<P: RailPort>(&mut self, comm: CommKey, buf: &SendBuf, port: &mut P) -> Direct {
        let Ok(len) = checked_len(buf.len) else {
            return Direct::Not;
        };
        let (epoch, waits) = (self.epoch, self.has_posts());
        let c = self.comms.get_mut(comm.0);
        let Some(c) = c.filter(|c| c.is_ready(CommKind::Send) && !waits) else {
            return Direct::Not;
        };
        let Some(early) = c.window.next_early() else {
            return self.eager_at_once((comm, len), buf, port);
        };
        let Some(held) = self.early.occupied_at(early) else {
            return Direct::Not;
        };
        let (Some(Early::Ctrl(ctrl)), Some(vacant)) = (held.value(), self.requests.vacant()) else {
            return Direct::Not;
        };
        let Some(refs) = self.region_refs.get_mut(buf.region.0 as usize) else {
            return Direct::Not;
        };
        // Less than 2^26: there are no more requests.
        *refs = refs.wrapping_add(1);
        let key = vacant.key();
        let len = len.min(ctrl.len);
        let plan = self.policy.plan(u64::from(len), self.data_rails);
        let mut batch = Batch::writes(key, &plan, (len, ctrl.no_completion));
        let rails = self.data_rails;
        let lanes = batch.data_lanes(rails);
        let place = (buf.region, buf.addr, len);
        let wire = (ctrl.addr, ctrl.keys);
        let mut request = Request::new(comm.0, Kind::Send, place, wire, epoch);
        request.seq = c.window.start(key.index());
        request.no_imm = ctrl.no_completion;
        let segments = Segments::of(c, &request, batch.left());
        request.bytes = len;
        request.ctrl_seen = true;
        request.needs(batch.left());
        request.flying = lanes;
        request.used = lanes;
        let request = vacant.fill(request);
        held.discard();
        c.flying = c.flying.wrapping_add(u32::from(batch.left()));
        c.moved = true;
        c.writes_out = c.writes_out.wrapping_add(1);
        add(&mut self.counters.sends, 1);
        self.counters.add_segments(batch.left());
        self.epoch = epoch.wrapping_add(1);
        let to = (&c.peer, &request.keys);
        let offered = if batch.is_single() {
            batch.post_single(&segments, to, port)
        } else {
            batch.post_parts(&segments, to, rails, port).1
        };
        match offered {
            Offered::All => Direct::Sent(ReqKey(key)),
            not_all => Direct::Partly(batch, not_all),
        }
    }

    /// As [`Engine::send_at_once`], for a message whose CTRL is not here: one eager operation, if it may be
    /// one. Everything was checked but that.
    fn eager_at_once<P: RailPort>(
        &mut self,
        (comm, len): (CommKey, u32),
        buf: &SendBuf,
        port: &mut P,
    ) -> Direct {
        let epoch = self.epoch;
        let c = self.comms.get_mut(comm.0).filter(|c| c.may_be_eager(len));
        let (Some(c), Some(vacant)) = (c, self.requests.vacant()) else {
            return Direct::Not;
        };
        let Some(refs) = self.region_refs.get_mut(buf.region.0 as usize) else {
            return Direct::Not;
        };
        *refs = refs.wrapping_add(1);
        let key = vacant.key();
        let rail = self.policy.plan_one(u64::from(len), self.data_rails);
        let mut batch = Batch::one(OpKind::Eager, key, rail, len);
        let place = (buf.region, buf.addr, len);
        let mut request = Request::new(comm.0, Kind::EagerSend, place, NO_WIRE, epoch);
        request.seq = c.window.start(key.index());
        request.bytes = len;
        // Its own completion, and the CTRL that comes all the same (trap 3).
        request.needs(2);
        request.flying = batch.data_lanes(self.data_rails);
        request.used = request.flying;
        let request = vacant.fill(request);
        c.flying = c.flying.wrapping_add(1);
        c.moved = true;
        c.eager.add(1);
        add(&mut self.counters.sends, 1);
        self.epoch = epoch.wrapping_add(1);
        let (lane, waiting) = batch.single();
        let post = Post::eager(c, request, (&waiting, lane));
        match port.post(&post) {
            Outcome::Accepted => Direct::Sent(ReqKey(key)),
            outcome => {
                let offered = batch.not_accepted(outcome, &post);
                Direct::Partly(batch, offered)
            }
        }
    }

    /// [`Engine::irecv`] and [`Engine::pump`] in one, and cheaper than the two where nothing waits.
    ///
    /// # Errors
    /// As [`Engine::irecv`].
    #[inline]
    pub fn irecv_to<P: RailPort>(
        &mut self,
        comm: CommKey,
        buf: &RecvBuf,
        port: &mut P,
    ) -> Result<Admission, Error> {
        match self.receive_at_once(comm, buf, port) {
            Direct::Sent(key) => Ok(Admission::Admitted(key)),
            Direct::Partly(batch, offered) => {
                self.take_back(batch, offered, port);
                Ok(Admission::Admitted(ReqKey(batch.owner)))
            }
            Direct::Not => self.irecv_and_pump(comm, buf, port),
        }
    }

    #[inline(never)]
    fn irecv_and_pump<P: RailPort>(
        &mut self,
        comm: CommKey,
        buf: &RecvBuf,
        port: &mut P,
    ) -> Result<Admission, Error> {
        let admission = self.irecv(comm, buf);
        self.pump(port);
        admission
    }

    /// One CTRL, for a receive whose data is not here and which is told of what comes.
    #[inline(always)]
    fn receive_at_once<P: RailPort>(
        &mut self,
        comm: CommKey,
        buf: &RecvBuf,
        port: &mut P,
    ) -> Direct {
        let (Ok(len), Ok(())) = (checked_len(buf.len), self.check_keys(buf)) else {
            return Direct::Not;
        };
        let (epoch, waits) = (self.epoch, self.has_posts() || buf.optional);
        let c = self.comms.get_mut(comm.0);
        let Some(c) = c.filter(|c| c.is_ready(CommKind::Recv) && !waits) else {
            return Direct::Not;
        };
        let (None, Some(vacant)) = (c.window.next_early(), self.requests.vacant()) else {
            return Direct::Not;
        };
        let Some(refs) = self.region_refs.get_mut(buf.region.0 as usize) else {
            return Direct::Not;
        };
        *refs = refs.wrapping_add(1);
        let key = vacant.key();
        let bytes = ctrl_bytes(self.config.data_rails, self.config.key_width);
        let rail = self.policy.plan_one(bytes as u64, self.control_rails);
        let mut batch = Batch::one(OpKind::Ctrl, key, rail, 0);
        let (lane, waiting) = batch.single();
        let place = (buf.region, buf.addr, len);
        let wire = (buf.wire_addr, buf.keys);
        let mut request = Request::new(comm.0, Kind::Recv, place, wire, epoch);
        request.seq = c.window.start(key.index());
        request.needs(CTRL_AND_DATA);
        request.expect_segments(D::encode_imm(1, comm.0.index(), request.seq));
        request.flying = lane.bit();
        request.used = lane.bit();
        let request = vacant.fill(request);
        c.flying = c.flying.wrapping_add(1);
        c.moved = true;
        add(&mut self.counters.recvs, 1);
        add(&mut self.counters.ctrls, 1);
        self.epoch = epoch.wrapping_add(1);
        let post = Post::ctrl(&self.config, c, request, (&waiting, lane));
        match port.post(&post) {
            Outcome::Accepted => Direct::Sent(ReqKey(key)),
            outcome => {
                let offered = batch.not_accepted(outcome, &post);
                Direct::Partly(batch, offered)
            }
        }
    }

    /// The port did not take the rest, `batch`, or is done already with the operation before it.
    #[cold]
    fn take_back<P: RailPort>(&mut self, batch: Batch, offered: Offered, port: &mut P) {
        if let Some(request) = self.requests.get_mut(batch.owner) {
            request.flying &= !batch.lanes(self.data_rails);
            request.queued = batch.left();
            if let Some(c) = self.comms.get_mut(request.comm) {
                let left = u32::from(batch.left());
                c.flying = c.flying.wrapping_sub(left);
                c.queued = c.queued.wrapping_add(left);
            }
        }
        self.ready.push(batch);
        match offered {
            Offered::All => {}
            Offered::Over(token, result) => {
                self.finish_op(token, result);
                self.pump(port);
            }
            Offered::Busy(lane) => {
                self.wait_for(lane, 0);
                self.pump_lanes(Some(lane), port);
            }
        }
    }
}
