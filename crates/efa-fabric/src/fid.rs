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

    /// Closes it; after an error it is still open. Nothing may use it after success.
    pub(crate) fn close(&mut self) -> Result<(), FabricError> {
        if !self.owned {
            return Ok(());
        }
        // SAFETY: open, and closed by nobody else.
        let code = unsafe { ops::fi_close(self.as_fid()) };
        check("fi_close", code)?;
        self.owned = false;
        Ok(())
    }

    /// Whether dropping it would close it.
    pub(crate) const fn is_owned(&self) -> bool {
        self.owned
    }

    /// Leaves it open for ever.
    pub(crate) fn abandon(&mut self) {
        self.owned = false;
        count_leak();
    }
}

impl<T> Drop for Fid<T> {
    fn drop(&mut self) {
        if self.close().is_err() {
            count_leak();
        }
    }
}

/// Closes an object that handles share: `fid` finds its fid. Gives the handle back, with the object
/// still open, if it is not the last one or the provider refuses.
pub(crate) fn close_shared<T, F>(
    shared: Arc<T>,
    fid: impl FnOnce(&mut T) -> &mut Fid<F>,
) -> Result<(), CloseFailed<Arc<T>>> {
    let mut object = Arc::try_unwrap(shared).map_err(|object| {
        let others = Arc::strong_count(&object).saturating_sub(1);
        let values = format_args!("an object with {others} users").to_string();
        let error = FabricError::new("fi_close", Errno::EBUSY).with(values);
        CloseFailed { error, object }
    })?;
    fid(&mut object).close().map_err(|error| CloseFailed {
        error,
        object: Arc::new(object),
    })
}

impl<T> CloseFailed<T> {
    /// The same failure of the type that wraps the object.
    pub(crate) fn wrapped<U>(self, wrap: impl FnOnce(T) -> U) -> CloseFailed<U> {
        CloseFailed {
            error: self.error,
            object: wrap(self.object),
        }
    }
}
