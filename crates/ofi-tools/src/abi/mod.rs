//! The plugin's C ABI, in both families and all versions, behind one small trait.
//!
//! ```text
//! library (dlopen, dlsym) -> neuron | nccl (tables, layout proofs) -> ops (one shape)
//!                                                                      |
//!                     logger (called by the plugin)   props            v
//!                     region (memory the plugin may touch) ------> plugin: Net
//! ```
//!
//! All `unsafe` of the crate is in this directory. What the rest sees is safe to call under one
//! assumption: the plugin keeps its ABI. It is foreign code in our process, and nothing can protect
//! us from one that does not; what *can* be bounded is: memory it was given stays mapped
//! ([`region`]), and no pointer of its own is ever dereferenced except its strings.

pub(crate) mod error;
mod flavor;
mod library;
pub(crate) mod logger;
mod nccl;
mod neuron;
mod open;
mod ops;
pub(crate) mod plugin;
pub(crate) mod process;
mod props;
pub(crate) mod region;
mod sig;

use core::ffi::c_void;
use core::ptr::NonNull;

pub(crate) use error::{AbiError, CallError};
pub(crate) use flavor::Flavor;
pub(crate) use plugin::{Device, Plugin};
pub(crate) use region::{Region, Regions};

/// The listening end of a connection to come.
#[derive(Debug)]
pub(crate) struct ListenComm(NonNull<c_void>);

/// The sending end of a connection.
#[derive(Debug)]
pub(crate) struct SendComm(NonNull<c_void>);

/// The receiving end of a connection.
#[derive(Debug)]
pub(crate) struct RecvComm(NonNull<c_void>);

/// A request in flight.
#[derive(Debug)]
pub(crate) struct Request(NonNull<c_void>);

/// A registered region.
#[derive(Debug)]
pub(crate) struct Buffer {
    pub(crate) region: Region,
    handle: *mut c_void,
}

#[cfg(test)]
impl Request {
    /// A request for a test's own network: any non-zero number.
    pub(crate) fn numbered(n: usize) -> Option<Self> {
        NonNull::new(core::ptr::without_provenance_mut(n)).map(Self)
    }

    pub(crate) fn number(&self) -> usize {
        self.0.as_ptr().addr()
    }
}

#[cfg(test)]
impl Buffer {
    /// A buffer that no plugin has registered.
    pub(crate) fn unregistered(region: Region) -> Self {
        Self {
            region,
            handle: core::ptr::null_mut(),
        }
    }
}

#[cfg(test)]
impl SendComm {
    /// A communicator of a test's own network.
    pub(crate) fn dangling() -> Self {
        Self(NonNull::dangling())
    }
}

#[cfg(test)]
impl RecvComm {
    /// A communicator of a test's own network.
    pub(crate) fn dangling() -> Self {
        Self(NonNull::dangling())
    }
}

/// Bytes `at..at + len` of a registered buffer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span<'b> {
    pub(crate) buffer: &'b Buffer,
    pub(crate) at: usize,
    pub(crate) len: usize,
}

/// The data path of a network: what the benchmarks are written against.
///
/// `Ok(None)` of the posting calls means "not now": post again later (protocol 2a.1). The bytes of
/// a span stay untouched by the caller until its request is done.
pub(crate) trait Net {
    /// Starts to send a span.
    fn isend(&self, comm: &SendComm, span: Span<'_>) -> Result<Option<Request>, CallError>;
    /// Starts to receive into a span.
    fn irecv(&self, comm: &RecvComm, span: Span<'_>) -> Result<Option<Request>, CallError>;
    /// Makes received bytes visible; `None` means that there is nothing to wait for.
    fn iflush(&self, comm: &RecvComm, span: Span<'_>) -> Result<Option<Request>, CallError>;
    /// The size of the message if the request is done; it must not be tested again then.
    fn test(&self, request: &Request) -> Result<Option<usize>, CallError>;
}
