//! The numbers that all-reduce adds: each rank's are drawn so that the sum over all ranks has a
//! closed form that is exact.

use super::draw::mix;
use super::plan::Element;
use crate::abi::Region;

/// Bytes of an element.
pub(crate) const BYTES: usize = 4;
const BLOCK: usize = 4096;

/// Contents of an all-reduce.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Numbers {
    pub(crate) kind: Element,
    pub(crate) seed: u64,
    pub(crate) world: usize,
}

impl Numbers {
    fn draw(&self, index: usize) -> u32 {
        let r = mix(self.seed ^ u64::try_from(index).unwrap_or(0));
        u32::try_from(r >> 32).unwrap_or(0)
    }

    /// Element `index` of rank `rank`, as its bits. Floats are whole numbers whose sum over 256
    /// ranks stays below 2^24, so every order of adding gives the same, exact result.
    fn of(&self, rank: usize, index: usize) -> u32 {
        let (h, r) = (self.draw(index), u32::try_from(rank).unwrap_or(0));
        match self.kind {
            Element::U32 => h.wrapping_mul(2 * r + 1).wrapping_add(r),
            Element::F32 => (((h & 0xff) * (r + 1)) as f32).to_bits(),
        }
    }

    /// The sum over all ranks, as its bits.
    pub(crate) fn sum(&self, index: usize) -> u32 {
        let (h, n) = (self.draw(index), u32::try_from(self.world).unwrap_or(0));
        match self.kind {
            // sum of 2r+1 is n^2, sum of r is n(n-1)/2
            Element::U32 => h.wrapping_mul(n * n).wrapping_add(n * (n - 1) / 2),
            Element::F32 => (((h & 0xff) * (n * (n + 1) / 2)) as f32).to_bits(),
        }
    }

    /// For messages to people.
    pub(crate) fn show(&self, bits: u32) -> String {
        match self.kind {
            Element::U32 => bits.to_string(),
            Element::F32 => format!("{}", f32::from_bits(bits)),
        }
    }

    fn add(&self, a: [u8; BYTES], b: [u8; BYTES]) -> [u8; BYTES] {
        match self.kind {
            Element::U32 => u32::from_le_bytes(a)
                .wrapping_add(u32::from_le_bytes(b))
                .to_le_bytes(),
            Element::F32 => (f32::from_le_bytes(a) + f32::from_le_bytes(b)).to_le_bytes(),
        }
    }

    /// Writes the `count` elements of `rank` to bytes `at..`.
    pub(crate) fn fill(&self, region: Region, at: usize, count: usize, rank: usize) {
        let mut block = Vec::with_capacity(BLOCK);
        for first in (0..count).step_by(BLOCK / BYTES) {
            block.clear();
            for i in first..count.min(first + BLOCK / BYTES) {
                block.extend_from_slice(&self.of(rank, i).to_le_bytes());
            }
            region.write(at + first * BYTES, &block);
        }
    }

    /// `to = a + b`, element by element.
    pub(crate) fn add_into(&self, region: Region, sum: Sum) {
        let (mut x, mut y) = ([0; BLOCK], [0; BLOCK]);
        for done in (0..sum.len).step_by(BLOCK) {
            let n = BLOCK.min(sum.len - done);
            sum.a.read(sum.at_a + done, &mut x[..n]);
            sum.b.read(sum.at_b + done, &mut y[..n]);
            for (l, r) in x[..n]
                .chunks_exact_mut(BYTES)
                .zip(y[..n].chunks_exact(BYTES))
            {
                let (mut p, mut q) = ([0; BYTES], [0; BYTES]);
                p.copy_from_slice(l);
                q.copy_from_slice(r);
                l.copy_from_slice(&self.add(p, q));
            }
            region.write(sum.to + done, &x[..n]);
        }
    }

    /// The first of `count` elements at bytes `at..` that is not the sum over all ranks: its index
    /// and its bits.
    pub(crate) fn wrong(&self, region: Region, at: usize, count: usize) -> Option<(usize, u32)> {
        let mut got = [0; BLOCK];
        for first in (0..count).step_by(BLOCK / BYTES) {
            let n = (count - first).min(BLOCK / BYTES);
            region.read(at + first * BYTES, &mut got[..n * BYTES]);
            for (i, chunk) in got[..n * BYTES].chunks_exact(BYTES).enumerate() {
                let mut bytes = [0; BYTES];
                bytes.copy_from_slice(chunk);
                let bits = u32::from_le_bytes(bytes);
                if bits != self.sum(first + i) {
                    return Some((first + i, bits));
                }
            }
        }
        None
    }
}

/// What is added where: offsets and a length in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sum {
    pub(crate) to: usize,
    pub(crate) a: Region,
    pub(crate) at_a: usize,
    pub(crate) b: Region,
    pub(crate) at_b: usize,
    pub(crate) len: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adding_all_ranks_in_any_order_gives_the_closed_form() {
        for kind in [Element::U32, Element::F32] {
            for world in [1, 2, 3, 8, 256] {
                let numbers = Numbers {
                    kind,
                    seed: 7,
                    world,
                };
                let r = Region::map(3 << 14).unwrap();
                let count = 1500;
                let (sum, next) = (0, 1 << 14);
                numbers.fill(r, sum, count, world - 1);
                for rank in 0..world - 1 {
                    numbers.fill(r, next, count, rank);
                    let len = count * BYTES;
                    let sum = Sum {
                        to: sum,
                        a: r,
                        at_a: sum,
                        b: r,
                        at_b: next,
                        len,
                    };
                    numbers.add_into(r, sum);
                }
                assert_eq!(numbers.wrong(r, sum, count), None, "{kind:?} {world}");
                r.write(sum + 4 * 1300, &[0xff; 4]);
                assert_eq!(numbers.wrong(r, sum, count), Some((1300, u32::MAX)));
            }
        }
    }
}
