//! A connection each way: connect, its answer, a listener, a request, accept; with many there before.

use core::time::Duration;
use std::time::Instant;

use ofi_bench::Board;

use crate::bench::Bench;

/// Pairs made before it begins again with a new engine: what was there before is what is meant.
const MORE: usize = 500;

struct Pairs {
    bench: Bench,
    before: usize,
    made: usize,
}

impl Pairs {
    fn new(before: usize) -> Self {
        let mut bench = Bench::new(4);
        for _ in 0..before {
            bench.sender();
            bench.receiver();
        }
        Self {
            bench,
            before,
            made: 0,
        }
    }

    fn connect(&mut self, rounds: u64) -> Duration {
        let mut total = Duration::ZERO;
        for _ in 0..rounds {
            if self.made == MORE {
                *self = Self::new(self.before);
            }
            let start = Instant::now();
            self.bench.sender();
            self.bench.receiver();
            total += start.elapsed();
            self.made += 1;
        }
        total
    }
}

pub(crate) fn run(board: &mut Board) {
    for (before, title) in [
        (0, "the first"),
        (1000, "1 000 before"),
        (32_000, "32 000 before"),
    ] {
        if board.is_trial() && before > 1000 {
            continue;
        }
        let mut pairs = Pairs::new(before);
        board
            .group(format!("connection each way, {title}"))
            .timed("ofi-rdma", |n| pairs.connect(n))
            .run();
    }
}
