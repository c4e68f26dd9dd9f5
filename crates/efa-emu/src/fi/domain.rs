//! Domains.

use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::Ordering;
use std::sync::Arc;

use ofi_sys::bindings as b;
use ofi_sys::consts as c;
use ofi_sys::errno as e;

use super::fabric::{self, Fabric};
use super::guard::guarded;
use super::object::{fid, give, inner, table, take};
use super::{av, cq, ep, mr, none, provider};
use crate::attrs::{Profile, Wanted, domain_name, is_offered};
use crate::engine::domain::Domain;

/// A domain, and the fabric it keeps open.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) domain: Arc<Domain>,
    fabric: Arc<Fabric>,
}

static FID_OPS: b::fi_ops = b::fi_ops {
    size: size_of::<b::fi_ops>(),
    close: Some(close),
    bind: Some(bind),
    control: Some(none::control),
    ops_open: Some(none::ops_open),
    tostr: None,
    ops_set: Some(none::ops_set),
};

static OPS: b::fi_ops_domain = b::fi_ops_domain {
    size: size_of::<b::fi_ops_domain>(),
    av_open: Some(av::open),
    cq_open: Some(cq::open),
    endpoint: Some(ep::open),
    scalable_ep: Some(none::scalable_ep),
    cntr_open: Some(none::cntr_open),
    poll_open: Some(none::poll_open),
    stx_ctx: Some(none::stx_ctx),
    srx_ctx: Some(none::srx_ctx),
    query_atomic: Some(none::query_atomic),
    query_collective: Some(none::query_collective),
    endpoint2: Some(ep::open2),
};

static MR_OPS: b::fi_ops_mr = b::fi_ops_mr {
    size: size_of::<b::fi_ops_mr>(),
    reg: Some(mr::reg),
    regv: Some(mr::regv),
    regattr: Some(mr::regattr),
};

/// # Safety
/// A domain that is open.
pub(super) unsafe fn of<'a>(domain: *const b::fid_domain) -> &'a Arc<Domain> {
    // SAFETY: the caller's promise.
    &unsafe { inner::<b::fid_domain, Opened>(domain) }.domain
}

pub(super) unsafe extern "C" fn open(
    fabric: *mut b::fid_fabric,
    info: *mut b::fi_info,
    domain: *mut *mut b::fid_domain,
    context: *mut c_void,
) -> c_int {
    guarded(|| {
        // SAFETY: fi_domain(3): an open fabric.
        let fabric = unsafe { fabric::of(fabric) };
        if info.is_null() {
            return Err(e::FI_EINVAL);
        }
        // SAFETY: fi_domain(3): an entry of fi_getinfo(3), with attributes.
        let attr = unsafe { (*info).domain_attr };
        if attr.is_null() {
            return Err(e::FI_EINVAL);
        }
        // SAFETY: as above.
        let name = unsafe { (*attr).name };
        if name.is_null() {
            return Err(e::FI_EINVAL);
        }
        // SAFETY: as above: a text that ends.
        let name = unsafe { CStr::from_ptr(name) };
        let nics = fabric.process.nics();
        let nic = nics.iter().find(|nic| *domain_name(nic) == *name);
        let nic = nic.ok_or(e::FI_ENODEV)?;
        let process = fabric.process;
        let profile = Profile::new(fabric.flavor, process.generation(), process.config());
        // SAFETY: as above.
        let entry = unsafe { Wanted::read(info) };
        // Such as an entry of the other fabric.
        if !entry.is_some_and(|entry| is_offered(&profile, &entry)) {
            return Err(e::FI_ENODATA);
        }
        provider::tell_seed(process);
        let opened = Arc::new(Opened {
            domain: Arc::new(Domain::new(fabric.process, nic, fabric.flavor)),
            fabric: Arc::clone(fabric),
        });
        let head = b::fid_domain {
            fid: fid(c::FI_CLASS_DOMAIN, context, &FID_OPS),
            ops: table(&OPS),
            mr: table(&MR_OPS),
        };
        // SAFETY: fi_domain(3): where the object goes.
        unsafe { give(head, opened, domain) }?;
        fabric.users.fetch_add(1, Ordering::AcqRel);
        Ok(())
    })
}

pub(super) unsafe extern "C" fn open2(
    fabric: *mut b::fid_fabric,
    info: *mut b::fi_info,
    domain: *mut *mut b::fid_domain,
    _flags: u64,
    context: *mut c_void,
) -> c_int {
    // SAFETY: fi_domain(3): as `open`.
    unsafe { open(fabric, info, domain, context) }
}

/// An event queue may be bound; nothing ever comes.
unsafe extern "C" fn bind(_: *mut b::fid, _: *mut b::fid, _: u64) -> c_int {
    0
}

unsafe extern "C" fn close(fid: *mut b::fid) -> c_int {
    guarded(|| {
        // SAFETY: fi_close(3): an open domain.
        let opened = unsafe { inner::<b::fid_domain, Opened>(fid.cast()) };
        if opened.domain.users.load(Ordering::Acquire) > 0 {
            return Err(e::FI_EBUSY);
        }
        // SAFETY: fi_close(3): nobody uses it any more.
        let opened = unsafe { take::<b::fid_domain, Opened>(fid) };
        opened.fabric.users.fetch_sub(1, Ordering::AcqRel);
        Ok(())
    })
}
