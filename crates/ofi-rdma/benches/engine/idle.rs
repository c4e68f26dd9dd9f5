//! `test` of requests that are not done, over and over: one operation is a look at all of them, on four rails.

use core::hint::black_box;

use ofi_bench::Board;
use ofi_rdma::{ReqKey, Test};

use crate::bench::Bench;
use crate::reference::Sender;

/// Messages in flight of one communicator at most.
const EACH: usize = 128;

/// A pass over the four empty queues, as the reference polls them: a call through a pointer each.
type Poll = fn(u8) -> usize;

fn nothing(rail: u8) -> usize {
    black_box(rail);
    0
}

fn outstanding(count: usize) -> (Bench, Vec<ReqKey>) {
    let mut bench = Bench::new(4);
    let mut requests = Vec::new();
    while requests.len() < count {
        let mut comm = bench.receiver();
        for _ in 0..EACH.min(count - requests.len()) {
            requests.push(bench.irecv(&mut comm));
            bench.complete();
        }
    }
    (bench, requests)
}

pub(crate) fn run(board: &mut Board) {
    let poll: Poll = black_box(nothing);
    for count in [1, 16, 128, 1024] {
        let (mut bench, requests) = outstanding(count);
        let reference = Sender::new(4);
        board
            .group(format!("idle test of {count} requests"))
            .with("ofi-rdma", || {
                for request in black_box(&requests) {
                    match bench.engine.test(*request) {
                        Ok(Test::Pending { poll: true }) => {
                            assert_eq!((0..4).map(poll).sum::<usize>(), 0);
                        }
                        Ok(Test::Pending { poll: false }) => {}
                        other => panic!("{other:?}"),
                    }
                }
            })
            .with("mutexes, polls each time", || {
                for request in 0..count {
                    black_box(reference.test(request));
                }
            })
            .run();
    }
}
