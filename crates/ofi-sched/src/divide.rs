//! ceil(x / n) for n in 1..=16 without a division: one multiplication by a reciprocal.
//!
//! With m = ceil(2^64 / n) the error e = m * n - 2^64 is below n, and floor(x * m / 2^64) is
//! floor(x / n) as long as x * e < 2^64. Here x is a number of 128-byte blocks and at most
//! 2^57 + 15, so x * e < 2^62. For n = 1 the reciprocal does not fit 64 bits; nothing is to be
//! divided then.

use crate::{MAX_RAILS, RailCount};

/// ceil(2^64 / n) at index n - 1; index 0 is not used.
const RECIPROCALS: [u64; MAX_RAILS] = {
    let mut table = [0; MAX_RAILS];
    let mut n = 2;
    while n <= MAX_RAILS {
        // ceil(2^64 / n) = floor((2^64 - 1) / n) + 1 for every n >= 2.
        table[n - 1] = u64::MAX / (n as u64) + 1;
        n += 1;
    }
    table
};

/// The largest dividend for which [`div_ceil`] is exact: the blocks of the longest message.
pub(crate) const MAX_DIVIDEND: u64 = 1 << 57;

/// ceil(`x` / `n`), for `x` up to [`MAX_DIVIDEND`].
#[inline(always)]
pub(crate) const fn div_ceil(x: u64, n: RailCount) -> u64 {
    let n = n.get();
    if n == 1 {
        return x;
    }
    let reciprocal = RECIPROCALS[(n - 1) as usize % MAX_RAILS];
    high_half(x + (n - 1) as u64, reciprocal)
}

/// The upper 64 bits of a 128-bit product.
#[inline(always)]
const fn high_half(a: u64, b: u64) -> u64 {
    ((a as u128 * b as u128) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::{MAX_DIVIDEND, div_ceil};
    use crate::{MAX_RAILS, RailCount};

    #[test]
    fn agrees_with_division_around_every_power_of_two() {
        for n in 1..=MAX_RAILS {
            let count = RailCount::new(u8::try_from(n).unwrap()).unwrap();
            for bit in 0..=57 {
                for near in 0..64u64 {
                    for x in [(1u64 << bit).saturating_sub(near), (1 << bit) + near] {
                        let x = x.min(MAX_DIVIDEND);
                        assert_eq!(div_ceil(x, count), x.div_ceil(n as u64), "{x} / {n}");
                    }
                }
            }
        }
    }

    #[test]
    fn agrees_with_division_for_all_small_dividends() {
        for n in 1..=MAX_RAILS {
            let count = RailCount::new(u8::try_from(n).unwrap()).unwrap();
            for x in 0..100_000u64 {
                assert_eq!(div_ceil(x, count), x.div_ceil(n as u64), "{x} / {n}");
            }
        }
    }
}
