//! A schedule: made, and its stripes walked; against the algorithm of protocol 2g.6 as it is written there, under
//! a mutex, with divisions and an allocated list of stripes.

#![expect(
    clippy::disallowed_types,
    reason = "the contender locks as the reference does"
)]
#![expect(clippy::unwrap_used, reason = "benchmark")]

use core::hint::black_box;
use std::sync::Mutex;

use ofi_bench::Board;
use ofi_sched::{Config, Policy, RailCount, Stripe, Threshold};

const MIN_STRIPE: u64 = 65_536;
const SMALL: u64 = 64;

/// Protocol 2g.6.
struct Reference {
    /// Next rail of small messages, and of the others.
    next: Mutex<(u64, u64)>,
}

impl Reference {
    fn plan(&self, len: u64, rails: u64) -> Vec<Stripe> {
        let mut next = self.next.lock().unwrap();
        let (small, large) = &mut *next;
        if len < SMALL {
            let rail = *small;
            *small = (*small + 1) % rails;
            return vec![stripe(rail, 0, len)];
        }
        let wanted = len.div_ceil(MIN_STRIPE).min(rails).max(1);
        let even = (2..=wanted).rev().find(|n| rails % n == 0);
        let count = even.unwrap_or(wanted);
        let start = *large;
        *large = (*large + count) % rails;
        let each = len.div_ceil(count).div_ceil(128) * 128;
        (0..count)
            .map(|k| {
                let offset = (k * each).min(len);
                stripe((start + k) % rails, offset, (len - offset).min(each))
            })
            .collect()
    }
}

fn stripe(rail: u64, offset: u64, len: u64) -> Stripe {
    let rail = u8::try_from(rail).unwrap();
    Stripe { rail, offset, len }
}

fn agree(len: u64, rails: u8) {
    let reference = Reference {
        next: Mutex::default(),
    };
    let mut ours = Threshold::new(Config::BASE).unwrap();
    for _ in 0..rails {
        let plan = ours.plan(len, RailCount::new(rails).unwrap());
        assert_eq!(
            plan.iter().collect::<Vec<_>>(),
            reference.plan(len, rails.into())
        );
    }
}

fn main() {
    let mut board = Board::new("plan");
    let sizes = [
        ("64 B", 64),
        ("64 KiB", 65_536),
        ("128 KiB + 1", 131_073),
        ("1 MiB", 1 << 20),
        ("8 MiB", 8 << 20),
    ];
    for rails in [1_u8, 2, 4, 8, 16] {
        for (title, len) in sizes {
            agree(len, rails);
            let count = RailCount::new(rails).unwrap();
            let mut ours = Threshold::new(Config::BASE).unwrap();
            let reference = Reference {
                next: Mutex::default(),
            };
            board
                .group(format!("plan, {rails:>2} rails, {title}"))
                .with("ofi-sched", move || {
                    for stripe in ours.plan(black_box(len), black_box(count)) {
                        black_box(stripe);
                    }
                })
                .with("mutex + division + Vec", move || {
                    for stripe in reference.plan(black_box(len), black_box(rails.into())) {
                        black_box(stripe);
                    }
                })
                .run();
        }
    }
    board.finish();
}
