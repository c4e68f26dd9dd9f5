//! The answer of a policy: which stripes, on which rails.
//!
//! A plan holds the rule, not the list: all stripes but the last are equally long and their rails
//! follow each other, so that 24 bytes describe up to sixteen of them and copying a plan is free.

use core::iter::FusedIterator;

use crate::RailCount;
use crate::divide::div_ceil;

/// Stripes start at multiples of this many bytes (protocol 2g.6).
pub const STRIPE_ALIGN: u64 = 128;

const ALIGN_SHIFT: u32 = STRIPE_ALIGN.trailing_zeros();
const _: () = assert!(STRIPE_ALIGN.is_power_of_two(), "stripes are cut by shifts");

/// One part of a message and the rail that carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stripe {
    /// Index of the rail, below the rails the plan was made for.
    pub rail: u8,
    /// Where the stripe starts in the message, in bytes; never beyond its end.
    pub offset: u64,
    /// Length in bytes. May be 0, and still is to be sent: the receiver counts it (trap 5).
    pub len: u64,
}

/// The stripes of one message, in order of offset. Never empty, not even for an empty message.
///
/// The stripes cover the message exactly, do not overlap, start at multiples of [`STRIPE_ALIGN`]
/// (but for empty ones at the end), and each is on a rail of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Plan {
    /// Length of the message.
    len: u64,
    /// Length of every stripe but the last ones; `len` itself when there is one stripe.
    stripe_len: u64,
    stripes: RailCount,
    rails: RailCount,
    /// Rail of the first stripe, below `rails`.
    first: u8,
}

impl Plan {
    /// The whole message of `len` bytes as one stripe on `rail`, or `None` when `rail` is not
    /// one of `rails`.
    #[must_use]
    pub const fn single(len: u64, rail: u8, rails: RailCount) -> Option<Self> {
        Self::striped(len, RailCount::ONE, rail, rails)
    }

    /// A message of `len` bytes in `stripes` equal parts on consecutive rails from `first`, or
    /// `None` when there are more stripes than `rails` or `first` is not one of them.
    ///
    /// For policies of your own. A stripe is ceil(ceil(`len` / `stripes`) / 128) * 128 bytes
    /// long, the last ones shorter (protocol 2g.6).
    #[must_use]
    pub const fn striped(
        len: u64,
        stripes: RailCount,
        first: u8,
        rails: RailCount,
    ) -> Option<Self> {
        if stripes.get() > rails.get() || first >= rails.get() {
            return None;
        }
        Some(Self::cut(len, stripes, first, rails))
    }

    /// [`Plan::striped`] for a caller that has checked.
    #[inline(always)]
    pub(crate) const fn cut(len: u64, stripes: RailCount, first: u8, rails: RailCount) -> Self {
        // ceil(ceil(len / n) / 128) = ceil(ceil(len / 128) / n): the order of the two roundings
        // does not matter, and this one keeps the dividend below 2^57 + 1.
        let stripe_len = if stripes.get() == 1 {
            // Not rounded up: near the top of u64 it would not fit.
            len
        } else {
            div_ceil(blocks(len), stripes) << ALIGN_SHIFT
        };
        Self {
            len,
            stripe_len,
            stripes,
            rails,
            first,
        }
    }

    /// How many stripes there are: the number of segments the receiver waits for, 1..=16.
    #[must_use]
    #[inline(always)]
    pub const fn stripe_count(&self) -> RailCount {
        self.stripes
    }

    /// How many stripes there are, as a length: 1..=16.
    #[must_use]
    #[inline(always)]
    #[expect(clippy::len_without_is_empty, reason = "a plan is never empty")]
    pub const fn len(&self) -> usize {
        self.stripes.get() as usize
    }

    /// Length of the message in bytes: the sum over the stripes.
    #[must_use]
    #[inline(always)]
    pub const fn message_len(&self) -> u64 {
        self.len
    }

    /// Stripe `index`, or `None` from [`Plan::len`] on.
    #[must_use]
    #[inline]
    pub const fn get(&self, index: usize) -> Option<Stripe> {
        if index >= self.len() {
            return None;
        }
        let k = index as u64;
        // (n - 1) * ceil(blocks / n) < 2^57 for every n: the product cannot wrap.
        let cut = k.wrapping_mul(self.stripe_len);
        let offset = if cut < self.len { cut } else { self.len };
        let left = self.len - offset;
        let len = if left < self.stripe_len {
            left
        } else {
            self.stripe_len
        };
        Some(Stripe {
            rail: self.rail_of(index),
            offset,
            len,
        })
    }

    /// The rail of stripe `index`, which is below the number of stripes.
    #[inline(always)]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "an index of a stripe is below 16"
    )]
    const fn rail_of(&self, index: usize) -> u8 {
        self.rails.wrap(self.first.wrapping_add(index as u8))
    }

    /// The stripes in order of offset.
    #[inline]
    #[must_use]
    pub const fn iter(&self) -> Stripes {
        Stripes {
            plan: *self,
            next: 0,
        }
    }
}

/// ceil(`len` / 128), for any `len`.
#[inline(always)]
const fn blocks(len: u64) -> u64 {
    (len >> ALIGN_SHIFT) + (len & (STRIPE_ALIGN - 1) != 0) as u64
}

const _: () = assert!(
    blocks(u64::MAX) == crate::divide::MAX_DIVIDEND,
    "div_ceil is exact"
);

impl IntoIterator for Plan {
    type Item = Stripe;
    type IntoIter = Stripes;

    fn into_iter(self) -> Stripes {
        self.iter()
    }
}

impl IntoIterator for &Plan {
    type Item = Stripe;
    type IntoIter = Stripes;

    fn into_iter(self) -> Stripes {
        self.iter()
    }
}

/// The stripes of a [`Plan`], in order of offset.
#[derive(Clone, Debug)]
pub struct Stripes {
    plan: Plan,
    next: usize,
}

impl Iterator for Stripes {
    type Item = Stripe;

    #[inline]
    fn next(&mut self) -> Option<Stripe> {
        let stripe = self.plan.get(self.next)?;
        self.next += 1;
        Some(stripe)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.plan.len() - self.next;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Stripes {}
impl FusedIterator for Stripes {}
