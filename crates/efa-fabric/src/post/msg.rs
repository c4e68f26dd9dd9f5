//! Messages, fi_msg(3).

use core::ffi::c_void;
use core::ptr;

use ofi_sys::bindings::fi_msg;
use ofi_sys::ops;

use crate::av::PeerAddr;
use crate::context::Context2;
use crate::endpoint::Endpoint;
use crate::error::{FabricError, Posted, check_post};
use crate::flags::PostFlags;
use crate::post::{Sink, Source};

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
