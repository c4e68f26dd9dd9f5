//! Any sequence of calls and completions of SENDRECV: no panic, sizes and order as sent, nothing left in the end.
#![no_main]

#[path = "../../crates/ofi-sendrecv/tests/fuzz/tagged.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::check(bytes));
