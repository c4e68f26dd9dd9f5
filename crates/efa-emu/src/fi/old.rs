//! Structs of callers as libfabric 1.17 had them: newer ones only have more behind, which is not
//! looked at, and older ones end here.

use core::ffi::{c_int, c_void};
use core::mem::offset_of;

use ofi_sys::bindings::fi_hmem_iface;
use ofi_sys::grown::{fi_cq_err_entry, fi_mr_attr};

/// The beginning of an [`fi_cq_err_entry`].
#[repr(C)]
#[derive(Debug)]
pub(super) struct ErrorEntry {
    pub(super) op_context: *mut c_void,
    pub(super) flags: u64,
    pub(super) len: usize,
    pub(super) buf: *mut c_void,
    pub(super) data: u64,
    pub(super) tag: u64,
    pub(super) olen: usize,
    pub(super) err: c_int,
    pub(super) prov_errno: c_int,
    pub(super) err_data: *mut c_void,
    pub(super) err_data_size: usize,
}

/// The beginning of an [`fi_mr_attr`].
#[repr(C)]
#[derive(Debug)]
pub(super) struct MrAttr {
    pub(super) mr_iov: *const c_void,
    pub(super) iov_count: usize,
    pub(super) access: u64,
    pub(super) offset: u64,
    pub(super) requested_key: u64,
    pub(super) context: *mut c_void,
    pub(super) auth_key_size: usize,
    pub(super) auth_key: *mut u8,
    pub(super) iface: fi_hmem_iface,
}

const _: () = {
    assert!(size_of::<ErrorEntry>() == 80);
    assert!(offset_of!(ErrorEntry, olen) == offset_of!(fi_cq_err_entry, olen));
    assert!(offset_of!(ErrorEntry, prov_errno) == offset_of!(fi_cq_err_entry, prov_errno));
    assert!(offset_of!(ErrorEntry, err_data_size) == offset_of!(fi_cq_err_entry, err_data_size));
    assert!(size_of::<MrAttr>() <= 80);
    assert!(offset_of!(MrAttr, access) == offset_of!(fi_mr_attr, access));
    assert!(offset_of!(MrAttr, context) == offset_of!(fi_mr_attr, context));
    assert!(offset_of!(MrAttr, iface) == offset_of!(fi_mr_attr, iface));
};
