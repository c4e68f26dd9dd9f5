//! The index against a linear scan, with its invariants checked after each operation.

use super::{IntervalIndex, LEAF, Reach};
use crate::mr::request::Span;
use alloc::vec::Vec;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Op {
    Insert { start: u64, bytes: u64 },
    Remove { nth: usize },
    Find { start: u64, bytes: u64 },
}

#[derive(Default)]
struct Both {
    index: IntervalIndex,
    oracle: Vec<(Span, u32)>,
    next_slot: u32,
}

impl Both {
    fn apply(&mut self, op: &Op) -> Result<(), TestCaseError> {
        match *op {
            Op::Insert { start, bytes } => {
                let span = Span {
                    start,
                    end: start + bytes,
                };
                self.index.insert(span, self.next_slot);
                self.oracle.push((span, self.next_slot));
                self.next_slot += 1;
            }
            Op::Remove { nth } => self.remove(nth)?,
            Op::Find { start, bytes } => self.find(Span {
                start,
                end: start + bytes,
            })?,
        }
        check(&self.index, self.oracle.len())
    }

    fn remove(&mut self, nth: usize) -> Result<(), TestCaseError> {
        if self.oracle.is_empty() {
            return Ok(());
        }
        let (span, slot) = self.oracle.swap_remove(nth % self.oracle.len());
        prop_assert!(self.index.remove(span, slot));
        prop_assert!(!self.index.remove(span, slot), "gone is gone");
        Ok(())
    }

    fn find(&self, wanted: Span) -> Result<(), TestCaseError> {
        let mut covering = self.oracle.iter().filter(|(span, _)| span.covers(wanted));
        match self.index.find(wanted) {
            None => prop_assert_eq!(covering.next(), None, "a range covers {:?}", wanted),
            Some(slot) => {
                prop_assert!(
                    covering.any(|&(_, s)| s == slot),
                    "{slot} covers no {wanted:?}"
                );
            }
        }
        Ok(())
    }
}

/// What the module says of its arrays, word by word.
fn check(index: &IntervalIndex, expected: usize) -> Result<(), TestCaseError> {
    let leaves = &index.leaves;
    prop_assert_eq!(index.firsts.len(), leaves.len());
    prop_assert_eq!(index.best.len(), leaves.len());
    prop_assert_eq!(leaves.iter().map(|leaf| leaf.len).sum::<usize>(), expected);
    prop_assert_eq!(index.is_empty(), expected == 0);
    let (mut overall, mut previous) = (Reach::NONE, 0);
    for (at, leaf) in leaves.iter().enumerate() {
        prop_assert!((1..=LEAF).contains(&leaf.len), "no leaf is empty");
        prop_assert_eq!(index.firsts[at], leaf.starts[0]);
        prop_assert!(
            leaf.starts[leaf.len..]
                .iter()
                .all(|&start| start == u64::MAX)
        );
        let mut best = Reach::NONE;
        for i in 0..leaf.len {
            prop_assert!(previous <= leaf.starts[i], "sorted by start");
            previous = leaf.starts[i];
            best = best.further(leaf.reach[i]);
            prop_assert_eq!(leaf.best[i], best);
        }
        overall = overall.further(best);
        prop_assert_eq!(index.best[at], overall);
    }
    Ok(())
}

fn op() -> impl Strategy<Value = Op> {
    // Few addresses: equal starts, nesting and overlaps are common.
    let bytes = prop_oneof![4 => 1_u64..8, 2 => 1_u64..60, 1 => 1_u64..400];
    let range = (0_u64..300, bytes);
    prop_oneof![
        4 => range.clone().prop_map(|(start, bytes)| Op::Insert { start, bytes }),
        2 => any::<usize>().prop_map(|nth| Op::Remove { nth }),
        3 => range.prop_map(|(start, bytes)| Op::Find { start, bytes }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn agrees_with_a_linear_scan(ops in prop::collection::vec(op(), 1..700)) {
        let mut both = Both::default();
        for op in &ops {
            both.apply(op)?;
        }
        // Emptying passes through every merge.
        while !both.oracle.is_empty() {
            both.apply(&Op::Remove { nth: ops.len() })?;
        }
    }

    #[test]
    fn many_equal_starts_span_leaves(count in 1_u64..400, picks in prop::collection::vec(any::<usize>(), 0..400)) {
        let mut both = Both::default();
        for bytes in 1..=count {
            both.apply(&Op::Insert { start: 7, bytes })?;
        }
        for nth in picks {
            both.apply(&Op::Find { start: 7, bytes: 1 + nth as u64 % count })?;
            both.apply(&Op::Remove { nth })?;
        }
    }
}

#[test]
fn ascending_insertion_fills_leaves() {
    let mut index = IntervalIndex::default();
    for i in 0..640 {
        index.insert(
            Span {
                start: u64::from(i) * 10,
                end: u64::from(i) * 10 + 10,
            },
            i,
        );
    }
    assert_eq!(index.leaves.len(), 640 / LEAF);
}

#[test]
fn removal_gives_leaves_back() {
    let mut index = IntervalIndex::default();
    let span = |i: u32| Span {
        start: u64::from(i),
        end: u64::from(i) + 1,
    };
    (0..6400).for_each(|i| index.insert(span(i), i));
    for i in (0..6400).filter(|i| i % 64 != 0) {
        assert!(index.remove(span(i), i));
    }
    assert!(
        index.leaves.len() <= 4 * 100 / LEAF,
        "{} leaves for 100 ranges",
        index.leaves.len()
    );
}

#[test]
fn the_ends_of_the_address_space_are_ranges_too() {
    let mut index = IntervalIndex::default();
    let whole = Span {
        start: 0,
        end: u64::MAX,
    };
    index.insert(whole, 1);
    index.insert(
        Span {
            start: u64::MAX - 1,
            end: u64::MAX,
        },
        2,
    );
    assert_eq!(index.find(whole), Some(1));
    assert!(
        index
            .find(Span {
                start: u64::MAX - 1,
                end: u64::MAX
            })
            .is_some()
    );
    assert!(index.remove(whole, 1));
    assert_eq!(index.find(whole), None);
    assert_eq!(
        index.find(Span {
            start: u64::MAX - 1,
            end: u64::MAX
        }),
        Some(2)
    );
}
