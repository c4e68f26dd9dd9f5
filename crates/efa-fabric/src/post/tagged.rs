//! Posts of tagged messages, fi_tagged(3).

use ofi_sys::ops;

use crate::av::PeerAddr;
use crate::context::Context2;
use crate::endpoint::Endpoint;
use crate::error::{FabricError, Posted, check_post};
use crate::post::{Sink, Source};

/// Which messages a tagged receive takes: those whose tag is `tag` but for the bits in `ignore`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TagMatch {
    /// The tag.
    pub tag: u64,
    /// Bits of it that do not matter.
    pub ignore: u64,
}

impl TagMatch {
    /// This tag and no other.
    #[must_use]
    pub const fn exactly(tag: u64) -> Self {
        Self { tag, ignore: 0 }
    }
}

/// Tagged messages: the entry has to have [`Caps::TAGGED`](crate::Caps::TAGGED).
impl Endpoint {
    /// Sends a tagged message. Messages of one sender with one tag meet the receives for it in the order
    /// of both posts if the entry's [`msg_order`](crate::Info::msg_order) has FI_ORDER_SAS.
    ///
    /// # Safety
    ///
    /// The contract of [`crate::post`].
    ///
    /// # Errors
    ///
    /// What the provider says; never FI_EAGAIN.
    #[inline]
    pub unsafe fn post_tsend(
        &self,
        source: Source,
        peer: PeerAddr,
        tag: u64,
        context: *mut Context2,
    ) -> Result<Posted, FabricError> {
        let Source { ptr, len, desc } = source;
        // SAFETY: fi_tagged(3): an enabled endpoint; the rest is the caller's promise.
        let code = unsafe {
            ops::fi_tsend(
                self.as_raw(),
                ptr.cast(),
                len,
                desc.as_raw(),
                peer.as_raw(),
                tag,
                context.cast(),
            )
        };
        check_post("fi_tsend", code)
    }

    /// Sends a small tagged message at once: the bytes are copied during the call, and there is no
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
    pub unsafe fn post_tinject(
        &self,
        bytes: &[u8],
        peer: PeerAddr,
        tag: u64,
    ) -> Result<Posted, FabricError> {
        let (ptr, len) = (bytes.as_ptr().cast(), bytes.len());
        // SAFETY: fi_tagged(3): an enabled endpoint; the bytes are used only during the call.
        let code = unsafe { ops::fi_tinject(self.as_raw(), ptr, len, peer.as_raw(), tag) };
        check_post("fi_tinject", code)
    }

    /// Posts a buffer for a tagged message.
    ///
    /// # Safety
    ///
    /// The contract of [`crate::post`].
    ///
    /// # Errors
    ///
    /// What the provider says; never FI_EAGAIN. (shm says FI_ENOMEM when its receive queue is full.)
    #[inline]
    pub unsafe fn post_trecv(
        &self,
        sink: Sink,
        peer: PeerAddr,
        wanted: TagMatch,
        context: *mut Context2,
    ) -> Result<Posted, FabricError> {
        let Sink { ptr, len, desc } = sink;
        let TagMatch { tag, ignore } = wanted;
        // SAFETY: fi_tagged(3): an enabled endpoint; the rest is the caller's promise.
        let code = unsafe {
            ops::fi_trecv(
                self.as_raw(),
                ptr.cast(),
                len,
                desc.as_raw(),
                peer.as_raw(),
                tag,
                ignore,
                context.cast(),
            )
        };
        check_post("fi_trecv", code)
    }
}
