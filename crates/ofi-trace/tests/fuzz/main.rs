//! The fuzz targets of this crate, on their corpora and inputs made of them, without a fuzzer.

#[path = "../../../../fuzz/replay.rs"]
mod replay;
mod stats;
mod trace;

use replay::replay;

#[test]
fn stats() {
    replay("stats", stats::check);
}

#[test]
fn trace() {
    replay("trace", trace::check);
}
