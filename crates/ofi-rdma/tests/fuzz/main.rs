//! The fuzz targets of this crate, on their corpora and inputs made of them, without a fuzzer.

mod calls;
mod conn;
mod ctrl;
mod handle;
#[path = "../../../../fuzz/replay.rs"]
mod replay;

use replay::replay;

#[test]
fn calls() {
    replay("calls", calls::check);
}

#[test]
fn conn() {
    replay("conn", conn::check);
}

#[test]
fn ctrl() {
    replay("ctrl", ctrl::check);
}

#[test]
fn handle() {
    replay("handle", handle::check);
}
