//! The engine alone, on a rail that takes everything: what a message costs in time. Instructions of the same:
//! `cargo xtask hot`.
#![expect(clippy::unwrap_used, reason = "benchmark")]
#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the contenders lock, and a benchmark reads the clock"
)]

#[path = "../../examples/hot_path/bench.rs"]
mod bench;
mod connect;
mod demux;
mod idle;
mod peers;
mod reference;
mod send;

use ofi_bench::Board;

fn main() {
    let mut board = Board::new("engine");
    send::run(&mut board);
    demux::run(&mut board);
    idle::run(&mut board);
    connect::run(&mut board);
    board.finish();
}
