//! Types and numbers that all plugin tables share (protocol 2a.1, 2a.2).

use core::ffi::{c_char, c_int, c_ulong};

/// `ncclResult_t`.
pub type NcclResult = c_int;

/// ncclSuccess.
pub const SUCCESS: NcclResult = 0;
/// ncclSystemError: the system, the provider, or a limit.
pub const SYSTEM_ERROR: NcclResult = 2;
/// ncclInternalError: a call that makes no sense, or a bug.
pub const INTERNAL_ERROR: NcclResult = 3;
/// ncclInvalidArgument: not initialised, and some NULL arguments.
pub const INVALID_ARGUMENT: NcclResult = 4;
/// ncclInvalidUsage: a message too long.
pub const INVALID_USAGE: NcclResult = 5;
/// ncclRemoteError: the peer is gone.
pub const REMOTE_ERROR: NcclResult = 6;

/// Memory of the host.
pub const PTR_HOST: c_int = 0x1;
/// Memory of a CUDA device (NCCL).
pub const PTR_CUDA: c_int = 0x2;
/// Memory can be registered by dma-buf (NCCL): a bit of ptrSupport, and no type.
pub const PTR_DMABUF: c_int = 0x4;
/// Memory of a Neuron device (Neuron).
pub const PTR_NEURON: c_int = 0x4;

/// What a caller writes into `*request` of irecv to say that it does not need to know when the data
/// has arrived (`NCCL_NET_OPTIONAL_RECV_COMPLETION`).
pub const OPTIONAL_COMPLETION: usize = 1;

/// Bytes of a connection handle that mean something (protocol 2b). A caller's buffer has 128 (v4: 64)
/// and need not be initialised beyond these.
pub const HANDLE_BYTES: usize = 88;
/// Bytes of a v4 handle.
pub const HANDLE_V4_BYTES: usize = 64;

/// The logger that a collectives library passes to init: variadic, like printf(3).
pub type LogFn = unsafe extern "C" fn(
    level: c_int,
    flags: c_ulong,
    file: *const c_char,
    line: c_int,
    format: *const c_char,
    ...
);
