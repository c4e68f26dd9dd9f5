//! The SENDRECV engine in the simulator.

use ofi_sim::tagged::{Fault, Report, Sabotage, Setup, run, shrink};

const MESSAGES: u64 = 300;

fn setup(seed: u64) -> Setup {
    Setup {
        seed,
        messages: MESSAGES,
        ..Setup::default()
    }
}

#[test]
fn seeds_in_a_row_are_well_and_meet_every_fault() {
    let mut sum = Report::default();
    for seed in 0..300 {
        match run(&setup(seed)) {
            Ok(report) => sum.absorb(&report),
            Err(failure) => panic!("{}", shrink(&failure.setup).unwrap_or(failure)),
        }
    }
    for (fault, hits) in Fault::ALL.into_iter().zip(sum.faults) {
        assert!(hits > 0, "{fault:?} never happened: {sum:?}");
    }
    assert!(
        sum.messages > 15_000 && sum.touched * 2 < sum.lives,
        "{sum:?}"
    );
}

#[test]
fn a_seed_is_one_simulation() {
    for seed in [3, 1000] {
        assert_eq!(run(&setup(seed)), run(&setup(seed)));
    }
    let (one, other) = (run(&setup(1)).unwrap(), run(&setup(2)).unwrap());
    assert_ne!(one, other);
}

/// Each bug of the network is noticed in most simulations in which it happens, and is made small.
#[test]
fn sabotage_is_found() {
    for (sabotage, words) in [
        (Sabotage::Swap, "has Some("),
        (Sabotage::Short, "has Some("),
        (Sabotage::Lose, ""),
        (Sabotage::Misdeliver, ""),
        (Sabotage::Fail, "nothing happened to it"),
        (Sabotage::KeepCancelled, "a receive is posted"),
    ] {
        let found = (0..60).filter_map(|seed| {
            let setup = Setup {
                sabotage,
                ..setup(seed)
            };
            run(&setup).err()
        });
        let found: Vec<_> = found.collect();
        assert!(found.len() > 3, "{sabotage:?}: {}", found.len());
        assert!(
            found.iter().any(|failure| failure.what.contains(words)),
            "{sabotage:?}: {}",
            found[0]
        );
        let small = shrink(&found[0].setup).expect("it fails again");
        assert!(small.setup.messages <= MESSAGES, "{small}");
    }
}

#[test]
fn a_failure_is_a_line_that_replays() {
    let setup = Setup {
        sabotage: Sabotage::Short,
        ..setup(0)
    };
    let failure = (0..60).find_map(|seed| run(&Setup { seed, ..setup }).err());
    let failure = failure.expect("it is found");
    let text = failure.to_string();
    let (_, spec) = text.split_once("tagged \"").unwrap();
    let (spec, _) = spec.split_once('"').unwrap();
    let again = Setup {
        sabotage: Sabotage::Short,
        ..spec.parse().unwrap()
    };
    assert_eq!(run(&again), Err(failure));
}
