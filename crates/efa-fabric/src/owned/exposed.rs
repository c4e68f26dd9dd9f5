//! Registered bytes that peers may access at any time.

use core::fmt;
use core::sync::atomic::{AtomicU8, Ordering};
use std::sync::Arc;

use crate::domain::Domain;
use crate::error::FabricError;
use crate::flags::Access;
use crate::mr::{Mr, MrRequest};

/// Bytes that peers may read or write. There are no slices of it, since a peer may change a byte at
/// any time: bytes are copied in and out.
///
/// Dropping it ends the peers' access. The memory itself is freed when the last handle of its domain
/// is gone, because a provider may finish what it began before (fi_mr(3)).
///
/// ```compile_fail,E0277
/// # fn misuse(exposed: &efa_fabric::Exposed) -> u8 {
/// exposed[0]
/// # }
/// ```
pub struct Exposed {
    mr: Mr,
    bytes: Arc<[AtomicU8]>,
}

impl Exposed {
    /// `len` zero bytes, open to peers with [`Access::REMOTE_READ`], [`Access::REMOTE_WRITE`] or
    /// both; other bits are ignored.
    ///
    /// # Errors
    ///
    /// What registration says.
    pub fn zeroed(domain: &Domain, len: usize, access: Access) -> Result<Self, FabricError> {
        let bytes: Arc<[AtomicU8]> = (0..len).map(|_| AtomicU8::new(0)).collect();
        // The domain outlives its endpoints, and frees this after it has closed.
        domain.keep(Arc::clone(&bytes));
        let access = access & (Access::REMOTE_READ | Access::REMOTE_WRITE);
        let request = MrRequest {
            requested_key: domain.fresh_key(),
            ..MrRequest::host(bytes.as_ptr().cast(), len, access)
        };
        // SAFETY: host memory that the domain keeps until all its endpoints are closed; it is only
        // ever touched through atomics, so no reference forbids the peers' writes.
        let mr = unsafe { Mr::register(domain, &request) }?;
        Ok(Self { mr, bytes })
    }

    /// Bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Where it starts for peers: the address to give to them.
    #[must_use]
    pub fn address(&self) -> u64 {
        if self.mr.domain().info().uses_virtual_addresses() {
            self.bytes.as_ptr().addr() as u64
        } else {
            0
        }
    }

    /// The key to give to them.
    #[must_use]
    pub fn key(&self) -> u64 {
        self.mr.key()
    }

    /// Copies bytes out, as many as `out` holds and are there from `offset` on; says how many. What
    /// a peer writes meanwhile is seen or not, byte by byte.
    pub fn read_at(&self, offset: usize, out: &mut [u8]) -> usize {
        let from = self.bytes.get(offset..).unwrap_or_default();
        for (to, from) in out.iter_mut().zip(from) {
            *to = from.load(Ordering::Relaxed);
        }
        out.len().min(from.len())
    }

    /// Copies bytes in, as many as fit from `offset` on; says how many.
    pub fn write_at(&self, offset: usize, bytes: &[u8]) -> usize {
        let into = self.bytes.get(offset..).unwrap_or_default();
        for (to, from) in into.iter().zip(bytes) {
            to.store(*from, Ordering::Relaxed);
        }
        bytes.len().min(into.len())
    }
}

impl fmt::Debug for Exposed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Exposed({} bytes, key {:#x})", self.len(), self.key())
    }
}
