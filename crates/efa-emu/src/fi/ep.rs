//! Endpoints.

use core::ffi::{c_int, c_void};
use core::sync::atomic::Ordering;
use std::sync::Arc;

use ofi_sys::bindings as b;
use ofi_sys::consts as c;
use ofi_sys::errno as e;

use super::guard::{counted, guarded, posted};
use super::object::{fid, give, inner, table, take};
use super::{av, cq, domain, msg, none, options, rma, tagged};
use crate::attrs::{Flavor, Profile, Wanted, answered_caps, is_offered};
use crate::engine::domain::Domain;
use crate::engine::endpoint::{Ep, Limits, Setup, Sizes};

static FID_OPS: b::fi_ops = b::fi_ops {
    size: size_of::<b::fi_ops>(),
    close: Some(close),
    bind: Some(bind),
    control: Some(control),
    ops_open: Some(none::ops_open),
    tostr: None,
    ops_set: Some(none::ops_set),
};

static OPS: b::fi_ops_ep = b::fi_ops_ep {
    size: size_of::<b::fi_ops_ep>(),
    cancel: Some(cancel),
    getopt: Some(options::getopt),
    setopt: Some(options::setopt),
    tx_ctx: Some(tx_ctx),
    rx_ctx: Some(rx_ctx),
    rx_size_left: Some(size_left),
    tx_size_left: Some(size_left),
};

static CM_OPS: b::fi_ops_cm = b::fi_ops_cm {
    size: size_of::<b::fi_ops_cm>(),
    setname: Some(setname),
    getname: Some(getname),
    getpeer: Some(getpeer),
    connect: Some(connect),
    listen: Some(listen),
    accept: Some(accept),
    reject: Some(reject),
    shutdown: Some(shutdown),
    join: Some(join),
};

/// # Safety
/// An endpoint that is open.
pub(super) unsafe fn of<'a>(ep: *const b::fid_ep) -> &'a Arc<Ep> {
    // SAFETY: the caller's promise.
    unsafe { inner::<b::fid_ep, Ep>(ep) }
}

/// What an entry of fi_getinfo(3) asks of an endpoint, within what there is.
fn limits(domain: &Domain, profile: &Profile, entry: &Wanted) -> Limits {
    // 0 asks for nothing, and more than there is was refused before.
    let at_most = |limit: &mut usize, asked: usize| {
        if asked > 0 {
            *limit = asked.min(*limit);
        }
    };
    let mut limits = Limits {
        tx_size: profile.tx_size,
        rx_size: profile.rx_size,
        iov: [profile.iov_limit; 2],
        sizes: Sizes {
            max_msg: profile.max_msg,
            max_rma: profile.max_rma,
            inject_msg: profile.inject_msg,
            inject_rma: profile.inject_rma,
        },
        caps: answered_caps(profile.caps, entry.caps),
        ordered: domain.flavor == Flavor::Rdm,
        tx_op_flags: 0,
    };
    let sizes = &mut limits.sizes;
    if let Some(tx) = &entry.tx {
        at_most(&mut limits.tx_size, tx.size);
        at_most(&mut limits.iov[0], tx.iov_limit);
        at_most(&mut sizes.inject_msg, tx.inject_size);
        at_most(&mut sizes.inject_rma, tx.inject_size);
        limits.ordered &= tx.msg_order & c::FI_ORDER_SAS != 0;
        limits.tx_op_flags = tx.op_flags;
    }
    if let Some(rx) = &entry.rx {
        at_most(&mut limits.rx_size, rx.size);
        at_most(&mut limits.iov[1], rx.iov_limit);
    }
    if let Some(ep) = &entry.ep {
        at_most(&mut sizes.max_msg, ep.max_msg_size);
        at_most(&mut sizes.max_rma, ep.max_msg_size);
    }
    limits
}

pub(super) unsafe extern "C" fn open(
    domain: *mut b::fid_domain,
    info: *mut b::fi_info,
    ep: *mut *mut b::fid_ep,
    context: *mut c_void,
) -> c_int {
    guarded(|| {
        // SAFETY: fi_endpoint(3): an open domain.
        let domain = unsafe { domain::of(domain) };
        let (process, flavor) = (domain.process, domain.flavor);
        let profile = Profile::new(flavor, process.generation(), process.config());
        // SAFETY: fi_endpoint(3): an entry of fi_getinfo(3), or NULL.
        let entry = unsafe { Wanted::read(info) }.ok_or(e::FI_EINVAL)?;
        // Such as a datagram endpoint: nothing that is not offered is taken for something that is.
        if !is_offered(&profile, &entry) {
            return Err(e::FI_ENODATA);
        }
        let limits = limits(domain, &profile, &entry);
        let setup = Setup {
            tx: None,
            rx: None,
            vector: None,
            rnr_retry: profile.rnr_retry,
            sizes: limits.sizes,
            unsolicited: process.config().unsolicited,
            device_rdma: process.config().device_rdma || flavor == Flavor::Direct,
            shared_memory: true,
            homogeneous: false,
        };
        if ep.is_null() {
            return Err(e::FI_EINVAL);
        }
        // As Linux's EFA driver says that the device has no more queue pairs.
        let made = Ep::new(Arc::clone(domain), limits, setup).ok_or(e::FI_ENOMEM)?;
        let head = b::fid_ep {
            fid: fid(c::FI_CLASS_EP, context, &FID_OPS),
            ops: table(&OPS),
            cm: table(&CM_OPS),
            msg: table(&msg::OPS),
            rma: table(&rma::OPS),
            tagged: table(&tagged::OPS),
            atomic: core::ptr::null_mut(),
            collective: core::ptr::null_mut(),
        };
        // SAFETY: fi_endpoint(3): where the object goes.
        unsafe { give(head, Arc::new(made), ep) }
    })
}

pub(super) unsafe extern "C" fn open2(
    domain: *mut b::fid_domain,
    info: *mut b::fi_info,
    ep: *mut *mut b::fid_ep,
    _flags: u64,
    context: *mut c_void,
) -> c_int {
    // SAFETY: fi_endpoint(3): as `open`.
    unsafe { open(domain, info, ep, context) }
}

unsafe extern "C" fn bind(fid: *mut b::fid, other: *mut b::fid, flags: u64) -> c_int {
    guarded(|| {
        // SAFETY: fi_endpoint(3): an open endpoint.
        let ep = unsafe { of(fid.cast()) };
        // SAFETY: fi_endpoint(3): an open object.
        let class = unsafe { (*other).fclass };
        match class {
            c::FI_CLASS_CQ => {
                // SAFETY: the class says that it is a queue.
                let queue = &unsafe { cq::of(other.cast()) }.queue;
                bind_queue(ep, queue, flags)
            }
            c::FI_CLASS_AV => {
                // SAFETY: the class says that it is a vector.
                let vector = unsafe { av::of(other.cast()) };
                if !Arc::ptr_eq(&vector.domain, &ep.domain) {
                    return Err(e::FI_EDOMAIN);
                }
                let before = ep.setup(|setup| setup.vector.replace(Arc::clone(vector)));
                vector.users.fetch_add(1, Ordering::AcqRel);
                if let Some(before) = before {
                    before.users.fetch_sub(1, Ordering::AcqRel);
                }
                Ok(())
            }
            // Nothing ever comes there.
            c::FI_CLASS_EQ => Ok(()),
            _ => Err(e::FI_ENOSYS),
        }
    })
}

fn bind_queue(ep: &Ep, queue: &Arc<crate::engine::queue::Queue>, flags: u64) -> Result<(), c_int> {
    const SENDS: u64 = c::FI_SEND;
    if !Arc::ptr_eq(&queue.domain, &ep.domain) {
        return Err(e::FI_EDOMAIN);
    }
    if flags & !(SENDS | c::FI_RECV | c::FI_SELECTIVE_COMPLETION) != 0 {
        return Err(e::FI_EBADFLAGS);
    }
    let selective = flags & c::FI_SELECTIVE_COMPLETION != 0;
    // Receives complete always: those of EFA that could be silent are not played.
    if flags & (SENDS | c::FI_RECV) == 0 || (selective && flags & c::FI_RECV != 0) {
        return Err(e::FI_EINVAL);
    }
    ep.setup(|setup| {
        let is_again = (flags & SENDS != 0 && setup.tx.is_some())
            || (flags & c::FI_RECV != 0 && setup.rx.is_some());
        if is_again {
            return Err(e::FI_EINVAL);
        }
        if flags & SENDS != 0 {
            setup.tx = Some((Arc::clone(queue), selective));
            queue.users.fetch_add(1, Ordering::AcqRel);
        }
        if flags & c::FI_RECV != 0 {
            setup.rx = Some(Arc::clone(queue));
            queue.users.fetch_add(1, Ordering::AcqRel);
        }
        Ok(())
    })
}

unsafe extern "C" fn control(fid: *mut b::fid, command: c_int, _arg: *mut c_void) -> c_int {
    guarded(|| {
        // SAFETY: fi_endpoint(3): an open endpoint.
        let ep = unsafe { of(fid.cast()) };
        match command {
            c::FI_ENABLE => ep.enable(),
            _ => Err(e::FI_ENOSYS),
        }
    })
}

unsafe extern "C" fn close(fid: *mut b::fid) -> c_int {
    guarded(|| {
        // SAFETY: fi_close(3): an open endpoint that nobody uses any more.
        let ep = unsafe { take::<b::fid_ep, Ep>(fid) };
        ep.close();
        ep.setup(|setup| {
            if let Some((queue, _)) = setup.tx.take() {
                queue.users.fetch_sub(1, Ordering::AcqRel);
            }
            if let Some(queue) = setup.rx.take() {
                queue.users.fetch_sub(1, Ordering::AcqRel);
            }
            if let Some(vector) = setup.vector.take() {
                vector.users.fetch_sub(1, Ordering::AcqRel);
            }
        });
        Ok(())
    })
}

unsafe extern "C" fn cancel(fid: *mut b::fid, context: *mut c_void) -> isize {
    posted(|| {
        // SAFETY: fi_endpoint(3): an open endpoint.
        let ep = unsafe { of(fid.cast()) };
        match ep.cancel(context.expose_provenance() as u64) {
            Ok(true) => Ok(()),
            Ok(false) => Err(e::FI_ENOENT),
            Err(errno) => Err(errno),
        }
    })
}

unsafe extern "C" fn getname(fid: *mut b::fid, addr: *mut c_void, addrlen: *mut usize) -> c_int {
    guarded(|| {
        // SAFETY: fi_cm(3): an open endpoint.
        let ep = unsafe { of(fid.cast()) };
        // SAFETY: fi_cm(3): a buffer and its length.
        let fits = unsafe { av::write_address(ep.address(), addr, addrlen) };
        if fits { Ok(()) } else { Err(e::FI_ETOOSMALL) }
    })
}

unsafe extern "C" fn size_left(_: *mut b::fid_ep) -> isize {
    counted(|| Err(e::FI_ENOSYS))
}

unsafe extern "C" fn tx_ctx(
    _: *mut b::fid_ep,
    _: c_int,
    _: *mut b::fi_tx_attr,
    _: *mut *mut b::fid_ep,
    _: *mut c_void,
) -> c_int {
    -e::FI_ENOSYS
}

unsafe extern "C" fn rx_ctx(
    _: *mut b::fid_ep,
    _: c_int,
    _: *mut b::fi_rx_attr,
    _: *mut *mut b::fid_ep,
    _: *mut c_void,
) -> c_int {
    -e::FI_ENOSYS
}

unsafe extern "C" fn setname(_: *mut b::fid, _: *mut c_void, _: usize) -> c_int {
    -e::FI_ENOSYS
}

unsafe extern "C" fn getpeer(_: *mut b::fid_ep, _: *mut c_void, _: *mut usize) -> c_int {
    -e::FI_ENOSYS
}

unsafe extern "C" fn connect(
    _: *mut b::fid_ep,
    _: *const c_void,
    _: *const c_void,
    _: usize,
) -> c_int {
    -e::FI_ENOSYS
}

unsafe extern "C" fn listen(_: *mut b::fid_pep) -> c_int {
    -e::FI_ENOSYS
}

unsafe extern "C" fn accept(_: *mut b::fid_ep, _: *const c_void, _: usize) -> c_int {
    -e::FI_ENOSYS
}

unsafe extern "C" fn reject(
    _: *mut b::fid_pep,
    _: *mut b::fid,
    _: *const c_void,
    _: usize,
) -> c_int {
    -e::FI_ENOSYS
}

unsafe extern "C" fn shutdown(_: *mut b::fid_ep, _: u64) -> c_int {
    -e::FI_ENOSYS
}

unsafe extern "C" fn join(
    _: *mut b::fid_ep,
    _: *const c_void,
    _: u64,
    _: *mut *mut b::fid_mc,
    _: *mut c_void,
) -> c_int {
    -e::FI_ENOSYS
}
