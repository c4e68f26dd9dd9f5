//! Long runs, many configurations, and runs that repeat.

use core::hash::{BuildHasher, Hasher};
use std::hash::RandomState;

use ofi_rdma::{Base, Dialect, Tiny};
use ofi_sim::{Faults, Report, Sim, SimConfig, SpecError};

fn run<D: Dialect>(config: SimConfig) -> Report {
    match Sim::<D>::with_dialect(config)
        .expect("a legal configuration")
        .run()
    {
        Ok(report) => report,
        Err(failure) => panic!("{failure:#}"),
    }
}

/// Smaller in debug builds.
const fn scaled(messages: u64) -> u64 {
    if cfg!(debug_assertions) {
        messages / 10
    } else {
        messages
    }
}

#[test]
fn sequence_numbers_wrap_ten_times_on_every_communicator() {
    let messages = 4 * 10 * 1024;
    let faults = Faults {
        busy_ppm: 50_000,
        early_local_ppm: 300_000,
        ..Faults::NONE
    };
    let base = SimConfig {
        messages,
        max_bytes: 200,
        window: 128,
        faults,
        ..SimConfig::default()
    };
    for (seed, eager_max) in [(1, 100), (2, -1)] {
        let report = run::<Base>(SimConfig {
            seed,
            eager_max,
            ..base.clone()
        });
        assert_eq!((report.messages, report.wraps), (messages, 40));
    }
}

#[test]
fn a_hundred_thousand_messages_with_every_harmless_fault() {
    let messages = scaled(100_000);
    let config = SimConfig {
        seed: 5,
        hosts: 3,
        rails: 4,
        links: 12,
        messages,
        per_life: 2_000,
        max_bytes: 2_000,
        faults: Faults::HARMLESS,
        ..SimConfig::default()
    };
    let report = run::<Base>(config);
    assert_eq!(report.messages, messages);
    assert_eq!(report.lives_failed, 0);
}

#[test]
fn three_bit_sequence_numbers_wrap_every_eight_messages() {
    let messages = scaled(20_000);
    for seed in 0..5 {
        let faults = Faults {
            dup_ppm: 0,
            ..Faults::HARMLESS
        };
        let config = SimConfig {
            seed,
            messages,
            rails: 4,
            max_bytes: 4_000,
            faults,
            ..SimConfig::default()
        };
        let report = run::<Tiny>(config);
        assert_eq!(report.messages, messages);
        // Each of the four links counts its own.
        assert_eq!(report.wraps, messages / 4 / 8 * 4);
    }
}

#[test]
fn configurations_drawn_from_fixed_seeds() {
    for seed in 0..scaled(500) {
        run::<Base>(SimConfig::random(seed, 1_000));
        run::<Tiny>(SimConfig::random(seed, 300));
    }
}

#[test]
#[expect(clippy::print_stdout, reason = "the seed is what the reader needs")]
fn configurations_drawn_from_a_fresh_seed() {
    let fresh = RandomState::new().build_hasher().finish() >> 1;
    println!("fresh seeds from {fresh}");
    for seed in fresh..fresh + scaled(300) {
        run::<Base>(SimConfig::random(seed, 1_000));
    }
}

#[test]
fn a_seed_repeats_and_another_differs() {
    for seed in 0..20 {
        let config = SimConfig::random(seed, 500);
        let first = run::<Base>(config.clone());
        assert_eq!(first, run::<Base>(config.clone()), "{config}");
        let other = run::<Base>(SimConfig {
            seed: seed + 1000,
            ..config
        });
        assert_ne!(first.fingerprint, other.fingerprint);
    }
}

#[test]
fn a_configuration_out_of_range_is_refused() {
    let config = SimConfig {
        rails: 5,
        ..SimConfig::default()
    };
    let refused = Sim::new(config).map(drop);
    assert!(
        matches!(refused, Err(SpecError::Range { key: "rails", .. })),
        "{refused:?}"
    );
    let config = SimConfig {
        eager_max: 4096,
        stripe: 1024,
        ..SimConfig::default()
    };
    let refused = Sim::new(config).map(drop);
    assert!(
        matches!(refused, Err(SpecError::Range { key: "eager", .. })),
        "{refused:?}"
    );
}

/// Seeds that once found something wrong, in the engine or in an oracle.
#[test]
fn seeds_that_found_something() {
    let specs = [
        // A repeated completion of CONN_RESP was taken for that of CLOSE.
        "seed=5 hosts=1 close=1 links=3 messages=2000 life=1 dup=100000 stray=200000",
        // A CTRL that fails after the close of its receiver does not count in CLOSE.
        "seed=504884 hosts=4 rails=4 longkeys=1 close=1 eager=-1 stripe=4096 small=300 links=7 \
         messages=2000 life=5000 window=160 max=1000 trunc=500000 zero=0 flush=1000000 dmin=5000 \
         dmax=200000 straggle=19446 slowresp=266919 inject=437894 busy=242379 stray=18452 deathus=965",
        // CLOSE still waited for a busy provider when everything else was over.
        "seed=503 longkeys=1 close=1 eager=-1 stripe=256 links=1 messages=3000 life=5000 window=128 \
         max=4096 trunc=500000 zero=300000 flush=1000000 dmin=5000 dmax=200000 busy=207812 refuse=100 \
         error=200 abrupt=48154",
        // An empty segment without an immediate found its receiver closed.
        "seed=8 eager=-1 links=12 messages=4000 life=100 optional=500000 error=3000",
        // A sender that lingers counts CTRLs, also those that are for nobody.
        "seed=471 ctlrr=0 longkeys=1 virt=0 wide=1 close=1 eager=11 stripe=256 small=300 links=12 \
         messages=1500 life=20 window=2 max=64 trunc=0 flush=1000000 dmin=5000 dmax=200000 \
         straggle=3755 slowresp=96808 busy=265069 storm=1216 refuse=100 error=200 dup=47602 stray=20675",
    ];
    for spec in specs {
        run::<Base>(spec.parse().expect("a specification"));
    }
}
