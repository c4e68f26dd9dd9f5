//! Who watches the watchmen: a network that breaks one promise, once, has to be noticed, whichever
//! promise and whenever.

use ofi_sim::{Failure, Faults, Sabotage, Sim, SimConfig};

fn sabotaged(sabotage: Sabotage, sabotage_at: u32) -> Result<ofi_sim::Report, Failure> {
    let faults = Faults {
        sabotage,
        sabotage_at,
        ..Faults::NONE
    };
    let config = SimConfig {
        seed: 11,
        messages: 400,
        zero_ppm: 0,
        faults,
        ..SimConfig::default()
    };
    Sim::new(config).expect("a legal configuration").run()
}

#[test]
fn every_broken_promise_is_noticed() {
    for sabotage in Sabotage::ALL {
        for at in [0, 1, 7, 50, 150] {
            let Err(failure) = sabotaged(sabotage, at) else {
                panic!("{sabotage:?} at operation {at} went unnoticed");
            };
            assert_eq!(failure.seed, 11);
        }
    }
}

#[test]
fn what_is_noticed_is_what_was_broken() {
    let what = |sabotage| sabotaged(sabotage, 50).unwrap_err().what;
    assert!(
        what(Sabotage::FlipBit).contains("wrong byte"),
        "{}",
        what(Sabotage::FlipBit)
    );
    assert!(
        what(Sabotage::Misplace).contains("wrong byte"),
        "{}",
        what(Sabotage::Misplace)
    );
    for lost in [
        Sabotage::DropImmediate,
        Sabotage::DropControl,
        Sabotage::DropCompletion,
    ] {
        // The engine's own stall detector ends what would hang.
        let text = what(lost);
        assert!(
            text.contains("no progress") || text.contains("not connected"),
            "{lost:?}: {text}"
        );
    }
}

#[test]
fn a_failure_replays_from_its_line() {
    let first = sabotaged(Sabotage::FlipBit, 20).unwrap_err();
    let again = Sim::new(first.spec.parse().expect("a specification"))
        .unwrap()
        .run()
        .unwrap_err();
    assert_eq!(first, again);
    assert!(
        first
            .to_string()
            .ends_with(&format!("replay: \"{}\")", first.spec))
    );
}
