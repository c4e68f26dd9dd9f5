//! Replays the corpus of a fuzz target with plain cargo, and inputs made from it: a test of each crate
//! includes this file.

use std::fs;
use std::path::Path;

/// Inputs made from each of the corpus.
const VARIANTS: u64 = 200;

/// Inputs made of nothing, and their longest.
const NOISE: u64 = 300;
const NOISE_BYTES: usize = 600;

/// Calls `check` with every file of `fuzz/corpus/TARGET`, with some made of it (bytes changed, cut, and
/// repeated) and with noise: the same ones in each run.
pub(crate) fn replay(target: &str, check: impl Fn(&[u8])) {
    replay_some(target, (VARIANTS, NOISE), check);
}

/// The same, with so many made of each file, and so much noise: for checks that take their time.
pub(crate) fn replay_some(target: &str, (variants, noise): (u64, u64), check: impl Fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(target);
    let files = fs::read_dir(&corpus).expect("the corpus of the target");
    let mut files: Vec<_> = files.map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    assert!(!files.is_empty(), "the corpus of {target} is empty");
    let mut chance = Chance(0x5EED);
    for file in files {
        let bytes = fs::read(&file).expect("a file of the corpus");
        check(&bytes);
        for _ in 0..variants {
            check(&changed(&bytes, &mut chance));
        }
    }
    for _ in 0..noise {
        let len = chance.below(NOISE_BYTES);
        let noise: Vec<u8> = (0..len).map(|_| chance.next().to_le_bytes()[0]).collect();
        check(&noise);
    }
}

fn changed(bytes: &[u8], chance: &mut Chance) -> Vec<u8> {
    let mut changed = bytes.to_vec();
    match chance.below(8) {
        0 => changed.truncate(chance.below(bytes.len() + 1)),
        1 => changed.extend_from_within(chance.below(bytes.len() + 1)..),
        _ => {}
    }
    for _ in 0..=chance.below(8) {
        let (at, byte) = (chance.below(changed.len()), chance.next().to_le_bytes()[0]);
        changed
            .iter_mut()
            .skip(at)
            .take(1)
            .for_each(|old| *old = byte);
    }
    changed
}

/// Numbers that are the same in each run.
struct Chance(u64);

impl Chance {
    /// One step of `xorshift64*`.
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    /// Below `bound`; 0 if there is nothing below it.
    fn below(&mut self, bound: usize) -> usize {
        let next = usize::try_from(self.next()).unwrap_or(0);
        next.checked_rem(bound).unwrap_or(0)
    }
}
