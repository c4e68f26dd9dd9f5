//! Taking operations: what is refused at once, what waits, what goes into the line.

use core::sync::atomic::Ordering;

use ofi_sys::consts as c;
use ofi_sys::errno as e;

use super::endpoint::{Bound, Ep};
use super::locked;
use super::op::{Course, Kind, Local, Op, Remote, State};
use crate::mem::copy::{Piece, total};
use crate::plan::{OpKind, Schedule};

/// What a caller asks for.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) kind: Kind,
    pub(crate) context: u64,
    /// Flags of fi_msg(3), fi_rma(3) for this operation.
    pub(crate) flags: u64,
    pub(crate) pieces: &'a [Piece],
    /// Keys of the pieces, where descriptors were given.
    pub(crate) keys: &'a [Option<u32>],
    pub(crate) remote: Remote,
    pub(crate) peer: u64,
    pub(crate) data: Option<u64>,
    pub(crate) tag: Option<u64>,
    /// One of the `fi_inject` family: success is never told.
    pub(crate) silent: bool,
}

/// Flags that make no difference, or are understood.
const KNOWN_FLAGS: u64 = c::FI_MORE
    | c::FI_COMPLETION
    | c::FI_INJECT
    | c::FI_INJECT_COMPLETE
    | c::FI_TRANSMIT_COMPLETE
    | c::FI_DELIVERY_COMPLETE
    | c::FI_REMOTE_CQ_DATA;

impl Ep {
    /// Takes an operation into the line.
    ///
    /// # Errors
    /// A positive errno; EAGAIN if it is to be tried again.
    pub(crate) fn post(&self, request: &Request<'_>) -> Result<(), i32> {
        let bound = self.bound().ok_or(e::FI_EOPBADSTATE)?;
        let mut op = self.prepare(bound, request)?;
        let process = self.domain.process;
        let stats = self.domain.nic.stats(process);
        let mut line = locked(&self.line);
        // Asked under the lock, as in `receive`.
        if self.is_broken() {
            return Err(e::FI_EOTHER);
        }
        if line.len() >= self.limits.tx_size {
            // What waits for its doorbell would wait for ever.
            line.ring();
            drop(line);
            stats.again.fetch_add(1, Ordering::Relaxed);
            return Err(e::FI_EAGAIN);
        }
        let nic = self.domain.nic;
        let schedule = nic.on_post(process, plan_kind(&op), op.len)?;
        op.course = self.course(&schedule);
        let keeps_order = self.limits.ordered && op.kind == Kind::Send;
        line.post(op, if keeps_order { 0 } else { schedule.hold });
        self.pending.store(line.pending(), Ordering::Release);
        stats.pending.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn course(&self, schedule: &Schedule) -> Course {
        let after = |delay| match delay {
            0 => 0,
            delay => self.domain.process.now_ns().saturating_add(delay),
        };
        Course {
            not_before: after(schedule.delay_ns),
            held_until: after(schedule.hold_ns),
            rnr: schedule.rnr,
            late_ns: schedule.late_ns,
            late_remote_ns: schedule.late_remote_ns,
            fault: schedule.fault,
            ..Course::default()
        }
    }

    /// Everything that can be said of an operation at once.
    fn prepare(&self, bound: &Bound, request: &Request<'_>) -> Result<Op, i32> {
        if request.tag.is_some() && self.is_direct() {
            return Err(e::FI_ENOSYS);
        }
        if request.flags & !KNOWN_FLAGS != 0 {
            return Err(e::FI_EBADFLAGS);
        }
        let needed = match (request.kind, request.tag) {
            (Kind::Send, None) => c::FI_MSG,
            (Kind::Send, Some(_)) => c::FI_TAGGED,
            (Kind::Write | Kind::Read, _) => c::FI_RMA,
        };
        if self.limits.caps & needed == 0 {
            return Err(e::FI_EOPNOTSUPP);
        }
        if request.pieces.len() > self.limits.iov[0] {
            return Err(e::FI_EINVAL);
        }
        let len = total(request.pieces).ok_or(e::FI_EMSGSIZE)?;
        let target = bound.vector.target(request.peer).ok_or(e::FI_EINVAL)?;
        let local = self.local(bound, request, len)?;
        let sizes = &bound.setup.sizes;
        let (kind_flags, max) = match (request.kind, request.tag) {
            (Kind::Send, Some(_)) => (c::FI_SEND | c::FI_TAGGED, sizes.max_msg),
            (Kind::Send, None) => (c::FI_SEND | c::FI_MSG, sizes.max_msg),
            (Kind::Write, _) => (c::FI_WRITE | c::FI_RMA, sizes.max_rma),
            (Kind::Read, _) => (c::FI_READ | c::FI_RMA, sizes.max_rma),
        };
        // The device of efa-direct takes it, and completes it with an error (see `exec`).
        let is_told_later = self.is_direct() && request.kind == Kind::Send;
        if len > max as u64 && !is_told_later {
            return Err(e::FI_EMSGSIZE);
        }
        let asked = request.flags & c::FI_COMPLETION != 0;
        Ok(Op {
            kind: request.kind,
            context: request.context,
            flags: kind_flags,
            report: !request.silent && (asked || !bound.selective),
            // EFA carries 4 bytes; what is above them is lost.
            data: request
                .data
                .map(|data| u32::try_from(data & 0xffff_ffff).unwrap_or(0)),
            tag: request.tag,
            local,
            len,
            remote: request.remote,
            target,
            until_delivered: request.flags & c::FI_DELIVERY_COMPLETE != 0,
            more: request.flags & c::FI_MORE != 0,
            course: Course::default(),
            state: State::default(),
        })
    }

    /// The local memory of an operation, by value if it is injected.
    fn local(&self, bound: &Bound, request: &Request<'_>, len: u64) -> Result<Local, i32> {
        if request.flags & c::FI_INJECT != 0 {
            let limit = match request.kind {
                Kind::Send => bound.setup.sizes.inject_msg,
                Kind::Write | Kind::Read => bound.setup.sizes.inject_rma,
            };
            if len > limit as u64 || request.kind == Kind::Read {
                return Err(e::FI_EINVAL);
            }
            return gather(request.pieces, len).map(Local::Inline);
        }
        let mut pieces = [(0, 0); super::op::IOV];
        let mut keys = [None; super::op::IOV];
        for (into, from) in pieces.iter_mut().zip(request.pieces) {
            *into = *from;
        }
        for (into, from) in keys.iter_mut().zip(request.keys) {
            *into = *from;
        }
        let lacks_key = pieces
            .iter()
            .zip(&keys)
            .any(|((_, len), key)| *len > 0 && key.is_none());
        if self.is_direct() && lacks_key {
            // FI_MR_LOCAL (providers.md 6).
            return Err(e::FI_EINVAL);
        }
        Ok(Local::Pieces {
            pieces,
            keys,
            count: request.pieces.len(),
        })
    }
}

/// A copy of an injected message.
///
/// # Errors
/// EFAULT if there is no such memory.
fn gather(pieces: &[Piece], len: u64) -> Result<Box<[u8]>, i32> {
    use crate::mem::copy::{Direction, Side, transfer};
    let mut bytes = vec![0_u8; usize::try_from(len).unwrap_or(0)].into_boxed_slice();
    let into = [(bytes.as_mut_ptr().expose_provenance() as u64, len)];
    // SAFETY: fi_msg(3), fi_rma(3): the caller's buffer may be read during the call; the copy is ours.
    let copied = unsafe { transfer(Side::Own, Direction::Out, (pieces, &into), len) };
    copied.map(|()| bytes).map_err(|_| e::FI_EFAULT)
}

fn plan_kind(op: &Op) -> OpKind {
    match (op.kind, op.data) {
        (Kind::Send, _) => OpKind::Send,
        (Kind::Read, _) => OpKind::Read,
        (Kind::Write, None) => OpKind::Write,
        (Kind::Write, Some(_)) => OpKind::WriteData,
    }
}
