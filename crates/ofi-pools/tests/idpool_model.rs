//! `IdPool` against a set of free numbers and a queue of resting ones.

#![expect(clippy::unwrap_used, reason = "test code")]

use ofi_pools::{Id, IdError, IdPool};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

#[derive(Clone, Debug)]
enum Op {
    Alloc,
    Free { nth: usize },
    FreeRaw(u32),
    FreeAgain { nth: usize },
    Reserve(u32),
}

struct Both {
    pool: IdPool,
    capacity: u32,
    quarantine: usize,
    free: BTreeSet<u32>,
    resting: VecDeque<u32>,
    live: BTreeMap<u32, Id>,
    ever: Vec<Id>,
    reserved: BTreeSet<u32>,
    high_water: usize,
}

impl Both {
    fn new(capacity: u32, quarantine: usize) -> Self {
        Self {
            pool: IdPool::new(capacity, quarantine).unwrap(),
            capacity,
            quarantine,
            free: (0..capacity).collect(),
            resting: VecDeque::new(),
            live: BTreeMap::new(),
            ever: Vec::new(),
            reserved: BTreeSet::new(),
            high_water: 0,
        }
    }

    fn apply(&mut self, op: &Op) -> Result<(), TestCaseError> {
        match *op {
            Op::Alloc => self.alloc()?,
            Op::Free { nth } => {
                if let Some(&id) = self.live.values().nth(nth % self.live.len().max(1)) {
                    prop_assert_eq!(self.pool.free_exact(id), Ok(()));
                    self.rest(id.raw);
                }
            }
            Op::FreeRaw(raw) => self.free_raw(raw)?,
            Op::FreeAgain { nth } => self.free_again(nth)?,
            Op::Reserve(raw) => self.reserve(raw)?,
        }
        self.check()
    }

    fn alloc(&mut self) -> Result<(), TestCaseError> {
        let expected = self.free.pop_first().or_else(|| self.resting.pop_front());
        let got = self.pool.alloc();
        prop_assert_eq!(got.map(|id| id.raw), expected);
        if let Some(id) = got {
            prop_assert!(id.generation & 1 == 1);
            prop_assert!(!self.ever.contains(&id), "a generation is used once");
            prop_assert_eq!(self.live.insert(id.raw, id), None, "an id has one owner");
            self.ever.push(id);
        }
        Ok(())
    }

    fn rest(&mut self, raw: u32) {
        self.live.remove(&raw);
        self.resting.push_back(raw);
        if self.resting.len() > self.quarantine {
            self.free.extend(self.resting.pop_front());
        }
    }

    fn free_raw(&mut self, raw: u32) -> Result<(), TestCaseError> {
        let got = self.pool.free(raw);
        if self.live.contains_key(&raw) {
            prop_assert_eq!(got, Ok(()));
            self.rest(raw);
        } else if raw < self.capacity {
            prop_assert_eq!(got, Err(IdError::NotAllocated { raw }));
        } else {
            prop_assert_eq!(
                got,
                Err(IdError::OutOfRange {
                    raw,
                    capacity: self.capacity
                })
            );
        }
        Ok(())
    }

    /// The owner of an earlier use frees: it must never hit the later owner.
    fn free_again(&mut self, nth: usize) -> Result<(), TestCaseError> {
        let Some(&id) = self.ever.get(nth % self.ever.len().max(1)) else {
            return Ok(());
        };
        let got = self.pool.free_exact(id);
        match self.live.get(&id.raw) {
            Some(&owner) if owner == id => {
                prop_assert_eq!(got, Ok(()));
                self.rest(id.raw);
            }
            Some(owner) => {
                prop_assert_eq!(
                    got,
                    Err(IdError::Stale {
                        id,
                        current: owner.generation
                    })
                );
            }
            None => prop_assert_eq!(got, Err(IdError::NotAllocated { raw: id.raw })),
        }
        Ok(())
    }

    fn reserve(&mut self, raw: u32) -> Result<(), TestCaseError> {
        let got = self.pool.reserve(raw);
        if raw >= self.capacity {
            prop_assert_eq!(
                got,
                Err(IdError::OutOfRange {
                    raw,
                    capacity: self.capacity
                })
            );
        } else if raw < self.pool.watermark() {
            prop_assert_eq!(got, Err(IdError::AlreadyUsed { raw }));
        } else {
            prop_assert_eq!(got, Ok(()));
            self.free.remove(&raw);
            self.reserved.insert(raw);
        }
        Ok(())
    }

    fn check(&mut self) -> Result<(), TestCaseError> {
        self.high_water = self.high_water.max(self.live.len());
        prop_assert_eq!(self.pool.live() as usize, self.live.len());
        prop_assert_eq!(self.pool.high_water() as usize, self.high_water);
        prop_assert_eq!(self.pool.resting(), self.resting.len());
        let dense = self.high_water + self.quarantine + self.reserved.len();
        prop_assert!(
            self.pool.watermark() as usize <= dense,
            "the table stays dense"
        );
        for raw in 0..self.capacity {
            let owner = self.live.get(&raw).map(|id| id.generation);
            prop_assert_eq!(self.pool.generation(raw), owner);
            prop_assert_eq!(self.pool.is_live(raw), owner.is_some());
        }
        Ok(())
    }
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => Just(Op::Alloc),
        5 => any::<usize>().prop_map(|nth| Op::Free { nth }),
        1 => prop_oneof![0_u32..100, any::<u32>()].prop_map(Op::FreeRaw),
        2 => any::<usize>().prop_map(|nth| Op::FreeAgain { nth }),
        1 => (0_u32..100).prop_map(Op::Reserve),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn agrees_with_sets(
        capacity in prop_oneof![0_u32..4, Just(64_u32), 60_u32..200],
        quarantine in prop_oneof![Just(0_usize), 1_usize..5, Just(64), Just(1000)],
        ops in prop::collection::vec(op(), 1..300),
    ) {
        let mut both = Both::new(capacity, quarantine);
        for op in &ops {
            both.apply(op)?;
        }
    }
}

/// All three levels of the bitmap, over the full range, in an order that empties words unevenly.
#[test]
fn the_whole_range_is_handed_out_lowest_first_and_never_the_last_id() {
    let mut pool = IdPool::new(IdPool::CAPACITY_MAX, 0).unwrap();
    for expected in 0..IdPool::NEVER {
        assert_eq!(pool.alloc().map(|id| id.raw), Some(expected));
    }
    assert_eq!(pool.alloc(), None, "0x3FFFF is never an id");
    assert_eq!(
        pool.free(IdPool::NEVER),
        Err(IdError::OutOfRange {
            raw: IdPool::NEVER,
            capacity: IdPool::NEVER,
        })
    );
    let freed: BTreeSet<u32> = (0..IdPool::NEVER).filter(|raw| raw % 4099 < 3).collect();
    freed.iter().rev().for_each(|&raw| pool.free(raw).unwrap());
    for &expected in &freed {
        assert_eq!(pool.alloc().map(|id| id.raw), Some(expected));
    }
    assert_eq!(pool.alloc(), None);
    assert_eq!(pool.live(), IdPool::NEVER);
}

#[test]
fn an_id_rests_until_as_many_others_were_freed() {
    let mut pool = IdPool::full(3);
    let ids: Vec<Id> = (0..6).filter_map(|_| pool.alloc()).collect();
    pool.free(ids[0].raw).unwrap();
    for id in &ids[1..3] {
        pool.free(id.raw).unwrap();
        assert_eq!(
            pool.alloc().map(|id| id.raw),
            Some(pool.watermark() - 1),
            "0 rests"
        );
    }
    pool.free(ids[3].raw).unwrap();
    assert_eq!(
        pool.alloc().map(|id| id.raw),
        Some(0),
        "3 were freed after it"
    );
}

#[test]
fn when_nothing_else_is_left_the_longest_rested_is_taken() {
    let mut pool = IdPool::new(2, 100).unwrap();
    let (a, b) = (pool.alloc().unwrap(), pool.alloc().unwrap());
    assert_eq!(pool.alloc(), None);
    pool.free_exact(b).unwrap();
    pool.free_exact(a).unwrap();
    let again = pool.alloc().unwrap();
    assert_eq!(again.raw, b.raw);
    assert_ne!(again.generation, b.generation);
}

#[test]
fn errors_name_the_id_and_the_likely_cause() {
    let mut pool = IdPool::new(4, 0).unwrap();
    let id = pool.alloc().unwrap();
    pool.free(id.raw).unwrap();
    assert!(
        pool.free(id.raw)
            .unwrap_err()
            .to_string()
            .contains("frees it twice")
    );
    assert!(pool.free(4).unwrap_err().to_string().contains("0..4"));
    let newer = pool.alloc().unwrap();
    assert_eq!(newer.raw, id.raw);
    assert!(
        pool.free_exact(id)
            .unwrap_err()
            .to_string()
            .contains("generation 3")
    );
    assert!(
        IdPool::new((1 << 18) + 1, 0)
            .unwrap_err()
            .to_string()
            .contains("18 bits")
    );
    assert!(
        pool.reserve(0)
            .unwrap_err()
            .to_string()
            .contains("reserve first")
    );
}
