//! Completion queues, fi_cq(3).

use core::ffi::{c_char, c_int, c_void};

use crate::bindings::{fi_addr_t, fid_cq};
use crate::grown::fi_cq_err_entry;

use crate::ops::dispatch;

/// `fi_cq_read`: up to `count` entries of the queue's format into `buf`.
///
/// # Safety
///
/// See [`crate::ops`].
#[inline]
pub unsafe fn fi_cq_read(cq: *mut fid_cq, buf: *mut c_void, count: usize) -> isize {
    dispatch!(cq, ops, read, (cq, buf, count))
}

/// `fi_cq_readfrom`: the same with the source of each message.
///
/// # Safety
///
/// See [`crate::ops`].
#[inline]
pub unsafe fn fi_cq_readfrom(
    cq: *mut fid_cq,
    buf: *mut c_void,
    count: usize,
    src: *mut fi_addr_t,
) -> isize {
    dispatch!(cq, ops, readfrom, (cq, buf, count, src))
}

/// `fi_cq_readerr`: one error entry.
///
/// # Safety
///
/// See [`crate::ops`].
#[inline]
pub unsafe fn fi_cq_readerr(cq: *mut fid_cq, entry: *mut fi_cq_err_entry, flags: u64) -> isize {
    dispatch!(cq, ops, readerr, (cq, entry, flags))
}

/// `fi_cq_strerror`: the provider's words for its own code; null where it has none.
///
/// # Safety
///
/// See [`crate::ops`].
#[inline]
pub unsafe fn fi_cq_strerror(
    cq: *mut fid_cq,
    prov_errno: c_int,
    err_data: *const c_void,
    buf: *mut c_char,
    len: usize,
) -> *const c_char {
    // SAFETY: the contract of `crate::ops`: a live completion queue.
    let table = unsafe { (*cq).ops };
    // SAFETY: as above; the slot lies within the table of libfabric 1.0.
    let op = unsafe { (*table).strerror };
    match op {
        // SAFETY: the contract of `crate::ops` covers the arguments.
        Some(op) => unsafe { op(cq, prov_errno, err_data, buf, len) },
        None => core::ptr::null(),
    }
}
