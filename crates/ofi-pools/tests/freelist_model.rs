//! `Freelist` against a set of the buffers that are taken.

#![expect(clippy::unwrap_used, reason = "test code")]

use ofi_pools::freelist::{BlockLayout, ConfigError, HeapBlock, HeapBlocks, NotCovered};
use ofi_pools::{Block, BlockSource, Freelist, FreelistConfig, Slot};
use proptest::prelude::*;
use std::collections::{BTreeMap, HashMap};

#[derive(Clone, Debug)]
enum Op {
    Take,
    TryTake,
    Give {
        nth: usize,
    },
    GiveAgain {
        nth: usize,
    },
    Forged(u64),
    /// The next block cannot be had.
    FailNext,
    /// A block is added by hand, as a caller does who registers without its lock.
    AddBlock,
}

#[derive(Debug, PartialEq, Eq)]
enum SourceError {
    NoMemory,
    NotCovered(NotCovered),
}

impl From<NotCovered> for SourceError {
    fn from(error: NotCovered) -> Self {
        Self::NotCovered(error)
    }
}

/// The heap, which can be told to fail, and remembers what was asked of it.
#[derive(Default)]
struct Source {
    fail_next: bool,
    asked: Vec<(usize, usize)>,
}

impl BlockSource for Source {
    type Block = HeapBlock;
    type Error = SourceError;

    fn block(&mut self, bytes: usize, align: usize) -> Result<HeapBlock, SourceError> {
        if core::mem::take(&mut self.fail_next) {
            return Err(SourceError::NoMemory);
        }
        self.asked.push((bytes, align));
        Ok(HeapBlocks.block(bytes, align)?)
    }
}

struct Both {
    list: Freelist<HeapBlock>,
    source: Source,
    config: FreelistConfig,
    /// Taken buffers by index, in order of taking for `nth`.
    taken: BTreeMap<u32, Slot>,
    given: Vec<Slot>,
    /// Where each buffer ever seen was: it must stay there.
    address: HashMap<u32, usize>,
    high_water: usize,
}

impl Both {
    fn new(config: FreelistConfig) -> Self {
        Self {
            list: Freelist::new(config).unwrap(),
            source: Source::default(),
            config,
            taken: BTreeMap::new(),
            given: Vec::new(),
            address: HashMap::new(),
            high_water: 0,
        }
    }

    fn apply(&mut self, op: &Op) -> Result<(), TestCaseError> {
        match *op {
            Op::Take => self.take()?,
            Op::TryTake => {
                let vacant = self.list.capacity() as usize > self.taken.len();
                let slot = self.list.try_take();
                prop_assert_eq!(slot.is_some(), vacant);
                self.took(slot)?;
            }
            Op::Give { nth } => {
                if let Some(&slot) = self.taken.values().nth(nth % self.taken.len().max(1)) {
                    prop_assert_eq!(self.list.give(slot), Ok(()));
                    self.taken.remove(&slot.index());
                    self.given.push(slot);
                }
            }
            Op::GiveAgain { nth } => {
                if let Some(&slot) = self.given.get(nth % self.given.len().max(1)) {
                    prop_assert_eq!(self.list.give(slot).unwrap_err().slot, slot);
                    prop_assert!(self.list.place(slot).is_err());
                }
            }
            Op::Forged(bits) => {
                let slot = Slot::from_bits(bits);
                if self.taken.get(&slot.index()) != Some(&slot) {
                    prop_assert!(self.list.place(slot).is_err());
                    prop_assert!(self.list.give(slot).is_err());
                }
            }
            Op::FailNext => self.source.fail_next = true,
            Op::AddBlock => {
                if let Some(layout) = self.list.next_block() {
                    let block = HeapBlocks.block(layout.bytes, layout.align).unwrap();
                    self.list.add_block(layout, block).unwrap();
                }
            }
        }
        self.check()
    }

    fn take(&mut self) -> Result<(), TestCaseError> {
        let vacant = self.list.capacity() as usize > self.taken.len();
        let at_max = self.config.max == Some(self.list.capacity());
        let (capacity, grown) = (self.list.capacity(), self.list.grown());
        let fails = self.source.fail_next && !vacant && !at_max;
        let got = self.list.take(&mut self.source);
        if fails {
            prop_assert_eq!(got, Err(SourceError::NoMemory));
            prop_assert_eq!((self.list.capacity(), self.list.grown()), (capacity, grown));
            return Ok(());
        }
        let slot = got.unwrap();
        prop_assert_eq!(slot.is_some(), vacant || !at_max);
        if vacant {
            prop_assert_eq!(self.list.grown(), grown, "grows only when all are taken");
        }
        self.took(slot)
    }

    fn took(&mut self, slot: Option<Slot>) -> Result<(), TestCaseError> {
        let Some(slot) = slot else {
            return Ok(());
        };
        prop_assert!(slot.to_bits() > 1);
        prop_assert_eq!(Slot::from_bits(slot.to_bits()), slot);
        prop_assert!(!self.given.contains(&slot), "a slot is handed out once");
        prop_assert_eq!(self.taken.insert(slot.index(), slot), None);
        Ok(())
    }

    fn check(&mut self) -> Result<(), TestCaseError> {
        self.high_water = self.high_water.max(self.taken.len());
        prop_assert_eq!(self.list.len() as usize, self.taken.len());
        prop_assert_eq!(self.list.is_empty(), self.taken.is_empty());
        prop_assert_eq!(self.list.high_water() as usize, self.high_water);
        prop_assert!(self.list.capacity() <= self.config.max.unwrap_or(u32::MAX));
        for &(bytes, align) in &self.source.asked {
            prop_assert!(bytes % self.config.page == 0 && align % self.config.page == 0);
            prop_assert!(align % self.config.align == 0);
        }
        let mut ranges = Vec::new();
        for (&index, &slot) in &self.taken {
            prop_assert_eq!(self.list.taken(index), Some(slot));
            let place = self.list.place(slot).unwrap();
            prop_assert_eq!(place.bytes, self.config.entry_bytes);
            prop_assert_eq!(place.address, place.block.address() + place.offset);
            prop_assert!(place.offset + place.bytes <= place.block.bytes());
            prop_assert_eq!(place.address % self.config.align.max(8), 0);
            prop_assert!((place.block_index as usize) < self.list.grown());
            prop_assert_eq!(
                *self.address.entry(index).or_insert(place.address),
                place.address
            );
            ranges.push(place.address..place.address + place.bytes);
        }
        ranges.sort_by_key(|range| range.start);
        prop_assert!(
            ranges.windows(2).all(|pair| pair[0].end <= pair[1].start),
            "no overlap"
        );
        Ok(())
    }
}

fn op() -> impl Strategy<Value = Op> {
    let small = (0_u64..6, 0_u64..80).prop_map(|(generation, index)| generation << 32 | index);
    prop_oneof![
        10 => Just(Op::Take),
        2 => Just(Op::TryTake),
        6 => any::<usize>().prop_map(|nth| Op::Give { nth }),
        2 => any::<usize>().prop_map(|nth| Op::GiveAgain { nth }),
        1 => prop_oneof![any::<u64>(), small].prop_map(Op::Forged),
        1 => Just(Op::FailNext),
        1 => Just(Op::AddBlock),
    ]
}

fn config() -> impl Strategy<Value = FreelistConfig> {
    let entry = prop_oneof![1_usize..20, Just(528), Just(8192), 500_usize..5000];
    let align = prop::sample::select(vec![1_usize, 8, 64, 128, 8192]);
    let page = prop::sample::select(vec![1_usize, 64, 4096]);
    let max = prop_oneof![Just(None), (0_u32..70).prop_map(Some)];
    (entry, align, page, 1_u32..40, 1_u32..10, max).prop_map(
        |(entry_bytes, align, page, first, grow, max)| FreelistConfig {
            entry_bytes,
            align,
            page,
            first,
            grow,
            max,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn agrees_with_a_set(config in config(), ops in prop::collection::vec(op(), 1..150)) {
        let mut both = Both::new(config);
        for op in &ops {
            both.apply(op)?;
        }
    }

    #[test]
    fn a_block_is_whole_pages_filled_with_buffers(config in config()) {
        let list: Freelist<HeapBlock> = Freelist::new(config).unwrap();
        let Some(layout) = list.next_block() else {
            prop_assert_eq!(config.max, Some(0));
            return Ok(());
        };
        let stride = config.entry_bytes.next_multiple_of(config.align.max(8));
        let used = stride * layout.entries as usize;
        prop_assert!(used <= layout.bytes);
        if config.max.is_none() {
            prop_assert!(layout.entries >= config.first);
            prop_assert!(layout.bytes - used < stride, "no room for one more");
            prop_assert!(layout.bytes < stride * config.first as usize + config.page.max(8));
        }
    }
}

/// The lists of protocol 2d.2: 1920 control buffers of 528 bytes are one registration.
#[test]
fn the_first_block_is_one_and_the_last_given_is_taken_first() {
    let mut source = Source::default();
    let config = FreelistConfig {
        entry_bytes: 528,
        first: 1920,
        grow: 16,
        ..FreelistConfig::default()
    };
    let mut list = Freelist::new(config).unwrap();
    let slots: Vec<Slot> = (0..1920)
        .map(|_| list.take(&mut source).unwrap().unwrap())
        .collect();
    assert_eq!((list.grown(), source.asked.len()), (1, 1));
    assert_eq!(
        slots.iter().map(|slot| slot.index()).collect::<Vec<_>>(),
        Vec::from_iter(0..1920)
    );
    list.give(slots[7]).unwrap();
    list.give(slots[99]).unwrap();
    assert_eq!(list.take(&mut source).unwrap().unwrap().index(), 99);
    assert_eq!(list.take(&mut source).unwrap().unwrap().index(), 7);
    assert_eq!(list.into_blocks().count(), 1);
}

#[test]
fn the_bytes_of_a_place_are_those_of_the_block() {
    let mut block = HeapBlocks.block(4096, 4096).unwrap();
    block.as_mut_slice()[17] = 7;
    assert_eq!(
        (block.address() % 4096, block.bytes(), block.as_slice()[17]),
        (0, 4096, 7)
    );
    assert_eq!(block.as_slice().len(), 4096);
}

#[test]
fn two_blocks_made_at_once_are_both_used_up_to_the_maximum() {
    let config = FreelistConfig {
        entry_bytes: 4096,
        first: 3,
        grow: 3,
        max: Some(4),
        ..Default::default()
    };
    let mut list = Freelist::new(config).unwrap();
    let layout = list.next_block().unwrap();
    for _ in 0..2 {
        let block = HeapBlocks.block(layout.bytes, layout.align).unwrap();
        list.add_block(layout, block).unwrap();
    }
    assert_eq!(
        (list.capacity(), list.grown(), list.next_block()),
        (4, 2, None)
    );
    let mut taken: Vec<u32> = core::iter::from_fn(|| list.try_take())
        .map(Slot::index)
        .collect();
    taken.sort_unstable();
    assert_eq!(taken, [0, 1, 2, 3]);
}

struct Small;

impl BlockSource for Small {
    type Block = HeapBlock;
    type Error = SourceError;

    fn block(&mut self, bytes: usize, align: usize) -> Result<HeapBlock, SourceError> {
        Ok(HeapBlocks.block(bytes - 1, align)?)
    }
}

#[test]
fn a_block_that_is_too_small_is_refused() {
    let mut list = Freelist::new(FreelistConfig::default()).unwrap();
    let Err(SourceError::NotCovered(error)) = list.take(&mut Small) else {
        unreachable!("a block of one byte less was taken");
    };
    assert_eq!(
        error.layout,
        BlockLayout {
            bytes: 4096,
            align: 4096,
            entries: 64
        }
    );
    assert!(error.to_string().contains("4095 bytes"));
    assert_eq!((list.capacity(), list.grown()), (0, 0));
}

#[test]
fn nonsense_is_refused_with_its_values() {
    let check = |config| Freelist::<HeapBlock>::new(config).unwrap_err();
    let good = FreelistConfig::default();
    for zero in [
        FreelistConfig {
            entry_bytes: 0,
            ..good
        },
        FreelistConfig { first: 0, ..good },
        FreelistConfig { grow: 0, ..good },
    ] {
        assert_eq!(check(zero), ConfigError::Zero);
    }
    let odd = check(FreelistConfig { align: 24, ..good });
    assert_eq!(
        odd,
        ConfigError::NotPowerOfTwo {
            align: 24,
            page: 4096
        }
    );
    assert!(
        check(FreelistConfig { page: 0, ..good })
            .to_string()
            .contains("page size 0")
    );
    for large in [
        FreelistConfig {
            entry_bytes: usize::MAX,
            ..good
        },
        FreelistConfig {
            entry_bytes: 1 << 33,
            first: 4,
            ..good
        },
        FreelistConfig {
            entry_bytes: 1 << 20,
            grow: u32::MAX,
            ..good
        },
    ] {
        assert!(check(large).to_string().contains("32 GiB"));
    }
}

#[test]
fn a_slot_given_twice_is_named() {
    let mut list = Freelist::new(FreelistConfig::default()).unwrap();
    let slot = list.take(&mut HeapBlocks).unwrap().unwrap();
    list.give(slot).unwrap();
    let error = list.give(slot).unwrap_err();
    assert_eq!((error.slot, error.capacity), (slot, 64));
    assert!(error.to_string().contains("buffer 0 (generation 1)"));
}
