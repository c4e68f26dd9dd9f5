//! Every history of a tiny pool of ids, against a list: no id is given twice, none before it has rested.

use std::collections::{BTreeSet, VecDeque};

use ofi_pools::IdPool;

/// Calls of one history.
const DEPTH: u32 = 9;

/// What a pool has to be.
#[derive(Clone, Default)]
struct Model {
    live: BTreeSet<u32>,
    /// The longest first.
    resting: VecDeque<u32>,
    rested: BTreeSet<u32>,
    fresh: u32,
}

impl Model {
    fn alloc(&mut self, capacity: u32) -> Option<u32> {
        let raw = if let Some(raw) = self.rested.pop_first() {
            raw
        } else if self.fresh < capacity {
            self.fresh += 1;
            self.fresh - 1
        } else {
            self.resting.pop_front()?
        };
        assert!(self.live.insert(raw), "the model gives {raw} twice");
        Some(raw)
    }

    fn free(&mut self, raw: u32, quarantine: usize) -> bool {
        if !self.live.remove(&raw) {
            return false;
        }
        self.resting.push_back(raw);
        while self.resting.len() > quarantine {
            self.rested.extend(self.resting.pop_front());
        }
        true
    }
}

fn walk(pool: &IdPool, model: &Model, (capacity, quarantine): (u32, usize), depth: u32) -> u64 {
    if depth == 0 {
        return 1;
    }
    let mut histories = 0;
    // Take one; or give back any number, those that nobody has and those that are none included.
    for call in 0..=capacity + 1 {
        let (mut pool, mut model) = (pool.clone(), model.clone());
        if call == 0 {
            let got = pool.alloc().map(|id| id.raw);
            assert_eq!(got, model.alloc(capacity));
        } else {
            let freed = pool.free(call - 1).is_ok();
            assert_eq!(freed, model.free(call - 1, quarantine), "id {}", call - 1);
            if !freed && call <= capacity {
                // Nothing changes: the branches below would be those of here.
                continue;
            }
        }
        histories += walk(&pool, &model, (capacity, quarantine), depth - 1);
    }
    histories
}

#[test]
fn every_history_of_a_tiny_pool() {
    let mut histories = 0;
    for capacity in 1..=3 {
        for quarantine in 0..=3 {
            let pool = IdPool::new(capacity, quarantine).expect("a legal capacity");
            histories += walk(&pool, &Model::default(), (capacity, quarantine), DEPTH);
        }
    }
    assert!(histories > 10_000, "{histories}");
}
