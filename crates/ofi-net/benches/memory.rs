//! What a process pays before its first message, with the provider of `FI_PROVIDER`: the start, and resident memory of
//! connections, in a process that connects to itself: the first, and each of a thousand more. What the provider itself
//! takes is in it.
#![expect(clippy::unwrap_used, reason = "benchmark")]

#[path = "../tests/common/mod.rs"]
mod common;

use common::{Side, config, connect};
use core::hint::black_box;
use ofi_bench::Board;
use std::time::Instant;

/// Times that a caller asks for the properties of a device: NCCL does for each of its channels and peers.
const PROPERTIES: usize = 500;

/// Connections after the first: a communicator at each end.
const MORE: usize = 1000;

/// Bytes of this process that are resident.
fn resident() -> f64 {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap();
    let kib = text.lines().find_map(|line| line.strip_prefix("Rss:"));
    let kib: f64 = kib.unwrap().trim_end_matches("kB").trim().parse().unwrap();
    kib * 1024.0
}

fn main() {
    let mut board = Board::new("memory");
    let more = if board.is_trial() { 10 } else { MORE };
    let start = Instant::now();
    let side = Side::new(config(4));
    for _ in 0..PROPERTIES {
        black_box(side.net.properties(0).unwrap());
    }
    let ms = start.elapsed().as_secs_f64() * 1e3;
    board.fact("init and 500 getProperties", ms, "ms");
    let queries = f64::from(side.net.startup().queries);
    board.fact("fi_getinfo of init and 500 getProperties", queries, "calls");
    let before = resident();
    let mut comms = vec![connect(&side.net, &side.net)];
    let first = resident();
    board.fact(
        "bytes of the first connection to itself, 4 rails",
        first - before,
        "B",
    );
    comms.extend((0..more).map(|_| connect(&side.net, &side.net)));
    let each = (resident() - first) / (2 * more) as f64;
    board.fact("bytes of a further communicator", each, "B");
    for (send, recv) in comms {
        side.net.close_send(send).unwrap();
        side.net.close_recv(recv).unwrap();
    }
    board.finish();
}
