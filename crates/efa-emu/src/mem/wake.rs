//! Waking the thread of another process: futex(2) on a word of its segment.

use core::hint::spin_loop;
use core::ptr;
use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;

use super::layout::Segment;

/// Sleeps until a relay waits to be served, or [`rouse`] is called, or so long. The owner's thread only.
pub(crate) fn sleep(segment: &Segment, at_most: Duration) {
    segment.asleep.store(1, Ordering::SeqCst);
    let wait = libc::timespec {
        tv_sec: libc::time_t::try_from(at_most.as_secs()).unwrap_or(0),
        tv_nsec: at_most.subsec_nanos().into(),
    };
    // If something was asked since, this returns at once.
    futex(&segment.asked, libc::FUTEX_WAIT, 0, &raw const wait);
    segment.asleep.store(0, Ordering::SeqCst);
}

/// Whether a relay waits to be served within the next microseconds, which the thread keeps its processor for.
pub(crate) fn is_wanted_soon(segment: &Segment) -> bool {
    /// Some 5 us.
    const SPINS: u32 = 256;
    (0..SPINS).any(|_| {
        spin_loop();
        segment.asked.load(Ordering::Relaxed) != 0
    })
}

/// Wakes the owner's thread if it sleeps: something was asked for just before.
pub(super) fn wake(segment: &Segment) {
    if segment.asleep.load(Ordering::SeqCst) != 0 {
        futex(&segment.asked, libc::FUTEX_WAKE, 1, ptr::null());
    }
}

/// Wakes it, and has it look.
pub(crate) fn rouse(segment: &Segment) {
    segment.asked.store(1, Ordering::SeqCst);
    wake(segment);
}

/// Whether anybody slept, or for how long, makes no difference to callers: they look again.
fn futex(word: &AtomicU32, operation: libc::c_int, value: u32, wait: *const libc::timespec) {
    // SAFETY: futex(2): a word that is borrowed, and a time or none. Not private: others map it too.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, wait) };
}

#[cfg(test)]
mod tests {
    use super::super::mapping;
    use super::*;
    use std::time::Instant;

    /// Far longer than any wake-up takes, and than a test may.
    const LONG: Duration = Duration::from_secs(600);

    #[test]
    fn who_is_asked_wakes() {
        let dir = tempfile::tempdir().expect("a directory");
        let (_, _, segment) = mapping::create(dir.path(), std::process::id()).expect("a segment");
        std::thread::scope(|scope| {
            for _ in 0..20 {
                segment.asked.store(0, Ordering::SeqCst);
                let sleeper = scope.spawn(|| sleep(&segment, LONG));
                // It may be before or after it sleeps.
                rouse(&segment);
                sleeper.join().expect("it woke");
                assert_eq!(segment.asleep.load(Ordering::SeqCst), 0);
            }
        });
    }

    #[test]
    fn who_is_not_asked_wakes_in_time() {
        let dir = tempfile::tempdir().expect("a directory");
        let (_, _, segment) = mapping::create(dir.path(), std::process::id()).expect("a segment");
        let (since, nap) = (Instant::now(), Duration::from_millis(5));
        while since.elapsed() < nap {
            sleep(&segment, nap);
        }
        assert!(since.elapsed() < LONG);
    }
}
