//! Fabrics, domains, address vectors and memory regions: fi_fabric(3), fi_domain(3), fi_av(3), fi_mr(3).

use core::ffi::{c_int, c_void};

use crate::bindings::{
    fi_addr_t, fi_av_attr, fi_cq_attr, fi_info, fid_av, fid_cq, fid_domain, fid_ep, fid_fabric,
    fid_mr,
};
use crate::grown::fi_mr_attr;

use crate::ops::dispatch;

/// `fi_domain`: opens a domain.
///
/// # Safety
///
/// See [`crate::ops`].
#[inline]
pub unsafe fn fi_domain(
    fabric: *mut fid_fabric,
    info: *mut fi_info,
    domain: *mut *mut fid_domain,
    context: *mut c_void,
) -> c_int {
    dispatch!(fabric, ops, domain, (fabric, info, domain, context))
}

/// `fi_cq_open`: opens a completion queue.
///
/// # Safety
///
/// See [`crate::ops`].
#[inline]
pub unsafe fn fi_cq_open(
    domain: *mut fid_domain,
    attr: *mut fi_cq_attr,
    cq: *mut *mut fid_cq,
    context: *mut c_void,
) -> c_int {
    dispatch!(domain, ops, cq_open, (domain, attr, cq, context))
}

/// `fi_av_open`: opens an address vector.
///
/// # Safety
///
/// See [`crate::ops`].
#[inline]
pub unsafe fn fi_av_open(
    domain: *mut fid_domain,
    attr: *mut fi_av_attr,
    av: *mut *mut fid_av,
    context: *mut c_void,
) -> c_int {
    dispatch!(domain, ops, av_open, (domain, attr, av, context))
}

/// `fi_endpoint`: opens an endpoint, not yet enabled.
///
/// # Safety
///
/// See [`crate::ops`].
#[inline]
pub unsafe fn fi_endpoint(
    domain: *mut fid_domain,
    info: *mut fi_info,
    ep: *mut *mut fid_ep,
    context: *mut c_void,
) -> c_int {
    dispatch!(domain, ops, endpoint, (domain, info, ep, context))
}

/// `fi_av_insert`: adds `count` addresses; gives how many were added.
///
/// # Safety
///
/// See [`crate::ops`].
#[inline]
pub unsafe fn fi_av_insert(
    av: *mut fid_av,
    addr: *const c_void,
    count: usize,
    fi_addr: *mut fi_addr_t,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    dispatch!(av, ops, insert, (av, addr, count, fi_addr, flags, context))
}

/// `fi_av_remove`: forgets `count` addresses.
///
/// # Safety
///
/// See [`crate::ops`].
#[inline]
pub unsafe fn fi_av_remove(
    av: *mut fid_av,
    fi_addr: *mut fi_addr_t,
    count: usize,
    flags: u64,
) -> c_int {
    dispatch!(av, ops, remove, (av, fi_addr, count, flags))
}

/// `fi_av_lookup`: the bytes of an address.
///
/// # Safety
///
/// See [`crate::ops`].
#[inline]
pub unsafe fn fi_av_lookup(
    av: *mut fid_av,
    fi_addr: fi_addr_t,
    addr: *mut c_void,
    len: *mut usize,
) -> c_int {
    dispatch!(av, ops, lookup, (av, fi_addr, addr, len))
}

/// `fi_mr_regattr`: registers memory.
///
/// # Safety
///
/// See [`crate::ops`].
#[inline]
pub unsafe fn fi_mr_regattr(
    domain: *mut fid_domain,
    attr: *const fi_mr_attr,
    flags: u64,
    mr: *mut *mut fid_mr,
) -> c_int {
    // SAFETY: projects to the first field; the contract of `crate::ops` says the domain is live.
    let fid = unsafe { &raw mut (*domain).fid };
    dispatch!(domain, mr, regattr, (fid, attr, flags, mr))
}
