//! The entry points that several of the tables share and no other family has. Each is the guard
//! around one function of the edge.
//!
//! Safety of all of them: a caller in C keeps the contract of the header
//! (`plugin/include/ofi_nccl_net.h`): pointers are NULL or valid for what the call does with them,
//! memory outlives its requests. NULL and stale words are checked; the rest cannot be. A device
//! handle's pointer is not looked at, be it NULL or anything else: with device type HOST there is none.

use core::ffi::{c_int, c_void};

use ofi_plugin_edge::abi::{INVALID_ARGUMENT, LogFn, NcclResult};
use ofi_plugin_edge::connection::{self, Style};
use ofi_plugin_edge::data::{self, Group, Message, Size as _};
use ofi_plugin_edge::life::{self, Caller, Finaliser, Flavour};
use ofi_plugin_edge::memory::{self, Buffer};
use ofi_plugin_edge::{Fail, guard};

use crate::layout::DeviceHandle;

/// init of v6 to v9.
pub(crate) unsafe extern "C" fn init(logger: Option<LogFn>) -> NcclResult {
    guard("init", || {
        // SAFETY: the header's contract.
        let caller = unsafe { Caller::new(logger, None) };
        life::init(Flavour::Nccl, Finaliser::AtExit, caller)
    })
}

/// connect of v7 to v9.
pub(crate) unsafe extern "C" fn connect_device(
    dev: c_int,
    handle: *mut c_void,
    comm: *mut *mut c_void,
    _device_handle: *mut *mut DeviceHandle,
) -> NcclResult {
    // SAFETY: the header's contract.
    guard("connect", || unsafe {
        connection::connect((Style::Polled, None), dev, handle, comm)
    })
}

/// accept of v7 and later.
pub(crate) unsafe extern "C" fn accept_device(
    listener: *mut c_void,
    comm: *mut *mut c_void,
    _device_handle: *mut *mut DeviceHandle,
) -> NcclResult {
    // SAFETY: the header's contract.
    guard("accept", || unsafe {
        connection::accept(Style::Polled, listener, comm)
    })
}

/// regMr of v6 and v7, whose size is an `int`.
pub(crate) unsafe extern "C" fn reg_mr_int(
    comm: *mut c_void,
    data: *mut c_void,
    size: c_int,
    kind: c_int,
    mhandle: *mut *mut c_void,
) -> NcclResult {
    guard("regMr", || {
        let buffer = Buffer::plain(data, size.bytes()?, kind);
        // SAFETY: the header's contract.
        unsafe { memory::register(comm, buffer, mhandle) }
    })
}

/// isend of v9.
pub(crate) unsafe extern "C" fn isend_wide(
    comm: *mut c_void,
    data: *mut c_void,
    size: usize,
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

/// irecv of v9.
pub(crate) unsafe extern "C" fn irecv_wide(
    comm: *mut c_void,
    n: c_int,
    data: *mut *mut c_void,
    sizes: *mut usize,
    tags: *mut c_int,
    mhandles: *mut *mut c_void,
    request: *mut *mut c_void,
) -> NcclResult {
    guard("irecv", || {
        let group = Group {
            n,
            data,
            sizes,
            mhandles,
        };
        // SAFETY: the header's contract: arrays of n entries.
        let message = unsafe { single(group, tags) }?;
        // SAFETY: the header's contract.
        unsafe { data::recv(comm, message, request) }
    })
}

/// isend of v10 and later.
pub(crate) unsafe extern "C" fn isend_profiled(
    comm: *mut c_void,
    data: *mut c_void,
    size: usize,
    _tag: c_int,
    mhandle: *mut c_void,
    parent: *mut c_void,
    request: *mut *mut c_void,
) -> NcclResult {
    guard("isend", || {
        let message = Message::new(data, size, mhandle)?.with_parent(parent);
        // SAFETY: the header's contract.
        unsafe { data::send(comm, message, request) }
    })
}

/// irecv of v10 and later. An array of parents may be NULL: nobody profiles then.
pub(crate) unsafe extern "C" fn irecv_profiled(
    comm: *mut c_void,
    n: c_int,
    data: *mut *mut c_void,
    sizes: *mut usize,
    tags: *mut c_int,
    mhandles: *mut *mut c_void,
    parents: *mut *mut c_void,
    request: *mut *mut c_void,
) -> NcclResult {
    guard("irecv", || {
        let group = Group {
            n,
            data,
            sizes,
            mhandles,
        };
        // SAFETY: the header's contract: arrays of n entries.
        let message = unsafe { single(group, tags) }?;
        // SAFETY: as above; `n` is 1 by now.
        let parent = unsafe { parents.as_ref() };
        let message = message.with_parent(parent.copied().unwrap_or(core::ptr::null_mut()));
        // SAFETY: the header's contract.
        unsafe { data::recv(comm, message, request) }
    })
}

/// The one message of a receive.
///
/// # Safety
/// Arrays that are not NULL are readable for `n` entries.
unsafe fn single(group: Group<usize>, tags: *mut c_int) -> Result<Message, Fail> {
    data::require(!tags.is_null(), INVALID_ARGUMENT, "tags")?;
    // SAFETY: the caller's contract.
    unsafe { group.single(INVALID_ARGUMENT) }
}
