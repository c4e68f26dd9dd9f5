//! A fabric, and event queues in which nothing ever happens (endpoints without connections have no
//! events, but programs open one).

use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use ofi_sys::bindings as b;
use ofi_sys::consts as c;
use ofi_sys::errno as e;

use super::guard::{counted, guarded};
use super::object::{fid, give, inner, table, take};
use super::{domain, none};
use crate::attrs::Flavor;
use crate::engine::process::Process;

/// A fabric.
#[derive(Debug)]
pub(super) struct Fabric {
    pub(super) process: &'static Process,
    pub(super) flavor: Flavor,
    /// Domains and event queues.
    pub(super) users: AtomicUsize,
}

static FID_OPS: b::fi_ops = b::fi_ops {
    size: size_of::<b::fi_ops>(),
    close: Some(close),
    bind: Some(none::bind),
    control: Some(none::control),
    ops_open: Some(none::ops_open),
    tostr: None,
    ops_set: Some(none::ops_set),
};

static OPS: b::fi_ops_fabric = b::fi_ops_fabric {
    size: size_of::<b::fi_ops_fabric>(),
    domain: Some(domain::open),
    passive_ep: Some(none::passive_ep),
    eq_open: Some(eq_open),
    wait_open: Some(none::wait_open),
    trywait: Some(none::trywait),
    domain2: Some(domain::open2),
};

/// # Safety
/// `into` is where the object goes.
pub(super) unsafe fn open(
    process: &'static Process,
    flavor: Flavor,
    into: *mut *mut b::fid_fabric,
    context: *mut c_void,
) -> Result<(), c_int> {
    let head = b::fid_fabric {
        fid: fid(c::FI_CLASS_FABRIC, context, &FID_OPS),
        ops: table(&OPS),
        api_version: 0,
    };
    let fabric = Arc::new(Fabric {
        process,
        flavor,
        users: AtomicUsize::new(0),
    });
    // SAFETY: the caller's promise.
    unsafe { give(head, fabric, into) }?;
    let stats = process.stats().process();
    stats.fabrics.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

/// # Safety
/// A fabric that is open.
pub(super) unsafe fn of<'a>(fabric: *const b::fid_fabric) -> &'a Arc<Fabric> {
    // SAFETY: the caller's promise.
    unsafe { inner::<b::fid_fabric, Fabric>(fabric) }
}

unsafe extern "C" fn close(fid: *mut b::fid) -> c_int {
    guarded(|| {
        // SAFETY: fi_close(3): an open fabric.
        let fabric = unsafe { of(fid.cast()) };
        if fabric.users.load(Ordering::Acquire) > 0 {
            return Err(e::FI_EBUSY);
        }
        // SAFETY: fi_close(3): nobody uses it any more.
        let fabric = unsafe { take::<b::fid_fabric, Fabric>(fid) };
        let stats = fabric.process.stats().process();
        stats.fabrics.fetch_sub(1, Ordering::Relaxed);
        Ok(())
    })
}

static EQ_FID_OPS: b::fi_ops = b::fi_ops {
    size: size_of::<b::fi_ops>(),
    close: Some(eq_close),
    bind: Some(none::bind),
    control: Some(none::control),
    ops_open: Some(none::ops_open),
    tostr: None,
    ops_set: Some(none::ops_set),
};

static EQ_OPS: b::fi_ops_eq = b::fi_ops_eq {
    size: size_of::<b::fi_ops_eq>(),
    read: Some(eq_read),
    readerr: Some(eq_readerr),
    write: Some(eq_write),
    sread: Some(eq_sread),
    strerror: Some(eq_strerror),
};

unsafe extern "C" fn eq_open(
    fabric: *mut b::fid_fabric,
    _attr: *mut b::fi_eq_attr,
    eq: *mut *mut b::fid_eq,
    context: *mut c_void,
) -> c_int {
    guarded(|| {
        // SAFETY: fi_eq(3): an open fabric.
        let fabric = unsafe { of(fabric) };
        let head = b::fid_eq {
            fid: fid(c::FI_CLASS_EQ, context, &EQ_FID_OPS),
            ops: table(&EQ_OPS),
        };
        // SAFETY: fi_eq(3): where the object goes.
        unsafe { give(head, Arc::clone(fabric), eq) }?;
        fabric.users.fetch_add(1, Ordering::AcqRel);
        let stats = fabric.process.stats().process();
        stats.eqs.fetch_add(1, Ordering::Relaxed);
        Ok(())
    })
}

unsafe extern "C" fn eq_close(fid: *mut b::fid) -> c_int {
    guarded(|| {
        // SAFETY: fi_close(3): an open event queue that nobody uses any more.
        let fabric = unsafe { take::<b::fid_eq, Fabric>(fid) };
        fabric.users.fetch_sub(1, Ordering::AcqRel);
        let stats = fabric.process.stats().process();
        stats.eqs.fetch_sub(1, Ordering::Relaxed);
        Ok(())
    })
}

unsafe extern "C" fn eq_read(
    _: *mut b::fid_eq,
    _: *mut u32,
    _: *mut c_void,
    _: usize,
    _: u64,
) -> isize {
    counted(|| Err(e::FI_EAGAIN))
}

unsafe extern "C" fn eq_readerr(_: *mut b::fid_eq, _: *mut b::fi_eq_err_entry, _: u64) -> isize {
    counted(|| Err(e::FI_EAGAIN))
}

unsafe extern "C" fn eq_write(
    _: *mut b::fid_eq,
    _: u32,
    _: *const c_void,
    _: usize,
    _: u64,
) -> isize {
    counted(|| Err(e::FI_ENOSYS))
}

unsafe extern "C" fn eq_sread(
    _: *mut b::fid_eq,
    _: *mut u32,
    _: *mut c_void,
    _: usize,
    _: c_int,
    _: u64,
) -> isize {
    counted(|| Err(e::FI_ENOSYS))
}

unsafe extern "C" fn eq_strerror(
    _: *mut b::fid_eq,
    _: c_int,
    _: *const c_void,
    _: *mut c_char,
    _: usize,
) -> *const c_char {
    c"no error".as_ptr()
}
