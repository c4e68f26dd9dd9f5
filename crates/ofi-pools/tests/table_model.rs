//! `Table` against a map of everything that ever was in it.

#![expect(clippy::unwrap_used, reason = "test code")]

use ofi_pools::{Full, Key, Table};
use proptest::prelude::*;
use std::collections::HashMap;

#[derive(Clone, Debug)]
enum Op {
    Insert(u64),
    Remove { nth: usize },
    RemoveAt { index: u32 },
    Change { nth: usize, value: u64 },
    ChangeAt { index: u32, value: u64 },
    Forged(u64),
    Reserve(u8),
}

/// The oracle: each key that was ever handed out, with its value while it is there.
struct Both {
    table: Table<u64>,
    oracle: HashMap<Key, Option<u64>>,
    keys: Vec<Key>,
    high_water: u32,
    /// Reservations, each of which may grow the table by what it lacks.
    reserved: u32,
}

impl Both {
    fn new(max: u32) -> Self {
        Self {
            table: Table::with_max(max),
            oracle: HashMap::new(),
            keys: Vec::new(),
            high_water: 0,
            reserved: 0,
        }
    }

    fn live(&self) -> u32 {
        u32::try_from(self.oracle.values().flatten().count()).unwrap()
    }

    fn apply(&mut self, op: &Op) -> Result<(), TestCaseError> {
        match *op {
            Op::Insert(value) => self.insert(value)?,
            Op::Remove { nth } => {
                if let Some(&key) = self.nth(nth) {
                    let expected = self.oracle.get_mut(&key).unwrap().take();
                    prop_assert_eq!(self.table.remove(key), expected);
                }
            }
            Op::RemoveAt { index } => {
                let key = self.table.key_at(index);
                let expected = key.and_then(|key| self.oracle.get_mut(&key).unwrap().take());
                prop_assert_eq!(self.table.remove_at(index), expected);
            }
            Op::ChangeAt { index, value } => {
                let key = self.table.key_at(index);
                let found = self.table.at_mut(index);
                prop_assert_eq!(found.as_ref().map(|(key, _)| *key), key);
                if let Some((key, found)) = found {
                    prop_assert_eq!(Some(*found), self.oracle[&key]);
                    *found = value;
                    self.oracle.insert(key, Some(value));
                }
            }
            Op::Change { nth, value } => {
                if let Some(&key) = self.nth(nth) {
                    let expected = self.oracle.get_mut(&key).unwrap();
                    let found = self.table.get_mut(key);
                    prop_assert_eq!(found.as_deref().copied(), *expected);
                    if let Some(found) = found {
                        *found = value;
                        *expected = Some(value);
                    }
                }
            }
            Op::Forged(bits) => {
                let key = Key::from_bits(bits);
                let expected = self.oracle.get(&key).copied().flatten();
                prop_assert_eq!(self.table.get(key).copied(), expected);
                if expected.is_none() {
                    prop_assert_eq!(self.table.remove(key), None);
                }
            }
            Op::Reserve(count) => {
                let fits = u32::from(count) <= self.table.max();
                prop_assert_eq!(self.table.reserve(count.into()), fits);
                self.reserved += 1;
            }
        }
        self.check()
    }

    fn nth(&self, nth: usize) -> Option<&Key> {
        self.keys.get(nth % self.keys.len().max(1))
    }

    fn insert(&mut self, value: u64) -> Result<(), TestCaseError> {
        let announced = self.table.next_key();
        // Both ways in.
        let inserted = if value & 1 == 0 {
            self.table.insert(value)
        } else {
            let max = self.table.max();
            let vacant = self.table.vacant().ok_or(Full { value, max });
            vacant.map(|vacant| {
                let key = vacant.key();
                *vacant.fill(!value) = value;
                key
            })
        };
        match inserted {
            Ok(key) => {
                prop_assert_eq!(announced, Some(key));
                prop_assert!(key.to_bits() > 1 && key.generation() & 1 == 1);
                let before = self.oracle.insert(key, Some(value));
                prop_assert_eq!(before, None, "a key is handed out once");
                self.keys.push(key);
            }
            Err(Full { value: back, max }) => {
                prop_assert_eq!(announced, None);
                prop_assert_eq!((back, max, self.live()), (value, self.table.max(), max));
            }
        }
        Ok(())
    }

    fn check(&mut self) -> Result<(), TestCaseError> {
        let live = self.live();
        self.high_water = self.high_water.max(live);
        prop_assert_eq!(self.table.len(), live);
        prop_assert_eq!(self.table.is_empty(), live == 0);
        prop_assert_eq!(self.table.high_water(), self.high_water);
        prop_assert!(self.table.capacity() >= live && self.table.capacity() <= self.table.max());
        prop_assert!(
            self.table.grown() <= 6 + self.reserved,
            "it doubles: {}",
            self.table.grown()
        );
        for (&key, expected) in &self.oracle {
            prop_assert_eq!(self.table.get(key).copied(), *expected);
            prop_assert_eq!(self.table.contains(key), expected.is_some());
            if expected.is_some() {
                prop_assert_eq!(self.table.key_at(key.index()), Some(key));
            }
        }
        let mut walked: Vec<_> = self
            .table
            .iter()
            .map(|(key, &value)| (key, value))
            .collect();
        let mutably: Vec<_> = self
            .table
            .iter_mut()
            .map(|(key, value)| (key, *value))
            .collect();
        prop_assert_eq!(&walked, &mutably);
        let mut expected: Vec<_> = self
            .oracle
            .iter()
            .filter_map(|(&key, &value)| Some((key, value?)))
            .collect();
        walked.sort_unstable();
        expected.sort_unstable();
        prop_assert_eq!(walked, expected);
        Ok(())
    }
}

fn op() -> impl Strategy<Value = Op> {
    let small = (0_u64..8, 0_u64..200).prop_map(|(generation, index)| generation << 32 | index);
    prop_oneof![
        8 => any::<u64>().prop_map(Op::Insert),
        5 => any::<usize>().prop_map(|nth| Op::Remove { nth }),
        2 => (0_u32..150).prop_map(|index| Op::RemoveAt { index }),
        2 => (any::<usize>(), any::<u64>()).prop_map(|(nth, value)| Op::Change { nth, value }),
        2 => (0_u32..150, any::<u64>()).prop_map(|(index, value)| Op::ChangeAt { index, value }),
        1 => prop_oneof![any::<u64>(), small].prop_map(Op::Forged),
        1 => any::<u8>().prop_map(Op::Reserve),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn agrees_with_a_map(
        max in prop_oneof![0_u32..4, 60_u32..70, Just(u32::MAX)],
        ops in prop::collection::vec(op(), 1..250),
    ) {
        let mut both = Both::new(max);
        for op in &ops {
            both.apply(op)?;
        }
    }
}

#[test]
fn slots_are_reused_last_first_and_indices_stay_dense() {
    let mut table = Table::new();
    let keys: Vec<Key> = (0..5).map(|i| table.insert(i).unwrap()).collect();
    assert_eq!(
        keys.iter().map(|key| key.index()).collect::<Vec<_>>(),
        [0, 1, 2, 3, 4]
    );
    table.remove(keys[1]);
    table.remove(keys[3]);
    assert_eq!(table.insert(9).unwrap().index(), 3);
    assert_eq!(table.insert(9).unwrap().index(), 1);
    assert_eq!(table.insert(9).unwrap().index(), 5);
}

#[test]
fn does_not_grow_after_warm_up() {
    let mut table = Table::new();
    assert!(table.reserve(128));
    let (capacity, grown) = (table.capacity(), table.grown());
    for round in 0..1000 {
        let keys: Vec<Key> = (0..128).map(|i| table.insert(i + round).unwrap()).collect();
        keys.into_iter()
            .for_each(|key| assert!(table.remove(key).is_some()));
    }
    assert_eq!(
        (table.capacity(), table.grown(), table.high_water()),
        (capacity, grown, 128)
    );
}

#[test]
fn values_are_dropped_once() {
    let value = std::rc::Rc::new(());
    let mut table = Table::new();
    let kept = table.insert(value.clone()).unwrap();
    let removed = table.insert(value.clone()).unwrap();
    drop(table.remove(removed));
    assert_eq!(std::rc::Rc::strong_count(&value), 2);
    assert!(table.contains(kept));
    drop(table);
    assert_eq!(std::rc::Rc::strong_count(&value), 1);
}

#[test]
fn full_says_how_many() {
    let mut table = Table::with_max(1);
    let _first = table.insert('a').unwrap();
    let full = table.insert('b').unwrap_err();
    assert_eq!((full.value, full.max), ('b', 1));
    assert!(full.to_string().contains("all 1 slots"));
}

/// What is printed in a log says how full the table is, and needs nothing of its values.
#[test]
fn debug_says_how_full_and_not_what() {
    struct Secret;
    let mut table = Table::with_max(1);
    let printed = format!("{:?}", table.vacant());
    assert!(printed.contains("Vacant"), "{printed}");
    let _kept = table.insert(Secret).unwrap();
    let printed = format!("{table:?}");
    assert!(
        printed.contains("len: 1") && printed.contains("max: 1"),
        "{printed}"
    );
    let full = table.insert(Secret).map(drop).unwrap_err();
    assert!(format!("{full:?}").contains("max: 1"), "{full:?}");
}

/// A clone has the same keys, and a life of its own.
#[test]
fn a_clone_shares_keys_and_nothing_else() {
    let mut table = Table::new();
    let (a, b) = (table.insert('a').unwrap(), table.insert('b').unwrap());
    table.remove(a);
    let mut twin = table.clone();
    assert_eq!(
        (twin.get(a), twin.get(b), twin.len()),
        (None, Some(&'b'), 1)
    );
    assert_eq!(
        twin.insert('c').unwrap(),
        table.insert('d').unwrap(),
        "the same place next"
    );
    twin.remove(b);
    assert_eq!(table.get(b), Some(&'b'));
}
