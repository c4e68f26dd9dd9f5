//! Any buffer is a handle or too short, and what was read is what is written back.

use ofi_rdma::wire::handle::{HANDLE_BYTES, HANDLE_WIRE_BYTES, Handle};

pub(crate) fn check(bytes: &[u8]) {
    let handle = Handle::decode(bytes);
    assert_eq!(handle.is_some(), bytes.len() >= HANDLE_WIRE_BYTES);
    let Some(handle) = handle else { return };
    let mut out = bytes.to_vec();
    handle.encode(&mut out);
    assert_eq!(Handle::decode(&out), Some(handle));
    assert_eq!(
        out.get(HANDLE_BYTES..),
        bytes.get(HANDLE_BYTES..),
        "the tail is the caller's"
    );
}
