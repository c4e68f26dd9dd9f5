//! Any bytes are a connect message of SENDRECV or refused, and what was read is what is written back.
#![no_main]

#[path = "../../crates/ofi-sendrecv/tests/fuzz/sendrecv.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::check(bytes));
