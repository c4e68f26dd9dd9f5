//! Layer 1: posts, one provider call each, no allocation, nothing kept.
//!
//! # The contract of all posts
//!
//! Every `post_*` is unsafe because libfabric goes on using what it was given after the call
//! returned. Whoever posts promises:
//!
//! 1. **Memory.** A [`Source`] is readable, a [`Sink`] writable for its length, and covered by a
//!    region of *this endpoint's domain* whose [`Desc`] is given, where the provider's
//!    [`mr_mode`](crate::Info::mr_mode) has LOCAL (or HMEM, for device memory). It stays so, and the
//!    bytes of a source unchanged and those of a sink unread, from the call until the completion
//!    with the same context was read, or the endpoint closed. Injecting posts need it only during
//!    the call.
//! 2. **Context.** It points to a [`Context2`] that does not move and serves no other operation
//!    until then.
//! 3. **Peer.** The [`PeerAddr`] came from the [`Av`](crate::Av) bound to this endpoint and was not
//!    removed; for receives it may be [`PeerAddr::ANY`].
//! 4. **Target.** Address and key of an RMA operation were given out by the peer for this use. A
//!    wrong one cannot harm this process; what the peer sees differs by provider (an error, silence,
//!    even a reported success).
//! 5. **Room.** Injected lengths are at most [`Info::inject_size`](crate::Info::inject_size) (EFA
//!    allows less for writes: [`SizeOption::InjectRmaSize`](crate::SizeOption::InjectRmaSize)).
//!
//! If the answer is [`Posted::Busy`] or an error, nothing was taken and the promise is over.
//!
//! A write of zero bytes needs a good address, key and descriptor all the same: with zeros some
//! providers drop the connection, and one wedges.

use core::ffi::c_void;
use core::ptr;

use ofi_sys::bindings::{fi_msg, fi_msg_rma, fi_rma_iov};
use ofi_sys::ops;

use crate::av::PeerAddr;
use crate::context::Context2;
use crate::endpoint::Endpoint;
use crate::error::{FabricError, Posted, check_post};
use crate::flags::PostFlags;
use crate::mr::Desc;

/// Local memory to send from.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// Where it starts.
    pub ptr: *const u8,
    /// Bytes.
    pub len: usize,
    /// Descriptor of its region.
    pub desc: Desc,
}

/// Local memory to receive into.
#[derive(Clone, Copy, Debug)]
pub struct Sink {
    /// Where it starts.
    pub ptr: *mut u8,
    /// Bytes.
    pub len: usize,
    /// Descriptor of its region.
    pub desc: Desc,
}

/// Memory of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Whose.
    pub peer: PeerAddr,
    /// Virtual address in the peer, or offset in its region
    /// ([`Info::uses_virtual_addresses`](crate::Info::uses_virtual_addresses)).
    pub addr: u64,
    /// The region's key.
    pub key: u64,
}

impl Target {
    #[inline]
    const fn raw(self) -> ops::RmaTarget {
        ops::RmaTarget {
            peer: self.peer.as_raw(),
            addr: self.addr,
            key: self.key,
        }
    }
}

/// Messages.
impl Endpoint {
    /// Sends a message.
    ///
    /// # Safety
    ///
    /// The contract of [`crate::post`].
    ///
    /// # Errors
    ///
    /// What the provider says; never FI_EAGAIN.
    #[inline]
    pub unsafe fn post_send(
        &self,
        source: Source,
        peer: PeerAddr,
        context: *mut Context2,
    ) -> Result<Posted, FabricError> {
        let Source { ptr, len, desc } = source;
        // SAFETY: fi_msg(3): an enabled endpoint; the rest is the caller's promise.
        let code = unsafe {
            ops::fi_send(
                self.as_raw(),
                ptr.cast(),
                len,
                desc.as_raw(),
                peer.as_raw(),
                context.cast(),
            )
        };
        check_post("fi_send", code)
    }

    /// Sends a message with CQ data, of which the provider's
    /// [`cq_data_size`](crate::Info::cq_data_size) low bytes arrive.
    ///
    /// # Safety
    ///
    /// The contract of [`crate::post`].
    ///
    /// # Errors
    ///
    /// What the provider says; never FI_EAGAIN.
    #[inline]
    pub unsafe fn post_senddata(
        &self,
        source: Source,
        data: u64,
        peer: PeerAddr,
        context: *mut Context2,
    ) -> Result<Posted, FabricError> {
        let Source { ptr, len, desc } = source;
        // SAFETY: fi_msg(3): an enabled endpoint; the rest is the caller's promise.
        let code = unsafe {
            ops::fi_senddata(
                self.as_raw(),
                ptr.cast(),
                len,
                desc.as_raw(),
                data,
                peer.as_raw(),
                context.cast(),
            )
        };
        check_post("fi_senddata", code)
    }

    /// Sends a small message at once: the bytes are copied during the call, and there is no
    /// completion.
    ///
    /// # Safety
    ///
    /// Points 3 and 5 of the contract of [`crate::post`].
    ///
    /// # Errors
    ///
    /// What the provider says; never FI_EAGAIN.
    #[inline]
    pub unsafe fn post_inject(&self, bytes: &[u8], peer: PeerAddr) -> Result<Posted, FabricError> {
        // SAFETY: fi_msg(3): an enabled endpoint; the bytes are used only during the call.
        let code = unsafe {
            ops::fi_inject(
                self.as_raw(),
                bytes.as_ptr().cast(),
                bytes.len(),
                peer.as_raw(),
            )
        };
        check_post("fi_inject", code)
    }

    /// [`Self::post_inject`] with CQ data.
    ///
    /// # Safety
    ///
    /// Points 3 and 5 of the contract of [`crate::post`].
    ///
    /// # Errors
    ///
    /// What the provider says; never FI_EAGAIN.
    #[inline]
    pub unsafe fn post_injectdata(
        &self,
        bytes: &[u8],
        data: u64,
        peer: PeerAddr,
    ) -> Result<Posted, FabricError> {
        let (ptr, len) = (bytes.as_ptr().cast(), bytes.len());
        // SAFETY: fi_msg(3): an enabled endpoint; the bytes are used only during the call.
        let code = unsafe { ops::fi_injectdata(self.as_raw(), ptr, len, data, peer.as_raw()) };
        check_post("fi_injectdata", code)
    }

    /// Posts a receive buffer.
    ///
    /// # Safety
    ///
    /// The contract of [`crate::post`].
    ///
    /// # Errors
    ///
    /// What the provider says; never FI_EAGAIN. (shm says FI_ENOMEM when its receive queue is full.)
    #[inline]
    pub unsafe fn post_recv(
        &self,
        sink: Sink,
        peer: PeerAddr,
        context: *mut Context2,
    ) -> Result<Posted, FabricError> {
        let Sink { ptr, len, desc } = sink;
        // SAFETY: fi_msg(3): an enabled endpoint; the rest is the caller's promise.
        let code = unsafe {
            ops::fi_recv(
                self.as_raw(),
                ptr.cast(),
                len,
                desc.as_raw(),
                peer.as_raw(),
                context.cast(),
            )
        };
        check_post("fi_recv", code)
    }

    /// Posts a receive buffer with flags, for [`PostFlags::MORE`].
    ///
    /// # Safety
    ///
    /// The contract of [`crate::post`].
    ///
    /// # Errors
    ///
    /// What the provider says; never FI_EAGAIN.
    #[inline]
    pub unsafe fn post_recvmsg(
        &self,
        sink: Sink,
        peer: PeerAddr,
        context: *mut Context2,
        flags: PostFlags,
    ) -> Result<Posted, FabricError> {
        let iov = libc::iovec {
            iov_base: sink.ptr.cast(),
            iov_len: sink.len,
        };
        let mut desc = sink.desc.as_raw();
        let message = message(&iov, &mut desc, peer, context);
        // SAFETY: fi_msg(3): an enabled endpoint; message, segment and descriptor are read during
        // the call; the rest is the caller's promise.
        let code = unsafe { ops::fi_recvmsg(self.as_raw(), &raw const message, flags.bits()) };
        check_post("fi_recvmsg", code)
    }

    /// Sends a message with flags; `data` goes along with [`PostFlags::REMOTE_CQ_DATA`].
    ///
    /// # Safety
    ///
    /// The contract of [`crate::post`].
    ///
    /// # Errors
    ///
    /// What the provider says; never FI_EAGAIN.
    #[inline]
    pub unsafe fn post_sendmsg(
        &self,
        source: Source,
        data: u64,
        peer: PeerAddr,
        context: *mut Context2,
        flags: PostFlags,
    ) -> Result<Posted, FabricError> {
        let iov = libc::iovec {
            iov_base: source.ptr.cast_mut().cast(),
            iov_len: source.len,
        };
        let mut desc = source.desc.as_raw();
        let mut message = message(&iov, &mut desc, peer, context);
        message.data = data;
        // SAFETY: fi_msg(3): an enabled endpoint; message, segment and descriptor are read during
        // the call; the rest is the caller's promise.
        let code = unsafe { ops::fi_sendmsg(self.as_raw(), &raw const message, flags.bits()) };
        check_post("fi_sendmsg", code)
    }
}

/// A message of one segment.
#[inline]
const fn message(
    iov: &libc::iovec,
    desc: &mut *mut c_void,
    peer: PeerAddr,
    context: *mut Context2,
) -> fi_msg {
    fi_msg {
        msg_iov: ptr::from_ref(iov),
        desc: ptr::from_mut(desc),
        iov_count: 1,
        addr: peer.as_raw(),
        context: context.cast(),
        data: 0,
    }
}

/// Remote memory access.
impl Endpoint {
    /// Writes into a peer's memory; the peer is not told.
    ///
    /// # Safety
    ///
    /// The contract of [`crate::post`].
    ///
    /// # Errors
    ///
    /// What the provider says; never FI_EAGAIN.
    #[inline]
    pub unsafe fn post_write(
        &self,
        source: Source,
        target: Target,
        context: *mut Context2,
    ) -> Result<Posted, FabricError> {
        let Source { ptr, len, desc } = source;
        // SAFETY: fi_rma(3): an enabled endpoint; the rest is the caller's promise.
        let code = unsafe {
            ops::fi_write(
                self.as_raw(),
                ptr.cast(),
                len,
                desc.as_raw(),
                target.raw(),
                context.cast(),
            )
        };
        check_post("fi_write", code)
    }

    /// Writes into a peer's memory and gives the peer a completion with `data`, of which the
    /// provider's [`cq_data_size`](crate::Info::cq_data_size) low bytes arrive.
    ///
    /// # Safety
    ///
    /// The contract of [`crate::post`].
    ///
    /// # Errors
    ///
    /// What the provider says; never FI_EAGAIN.
    #[inline]
    pub unsafe fn post_writedata(
        &self,
        source: Source,
        data: u64,
        target: Target,
        context: *mut Context2,
    ) -> Result<Posted, FabricError> {
        let Source { ptr, len, desc } = source;
        // SAFETY: fi_rma(3): an enabled endpoint; the rest is the caller's promise.
        let code = unsafe {
            ops::fi_writedata(
                self.as_raw(),
                ptr.cast(),
                len,
                desc.as_raw(),
                data,
                target.raw(),
                context.cast(),
            )
        };
        check_post("fi_writedata", code)
    }

    /// Writes with flags; `data` goes along with [`PostFlags::REMOTE_CQ_DATA`].
    ///
    /// # Safety
    ///
    /// The contract of [`crate::post`].
    ///
    /// # Errors
    ///
    /// What the provider says; never FI_EAGAIN.
    #[inline]
    pub unsafe fn post_writemsg(
        &self,
        source: Source,
        data: u64,
        target: Target,
        context: *mut Context2,
        flags: PostFlags,
    ) -> Result<Posted, FabricError> {
        let iov = libc::iovec {
            iov_base: source.ptr.cast_mut().cast(),
            iov_len: source.len,
        };
        let rma = fi_rma_iov {
            addr: target.addr,
            len: source.len,
            key: target.key,
        };
        let mut desc = source.desc.as_raw();
        let message = fi_msg_rma {
            msg_iov: &raw const iov,
            desc: &raw mut desc,
            iov_count: 1,
            addr: target.peer.as_raw(),
            rma_iov: &raw const rma,
            rma_iov_count: 1,
            context: context.cast(),
            data,
        };
        // SAFETY: fi_rma(3): an enabled endpoint; message, segments and descriptor are read during
        // the call; the rest is the caller's promise.
        let code = unsafe { ops::fi_writemsg(self.as_raw(), &raw const message, flags.bits()) };
        check_post("fi_writemsg", code)
    }

    /// Writes a few bytes at once: they are copied during the call, and there is no completion.
    ///
    /// # Safety
    ///
    /// Points 3 to 5 of the contract of [`crate::post`].
    ///
    /// # Errors
    ///
    /// What the provider says; never FI_EAGAIN.
    #[inline]
    pub unsafe fn post_inject_write(
        &self,
        bytes: &[u8],
        target: Target,
    ) -> Result<Posted, FabricError> {
        let (ptr, len) = (bytes.as_ptr().cast(), bytes.len());
        // SAFETY: fi_rma(3): an enabled endpoint; the bytes are used only during the call.
        let code = unsafe { ops::fi_inject_write(self.as_raw(), ptr, len, target.raw()) };
        check_post("fi_inject_write", code)
    }

    /// [`Self::post_inject_write`] with CQ data for the peer.
    ///
    /// # Safety
    ///
    /// Points 3 to 5 of the contract of [`crate::post`].
    ///
    /// # Errors
    ///
    /// What the provider says; never FI_EAGAIN.
    #[inline]
    pub unsafe fn post_inject_writedata(
        &self,
        bytes: &[u8],
        data: u64,
        target: Target,
    ) -> Result<Posted, FabricError> {
        let (ptr, len) = (bytes.as_ptr().cast(), bytes.len());
        // SAFETY: fi_rma(3): an enabled endpoint; the bytes are used only during the call.
        let code = unsafe { ops::fi_inject_writedata(self.as_raw(), ptr, len, data, target.raw()) };
        check_post("fi_inject_writedata", code)
    }

    /// Reads a peer's memory.
    ///
    /// # Safety
    ///
    /// The contract of [`crate::post`].
    ///
    /// # Errors
    ///
    /// What the provider says; never FI_EAGAIN.
    #[inline]
    pub unsafe fn post_read(
        &self,
        sink: Sink,
        target: Target,
        context: *mut Context2,
    ) -> Result<Posted, FabricError> {
        let Sink { ptr, len, desc } = sink;
        // SAFETY: fi_rma(3): an enabled endpoint; the rest is the caller's promise.
        let code = unsafe {
            ops::fi_read(
                self.as_raw(),
                ptr.cast(),
                len,
                desc.as_raw(),
                target.raw(),
                context.cast(),
            )
        };
        check_post("fi_read", code)
    }
}
