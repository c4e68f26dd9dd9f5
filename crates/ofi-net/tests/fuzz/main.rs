//! The fuzz targets of this crate, on their corpora and inputs made of them, without a fuzzer.

mod dump;
mod environment;
#[path = "../../../../fuzz/replay.rs"]
mod replay;

use replay::replay;

#[test]
fn dump() {
    replay("dump", dump::check);
}

#[test]
fn environment() {
    replay("environment", environment::check);
}
