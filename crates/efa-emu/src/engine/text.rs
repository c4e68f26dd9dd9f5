//! What the provider's error numbers mean, in the words of EFA's documents (providers.md 6).

use core::ffi::CStr;

/// The meaning of a `prov_errno`.
pub(crate) const fn meaning(prov_errno: i32) -> &'static CStr {
    match prov_errno {
        0 => c"Success",
        1 => c"Flushed during queue pair destroy",
        2 => c"Internal queue pair error",
        3 => c"Unsupported operation",
        4 => c"Invalid AH",
        5 => c"Invalid local key (lkey)",
        6 => c"Message too long for the local buffers",
        7 => c"Invalid remote key or address",
        8 => c"The remote side aborted the operation",
        9 => c"Destination queue pair does not exist or is in error state",
        10 => c"Receiver not ready",
        11 => c"Message length is invalid at the receiver",
        12 => c"Unexpected status of the responder",
        13 => c"Unresponsive remote: connection was not acknowledged",
        14 => c"Unknown peer: the remote side does not have this address",
        15 => c"Unreachable remote",
        4126 => c"Handshake with the peer failed",
        _ => c"Unknown error",
    }
}
