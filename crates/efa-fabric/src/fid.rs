//! One open libfabric object, closed exactly once.
//!
//! # Teardown
//!
//! Objects close in the order in which they depend on each other, whatever the order in which they
//! are dropped: an endpoint holds its queues, its address vector and its domain; those hold the
//! domain, and the domain its fabric. `close()` of an object reports what the provider says and gives
//! the object back when it refuses. `Drop` cannot report, so a refusal there is counted
//! ([`leak_count`]) and the object stays open: never a panic, in a process that is not ours.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use ofi_sys::bindings::fid;
use ofi_sys::ops;

use crate::error::{CloseFailed, Errno, FabricError, check};

static LEAKS: AtomicU64 = AtomicU64::new(0);

/// How many objects of this process could not be closed when they were dropped. Each was left open
/// with its memory. 0 in a healthy process.
#[must_use]
pub fn leak_count() -> u64 {
    LEAKS.load(Ordering::Relaxed)
}

/// Counts something that had to be left behind.
pub(crate) fn count_leak() {
    LEAKS.fetch_add(1, Ordering::Relaxed);
}

/// A fid of class `T`, closed when dropped.
#[derive(Debug)]
pub(crate) struct Fid<T> {
    raw: NonNull<T>,
    owned: bool,
}

// SAFETY: fi_domain(3): with FI_THREAD_SAFE any thread may call anything at any time. Domains are
// opened with it, or with a weaker model under the promise of `Domain::open_weakly_threaded`.
unsafe impl<T> Send for Fid<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Fid<T> {}

impl<T> Fid<T> {
    /// Takes over what an open call wrote.
    ///
    /// # Safety
    ///
    /// `raw` is null or an open object whose first member is a `struct fid` (fabric.h: all of them),
    /// and nobody else closes it if `owned`.
    pub(crate) unsafe fn new(
        op: &'static str,
        raw: *mut T,
        owned: bool,
    ) -> Result<Self, FabricError> {
        let raw = NonNull::new(raw)
            .ok_or_else(|| FabricError::new(op, Errno::EINVAL).with("a null object"))?;
        Ok(Self { raw, owned })
    }

    #[inline]
    pub(crate) const fn as_ptr(&self) -> *mut T {
        self.raw.as_ptr()
    }

    #[inline]
    pub(crate) const fn as_fid(&self) -> *mut fid {
        self.raw.as_ptr().cast()
    }

    /// Closes it, or gives it back still open.
    pub(crate) fn close(mut self) -> Result<(), CloseFailed<Self>> {
        if !core::mem::replace(&mut self.owned, false) {
            return Ok(());
        }
        // SAFETY: open, and closed by nobody else.
        let code = unsafe { ops::fi_close(self.as_fid()) };
        check("fi_close", code).map_err(|error| {
            self.owned = true;
            CloseFailed {
                error,
                object: self,
            }
        })
    }
}

impl<T> Drop for Fid<T> {
    fn drop(&mut self) {
        if !self.owned {
            return;
        }
        // SAFETY: open, and closed by nobody else.
        let code = unsafe { ops::fi_close(self.as_fid()) };
        if code != 0 {
            count_leak();
        }
    }
}

/// Takes a shared object apart for closing; refused while others use it.
pub(crate) fn sole_owner<T>(op: &'static str, shared: Arc<T>) -> Result<T, CloseFailed<Arc<T>>> {
    Arc::try_unwrap(shared).map_err(|object| {
        let others = Arc::strong_count(&object).saturating_sub(1);
        let error =
            FabricError::new(op, Errno::EBUSY).with(format_args!("an object with {others} users"));
        CloseFailed { error, object }
    })
}
