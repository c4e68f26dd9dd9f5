//! The lock of a domain (decision 25): one thread at a time, and nobody spins.
//!
//! A call that finds the domain busy answers "not now" instead of waiting. A thread that was turned
//! away [`PATIENCE`] times in a row waits for the lock the next time, so that nobody starves beside a
//! thread that polls without pause.

use core::cell::Cell;
use std::sync::TryLockError;

#[cfg(loom)]
use loom::sync::Mutex;
#[cfg(not(loom))]
use std::sync::Mutex;

#[cfg(loom)]
pub(crate) use loom::sync::MutexGuard;
#[cfg(not(loom))]
pub(crate) use std::sync::MutexGuard;

/// Refused attempts in a row after which a thread waits for the lock. In a model as few as show both.
pub(crate) const PATIENCE: u32 = if cfg!(loom) { 2 } else { 32 };

#[cfg(not(loom))]
thread_local! {
    /// Attempts of this thread in a row that found a domain busy.
    static REFUSED: Cell<u32> = const { Cell::new(0) };
}
#[cfg(loom)]
loom::thread_local! {
    static REFUSED: Cell<u32> = Cell::new(0);
}

/// A panic happened while the domain was held: what it protects cannot be trusted any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Poisoned;

/// Mutual exclusion whose contended path is an answer, not a wait.
#[derive(Debug)]
pub(crate) struct DomainLock<T> {
    inner: Mutex<T>,
}

impl<T> DomainLock<T> {
    /// A lock around `value`.
    pub(crate) fn new(value: T) -> Self {
        Self {
            inner: Mutex::new(value),
        }
    }

    /// Enters if nobody is inside; `None` when busy, but for a thread that ran out of patience,
    /// which waits.
    pub(crate) fn try_enter(&self) -> Result<Option<MutexGuard<'_, T>>, Poisoned> {
        match self.inner.try_lock() {
            Ok(guard) => {
                REFUSED.with(|refused| refused.set(0));
                Ok(Some(guard))
            }
            Err(TryLockError::Poisoned(_)) => Err(Poisoned),
            Err(TryLockError::WouldBlock) => self.refused(),
        }
    }

    /// Enters if nobody is inside; being turned away costs no patience.
    pub(crate) fn glance(&self) -> Option<MutexGuard<'_, T>> {
        self.inner.try_lock().ok()
    }

    #[cold]
    fn refused(&self) -> Result<Option<MutexGuard<'_, T>>, Poisoned> {
        let refused = REFUSED.with(Cell::get).saturating_add(1);
        let is_patient = refused < PATIENCE;
        REFUSED.with(|count| count.set(if is_patient { refused } else { 0 }));
        if is_patient {
            return Ok(None);
        }
        self.enter().map(Some)
    }

    /// Enters, waiting for whoever is inside. Every holder leaves after a bounded pass, so the wait
    /// is bounded as well.
    pub(crate) fn enter(&self) -> Result<MutexGuard<'_, T>, Poisoned> {
        self.inner.lock().map_err(|_| Poisoned)
    }

    /// The value for teardown, whatever happened before.
    pub(crate) fn into_inner(self) -> T {
        self.inner
            .into_inner()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_busy_domain_is_an_answer_until_patience_runs_out() {
        let lock = Arc::new(DomainLock::new(0_u32));
        let held = lock.enter().unwrap();
        let other = Arc::clone(&lock);
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let mut refusals = 0;
            loop {
                // The attempt after the last refusal waits: the holder is told before it.
                if refusals == PATIENCE - 1 {
                    tell.send(refusals).unwrap();
                }
                match other.try_enter().unwrap() {
                    Some(mut guard) => {
                        *guard += 1;
                        return refusals;
                    }
                    None => refusals += 1,
                }
            }
        });
        assert_eq!(told.recv().unwrap(), PATIENCE - 1);
        drop(held);
        assert_eq!(thread.join().unwrap(), PATIENCE - 1);
        assert_eq!(*lock.enter().unwrap(), 1);
    }

    #[test]
    fn a_panic_inside_is_told_to_everybody_after() {
        let lock = Arc::new(DomainLock::new(()));
        let other = Arc::clone(&lock);
        let thread = std::thread::spawn(move || {
            let _held = other.enter().unwrap();
            panic!("on purpose");
        });
        thread.join().unwrap_err();
        assert_eq!(lock.try_enter().err(), Some(Poisoned));
        assert_eq!(lock.enter().err(), Some(Poisoned));
    }
}
