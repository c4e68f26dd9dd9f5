//! The C function types of the plugin tables, one alias per shape (protocol 2a.2 and 2a.3).
//!
//! Every function returns an `ncclResult_t` as `int`. Opaque things (communicators, requests,
//! memory handles) are `void *`; nothing here is ever dereferenced by this program.

use core::ffi::{c_char, c_int, c_ulong, c_void};

/// `void *`: a communicator, request, memory handle or context of the plugin.
pub(crate) type Opaque = *mut c_void;

/// The logger the plugin is given. C declares it variadic; see [`super::logger`] for why this
/// fixed form is what we pass.
pub(crate) type Logger = unsafe extern "C" fn(
    level: c_int,
    flags: c_ulong,
    file: *const c_char,
    line: c_int,
    fmt: *const c_char,
    first: *const c_void,
);

/// `ncclNetCommConfig_t` of NCCL v10 and later.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct CommConfig {
    /// -1: not defined.
    pub(crate) traffic_class: c_int,
}

pub(crate) type Init = unsafe extern "C" fn(Logger) -> c_int;
pub(crate) type InitProfiled = unsafe extern "C" fn(Logger, *const c_void) -> c_int;
pub(crate) type InitContext =
    unsafe extern "C" fn(*mut Opaque, u64, *const CommConfig, Logger, *const c_void) -> c_int;
pub(crate) type Fini = unsafe extern "C" fn() -> c_int;
pub(crate) type Finalize = unsafe extern "C" fn(Opaque) -> c_int;
pub(crate) type Devices = unsafe extern "C" fn(*mut c_int) -> c_int;
pub(crate) type GetProperties = unsafe extern "C" fn(c_int, *mut c_void) -> c_int;

pub(crate) type Listen = unsafe extern "C" fn(c_int, *mut c_void, *mut Opaque) -> c_int;
pub(crate) type ListenContext =
    unsafe extern "C" fn(Opaque, c_int, *mut c_void, *mut Opaque) -> c_int;
pub(crate) type Connect = unsafe extern "C" fn(c_int, *mut c_void, *mut Opaque) -> c_int;
pub(crate) type ConnectDevice =
    unsafe extern "C" fn(c_int, *mut c_void, *mut Opaque, *mut Opaque) -> c_int;
pub(crate) type ConnectConfig =
    unsafe extern "C" fn(c_int, *const CommConfig, *mut c_void, *mut Opaque, *mut Opaque) -> c_int;
pub(crate) type ConnectContext =
    unsafe extern "C" fn(Opaque, c_int, *mut c_void, *mut Opaque, *mut Opaque) -> c_int;
pub(crate) type Accept = unsafe extern "C" fn(Opaque, *mut Opaque) -> c_int;
pub(crate) type AcceptDevice = unsafe extern "C" fn(Opaque, *mut Opaque, *mut Opaque) -> c_int;

pub(crate) type RegMrInt =
    unsafe extern "C" fn(Opaque, *mut c_void, c_int, c_int, *mut Opaque) -> c_int;
pub(crate) type RegMr =
    unsafe extern "C" fn(Opaque, *mut c_void, usize, c_int, *mut Opaque) -> c_int;
pub(crate) type DeregMr = unsafe extern "C" fn(Opaque, Opaque) -> c_int;

pub(crate) type IsendUntagged =
    unsafe extern "C" fn(Opaque, *mut c_void, c_int, Opaque, *mut Opaque) -> c_int;
pub(crate) type Isend =
    unsafe extern "C" fn(Opaque, *mut c_void, c_int, c_int, Opaque, *mut Opaque) -> c_int;
pub(crate) type IsendWide =
    unsafe extern "C" fn(Opaque, *mut c_void, usize, c_int, Opaque, *mut Opaque) -> c_int;
pub(crate) type IsendProfiled =
    unsafe extern "C" fn(Opaque, *mut c_void, usize, c_int, Opaque, Opaque, *mut Opaque) -> c_int;

pub(crate) type IrecvSingle =
    unsafe extern "C" fn(Opaque, *mut c_void, c_int, Opaque, *mut Opaque) -> c_int;
pub(crate) type Irecv = unsafe extern "C" fn(
    Opaque,
    c_int,
    *mut *mut c_void,
    *mut c_int,
    *mut c_int,
    *mut Opaque,
    *mut Opaque,
) -> c_int;
pub(crate) type IrecvWide = unsafe extern "C" fn(
    Opaque,
    c_int,
    *mut *mut c_void,
    *mut usize,
    *mut c_int,
    *mut Opaque,
    *mut Opaque,
) -> c_int;
pub(crate) type IrecvProfiled = unsafe extern "C" fn(
    Opaque,
    c_int,
    *mut *mut c_void,
    *mut usize,
    *mut c_int,
    *mut Opaque,
    *mut Opaque,
    *mut Opaque,
) -> c_int;

pub(crate) type IflushSingle = IrecvSingle;
pub(crate) type Iflush = unsafe extern "C" fn(
    Opaque,
    c_int,
    *mut *mut c_void,
    *mut c_int,
    *mut Opaque,
    *mut Opaque,
) -> c_int;
pub(crate) type Test = unsafe extern "C" fn(Opaque, *mut c_int, *mut c_int) -> c_int;
pub(crate) type Close = unsafe extern "C" fn(Opaque) -> c_int;

/// A slot this program does not call; kept so that the layout is whole.
pub(crate) type Unused = *const c_void;

/// Declares a function table and proves, when compiled, that every field stands in the slot that
/// the protocol document gives it (slot k at byte 8k) and that the table has the right size.
macro_rules! table {
    ($(#[$doc:meta])* $name:ident, $size:literal bytes {
        $($field:ident: $ty:ty = $slot:literal,)*
    }) => {
        $(#[$doc])*
        #[repr(C)]
        #[derive(Debug, Clone, Copy)]
        pub(crate) struct $name {
            $(pub(crate) $field: $ty,)*
        }
        const _: () = {
            assert!(core::mem::size_of::<$name>() == $size);
            $(assert!(core::mem::offset_of!($name, $field) == 8 * $slot);)*
        };
    };
}
pub(crate) use table;
