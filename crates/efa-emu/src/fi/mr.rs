//! Memory regions: the key is EFA's 4 bytes, chosen here, and the descriptor names it too.

use core::ffi::{c_int, c_void};
use core::sync::atomic::Ordering;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ofi_sys::bindings as b;
use ofi_sys::consts as c;
use ofi_sys::errno as e;
use ofi_sys::grown::{fi_mr_attr, fi_mr_dmabuf};

use super::guard::guarded;
use super::object::{fid, give, take};
use super::old::MrAttr;
use super::{domain, none};
use crate::engine::domain::{Domain, Region};
use crate::engine::process::Process;
use crate::mem::device::View;
use crate::mem::room::page;

/// A region and its domain.
#[derive(Debug)]
struct Opened {
    domain: Arc<Domain>,
    region: Region,
    /// Of device memory: where NICs reach it.
    view: Option<View>,
}

/// What is to be registered.
struct Wanted {
    /// Address and bytes.
    memory: (u64, u64),
    access: u64,
    flags: u64,
    /// Where NICs reach device memory.
    view: Option<View>,
}

/// Regions of device memory that have a view, by key, with its shift.
static SHIFTS: Mutex<BTreeMap<u32, u64>> = Mutex::new(BTreeMap::new());

fn shifts() -> MutexGuard<'static, BTreeMap<u32, u64>> {
    // Every change is one call of the map.
    SHIFTS.lock().unwrap_or_else(PoisonError::into_inner)
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
/// The same for device memory that has a view.
const DEVICE_TAG: u64 = 0xdefa;

/// An address of local memory as NICs have it, and the key of its descriptor: `None` for NULL. Foreign
/// descriptors give a key that is never good.
pub(super) fn local(addr: u64, desc: *mut c_void) -> (u64, Option<u32>) {
    if desc.is_null() {
        return (addr, None);
    }
    let word = desc.addr() as u64;
    let key = u32::try_from(word & 0xffff_ffff).unwrap_or(u32::MAX);
    match word >> 32 {
        DESC_TAG => (addr, Some(key)),
        DEVICE_TAG => {
            let shift = shifts().get(&key).copied().unwrap_or(0);
            (addr.wrapping_add(shift), Some(key))
        }
        _ => (addr, Some(u32::MAX)),
    }
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
    wanted: Wanted,
    (mr, context): (*mut *mut b::fid_mr, *mut c_void),
) -> Result<(), c_int> {
    let Wanted {
        memory: (base, len),
        access,
        flags,
        view,
    } = wanted;
    // SAFETY: the caller's promise.
    let domain = unsafe { domain::of(domain.cast()) };
    if flags & !FLAGS != 0 {
        return Err(e::FI_EBADFLAGS);
    }
    if mr.is_null() {
        return Err(e::FI_EINVAL);
    }
    let is_known = access & !ACCESS == 0;
    if !is_known || len == 0 || base == 0 || base.checked_add(len).is_none() {
        return Err(e::FI_EINVAL);
    }
    // What a NIC reaches by a view of its own need not be there for the processor.
    if view.is_none() && !is_mapped(base, usize::try_from(len).unwrap_or(usize::MAX)) {
        return Err(e::FI_EFAULT);
    }
    let shift = view.as_ref().map_or(0, View::shift);
    let region = domain.register((base, len), access, shift)?;
    if view.is_some() {
        shifts().insert(region.key, shift);
    }
    let tag = view.as_ref().map_or(DESC_TAG, |_| DEVICE_TAG);
    let key = u64::from(region.key);
    let desc = usize::try_from((tag << 32) | key).unwrap_or(0);
    let head = b::fid_mr {
        fid: fid(c::FI_CLASS_MR, context, &FID_OPS),
        mem_desc: core::ptr::without_provenance_mut(desc),
        key,
    };
    domain.users.fetch_add(1, Ordering::AcqRel);
    let opened = Arc::new(Opened {
        domain: Arc::clone(domain),
        region,
        view,
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
        let wanted = Wanted {
            memory: (buf.expose_provenance() as u64, len as u64),
            access,
            flags,
            view: None,
        };
        // SAFETY: fi_mr(3): an open domain, and where the object goes.
        unsafe { register(fid, wanted, (mr, context)) }
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
        let wanted = Wanted {
            memory: (iov.iov_base.expose_provenance() as u64, iov.iov_len as u64),
            access,
            flags,
            view: None,
        };
        // SAFETY: fi_mr(3): an open domain, and where the object goes.
        unsafe { register(fid, wanted, (mr, context)) }
    })
}

/// Memory of a device is reached by a view of its own where it has one ([`View`]), else as that of the
/// host.
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
        // SAFETY: fi_mr(3): an open domain.
        let process = unsafe { domain::of(fid.cast()) }.process;
        let of_device = is_of_device(process, attr.iface)?;
        let (memory, view) = if flags & c::FI_MR_DMABUF == 0 {
            // SAFETY: fi_mr(3): an array of one.
            let iov = unsafe { pieces.cast::<libc::iovec>().read() };
            let base = iov.iov_base.expose_provenance() as u64;
            let memory = (base, iov.iov_len as u64);
            let view = of_device.then(|| View::of_pages(memory)).flatten();
            (memory, view)
        } else {
            // SAFETY: fi_mr(3), FI_MR_DMABUF: an array of one.
            let dmabuf = unsafe { pieces.cast::<fi_mr_dmabuf>().read() };
            let (memory, view) = in_dmabuf(process, &dmabuf)?;
            (memory, Some(view))
        };
        let wanted = Wanted {
            memory,
            access: attr.access,
            flags,
            view,
        };
        // SAFETY: fi_mr(3): an open domain, and where the object goes.
        unsafe { register(fid, wanted, (mr, attr.context)) }
    })
}

/// Whether memory of an interface is a device's: where there is no FI_HMEM, EFA takes all for the host's.
///
/// # Errors
/// ENOSYS: the host has no such device.
fn is_of_device(process: &Process, iface: b::fi_hmem_iface) -> Result<bool, c_int> {
    let lacks = &process.config().lacks;
    if iface == b::FI_HMEM_SYSTEM || !lacks.has_hmem() {
        return Ok(false);
    }
    match lacks.has_devices(iface) {
        true => Ok(true),
        false => Err(e::FI_ENOSYS),
    }
}

/// The range of a dma-buf, and a view of it.
fn in_dmabuf(process: &Process, dmabuf: &fi_mr_dmabuf) -> Result<((u64, u64), View), c_int> {
    if !process.generation().has(1, 21) {
        return Err(e::FI_EINVAL);
    }
    if process.config().lacks.dmabuf {
        return Err(e::FI_EOPNOTSUPP);
    }
    let (offset, len) = (dmabuf.offset, dmabuf.len as u64);
    super::dmabuf::check(dmabuf.fd, offset, len)?;
    let base = dmabuf.base_addr.expose_provenance() as u64;
    let memory = (base.wrapping_add(offset), len);
    let view = View::of_dmabuf(dmabuf.fd, offset, memory)?;
    Ok((memory, view))
}

unsafe extern "C" fn close(fid: *mut b::fid) -> c_int {
    guarded(|| {
        // SAFETY: fi_close(3): an open region that nobody uses any more.
        let opened = unsafe { take::<b::fid_mr, Opened>(fid) };
        if opened.view.is_some() {
            shifts().remove(&opened.region.key);
        }
        opened.domain.deregister(&opened.region);
        opened.domain.users.fetch_sub(1, Ordering::AcqRel);
        Ok(())
    })
}
