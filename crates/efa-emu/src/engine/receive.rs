//! Posting and cancelling receives.

use core::sync::atomic::Ordering;
use std::sync::Arc;

use ofi_sys::consts as c;
use ofi_sys::errno as e;

use super::endpoint::Ep;
use super::locked;
use super::queue::{Completion, failure};
use crate::mem::copy::total;
use crate::mem::events::Happened;
use crate::mem::receives::{self, Posted, Queue};
use crate::mem::regions::{self, Use};
use crate::mem::{hazard, layout::RECEIVES};
use crate::plan::{Code, OpFault, OpKind};

impl Ep {
    /// Posts a receive.
    ///
    /// # Errors
    /// A positive errno; EAGAIN if there are as many as the queue holds.
    pub(crate) fn post_receive(&self, which: Queue, posted: &Posted) -> Result<(), i32> {
        if self.bound().is_none() {
            return Err(e::FI_EOPBADSTATE);
        }
        if which == Queue::Tagged && self.is_direct() {
            return Err(e::FI_ENOSYS);
        }
        let needed = match which {
            Queue::Untagged => c::FI_MSG,
            Queue::Tagged => c::FI_TAGGED,
        };
        if self.limits.caps & needed == 0 {
            return Err(e::FI_EOPNOTSUPP);
        }
        total(&posted.iov).ok_or(e::FI_EMSGSIZE)?;
        self.check_local(posted)?;
        let process = self.domain.process;
        let stats = self.domain.nic.stats(process);
        let _one = locked(&self.receiving);
        // Asked under the lock: who flushes the receives of a broken one takes it too.
        if self.is_broken() {
            return Err(e::FI_EOTHER);
        }
        let full = self.receives.load(Ordering::Relaxed) >= self.limits.rx_size as u64;
        if full {
            stats.again.fetch_add(1, Ordering::Relaxed);
            return Err(e::FI_EAGAIN);
        }
        receives::make_room(self.shared(), which).map_err(|_| e::FI_ENOMEM)?;
        let nic = self.domain.nic;
        let fault = match nic.on_post(process, OpKind::Recv, posted.room())?.fault {
            OpFault::Error { code, .. } => failure(code),
            // Of operations that go out (the plan takes no others).
            _ => None,
        };
        let posted = Posted { fault, ..*posted };
        // Counted first: a message may be there already.
        self.receives.fetch_add(1, Ordering::Relaxed);
        stats.pending.fetch_add(1, Ordering::Relaxed);
        if !self.receive(which, &posted) {
            self.receive_ended();
            stats.again.fetch_add(1, Ordering::Relaxed);
            return Err(e::FI_EAGAIN);
        }
        Ok(())
    }

    /// On efa-direct every piece needs its region (FI_MR_LOCAL), and it must be a good one.
    fn check_local(&self, posted: &Posted) -> Result<(), i32> {
        for ((addr, len), key) in posted.iov.iter().zip(&posted.keys) {
            if *len == 0 {
                continue;
            }
            let Some(key) = *key else {
                if self.is_direct() {
                    return Err(e::FI_EINVAL);
                }
                continue;
            };
            let segment = self.domain.process.segment();
            let wanted = Use {
                addr: *addr,
                len: *len,
                access: c::FI_RECV | c::FI_READ,
                domain: self.domain.number,
                counts: false,
            };
            let _announced = hazard::announce(segment, self.domain.process.user(), key);
            if !regions::allows(segment, u64::from(key), &wanted) {
                return Err(e::FI_EINVAL);
            }
        }
        Ok(())
    }

    /// A receive is over.
    pub(super) fn receive_ended(&self) {
        self.receives.fetch_sub(1, Ordering::Relaxed);
        let stats = self.domain.nic.stats(self.domain.process);
        stats.pending.fetch_sub(1, Ordering::Relaxed);
    }

    /// Cancels the receive of a context. Whether there was one that no message had.
    ///
    /// # Errors
    /// ENOSYS: efa-direct cannot (providers.md 6). EAGAIN: not now, as while the queue is full.
    pub(crate) fn cancel(&self, context: u64) -> Result<bool, i32> {
        if self.is_direct() {
            return Err(e::FI_ENOSYS);
        }
        let bound = self.bound().ok_or(e::FI_EOPBADSTATE)?;
        let shared = self.shared();
        // Nor where it could not be told.
        let place = bound.rx.place().ok_or(e::FI_EAGAIN)?;
        // Somebody is stopped who has the lock.
        let held = shared.lock.acquire(self.domain.process.user());
        let held = held.ok_or(e::FI_EAGAIN)?;
        let fits = |posted: &Posted| posted.context == context;
        let found = [(Queue::Untagged, c::FI_MSG), (Queue::Tagged, c::FI_TAGGED)]
            .into_iter()
            .find_map(|(which, kind)| receives::cancel(shared, which, fits).map(|p| (p, kind)));
        drop(held);
        let Some((posted, kind)) = found else {
            return Ok(false);
        };
        self.receive_ended();
        let happened = Happened {
            flags: c::FI_RECV | kind,
            context: posted.context,
            error: failure(Code {
                err: e::FI_ECANCELED,
                ..Code::FLUSHED
            }),
            ..Happened::default()
        };
        let vector = Some(Arc::clone(&bound.vector));
        place.fill_as_asked(Completion { happened, vector });
        Ok(true)
    }
}

/// Receives in the segment outlast their completions by what senders are doing with them.
const _: () = assert!(RECEIVES >= 2 * 4096);
