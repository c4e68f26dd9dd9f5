//! The fuzz target of this crate, on its corpus and inputs made of it, without a fuzzer.

#![expect(
    clippy::print_stdout,
    reason = "what was done and skipped is said on the test's output"
)]

#[path = "../../../tests/replayed.rs"]
mod replayed;
mod tables;

#[test]
fn sequences_of_calls() {
    let finish = tables::sequences::finish;
    replayed::play("sequences_of_calls", "abi_nccl", tables::check, finish);
}
