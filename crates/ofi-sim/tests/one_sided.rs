//! One-sided operations beside messages: they happen, in every mixture, and nothing is lost.

use ofi_sim::{Report, Sim, SimConfig};

fn run(spec: &str) -> Report {
    let config: SimConfig = spec.parse().expect("a specification");
    match Sim::new(config).expect("a legal configuration").run() {
        Ok(report) => report,
        Err(failure) => panic!("{failure:#}"),
    }
}

#[test]
fn one_sided_operations_and_messages_share_a_communicator() {
    let specs = [
        "seed=1 messages=2000 onesided=1000000 rails=4",
        "seed=2 messages=2000 onesided=1000000 early=1000000 dmin=10 dmax=400000",
        "seed=3 messages=2000 onesided=1000000 busy=300000 storm=2000",
        "seed=4 messages=2000 onesided=1000000 window=160 max=64 life=100 longkeys=1",
        "seed=5 messages=2000 onesided=1000000 hosts=1 dup=100000 stray=100000 close=1 life=50",
    ];
    for spec in specs {
        let report = run(spec);
        assert_eq!((report.messages, report.lives_failed), (2000, 0), "{spec}");
        assert!(report.one_sided > 500, "{spec}: {report}");
    }
}

/// An inline write cannot wait for a busy provider, so it is "not now".
#[test]
fn an_inline_write_is_refused_by_a_busy_provider() {
    let report = run("seed=6 messages=2000 onesided=1000000 busy=500000");
    assert!(report.not_now[3] > 0, "{report}");
}

#[test]
fn a_fault_of_a_one_sided_operation_stays_on_its_link() {
    for spec in [
        "seed=7 messages=4000 onesided=1000000 life=100 links=12 error=3000",
        "seed=8 messages=4000 onesided=1000000 life=100 links=12 abrupt=500000",
        "seed=9 messages=4000 onesided=1000000 hosts=3 links=6 deathus=300 death=3",
    ] {
        let report = run(spec);
        assert!(
            report.lives_failed > 0 && report.one_sided > 100,
            "{spec}: {report}"
        );
    }
}

#[test]
fn they_need_virtual_addresses() {
    let refused = "seed=1 onesided=1 virt=0".parse::<SimConfig>().unwrap_err();
    assert!(refused.to_string().contains("onesided=1"), "{refused}");
}
