//! What a rank is doing, where its watch can read it while the main thread is busy or stuck.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::frame::Beat;

/// The state of one stream of messages.
#[derive(Debug)]
pub(crate) struct Gauge {
    label: String,
    total: u64,
    posted: AtomicU64,
    done: AtomicU64,
    oldest: AtomicU64,
}

impl Gauge {
    /// `posted` messages are on their way or through, `done` are through, in order.
    pub(crate) fn set(&self, posted: u64, done: u64) {
        self.set_with_oldest(posted, done, done);
    }

    /// As `set`, where messages finish in any order and `oldest` is the first that has not.
    pub(crate) fn set_with_oldest(&self, posted: u64, done: u64, oldest: u64) {
        self.oldest.store(oldest, Ordering::Relaxed);
        self.posted.store(posted, Ordering::Relaxed);
        self.done.store(done, Ordering::Relaxed);
    }
}

#[derive(Debug)]
struct Stage {
    text: String,
    since: Instant,
}

/// The notice board of a rank.
#[derive(Debug)]
pub(crate) struct Board {
    stage: Mutex<Stage>,
    gauges: Mutex<Vec<Arc<Gauge>>>,
    /// Anything that moved.
    steps: AtomicU64,
    waiting: AtomicBool,
    ending: Arc<AtomicBool>,
    /// The last pulse seen by [`Board::quiet_for`], and when it was new.
    quiet: Mutex<(u64, Instant)>,
}

impl Board {
    pub(crate) fn new() -> Self {
        let stage = Stage {
            text: "starting".to_owned(),
            since: Instant::now(),
        };
        Self {
            stage: Mutex::new(stage),
            gauges: Mutex::default(),
            steps: AtomicU64::new(0),
            waiting: AtomicBool::new(false),
            ending: Arc::default(),
            quiet: Mutex::new((0, Instant::now())),
        }
    }

    /// A new stage begins; the gauges of the last one are gone.
    pub(crate) fn stage(&self, text: impl Into<String>) {
        lock(&self.gauges).clear();
        *lock(&self.stage) = Stage {
            text: text.into(),
            since: Instant::now(),
        };
        self.step();
    }

    /// Adds a stream of `total` messages to the stage.
    pub(crate) fn gauge(&self, label: String, total: u64) -> Arc<Gauge> {
        let gauge = Arc::new(Gauge {
            label,
            total,
            posted: AtomicU64::new(0),
            done: AtomicU64::new(0),
            oldest: AtomicU64::new(0),
        });
        lock(&self.gauges).push(Arc::clone(&gauge));
        gauge
    }

    /// Forgets the streams of the stage.
    pub(crate) fn clear_gauges(&self) {
        lock(&self.gauges).clear();
    }

    /// Something moved.
    pub(crate) fn step(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// While set, the rank waits for other ranks, which is theirs to explain.
    pub(crate) fn wait_for_others(&self, waiting: bool) {
        self.waiting.store(waiting, Ordering::Relaxed);
        self.step();
    }

    /// Set once the run is lost: what is open is to be closed now.
    pub(crate) fn ending(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.ending)
    }

    /// Whether the run is lost.
    pub(crate) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed)
    }

    pub(super) fn end(&self) {
        self.ending.store(true, Ordering::Relaxed);
    }

    fn waits_for_others(&self) -> bool {
        self.waiting.load(Ordering::Relaxed)
    }

    /// How long nothing has moved, as far as repeated calls of this can tell. Waiting for other
    /// ranks counts as moving.
    pub(crate) fn quiet_for(&self) -> Duration {
        let now = self.pulse();
        let mut quiet = lock(&self.quiet);
        if quiet.0 != now || self.waits_for_others() {
            *quiet = (now, Instant::now());
        }
        quiet.1.elapsed()
    }

    /// A number that changes whenever the rank gets on.
    fn pulse(&self) -> u64 {
        let posted = |g: &Arc<Gauge>| g.posted.load(Ordering::Relaxed);
        let done = |g: &Arc<Gauge>| g.done.load(Ordering::Relaxed);
        let moved = lock(&self.gauges).iter().fold(0_u64, |sum, g| {
            sum.wrapping_add(posted(g))
                .wrapping_add(done(g).wrapping_mul(0x1_0001))
        });
        self.steps
            .load(Ordering::Relaxed)
            .wrapping_mul(0x9e37_79b9)
            .wrapping_add(moved)
    }

    pub(crate) fn beat(&self) -> Beat {
        let gauges = lock(&self.gauges);
        Beat {
            stage: lock(&self.stage).text.clone(),
            done: gauges.iter().map(|g| g.done.load(Ordering::Relaxed)).sum(),
            total: gauges.iter().map(|g| g.total).sum(),
        }
    }

    /// One paragraph: stage, since when, and each stream that is not through.
    pub(crate) fn report(&self) -> String {
        let mut text = {
            let stage = lock(&self.stage);
            format!(
                "{} (for {:.1} s",
                stage.text,
                stage.since.elapsed().as_secs_f64()
            )
        };
        if self.waits_for_others() {
            text.push_str(", done here and waiting for the other ranks)");
            return text;
        }
        let quiet = lock(&self.quiet).1.elapsed().as_secs_f64();
        text.push_str(&format!(", nothing moved for {quiet:.1} s)"));
        for g in lock(&self.gauges).iter() {
            let (posted, done) = (
                g.posted.load(Ordering::Relaxed),
                g.done.load(Ordering::Relaxed),
            );
            if done < g.total {
                text.push_str(&format!(
                    "\n    {}: {done} of {} done, {} posted and not done{}",
                    g.label,
                    g.total,
                    posted.saturating_sub(done),
                    if posted > done {
                        format!(", waiting for message {}", g.oldest.load(Ordering::Relaxed))
                    } else {
                        format!(", message {posted} not posted yet")
                    },
                ));
            }
        }
        text
    }
}

/// A panic elsewhere must not hide the report.
fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_names_stage_stream_and_message() {
        let b = Board::new();
        b.stage("bw 8 B");
        let g = b.gauge("recv from rank 1, comm 0".to_owned(), 100);
        let before = b.pulse();
        g.set(24, 17);
        assert_ne!(before, b.pulse());
        let text = b.report();
        for part in [
            "bw 8 B",
            "recv from rank 1, comm 0",
            "17 of 100",
            "7 posted",
            "message 17",
        ] {
            assert!(text.contains(part), "{part:?} not in {text}");
        }
        b.stage("next");
        assert!(!b.report().contains("recv"));
    }

    #[test]
    fn a_rank_that_waits_for_others_says_so() {
        let b = Board::new();
        b.wait_for_others(true);
        assert!(b.report().contains("waiting for the other ranks"));
    }
}
