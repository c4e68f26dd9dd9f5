//! Operations that EFA does not have.

use core::ffi::{c_char, c_int, c_void};

use ofi_sys::bindings as b;
use ofi_sys::errno::{FI_ENOENT, FI_ENOSYS};
use ofi_sys::opaque as o;

pub(crate) unsafe extern "C" fn bind(_: *mut b::fid, _: *mut b::fid, _: u64) -> c_int {
    -FI_ENOSYS
}

pub(crate) unsafe extern "C" fn control(_: *mut b::fid, _: c_int, _: *mut c_void) -> c_int {
    -FI_ENOSYS
}

/// None of EFA's own operation sets (query_mr, GDA) is played.
pub(crate) unsafe extern "C" fn ops_open(
    _: *mut b::fid,
    _: *const c_char,
    _: u64,
    _: *mut *mut c_void,
    _: *mut c_void,
) -> c_int {
    -FI_ENOENT
}

pub(crate) unsafe extern "C" fn ops_set(
    _: *mut b::fid,
    _: *const c_char,
    _: u64,
    _: *mut c_void,
    _: *mut c_void,
) -> c_int {
    -FI_ENOSYS
}

pub(super) unsafe extern "C" fn passive_ep(
    _: *mut b::fid_fabric,
    _: *mut b::fi_info,
    _: *mut *mut b::fid_pep,
    _: *mut c_void,
) -> c_int {
    -FI_ENOSYS
}

pub(super) unsafe extern "C" fn wait_open(
    _: *mut b::fid_fabric,
    _: *mut o::fi_wait_attr,
    _: *mut *mut o::fid_wait,
) -> c_int {
    -FI_ENOSYS
}

pub(super) unsafe extern "C" fn trywait(
    _: *mut b::fid_fabric,
    _: *mut *mut b::fid,
    _: c_int,
) -> c_int {
    -FI_ENOSYS
}

pub(super) unsafe extern "C" fn scalable_ep(
    _: *mut b::fid_domain,
    _: *mut b::fi_info,
    _: *mut *mut b::fid_ep,
    _: *mut c_void,
) -> c_int {
    -FI_ENOSYS
}

pub(super) unsafe extern "C" fn cntr_open(
    _: *mut b::fid_domain,
    _: *mut b::fi_cntr_attr,
    _: *mut *mut b::fid_cntr,
    _: *mut c_void,
) -> c_int {
    -FI_ENOSYS
}

pub(super) unsafe extern "C" fn poll_open(
    _: *mut b::fid_domain,
    _: *mut o::fi_poll_attr,
    _: *mut *mut o::fid_poll,
) -> c_int {
    -FI_ENOSYS
}

pub(super) unsafe extern "C" fn stx_ctx(
    _: *mut b::fid_domain,
    _: *mut b::fi_tx_attr,
    _: *mut *mut o::fid_stx,
    _: *mut c_void,
) -> c_int {
    -FI_ENOSYS
}

pub(super) unsafe extern "C" fn srx_ctx(
    _: *mut b::fid_domain,
    _: *mut b::fi_rx_attr,
    _: *mut *mut b::fid_ep,
    _: *mut c_void,
) -> c_int {
    -FI_ENOSYS
}

pub(super) unsafe extern "C" fn query_atomic(
    _: *mut b::fid_domain,
    _: o::fi_datatype,
    _: o::fi_op,
    _: *mut o::fi_atomic_attr,
    _: u64,
) -> c_int {
    -FI_ENOSYS
}

pub(super) unsafe extern "C" fn query_collective(
    _: *mut b::fid_domain,
    _: o::fi_collective_op,
    _: *mut o::fi_collective_attr,
    _: u64,
) -> c_int {
    -FI_ENOSYS
}

pub(super) unsafe extern "C" fn cq_sread(
    _: *mut b::fid_cq,
    _: *mut c_void,
    _: usize,
    _: *const c_void,
    _: c_int,
) -> isize {
    -(FI_ENOSYS as isize)
}

pub(super) unsafe extern "C" fn cq_sreadfrom(
    _: *mut b::fid_cq,
    _: *mut c_void,
    _: usize,
    _: *mut b::fi_addr_t,
    _: *const c_void,
    _: c_int,
) -> isize {
    -(FI_ENOSYS as isize)
}

pub(super) unsafe extern "C" fn cq_signal(_: *mut b::fid_cq) -> c_int {
    -FI_ENOSYS
}

pub(super) unsafe extern "C" fn av_insertsvc(
    _: *mut b::fid_av,
    _: *const c_char,
    _: *const c_char,
    _: *mut b::fi_addr_t,
    _: u64,
    _: *mut c_void,
) -> c_int {
    -FI_ENOSYS
}

pub(super) unsafe extern "C" fn av_insertsym(
    _: *mut b::fid_av,
    _: *const c_char,
    _: usize,
    _: *const c_char,
    _: usize,
    _: *mut b::fi_addr_t,
    _: u64,
    _: *mut c_void,
) -> c_int {
    -FI_ENOSYS
}

pub(super) unsafe extern "C" fn av_set(
    _: *mut b::fid_av,
    _: *mut o::fi_av_set_attr,
    _: *mut *mut o::fid_av_set,
    _: *mut c_void,
) -> c_int {
    -FI_ENOSYS
}
