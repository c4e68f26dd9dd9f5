//! Tagged messages, fi_tagged(3): the software of `efa` has them, the device does not, and its endpoints
//! say so.

use core::ffi::c_void;

use ofi_sys::bindings as b;
use ofi_sys::consts as c;
use ofi_sys::errno as e;

use super::ep;
use super::guard::posted;
use super::iov::Memory;
use super::msg::{Sending, data, give, take};

pub(super) static OPS: b::fi_ops_tagged = b::fi_ops_tagged {
    size: size_of::<b::fi_ops_tagged>(),
    recv: Some(recv),
    recvv: Some(recvv),
    recvmsg: Some(recvmsg),
    send: Some(send),
    sendv: Some(sendv),
    sendmsg: Some(sendmsg),
    inject: Some(inject),
    senddata: Some(senddata),
    injectdata: Some(injectdata),
};

unsafe extern "C" fn recv(
    ep: *mut b::fid_ep,
    buf: *mut c_void,
    len: usize,
    desc: *mut c_void,
    _src_addr: b::fi_addr_t,
    tag: u64,
    ignore: u64,
    context: *mut c_void,
) -> isize {
    posted(|| {
        // SAFETY: fi_tagged(3): an open endpoint.
        let ep = unsafe { ep::of(ep) };
        take(
            ep,
            &Memory::one(buf, len, desc),
            context,
            Some((tag, ignore)),
        )
    })
}

unsafe extern "C" fn recvv(
    ep: *mut b::fid_ep,
    iov: *const libc::iovec,
    desc: *mut *mut c_void,
    count: usize,
    _src_addr: b::fi_addr_t,
    tag: u64,
    ignore: u64,
    context: *mut c_void,
) -> isize {
    posted(|| {
        // SAFETY: fi_tagged(3): an open endpoint.
        let ep = unsafe { ep::of(ep) };
        // SAFETY: fi_tagged(3): arrays of `count`.
        let memory = unsafe { Memory::many(iov, desc, count) }?;
        take(ep, &memory, context, Some((tag, ignore)))
    })
}

unsafe extern "C" fn recvmsg(
    ep: *mut b::fid_ep,
    msg: *const b::fi_msg_tagged,
    flags: u64,
) -> isize {
    posted(|| {
        // SAFETY: fi_tagged(3): an open endpoint.
        let ep = unsafe { ep::of(ep) };
        // SAFETY: fi_tagged(3): a message.
        let msg = unsafe { &*msg };
        if flags & !(c::FI_COMPLETION | c::FI_MORE) != 0 {
            // Among them peeking and claiming, which are not played.
            return Err(e::FI_EBADFLAGS);
        }
        // SAFETY: fi_tagged(3): arrays of `iov_count`.
        let memory = unsafe { Memory::many(msg.msg_iov, msg.desc, msg.iov_count) }?;
        take(ep, &memory, msg.context, Some((msg.tag, msg.ignore)))
    })
}

unsafe extern "C" fn send(
    ep: *mut b::fid_ep,
    buf: *const c_void,
    len: usize,
    desc: *mut c_void,
    dest_addr: b::fi_addr_t,
    tag: u64,
    context: *mut c_void,
) -> isize {
    posted(|| {
        // SAFETY: fi_tagged(3): an open endpoint.
        let ep = unsafe { ep::of(ep) };
        let sending = Sending {
            peer: dest_addr,
            context,
            flags: ep.limits.tx_op_flags,
            data: None,
            tag: Some(tag),
            silent: false,
        };
        give(ep, &Memory::one(buf, len, desc), &sending)
    })
}

unsafe extern "C" fn sendv(
    ep: *mut b::fid_ep,
    iov: *const libc::iovec,
    desc: *mut *mut c_void,
    count: usize,
    dest_addr: b::fi_addr_t,
    tag: u64,
    context: *mut c_void,
) -> isize {
    posted(|| {
        // SAFETY: fi_tagged(3): an open endpoint.
        let ep = unsafe { ep::of(ep) };
        // SAFETY: fi_tagged(3): arrays of `count`.
        let memory = unsafe { Memory::many(iov, desc, count) }?;
        let sending = Sending {
            peer: dest_addr,
            context,
            flags: ep.limits.tx_op_flags,
            data: None,
            tag: Some(tag),
            silent: false,
        };
        give(ep, &memory, &sending)
    })
}

unsafe extern "C" fn sendmsg(
    ep: *mut b::fid_ep,
    msg: *const b::fi_msg_tagged,
    flags: u64,
) -> isize {
    posted(|| {
        // SAFETY: fi_tagged(3): an open endpoint.
        let ep = unsafe { ep::of(ep) };
        // SAFETY: fi_tagged(3): a message.
        let msg = unsafe { &*msg };
        // SAFETY: fi_tagged(3): arrays of `iov_count`.
        let memory = unsafe { Memory::many(msg.msg_iov, msg.desc, msg.iov_count) }?;
        let sending = Sending {
            peer: msg.addr,
            context: msg.context,
            flags,
            data: data(flags, msg.data),
            tag: Some(msg.tag),
            silent: false,
        };
        give(ep, &memory, &sending)
    })
}

fn injected(peer: u64, tag: u64, data: Option<u64>) -> Sending {
    Sending {
        peer,
        context: core::ptr::null_mut(),
        flags: c::FI_INJECT,
        data,
        tag: Some(tag),
        silent: true,
    }
}

unsafe extern "C" fn inject(
    ep: *mut b::fid_ep,
    buf: *const c_void,
    len: usize,
    dest_addr: b::fi_addr_t,
    tag: u64,
) -> isize {
    posted(|| {
        // SAFETY: fi_tagged(3): an open endpoint.
        let ep = unsafe { ep::of(ep) };
        let memory = Memory::one(buf, len, core::ptr::null_mut());
        give(ep, &memory, &injected(dest_addr, tag, None))
    })
}

unsafe extern "C" fn senddata(
    ep: *mut b::fid_ep,
    buf: *const c_void,
    len: usize,
    desc: *mut c_void,
    data: u64,
    dest_addr: b::fi_addr_t,
    tag: u64,
    context: *mut c_void,
) -> isize {
    posted(|| {
        // SAFETY: fi_tagged(3): an open endpoint.
        let ep = unsafe { ep::of(ep) };
        let sending = Sending {
            peer: dest_addr,
            context,
            flags: ep.limits.tx_op_flags,
            data: Some(data),
            tag: Some(tag),
            silent: false,
        };
        give(ep, &Memory::one(buf, len, desc), &sending)
    })
}

unsafe extern "C" fn injectdata(
    ep: *mut b::fid_ep,
    buf: *const c_void,
    len: usize,
    data: u64,
    dest_addr: b::fi_addr_t,
    tag: u64,
) -> isize {
    posted(|| {
        // SAFETY: fi_tagged(3): an open endpoint.
        let ep = unsafe { ep::of(ep) };
        let memory = Memory::one(buf, len, core::ptr::null_mut());
        give(ep, &memory, &injected(dest_addr, tag, Some(data)))
    })
}
