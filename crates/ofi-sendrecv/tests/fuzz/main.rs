//! The fuzz targets of this crate, on their corpora and inputs made of them, without a fuzzer.

#[path = "../../../../fuzz/replay.rs"]
mod replay;
mod sendrecv;
mod tagged;

use replay::replay;

#[test]
fn sendrecv() {
    replay("sendrecv", sendrecv::check);
}

#[test]
fn tagged() {
    replay("tagged", tagged::check);
}
