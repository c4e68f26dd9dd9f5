//! Any word decodes, and encodes back to itself; what a narrow provider would cut is refused.
#![no_main]

#[path = "../../crates/ofi-imm/tests/fuzz/imm.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::check(bytes));
