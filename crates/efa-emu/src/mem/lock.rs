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
/// Attempts after that between two looks at whether the holder lives, and works. Few: on a busy machine
/// each gives the processor away for some milliseconds, and a call must not take as long as many of them.
const LOOK_EVERY: u32 = 16;

/// Waiting for another process, which may be stopped or gone.
#[derive(Debug, Default)]
pub(super) struct Patience(u32);

impl Patience {
    /// Waits a little; whether it is time to ask what the other one does.
    pub(super) fn wait(&mut self) -> bool {
        self.0 = self.0.wrapping_add(1);
        if self.0 < SPINS {
            spin_loop();
            return false;
        }
        yield_now();
        self.0 % LOOK_EVERY == 0
    }
}

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
        let mut patience = Patience::default();
        loop {
            let taken = self
                .0
                .compare_exchange_weak(0, own, Ordering::Acquire, Ordering::Relaxed);
            let Err(holder) = taken else {
                return Some(Held(self));
            };
            if patience.wait() && holder != 0 && !is_at_work(holder) {
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

    /// How often the processor is given away before it is known that the holder is stopped does not depend
    /// on how long each time takes.
    #[test]
    fn the_holder_is_asked_after_soon() {
        let mut patience = Patience::default();
        let waits = |patience: &mut Patience| {
            let mut waits = 1;
            while !patience.wait() {
                waits += 1;
            }
            waits
        };
        assert_eq!(waits(&mut patience), SPINS);
        assert_eq!(waits(&mut patience), LOOK_EVERY);
        assert_eq!(waits(&mut patience), LOOK_EVERY);
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
