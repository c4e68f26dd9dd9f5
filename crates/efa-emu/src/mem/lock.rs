//! A spin lock in shared memory that survives the death of its holder.
//!
//! What it guards is written so that stopping anywhere leaves it whole: entries first, then the one
//! store that makes them count. It is held for some ten stores, never across a copy.

use core::hint::spin_loop;
use core::sync::atomic::{AtomicU32, Ordering};
use std::thread::yield_now;

use super::presence::{is_at_work, is_there};

/// Attempts without giving the processor away.
const SPINS: u32 = 64;
/// Attempts between two looks at whether the holder lives, and works.
const PATIENCE: u32 = 1024;

/// 0, or the user that holds it ([`super::presence`]).
#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct Lock(AtomicU32);

/// The lock is released when this goes.
#[derive(Debug)]
pub(crate) struct Held<'a>(&'a Lock);

impl Lock {
    /// Waits for the lock, or takes it from a process that died with it. `None` if the holder is stopped
    /// (SIGSTOP): it may go on at any time, or never, so what needs the lock is to be tried again later.
    pub(crate) fn acquire(&self, own: u32) -> Option<Held<'_>> {
        let mut attempts = 0_u32;
        loop {
            let taken = self
                .0
                .compare_exchange_weak(0, own, Ordering::Acquire, Ordering::Relaxed);
            let Err(holder) = taken else {
                return Some(Held(self));
            };
            attempts = attempts.wrapping_add(1);
            if holder != 0 && attempts % PATIENCE == 0 && !is_at_work(holder) {
                if is_there(holder) {
                    return None;
                }
                let robbed =
                    self.0
                        .compare_exchange(holder, own, Ordering::Acquire, Ordering::Relaxed);
                if robbed.is_ok() {
                    return Some(Held(self));
                }
            }
            if attempts < SPINS {
                spin_loop();
            } else {
                yield_now();
            }
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.0.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicU64;

    #[test]
    fn one_at_a_time() {
        let (lock, counter) = (Lock::default(), AtomicU64::new(0));
        let own = std::process::id();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        let _held = lock.acquire(own).expect("nobody is stopped");
                        let now = counter.load(Ordering::Relaxed);
                        counter.store(now + 1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(counter.into_inner(), 4000);
    }

    #[test]
    fn the_dead_hold_nothing() {
        let mut child = std::process::Command::new("true").spawn().expect("true");
        let pid = child.id();
        child.wait().expect("wait");
        let lock = Lock(AtomicU32::new(pid));
        assert!(lock.acquire(std::process::id()).is_some());
        assert_eq!(lock.0.into_inner(), 0);
    }

    #[test]
    fn the_stopped_hold_nobody_up() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("sleep");
        let stopped = std::process::Command::new("kill")
            .args(["-STOP", &child.id().to_string()])
            .status();
        assert!(stopped.expect("kill").success());
        while is_at_work(child.id()) {
            yield_now();
        }
        let lock = Lock(AtomicU32::new(child.id()));
        assert!(lock.acquire(std::process::id()).is_none());
        child.kill().expect("kill");
        child.wait().expect("wait");
        assert!(lock.acquire(std::process::id()).is_some());
    }
}
