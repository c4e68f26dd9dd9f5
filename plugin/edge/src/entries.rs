//! The entry points that tables of both families share. Each is the guard around one function of the
//! edge.
//!
//! # Safety
//!
//! Of all of them: a caller in C keeps the contract of the header (`plugin/include/ofi_neuron_net.h`,
//! `plugin/include/ofi_nccl_net.h`): pointers are NULL or valid for what the call does with them,
//! memory outlives its requests. NULL and stale words are checked; the rest cannot be.
//!
//! # Errors
//!
//! The result codes of protocol 2a.1.

#![expect(
    clippy::missing_safety_doc,
    reason = "one contract for all, in the module's documentation"
)]

use core::ffi::{c_int, c_void};

use crate::abi::{INTERNAL_ERROR, INVALID_ARGUMENT, NcclResult};
use crate::connection::{self, Side, Style};
use crate::data::{self, Group, Message};
use crate::guard::guard;
use crate::life::{self, DeviceView};
use crate::memory::{self, Buffer};
use crate::pointer::Out;

/// devices.
pub unsafe extern "C" fn devices(count: *mut c_int) -> NcclResult {
    // SAFETY: the header's contract.
    guard("devices", || unsafe { life::devices(count) })
}

/// getProperties of a table whose struct is `P`.
pub unsafe extern "C" fn get_properties<P: Copy + From<DeviceView>>(
    dev: c_int,
    properties: *mut P,
) -> NcclResult {
    guard("getProperties", || {
        // SAFETY: the header's contract.
        let out = unsafe { Out::new(properties, INVALID_ARGUMENT, "props") }?;
        out.set(P::from(life::properties(dev)?));
        Ok(())
    })
}

/// listen, polled.
pub unsafe extern "C" fn listen(
    dev: c_int,
    handle: *mut c_void,
    comm: *mut *mut c_void,
) -> NcclResult {
    // SAFETY: the header's contract.
    guard("listen", || unsafe {
        connection::listen((Style::Polled, None), dev, handle, comm)
    })
}

/// connect, polled, without a device handle (Neuron v5 and v6, NCCL v6).
pub unsafe extern "C" fn connect(
    dev: c_int,
    handle: *mut c_void,
    comm: *mut *mut c_void,
) -> NcclResult {
    // SAFETY: the header's contract.
    guard("connect", || unsafe {
        connection::connect((Style::Polled, None), dev, handle, comm)
    })
}

/// accept, polled, without a device handle.
pub unsafe extern "C" fn accept(listener: *mut c_void, comm: *mut *mut c_void) -> NcclResult {
    // SAFETY: the header's contract.
    guard("accept", || unsafe {
        connection::accept(Style::Polled, listener, comm)
    })
}

/// regMr with a `size_t` size (Neuron; NCCL v8 and later).
pub unsafe extern "C" fn reg_mr(
    comm: *mut c_void,
    data: *mut c_void,
    size: usize,
    kind: c_int,
    mhandle: *mut *mut c_void,
) -> NcclResult {
    let buffer = Buffer::plain(data, size, kind);
    // SAFETY: the header's contract.
    guard("regMr", || unsafe {
        memory::register(comm, buffer, mhandle)
    })
}

/// regMrDmaBuf.
pub unsafe extern "C" fn reg_mr_dma_buf(
    comm: *mut c_void,
    data: *mut c_void,
    size: usize,
    kind: c_int,
    offset: u64,
    fd: c_int,
    mhandle: *mut *mut c_void,
) -> NcclResult {
    let buffer = Buffer {
        dmabuf: (offset, fd),
        ..Buffer::plain(data, size, kind)
    };
    // SAFETY: the header's contract.
    guard("regMrDmaBuf", || unsafe {
        memory::register(comm, buffer, mhandle)
    })
}

/// deregMr.
pub unsafe extern "C" fn dereg_mr(comm: *mut c_void, mhandle: *mut c_void) -> NcclResult {
    guard("deregMr", || memory::deregister(comm, mhandle))
}

/// isend with an `int` size.
pub unsafe extern "C" fn isend(
    comm: *mut c_void,
    data: *mut c_void,
    size: c_int,
    _tag: c_int,
    mhandle: *mut c_void,
    request: *mut *mut c_void,
) -> NcclResult {
    guard("isend", || {
        let message = Message::new(data, size, mhandle)?;
        // SAFETY: the header's contract.
        unsafe { data::send(comm, message, request) }
    })
}

/// irecv with `int` sizes.
pub unsafe extern "C" fn irecv(
    comm: *mut c_void,
    n: c_int,
    data: *mut *mut c_void,
    sizes: *mut c_int,
    tags: *mut c_int,
    mhandles: *mut *mut c_void,
    request: *mut *mut c_void,
) -> NcclResult {
    guard("irecv", || {
        data::require(!tags.is_null(), INVALID_ARGUMENT, "tags")?;
        // SAFETY: the header's contract: arrays of n entries.
        let message = unsafe {
            Group {
                n,
                data,
                sizes,
                mhandles,
            }
            .single(INVALID_ARGUMENT)
        }?;
        // SAFETY: the header's contract.
        unsafe { data::recv(comm, message, request) }
    })
}

/// iflush; its sizes are `int` in every version.
pub unsafe extern "C" fn iflush(
    comm: *mut c_void,
    n: c_int,
    data: *mut *mut c_void,
    sizes: *mut c_int,
    mhandles: *mut *mut c_void,
    request: *mut *mut c_void,
) -> NcclResult {
    guard("iflush", || {
        // SAFETY: the header's contract: arrays of n entries.
        let message = unsafe {
            Group {
                n,
                data,
                sizes,
                mhandles,
            }
            .single(INTERNAL_ERROR)
        }?;
        // SAFETY: the header's contract.
        unsafe { data::flush(comm, message, request) }
    })
}

/// test.
pub unsafe extern "C" fn test(
    request: *mut c_void,
    done: *mut c_int,
    size: *mut c_int,
) -> NcclResult {
    // SAFETY: the header's contract.
    guard("test", || unsafe { data::test(request, done, size) })
}

/// closeSend.
pub unsafe extern "C" fn close_send(comm: *mut c_void) -> NcclResult {
    guard("closeSend", || connection::close(Side::Send, comm))
}

/// closeRecv.
pub unsafe extern "C" fn close_recv(comm: *mut c_void) -> NcclResult {
    guard("closeRecv", || connection::close(Side::Recv, comm))
}

/// closeListen.
pub unsafe extern "C" fn close_listen(comm: *mut c_void) -> NcclResult {
    guard("closeListen", || connection::close(Side::Listen, comm))
}
