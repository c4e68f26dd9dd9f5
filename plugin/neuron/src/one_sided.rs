//! The entry points that only Neuron's v5 and v6 have: keys and one-sided calls. Each is the guard
//! around one function of the edge.
//!
//! Safety of all of them: a caller in C keeps the contract of the header
//! (`plugin/include/ofi_neuron_net.h`): pointers are NULL or valid for what the call does with them,
//! memory outlives its requests. NULL and stale words are checked; the rest cannot be.

use core::ffi::c_void;

use ofi_plugin_edge::abi::NcclResult;
use ofi_plugin_edge::{data, guard, memory};

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
