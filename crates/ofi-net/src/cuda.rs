//! Which CUDA device memory is of, asked of the driver's library, `libcuda.so.1`. It is looked for when
//! CUDA memory is registered for the first time and not before: nothing here needs CUDA to be loaded,
//! or to be there. Nothing but this one question is asked, which begins no work on a device and needs no
//! context of the calling thread.

use crate::error::{Code, NetError};
use core::ffi::{CStr, c_int, c_void};
use core::ptr::NonNull;
use std::sync::OnceLock;

/// The library of the driver, as every program that uses CUDA has loaded it.
const FILE: &CStr = c"libcuda.so.1";

/// `CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL`: the device that memory was allocated on or registered with.
const DEVICE_ORDINAL: c_int = 9;

/// `CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)`.
type PointerGetAttribute = unsafe extern "C" fn(*mut c_void, c_int, u64) -> c_int;

static ASK: OnceLock<PointerGetAttribute> = OnceLock::new();

/// The ordinal of the device whose memory is at `addr`, as `FI_HMEM_CUDA` of `fi_mr(3)` wants it.
///
/// # Errors
/// [`Code::NoCuda`]: there is no `libcuda.so.1`. [`Code::NotCudaMemory`]: CUDA does not know the address,
/// or was not initialised in this process.
///
/// # Costs
/// A call into the driver's library, under its locks; the first time, a look for the library. No call to
/// the device.
pub(crate) fn device_of(addr: *const u8) -> Result<i32, NetError> {
    let ask = match ASK.get() {
        Some(ask) => *ask,
        // A failure is not remembered: the library may be loaded later.
        None => {
            let found = find()?;
            *ASK.get_or_init(|| found)
        }
    };
    let mut ordinal: c_int = -1;
    // SAFETY: the function of this name has this type since CUDA 4.0; this attribute is written as an int,
    // and the address is looked up and not followed.
    let result = unsafe {
        ask(
            (&raw mut ordinal).cast(),
            DEVICE_ORDINAL,
            addr.expose_provenance() as u64,
        )
    };
    if result == 0 && ordinal >= 0 {
        return Ok(ordinal);
    }
    let what = format!("{addr:p}: cuPointerGetAttribute gave {result}, device {ordinal}");
    Err(NetError::new(Code::NotCudaMemory, what))
}

/// The function of the library that the process has loaded; else of the one that can be.
fn find() -> Result<PointerGetAttribute, NetError> {
    let open = |flags| {
        // SAFETY: dlopen(3) of a name that ends. It is loaded already in a process that has CUDA memory;
        // constructors that run otherwise are those of the driver.
        NonNull::new(unsafe { libc::dlopen(FILE.as_ptr(), libc::RTLD_NOW | flags) })
    };
    let handle = open(libc::RTLD_NOLOAD).or_else(|| open(libc::RTLD_LOCAL));
    let handle = handle.ok_or_else(|| NetError::new(Code::NoCuda, last_error()))?;
    // SAFETY: dlsym(3) of a library that is never closed here, and a name that ends.
    let found = unsafe { libc::dlsym(handle.as_ptr(), c"cuPointerGetAttribute".as_ptr()) };
    if found.is_null() {
        return Err(NetError::new(Code::NoCuda, last_error()));
    }
    // SAFETY: the function of this name has this type since CUDA 4.0.
    Ok(unsafe { core::mem::transmute::<*mut c_void, PointerGetAttribute>(found) })
}

fn last_error() -> String {
    // SAFETY: dlerror(3): NULL, or a text that ends and lives until the next call of this thread.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "libcuda.so.1".to_owned();
    }
    // SAFETY: as above.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}
