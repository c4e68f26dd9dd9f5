//! The fuzz targets of this crate, on their corpora and inputs made of them, without a fuzzer.

mod imm;
#[path = "../../../../fuzz/replay.rs"]
mod replay;

use replay::replay;

#[test]
fn imm() {
    replay("imm", imm::check);
}
