//! What all fids share, and endpoints: fi_endpoint(3), fi_cm(3), fi_control(3).

use core::ffi::{c_int, c_void};

use crate::bindings::{fid, fid_ep};
use crate::consts::{FI_ENABLE, FI_OPT_ENDPOINT};

use crate::ops::dispatch;

/// `fi_close`: closes an object; it is gone if this gives 0, and still there otherwise.
///
/// # Safety
///
/// See [`crate::ops`].
#[inline]
pub unsafe fn fi_close(fid: *mut fid) -> c_int {
    dispatch!(fid, ops, close, (fid))
}

/// `fi_ep_bind` and its like: binds `to` to `fid`.
///
/// # Safety
///
/// See [`crate::ops`].
#[inline]
pub unsafe fn fi_bind(fid: *mut fid, to: *mut fid, flags: u64) -> c_int {
    dispatch!(fid, ops, bind, (fid, to, flags))
}

/// `fi_control`: a command of fi_control(3).
///
/// # Safety
///
/// See [`crate::ops`].
#[inline]
pub unsafe fn fi_control(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    dispatch!(fid, ops, control, (fid, command, arg))
}

/// `fi_enable`: makes an endpoint ready for data.
///
/// # Safety
///
/// See [`crate::ops`].
#[inline]
pub unsafe fn fi_enable(ep: *mut fid_ep) -> c_int {
    // SAFETY: projects to the first field; the contract of `crate::ops` says the endpoint is live.
    let fid = unsafe { &raw mut (*ep).fid };
    // SAFETY: a live fid, as above; FI_ENABLE takes no argument.
    unsafe { fi_control(fid, FI_ENABLE, core::ptr::null_mut()) }
}

/// `fi_cancel`: asks to cancel the operation with this context.
///
/// # Safety
///
/// See [`crate::ops`].
#[inline]
pub unsafe fn fi_cancel(ep: *mut fid_ep, context: *mut c_void) -> isize {
    // SAFETY: projects to the first field; the contract of `crate::ops` says the endpoint is live.
    let fid = unsafe { &raw mut (*ep).fid };
    dispatch!(ep, ops, cancel, (fid, context))
}

/// `fi_setopt` at level FI_OPT_ENDPOINT.
///
/// # Safety
///
/// See [`crate::ops`].
#[inline]
pub unsafe fn fi_setopt(ep: *mut fid_ep, name: c_int, value: *const c_void, len: usize) -> c_int {
    // SAFETY: projects to the first field; the contract of `crate::ops` says the endpoint is live.
    let fid = unsafe { &raw mut (*ep).fid };
    dispatch!(ep, ops, setopt, (fid, FI_OPT_ENDPOINT, name, value, len))
}

/// `fi_getopt` at level FI_OPT_ENDPOINT.
///
/// # Safety
///
/// See [`crate::ops`].
#[inline]
pub unsafe fn fi_getopt(
    ep: *mut fid_ep,
    name: c_int,
    value: *mut c_void,
    len: *mut usize,
) -> c_int {
    // SAFETY: projects to the first field; the contract of `crate::ops` says the endpoint is live.
    let fid = unsafe { &raw mut (*ep).fid };
    dispatch!(ep, ops, getopt, (fid, FI_OPT_ENDPOINT, name, value, len))
}

/// `fi_getname`: the endpoint's own address.
///
/// # Safety
///
/// See [`crate::ops`].
#[inline]
pub unsafe fn fi_getname(ep: *mut fid_ep, addr: *mut c_void, len: *mut usize) -> c_int {
    // SAFETY: projects to the first field; the contract of `crate::ops` says the endpoint is live.
    let fid = unsafe { &raw mut (*ep).fid };
    dispatch!(ep, cm, getname, (fid, addr, len))
}
