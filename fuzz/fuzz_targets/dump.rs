//! Any bytes are a state dump or none; any texts in place of its records are records, damaged ones, or none.
#![no_main]

#[path = "../../crates/ofi-net/tests/fuzz/dump.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::check(bytes));
