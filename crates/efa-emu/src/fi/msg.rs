//! Messages, fi_msg(3).

use core::ffi::{c_int, c_void};

use ofi_sys::bindings as b;
use ofi_sys::consts as c;
use ofi_sys::errno as e;

use super::ep;
use super::guard::posted;
use super::iov::Memory;
use crate::engine::endpoint::Ep;
use crate::engine::op::{Kind, Remote};
use crate::engine::post::Request;
use crate::mem::receives::{Posted, Queue};

pub(super) static OPS: b::fi_ops_msg = b::fi_ops_msg {
    size: size_of::<b::fi_ops_msg>(),
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

/// Tag, and the bits of it that do not matter.
pub(super) type Tag = (u64, u64);

/// Posts a receive.
pub(super) fn take(
    ep: &Ep,
    memory: &Memory,
    context: *mut c_void,
    tag: Option<Tag>,
) -> Result<(), c_int> {
    if memory.pieces().len() > ep.limits.iov[1] {
        return Err(e::FI_EINVAL);
    }
    let (tag_bits, ignore) = tag.unwrap_or_default();
    let mut receive = Posted {
        context: context.expose_provenance() as u64,
        tag: tag_bits,
        ignore,
        ..Posted::default()
    };
    let given = memory.pieces().iter().zip(memory.keys());
    for ((piece, key), (from, from_key)) in receive.iov.iter_mut().zip(&mut receive.keys).zip(given)
    {
        *piece = *from;
        *key = *from_key;
    }
    let queue = tag.map_or(Queue::Untagged, |_| Queue::Tagged);
    ep.post_receive(queue, &receive)
}

/// What a send is, beside its memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sending {
    pub(super) peer: u64,
    pub(super) context: *mut c_void,
    pub(super) flags: u64,
    pub(super) data: Option<u64>,
    pub(super) tag: Option<u64>,
    pub(super) silent: bool,
}

/// Posts a send.
pub(super) fn give(ep: &Ep, memory: &Memory, sending: &Sending) -> Result<(), c_int> {
    ep.post(&Request {
        kind: Kind::Send,
        context: sending.context.expose_provenance() as u64,
        flags: sending.flags,
        pieces: memory.pieces(),
        keys: memory.keys(),
        remote: Remote::default(),
        peer: sending.peer,
        data: sending.data,
        tag: sending.tag,
        silent: sending.silent,
    })
}

/// The data of a message whose flags say that there is some.
pub(super) fn data(flags: u64, data: u64) -> Option<u64> {
    (flags & c::FI_REMOTE_CQ_DATA != 0).then_some(data)
}

unsafe extern "C" fn recv(
    ep: *mut b::fid_ep,
    buf: *mut c_void,
    len: usize,
    desc: *mut c_void,
    _src_addr: b::fi_addr_t,
    context: *mut c_void,
) -> isize {
    posted(|| {
        // SAFETY: fi_msg(3): an open endpoint.
        let ep = unsafe { ep::of(ep) };
        take(ep, &Memory::one(buf, len, desc), context, None)
    })
}

unsafe extern "C" fn recvv(
    ep: *mut b::fid_ep,
    iov: *const libc::iovec,
    desc: *mut *mut c_void,
    count: usize,
    _src_addr: b::fi_addr_t,
    context: *mut c_void,
) -> isize {
    posted(|| {
        // SAFETY: fi_msg(3): an open endpoint.
        let ep = unsafe { ep::of(ep) };
        // SAFETY: fi_msg(3): arrays of `count`.
        let memory = unsafe { Memory::many(iov, desc, count) }?;
        take(ep, &memory, context, None)
    })
}

unsafe extern "C" fn recvmsg(ep: *mut b::fid_ep, msg: *const b::fi_msg, flags: u64) -> isize {
    posted(|| {
        // SAFETY: fi_msg(3): an open endpoint.
        let ep = unsafe { ep::of(ep) };
        // SAFETY: fi_msg(3): a message.
        let msg = unsafe { &*msg };
        if flags & !(c::FI_COMPLETION | c::FI_MORE) != 0 {
            return Err(e::FI_EBADFLAGS);
        }
        // SAFETY: fi_msg(3): arrays of `iov_count`.
        let memory = unsafe { Memory::many(msg.msg_iov, msg.desc, msg.iov_count) }?;
        take(ep, &memory, msg.context, None)
    })
}

unsafe extern "C" fn send(
    ep: *mut b::fid_ep,
    buf: *const c_void,
    len: usize,
    desc: *mut c_void,
    dest_addr: b::fi_addr_t,
    context: *mut c_void,
) -> isize {
    posted(|| {
        // SAFETY: fi_msg(3): an open endpoint.
        let ep = unsafe { ep::of(ep) };
        let sending = Sending {
            peer: dest_addr,
            context,
            flags: ep.limits.tx_op_flags,
            data: None,
            tag: None,
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
    context: *mut c_void,
) -> isize {
    posted(|| {
        // SAFETY: fi_msg(3): an open endpoint.
        let ep = unsafe { ep::of(ep) };
        // SAFETY: fi_msg(3): arrays of `count`.
        let memory = unsafe { Memory::many(iov, desc, count) }?;
        let sending = Sending {
            peer: dest_addr,
            context,
            flags: ep.limits.tx_op_flags,
            data: None,
            tag: None,
            silent: false,
        };
        give(ep, &memory, &sending)
    })
}

unsafe extern "C" fn sendmsg(ep: *mut b::fid_ep, msg: *const b::fi_msg, flags: u64) -> isize {
    posted(|| {
        // SAFETY: fi_msg(3): an open endpoint.
        let ep = unsafe { ep::of(ep) };
        // SAFETY: fi_msg(3): a message.
        let msg = unsafe { &*msg };
        // SAFETY: fi_msg(3): arrays of `iov_count`.
        let memory = unsafe { Memory::many(msg.msg_iov, msg.desc, msg.iov_count) }?;
        let sending = Sending {
            peer: msg.addr,
            context: msg.context,
            flags,
            data: data(flags, msg.data),
            tag: None,
            silent: false,
        };
        give(ep, &memory, &sending)
    })
}

unsafe extern "C" fn inject(
    ep: *mut b::fid_ep,
    buf: *const c_void,
    len: usize,
    dest_addr: b::fi_addr_t,
) -> isize {
    posted(|| {
        // SAFETY: fi_msg(3): an open endpoint.
        let ep = unsafe { ep::of(ep) };
        give(
            ep,
            &Memory::one(buf, len, core::ptr::null_mut()),
            &injected(dest_addr, None),
        )
    })
}

/// An injected message: its buffer is free at once, and success is not told.
fn injected(peer: u64, data: Option<u64>) -> Sending {
    Sending {
        peer,
        context: core::ptr::null_mut(),
        flags: c::FI_INJECT,
        data,
        tag: None,
        silent: true,
    }
}

unsafe extern "C" fn senddata(
    ep: *mut b::fid_ep,
    buf: *const c_void,
    len: usize,
    desc: *mut c_void,
    data: u64,
    dest_addr: b::fi_addr_t,
    context: *mut c_void,
) -> isize {
    posted(|| {
        // SAFETY: fi_msg(3): an open endpoint.
        let ep = unsafe { ep::of(ep) };
        let sending = Sending {
            peer: dest_addr,
            context,
            flags: ep.limits.tx_op_flags,
            data: Some(data),
            tag: None,
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
) -> isize {
    posted(|| {
        // SAFETY: fi_msg(3): an open endpoint.
        let ep = unsafe { ep::of(ep) };
        let memory = Memory::one(buf, len, core::ptr::null_mut());
        give(ep, &memory, &injected(dest_addr, Some(data)))
    })
}
