//! A spin lock in shared memory that survives the death of its holder.
//!
//! What it guards is written so that stopping anywhere leaves it whole: entries first, then the one
//! store that makes them count. It is held for some ten stores, never across a copy.

use core::hint::spin_loop;
use core::sync::atomic::{AtomicU32, Ordering};
use std::thread::yield_now;

use crate::alive::is_running;

/// Attempts without giving the processor away.
const SPINS: u32 = 64;
/// Attempts between two looks at whether the holder lives.
const PATIENCE: u32 = 4096;

/// 0, or the process that holds it.
#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct Lock(AtomicU32);

/// The lock is released when this goes.
#[derive(Debug)]
pub(crate) struct Held<'a>(&'a Lock);

impl Lock {
    /// Waits for the lock, or takes it from a process that died with it.
    pub(crate) fn acquire(&self, own_pid: u32) -> Held<'_> {
        let mut attempts = 0_u32;
        loop {
            let taken =
                self.0
                    .compare_exchange_weak(0, own_pid, Ordering::Acquire, Ordering::Relaxed);
            let Err(holder) = taken else {
                return Held(self);
            };
            attempts = attempts.wrapping_add(1);
            if holder != 0 && attempts % PATIENCE == 0 && !is_running(holder) {
                let robbed =
                    self.0
                        .compare_exchange(holder, own_pid, Ordering::Acquire, Ordering::Relaxed);
                if robbed.is_ok() {
                    return Held(self);
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
                        let _held = lock.acquire(own);
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
        drop(lock.acquire(std::process::id()));
        assert_eq!(lock.0.into_inner(), 0);
    }
}
