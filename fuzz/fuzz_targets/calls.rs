//! Any sequence of calls and completions, legal or not: no panic, every write within its buffer, and in the end nothing is left.
#![no_main]

#[path = "../../crates/ofi-rdma/tests/fuzz/calls.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::check(bytes));
