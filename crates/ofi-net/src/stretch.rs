//! What is registered: a stretch of memory, whose it is, and the dma-buf it lies in.

use crate::cuda;
use crate::error::NetError;
use efa_fabric::{Dmabuf, Memory};

/// Kinds of memory that can be registered. Only that of the host is ever read or written by the processor:
/// the others go by the network's own reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemoryKind {
    /// Ordinary memory of this process.
    Host,
    /// Memory of a CUDA device (`FI_HMEM_CUDA`); which one, `libcuda.so.1` is asked.
    Cuda,
    /// Memory of a Neuron device, mapped into this process (`FI_HMEM_NEURON`).
    Neuron,
}

impl MemoryKind {
    /// As libfabric wants it, for memory at `addr`.
    ///
    /// # Errors
    /// CUDA memory that is none, or without CUDA.
    pub(crate) fn memory(self, addr: *const u8) -> Result<Memory, NetError> {
        Ok(match self {
            Self::Host => Memory::Host,
            Self::Cuda => Memory::Cuda(cuda::device_of(addr)?),
            // Protocol 2g.1: the device is not named.
            Self::Neuron => Memory::Neuron(-1),
        })
    }
}

/// A dma-buf that memory lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DmaBuf {
    /// Its file descriptor.
    pub fd: i32,
    /// Where the memory begins in it, bytes.
    pub offset: u64,
}

impl From<DmaBuf> for Dmabuf {
    fn from(DmaBuf { fd, offset }: DmaBuf) -> Self {
        Self { fd, offset }
    }
}

/// A stretch of memory to register.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch {
    pub(crate) start: *const u8,
    pub(crate) bytes: usize,
    pub(crate) kind: MemoryKind,
    pub(crate) dmabuf: Option<DmaBuf>,
}

impl Stretch {
    /// Ordinary memory by its address, which the cache may share with its neighbours (trap 23).
    pub(crate) fn is_plain(&self) -> bool {
        self.kind == MemoryKind::Host && self.dmabuf.is_none()
    }

    /// Ordinary memory.
    pub(crate) const fn host(start: *const u8, bytes: usize) -> Self {
        Self {
            start,
            bytes,
            kind: MemoryKind::Host,
            dmabuf: None,
        }
    }

    /// The same by its address.
    pub(crate) const fn by_address(self) -> Self {
        Self {
            dmabuf: None,
            ..self
        }
    }
}
