//! Any environment is parameters with notes, and a configuration or an error.
#![no_main]

#[path = "../../crates/ofi-net/tests/fuzz/environment.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::check(bytes));
