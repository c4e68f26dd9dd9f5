//! The fuzz targets of this crate, on their corpora and inputs made of them, without a fuzzer.

#[path = "../../../../fuzz/replay.rs"]
mod replay;
mod topo;

use replay::replay;

#[test]
fn topo() {
    replay("topo", topo::check);
}
