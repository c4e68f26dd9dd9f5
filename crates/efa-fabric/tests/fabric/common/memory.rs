//! Registered bytes for tests: peers may write them, so they are never borrowed.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU64, Ordering};

use efa_fabric::{Access, Domain, Mr, MrRequest, PeerAddr, Sink, Source, Target};

static NEXT_KEY: AtomicU64 = AtomicU64::new(1000);

/// Bytes with their registration. The region is declared first: it closes before the bytes are freed.
#[derive(Debug)]
pub(crate) struct Block {
    mr: Mr,
    bytes: Box<[UnsafeCell<u8>]>,
    virtual_addresses: bool,
}

impl Block {
    /// `len` zero bytes, registered for everything.
    pub(crate) fn new(domain: &Domain, len: usize) -> Self {
        let bytes: Box<[UnsafeCell<u8>]> = (0..len).map(|_| UnsafeCell::new(0)).collect();
        let access = Access::SEND
            | Access::RECV
            | Access::READ
            | Access::WRITE
            | Access::REMOTE_READ
            | Access::REMOTE_WRITE;
        let request = MrRequest {
            requested_key: NEXT_KEY.fetch_add(1, Ordering::Relaxed),
            ..MrRequest::host(bytes.as_ptr().cast(), len, access)
        };
        // SAFETY: host memory that outlives the region (field order), only touched through cells.
        // The tests close endpoints before blocks where peers are still active.
        let mr = unsafe { Mr::register(domain, &request) }.expect("registration");
        Self {
            mr,
            bytes,
            virtual_addresses: domain.info().uses_virtual_addresses(),
        }
    }

    /// `bytes`, registered for everything.
    pub(crate) fn of(domain: &Domain, bytes: &[u8]) -> Self {
        let block = Self::new(domain, bytes.len());
        block.fill(bytes);
        block
    }

    /// Overwrites the front.
    pub(crate) fn fill(&self, bytes: &[u8]) {
        assert!(bytes.len() <= self.bytes.len());
        for (cell, byte) in self.bytes.iter().zip(bytes) {
            // SAFETY: in bounds; volatile, since a peer may look at any time.
            unsafe { cell.get().write_volatile(*byte) };
        }
    }

    /// A copy of all bytes.
    pub(crate) fn read(&self) -> Vec<u8> {
        // SAFETY: in bounds; volatile, since a peer may write at any time.
        self.bytes
            .iter()
            .map(|cell| unsafe { cell.get().read_volatile() })
            .collect()
    }

    pub(crate) fn source(&self) -> Source {
        Source {
            ptr: self.bytes.as_ptr().cast(),
            len: self.bytes.len(),
            desc: self.mr.desc(),
        }
    }

    pub(crate) fn sink(&self) -> Sink {
        let ptr = self.bytes.as_ptr().cast_mut().cast();
        Sink {
            ptr,
            len: self.bytes.len(),
            desc: self.mr.desc(),
        }
    }

    /// The whole block, as a peer with this number names it.
    pub(crate) fn target(&self, peer: PeerAddr) -> Target {
        let addr = if self.virtual_addresses {
            self.bytes.as_ptr().addr()
        } else {
            0
        };
        Target {
            peer,
            addr: addr as u64,
            key: self.mr.key(),
        }
    }
}
