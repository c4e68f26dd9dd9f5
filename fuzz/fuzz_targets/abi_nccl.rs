//! Any sequence of calls through NCCL's tables, legal or not, over the emulated EFA: `cargo xtask fuzz` builds
//! that and names its directory in `FI_PROVIDER_PATH`.
#![no_main]

#[path = "../../plugin/nccl/tests/fuzz/tables.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::check(bytes));
