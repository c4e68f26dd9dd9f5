//! Hints, read from C once, so that everything behind is safe.

use core::ffi::{CStr, c_char};
use std::ffi::CString;

use ofi_sys::bindings as b;

use crate::engine::address::LEN;

/// What somebody looks for. All zero: anything.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) caps: u64,
    pub(crate) mode: u64,
    pub(crate) addr_format: u32,
    pub(crate) source: Option<[u8; LEN]>,
    pub(crate) destination: Option<[u8; LEN]>,
    pub(crate) fabric: Option<CString>,
    pub(crate) domain: Option<CString>,
    pub(crate) tx: Option<b::fi_tx_attr>,
    pub(crate) rx: Option<b::fi_rx_attr>,
    pub(crate) ep: Option<b::fi_ep_attr>,
    pub(crate) domain_attr: Option<b::fi_domain_attr>,
}

/// # Safety
/// The address is that many bytes, or NULL.
unsafe fn address(bytes: *const core::ffi::c_void, len: usize) -> Option<[u8; LEN]> {
    if bytes.is_null() || len < LEN {
        return None;
    }
    // SAFETY: the caller's promise; any alignment.
    Some(unsafe { bytes.cast::<[u8; LEN]>().read_unaligned() })
}

/// # Safety
/// The text ends, or is NULL.
unsafe fn text(text: *const c_char) -> Option<CString> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    Some(unsafe { CStr::from_ptr(text) }.to_owned())
}

/// # Safety
/// The struct is readable, or NULL.
unsafe fn copied<T: Copy>(attr: *const T) -> Option<T> {
    if attr.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    Some(unsafe { attr.read() })
}

impl Wanted {
    /// Reads hints of fi_getinfo(3). `None`: there are none.
    ///
    /// # Safety
    /// NULL, or an `fi_info` with all that hangs off it (fi_getinfo(3)).
    pub(crate) unsafe fn read(hints: *const b::fi_info) -> Option<Self> {
        // SAFETY: the caller's promise.
        let info = unsafe { copied(hints) }?;
        // SAFETY: as above.
        let fabric = unsafe { copied(info.fabric_attr) };
        // SAFETY: as above.
        let domain_attr = unsafe { copied(info.domain_attr) };
        let fabric_name = fabric.map_or(core::ptr::null_mut(), |attr| attr.name);
        let domain_name = domain_attr.map_or(core::ptr::null_mut(), |attr| attr.name);
        Some(Self {
            caps: info.caps,
            mode: info.mode,
            addr_format: info.addr_format,
            // SAFETY: as above.
            source: unsafe { address(info.src_addr, info.src_addrlen) },
            // SAFETY: as above.
            destination: unsafe { address(info.dest_addr, info.dest_addrlen) },
            // SAFETY: as above.
            fabric: unsafe { text(fabric_name) },
            // SAFETY: as above.
            domain: unsafe { text(domain_name) },
            // SAFETY: as above.
            tx: unsafe { copied(info.tx_attr) },
            // SAFETY: as above.
            rx: unsafe { copied(info.rx_attr) },
            // SAFETY: as above.
            ep: unsafe { copied(info.ep_attr) },
            domain_attr,
        })
    }

    /// Whatever there is, if all is agreed to.
    pub(crate) fn anything() -> Self {
        let attr = b::fi_domain_attr {
            mode: u64::MAX,
            mr_mode: !3,
            ..Default::default()
        };
        Self {
            mode: u64::MAX,
            domain_attr: Some(attr),
            ..Self::default()
        }
    }
}
