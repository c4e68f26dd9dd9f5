//! What simulations have gone through: which event followed which at a host, and in which states links
//! were seen, both roughly.

use core::hash::{BuildHasherDefault, Hasher};
use std::collections::HashSet;

use crate::ledger::{RECV, SEND, Truth};
use crate::link::Link;
use crate::report::What;
use crate::rng::mix;

/// Kinds of event, each with eight kinds of operation.
const KINDS: usize = 128;
const WORDS: usize = KINDS * KINDS / 64;

/// Sets that grow as runs are added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coverage {
    /// One bit for each pair of kinds of event.
    steps: Box<[u64]>,
    states: HashSet<u64, BuildHasherDefault<Mixed>>,
}

/// States are no input of anybody: any good mixing will do.
#[derive(Default)]
struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(byte.into());
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = mix(self.0 ^ word);
    }
}

impl Default for Coverage {
    fn default() -> Self {
        Self {
            steps: vec![0; WORDS].into_boxed_slice(),
            states: HashSet::default(),
        }
    }
}

impl Coverage {
    /// Different pairs of events that followed each other at a host: what was posted, refused, landed,
    /// completed, started, done, opened, closed.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps
            .iter()
            .map(|word| u64::from(word.count_ones()))
            .sum()
    }

    /// Different states of a link: phases of both sides, how many requests each has in flight, what is
    /// closed, answered, failed, waiting.
    #[must_use]
    pub fn states(&self) -> u64 {
        self.states.len() as u64
    }

    /// Adds what another run has gone through.
    pub fn absorb(&mut self, other: &Self) {
        for (word, more) in self.steps.iter_mut().zip(&other.steps) {
            *word |= more;
        }
        self.states.extend(&other.states);
    }

    /// An event of a kind came after one of another. Returns its kind for the next.
    pub(crate) fn step(&mut self, before: u8, what: What, a: u64) -> u8 {
        let detail = match what {
            What::Post | What::Busy | What::Land => a & 7,
            What::Complete => u64::from(a == 0),
            _ => 0,
        };
        let kind = (what as u8) << 3 | u8::try_from(detail).unwrap_or(0);
        let at = usize::from(before) % KINDS * KINDS + usize::from(kind) % KINDS;
        if let Some(word) = self.steps.get_mut(at / 64) {
            *word |= 1 << (at % 64);
        }
        kind
    }

    /// A link was seen in a state.
    pub(crate) fn see(&mut self, link: &Link, truth: &Truth, waiting: bool) {
        // 0, 1, 2, 3..4, 5..8, ...: what matters is none, one, some, many.
        let rough =
            |count: usize| u64::from((2 * count).next_power_of_two().trailing_zeros().min(15));
        let flag = u64::from;
        let mut state = flag(waiting);
        for side in [SEND, RECV] {
            let own = &link.sides[side];
            state = state << 3 | own.phase as u64;
            state = state << 4 | rough(own.pending.len());
            state = state << 2 | rough(own.one_sided.len()).min(3);
            state = state << 2 | rough(own.flushes.len() + own.awaited.len()).min(3);
            state = state << 2 | flag(truth.closed[side]) << 1 | flag(own.abort_at.is_some());
        }
        let writes = usize::try_from(truth.writes_out).unwrap_or(usize::MAX);
        state = state << 4 | rough(writes.min(1 << 20));
        state = state << 2 | flag(truth.answered) << 1 | flag(truth.tainted);
        self.states.insert(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_counts_once_and_its_order_matters() {
        let mut coverage = Coverage::default();
        let first = coverage.step(0, What::Post, 2);
        let second = coverage.step(first, What::Land, 2);
        assert_eq!(coverage.steps(), 2);
        coverage.step(first, What::Land, 2);
        assert_eq!(coverage.steps(), 2);
        coverage.step(second, What::Post, 2);
        coverage.step(first, What::Land, 1);
        assert_eq!(coverage.steps(), 4);
        let mut sum = Coverage::default();
        sum.absorb(&coverage);
        sum.absorb(&coverage);
        assert_eq!(sum, coverage);
    }
}
