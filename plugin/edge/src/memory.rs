//! regMr, regMrDmaBuf, deregMr, getMrKey.

use core::ffi::{c_int, c_void};

use ofi_net::error::Code;
use ofi_net::params::Flavour;
use ofi_net::{DmaBuf, MemoryKind, MrWord};

use crate::abi;
use crate::connection::comm_word;
use crate::instance;
use crate::pointer::{Out, carried, word};
use crate::translate::Fail;

/// A piece of the caller's memory to register.
#[derive(Clone, Copy, Debug)]
pub struct Buffer {
    /// Where it starts.
    pub addr: *mut c_void,
    /// Its bytes.
    pub len: usize,
    /// One of `NCCL_PTR_*`.
    pub kind: c_int,
    /// A dma-buf and the offset in it; fd -1: none.
    pub dmabuf: (u64, c_int),
}

impl Buffer {
    /// Memory named by its address alone.
    #[must_use]
    pub const fn plain(addr: *mut c_void, len: usize, kind: c_int) -> Self {
        Self {
            addr,
            len,
            kind,
            dmabuf: (0, -1),
        }
    }
}

/// regMr and regMrDmaBuf.
///
/// # Safety
/// The buffer must stay mapped until it is deregistered; `mhandle`, if not NULL, must be valid for
/// writes.
///
/// # Errors
/// NULL (3), a listen communicator (3), a type that is not in ptrSupport (3), memory that is not of the type
/// (3) or without CUDA to tell (2), a dma-buf where there is no way to use one (2), not initialised (4), what
/// the provider says.
pub unsafe fn register(
    comm: *mut c_void,
    buffer: Buffer,
    mhandle: *mut *mut c_void,
) -> Result<(), Fail> {
    // SAFETY: the caller's contract.
    let mhandle = unsafe { Out::new(mhandle, abi::INTERNAL_ERROR, "mhandle") }?;
    // A caller that looks at it after a failure finds what deregMr takes.
    mhandle.set(core::ptr::null_mut());
    instance::with(|instance| {
        let comm = comm_word(comm, "comm", abi::INTERNAL_ERROR)?;
        let kind = kind_of(buffer.kind, instance.flavour)?;
        let (transport, Buffer { addr, len, .. }) = (&instance.transport, buffer);
        let mr = match buffer.dmabuf {
            // SAFETY: the caller keeps the buffer mapped while it is registered.
            (_, -1) => unsafe { transport.reg_mr(comm, addr, len, kind) },
            (offset, fd) => {
                let dmabuf = DmaBuf { fd, offset };
                // SAFETY: as above.
                unsafe { transport.reg_mr_dmabuf(comm, addr, len, kind, dmabuf) }
            }
        }?;
        mhandle.set(carried(mr.to_bits())?);
        Ok(())
    })
}

fn kind_of(kind: c_int, flavour: Flavour) -> Result<MemoryKind, Fail> {
    match (kind, flavour) {
        (abi::PTR_HOST, _) => Ok(MemoryKind::Host),
        (abi::PTR_CUDA, Flavour::Nccl) => Ok(MemoryKind::Cuda),
        (abi::PTR_NEURON, Flavour::Neuron) => Ok(MemoryKind::Neuron),
        _ => {
            let whose = match (kind, flavour) {
                (abi::PTR_CUDA, _) => " (CUDA)",
                (abi::PTR_DMABUF, Flavour::Nccl) => " (dma-buf, which is no type: regMrDmaBuf)",
                _ => "",
            };
            let what = format!("memory of type {kind:#x}{whose}");
            Err(Fail::fixed(abi::INTERNAL_ERROR, Code::MemoryKind, what))
        }
    }
}

/// deregMr. A NULL handle is nothing to do.
///
/// # Errors
/// NULL comm (3), a handle that is not there (3), not initialised (4), what the provider says.
pub fn deregister(comm: *mut c_void, mhandle: *mut c_void) -> Result<(), Fail> {
    instance::with(|instance| {
        let comm = comm_word(comm, "comm", abi::INTERNAL_ERROR)?;
        match region(mhandle) {
            Some(mr) => Ok(instance.transport.dereg_mr(comm, mr)?),
            None => Ok(()),
        }
    })
}

pub(crate) fn region(mhandle: *mut c_void) -> Option<MrWord> {
    word(mhandle).map(MrWord::from_bits)
}

/// getMrKey: the key of rail 0.
///
/// # Safety
/// `key`, if not NULL, must be valid for writes.
///
/// # Errors
/// NULL (3), a handle that is not there (3), not initialised (4).
pub unsafe fn key(mhandle: *mut c_void, key: *mut u64) -> Result<(), Fail> {
    // SAFETY: the caller's contract.
    let key = unsafe { Out::new(key, abi::INTERNAL_ERROR, "mr_key") }?;
    instance::with(|instance| {
        let mr = region(mhandle).ok_or_else(|| Fail::null(abi::INTERNAL_ERROR, "mhandle"))?;
        key.set(instance.transport.mr_key(mr)?);
        Ok(())
    })
}
