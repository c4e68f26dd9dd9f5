//! Any thread may call (FI_THREAD_SAFE).

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use efa_fabric::Posted;

use crate::side::{Actor, DEADLINE, Event, Pair, Side};

const THREADS: u64 = 3;
const EACH: u64 = 300;

/// Three threads post on one endpoint, and all of them poll one queue.
pub(crate) fn all_at_once(actor: &Actor<'_>) {
    let pair = actor.pair(4096);
    let total = usize::try_from(THREADS * EACH).unwrap_or(0);
    let (sum, seen) = (AtomicU64::new(0), AtomicUsize::new(0));
    let start = Instant::now();
    let poll = || {
        for event in pair.side.poll() {
            let Event::Done(entry) = event else {
                panic!("{event:?}");
            };
            sum.fetch_add(entry.data(), Ordering::Relaxed);
            seen.fetch_add(1, Ordering::Relaxed);
        }
        assert!(start.elapsed() < DEADLINE, "{seen:?} of {total}");
    };
    let is_sender = actor.side == 0;
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (pair, poll, seen) = (&pair, &poll, &seen);
            scope.spawn(move || {
                let numbers = thread * EACH..(thread + 1) * EACH;
                for data in numbers.filter(|_| is_sender) {
                    while post(pair, data) != Posted::Accepted {
                        poll();
                    }
                }
                while seen.load(Ordering::Relaxed) < total {
                    poll();
                    std::thread::yield_now();
                }
            });
        }
    });
    assert_eq!(seen.into_inner(), total);
    let all = THREADS * EACH;
    let expected = if is_sender { 0 } else { all * (all - 1) / 2 };
    assert_eq!(sum.into_inner(), expected);
    actor.link.meet();
}

fn post(pair: &Pair, data: u64) -> Posted {
    let (source, context) = (pair.memory.source(512), Side::context());
    // SAFETY: memory and context are never freed.
    let posted = unsafe {
        pair.side
            .ep
            .post_writedata(source, data, pair.target, context)
    };
    posted.expect("a post")
}
