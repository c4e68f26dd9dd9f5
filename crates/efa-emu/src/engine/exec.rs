//! What an operation does: moves its bytes, tells the target, and says what came of it.
//!
//! The initiator does all of it, with the target's segment for what the target's device would know:
//! its queue pairs, keys, posted receives and addresses.

use core::sync::atomic::Ordering;
use std::sync::Arc;

use ofi_sys::consts as c;

use super::address::SIGNIFICANT;
use super::endpoint::{Ep, RNR_FOR_EVER};
use super::op::{Kind, Local, Op, Stage};
use super::peer::{Copied, Peer};
use super::queue::failure;
use super::unexpected::{Met, announce_receive, arrival};
use crate::mem::copy::{Direction, Piece};
use crate::mem::events::{self, Happened};
use crate::mem::hazard::{self, Announced};
use crate::mem::layout::{Endpoint, Segment, flags};
use crate::mem::lock::Held;
use crate::mem::receives::{self, Claim, Queue};
use crate::mem::regions::{self, Use};
use crate::mem::{known, relay};
use crate::plan::{Code, OpFault};

/// Between two attempts to find the receiver ready.
const RNR_INTERVAL_NS: u64 = 20_000;

/// Between two attempts at an endpoint whose lock a process holds that is stopped.
const STOPPED_INTERVAL_NS: u64 = 1_000_000;

/// What came of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Went {
    Done,
    Failed(Code),
    /// Not now.
    Waits,
    /// It vanishes, and nobody is told.
    Lost,
}

/// Leaves with what is not done.
pub(super) type Step<T> = Result<T, Went>;

/// The target of an operation, found to be there.
pub(super) struct At<'a> {
    peer: &'a Peer,
    pub(super) segment: &'a Segment,
    pub(super) endpoint: &'a Endpoint,
    /// Index of the endpoint.
    slot: usize,
}

impl At<'_> {
    /// Counts a write or a read at its target, whose program learns nothing of it.
    fn count(&self, op: &Op) {
        let nic = usize::from(op.target.address.nic);
        let Some(traffic) = self.segment.traffic.get(nic) else {
            return;
        };
        let bytes = match op.kind {
            Kind::Read => &traffic.read,
            Kind::Send | Kind::Write => &traffic.written,
        };
        bytes.fetch_add(op.len, Ordering::Relaxed);
    }
}

impl Ep {
    /// Takes an operation as far as it goes now.
    pub(super) fn execute(&self, op: &mut Op, now: u64) -> Went {
        match op.course.fault {
            OpFault::Lost => return Went::Lost,
            OpFault::Error {
                code,
                executed: false,
            } => return Went::Failed(code),
            _ => {}
        }
        let went = match self.steps(op, now) {
            Ok(()) => Went::Done,
            Err(went) => went,
        };
        match (went, op.course.fault) {
            (Went::Done, OpFault::Error { code, .. }) => Went::Failed(code),
            _ => went,
        }
    }

    fn steps(&self, op: &mut Op, now: u64) -> Step<()> {
        let peer = self.living(op, now)?;
        let at = self.find(op, &peer)?;
        if op.state.stage == Stage::Bytes {
            self.pretend_not_ready(op, now)?;
            match op.kind {
                Kind::Send => self.send(op, &at, now)?,
                Kind::Write | Kind::Read => self.remote_access(op, &at, now)?,
            }
            op.state.stage = Stage::Tell;
        }
        if op.state.stage == Stage::Tell {
            self.tell(op, &at, now)?;
            op.state.stage = Stage::Complete;
        }
        Ok(())
    }

    /// The peer, if it answers.
    fn living(&self, op: &mut Op, now: u64) -> Step<Arc<Peer>> {
        let process = self.domain.process;
        let peer = op.target.peer.clone();
        if let Some(peer) = peer {
            let silent = peer.is_silent(process, op.target.address.nic);
            if !silent && !peer.is_dead(now) {
                return Ok(peer);
            }
        }
        // It takes a device some time to be sure.
        let since = *op.state.dead_since.get_or_insert(now);
        let patience = process.config().dead_after.as_nanos();
        if u128::from(now - since) >= patience {
            return Err(Went::Failed(Code::UNRESPONSIVE));
        }
        Err(Went::Waits)
    }

    /// The target's queue pair, if it is there and knows us.
    fn find<'a>(&self, op: &Op, peer: &'a Peer) -> Step<At<'a>>
    where
        Self: 'a,
    {
        let process = self.domain.process;
        let segment = peer.segment(process);
        let address = op.target.address;
        let slot = usize::from(address.qpn);
        let endpoint = segment.endpoints.get(slot);
        let endpoint = endpoint.ok_or(Went::Failed(Code::BAD_QPN))?;
        let is_there = endpoint.enabled.load(Ordering::Acquire) == 1
            && endpoint.qkey.load(Ordering::Relaxed) == address.qkey
            && endpoint.nic.load(Ordering::Relaxed) == u32::from(address.nic);
        let is_direct = endpoint.flags.load(Ordering::Relaxed) & flags::DIRECT != 0;
        // The two fabrics do not speak the same language (providers.md 6).
        if !is_there || is_direct != self.is_direct() {
            return Err(Went::Failed(Code::BAD_QPN));
        }
        let own = self.address().to_bytes();
        let vector = endpoint.vector.load(Ordering::Relaxed);
        // Messages come from strangers too; access to memory is for those who were introduced.
        let is_access = op.kind != Kind::Send;
        if is_direct && is_access && !known::has(segment, vector, &own[..SIGNIFICANT]) {
            return Err(Went::Failed(Code::UNKNOWN_PEER));
        }
        Ok(At {
            peer,
            segment,
            endpoint,
            slot,
        })
    }

    fn pretend_not_ready(&self, op: &mut Op, now: u64) -> Step<()> {
        if op.course.rnr == 0 || op.kind != Kind::Send {
            return Ok(());
        }
        if op.course.rnr == u32::MAX {
            return Err(Went::Failed(Code::RECEIVER_NOT_READY));
        }
        op.course.rnr -= 1;
        Err(self.not_ready(op, now))
    }

    /// The receiver is not ready: again later, or never if the endpoint has an end of patience.
    pub(super) fn not_ready(&self, op: &mut Op, now: u64) -> Went {
        let stats = self.domain.nic.stats(self.domain.process);
        stats.rnr.fetch_add(1, Ordering::Relaxed);
        // The software of `efa` queues what the device gives up, and has it try again for ever.
        let device = self.bound().filter(|_| self.is_direct());
        let retries = device.map_or(RNR_FOR_EVER, |bound| bound.setup.rnr_retry);
        op.state.refusals = op.state.refusals.saturating_add(1);
        if retries < RNR_FOR_EVER && op.state.refusals as usize > retries {
            return Went::Failed(Code::RECEIVER_NOT_READY);
        }
        op.course.not_before = now.saturating_add(RNR_INTERVAL_NS);
        Went::Waits
    }

    /// The bytes of a message.
    fn send(&self, op: &mut Op, at: &At<'_>, now: u64) -> Step<()> {
        // One that closes meanwhile has no limit any more: what it has left is flushed.
        let limit = self.bound().map(|bound| bound.setup.sizes.max_msg as u64);
        if limit.is_some_and(|limit| op.len > limit) {
            return Err(Went::Failed(Code::BAD_LENGTH));
        }
        let claim = if self.is_direct() {
            self.claim(op, at, now)?
        } else {
            match self.meet(op, at, now)? {
                Met::Receive(claim) => claim,
                Met::Kept => return Ok(()),
            }
        };
        let fits = op.len.min(claim.posted.room());
        let user = self.domain.process.user();
        let domain = at.endpoint.domain.load(Ordering::Relaxed);
        let Some(_remote) = announce_receive(at.segment, domain, &claim, user) else {
            return Err(self.receiver_failed(op, at, (&claim, now), Code::BAD_LKEY));
        };
        let right = relay::Right::Receive(at.slot, claim.queue, claim.place);
        let copied = self.copy(op, at, (&claim.posted.iov, right), fits)?;
        match copied {
            Copied::Done => Ok(()),
            Copied::Wait => Err(Went::Waits),
            Copied::Dead => Err(Went::Waits),
            Copied::Refused => Err(self.receiver_failed(op, at, (&claim, now), Code::BAD_LKEY)),
        }
    }

    /// Claims an untagged receive, or keeps the one that the operation has.
    fn claim(&self, op: &mut Op, at: &At<'_>, now: u64) -> Step<Claim> {
        if let Some(claim) = op.state.claim {
            return Ok(claim);
        }
        let held = self.hold(op, at, now)?;
        // Whoever claims must be able to tell.
        let can_tell = events::of(at.segment, at.endpoint).is_some_and(events::has_room);
        let claim = can_tell
            .then(|| receives::claim(at.endpoint, Queue::Untagged, 0, self.claimer()))
            .flatten();
        drop(held);
        match claim {
            Some(claim) => {
                op.state.claim = Some(claim);
                Ok(claim)
            }
            None => Err(self.not_ready(op, now)),
        }
    }

    /// Locks the target's endpoint. Later, if who has it is stopped.
    pub(super) fn hold<'a>(&self, op: &mut Op, at: &At<'a>, now: u64) -> Step<Held<'a>> {
        let held = at.endpoint.lock.acquire(self.domain.process.user());
        held.ok_or_else(|| {
            op.course.not_before = now.saturating_add(STOPPED_INTERVAL_NS);
            Went::Waits
        })
    }

    /// The receive cannot take the bytes: its owner is told, and so are we.
    fn receiver_failed(
        &self,
        op: &mut Op,
        at: &At<'_>,
        (claim, now): (&Claim, u64),
        code: Code,
    ) -> Went {
        let event = Happened {
            error: failure(code),
            len: 0,
            excess: 0,
            late_ns: op.course.late_remote_ns,
            ..arrival(&self.sent(op), claim)
        };
        match self.push(op, at, now, &event) {
            Ok(true) => {}
            // It cannot be told now: the same again, later.
            Ok(false) => return self.not_ready(op, now),
            Err(went) => return went,
        }
        receives::finish(at.endpoint, claim);
        op.state.claim = None;
        Went::Failed(Code::ABORTED)
    }

    /// The bytes of a write or a read.
    fn remote_access(&self, op: &mut Op, at: &At<'_>, now: u64) -> Step<()> {
        if self.consumes_receive(op, at) {
            self.claim(op, at, now)?;
        }
        let short = u32::try_from(op.remote.key);
        let short = short.map_err(|_| Went::Failed(Code::BAD_RKEY))?;
        let announced = hazard::announce(at.segment, self.domain.process.user(), short);
        let Some(_announced) = announced else {
            return Err(Went::Waits);
        };
        if !op.state.has_used_key {
            // What fails here never gets to the peer, so it uses nothing there.
            drop(self.announce_local(op)?);
        }
        let addr = regions::reached(at.segment, op.remote.key, op.remote.addr);
        let wanted = Use {
            addr,
            len: op.len,
            access: match op.kind {
                Kind::Read => c::FI_REMOTE_READ,
                Kind::Write | Kind::Send => c::FI_REMOTE_WRITE,
            },
            domain: at.endpoint.domain.load(Ordering::Relaxed),
            counts: !op.state.has_used_key,
        };
        if !regions::allows(at.segment, op.remote.key, &wanted) {
            return Err(Went::Failed(Code::BAD_RKEY));
        }
        op.state.has_used_key = true;
        let remote = [(addr, op.len)];
        let right = relay::Right::Key(op.remote.key);
        match self.copy(op, at, (&remote, right), op.len)? {
            Copied::Done => {
                at.count(op);
                Ok(())
            }
            Copied::Wait | Copied::Dead => Err(Went::Waits),
            Copied::Refused => Err(Went::Failed(Code::BAD_RKEY)),
        }
    }

    /// Whether a write with immediate needs a posted receive (providers.md 6).
    fn consumes_receive(&self, op: &Op, at: &At<'_>) -> bool {
        let unsolicited = at.endpoint.flags.load(Ordering::Relaxed) & flags::UNSOLICITED != 0;
        op.kind == Kind::Write && op.data.is_some() && self.is_direct() && !unsolicited
    }

    /// Moves the bytes, local memory checked.
    fn copy(
        &self,
        op: &mut Op,
        at: &At<'_>,
        (remote, right): (&[Piece], relay::Right),
        len: u64,
    ) -> Step<Copied> {
        let process = self.domain.process;
        let _announced = self.announce_local(op)?;
        if len == 0 {
            return Ok(Copied::Done);
        }
        let mut inline = [(0, 0)];
        let local = op.local.pieces(&mut inline);
        let direction = match op.kind {
            Kind::Read => Direction::In,
            Kind::Write | Kind::Send => Direction::Out,
        };
        let copy = relay::Copy {
            direction,
            local,
            remote,
            len,
            right,
        };
        // SAFETY: local memory is the operation's own, or the caller's until the completion
        // (fi_msg(3), fi_rma(3)), of regions announced above where they were named. Remote memory is
        // of a region that is announced and good, or of a receive that is claimed.
        Ok(unsafe { at.peer.copy(process, &mut op.state.under, &copy) })
    }

    /// Announces the regions of local memory, which must be good ones of this domain.
    pub(super) fn announce_local(
        &self,
        op: &Op,
    ) -> Step<[Option<Announced<'static>>; super::op::IOV]> {
        let mut announced = [const { None }; super::op::IOV];
        let Local::Pieces { pieces, keys, .. } = &op.local else {
            return Ok(announced);
        };
        let process = self.domain.process;
        let access = match op.kind {
            Kind::Read => c::FI_READ | c::FI_RECV,
            Kind::Write | Kind::Send => u64::MAX,
        };
        for (slot, ((addr, len), key)) in announced.iter_mut().zip(pieces.iter().zip(keys)) {
            let Some(key) = key.filter(|_| *len > 0) else {
                continue;
            };
            let wanted = Use {
                addr: *addr,
                len: *len,
                access,
                domain: self.domain.number,
                counts: false,
            };
            let guard = hazard::announce(process.segment(), process.user(), key);
            *slot = Some(guard.ok_or(Went::Waits)?);
            if !regions::allows(process.segment(), u64::from(key), &wanted) {
                return Err(Went::Failed(Code::BAD_LKEY));
            }
        }
        Ok(announced)
    }

    /// Tells the target, where there is something to tell.
    fn tell(&self, op: &mut Op, at: &At<'_>, now: u64) -> Step<()> {
        let event = match (op.kind, op.data, op.state.claim) {
            (Kind::Send, _, Some(claim)) => arrival(&self.sent(op), &claim),
            (Kind::Write, Some(data), claim) => Happened {
                flags: c::FI_RMA | c::FI_REMOTE_WRITE | c::FI_REMOTE_CQ_DATA,
                context: claim.map_or(0, |claim| claim.posted.context),
                len: op.len,
                data: u64::from(data),
                source: self.address().to_source(),
                ends_receive: claim.is_some(),
                ..Happened::default()
            },
            _ => return Ok(()),
        };
        // It shows late; the own completion says nothing about that.
        let event = Happened {
            late_ns: op.course.late_remote_ns,
            ..event
        };
        if !self.push(op, at, now, &event)? {
            // The target's queue is full: a device would lose the completion, and with it the queue.
            let stats = self.domain.nic.stats(self.domain.process);
            stats.overruns.fetch_add(1, Ordering::Relaxed);
            op.course.not_before = now.saturating_add(RNR_INTERVAL_NS);
            return Err(Went::Waits);
        }
        if op.course.fault == OpFault::DuplicateRemote
            && self.push(op, at, now, &event.again()) == Ok(true)
        {
            let stats = self.domain.nic.stats(self.domain.process);
            stats.duplicates.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(claim) = op.state.claim.take() {
            receives::finish(at.endpoint, &claim);
        }
        // On efa-direct the device of the receiver refuses what does not fit.
        if event.excess > 0 && self.is_direct() {
            return Err(Went::Failed(Code::BAD_LENGTH));
        }
        Ok(())
    }

    /// Whether there was room for it.
    fn push(&self, op: &mut Op, at: &At<'_>, now: u64, event: &Happened) -> Step<bool> {
        let _held = self.hold(op, at, now)?;
        // It takes all its events with it when it closes, and lets in no more.
        if at.endpoint.enabled.load(Ordering::Acquire) != 1 {
            return Err(Went::Failed(Code::BAD_QPN));
        }
        let events = events::of(at.segment, at.endpoint);
        let user = self.domain.process.user();
        Ok(events.is_some_and(|events| events::push(events, user, at.slot, event)))
    }
}
