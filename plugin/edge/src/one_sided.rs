//! iwrite, iwriteInline, iread: as isend and irecv, a NULL request with success means "not now".

use core::ffi::c_void;

use ofi_net::{LocalMemory, RemoteMemory};

use crate::abi;
use crate::connection::comm_word;
use crate::data::{Message, start};
use crate::pointer::Out;
use crate::translate::Fail;

impl Message {
    fn local(&self) -> LocalMemory {
        LocalMemory {
            addr: self.data,
            len: self.size,
            mr: self.region(),
        }
    }
}

/// iwrite.
///
/// # Safety
/// `from` must stay readable and unchanged until its request is done; `to` is memory that the peer
/// opened to this; `request`, if not NULL, must be valid for writes.
///
/// # Errors
/// NULL (3), not initialised (4), `rma_supported` is 0 (3), those of the communicator.
pub unsafe fn write(
    comm: *mut c_void,
    from: Message,
    to: RemoteMemory,
    request: *mut *mut c_void,
) -> Result<(), Fail> {
    // SAFETY: the caller's contract.
    let request = unsafe { Out::new(request, abi::INTERNAL_ERROR, "request") }?;
    start(&request, |instance| {
        let comm = comm_word(comm, "sendComm", abi::INTERNAL_ERROR)?;
        // SAFETY: the caller's contract.
        Ok(unsafe { instance.transport.iwrite(comm, from.local(), to) }?)
    })
}

/// iwriteInline: the bytes are the caller's again when it returns.
///
/// # Safety
/// `source`, if not NULL, must be readable for `size` bytes; `to` is memory that the peer opened to
/// this; `request`, if not NULL, must be valid for writes.
///
/// # Errors
/// NULL (3), not initialised (4), `rma_supported` is 0 (3), longer than `max_write_inline_size` (5),
/// those of the communicator.
pub unsafe fn write_inline(
    comm: *mut c_void,
    (source, size): (*const c_void, usize),
    to: RemoteMemory,
    request: *mut *mut c_void,
) -> Result<(), Fail> {
    // SAFETY: the caller's contract.
    let request = unsafe { Out::new(request, abi::INTERNAL_ERROR, "request") }?;
    start(&request, |instance| {
        let comm = comm_word(comm, "sendComm", abi::INTERNAL_ERROR)?;
        let bytes = if size == 0 {
            &[]
        } else if source.is_null() {
            return Err(Fail::null(abi::INTERNAL_ERROR, "src"));
        } else {
            // SAFETY: not NULL, and readable for `size` bytes during this call.
            unsafe { core::slice::from_raw_parts(source.cast::<u8>(), size) }
        };
        // SAFETY: the caller's contract.
        Ok(unsafe { instance.transport.iwrite_inline(comm, bytes, to) }?)
    })
}

/// iread, on a receive communicator.
///
/// # Safety
/// `to` must stay writable and untouched until its request is done; `from` is memory that the peer
/// opened to this; `request`, if not NULL, must be valid for writes.
///
/// # Errors
/// As [`write()`].
pub unsafe fn read(
    comm: *mut c_void,
    to: Message,
    from: RemoteMemory,
    request: *mut *mut c_void,
) -> Result<(), Fail> {
    // SAFETY: the caller's contract.
    let request = unsafe { Out::new(request, abi::INTERNAL_ERROR, "request") }?;
    start(&request, |instance| {
        let comm = comm_word(comm, "recvComm", abi::INTERNAL_ERROR)?;
        // SAFETY: the caller's contract.
        Ok(unsafe { instance.transport.iread(comm, to.local(), from) }?)
    })
}
