//! The entry points that only Neuron's v5 and v6 have: keys and one-sided calls. Each is the guard
//! around one function of the edge.
//!
//! Safety of all of them: a caller in C keeps the contract of the header
//! (`plugin/include/ofi_neuron_net.h`): pointers are NULL or valid for what the call does with them,
//! memory outlives its requests. NULL and stale words are checked; the rest cannot be.

use core::ffi::c_void;

use ofi_plugin_edge::abi::NcclResult;
use ofi_plugin_edge::data::Message;
use ofi_plugin_edge::{RemoteMemory, guard, memory, one_sided};

pub(crate) unsafe extern "C" fn get_mr_key(mhandle: *mut c_void, key: *mut u64) -> NcclResult {
    // SAFETY: the header's contract.
    guard("getMrKey", || unsafe { memory::key(mhandle, key) })
}

pub(crate) unsafe extern "C" fn iwrite(
    comm: *mut c_void,
    source: *mut c_void,
    size: usize,
    mhandle: *mut c_void,
    destination: u64,
    key: u64,
    request: *mut *mut c_void,
) -> NcclResult {
    let to = RemoteMemory {
        addr: destination,
        key,
    };
    guard("iwrite", || {
        let from = Message::new(source, size, mhandle)?;
        // SAFETY: the header's contract.
        unsafe { one_sided::write(comm, from, to, request) }
    })
}

pub(crate) unsafe extern "C" fn iwrite_inline(
    comm: *mut c_void,
    source: *mut c_void,
    size: usize,
    destination: u64,
    key: u64,
    request: *mut *mut c_void,
) -> NcclResult {
    let to = RemoteMemory {
        addr: destination,
        key,
    };
    // SAFETY: the header's contract.
    guard("iwriteInline", || unsafe {
        one_sided::write_inline(comm, (source, size), to, request)
    })
}

pub(crate) unsafe extern "C" fn iread(
    comm: *mut c_void,
    destination: *mut c_void,
    size: usize,
    mhandle: *mut c_void,
    source: u64,
    key: u64,
    request: *mut *mut c_void,
) -> NcclResult {
    let from = RemoteMemory { addr: source, key };
    guard("iread", || {
        let to = Message::new(destination, size, mhandle)?;
        // SAFETY: the header's contract.
        unsafe { one_sided::read(comm, to, from, request) }
    })
}
