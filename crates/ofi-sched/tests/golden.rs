//! The examples of the protocol document, and the corners of the interface.

use ofi_sched::{
    Config, ConfigError, MAX_RAILS, Plan, Policy, RailCount, SingleRail, Stripe, Threshold,
};

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

fn rails(count: u8) -> RailCount {
    RailCount::new(count).expect("1..=16 rails")
}

fn base() -> Threshold {
    Threshold::new(Config::BASE).expect("the defaults are valid")
}

fn tiny_stripes() -> Threshold {
    let config = Config {
        min_stripe_bytes: 1,
        small_max_bytes: 0,
    };
    Threshold::new(config).expect("1 is the least")
}

/// Rail, offset and length of each stripe.
fn flat(plan: Plan) -> Vec<(u8, u64, u64)> {
    plan.iter().map(|s| (s.rail, s.offset, s.len)).collect()
}

#[test]
fn reference_table_of_four_rails() {
    // protocol 2g.6: 4 rails, 64 KiB a stripe
    let rows = [
        (0, 1),
        (63, 1),
        (64, 1),
        (64 * KIB, 1),
        (64 * KIB + 1, 2),
        (128 * KIB, 2),
        (128 * KIB + 1, 2),
        (192 * KIB, 2),
        (192 * KIB + 1, 4),
        (256 * KIB, 4),
        (64 * MIB, 4),
    ];
    for (len, stripes) in rows {
        assert_eq!(base().plan(len, rails(4)).len(), stripes, "{len} bytes");
    }
}

#[test]
fn trap_33_two_stripes_on_three_rails_stay_two() {
    let mut policy = base();
    assert_eq!(
        flat(policy.plan(100_000, rails(3))),
        [(0, 0, 50_048), (1, 50_048, 49_952)],
        "no n >= 2 up to 2 divides 3"
    );
    assert_eq!(
        policy.plan(100_000, rails(3)).get(0).map(|s| s.rail),
        Some(2)
    );
    // 5 rails: 4, 3, 2 do not divide, so 4 stays; 6 rails: 5 and 4 give way to 3.
    assert_eq!(base().plan(4 * 64 * KIB, rails(5)).len(), 4);
    assert_eq!(base().plan(5 * 64 * KIB, rails(6)).len(), 3);
    assert_eq!(base().plan(15 * 64 * KIB, rails(16)).len(), 8);
}

#[test]
fn trap_33_an_eager_message_of_5000_bytes_uses_the_large_counter() {
    let mut policy = base();
    assert_eq!(policy.plan_one(5000, rails(4)), 0);
    assert_eq!(policy.plan_one(5000, rails(4)), 1);
    assert_eq!(
        policy.plan_one(32, rails(4)),
        0,
        "the small counter has not moved"
    );
    assert_eq!(
        policy.plan(MIB, rails(4)).get(0).map(|s| s.rail),
        Some(2),
        "the large one has"
    );
}

#[test]
fn trace_b7_one_mebibyte_from_rail_one() {
    let mut policy = base();
    assert_eq!(
        policy.plan_one(5000, rails(4)),
        0,
        "moves the large counter to 1"
    );
    assert_eq!(
        flat(policy.plan(MIB, rails(4))),
        [
            (1, 0, 262_144),
            (2, 262_144, 262_144),
            (3, 524_288, 262_144),
            (0, 786_432, 262_144),
        ]
    );
}

#[test]
fn an_empty_message_is_one_empty_stripe() {
    let whole = |rail| vec![(rail, 0, 0)];
    let mut policy = base();
    assert_eq!(flat(policy.plan(0, rails(4))), whole(0));
    assert_eq!(flat(policy.plan(0, rails(4))), whole(1));
    // Also where nothing is small, and 0 bytes are no reason for 0 stripes.
    assert_eq!(flat(tiny_stripes().plan(0, rails(4))), whole(0));
}

#[test]
fn tiny_stripes_leave_empty_ones_at_the_end_of_the_message() {
    // ceil(200 / 4) rounds up to 128: the third and fourth have nothing left, and still count.
    assert_eq!(
        flat(tiny_stripes().plan(200, rails(4))),
        [(0, 0, 128), (1, 128, 72), (2, 200, 0), (3, 200, 0)]
    );
}

#[test]
fn a_control_message_is_never_cut() {
    // protocol 2k.6: BASE fails irecv when a small MIN_STRIPE cuts a CTRL of 48 bytes.
    let mut policy = tiny_stripes();
    assert_eq!(policy.clone().plan(48, rails(4)).len(), 4);
    let rotation: Vec<u8> = (0..6).map(|_| policy.plan_one(48, rails(4))).collect();
    assert_eq!(rotation, [0, 1, 2, 3, 0, 1]);
}

#[test]
fn both_rotations_survive_a_change_of_the_rail_count() {
    let mut policy = base();
    let small: Vec<u8> = [4, 4, 4, 2, 2, 3]
        .map(|count| policy.plan_one(8, rails(count)))
        .to_vec();
    assert_eq!(small, [0, 1, 2, 1, 0, 1]);
    let large: Vec<u8> = [4, 4, 4, 2, 2, 1, 3]
        .map(|count| policy.plan_one(8192, rails(count)))
        .to_vec();
    assert_eq!(large, [0, 1, 2, 1, 0, 0, 0]);
}

#[test]
fn a_stripe_of_no_bytes_is_refused_with_the_setting_to_change() {
    let config = Config {
        min_stripe_bytes: 0,
        small_max_bytes: 64,
    };
    let error = Threshold::new(config).expect_err("infinitely many stripes");
    assert_eq!(error, ConfigError::MinStripeZero);
    assert!(
        error.to_string().contains("OFI_NCCL_MIN_STRIPE_SIZE=0"),
        "{error}"
    );
}

#[test]
fn defaults_are_those_of_base() {
    assert_eq!(
        Config::default(),
        Config {
            min_stripe_bytes: 65_536,
            small_max_bytes: 64
        }
    );
}

#[test]
fn rail_counts_are_one_to_sixteen() {
    assert_eq!(RailCount::new(0), None);
    assert_eq!(RailCount::new(1), Some(RailCount::ONE));
    assert_eq!(RailCount::new(16), Some(RailCount::MAX));
    assert_eq!(RailCount::new(17), None);
    assert_eq!(RailCount::MAX.get() as usize, MAX_RAILS);
    assert_eq!(RailCount::MAX.to_string(), "16");
}

#[test]
fn plans_of_ones_own_are_checked() {
    assert_eq!(
        Plan::striped(1000, rails(3), 0, rails(2)),
        None,
        "more stripes than rails"
    );
    assert_eq!(
        Plan::striped(1000, rails(2), 2, rails(2)),
        None,
        "no rail 2 of two"
    );
    assert_eq!(Plan::single(1000, 4, rails(4)), None);
    let single = Plan::single(1000, 3, rails(4)).expect("rail 3 of four");
    assert_eq!(flat(single), [(3, 0, 1000)]);
    let striped = Plan::striped(1000, rails(2), 3, rails(4)).expect("two of four");
    assert_eq!(flat(striped), [(3, 0, 512), (0, 512, 488)]);
    assert_eq!(
        (striped.message_len(), striped.stripe_count()),
        (1000, rails(2))
    );
}

#[test]
fn a_plan_is_walked_and_indexed_alike() {
    let plan = base().plan(MIB, rails(4));
    let indexed: Vec<Stripe> = (0..plan.len()).filter_map(|k| plan.get(k)).collect();
    assert_eq!(plan.into_iter().collect::<Vec<_>>(), indexed);
    assert_eq!((&plan).into_iter().len(), 4);
    assert_eq!((plan.get(4), plan.get(usize::MAX)), (None, None));
    let mut walk = plan.iter();
    assert_eq!((walk.nth(2).map(|s| s.rail), walk.len()), (Some(2), 1));
    assert_eq!(
        (walk.next().map(|s| s.rail), walk.next(), walk.next()),
        (Some(3), None, None)
    );
}

#[test]
fn plans_are_small_enough_to_copy() {
    assert!(size_of::<Plan>() <= 24, "{}", size_of::<Plan>());
}

#[test]
fn a_single_rail_takes_everything_whole() {
    let mut policy = SingleRail;
    for _ in 0..3 {
        assert_eq!(flat(policy.plan(MIB, rails(4))), [(0, 0, MIB)]);
        assert_eq!(policy.plan_one(8, rails(4)), 0);
    }
}
