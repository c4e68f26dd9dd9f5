//! Any bytes are a trace, or a prefix of one, or an error; what was read is written as it was.
#![no_main]

#[path = "../../crates/ofi-trace/tests/fuzz/trace.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::check(bytes));
