//! Any buffer is a handle or too short, and what was read is what is written back.
#![no_main]

#[path = "../../crates/ofi-rdma/tests/fuzz/handle.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::check(bytes));
