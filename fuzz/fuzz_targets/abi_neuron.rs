//! Any sequence of calls through Neuron's tables, legal or not, over the emulated EFA: `cargo xtask fuzz` builds
//! that and names its directory in `FI_PROVIDER_PATH`.
#![no_main]

#[path = "../../plugin/neuron/tests/fuzz/tables.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::check(bytes));
