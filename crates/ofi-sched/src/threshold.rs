//! The policy of the BASE generation (protocol 2g.6), bit for bit.
//!
//! A message below `small_max_bytes` goes whole to the next rail of the small rotation. Any other
//! is cut into one stripe for each `min_stripe_bytes`, but at most one a rail, and then into as
//! many fewer as make the rails come out even: the largest n >= 2, at most that many, that divides
//! the number of rails. Where none does, the number stays: 2 stripes on 3 rails are 2 (trap 33).

use core::fmt;

use crate::{MAX_RAILS, Plan, Policy, RailCount};

/// What the user can set of the [`Threshold`] policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// One stripe for this many bytes (`OFI_NCCL_MIN_STRIPE_SIZE`); at least 1.
    ///
    /// An eager message must fit one stripe (`OFI_NCCL_EAGER_MAX_SIZE` <= this): whoever reads
    /// both settings checks that. With few bytes here the last stripes of a message can be empty.
    pub min_stripe_bytes: u64,
    /// Messages below this many bytes rotate on a counter of their own
    /// (`OFI_NCCL_SCHED_MAX_SMALL_RR_SIZE`); any value, 0 means none.
    pub small_max_bytes: u64,
}

impl Config {
    /// The defaults of BASE: 64 KiB a stripe, small below 64 bytes (protocol 2i).
    pub const BASE: Self = Self {
        min_stripe_bytes: 65536,
        small_max_bytes: 64,
    };
}

impl Default for Config {
    fn default() -> Self {
        Self::BASE
    }
}

/// Why a [`Config`] is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// `min_stripe_bytes` is 0: every message would want infinitely many stripes.
    MinStripeZero,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MinStripeZero => f.write_str(
                "a stripe of at least 0 bytes (OFI_NCCL_MIN_STRIPE_SIZE=0) cannot be cut: set it \
                 to 1 or more, or leave it unset for 65536",
            ),
        }
    }
}

impl core::error::Error for ConfigError {}

/// The threshold policy of BASE, with its two rotations. One for a domain.
///
/// Costs: no allocation, no division; a comparison for each rail, two table look-ups and one
/// multiplication a message.
#[derive(Clone, Debug, Hash)]
pub struct Threshold {
    /// Below this a message is small.
    small_max_bytes: u64,
    /// `(k + 1) * min_stripe_bytes` at index k: a longer message wants more than k + 1 stripes.
    /// A product that does not fit is the largest number, which no length exceeds.
    bounds: [u64; MAX_RAILS - 1],
    /// Next rail of the small rotation.
    rr_small: u8,
    /// Next rail of the large rotation.
    rr_large: u8,
}

impl Threshold {
    /// A policy whose rotations start at rail 0.
    ///
    /// # Errors
    /// [`ConfigError::MinStripeZero`].
    pub const fn new(config: Config) -> Result<Self, ConfigError> {
        if config.min_stripe_bytes == 0 {
            return Err(ConfigError::MinStripeZero);
        }
        let mut bounds = [0; MAX_RAILS - 1];
        let mut k = 0;
        while k < bounds.len() {
            bounds[k] = config.min_stripe_bytes.saturating_mul(k as u64 + 1);
            k += 1;
        }
        let small_max_bytes = config.small_max_bytes;
        Ok(Self {
            small_max_bytes,
            bounds,
            rr_small: 0,
            rr_large: 0,
        })
    }

    /// How many stripes a message that is not small gets.
    #[inline(always)]
    fn stripes(&self, len: u64, rails: RailCount) -> RailCount {
        // max(1, min(ceil(len / min_stripe), rails)), counted instead of divided: the short and the
        // long ones, which are most, by one comparison.
        let others = rails.get() as usize - 1;
        let extra = if others == 0 || len <= self.bounds[0] {
            0
        } else if len > self.bounds[(others - 1) % (MAX_RAILS - 1)] {
            others
        } else {
            self.extra(len, others)
        };
        LOWERED[others % MAX_RAILS][extra % MAX_RAILS]
    }

    /// How many of the first `others` bounds `len` exceeds.
    #[inline(never)]
    fn extra(&self, len: u64, others: usize) -> usize {
        let bounds = self.bounds.iter().take(others);
        bounds.fold(0, |n, &bound| n.wrapping_add(usize::from(len > bound)))
    }

    /// Takes `step` (1..=`rails`) places of a rotation; returns the first.
    #[inline(always)]
    fn take(rotation: &mut u8, step: RailCount, rails: RailCount) -> u8 {
        let first = rails.wrap(*rotation);
        // Below twice the count; wrapping, so that no overflow check is left in the hot path.
        let next = first.wrapping_add(step.get());
        *rotation = if next >= rails.get() {
            next.wrapping_sub(rails.get())
        } else {
            next
        };
        first
    }
}

impl Policy for Threshold {
    #[inline(always)]
    fn plan(&mut self, len: u64, rails: RailCount) -> Plan {
        let (rotation, stripes) = if len < self.small_max_bytes {
            (&mut self.rr_small, RailCount::ONE)
        } else {
            let stripes = self.stripes(len, rails);
            (&mut self.rr_large, stripes)
        };
        let first = Self::take(rotation, stripes, rails);
        Plan::cut(len, stripes, first, rails)
    }

    #[inline]
    fn plan_one(&mut self, len: u64, rails: RailCount) -> u8 {
        let rotation = if len < self.small_max_bytes {
            &mut self.rr_small
        } else {
            &mut self.rr_large
        };
        Self::take(rotation, RailCount::ONE, rails)
    }
}

/// The stripes made of `wanted` (index: - 1) over `rails` (index: - 1): the largest number from
/// `wanted` down to 2 that divides `rails`, else `wanted`.
const LOWERED: [[RailCount; MAX_RAILS]; MAX_RAILS] = {
    let mut table = [[RailCount::ONE; MAX_RAILS]; MAX_RAILS];
    let mut rails = 1;
    while rails <= RailCount::MAX.get() {
        let mut wanted = 1;
        while wanted <= RailCount::MAX.get() {
            table[rails as usize - 1][wanted as usize - 1] = lowered(wanted, rails);
            wanted += 1;
        }
        rails += 1;
    }
    table
};

/// One entry of [`LOWERED`].
const fn lowered(wanted: u8, rails: u8) -> RailCount {
    let mut n = wanted;
    while n >= 2 && rails % n != 0 {
        n -= 1;
    }
    let stripes = if n >= 2 { n } else { wanted };
    match RailCount::new(stripes) {
        Some(stripes) => stripes,
        None => RailCount::ONE,
    }
}
