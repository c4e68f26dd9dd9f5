//! Any bytes are counters of a process, or an error; its texts can be printed.
#![no_main]

#[path = "../../crates/ofi-trace/tests/fuzz/stats.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::check(bytes));
