//! The fabric: root of all other objects.

use core::ptr;
use std::sync::Arc;

use ofi_sys::bindings::fid_fabric;

use crate::error::{CloseFailed, FabricError, check};
use crate::fid::{Fid, close_shared};
use crate::info::{Info, InfoBuf};

#[derive(Debug)]
struct Inner {
    fid: Fid<fid_fabric>,
    info: InfoBuf,
}

/// An open fabric, fi_fabric(3). Clones share it.
#[derive(Clone, Debug)]
pub struct Fabric(Arc<Inner>);

impl Fabric {
    /// Opens the fabric that an entry belongs to.
    ///
    /// # Errors
    ///
    /// What the provider says.
    pub fn open(info: &Info) -> Result<Self, FabricError> {
        let info = info.dup()?;
        let mut raw: *mut fid_fabric = ptr::null_mut();
        // SAFETY: the fabric_attr of an fi_info of this library, alive and ours; `raw` takes the
        // fabric.
        let code = unsafe { info.library().fabric(info.raw().fabric_attr, &raw mut raw) };
        check("fi_fabric", code).map_err(|error| error.with(info.fabric_name()))?;
        // SAFETY: fi_fabric(3): opened, and ours to close.
        let fid = unsafe { Fid::new("fi_fabric", raw, true) }?;
        Ok(Self(Arc::new(Inner { fid, info })))
    }

    /// The entry it was opened with.
    #[must_use]
    pub fn info(&self) -> &Info {
        &self.0.info
    }

    /// The raw object, still owned by this one: do not close it.
    #[must_use]
    pub fn as_raw(&self) -> *mut fid_fabric {
        self.0.fid.as_ptr()
    }

    /// Closes it now.
    ///
    /// # Errors
    ///
    /// Gives it back, still open, if clones or domains use it (FI_EBUSY) or the provider refuses.
    pub fn close(self) -> Result<(), CloseFailed<Self>> {
        close_shared(self.0, |inner| &mut inner.fid).map_err(|failed| failed.wrapped(Self))
    }
}
