//! An owned `fi_info` that may be changed.

use core::ffi::CStr;
use core::fmt;
use core::ops::Deref;
use core::ptr::NonNull;

use ofi_sys::Library;
use ofi_sys::bindings as b;

use crate::error::{Errno, FabricError};
use crate::flags::{Caps, Mode, MrMode};
use crate::info::Info;

/// An owned copy of one [`Info`], made by [`Info::dup`]; dereferences to it. Changes are for what is
/// opened with it afterwards.
pub struct InfoBuf {
    library: &'static Library,
    raw: NonNull<b::fi_info>,
}

// SAFETY: plain memory of the library that only this object refers to; fi_freeinfo may be called
// from any thread.
unsafe impl Send for InfoBuf {}
// SAFETY: shared references only read it.
unsafe impl Sync for InfoBuf {}

/// Runs a closure on one of the structs that the fi_info points to.
macro_rules! editor {
    ($(#[$doc:meta])* $name:ident, $attr:ident, $kind:ty) => {
        $(#[$doc])*
        pub(crate) fn $name(&mut self, edit: impl FnOnce(&mut $kind)) {
            // SAFETY: the fi_info is alive and ours alone (&mut self).
            let attr = unsafe { self.raw.as_ref() }.$attr;
            // SAFETY: null, or a struct that belongs to the fi_info, which is borrowed mutably; the
            // fields of libfabric 1.17 are there in every version.
            if let Some(attr) = unsafe { attr.as_mut() } {
                edit(attr);
            }
        }
    };
}

impl InfoBuf {
    /// An empty one, for hints (`fi_allocinfo`).
    pub(crate) fn empty(library: &'static Library) -> Result<Self, FabricError> {
        // SAFETY: fi_getinfo(3): fi_dupinfo of null makes an empty fi_info.
        let raw = unsafe { library.dupinfo(core::ptr::null()) };
        Self::own(library, raw)
    }

    /// A copy.
    pub(crate) fn copy_of(info: &Info) -> Result<Self, FabricError> {
        let library = Library::get()
            .ok_or_else(|| FabricError::new("fi_dupinfo", Errno::ENODATA).with("no library"))?;
        // SAFETY: an fi_info of the one library of this process, borrowed.
        let raw = unsafe { library.dupinfo(info.as_raw()) };
        Self::own(library, raw)
    }

    fn own(library: &'static Library, raw: *mut b::fi_info) -> Result<Self, FabricError> {
        let raw = NonNull::new(raw).ok_or_else(|| FabricError::new("fi_dupinfo", Errno::ENOMEM))?;
        Ok(Self { library, raw })
    }

    /// The raw `fi_info`, still owned by this object.
    #[must_use]
    pub const fn as_raw(&self) -> *mut b::fi_info {
        self.raw.as_ptr()
    }

    /// The library that it belongs to.
    #[must_use]
    pub const fn library(&self) -> &'static Library {
        self.library
    }

    editor!(
        /// Changes the endpoint's attributes.
        edit_ep, ep_attr, b::fi_ep_attr
    );
    editor!(
        /// Changes the domain's attributes.
        edit_domain, domain_attr, b::fi_domain_attr
    );
    editor!(
        /// Changes the transmit attributes.
        edit_tx, tx_attr, b::fi_tx_attr
    );
    editor!(
        /// Changes the receive attributes.
        edit_rx, rx_attr, b::fi_rx_attr
    );

    pub(crate) fn set_root(&mut self, caps: Caps, mode: Mode, addr_format: u32) {
        // SAFETY: the fi_info is alive and ours alone (&mut self).
        let info = unsafe { self.raw.as_mut() };
        info.caps = caps.bits();
        info.mode = mode.bits();
        info.addr_format = addr_format;
    }

    /// Sets the provider's name (hints only).
    pub(crate) fn set_provider(&mut self, name: Option<&CStr>) -> Result<(), FabricError> {
        let Some(name) = name else { return Ok(()) };
        // SAFETY: strdup(3) of a NUL-terminated string. The copy must come from malloc, because
        // fi_freeinfo gives it to free.
        let copy = unsafe { libc::strdup(name.as_ptr()) };
        if copy.is_null() {
            return Err(FabricError::new("strdup", Errno::ENOMEM));
        }
        // SAFETY: the fi_info is alive and ours alone (&mut self).
        let attr = unsafe { self.raw.as_ref() }.fabric_attr;
        // SAFETY: belongs to the fi_info, which is borrowed mutably.
        if let Some(attr) = unsafe { attr.as_mut() } {
            attr.prov_name = copy;
        }
        Ok(())
    }

    /// Sets the traffic class of what is sent, FI_TC_* of fi_endpoint(3).
    pub fn set_traffic_class(&mut self, class: u32) {
        self.edit_tx(|tx| tx.tclass = class);
    }

    /// Sets the rules of registration, as a query with these hints would have: for entries of which it is
    /// known that nothing else of them depends on it (those of the IP stack with FI_MR_BASIC, which
    /// libfabric takes over as it is). Others want another query.
    pub fn set_mr_mode(&mut self, mode: MrMode) {
        self.edit_domain(|domain| domain.mr_mode = mode.bits());
    }

    /// Sets how many operations the transmit queue shall hold.
    pub fn set_tx_size(&mut self, operations: usize) {
        self.edit_tx(|tx| tx.size = operations);
    }

    /// Sets how many buffers the receive queue shall hold.
    pub fn set_rx_size(&mut self, buffers: usize) {
        self.edit_rx(|rx| rx.size = buffers);
    }

    /// Sets the default flags of transmit operations, for example FI_TRANSMIT_COMPLETE.
    pub fn set_tx_op_flags(&mut self, flags: u64) {
        self.edit_tx(|tx| tx.op_flags = flags);
    }

    /// Leaves of the capabilities these, for the endpoint, either direction and the domain, and of the rules
    /// of registration none for device memory that is not among them. What is left is what hints that name
    /// them would have brought: for an entry of a query that named none (caps 0), which shows all that a
    /// provider has.
    pub fn retain_caps(&mut self, caps: Caps) {
        let (kept, mode, format) = (self.caps() & caps, self.mode(), self.addr_format());
        let bits = caps.bits();
        self.set_root(kept, mode, format);
        self.edit_tx(|tx| tx.caps &= bits);
        self.edit_rx(|rx| rx.caps &= bits);
        self.edit_domain(|domain| domain.caps &= bits);
        if !kept.contains(Caps::HMEM) {
            self.edit_domain(|domain| domain.mr_mode &= !MrMode::HMEM.bits());
        }
    }
}

impl Deref for InfoBuf {
    type Target = Info;

    fn deref(&self) -> &Info {
        // SAFETY: alive and not changed while `self` is borrowed.
        unsafe { Info::from_raw(self.raw) }
    }
}

impl Drop for InfoBuf {
    fn drop(&mut self) {
        // SAFETY: made by this library, owned by this object alone, freed once.
        unsafe { self.library.freeinfo(self.raw.as_ptr()) }
    }
}

impl fmt::Debug for InfoBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}
