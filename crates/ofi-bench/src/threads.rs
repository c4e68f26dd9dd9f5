//! Several threads at one thing.

use core::time::Duration;
use std::sync::Barrier;
use std::time::Instant;

/// The time in which `count` threads run `work` `rounds` times in all; each thread gets its number. It begins
/// when the first of them begins, once all are there, and ends when the last one is done.
pub fn share<W: Fn(usize) + Sync>(count: usize, rounds: u64, work: W) -> Duration {
    let each = rounds.div_ceil(count.max(1) as u64);
    let barrier = Barrier::new(count);
    let (barrier, work) = (&barrier, &work);
    let run = move |thread: usize| {
        barrier.wait();
        let start = Instant::now();
        for _ in 0..each {
            work(thread);
        }
        (start, Instant::now())
    };
    let spans: Vec<(Instant, Instant)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..count)
            .map(|thread| scope.spawn(move || run(thread)))
            .collect();
        // A thread that panicked has said so, and has no time.
        threads.into_iter().filter_map(|t| t.join().ok()).collect()
    });
    let start = spans.iter().map(|span| span.0).min();
    let end = spans.iter().map(|span| span.1).max();
    start
        .zip(end)
        .map_or(Duration::ZERO, |(start, end)| end - start)
}

#[cfg(test)]
mod tests {
    use super::share;
    use core::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn every_thread_does_its_share() {
        let counts = [const { AtomicU64::new(0) }; 3];
        share(3, 10, |thread| {
            counts[thread].fetch_add(1, Ordering::Relaxed);
        });
        assert!(counts.iter().all(|n| n.load(Ordering::Relaxed) == 4));
    }
}
