//! Messages that come before their receive (fabric `efa` only: efa-direct has receivers that are not
//! ready): the sender's part, leaving them at the receiver, and the receiver's, delivering them.

use core::sync::atomic::Ordering;
use std::sync::TryLockError;

use ofi_sys::consts as c;
use ofi_sys::errno as e;

use super::endpoint::Ep;
use super::exec::{At, Step, Went};
use super::op::{IOV, Op};
use super::queue::failure;
use crate::mem::copy::{Direction, Side, transfer};
use crate::mem::events::{self, Happened};
use crate::mem::hazard::{self, Announced};
use crate::mem::layout::{BLOCK_BYTES, Block, Segment};
use crate::mem::receives::{self, By, Claim, Posted, Queue};
use crate::mem::regions::{self, Use};
use crate::mem::unexpected::{self, Due, Fate, Sent};
use crate::plan::{Code, OpFault};

/// Where a message is to go.
pub(super) enum Met {
    /// Into this receive.
    Receive(Claim),
    /// It stays at the receiver, with its bytes: the sender's part is done.
    Kept,
}

impl Ep {
    /// Finds the receive of a message, or leaves the message where the receiver finds it later. One
    /// that is announced is moved out of the way of others (see [`Op::is_parked`]).
    pub(super) fn meet(&self, op: &mut Op, at: &At<'_>, now: u64) -> Step<Met> {
        let queue = queue_of(op);
        let user = self.domain.process.user();
        if let Some(ticket) = op.state.ticket {
            match unexpected::fate(at.endpoint, ticket) {
                Fate::Waits => return Err(Went::Waits),
                Fate::Gone => return Err(Went::Failed(Code::BAD_QPN)),
                Fate::Matched => {}
            }
            let _held = self.hold(op, at, now)?;
            op.state.ticket = None;
            op.state.claim = unexpected::take(at.endpoint, ticket);
        }
        if let Some(claim) = op.state.claim {
            return Ok(Met::Receive(claim));
        }
        let tag = op.tag.unwrap_or(0);
        let held = self.hold(op, at, now)?;
        // Whoever claims must be able to tell.
        if !events::of(at.segment, at.endpoint).is_some_and(events::has_room) {
            drop(held);
            return Err(self.not_ready(op, now));
        }
        let may_claim = || !unexpected::is_unsettled(at.endpoint);
        let claim = || receives::claim(at.endpoint, queue, tag, self.claimer());
        let found = may_claim().then(claim).flatten();
        drop(held);
        if let Some(claim) = found {
            op.state.claim = Some(claim);
            return Ok(Met::Receive(claim));
        }
        let block = self.fill_block(op, at)?;
        let held = self.hold(op, at, now).inspect_err(|_| {
            if let Some((_, block)) = block {
                unexpected::release(block);
            }
        })?;
        // A receive may have been posted meanwhile.
        if let Some(claim) = may_claim().then(claim).flatten() {
            drop(held);
            if let Some((_, block)) = block {
                unexpected::release(block);
            }
            op.state.claim = Some(claim);
            return Ok(Met::Receive(claim));
        }
        let added = unexpected::add(at.endpoint, &self.sent(op), block, user);
        drop(held);
        match (added, block) {
            (Some(_), Some(_)) => Ok(Met::Kept),
            (Some(ticket), None) => {
                op.state.ticket = Some(ticket);
                Err(Went::Waits)
            }
            (None, block) => {
                if let Some((_, block)) = block {
                    unexpected::release(block);
                }
                // The receiver keeps no more: what comes waits in its order.
                Err(self.not_ready(op, now))
            }
        }
    }

    /// Copies a message that is short enough into memory of the receiver, if there is any left.
    fn fill_block<'a>(&self, op: &Op, at: &At<'a>) -> Step<Option<(usize, &'a Block)>> {
        // The plan is about what happens when it arrives.
        let is_plain = op.course.late_remote_ns == 0 && op.course.fault != OpFault::DuplicateRemote;
        // Who wants to know that it is delivered keeps it until then.
        if op.len > BLOCK_BYTES as u64 || !is_plain || op.until_delivered {
            return Ok(None);
        }
        let _announced = self.announce_local(op)?;
        let block = unexpected::block(at.segment, self.domain.process.user());
        if let Some((_, block)) = block {
            let area = [(block.bytes.as_ptr().expose_provenance() as u64, op.len)];
            let mut inline = [(0, 0)];
            let local = op.local.pieces(&mut inline);
            // SAFETY: local memory is the operation's own, or the caller's until the completion
            // (fi_msg(3)), of regions announced above where they were named; the block is ours, and
            // at least as long.
            let moved = unsafe { transfer(Side::Own, Direction::Out, (local, &area), op.len) };
            if moved.is_err() {
                unexpected::release(block);
                return Err(Went::Failed(Code::BAD_LKEY));
            }
        }
        Ok(block)
    }

    /// Looks after receives that came back, and delivers what is due. Nothing if another thread is at it.
    pub(super) fn look_after_unexpected(&self) {
        if self.is_broken() || !unexpected::needs_owner(self.shared()) {
            return;
        }
        let _one = match self.receiving.try_lock() {
            Ok(one) => one,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let user = self.domain.process.user();
        let Some(held) = self.shared().lock.acquire(user) else {
            return;
        };
        unexpected::meet_all(self.shared(), user);
        drop(held);
        self.deliver();
    }

    /// Posts a receive, for a message that waits for it or for one to come. Whether there was a place
    /// for it, and nobody was stopped who is in the way. One thread at a time.
    pub(super) fn receive(&self, which: Queue, posted: &Posted) -> bool {
        let shared = self.shared();
        let user = self.domain.process.user();
        let others = self.receives.load(Ordering::Relaxed);
        // No sender comes in between.
        let Some(held) = shared.lock.acquire(user) else {
            return false;
        };
        let place = receives::post(shared, which, posted, others);
        if let Some(place) = place {
            unexpected::meet(shared, which, place, user);
        }
        drop(held);
        if unexpected::needs_owner(shared) {
            self.deliver();
        }
        place.is_some()
    }

    /// Delivers messages that are due, while their ends can be told. One thread at a time.
    fn deliver(&self) {
        let process = self.domain.process;
        let shared = self.shared();
        let Some(events) = events::of(process.segment(), shared) else {
            return;
        };
        while events::has_room(events) {
            let Some(due) = unexpected::first_due(shared) else {
                return;
            };
            let event = self.put(&due);
            let Some(held) = shared.lock.acquire(process.user()) else {
                return;
            };
            let told = events::push(events, process.user(), self.slot(), &event);
            if told {
                unexpected::delivered(process.segment(), shared, &due);
            }
            drop(held);
            if !told {
                return;
            }
        }
    }

    /// Puts the bytes of a message where its receive wants them, and says what came of it.
    fn put(&self, due: &Due) -> Happened {
        let process = self.domain.process;
        let event = arrival(&due.sent, &due.claim);
        let domain = self.domain.number;
        let announced = announce_receive(process.segment(), domain, &due.claim, process.user());
        let no_memory = Happened {
            error: failure(Code::BAD_LKEY),
            len: 0,
            ..event
        };
        if announced.is_none() {
            return no_memory;
        }
        let block = &process.segment().blocks[due.block];
        let area = [(block.bytes.as_ptr().expose_provenance() as u64, event.len)];
        let (from, into) = (&area, &due.claim.posted.iov);
        // SAFETY: the block is as long as any message in it; the receive is claimed, so its memory may be
        // written until its completion (fi_msg(3)), and where regions were named they are announced.
        let moved = unsafe { transfer(Side::Own, Direction::Out, (from, into), event.len) };
        moved.map_or(no_memory, |()| event)
    }

    /// This endpoint, as one that claims receives.
    pub(super) fn claimer(&self) -> By {
        By {
            user: self.domain.process.user(),
            source: self.address().to_source(),
        }
    }

    /// A message, as its receiver sees it.
    pub(super) fn sent(&self, op: &Op) -> Sent {
        Sent {
            queue: queue_of(op),
            tag: op.tag.unwrap_or(0),
            len: op.len,
            data: op.data,
            source: self.address().to_source(),
        }
    }
}

fn queue_of(op: &Op) -> Queue {
    op.tag.map_or(Queue::Untagged, |_| Queue::Tagged)
}

/// What a message does to its receive: the receive is over, with what fits in it.
pub(super) fn arrival(sent: &Sent, claim: &Claim) -> Happened {
    let fits = sent.len.min(claim.posted.room());
    let excess = sent.len - fits;
    let truncated = Code {
        err: e::FI_ETRUNC,
        ..Code::BAD_LENGTH
    };
    let error = (excess > 0).then(|| failure(truncated)).flatten();
    let kind = match sent.queue {
        Queue::Untagged => c::FI_MSG,
        Queue::Tagged => c::FI_TAGGED,
    };
    let data = sent.data.map_or(0, |_| c::FI_REMOTE_CQ_DATA);
    Happened {
        flags: c::FI_RECV | kind | data,
        context: claim.posted.context,
        buf: claim.posted.iov[0].0,
        len: fits,
        data: u64::from(sent.data.unwrap_or(0)),
        tag: sent.tag,
        source: sent.source,
        error: claim.posted.fault.or(error),
        excess,
        late_ns: 0,
        ends_receive: true,
        is_repeat: false,
    }
}

/// Announces the regions of a claimed receive of a domain. `None` if one is not good any more.
pub(super) fn announce_receive<'a>(
    segment: &'a Segment,
    domain: u32,
    claim: &Claim,
    pid: u32,
) -> Option<[Option<Announced<'a>>; IOV]> {
    let mut announced = [const { None }; IOV];
    let pieces = claim.posted.iov.iter().zip(&claim.posted.keys);
    for (slot, ((addr, len), key)) in announced.iter_mut().zip(pieces) {
        let Some(key) = key.filter(|_| *len > 0) else {
            continue;
        };
        let wanted = Use {
            addr: *addr,
            len: *len,
            access: c::FI_RECV | c::FI_READ,
            domain,
            counts: false,
        };
        *slot = Some(hazard::announce(segment, pid, key)?);
        if !regions::allows(segment, u64::from(key), &wanted) {
            return None;
        }
    }
    Some(announced)
}
