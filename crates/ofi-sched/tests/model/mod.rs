//! The threshold scheduler as protocol 2g.6 words it: divisions, remainders, and a list.

use ofi_sched::{Config, RailCount, STRIPE_ALIGN, Stripe};

/// The state of the text: two counters and the two settings.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) config: Config,
    pub(crate) rr_small: u8,
    pub(crate) rr_large: u8,
}

impl Model {
    pub(crate) fn new(config: Config) -> Self {
        Self {
            config,
            rr_small: 0,
            rr_large: 0,
        }
    }

    /// The schedule of the text. Where the text has the offset k * stripe, this has it cut at the
    /// message's end: an empty stripe would else point beyond the buffer, which the same section
    /// forbids.
    pub(crate) fn plan(&mut self, size: u64, num_rails: u8) -> Vec<Stripe> {
        if size < self.config.small_max_bytes {
            return vec![Stripe {
                rail: self.next_small(num_rails),
                offset: 0,
                len: size,
            }];
        }
        let n = self.stripes(size, num_rails);
        let start = self.next_large(n, num_rails);
        let per_stripe = u128::from(size).div_ceil(u128::from(n));
        let stripe = per_stripe.div_ceil(u128::from(STRIPE_ALIGN)) * u128::from(STRIPE_ALIGN);
        let mut left = u128::from(size);
        let cut = |k: u8| {
            let len = left.min(stripe);
            left -= len;
            let offset = (u128::from(k) * stripe).min(u128::from(size));
            let narrow = |wide: u128| u64::try_from(wide).expect("within the message");
            Stripe {
                rail: (start + k) % num_rails,
                offset: narrow(offset),
                len: narrow(len),
            }
        };
        (0..n).map(cut).collect()
    }

    /// A message that is not cut uses the counter of its size.
    pub(crate) fn plan_one(&mut self, size: u64, num_rails: u8) -> u8 {
        if size < self.config.small_max_bytes {
            self.next_small(num_rails)
        } else {
            self.next_large(1, num_rails)
        }
    }

    fn next_small(&mut self, num_rails: u8) -> u8 {
        let rail = self.rr_small % num_rails;
        self.rr_small = (self.rr_small + 1) % num_rails;
        rail
    }

    fn next_large(&mut self, n: u8, num_rails: u8) -> u8 {
        let start = self.rr_large % num_rails;
        self.rr_large = (self.rr_large + n) % num_rails;
        start
    }

    fn stripes(&self, size: u64, num_rails: u8) -> u8 {
        let wanted = size
            .div_ceil(self.config.min_stripe_bytes)
            .min(u64::from(num_rails))
            .max(1);
        let wanted = u8::try_from(wanted).expect("at most the rails");
        (2..=wanted)
            .rev()
            .find(|i| num_rails % i == 0)
            .unwrap_or(wanted)
    }
}

/// A count of rails that a test writes down.
pub(crate) fn rails(count: u8) -> RailCount {
    RailCount::new(count).expect("1..=16 rails")
}
