//! Idle `test` by 1, 2 and 4 threads, all on one domain or on one each, with the provider of `FI_PROVIDER`: the time
//! of one of all calls. Who finds a domain busy does not wait (decision 25).
#![expect(clippy::unwrap_used, reason = "benchmark")]

#[path = "../tests/common/mod.rs"]
mod common;

use common::{Buffer, Side, config, connect, irecv};
use ofi_bench::{Board, threads};
use ofi_net::ReqWord;

/// Most threads there are.
const MOST: usize = 4;

/// A receive that waits, for good.
fn waiting(side: &Side) -> ReqWord {
    let (_, recv) = connect(&side.net, &side.net);
    let mut sink = Buffer::new(&side.net, recv, vec![0; 64]);
    irecv(&side.net, recv, &mut sink, 0, 64)
}

fn main() {
    let mut board = Board::new("threads");
    let shared = Side::new(config(1));
    let of_shared: Vec<ReqWord> = (0..MOST).map(|_| waiting(&shared)).collect();
    let own: Vec<Side> = (0..MOST).map(|_| Side::new(config(1))).collect();
    let of_own: Vec<ReqWord> = own.iter().map(waiting).collect();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    for count in [1, 2, MOST] {
        let over = if count > cores {
            ", oversubscribed"
        } else {
            ""
        };
        board
            .group(format!("idle test, {count} threads{over}"))
            .timed("ofi-net, a domain each", |rounds| {
                threads::share(count, rounds, |at| {
                    assert_eq!(own[at].net.test(of_own[at]).unwrap(), None);
                })
            })
            .timed("ofi-net, one domain", |rounds| {
                threads::share(count, rounds, |at| {
                    assert_eq!(shared.net.test(of_shared[at]).unwrap(), None);
                })
            })
            .run();
    }
    board.finish();
}
