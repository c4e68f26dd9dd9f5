//! Optional receives: done before their data, which comes all the same, once and to its place, in every
//! mixture.

use ofi_sim::{Report, Sim, SimConfig};

fn run(spec: &str) -> Report {
    let config: SimConfig = spec.parse().expect("a specification");
    match Sim::new(config).expect("a legal configuration").run() {
        Ok(report) => report,
        Err(failure) => panic!("{failure:#}"),
    }
}

#[test]
fn optional_and_ordinary_receives_share_a_communicator() {
    let specs = [
        "seed=1 messages=3000 eager=-1 optional=500000 rails=4",
        "seed=2 messages=3000 eager=-1 optional=1000000 early=1000000 dmin=10 dmax=400000",
        "seed=3 messages=3000 eager=-1 optional=500000 busy=300000 storm=2000 straggle=50000",
        "seed=4 messages=3000 eager=-1 optional=900000 window=160 max=64 life=100 longkeys=1 len=0",
        "seed=5 messages=3000 eager=-1 optional=300000 hosts=1 dup=100000 stray=100000 close=1 life=50",
        "seed=6 messages=3000 eager=-1 optional=500000 zero=500000 trunc=500000 virt=0 inject=500000",
        "seed=7 messages=3000 eager=-1 optional=500000 onesided=500000 flush=500000 slowresp=500000",
    ];
    for spec in specs {
        let report = run(spec);
        assert_eq!((report.messages, report.lives_failed), (3000, 0), "{spec}");
        assert!(report.optional > 500, "{spec}: {report}");
    }
}

#[test]
fn a_fault_stays_on_its_link() {
    for spec in [
        "seed=8 messages=4000 eager=-1 optional=500000 life=100 links=12 error=3000",
        "seed=9 messages=4000 eager=-1 optional=500000 life=100 links=12 abrupt=500000",
        "seed=10 messages=4000 eager=-1 optional=500000 hosts=3 links=6 deathus=300 death=3",
    ] {
        let report = run(spec);
        assert!(
            report.lives_failed > 0 && report.optional > 100,
            "{spec}: {report}"
        );
    }
}

/// The oracles see silent writes: a network that loses, moves or damages one is noticed.
#[test]
fn a_broken_promise_is_noticed() {
    for sabotage in [3, 4, 5, 6] {
        let spec = format!(
            "seed=11 messages=500 eager=-1 optional=1000000 sabotage={sabotage} sabotageat=40"
        );
        let config: SimConfig = spec.parse().expect("a specification");
        let run = Sim::new(config).expect("a legal configuration").run();
        assert!(run.is_err(), "{spec}: {run:?}");
    }
}

#[test]
fn they_need_eager_messages_off() {
    let refused = "seed=1 optional=1".parse::<SimConfig>().unwrap_err();
    assert!(refused.to_string().contains("optional=1"), "{refused}");
}
