//! Any bytes are a connection message or an error, and what was read survives being written.
#![no_main]

#[path = "../../crates/ofi-rdma/tests/fuzz/conn.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::check(bytes));
