//! Messages, fi_msg(3).

use core::ffi::c_void;

use crate::bindings::{fi_addr_t, fi_msg, fid_ep};

use crate::ops::dispatch;

/// `fi_send`: a message of `len` bytes to `dest`.
///
/// # Safety
///
/// See [`crate::ops`].
#[inline]
pub unsafe fn fi_send(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    desc: *mut c_void,
    dest: fi_addr_t,
    context: *mut c_void,
) -> isize {
    dispatch!(ep, msg, send, (ep, buf, len, desc, dest, context))
}

/// `fi_senddata`: the same with CQ data.
///
/// # Safety
///
/// See [`crate::ops`].
#[inline]
#[expect(clippy::too_many_arguments, reason = "mirrors the C function")]
pub unsafe fn fi_senddata(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    desc: *mut c_void,
    data: u64,
    dest: fi_addr_t,
    context: *mut c_void,
) -> isize {
    dispatch!(ep, msg, senddata, (ep, buf, len, desc, data, dest, context))
}

/// `fi_sendmsg`: the general form, with flags of the operation.
///
/// # Safety
///
/// See [`crate::ops`].
#[inline]
pub unsafe fn fi_sendmsg(ep: *mut fid_ep, msg: *const fi_msg, flags: u64) -> isize {
    dispatch!(ep, msg, sendmsg, (ep, msg, flags))
}

/// `fi_inject`: the buffer is free on return, and there is no completion.
///
/// # Safety
///
/// See [`crate::ops`].
#[inline]
pub unsafe fn fi_inject(ep: *mut fid_ep, buf: *const c_void, len: usize, dest: fi_addr_t) -> isize {
    dispatch!(ep, msg, inject, (ep, buf, len, dest))
}

/// `fi_injectdata`: the same with CQ data.
///
/// # Safety
///
/// See [`crate::ops`].
#[inline]
pub unsafe fn fi_injectdata(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    data: u64,
    dest: fi_addr_t,
) -> isize {
    dispatch!(ep, msg, injectdata, (ep, buf, len, data, dest))
}

/// `fi_recv`: posts a receive buffer.
///
/// # Safety
///
/// See [`crate::ops`].
#[inline]
pub unsafe fn fi_recv(
    ep: *mut fid_ep,
    buf: *mut c_void,
    len: usize,
    desc: *mut c_void,
    src: fi_addr_t,
    context: *mut c_void,
) -> isize {
    dispatch!(ep, msg, recv, (ep, buf, len, desc, src, context))
}

/// `fi_recvmsg`: the general form, with flags of the operation.
///
/// # Safety
///
/// See [`crate::ops`].
#[inline]
pub unsafe fn fi_recvmsg(ep: *mut fid_ep, msg: *const fi_msg, flags: u64) -> isize {
    dispatch!(ep, msg, recvmsg, (ep, msg, flags))
}
