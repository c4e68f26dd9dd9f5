//! Remote memory access, fi_rma(3).

use core::ffi::c_void;

use crate::bindings::{fi_addr_t, fi_msg_rma, fid_ep};

use crate::ops::dispatch;

/// Where an access goes: the last three arguments of the C functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RmaTarget {
    /// The peer.
    pub peer: fi_addr_t,
    /// Virtual address in the peer, or offset within its region (no FI_MR_VIRT_ADDR).
    pub addr: u64,
    /// The region's key.
    pub key: u64,
}

/// `fi_read`: `len` bytes of the peer's memory into `buf`.
///
/// # Safety
///
/// See [`crate::ops`].
#[inline]
pub unsafe fn fi_read(
    ep: *mut fid_ep,
    buf: *mut c_void,
    len: usize,
    desc: *mut c_void,
    target: RmaTarget,
    context: *mut c_void,
) -> isize {
    dispatch!(
        ep,
        rma,
        read,
        (
            ep,
            buf,
            len,
            desc,
            target.peer,
            target.addr,
            target.key,
            context
        )
    )
}

/// `fi_readmsg`: the general form, with flags of the operation.
///
/// # Safety
///
/// See [`crate::ops`].
#[inline]
pub unsafe fn fi_readmsg(ep: *mut fid_ep, msg: *const fi_msg_rma, flags: u64) -> isize {
    dispatch!(ep, rma, readmsg, (ep, msg, flags))
}

/// `fi_write`: `len` bytes into the peer's memory.
///
/// # Safety
///
/// See [`crate::ops`].
#[inline]
pub unsafe fn fi_write(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    desc: *mut c_void,
    target: RmaTarget,
    context: *mut c_void,
) -> isize {
    dispatch!(
        ep,
        rma,
        write,
        (
            ep,
            buf,
            len,
            desc,
            target.peer,
            target.addr,
            target.key,
            context
        )
    )
}

/// `fi_writemsg`: the general form, with flags of the operation.
///
/// # Safety
///
/// See [`crate::ops`].
#[inline]
pub unsafe fn fi_writemsg(ep: *mut fid_ep, msg: *const fi_msg_rma, flags: u64) -> isize {
    dispatch!(ep, rma, writemsg, (ep, msg, flags))
}

/// `fi_inject_write`: the buffer is free on return, and there is no completion.
///
/// # Safety
///
/// See [`crate::ops`].
#[inline]
pub unsafe fn fi_inject_write(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    target: RmaTarget,
) -> isize {
    dispatch!(
        ep,
        rma,
        inject,
        (ep, buf, len, target.peer, target.addr, target.key)
    )
}

/// `fi_writedata`: a write that also gives the peer a completion with CQ data.
///
/// # Safety
///
/// See [`crate::ops`].
#[inline]
#[expect(clippy::too_many_arguments, reason = "mirrors the C function")]
pub unsafe fn fi_writedata(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    desc: *mut c_void,
    data: u64,
    target: RmaTarget,
    context: *mut c_void,
) -> isize {
    dispatch!(
        ep,
        rma,
        writedata,
        (
            ep,
            buf,
            len,
            desc,
            data,
            target.peer,
            target.addr,
            target.key,
            context
        )
    )
}

/// `fi_inject_writedata`: the buffer is free on return, and there is no local completion.
///
/// # Safety
///
/// See [`crate::ops`].
#[inline]
pub unsafe fn fi_inject_writedata(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    data: u64,
    target: RmaTarget,
) -> isize {
    dispatch!(
        ep,
        rma,
        injectdata,
        (ep, buf, len, data, target.peer, target.addr, target.key)
    )
}
