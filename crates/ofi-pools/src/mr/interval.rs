//! Which of many ranges, nested and overlapping as they like, covers this one?
//!
//! ```text
//! firsts   [ s0        | s16           | s30         ]   first start of each leaf; searched first
//! best     [ end,slot  | end,slot      | end,slot    ]   the range that reaches furthest, of this
//!              |              |              |           leaf and all before it
//! leaves   [ starts... ] [ starts... ] [ starts... ]     up to 16 ranges, sorted by start
//!          [ best  ... ] [ best  ... ] [ best  ... ]     the furthest of the leaf up to here
//! ```
//!
//! A range covers `start..end` exactly if it begins at or before `start` and reaches `end`. Those
//! that begin early enough are a prefix of the order by start, and one of them reaches `end`
//! exactly if the furthest of them does. So one binary search, one look at a leaf and two comparisons
//! decide, however the ranges overlap; nothing is walked.

use crate::mr::request::Span;
use alloc::boxed::Box;
use alloc::vec::Vec;

const LEAF: usize = 16;

/// The end of a range and the slot of its entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reach {
    end: u64,
    slot: u32,
}

impl Reach {
    /// Reaches nothing: no range ends at 0.
    const NONE: Self = Self { end: 0, slot: 0 };

    #[inline]
    const fn further(self, other: Self) -> Self {
        if other.end > self.end { other } else { self }
    }
}

#[derive(Clone, Debug)]
struct Leaf {
    len: usize,
    /// Ascending; `u64::MAX`, which no range starts at, beyond `len`.
    starts: [u64; LEAF],
    reach: [Reach; LEAF],
    /// `best[i]` is the furthest of `reach[..=i]`.
    best: [Reach; LEAF],
}

impl Leaf {
    fn new() -> Box<Self> {
        Box::new(Self {
            len: 0,
            starts: [u64::MAX; LEAF],
            reach: [Reach::NONE; LEAF],
            best: [Reach::NONE; LEAF],
        })
    }

    /// How many ranges begin at or before `start`.
    #[inline]
    fn rank(&self, start: u64) -> usize {
        self.starts.partition_point(|&s| s <= start)
    }

    /// The furthest of the ranges that begin at or before `start`. Looks at all of them: no load
    /// waits for another, which is worth more than the comparisons that a binary search saves.
    #[inline]
    fn furthest_from(&self, start: u64) -> Reach {
        let mut found = Reach::NONE;
        for (first, best) in self.starts.iter().zip(&self.best) {
            if *first <= start {
                found = *best;
            }
        }
        found
    }

    fn furthest(&self) -> Reach {
        self.len
            .checked_sub(1)
            .map_or(Reach::NONE, |last| self.best[last])
    }

    /// Computes `best` again from position `from` on.
    fn refresh(&mut self, from: usize) {
        let mut best = from
            .checked_sub(1)
            .map_or(Reach::NONE, |before| self.best[before]);
        for i in from..self.len {
            best = best.further(self.reach[i]);
            self.best[i] = best;
        }
    }

    /// Inserts; there must be room.
    fn insert(&mut self, start: u64, reach: Reach) {
        let at = self.rank(start);
        self.starts.copy_within(at..self.len, at + 1);
        self.reach.copy_within(at..self.len, at + 1);
        self.starts[at] = start;
        self.reach[at] = reach;
        self.len += 1;
        self.refresh(at);
    }

    fn remove(&mut self, at: usize) {
        self.starts.copy_within(at + 1..self.len, at);
        self.reach.copy_within(at + 1..self.len, at);
        self.len -= 1;
        self.starts[self.len] = u64::MAX;
        self.refresh(at);
    }

    /// Moves the upper half into a new leaf.
    fn split(&mut self) -> Box<Self> {
        let mut upper = Self::new();
        let half = LEAF / 2;
        upper.append(&self.starts[half..self.len], &self.reach[half..self.len]);
        self.starts[half..].fill(u64::MAX);
        self.len = half;
        upper
    }

    /// Appends ranges that begin at or after all that are here; there must be room.
    fn append(&mut self, starts: &[u64], reach: &[Reach]) {
        let from = self.len;
        self.len += starts.len();
        self.starts[from..self.len].copy_from_slice(starts);
        self.reach[from..self.len].copy_from_slice(reach);
        self.refresh(from);
    }
}

/// Ranges with their slots, searched by cover.
#[derive(Clone, Debug, Default)]
pub(super) struct IntervalIndex {
    firsts: Vec<u64>,
    best: Vec<Reach>,
    #[expect(
        clippy::vec_box,
        reason = "a leaf is ten cache lines: a split shifts pointers, not leaves"
    )]
    leaves: Vec<Box<Leaf>>,
}

impl IntervalIndex {
    /// The slot of some range that covers `span`, if any does.
    #[inline]
    pub(super) fn find(&self, span: Span) -> Option<u32> {
        let at = self
            .firsts
            .partition_point(|&first| first <= span.start)
            .checked_sub(1)?;
        let mut found = self.leaves.get(at)?.furthest_from(span.start);
        if found.end < span.end {
            // None of this leaf; those before it all begin early enough.
            found = *self.best.get(at.checked_sub(1)?)?;
        }
        (found.end >= span.end).then_some(found.slot)
    }

    /// Adds a range. Equal ranges may be added; their slots tell them apart.
    pub(super) fn insert(&mut self, span: Span, slot: u32) {
        let reach = Reach {
            end: span.end,
            slot,
        };
        let at = self
            .firsts
            .partition_point(|&first| first <= span.start)
            .saturating_sub(1);
        let (at, stable_from) = self.make_room(at, span.start);
        let leaf = &mut self.leaves[at];
        leaf.insert(span.start, reach);
        self.firsts[at] = leaf.starts[0];
        self.refresh(at.saturating_sub(1), stable_from);
    }

    /// Takes the range with this slot out; false when it is not there.
    pub(super) fn remove(&mut self, span: Span, slot: u32) -> bool {
        let Some((at, position)) = self.locate(span.start, slot) else {
            return false;
        };
        let leaf = &mut self.leaves[at];
        leaf.remove(position);
        self.firsts[at] = leaf.starts[0];
        self.shrink(at);
        self.refresh(at.saturating_sub(1), at + 1);
        true
    }

    pub(super) fn is_empty(&self) -> bool {
        self.leaves.is_empty()
    }

    /// Sees that leaf `at` can take a range that begins at `start`. Returns the leaf to put it in,
    /// and the first leaf behind what was changed.
    fn make_room(&mut self, at: usize, start: u64) -> (usize, usize) {
        let is_last = at + 1 == self.leaves.len();
        let Some(leaf) = self.leaves.get_mut(at) else {
            self.put_leaf(at, Leaf::new());
            return (at, at + 1);
        };
        if leaf.len < LEAF {
            return (at, at + 1);
        }
        // Ascending insertions fill leaves: at the very end, begin a new one instead of halving.
        let is_append = is_last && start >= leaf.starts[LEAF - 1];
        let upper = if is_append { Leaf::new() } else { leaf.split() };
        let into = if is_append || start >= upper.starts[0] {
            at + 1
        } else {
            at
        };
        self.put_leaf(at + 1, upper);
        (into, at + 2)
    }

    fn put_leaf(&mut self, at: usize, leaf: Box<Leaf>) {
        self.firsts.insert(at, leaf.starts[0]);
        self.best.insert(at, Reach::NONE);
        self.leaves.insert(at, leaf);
    }

    /// Drops leaf `at` if it is empty, or puts it together with a neighbour when both are small.
    fn shrink(&mut self, at: usize) {
        if self.leaves[at].len == 0 {
            self.take_leaf(at);
        } else if !self.absorb(at) && at > 0 {
            self.absorb(at - 1);
        }
    }

    /// Moves what is in the leaf behind `at` into `at`, if the two fill at most half a leaf.
    fn absorb(&mut self, at: usize) -> bool {
        let Some(next) = self.leaves.get(at + 1) else {
            return false;
        };
        if self.leaves[at].len + next.len > LEAF / 2 {
            return false;
        }
        let next = self.take_leaf(at + 1);
        self.leaves[at].append(&next.starts[..next.len], &next.reach[..next.len]);
        true
    }

    fn take_leaf(&mut self, at: usize) -> Box<Leaf> {
        self.firsts.remove(at);
        self.best.remove(at);
        self.leaves.remove(at)
    }

    /// Computes `best` again from leaf `from`, at least up to `stable_from`, and on until it no
    /// longer changes.
    fn refresh(&mut self, from: usize, stable_from: usize) {
        let mut best = from
            .checked_sub(1)
            .map_or(Reach::NONE, |before| self.best[before]);
        for i in from..self.leaves.len() {
            best = best.further(self.leaves[i].furthest());
            if i >= stable_from && self.best[i] == best {
                return;
            }
            self.best[i] = best;
        }
    }

    /// Leaf and position of the range that begins at `start` and has this slot.
    fn locate(&self, start: u64, slot: u32) -> Option<(usize, usize)> {
        let last = self.firsts.partition_point(|&first| first <= start);
        // Ranges with equal starts can fill more than one leaf.
        for at in (0..last).rev() {
            let leaf = &self.leaves[at];
            let end = leaf.rank(start);
            let begin = leaf.starts.partition_point(|&s| s < start);
            let found = leaf.reach[begin..end]
                .iter()
                .position(|reach| reach.slot == slot);
            if let Some(offset) = found {
                return Some((at, begin + offset));
            }
            if begin > 0 {
                return None;
            }
        }
        None
    }
}

#[cfg(test)]
#[path = "interval_tests.rs"]
mod tests;
