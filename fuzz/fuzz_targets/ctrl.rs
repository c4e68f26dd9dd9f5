//! Any bytes are a CTRL, a CLOSE or an error, for every number of rails.
#![no_main]

#[path = "../../crates/ofi-rdma/tests/fuzz/ctrl.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::check(bytes));
