//! The C function types that tables of both families share, and the cell that makes a table a data
//! object (protocol 2a.2, 2a.3).

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};

use crate::abi::{LogFn, NcclResult};

/// A communicator, memory handle, request or buffer.
pub type Handle = *mut c_void;
/// Where a handle is written to.
pub type HandleOut = *mut *mut c_void;

/// init of Neuron, and of NCCL up to v9.
pub type Init = unsafe extern "C" fn(Option<LogFn>) -> NcclResult;
/// fini.
pub type Fini = unsafe extern "C" fn() -> NcclResult;
/// devices.
pub type Devices = unsafe extern "C" fn(*mut c_int) -> NcclResult;
/// getProperties of a table whose struct is `P`.
pub type GetProperties<P> = unsafe extern "C" fn(c_int, *mut P) -> NcclResult;
/// listen without a context.
pub type Listen = unsafe extern "C" fn(c_int, Handle, HandleOut) -> NcclResult;
/// connect without a device handle.
pub type Connect = unsafe extern "C" fn(c_int, Handle, HandleOut) -> NcclResult;
/// accept without a device handle.
pub type Accept = unsafe extern "C" fn(Handle, HandleOut) -> NcclResult;
/// regMr with a `size_t` size.
pub type RegMr = unsafe extern "C" fn(Handle, Handle, usize, c_int, HandleOut) -> NcclResult;
/// regMrDmaBuf.
pub type RegMrDmaBuf =
    unsafe extern "C" fn(Handle, Handle, usize, c_int, u64, c_int, HandleOut) -> NcclResult;
/// deregMr.
pub type DeregMr = unsafe extern "C" fn(Handle, Handle) -> NcclResult;
/// isend with a tag and an `int` size.
pub type Isend =
    unsafe extern "C" fn(Handle, Handle, c_int, c_int, Handle, HandleOut) -> NcclResult;
/// irecv of several buffers with `int` sizes.
pub type Irecv = unsafe extern "C" fn(
    Handle,
    c_int,
    HandleOut,
    *mut c_int,
    *mut c_int,
    HandleOut,
    HandleOut,
) -> NcclResult;
/// iflush of several buffers.
pub type Iflush =
    unsafe extern "C" fn(Handle, c_int, HandleOut, *mut c_int, HandleOut, HandleOut) -> NcclResult;
/// test.
pub type Test = unsafe extern "C" fn(Handle, *mut c_int, *mut c_int) -> NcclResult;
/// closeSend, closeRecv, closeListen.
pub type Close = unsafe extern "C" fn(Handle) -> NcclResult;

/// A table as C sees it: a plain writable data object, since loaders have been seen to write to the
/// name (field report ABI-14). We ourselves never read it.
#[repr(transparent)]
#[derive(Debug)]
pub struct Table<T>(UnsafeCell<T>);

// SAFETY: the cell is read and written by C only, under its own rules, and by the loader's one call
// before anybody can know its address.
unsafe impl<T> Sync for Table<T> {}

impl<T> Table<T> {
    /// Wraps a table.
    #[must_use]
    pub const fn new(table: T) -> Self {
        Self(UnsafeCell::new(table))
    }

    /// Where it is.
    #[must_use]
    pub const fn as_ptr(&self) -> *mut T {
        self.0.get()
    }
}
