//! The entry points that v5 and v6 share, and those that all tables share. Each is the guard around
//! one function of the edge.
//!
//! Safety of all of them: a caller in C keeps the contract of the header
//! (`plugin/include/ofi_neuron_net.h`): pointers are NULL or valid for what the call does with them,
//! memory outlives its requests. NULL and stale words are checked; the rest cannot be.

use core::ffi::{c_int, c_void};

use ofi_plugin_edge::abi::{INTERNAL_ERROR, INVALID_ARGUMENT, NcclResult};
use ofi_plugin_edge::connection::{self, Side, Style};
use ofi_plugin_edge::data::{self, Group, Message};
use ofi_plugin_edge::life;
use ofi_plugin_edge::memory::{self, Buffer};
use ofi_plugin_edge::{Out, guard};

use crate::layout::PropertiesV5;

pub(crate) unsafe extern "C" fn devices(count: *mut c_int) -> NcclResult {
    // SAFETY: the header's contract.
    guard("devices", || unsafe { life::devices(count) })
}

pub(crate) unsafe extern "C" fn get_properties(
    dev: c_int,
    properties: *mut PropertiesV5,
) -> NcclResult {
    guard("getProperties", || {
        // SAFETY: the header's contract.
        let out = unsafe { Out::new(properties, INVALID_ARGUMENT, "props") }?;
        out.set(PropertiesV5::from(life::properties(dev)?));
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn listen(
    dev: c_int,
    handle: *mut c_void,
    comm: *mut *mut c_void,
) -> NcclResult {
    // SAFETY: the header's contract.
    guard("listen", || unsafe {
        connection::listen(Style::Polled, dev, handle, comm)
    })
}

pub(crate) unsafe extern "C" fn connect(
    dev: c_int,
    handle: *mut c_void,
    comm: *mut *mut c_void,
) -> NcclResult {
    // SAFETY: the header's contract.
    guard("connect", || unsafe {
        connection::connect(Style::Polled, dev, handle, comm)
    })
}

pub(crate) unsafe extern "C" fn accept(
    listener: *mut c_void,
    comm: *mut *mut c_void,
) -> NcclResult {
    // SAFETY: the header's contract.
    guard("accept", || unsafe {
        connection::accept(Style::Polled, listener, comm)
    })
}

pub(crate) unsafe extern "C" fn reg_mr(
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

pub(crate) unsafe extern "C" fn reg_mr_dma_buf(
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

pub(crate) unsafe extern "C" fn dereg_mr(comm: *mut c_void, mhandle: *mut c_void) -> NcclResult {
    guard("deregMr", || memory::deregister(comm, mhandle))
}

pub(crate) unsafe extern "C" fn isend(
    comm: *mut c_void,
    data: *mut c_void,
    size: c_int,
    _tag: c_int,
    mhandle: *mut c_void,
    request: *mut *mut c_void,
) -> NcclResult {
    guard("isend", || {
        let message = Message::of_int(data, size, mhandle)?;
        // SAFETY: the header's contract.
        unsafe { data::send(comm, message, request) }
    })
}

pub(crate) unsafe extern "C" fn irecv(
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

pub(crate) unsafe extern "C" fn iflush(
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

pub(crate) unsafe extern "C" fn test(
    request: *mut c_void,
    done: *mut c_int,
    size: *mut c_int,
) -> NcclResult {
    // SAFETY: the header's contract.
    guard("test", || unsafe { data::test(request, done, size) })
}

pub(crate) unsafe extern "C" fn close_send(comm: *mut c_void) -> NcclResult {
    guard("closeSend", || connection::close(Side::Send, comm))
}

pub(crate) unsafe extern "C" fn close_recv(comm: *mut c_void) -> NcclResult {
    guard("closeRecv", || connection::close(Side::Recv, comm))
}

pub(crate) unsafe extern "C" fn close_listen(comm: *mut c_void) -> NcclResult {
    guard("closeListen", || connection::close(Side::Listen, comm))
}

pub(crate) unsafe extern "C" fn get_mr_key(mhandle: *mut c_void, key: *mut u64) -> NcclResult {
    // SAFETY: the header's contract.
    guard("getMrKey", || unsafe { memory::key(mhandle, key) })
}

pub(crate) unsafe extern "C" fn iwrite(
    comm: *mut c_void,
    _source: *mut c_void,
    _size: usize,
    _mhandle: *mut c_void,
    _destination: u64,
    _key: u64,
    request: *mut *mut c_void,
) -> NcclResult {
    // SAFETY: the header's contract.
    guard("iwrite", || unsafe { data::one_sided(comm, request) })
}

pub(crate) unsafe extern "C" fn iwrite_inline(
    comm: *mut c_void,
    _source: *mut c_void,
    _size: usize,
    _destination: u64,
    _key: u64,
    request: *mut *mut c_void,
) -> NcclResult {
    // SAFETY: the header's contract.
    guard("iwriteInline", || unsafe { data::one_sided(comm, request) })
}

pub(crate) unsafe extern "C" fn iread(
    comm: *mut c_void,
    _destination: *mut c_void,
    _size: usize,
    _mhandle: *mut c_void,
    _source: u64,
    _key: u64,
    request: *mut *mut c_void,
) -> NcclResult {
    // SAFETY: the header's contract.
    guard("iread", || unsafe { data::one_sided(comm, request) })
}
