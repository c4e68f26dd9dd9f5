//! The bytes of messages: a pattern that names its message, and guards around it.

use super::draw::mix;
use crate::abi::Region;

/// Bytes on either side of every checked message that nobody may touch.
pub(crate) const GUARD: usize = 64;
/// What guards hold.
pub(crate) const GUARD_BYTE: u8 = 0xc5;

const BLOCK: usize = 4096;

/// What a message is: its bytes follow from this alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) seed: u64,
    /// The measurement of the run.
    pub(crate) epoch: u64,
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) comm: usize,
}

impl Source {
    /// The key of message number `message`.
    pub(crate) fn key(&self, message: u64) -> u64 {
        let part = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        let ends = (part(self.from) << 32) ^ (part(self.to) << 16) ^ part(self.comm);
        mix(mix(self.seed ^ mix(self.epoch)) ^ mix(ends) ^ message)
    }
}

/// Word `i` of the message with this key.
const fn word(key: u64, i: u64) -> u64 {
    let x = (key ^ i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^ (x >> 32)
}

fn pattern(block: &mut [u8; BLOCK], key: u64, first: usize) {
    let first = u64::try_from(first / 8).unwrap_or(0);
    for (i, chunk) in (first..).zip(block.chunks_exact_mut(8)) {
        chunk.copy_from_slice(&word(key, i).to_le_bytes());
    }
}

/// Writes the pattern of `key` to bytes `at..at + len`.
pub(crate) fn fill(region: Region, at: usize, len: usize, key: u64) {
    let mut block = [0; BLOCK];
    for done in (0..len).step_by(BLOCK) {
        pattern(&mut block, key, done);
        let n = BLOCK.min(len - done);
        region.write(at + done, &block[..n]);
    }
}

/// A byte that differs from the pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Difference {
    pub(crate) at: usize,
    pub(crate) got: u8,
    pub(crate) want: u8,
}

/// The first byte of `at..at + len` that is not the pattern's.
pub(crate) fn difference(region: Region, at: usize, len: usize, key: u64) -> Option<Difference> {
    let (mut want, mut got) = ([0; BLOCK], [0; BLOCK]);
    for done in (0..len).step_by(BLOCK) {
        pattern(&mut want, key, done);
        let n = BLOCK.min(len - done);
        region.read(at + done, &mut got[..n]);
        if got[..n] != want[..n] {
            let i = got.iter().zip(&want).position(|(g, w)| g != w)?;
            return Some(Difference {
                at: done + i,
                got: got[i],
                want: want[i],
            });
        }
    }
    None
}

/// Writes `byte` to bytes `at..at + len`.
pub(crate) fn paint(region: Region, at: usize, len: usize, byte: u8) {
    let block = [byte; BLOCK];
    for done in (0..len).step_by(BLOCK) {
        region.write(at + done, &block[..BLOCK.min(len - done)]);
    }
}

/// The first byte of `at..at + len` that is not `byte`, counted from `at`.
pub(crate) fn unpainted(region: Region, at: usize, len: usize, byte: u8) -> Option<usize> {
    let mut got = [0; BLOCK];
    for done in (0..len).step_by(BLOCK) {
        let n = BLOCK.min(len - done);
        region.read(at + done, &mut got[..n]);
        if let Some(i) = got[..n].iter().position(|b| *b != byte) {
            return Some(done + i);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source() -> Source {
        Source {
            seed: 1,
            epoch: 2,
            from: 0,
            to: 1,
            comm: 3,
        }
    }

    #[test]
    fn every_changed_byte_is_found_at_its_place() {
        let r = Region::map(3 * BLOCK).unwrap();
        let key = source().key(7);
        for len in [0, 1, 7, 8, 9, BLOCK, BLOCK + 1, 2 * BLOCK + 13] {
            fill(r, 5, len, key);
            assert_eq!(difference(r, 5, len, key), None, "{len}");
            for at in [0, len / 2, len.saturating_sub(1)]
                .into_iter()
                .filter(|at| *at < len)
            {
                let mut b = [0];
                r.read(5 + at, &mut b);
                r.write(5 + at, &[b[0] ^ 0x10]);
                let d = difference(r, 5, len, key).unwrap();
                assert_eq!((d.at, d.got), (at, d.want ^ 0x10));
                r.write(5 + at, &b);
            }
        }
    }

    #[test]
    fn messages_differ_in_key_by_every_part_of_their_name() {
        let s = source();
        let others = [
            Source { seed: 2, ..s },
            Source { epoch: 3, ..s },
            Source {
                from: 1,
                to: 0,
                ..s
            },
            Source { comm: 4, ..s },
        ];
        for o in others {
            assert_ne!(o.key(7), s.key(7));
        }
        assert_ne!(s.key(7), s.key(8));
    }

    #[test]
    fn a_touched_guard_is_found() {
        let r = Region::map(BLOCK).unwrap();
        paint(r, 10, 100, GUARD_BYTE);
        assert_eq!(unpainted(r, 10, 100, GUARD_BYTE), None);
        r.write(42, &[0]);
        assert_eq!(unpainted(r, 10, 100, GUARD_BYTE), Some(32));
    }
}
