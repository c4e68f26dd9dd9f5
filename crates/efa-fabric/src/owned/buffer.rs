//! Registered bytes with one owner.

use core::fmt;
use core::ops::{Deref, DerefMut, Range};
use core::ptr::NonNull;

use crate::domain::Domain;
use crate::error::FabricError;

use crate::flags::Access;
use crate::mr::{Mr, MrRequest};
use crate::post::{Sink, Source};

/// Bytes registered for local use: to send, receive, write and read with, never open to peers. Reads
/// and writes as a slice; moves into an operation and comes back when it is complete.
///
/// Typed data goes through bytes: a region of anything else would let the wire write pointers.
///
/// ```compile_fail,E0308
/// # fn misuse(port: &efa_fabric::Port, vectors: Vec<Vec<u8>>) {
/// let buffer: efa_fabric::Buffer = efa_fabric::Buffer::from_bytes(port.domain(), vectors).unwrap();
/// # }
/// ```
pub struct Buffer {
    /// `None` only while it is dropped.
    mr: Option<Mr>,
    /// From `Box::into_raw`: not a Box, whose uniqueness would end the provider's right to it when
    /// the buffer moves.
    bytes: NonNull<[u8]>,
}

// SAFETY: owns its bytes like a Box<[u8]>, and a region, which is Send.
unsafe impl Send for Buffer {}
// SAFETY: shared references only read the bytes.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// `len` zero bytes.
    ///
    /// # Errors
    ///
    /// What registration says.
    pub fn zeroed(domain: &Domain, len: usize) -> Result<Self, FabricError> {
        Self::from_bytes(domain, vec![0; len])
    }

    /// These bytes; they are not copied if the vector is full.
    ///
    /// # Errors
    ///
    /// What registration says.
    pub fn from_bytes(domain: &Domain, bytes: Vec<u8>) -> Result<Self, FabricError> {
        let bytes = NonNull::from(Box::leak(bytes.into_boxed_slice()));
        // Dropped without a region if registration fails.
        let mut buffer = Self { mr: None, bytes };
        let access = Access::SEND | Access::RECV | Access::READ | Access::WRITE;
        let request = MrRequest {
            requested_key: domain.fresh_key(),
            ..MrRequest::host(bytes.as_ptr().cast(), bytes.len(), access)
        };
        // SAFETY: host memory that this object owns and frees only after the region is closed; peers
        // get no access.
        buffer.mr = Some(unsafe { Mr::register(domain, &request) }?);
        Ok(buffer)
    }

    /// Whether its region belongs to this domain.
    pub(crate) fn is_of(&self, domain: &Domain) -> bool {
        self.mr
            .as_ref()
            .is_some_and(|mr| mr.domain().is_same(domain))
    }

    /// A part as the source of a post; `None` if it is not within the buffer.
    pub(crate) fn source(&self, part: Range<usize>) -> Option<Source> {
        let desc = self.mr.as_ref()?.desc();
        let bytes = self.get(part)?;
        // The pointer is made from the owner, not from the borrow, so that it outlives it.
        let offset = bytes.as_ptr().addr() - self.bytes.as_ptr().cast::<u8>().addr();
        let ptr = self.bytes.as_ptr().cast::<u8>().wrapping_add(offset);
        Some(Source {
            ptr,
            len: bytes.len(),
            desc,
        })
    }

    /// All of it as the sink of a post.
    pub(crate) fn sink(&self) -> Option<Sink> {
        let desc = self.mr.as_ref()?.desc();
        Some(Sink {
            ptr: self.bytes.as_ptr().cast(),
            len: self.bytes.len(),
            desc,
        })
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: owned and initialized; while it can be borrowed no operation is using it, since
        // operations take it by value.
        unsafe { self.bytes.as_ref() }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and borrowed mutably.
        unsafe { self.bytes.as_mut() }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let refused = self.mr.take().and_then(|mr| mr.close().err());
        if let Some(failed) = refused {
            // Still registered: the memory must stay.
            failed.object.abandon();
            return;
        }
        // SAFETY: came from a Box, is owned by this object alone and no longer registered.
        drop(unsafe { Box::from_raw(self.bytes.as_ptr()) });
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.bytes.len())
    }
}
