//! The domain: one device, opened. Memory is registered with it; queues and endpoints belong to it.

use core::ptr;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ofi_sys::bindings::fid_domain;
use ofi_sys::ops;

use crate::error::{CloseFailed, Errno, FabricError, check};
use crate::fabric::Fabric;
use crate::fid::{Fid, close_shared};
use crate::flags::Mode;
use crate::info::{Info, InfoBuf, Threading};

/// Modes that this crate satisfies.
const MODES: Mode = Mode::CONTEXT.union(Mode::CONTEXT2).union(Mode::RX_CQ_DATA);

// Fields drop in this order: the domain closes before its fabric and before the memory it keeps.
#[derive(Debug)]
struct Inner {
    fid: Fid<fid_domain>,
    kept: Mutex<Vec<Arc<[AtomicU8]>>>,
    info: InfoBuf,
    fabric: Option<Fabric>,
    next_key: AtomicU64,
}

/// An open domain, fi_domain(3). Clones share it; queues, endpoints and regions keep it open.
#[derive(Clone, Debug)]
pub struct Domain(Arc<Inner>);

impl Domain {
    /// Opens the device of an entry.
    ///
    /// # Errors
    ///
    /// FI_EINVAL if the entry's threading model is weaker than [`Threading::Safe`] or it demands a
    /// mode that this crate cannot satisfy (prefixes); else what the provider says.
    pub fn open(fabric: &Fabric, info: &Info) -> Result<Self, FabricError> {
        if info.threading() != Threading::Safe {
            return Err(
                FabricError::new("fi_domain", Errno::EINVAL).with(format_args!(
                    "threading model {:?}: shared use needs FI_THREAD_SAFE",
                    info.threading()
                )),
            );
        }
        Self::open_any(fabric, info)
    }

    /// Opens the device of an entry with any threading model.
    ///
    /// # Safety
    ///
    /// All calls on the domain and on everything opened from it, drops included, keep to the
    /// entry's threading model, although the types are `Sync` and would allow more.
    ///
    /// # Errors
    ///
    /// As [`Self::open`], but for the threading model.
    pub unsafe fn open_weakly_threaded(fabric: &Fabric, info: &Info) -> Result<Self, FabricError> {
        Self::open_any(fabric, info)
    }

    fn open_any(fabric: &Fabric, info: &Info) -> Result<Self, FabricError> {
        let unmet = info.mode().difference(MODES);
        if unmet.intersects(Mode::MSG_PREFIX) {
            return Err(FabricError::new("fi_domain", Errno::EINVAL)
                .with(format_args!("mode {unmet:?}, which is not supported")));
        }
        let info = info.dup()?;
        let mut raw: *mut fid_domain = ptr::null_mut();
        // SAFETY: fi_domain(3): an open fabric, an fi_info of this library that is ours, and `raw`
        // takes the domain.
        let code = unsafe {
            ops::fi_domain(
                fabric.as_raw(),
                info.as_raw(),
                &raw mut raw,
                ptr::null_mut(),
            )
        };
        check("fi_domain", code).map_err(|error| error.with(info.domain_name()))?;
        // SAFETY: fi_domain(3): opened, and ours to close.
        let fid = unsafe { Fid::new("fi_domain", raw, true) }?;
        Ok(Self::assemble(fid, info, Some(fabric.clone())))
    }

    /// Wraps a domain that somebody else opened and will close.
    ///
    /// # Safety
    ///
    /// `raw` is an open domain of the library that this process loaded, opened with `info`, and
    /// stays open until this object and all that is opened from it are gone; endpoints that
    /// others opened in it are closed before. Calls keep to its
    /// threading model, as in [`Self::open_weakly_threaded`].
    ///
    /// # Errors
    ///
    /// FI_EINVAL for null, FI_ENOMEM.
    pub unsafe fn from_raw(raw: *mut fid_domain, info: &Info) -> Result<Self, FabricError> {
        // SAFETY: the caller's promise; not owned, so it is not closed here.
        let fid = unsafe { Fid::new("Domain::from_raw", raw, false) }?;
        Ok(Self::assemble(fid, info.dup()?, None))
    }

    fn assemble(fid: Fid<fid_domain>, info: InfoBuf, fabric: Option<Fabric>) -> Self {
        let (kept, next_key) = (Mutex::default(), AtomicU64::new(1));
        Self(Arc::new(Inner {
            fid,
            kept,
            info,
            fabric,
            next_key,
        }))
    }

    /// The entry it was opened with.
    #[must_use]
    pub fn info(&self) -> &Info {
        &self.0.info
    }

    /// The fabric it belongs to; `None` for a domain that somebody else opened.
    #[must_use]
    pub fn fabric(&self) -> Option<&Fabric> {
        self.0.fabric.as_ref()
    }

    /// Whether both are the same open domain.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.as_raw() == other.as_raw()
    }

    /// A key not given out before by this method, for providers that do not choose keys themselves:
    /// 1, 2, 3 and so on. Keys chosen elsewhere may collide with it.
    #[must_use]
    pub fn fresh_key(&self) -> u64 {
        self.0.next_key.fetch_add(1, Ordering::Relaxed)
    }

    /// Keeps memory that peers may access until the domain is closed, and with it all endpoints.
    pub(crate) fn keep(&self, memory: Arc<[AtomicU8]>) {
        self.0
            .kept
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(memory);
    }

    /// The raw object, still owned by this one: do not close it.
    #[must_use]
    pub fn as_raw(&self) -> *mut fid_domain {
        self.0.fid.as_ptr()
    }

    /// Closes it now.
    ///
    /// # Errors
    ///
    /// Gives it back, still open, if clones, queues, endpoints or regions use it (FI_EBUSY) or the
    /// provider refuses.
    pub fn close(self) -> Result<(), CloseFailed<Self>> {
        close_shared(self.0, |inner| &mut inner.fid).map_err(|failed| failed.wrapped(Self))
    }
}
