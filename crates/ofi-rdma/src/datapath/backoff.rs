//! How often a busy lane is tried.
//!
//! Some providers answer EAGAIN for ever to a peer that is gone, and make a connection attempt of
//! every try (providers 1a): a caller that polls would send thousands a second. So after some tries
//! in a row that were busy, with nothing else happening on the engine, the next one is skipped a pump,
//! then three, then seven, up to [`SKIPPED_MAX`]. No clock is needed: a lane is never late by more than
//! the pumps it has been busy for, and whatever happens (a completion, a call) ends the wait.

/// Busy tries before the first pump is skipped: connecting takes a few.
const FREE_TRIES: u8 = 32;

/// Doublings of the wait.
const DOUBLINGS: u8 = 6;

/// Most pumps skipped between two tries.
const SKIPPED_MAX: u16 = (1 << DOUBLINGS) - 1;

/// The waits of one lane.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Backoff {
    /// Tries in a row that were busy.
    tries: u8,
    /// Pumps to be skipped before the next.
    skip: u16,
    /// What had happened on the engine when it was last busy.
    happened: u64,
}

impl Backoff {
    /// Whether the lane is tried in this pump; `happened` counts what happens on the engine.
    #[inline]
    pub(crate) const fn is_due(&mut self, happened: u64) -> bool {
        if self.happened != happened {
            *self = Self {
                tries: 0,
                skip: 0,
                happened,
            };
        }
        if self.skip == 0 {
            return true;
        }
        self.skip -= 1;
        false
    }

    /// What is left of the wait, if nothing has happened since: the tries, and the pumps to be skipped.
    pub(crate) fn left(&self, happened: u64) -> Option<(u8, u16)> {
        (self.happened == happened).then_some((self.tries, self.skip))
    }

    /// The pump ended with the lane busy.
    #[cold]
    pub(crate) const fn busy(&mut self, happened: u64) {
        if self.happened != happened {
            *self = Self {
                tries: 0,
                skip: 0,
                happened,
            };
        }
        if self.tries < FREE_TRIES + DOUBLINGS {
            self.tries += 1;
        }
        let doublings = self.tries.saturating_sub(FREE_TRIES);
        self.skip = ((1 << doublings) - 1) & SKIPPED_MAX;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pumps, counted from 0, in which a lane that is always busy is tried.
    fn tried(pumps: u32) -> alloc::vec::Vec<u32> {
        let mut lane = Backoff::default();
        let due = |pump: &u32| {
            let due = lane.is_due(7);
            if due {
                lane.busy(7);
            }
            due.then_some(*pump).is_some()
        };
        (0..pumps).filter(due).collect()
    }

    #[test]
    fn the_waits_double_up_to_their_bound() {
        let tried = tried(100_000);
        let free = usize::from(FREE_TRIES);
        assert_eq!(
            tried[free - 1],
            u32::from(FREE_TRIES) - 1,
            "at first every pump"
        );
        let waits: alloc::vec::Vec<u32> = tried.windows(2).map(|w| w[1] - w[0]).collect();
        assert_eq!(waits[free..free + 3], [2, 4, 8]);
        assert_eq!(waits.last(), Some(&(u32::from(SKIPPED_MAX) + 1)));
        assert!(tried.len() < 2000, "{} tries in 100000 pumps", tried.len());
        // Never later than the pumps it has been busy for.
        assert!(tried.windows(2).all(|w| w[1] <= 2 * w[0] + 2));
    }

    #[test]
    fn whatever_happens_ends_the_wait() {
        let mut lane = Backoff::default();
        for _ in 0..1000 {
            if lane.is_due(7) {
                lane.busy(7);
            }
        }
        assert!(!lane.is_due(7));
        assert!(lane.is_due(8));
    }
}
