//! Any text is a PCI address, groups of NICs, a dump of hwloc, a file for NCCL, or an error that says so.
#![no_main]

#[path = "../../crates/ofi-topo/tests/fuzz/topo.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::check(bytes));
