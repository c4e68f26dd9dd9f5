//! Monotonic milliseconds for the engine.
//!
//! Read only in init, connect, accept, close and deregistration, and in every 256th progress pass without
//! a completion (decision 34): never on the path of a message.

use std::sync::OnceLock;
use std::time::Instant;

static START: OnceLock<Instant> = OnceLock::new();

/// Milliseconds since the first call in this process.
pub(crate) fn now_ms() -> u64 {
    let elapsed = START.get_or_init(Instant::now).elapsed();
    u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
}

/// Microseconds since the first call in this process; for the phases of init.
pub(crate) fn now_us() -> u64 {
    let elapsed = START.get_or_init(Instant::now).elapsed();
    u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX)
}

/// A bound on something that is waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    started_ms: u64,
    bound_ms: u64,
}

impl Deadline {
    /// Runs out `bound_ms` from now.
    pub(crate) fn after(bound_ms: u64) -> Self {
        Self {
            started_ms: now_ms(),
            bound_ms,
        }
    }

    /// Whether the bound has passed.
    pub(crate) fn is_over(&self) -> bool {
        self.waited_ms() >= self.bound_ms
    }

    /// Whether it runs out later than another.
    pub(crate) const fn ends_after(&self, other: &Self) -> bool {
        self.started_ms.saturating_add(self.bound_ms)
            > other.started_ms.saturating_add(other.bound_ms)
    }

    /// How long has been waited.
    pub(crate) fn waited_ms(&self) -> u64 {
        now_ms().saturating_sub(self.started_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_does_not_run_backwards() {
        let first = now_ms();
        assert!(now_ms() >= first);
    }

    #[test]
    fn a_deadline_of_nothing_is_over_and_a_long_one_is_not() {
        assert!(Deadline::after(0).is_over());
        assert!(!Deadline::after(3_600_000).is_over());
    }
}
