//! Memory regions: the key is EFA's 4 bytes, chosen here, and the descriptor names it too.

use core::ffi::{c_int, c_void};
use core::sync::atomic::Ordering;
use std::sync::Arc;

use ofi_sys::bindings as b;
use ofi_sys::consts as c;
use ofi_sys::errno as e;
use ofi_sys::grown::{fi_mr_attr, fi_mr_dmabuf};

use super::guard::guarded;
use super::object::{fid, give, take};
use super::old::MrAttr;
use super::{domain, none};
use crate::engine::domain::{Domain, Region};
use crate::mem::room::page;

/// A region and its domain.
#[derive(Debug)]
struct Opened {
    domain: Arc<Domain>,
    region: Region,
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

/// Bits above the key in a descriptor: what is no descriptor of ours is noticed.
const DESC_TAG: u64 = 0x0efa;

/// The key of a descriptor; `None` for NULL. Foreign ones give a key that is never good.
pub(super) fn key_of(desc: *mut c_void) -> Option<u32> {
    if desc.is_null() {
        return None;
    }
    let word = desc.addr() as u64;
    let key = u32::try_from(word & 0xffff_ffff).unwrap_or(u32::MAX);
    Some(if word >> 32 == DESC_TAG {
        key
    } else {
        u32::MAX
    })
}

/// What a region can be used for (fi_mr(3), access).
const ACCESS: u64 = c::FI_SEND
    | c::FI_RECV
    | c::FI_READ
    | c::FI_WRITE
    | c::FI_REMOTE_READ
    | c::FI_REMOTE_WRITE
    | c::FI_COLLECTIVE;

/// Flags of fi_mr(3) that are understood, or make no difference: `FI_HMEM_HOST_ALLOC` and
/// `FI_HMEM_DEVICE_ONLY` (bits of `rdma/fi_domain.h`).
const FLAGS: u64 = c::FI_MR_DMABUF | 1 << 45 | 1 << 46;

/// Whether all pages are there: msync(2) looks at the mappings only, and begins nothing.
fn is_mapped(base: u64, len: usize) -> bool {
    let Ok(base) = usize::try_from(base) else {
        return false;
    };
    let behind = base % page();
    let start = core::ptr::with_exposed_provenance_mut(base - behind);
    // SAFETY: msync(2): MS_ASYNC changes nothing; what is not mapped is ENOMEM.
    unsafe { libc::msync(start, len.saturating_add(behind), libc::MS_ASYNC) == 0 }
}

/// # Safety
/// An open domain, and where the object goes.
unsafe fn register(
    domain: *mut b::fid,
    (base, len): (u64, usize),
    (access, flags): (u64, u64),
    (mr, context): (*mut *mut b::fid_mr, *mut c_void),
) -> Result<(), c_int> {
    // SAFETY: the caller's promise.
    let domain = unsafe { domain::of(domain.cast()) };
    if flags & !FLAGS != 0 {
        return Err(e::FI_EBADFLAGS);
    }
    let is_known = access & !ACCESS == 0;
    if !is_known || len == 0 || base == 0 || base.checked_add(len as u64).is_none() {
        return Err(e::FI_EINVAL);
    }
    if !is_mapped(base, len) {
        return Err(e::FI_EFAULT);
    }
    let region = domain.register(base, len as u64, access)?;
    let key = u64::from(region.key);
    let desc = usize::try_from((DESC_TAG << 32) | key).unwrap_or(0);
    let head = b::fid_mr {
        fid: fid(c::FI_CLASS_MR, context, &FID_OPS),
        mem_desc: core::ptr::without_provenance_mut(desc),
        key,
    };
    domain.users.fetch_add(1, Ordering::AcqRel);
    let opened = Arc::new(Opened {
        domain: Arc::clone(domain),
        region,
    });
    // SAFETY: the caller's promise.
    unsafe { give(head, opened, mr) }
}

pub(super) unsafe extern "C" fn reg(
    fid: *mut b::fid,
    buf: *const c_void,
    len: usize,
    access: u64,
    _offset: u64,
    _requested_key: u64,
    flags: u64,
    mr: *mut *mut b::fid_mr,
    context: *mut c_void,
) -> c_int {
    guarded(|| {
        let base = buf.expose_provenance() as u64;
        // SAFETY: fi_mr(3): an open domain, and where the object goes.
        unsafe { register(fid, (base, len), (access, flags), (mr, context)) }
    })
}

pub(super) unsafe extern "C" fn regv(
    fid: *mut b::fid,
    iov: *const libc::iovec,
    count: usize,
    access: u64,
    _offset: u64,
    _requested_key: u64,
    flags: u64,
    mr: *mut *mut b::fid_mr,
    context: *mut c_void,
) -> c_int {
    guarded(|| {
        if count != 1 || iov.is_null() {
            return Err(e::FI_EINVAL);
        }
        // SAFETY: fi_mr(3): an array of one.
        let iov = unsafe { iov.read() };
        let memory = (iov.iov_base.expose_provenance() as u64, iov.iov_len);
        // SAFETY: fi_mr(3): an open domain, and where the object goes.
        unsafe { register(fid, memory, (access, flags), (mr, context)) }
    })
}

/// Memory on a device is host memory here: what is registered as such must be reachable.
pub(super) unsafe extern "C" fn regattr(
    fid: *mut b::fid,
    attr: *const fi_mr_attr,
    flags: u64,
    mr: *mut *mut b::fid_mr,
) -> c_int {
    guarded(|| {
        if attr.is_null() {
            return Err(e::FI_EINVAL);
        }
        // SAFETY: fi_mr(3): attributes, at least those of 1.17.
        let attr = unsafe { &*attr.cast::<MrAttr>() };
        let pieces = attr.mr_iov;
        if attr.iov_count != 1 || pieces.is_null() {
            return Err(e::FI_EINVAL);
        }
        let memory = if flags & c::FI_MR_DMABUF == 0 {
            // SAFETY: fi_mr(3): an array of one.
            let iov = unsafe { pieces.cast::<libc::iovec>().read() };
            (iov.iov_base.expose_provenance() as u64, iov.iov_len)
        } else {
            // SAFETY: fi_mr(3), FI_MR_DMABUF: an array of one.
            let dmabuf = unsafe { pieces.cast::<fi_mr_dmabuf>().read() };
            // SAFETY: fi_mr(3): an open domain.
            let process = unsafe { domain::of(fid.cast()) }.process;
            if !process.generation().has(1, 21) {
                return Err(e::FI_EINVAL);
            }
            super::dmabuf::check(dmabuf.fd, dmabuf.offset, dmabuf.len as u64)?;
            let base = dmabuf.base_addr.expose_provenance() as u64;
            (base.wrapping_add(dmabuf.offset), dmabuf.len)
        };
        // SAFETY: fi_mr(3): an open domain, and where the object goes.
        unsafe { register(fid, memory, (attr.access, flags), (mr, attr.context)) }
    })
}

unsafe extern "C" fn close(fid: *mut b::fid) -> c_int {
    guarded(|| {
        // SAFETY: fi_close(3): an open region that nobody uses any more.
        let opened = unsafe { take::<b::fid_mr, Opened>(fid) };
        opened.domain.deregister(&opened.region);
        opened.domain.users.fetch_sub(1, Ordering::AcqRel);
        Ok(())
    })
}
