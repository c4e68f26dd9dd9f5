//! Remote memory access, fi_rma(3).

use core::ffi::{c_int, c_void};

use ofi_sys::bindings as b;
use ofi_sys::consts as c;
use ofi_sys::errno as e;

use super::ep;
use super::guard::posted;
use super::iov::Memory;
use super::msg::data as data_of;
use crate::engine::op::{Kind, Remote};
use crate::engine::post::Request;
use crate::mem::copy::total;

pub(super) static OPS: b::fi_ops_rma = b::fi_ops_rma {
    size: size_of::<b::fi_ops_rma>(),
    read: Some(read),
    readv: Some(readv),
    readmsg: Some(readmsg),
    write: Some(write),
    writev: Some(writev),
    writemsg: Some(writemsg),
    inject: Some(inject),
    writedata: Some(writedata),
    injectdata: Some(injectdata),
};

/// What an access is, beside its local memory.
#[derive(Clone, Copy, Debug)]
struct Access {
    kind: Kind,
    peer: u64,
    remote: Remote,
    context: *mut c_void,
    /// `None`: those of the endpoint.
    flags: Option<u64>,
    silent: bool,
    data: Option<u64>,
}

impl Access {
    fn new(kind: Kind, peer: u64, (addr, key): (u64, u64), context: *mut c_void) -> Self {
        Self {
            kind,
            peer,
            remote: Remote { addr, key },
            context,
            flags: None,
            silent: false,
            data: None,
        }
    }

    /// The buffer is free at once, and success is not told.
    fn injected(peer: u64, place: (u64, u64)) -> Self {
        Self {
            flags: Some(c::FI_INJECT),
            silent: true,
            ..Self::new(Kind::Write, peer, place, core::ptr::null_mut())
        }
    }

    /// # Safety
    /// An open endpoint.
    unsafe fn post(&self, ep: *mut b::fid_ep, memory: &Memory) -> Result<(), c_int> {
        // SAFETY: the caller's promise.
        let ep = unsafe { ep::of(ep) };
        ep.post(&Request {
            kind: self.kind,
            context: self.context.expose_provenance() as u64,
            flags: self.flags.unwrap_or(ep.limits.tx_op_flags),
            pieces: memory.pieces(),
            keys: memory.keys(),
            remote: self.remote,
            peer: self.peer,
            data: self.data,
            tag: None,
            silent: self.silent,
        })
    }
}

/// # Safety
/// fi_rma(3): an open endpoint, and a message with its arrays.
unsafe fn message(
    ep: *mut b::fid_ep,
    kind: Kind,
    msg: *const b::fi_msg_rma,
    flags: u64,
) -> Result<(), c_int> {
    // SAFETY: the caller's promise.
    let msg = unsafe { &*msg };
    if msg.rma_iov_count != 1 || msg.rma_iov.is_null() {
        return Err(e::FI_EINVAL);
    }
    // SAFETY: the caller's promise: an array of one.
    let place = unsafe { msg.rma_iov.read() };
    // SAFETY: the caller's promise.
    let memory = unsafe { Memory::many(msg.msg_iov, msg.desc, msg.iov_count) }?;
    if total(memory.pieces()) != Some(place.len as u64) {
        return Err(e::FI_EINVAL);
    }
    let access = Access {
        flags: Some(flags),
        data: data_of(flags, msg.data).filter(|_| kind == Kind::Write),
        ..Access::new(kind, msg.addr, (place.addr, place.key), msg.context)
    };
    // SAFETY: the caller's promise.
    unsafe { access.post(ep, &memory) }
}

unsafe extern "C" fn read(
    ep: *mut b::fid_ep,
    buf: *mut c_void,
    len: usize,
    desc: *mut c_void,
    src_addr: b::fi_addr_t,
    addr: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    posted(|| {
        let access = Access::new(Kind::Read, src_addr, (addr, key), context);
        // SAFETY: fi_rma(3): an open endpoint.
        unsafe { access.post(ep, &Memory::one(buf, len, desc)) }
    })
}

unsafe extern "C" fn readv(
    ep: *mut b::fid_ep,
    iov: *const libc::iovec,
    desc: *mut *mut c_void,
    count: usize,
    src_addr: b::fi_addr_t,
    addr: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    posted(|| {
        // SAFETY: fi_rma(3): arrays of `count`.
        let memory = unsafe { Memory::many(iov, desc, count) }?;
        let access = Access::new(Kind::Read, src_addr, (addr, key), context);
        // SAFETY: fi_rma(3): an open endpoint.
        unsafe { access.post(ep, &memory) }
    })
}

unsafe extern "C" fn readmsg(ep: *mut b::fid_ep, msg: *const b::fi_msg_rma, flags: u64) -> isize {
    // SAFETY: fi_rma(3).
    posted(|| unsafe { message(ep, Kind::Read, msg, flags) })
}

unsafe extern "C" fn write(
    ep: *mut b::fid_ep,
    buf: *const c_void,
    len: usize,
    desc: *mut c_void,
    dest_addr: b::fi_addr_t,
    addr: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    posted(|| {
        let access = Access::new(Kind::Write, dest_addr, (addr, key), context);
        // SAFETY: fi_rma(3): an open endpoint.
        unsafe { access.post(ep, &Memory::one(buf, len, desc)) }
    })
}

unsafe extern "C" fn writev(
    ep: *mut b::fid_ep,
    iov: *const libc::iovec,
    desc: *mut *mut c_void,
    count: usize,
    dest_addr: b::fi_addr_t,
    addr: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    posted(|| {
        // SAFETY: fi_rma(3): arrays of `count`.
        let memory = unsafe { Memory::many(iov, desc, count) }?;
        let access = Access::new(Kind::Write, dest_addr, (addr, key), context);
        // SAFETY: fi_rma(3): an open endpoint.
        unsafe { access.post(ep, &memory) }
    })
}

unsafe extern "C" fn writemsg(ep: *mut b::fid_ep, msg: *const b::fi_msg_rma, flags: u64) -> isize {
    // SAFETY: fi_rma(3).
    posted(|| unsafe { message(ep, Kind::Write, msg, flags) })
}

unsafe extern "C" fn inject(
    ep: *mut b::fid_ep,
    buf: *const c_void,
    len: usize,
    dest_addr: b::fi_addr_t,
    addr: u64,
    key: u64,
) -> isize {
    posted(|| {
        let access = Access::injected(dest_addr, (addr, key));
        let memory = Memory::one(buf, len, core::ptr::null_mut());
        // SAFETY: fi_rma(3): an open endpoint.
        unsafe { access.post(ep, &memory) }
    })
}

unsafe extern "C" fn writedata(
    ep: *mut b::fid_ep,
    buf: *const c_void,
    len: usize,
    desc: *mut c_void,
    data: u64,
    dest_addr: b::fi_addr_t,
    addr: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    posted(|| {
        let access = Access {
            data: Some(data),
            ..Access::new(Kind::Write, dest_addr, (addr, key), context)
        };
        // SAFETY: fi_rma(3): an open endpoint.
        unsafe { access.post(ep, &Memory::one(buf, len, desc)) }
    })
}

unsafe extern "C" fn injectdata(
    ep: *mut b::fid_ep,
    buf: *const c_void,
    len: usize,
    data: u64,
    dest_addr: b::fi_addr_t,
    addr: u64,
    key: u64,
) -> isize {
    posted(|| {
        let access = Access {
            data: Some(data),
            ..Access::injected(dest_addr, (addr, key))
        };
        let memory = Memory::one(buf, len, core::ptr::null_mut());
        // SAFETY: fi_rma(3): an open endpoint.
        unsafe { access.post(ep, &memory) }
    })
}
