//! Every length around every border, on every number of rails and from every rotation: a plan cuts the
//! message into parts that follow each other, each on a rail of its own.

use ofi_sched::{Config, MAX_RAILS, Plan, Policy, RailCount, STRIPE_ALIGN, Threshold};

fn judge(plan: &Plan, len: u64, rails: u8) {
    let (mut end, mut used) = (0, 0_u32);
    for stripe in plan.iter() {
        assert_eq!(stripe.offset, end, "{len} on {rails}: {plan:?}");
        assert!(stripe.rail < rails, "{len} on {rails}: {plan:?}");
        assert_eq!(used & (1 << stripe.rail), 0, "a rail twice: {plan:?}");
        let is_cut = stripe.offset + stripe.len < len;
        assert!(
            !is_cut || stripe.len % STRIPE_ALIGN == 0,
            "{len} on {rails}: {plan:?}"
        );
        used |= 1 << stripe.rail;
        end += stripe.len;
    }
    assert_eq!(end, len, "{len} on {rails}: {plan:?}");
}

#[test]
fn every_length_is_cut_without_gap_or_overlap() {
    for min_stripe_bytes in [1, 100, 128, 1024] {
        for small_max_bytes in [0, 64, 300] {
            for rails in (1..=MAX_RAILS).filter_map(|rails| u8::try_from(rails).ok()) {
                let count = RailCount::new(rails).expect("a legal number of rails");
                let config = Config {
                    min_stripe_bytes,
                    small_max_bytes,
                };
                let mut policy = Threshold::new(config).expect("a legal configuration");
                // Each plan turns the rotation, so that lengths meet all of them.
                for len in 0..=5 * min_stripe_bytes.max(300) {
                    judge(&policy.plan(len, count), len, rails);
                }
            }
        }
    }
}

/// A length meets every rotation.
#[test]
fn every_rotation_is_as_good() {
    let rotations = (1..=MAX_RAILS).filter_map(|rails| u8::try_from(rails).ok());
    for rails in rotations {
        let count = RailCount::new(rails).expect("a legal number of rails");
        for len in [0, 1, 127, 128, 129, 255, 256, 257, 511, 512, 513, 1 << 20] {
            let config = Config {
                min_stripe_bytes: 128,
                small_max_bytes: 64,
            };
            let mut policy = Threshold::new(config).expect("a legal configuration");
            let first: Vec<u8> = (0..rails)
                .filter_map(|_| {
                    let plan = policy.plan(len, count);
                    judge(&plan, len, rails);
                    plan.get(0).map(|stripe| stripe.rail)
                })
                .collect();
            let distinct = first.iter().fold(0_u32, |set, rail| set | 1 << rail);
            let all = u32::from(rails);
            let turns = distinct.count_ones();
            assert!(turns == all || len > 64, "{len} on {rails}: {first:?}");
        }
    }
}
