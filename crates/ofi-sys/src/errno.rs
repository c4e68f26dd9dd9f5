//! libfabric's error numbers, fi_errno(3): positive, those below 256 are the system's.

use core::ffi::c_int;

/// Good.
pub const FI_SUCCESS: c_int = 0;
/// The system's `EPERM`.
pub const FI_EPERM: c_int = libc::EPERM;
/// The system's `ENOENT`.
pub const FI_ENOENT: c_int = libc::ENOENT;
/// The system's `EINTR`.
pub const FI_EINTR: c_int = libc::EINTR;
/// The system's `EIO`.
pub const FI_EIO: c_int = libc::EIO;
/// The system's `E2BIG`.
pub const FI_E2BIG: c_int = libc::E2BIG;
/// The system's `EBADF`.
pub const FI_EBADF: c_int = libc::EBADF;
/// The system's `EAGAIN`.
pub const FI_EAGAIN: c_int = libc::EAGAIN;
/// The system's `ENOMEM`.
pub const FI_ENOMEM: c_int = libc::ENOMEM;
/// The system's `EACCES`.
pub const FI_EACCES: c_int = libc::EACCES;
/// The system's `EFAULT`.
pub const FI_EFAULT: c_int = libc::EFAULT;
/// The system's `EBUSY`.
pub const FI_EBUSY: c_int = libc::EBUSY;
/// The system's `ENODEV`.
pub const FI_ENODEV: c_int = libc::ENODEV;
/// The system's `EINVAL`.
pub const FI_EINVAL: c_int = libc::EINVAL;
/// The system's `EMFILE`.
pub const FI_EMFILE: c_int = libc::EMFILE;
/// The system's `ENOSPC`.
pub const FI_ENOSPC: c_int = libc::ENOSPC;
/// The system's `ENOSYS`.
pub const FI_ENOSYS: c_int = libc::ENOSYS;
/// The system's `ENOMSG`.
pub const FI_ENOMSG: c_int = libc::ENOMSG;
/// The system's `ENODATA`.
pub const FI_ENODATA: c_int = libc::ENODATA;
/// The system's `EOVERFLOW`.
pub const FI_EOVERFLOW: c_int = libc::EOVERFLOW;
/// The system's `EMSGSIZE`.
pub const FI_EMSGSIZE: c_int = libc::EMSGSIZE;
/// The system's `ENOPROTOOPT`.
pub const FI_ENOPROTOOPT: c_int = libc::ENOPROTOOPT;
/// The system's `EOPNOTSUPP`.
pub const FI_EOPNOTSUPP: c_int = libc::EOPNOTSUPP;
/// The system's `EADDRINUSE`.
pub const FI_EADDRINUSE: c_int = libc::EADDRINUSE;
/// The system's `EADDRNOTAVAIL`.
pub const FI_EADDRNOTAVAIL: c_int = libc::EADDRNOTAVAIL;
/// The system's `ENETDOWN`.
pub const FI_ENETDOWN: c_int = libc::ENETDOWN;
/// The system's `ENETUNREACH`.
pub const FI_ENETUNREACH: c_int = libc::ENETUNREACH;
/// The system's `ECONNABORTED`.
pub const FI_ECONNABORTED: c_int = libc::ECONNABORTED;
/// The system's `ECONNRESET`.
pub const FI_ECONNRESET: c_int = libc::ECONNRESET;
/// The system's `ENOBUFS`.
pub const FI_ENOBUFS: c_int = libc::ENOBUFS;
/// The system's `EISCONN`.
pub const FI_EISCONN: c_int = libc::EISCONN;
/// The system's `ENOTCONN`.
pub const FI_ENOTCONN: c_int = libc::ENOTCONN;
/// The system's `ESHUTDOWN`.
pub const FI_ESHUTDOWN: c_int = libc::ESHUTDOWN;
/// The system's `ETIMEDOUT`.
pub const FI_ETIMEDOUT: c_int = libc::ETIMEDOUT;
/// The system's `ECONNREFUSED`.
pub const FI_ECONNREFUSED: c_int = libc::ECONNREFUSED;
/// The system's `EHOSTDOWN`.
pub const FI_EHOSTDOWN: c_int = libc::EHOSTDOWN;
/// The system's `EHOSTUNREACH`.
pub const FI_EHOSTUNREACH: c_int = libc::EHOSTUNREACH;
/// The system's `EALREADY`.
pub const FI_EALREADY: c_int = libc::EALREADY;
/// The system's `EINPROGRESS`.
pub const FI_EINPROGRESS: c_int = libc::EINPROGRESS;
/// The system's `EREMOTEIO`.
pub const FI_EREMOTEIO: c_int = libc::EREMOTEIO;
/// The system's `ECANCELED`.
pub const FI_ECANCELED: c_int = libc::ECANCELED;
/// The system's `EKEYREJECTED`.
pub const FI_EKEYREJECTED: c_int = libc::EKEYREJECTED;
/// Unspecified.
pub const FI_EOTHER: c_int = 256;
/// A buffer is too small.
pub const FI_ETOOSMALL: c_int = 257;
/// Not permitted in this state.
pub const FI_EOPBADSTATE: c_int = 258;
/// An error entry is available.
pub const FI_EAVAIL: c_int = 259;
/// Flags not supported.
pub const FI_EBADFLAGS: c_int = 260;
/// No event queue bound.
pub const FI_ENOEQ: c_int = 261;
/// Wrong resource domain.
pub const FI_EDOMAIN: c_int = 262;
/// No completion queue bound.
pub const FI_ENOCQ: c_int = 263;
/// Checksum error.
pub const FI_ECRC: c_int = 264;
/// Message longer than its buffer.
pub const FI_ETRUNC: c_int = 265;
/// Key not available.
pub const FI_ENOKEY: c_int = 266;
/// No address vector bound.
pub const FI_ENOAV: c_int = 267;
/// Queue overrun.
pub const FI_EOVERRUN: c_int = 268;
/// Receiver not ready.
pub const FI_ENORX: c_int = 269;

/// Name of an error number as in fi_errno(3), sign ignored; `None` for one not listed there.
#[must_use]
pub const fn errno_name(errno: c_int) -> Option<&'static str> {
    Some(match errno.saturating_abs() {
        FI_EPERM => "FI_EPERM",
        FI_ENOENT => "FI_ENOENT",
        FI_EINTR => "FI_EINTR",
        FI_EIO => "FI_EIO",
        FI_E2BIG => "FI_E2BIG",
        FI_EBADF => "FI_EBADF",
        FI_EAGAIN => "FI_EAGAIN",
        FI_ENOMEM => "FI_ENOMEM",
        FI_EACCES => "FI_EACCES",
        FI_EFAULT => "FI_EFAULT",
        FI_EBUSY => "FI_EBUSY",
        FI_ENODEV => "FI_ENODEV",
        FI_EINVAL => "FI_EINVAL",
        FI_EMFILE => "FI_EMFILE",
        FI_ENOSPC => "FI_ENOSPC",
        FI_ENOSYS => "FI_ENOSYS",
        FI_ENOMSG => "FI_ENOMSG",
        FI_ENODATA => "FI_ENODATA",
        FI_EOVERFLOW => "FI_EOVERFLOW",
        FI_EMSGSIZE => "FI_EMSGSIZE",
        FI_ENOPROTOOPT => "FI_ENOPROTOOPT",
        FI_EOPNOTSUPP => "FI_EOPNOTSUPP",
        FI_EADDRINUSE => "FI_EADDRINUSE",
        FI_EADDRNOTAVAIL => "FI_EADDRNOTAVAIL",
        FI_ENETDOWN => "FI_ENETDOWN",
        FI_ENETUNREACH => "FI_ENETUNREACH",
        FI_ECONNABORTED => "FI_ECONNABORTED",
        FI_ECONNRESET => "FI_ECONNRESET",
        FI_ENOBUFS => "FI_ENOBUFS",
        FI_EISCONN => "FI_EISCONN",
        FI_ENOTCONN => "FI_ENOTCONN",
        FI_ESHUTDOWN => "FI_ESHUTDOWN",
        FI_ETIMEDOUT => "FI_ETIMEDOUT",
        FI_ECONNREFUSED => "FI_ECONNREFUSED",
        FI_EHOSTDOWN => "FI_EHOSTDOWN",
        FI_EHOSTUNREACH => "FI_EHOSTUNREACH",
        FI_EALREADY => "FI_EALREADY",
        FI_EINPROGRESS => "FI_EINPROGRESS",
        FI_EREMOTEIO => "FI_EREMOTEIO",
        FI_ECANCELED => "FI_ECANCELED",
        FI_EKEYREJECTED => "FI_EKEYREJECTED",
        FI_EOTHER => "FI_EOTHER",
        FI_ETOOSMALL => "FI_ETOOSMALL",
        FI_EOPBADSTATE => "FI_EOPBADSTATE",
        FI_EAVAIL => "FI_EAVAIL",
        FI_EBADFLAGS => "FI_EBADFLAGS",
        FI_ENOEQ => "FI_ENOEQ",
        FI_EDOMAIN => "FI_EDOMAIN",
        FI_ENOCQ => "FI_ENOCQ",
        FI_ECRC => "FI_ECRC",
        FI_ETRUNC => "FI_ETRUNC",
        FI_ENOKEY => "FI_ENOKEY",
        FI_ENOAV => "FI_ENOAV",
        FI_EOVERRUN => "FI_EOVERRUN",
        FI_ENORX => "FI_ENORX",
        _ => return None,
    })
}
