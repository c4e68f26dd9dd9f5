//! Remote memory access, fi_rma(3).

use ofi_sys::bindings::{fi_msg_rma, fi_rma_iov};
use ofi_sys::ops;

use crate::context::Context2;
use crate::endpoint::Endpoint;
use crate::error::{FabricError, Posted, check_post};
use crate::flags::PostFlags;
use crate::post::{Sink, Source, Target};

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
