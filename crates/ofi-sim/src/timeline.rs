//! Virtual time: what happens when, in one order that the seed decides.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

/// Something that happens at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Happening {
    /// An operation takes effect at its target (number of the operation).
    Deliver(u32),
    /// An operation completes at the one who posted it.
    Local(u32),
    /// A host gets the processor: it harvests, tests and posts.
    Step { host: u8, turn: u32 },
    /// A host dies.
    Kill(u8),
}

/// The events to come. Storage is reused: after warm-up nothing is allocated.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    heap: BinaryHeap<Reverse<(u64, u64, Happening)>>,
    // Breaks ties: first planned, first served, so that the order never depends on the heap.
    planned: u64,
}

impl Timeline {
    /// Plans `what` for the moment `at`.
    pub(crate) fn plan(&mut self, at: u64, what: Happening) {
        self.heap.push(Reverse((at, self.planned, what)));
        self.planned += 1;
    }

    /// The next event with its moment.
    pub(crate) fn pop(&mut self) -> Option<(u64, Happening)> {
        self.heap.pop().map(|Reverse((at, _, what))| (at, what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_and_ties_in_the_order_planned() {
        let mut line = Timeline::default();
        line.plan(5, Happening::Local(1));
        line.plan(3, Happening::Deliver(2));
        line.plan(5, Happening::Deliver(0));
        let order: Vec<_> = core::iter::from_fn(|| line.pop()).collect();
        let expected = [
            (3, Happening::Deliver(2)),
            (5, Happening::Local(1)),
            (5, Happening::Deliver(0)),
        ];
        assert_eq!(order, expected);
    }
}
