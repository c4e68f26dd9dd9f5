//! Options of endpoints, as EFA answers them, each since the libfabric that brought it
//! (providers.md 6).

use core::ffi::{c_int, c_void};

use ofi_sys::bindings as b;
use ofi_sys::consts as c;
use ofi_sys::errno as e;

use super::ep;
use super::guard::guarded;
use crate::engine::endpoint::{Ep, RNR_FOR_EVER, Setup};

/// A value as wide as its option's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Bool(bool),
    Size(usize),
}

/// Which value of the setup a size option is.
fn size_of_setup(setup: &mut Setup, option: c_int) -> Option<&mut usize> {
    Some(match option {
        c::FI_OPT_MAX_MSG_SIZE | c::FI_OPT_MAX_TAGGED_SIZE => &mut setup.sizes.max_msg,
        c::FI_OPT_MAX_RMA_SIZE => &mut setup.sizes.max_rma,
        c::FI_OPT_INJECT_MSG_SIZE | c::FI_OPT_INJECT_TAGGED_SIZE => &mut setup.sizes.inject_msg,
        c::FI_OPT_INJECT_RMA_SIZE => &mut setup.sizes.inject_rma,
        c::FI_OPT_EFA_RNR_RETRY => &mut setup.rnr_retry,
        _ => return None,
    })
}

/// The libfabric that brought an option.
const fn since(option: c_int) -> (u32, u32) {
    match option {
        c::FI_OPT_EFA_RNR_RETRY => (1, 14),
        c::FI_OPT_CUDA_API_PERMITTED
        | c::FI_OPT_EFA_EMULATED_READ
        | c::FI_OPT_EFA_EMULATED_WRITE
        | c::FI_OPT_EFA_EMULATED_ATOMICS => (1, 18),
        c::FI_OPT_EFA_USE_DEVICE_RDMA
        | c::FI_OPT_EFA_SENDRECV_IN_ORDER_ALIGNED_128_BYTES
        | c::FI_OPT_EFA_WRITE_IN_ORDER_ALIGNED_128_BYTES => (1, 19),
        c::FI_OPT_SHARED_MEMORY_PERMITTED => (1, 21),
        c::FI_OPT_EFA_HOMOGENEOUS_PEERS => (2, 2),
        c::FI_OPT_EFA_USE_UNSOLICITED_WRITE_RECV => (2, 5),
        _ => (1, 22),
    }
}

/// Whether EFA of this generation has the option at all.
fn is_known(ep: &Ep, level: c_int, option: c_int) -> bool {
    let (major, minor) = since(option);
    level == c::FI_OPT_ENDPOINT && ep.domain.process.generation().has(major, minor)
}

fn get(ep: &Ep, option: c_int) -> Result<Value, c_int> {
    ep.setup(|setup| {
        if let Some(size) = size_of_setup(setup, option) {
            return Ok(Value::Size(*size));
        }
        match option {
            // The software of `efa` makes them of messages where it is told to leave the device's.
            c::FI_OPT_EFA_EMULATED_READ | c::FI_OPT_EFA_EMULATED_WRITE if !setup.device_rdma => {
                Ok(Value::Bool(true))
            }
            // All is done by the device, but atomics, which it does not have.
            c::FI_OPT_EFA_EMULATED_READ => Ok(Value::Bool(false)),
            c::FI_OPT_EFA_EMULATED_WRITE => {
                Ok(Value::Bool(ep.domain.process.config().lacks.native_writes))
            }
            c::FI_OPT_EFA_EMULATED_ATOMICS => Ok(Value::Bool(true)),
            c::FI_OPT_EFA_USE_UNSOLICITED_WRITE_RECV => Ok(Value::Bool(setup.unsolicited)),
            c::FI_OPT_SHARED_MEMORY_PERMITTED => Ok(Value::Bool(setup.shared_memory)),
            c::FI_OPT_EFA_HOMOGENEOUS_PEERS => Ok(Value::Bool(setup.homogeneous)),
            _ => Err(e::FI_ENOPROTOOPT),
        }
    })
}

pub(super) unsafe extern "C" fn getopt(
    fid: *mut b::fid,
    level: c_int,
    option: c_int,
    value: *mut c_void,
    len: *mut usize,
) -> c_int {
    guarded(|| {
        // SAFETY: fi_endpoint(3): an open endpoint.
        let ep = unsafe { ep::of(fid.cast()) };
        if !is_known(ep, level, option) {
            return Err(e::FI_ENOPROTOOPT);
        }
        let found = get(ep, option)?;
        let size = match found {
            Value::Bool(_) => size_of::<bool>(),
            Value::Size(_) => size_of::<usize>(),
        };
        // SAFETY: fi_endpoint(3): the length of the buffer.
        let room = unsafe { len.read() };
        if room < size {
            return Err(e::FI_ETOOSMALL);
        }
        match found {
            // SAFETY: fi_endpoint(3): the buffer has that length; any alignment.
            Value::Bool(flag) => unsafe { value.cast::<bool>().write_unaligned(flag) },
            // SAFETY: as above.
            Value::Size(size) => unsafe { value.cast::<usize>().write_unaligned(size) },
        }
        // SAFETY: fi_endpoint(3): where the length of the value goes.
        unsafe { len.write(size) };
        Ok(())
    })
}

/// The value of a boolean option.
///
/// # Safety
/// The value has that length.
unsafe fn flag(value: *const c_void, len: usize) -> Result<bool, c_int> {
    if len != size_of::<bool>() {
        return Err(e::FI_EINVAL);
    }
    // Any byte but 0 is true.
    // SAFETY: the caller's promise.
    Ok(unsafe { value.cast::<u8>().read() } != 0)
}

/// The value of a size option.
///
/// # Safety
/// The value has that length.
unsafe fn size(value: *const c_void, len: usize) -> Result<usize, c_int> {
    if len != size_of::<usize>() {
        return Err(e::FI_EINVAL);
    }
    // SAFETY: the caller's promise; any alignment.
    Ok(unsafe { value.cast::<usize>().read_unaligned() })
}

pub(super) unsafe extern "C" fn setopt(
    fid: *mut b::fid,
    level: c_int,
    option: c_int,
    value: *const c_void,
    len: usize,
) -> c_int {
    guarded(|| {
        // SAFETY: fi_endpoint(3): an open endpoint.
        let ep = unsafe { ep::of(fid.cast()) };
        if !is_known(ep, level, option) {
            return Err(e::FI_ENOPROTOOPT);
        }
        if value.is_null() {
            return Err(e::FI_EINVAL);
        }
        if ep.bound().is_some() {
            // EFA's options are for endpoints that are not enabled.
            return Err(e::FI_EINVAL);
        }
        let is_size = ep.setup(|setup| size_of_setup(setup, option).is_some());
        if is_size {
            // SAFETY: fi_endpoint(3): a value of that length.
            return set_size(ep, option, unsafe { size(value, len) }?);
        }
        // SAFETY: fi_endpoint(3): a value of that length.
        set_flag(ep, option, unsafe { flag(value, len) }?)
    })
}

fn set_size(ep: &Ep, option: c_int, size: usize) -> Result<(), c_int> {
    let most = &ep.limits.sizes;
    let limit = match option {
        c::FI_OPT_EFA_RNR_RETRY => RNR_FOR_EVER,
        c::FI_OPT_MAX_MSG_SIZE | c::FI_OPT_MAX_TAGGED_SIZE => most.max_msg,
        c::FI_OPT_MAX_RMA_SIZE => most.max_rma,
        c::FI_OPT_INJECT_RMA_SIZE => most.inject_rma,
        _ => most.inject_msg,
    };
    if size > limit {
        return Err(e::FI_EINVAL);
    }
    ep.setup(|setup| match size_of_setup(setup, option) {
        Some(slot) => {
            *slot = size;
            Ok(())
        }
        None => Err(e::FI_ENOPROTOOPT),
    })
}

fn set_flag(ep: &Ep, option: c_int, flag: bool) -> Result<(), c_int> {
    ep.setup(|setup| match option {
        c::FI_OPT_SHARED_MEMORY_PERMITTED => {
            // The device has none; the software of `efa` may be told to leave it.
            if flag && ep.is_direct() {
                return Err(e::FI_EINVAL);
            }
            setup.shared_memory = flag;
            Ok(())
        }
        // fi_endpoint(3): EINVAL without CUDA or a device of it. With one, nothing needs to be called.
        c::FI_OPT_CUDA_API_PERMITTED => {
            let lacks = &ep.domain.process.config().lacks;
            let has_cuda = lacks.has_hmem() && lacks.has_devices(b::FI_HMEM_CUDA);
            has_cuda.then_some(()).ok_or(e::FI_EINVAL)
        }
        c::FI_OPT_EFA_USE_DEVICE_RDMA => {
            // There is nothing else on efa-direct.
            if !flag && ep.is_direct() {
                return Err(e::FI_EOPNOTSUPP);
            }
            setup.device_rdma = flag;
            Ok(())
        }
        // Bytes land in any order: only "not needed" can be had.
        c::FI_OPT_EFA_SENDRECV_IN_ORDER_ALIGNED_128_BYTES
        | c::FI_OPT_EFA_WRITE_IN_ORDER_ALIGNED_128_BYTES => match flag {
            false => Ok(()),
            true => Err(e::FI_EOPNOTSUPP),
        },
        c::FI_OPT_EFA_HOMOGENEOUS_PEERS => {
            setup.homogeneous = flag;
            Ok(())
        }
        c::FI_OPT_EFA_USE_UNSOLICITED_WRITE_RECV => {
            setup.unsolicited = flag;
            Ok(())
        }
        _ => Err(e::FI_ENOPROTOOPT),
    })
}
