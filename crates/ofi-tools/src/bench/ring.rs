//! Ring all-reduce and all-gather, as a script for lanes.
//!
//! ```text
//!   step t:   send chunk r-t to the next rank      receive chunk r-t-1 from the previous one
//!   all-reduce:  t < n-1   add what arrives to the own input (reduce-scatter), then
//!                t >= n-1  pass finished chunks on (all-gather)
//!   all-gather:  t < n-1   pass blocks on
//! ```
//!
//! A chunk is cut into slices, so that a step begins when its first slice is there. Message number
//! `t * slices + s` of either lane is slice `s` of step `t`.

use super::draw::below;
use super::element::{BYTES, Numbers, Sum};
use super::exchange::{Area, Piece, Script};
use crate::abi::Region;

/// The lane to the next rank.
pub(crate) const SEND: usize = 0;
/// The lane from the previous rank.
pub(crate) const RECV: usize = 1;

/// What all-reduce needs beyond the ring itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reduce {
    pub(crate) numbers: Numbers,
    pub(crate) input: Region,
    pub(crate) output: Region,
    pub(crate) scratch: Region,
    /// Pieces that fit the scratch buffer.
    pub(crate) slots: usize,
}

/// One rank's part.
#[derive(Debug)]
pub(crate) struct Ring {
    pub(crate) rank: usize,
    pub(crate) world: usize,
    /// Units (elements or bytes) of the whole buffer, and bytes of a unit.
    pub(crate) units: usize,
    pub(crate) unit: usize,
    pub(crate) slices: usize,
    /// Offset of the data in each area.
    pub(crate) base: usize,
    pub(crate) reduce: Option<Reduce>,
}

impl Ring {
    /// Slices that keep the largest chunk's pieces within `most` bytes.
    pub(crate) fn slices_for(units: usize, unit: usize, world: usize, most: usize) -> usize {
        (units.div_ceil(world) * unit)
            .div_ceil(most.max(unit))
            .max(1)
    }

    /// Bytes of the largest piece.
    pub(crate) fn largest(&self) -> usize {
        self.units.div_ceil(self.world).div_ceil(self.slices) * self.unit
    }

    const fn first_gather_step(&self) -> usize {
        if self.reduce.is_some() {
            self.world - 1
        } else {
            0
        }
    }

    fn step_and_slice(&self, message: u64) -> (usize, usize) {
        let m = usize::try_from(message).unwrap_or(0);
        (m / self.slices, m % self.slices)
    }

    /// Bytes of slice `slice` of chunk `chunk`: offset in the buffer and length.
    fn bytes(&self, chunk: usize, slice: usize) -> (usize, usize) {
        let (from, to) = cut(self.units, self.world, chunk);
        let (a, b) = cut(to - from, self.slices, slice);
        (self.base + (from + a) * self.unit, (b - a) * self.unit)
    }

    fn chunk(&self, lane: usize, step: usize) -> usize {
        let back = step + usize::from(lane == RECV);
        (self.rank + 2 * self.world - back % self.world) % self.world
    }
}

/// Part `i` of `n` nearly equal parts of `0..len`.
fn cut(len: usize, n: usize, i: usize) -> (usize, usize) {
    let at = |i: usize| len / n * i + (len % n).min(i);
    (at(i), at(i + 1))
}

impl Script for Ring {
    fn messages(&self) -> u64 {
        let steps = self.world - 1;
        let rounds = if self.reduce.is_some() {
            2 * steps
        } else {
            steps
        };
        u64::try_from(rounds * self.slices).unwrap_or(u64::MAX)
    }

    fn piece(&self, lane: usize, message: u64) -> Piece {
        let (step, slice) = self.step_and_slice(message);
        let (at, len) = self.bytes(self.chunk(lane, step), slice);
        match self.reduce {
            Some(_) if lane == SEND && step == 0 => Piece {
                area: Area::Input,
                at,
                len,
            },
            Some(r) if lane == RECV && step < self.first_gather_step() => {
                let at = self.base + below(message, r.slots) * self.largest();
                Piece {
                    area: Area::Scratch,
                    at,
                    len,
                }
            }
            _ => Piece {
                area: Area::Output,
                at,
                len,
            },
        }
    }

    fn may_post(&self, lane: usize, message: u64, through: &[u64]) -> bool {
        let (step, slice) = self.step_and_slice(message);
        if lane == SEND {
            // What is passed on has arrived one step before.
            let needed = message.checked_sub(u64::try_from(self.slices).unwrap_or(0));
            return needed.is_none_or(|m| through[RECV] > m);
        }
        // A finished chunk may land only when the sum so far has left the same place.
        let Some(sent_at) = (step + 1)
            .checked_sub(self.world)
            .filter(|_| self.reduce.is_some())
        else {
            return true;
        };
        let sent = u64::try_from(sent_at * self.slices + slice).unwrap_or(u64::MAX);
        sent_at == 0 || through[SEND] > sent
    }

    fn arrived(&mut self, lane: usize, message: u64) {
        let (step, slice) = self.step_and_slice(message);
        let Some(r) = self.reduce.filter(|_| step < self.first_gather_step()) else {
            return;
        };
        let piece = self.piece(lane, message);
        let (at, len) = self.bytes(self.chunk(lane, step), slice);
        debug_assert_eq!(len % BYTES, 0, "pieces of all-reduce are whole elements");
        let sum = Sum {
            to: at,
            a: r.input,
            at_a: at,
            b: r.scratch,
            at_b: piece.at,
            len,
        };
        r.numbers.add_into(r.output, sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::plan::Element;

    /// Runs all ranks of a ring in one place, message by message, by copying.
    fn simulate(world: usize, count: usize, slices: usize) {
        let numbers = Numbers {
            kind: Element::U32,
            seed: 5,
            world,
        };
        let room = (count + world) * BYTES + 4096;
        let mut ranks: Vec<Ring> = (0..world)
            .map(|rank| {
                let [input, output, scratch] = [(); 3].map(|()| Region::map(2 * room).unwrap());
                numbers.fill(input, 0, count, rank);
                let reduce = Some(Reduce {
                    numbers,
                    input,
                    output,
                    scratch,
                    slots: 3,
                });
                Ring {
                    rank,
                    world,
                    units: count,
                    unit: BYTES,
                    slices,
                    base: 0,
                    reduce,
                }
            })
            .collect();
        let area = |r: &Ring, p: Piece| {
            let x = r.reduce.unwrap();
            match p.area {
                Area::Input => x.input,
                Area::Output => x.output,
                Area::Scratch => x.scratch,
            }
        };
        let messages = ranks[0].messages();
        let mut through = vec![[0_u64; 2]; world];
        while through.iter().any(|t| t[RECV] < messages) {
            let before = through.clone();
            for from in 0..world {
                let (to, m) = ((from + 1) % world, through[from][SEND]);
                let ready = m < messages
                    && ranks[from].may_post(SEND, m, &through[from])
                    && ranks[to].may_post(RECV, m, &through[to]);
                if ready {
                    let (s, r) = (ranks[from].piece(SEND, m), ranks[to].piece(RECV, m));
                    assert_eq!(s.len, r.len);
                    let mut bytes = vec![0; s.len];
                    area(&ranks[from], s).read(s.at, &mut bytes);
                    area(&ranks[to], r).write(r.at, &bytes);
                    through[from][SEND] += 1;
                    ranks[to].arrived(RECV, m);
                    through[to][RECV] += 1;
                }
            }
            assert_ne!(before, through, "no rank may post anything: world {world}");
        }
        for r in &ranks {
            assert_eq!(
                numbers.wrong(r.reduce.unwrap().output, 0, count),
                None,
                "rank {}",
                r.rank
            );
        }
    }

    #[test]
    fn every_rank_ends_with_the_sum() {
        for world in [2, 3, 4, 7] {
            for (count, slices) in [(1000, 1), (1001, 3), (5, 2), (1, 1), (0, 1)] {
                simulate(world, count, slices);
            }
        }
    }

    #[test]
    fn parts_are_whole_and_nearly_equal() {
        for (len, n) in [(0, 1), (10, 3), (2, 5), (100, 7)] {
            let mut end = 0;
            for i in 0..n {
                let (a, b) = cut(len, n, i);
                assert!(a == end && b - a <= len.div_ceil(n));
                end = b;
            }
            assert_eq!(end, len);
        }
    }
}
