//! The one door to locks: std's, or loom's when a model is checked (`--cfg loom`).

#![cfg_attr(
    not(loom),
    expect(
        clippy::disallowed_types,
        reason = "this is the module the ban points to"
    )
)]

#[cfg(loom)]
use loom::sync as imp;
#[cfg(not(loom))]
use std::sync as imp;
use std::sync::PoisonError;

/// A lock that a panic of another holder does not close: what it guards here is consistent
/// between any two statements of a holder.
pub(crate) struct Mutex<T>(imp::Mutex<T>);

pub(crate) type Guard<'a, T> = imp::MutexGuard<'a, T>;

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(imp::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> Guard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A condition to wait for, with a [`Mutex`].
pub(crate) struct Condvar(imp::Condvar);

impl Condvar {
    pub(crate) fn new() -> Self {
        Self(imp::Condvar::new())
    }

    pub(crate) fn wait<'a, T>(&self, guard: Guard<'a, T>) -> Guard<'a, T> {
        self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}
