//! The policy against a model written from the protocol's text, and what every plan keeps.

mod model;

use model::{Model, rails};
use ofi_sched::{Config, MAX_RAILS, Plan, Policy, STRIPE_ALIGN, Stripe, Threshold};
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop, prop_oneof, proptest};

/// Message lengths of every magnitude, many of them next to a power of two.
fn lens() -> impl Strategy<Value = u64> {
    prop_oneof![
        (any::<u64>(), 0u32..64).prop_map(|(len, shift)| len >> shift),
        (0u32..64, 0u64..300).prop_map(|(bit, more)| (1u64 << bit).saturating_add(more)),
        (0u32..64, 0u64..300).prop_map(|(bit, less)| (1u64 << bit).saturating_sub(less)),
        (0u64..300).prop_map(|less| u64::MAX - less),
    ]
}

fn configs() -> impl Strategy<Value = Config> {
    let min_stripe = prop_oneof![
        Just(1),
        Just(65_536),
        Just(131_072),
        lens().prop_map(|m| m.max(1))
    ];
    let small_max = prop_oneof![Just(64), Just(0), lens()];
    (min_stripe, small_max).prop_map(|(min_stripe_bytes, small_max_bytes)| Config {
        min_stripe_bytes,
        small_max_bytes,
    })
}

/// Lengths of 0 to 20 stripes of a configuration, give or take a byte: where counts change.
fn around_stripes(min_stripe: u64, stripes: u64, nudge: u64) -> u64 {
    min_stripe
        .saturating_mul(stripes)
        .saturating_add(nudge)
        .saturating_sub(1)
}

/// What every plan keeps, whichever policy made it.
fn keeps_its_promises(plan: Plan, len: u64, num_rails: u8) {
    assert!((1..=usize::from(num_rails)).contains(&plan.len()));
    let mut end = 0;
    let mut used = [false; MAX_RAILS];
    for Stripe {
        rail,
        offset,
        len: part,
    } in plan
    {
        assert_eq!(offset, end, "no gap, no overlap");
        assert!(
            offset % STRIPE_ALIGN == 0 || part == 0,
            "aligned unless empty"
        );
        assert!(rail < num_rails);
        assert!(
            !core::mem::replace(&mut used[usize::from(rail)], true),
            "a rail of its own"
        );
        end = offset + part;
    }
    assert_eq!(end, len, "covers the message");
    assert_eq!(plan.iter().len(), plan.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    /// Whole runs, so that the rotations are compared as they develop, over changing rail counts.
    #[test]
    fn agrees_with_the_text(
        config in configs(),
        calls in prop::collection::vec((lens(), 0u64..20, 0u64..3, 1u8..=16, any::<bool>()), 1..40),
    ) {
        let mut model = Model::new(config);
        let mut policy = Threshold::new(config).expect("at least 1 byte a stripe");
        for (any_len, stripes, nudge, num_rails, near) in calls {
            let near_len = around_stripes(config.min_stripe_bytes, stripes, nudge);
            let len = if near { near_len } else { any_len };
            let plan = policy.plan(len, rails(num_rails));
            assert_eq!(plan.into_iter().collect::<Vec<_>>(), model.plan(len, num_rails));
            keeps_its_promises(plan, len, num_rails);
            let one = policy.plan_one(any_len, rails(num_rails));
            assert_eq!(one, model.plan_one(any_len, num_rails));
        }
    }

    #[test]
    fn plans_of_ones_own_keep_their_promises(
        len in lens(), stripes in 1u8..=16, first in 0u8..=16, num_rails in 1u8..=16,
    ) {
        let plan = Plan::striped(len, rails(stripes), first, rails(num_rails));
        assert_eq!(plan.is_some(), stripes <= num_rails && first < num_rails);
        if let Some(plan) = plan {
            assert_eq!(plan.len(), usize::from(stripes));
            assert_eq!(plan.get(0).map(|stripe| stripe.rail), Some(first));
            keeps_its_promises(plan, len, num_rails);
        }
    }

    /// On one rail count, the stripes of all messages that are not small go round without a gap.
    #[test]
    fn the_rotation_is_continuous(
        lens in prop::collection::vec(64u64..2_000_000, 1..50), num_rails in 1u8..=16,
    ) {
        let mut policy = Threshold::new(Config::BASE).expect("the defaults are valid");
        let mut expected = 0;
        for len in lens {
            for stripe in policy.plan(len, rails(num_rails)) {
                assert_eq!(stripe.rail, expected);
                expected = (expected + 1) % num_rails;
            }
        }
    }

    /// A message up to one stripe's bytes is one stripe, on the rail that `plan_one` names: an
    /// eager message may be planned by either.
    #[test]
    fn within_one_stripe_both_calls_agree(
        config in configs(), len in lens(), num_rails in 1u8..=16,
    ) {
        let len = len.min(config.min_stripe_bytes);
        let mut planned = Threshold::new(config).expect("at least 1 byte a stripe");
        let mut whole = planned.clone();
        let stripe = planned.plan(len, rails(num_rails)).get(0);
        let rail = whole.plan_one(len, rails(num_rails));
        assert_eq!(stripe, Some(Stripe { rail, offset: 0, len }));
        assert_eq!(planned.plan_one(len, rails(num_rails)), whole.plan_one(len, rails(num_rails)));
    }
}

/// Every rail count, every number of stripes wanted, every place of both rotations.
#[test]
fn agrees_with_the_text_in_every_state() {
    let config = Config {
        min_stripe_bytes: 1000,
        small_max_bytes: 64,
    };
    let lens = (0..=17).flat_map(|stripes| [0, 1, 2].map(|n| around_stripes(1000, stripes, n)));
    let lens: Vec<u64> = lens.chain([0, 63, 64, u64::MAX]).collect();
    for num_rails in 1..=16 {
        for start in 0..16 {
            let mut model = Model::new(config);
            let mut policy = Threshold::new(config).expect("at least 1 byte a stripe");
            // Steps of one on 16 rails bring both rotations to `start`.
            for len in core::iter::repeat_n([0, 100], start).flatten() {
                assert_eq!(policy.plan_one(len, rails(16)), model.plan_one(len, 16));
            }
            for &len in &lens {
                let (mut policy, mut model) = (policy.clone(), model.clone());
                for _ in 0..2 {
                    let plan: Vec<_> = policy.plan(len, rails(num_rails)).into_iter().collect();
                    assert_eq!(
                        plan,
                        model.plan(len, num_rails),
                        "{len} B, {num_rails} rails"
                    );
                }
            }
        }
    }
}
