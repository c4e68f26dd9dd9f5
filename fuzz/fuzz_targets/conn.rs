//! Any bytes are a connection message or an error, and what was read survives a round trip.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ofi_rdma::limits::{CONN_BYTES, MAX_RAILS};
use ofi_rdma::wire::conn::Conn;

fuzz_target!(|bytes: &[u8]| {
    let Ok(conn) = Conn::decode(bytes) else {
        return;
    };
    assert!((1..=MAX_RAILS).contains(&usize::from(conn.rails)));
    assert!((1..=MAX_RAILS).contains(&usize::from(conn.control_rails)));
    assert!(conn.local_id < 1 << 18 && conn.remote_id < 1 << 18);
    let mut out = [0xff; CONN_BYTES];
    assert_eq!(conn.encode(&mut out), CONN_BYTES);
    assert_eq!(Conn::decode(&out), Ok(conn));
});
