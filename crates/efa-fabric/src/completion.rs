//! An operation that failed, as its completion tells it.

use core::ffi::{c_int, c_void};
use core::fmt;

use ofi_sys::grown::fi_cq_err_entry;

use crate::context::Context2;
use crate::error::Errno;
use crate::flags::CompletionFlags;

/// A failed operation, fi_cq(3). Not a [`FabricError`](crate::FabricError): that is a call that
/// failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletionError {
    context: *mut Context2,
    flags: CompletionFlags,
    errno: Errno,
    prov_errno: c_int,
    text: String,
    len: usize,
    overflow: usize,
    data: u64,
    tag: u64,
    buf: *mut c_void,
}

// SAFETY: the pointers are carried, never followed here.
unsafe impl Send for CompletionError {}
// SAFETY: as above.
unsafe impl Sync for CompletionError {}

impl CompletionError {
    pub(crate) fn new(entry: &fi_cq_err_entry, text: String) -> Self {
        Self {
            context: entry.op_context.cast(),
            flags: CompletionFlags::from_bits_retain(entry.flags),
            errno: Errno::from_code(entry.err),
            prov_errno: entry.prov_errno,
            text,
            len: entry.len,
            overflow: entry.olen,
            data: entry.data,
            tag: entry.tag,
            buf: entry.buf,
        }
    }

    /// Context of the operation; null for an incoming write.
    #[must_use]
    pub const fn context(&self) -> *mut Context2 {
        self.context
    }

    /// What kind of operation it was; incomplete on some providers.
    #[must_use]
    pub const fn flags(&self) -> CompletionFlags {
        self.flags
    }

    /// libfabric's number.
    #[must_use]
    pub const fn errno(&self) -> Errno {
        self.errno
    }

    /// The provider's own number, as it is.
    #[must_use]
    pub const fn prov_errno(&self) -> c_int {
        self.prov_errno
    }

    /// The provider's own words, at most 256 characters; may be empty.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Bytes moved before the error; of a truncated message how long it was, or 0.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether no bytes were moved before the error.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes that did not fit, of a truncated message; 0 on providers that do not tell.
    #[must_use]
    pub const fn overflow(&self) -> usize {
        self.overflow
    }

    /// CQ data, with [`CompletionFlags::REMOTE_CQ_DATA`].
    #[must_use]
    pub const fn data(&self) -> u64 {
        self.data
    }

    /// Tag of a tagged message, where the provider tells it.
    #[must_use]
    pub const fn tag(&self) -> u64 {
        self.tag
    }

    /// The buffer, where the provider tells it.
    #[must_use]
    pub const fn buf(&self) -> *mut c_void {
        self.buf
    }

    /// Whether it was cancelled, or flushed because its endpoint or connection went away.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.errno == Errno::ECANCELED
    }

    /// Whether a message was longer than the buffer it met.
    ///
    /// Measured: what fits is in the buffer, and the next message comes, on native tcp from 1.22 on
    /// (which says neither length nor overflow). `net` of 1.17, and `tcp;ofi_rxm` of 1.17 for messages
    /// up to 16 KiB, place nothing and drop the connection, so that the next message is lost.
    /// `tcp;ofi_rxm` from 1.22 on places what fits, but the rest of a message that it sends in segments
    /// (some 16 KiB to 128 KiB) then meets the *next* receive. shm places what fits up to 4 KiB, and
    /// wedges or gives no event beyond.
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        self.errno == Errno::ETRUNC
    }
}

impl fmt::Display for CompletionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "operation ({:?}) failed: {}", self.flags, self.errno)?;
        write!(f, "; provider error {}", self.prov_errno)?;
        if !self.text.is_empty() {
            write!(f, " ({})", self.text)?;
        }
        if self.overflow > 0 {
            write!(f, "; {} bytes did not fit", self.overflow)?;
        }
        Ok(())
    }
}

impl core::error::Error for CompletionError {}

#[cfg(test)]
mod tests {
    use super::*;
    use ofi_sys::grown::Padded;

    #[test]
    fn a_negative_errno_is_the_same_error() {
        let mut entry = Padded::<fi_cq_err_entry>::zeroed();
        entry.get_mut().err = -265;
        entry.get_mut().olen = 90;
        let error = CompletionError::new(entry.get(), String::from("too long"));
        assert!(error.is_truncated());
        let text = error.to_string();
        assert!(text.contains("FI_ETRUNC (265)"), "{text}");
        assert!(text.contains("(too long); 90 bytes did not fit"), "{text}");
    }
}
