//! Tagged messages, fi_tagged(3).

use core::ffi::c_void;

use crate::bindings::{fi_addr_t, fi_msg_tagged, fid_ep};

use crate::ops::dispatch;

/// `fi_tsend`: a tagged message.
///
/// # Safety
///
/// See [`crate::ops`].
#[inline]
#[expect(clippy::too_many_arguments, reason = "mirrors the C function")]
pub unsafe fn fi_tsend(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    desc: *mut c_void,
    dest: fi_addr_t,
    tag: u64,
    context: *mut c_void,
) -> isize {
    dispatch!(ep, tagged, send, (ep, buf, len, desc, dest, tag, context))
}

/// `fi_tsendmsg`: the general form, with flags of the operation.
///
/// # Safety
///
/// See [`crate::ops`].
#[inline]
pub unsafe fn fi_tsendmsg(ep: *mut fid_ep, msg: *const fi_msg_tagged, flags: u64) -> isize {
    dispatch!(ep, tagged, sendmsg, (ep, msg, flags))
}

/// `fi_tinject`: the buffer is free on return, and there is no completion.
///
/// # Safety
///
/// See [`crate::ops`].
#[inline]
pub unsafe fn fi_tinject(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    dest: fi_addr_t,
    tag: u64,
) -> isize {
    dispatch!(ep, tagged, inject, (ep, buf, len, dest, tag))
}

/// `fi_trecv`: posts a receive buffer for a tag; bits set in `ignore` match anything.
///
/// # Safety
///
/// See [`crate::ops`].
#[inline]
#[expect(clippy::too_many_arguments, reason = "mirrors the C function")]
pub unsafe fn fi_trecv(
    ep: *mut fid_ep,
    buf: *mut c_void,
    len: usize,
    desc: *mut c_void,
    src: fi_addr_t,
    tag: u64,
    ignore: u64,
    context: *mut c_void,
) -> isize {
    dispatch!(
        ep,
        tagged,
        recv,
        (ep, buf, len, desc, src, tag, ignore, context)
    )
}

/// `fi_trecvmsg`: the general form, with flags of the operation.
///
/// # Safety
///
/// See [`crate::ops`].
#[inline]
pub unsafe fn fi_trecvmsg(ep: *mut fid_ep, msg: *const fi_msg_tagged, flags: u64) -> isize {
    dispatch!(ep, tagged, recvmsg, (ep, msg, flags))
}
