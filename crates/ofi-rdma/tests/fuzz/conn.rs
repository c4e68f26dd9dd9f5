//! Any bytes are a connection message or an error, and what was read survives being written.

use ofi_rdma::limits::{CONN_BYTES, MAX_RAILS};
use ofi_rdma::wire::conn::Conn;

pub(crate) fn check(bytes: &[u8]) {
    check_length(bytes);
    // Few inputs have the one length that is looked into.
    let mut whole = [0; CONN_BYTES];
    let length = bytes.len().min(CONN_BYTES);
    whole[..length].copy_from_slice(&bytes[..length]);
    check_length(&whole);
}

fn check_length(bytes: &[u8]) {
    let Ok(conn) = Conn::decode(bytes) else {
        return;
    };
    assert!((1..=MAX_RAILS).contains(&usize::from(conn.rails)));
    assert!((1..=MAX_RAILS).contains(&usize::from(conn.control_rails)));
    assert!(conn.local_id < 1 << 18 && conn.remote_id < 1 << 18);
    let mut out = [0xff; CONN_BYTES];
    assert_eq!(conn.encode(&mut out), CONN_BYTES);
    let again = Conn::decode(&out).expect("what is written can be read");
    // Tails of names may hold anything, and the last bytes of one may be written anew as zero.
    assert_eq!(
        (again.rails, again.control_rails),
        (conn.rails, conn.control_rails)
    );
    assert_eq!(
        (again.local_id, again.remote_id),
        (conn.local_id, conn.remote_id)
    );
    assert_eq!(again.capabilities, conn.capabilities);
    let mut same = [0xff; CONN_BYTES];
    again.encode(&mut same);
    assert_eq!(same, out, "once written, it stays as it is");
}
