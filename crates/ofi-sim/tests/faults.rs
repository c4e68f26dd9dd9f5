//! Each kind of fault by itself: it is hit, and the engine survives it.

use ofi_sim::{Report, Sim, SimConfig};

/// Runs a specification in both builds; debug builds carry fewer messages.
fn run(spec: &str) -> Report {
    let mut config: SimConfig = spec.parse().expect("a specification");
    if cfg!(debug_assertions) {
        config.messages /= 4;
    }
    match Sim::new(config).expect("a legal configuration").run() {
        Ok(report) => report,
        Err(failure) => panic!("{failure:#}"),
    }
}

/// Faults after which every message still arrives.
#[test]
fn harmless_faults_lose_nothing() {
    type Evidence = fn(&Report) -> u64;
    let cases: [(&str, Evidence); 21] = [
        ("seed=1 messages=8000 rails=4", |r| r.segments),
        ("seed=2 messages=8000 rails=4 dmin=10 dmax=400000", |r| {
            r.eager
        }),
        ("seed=3 messages=8000 straggle=100000", |r| r.segments),
        ("seed=4 messages=8000 ordered=1", |r| r.segments),
        ("seed=5 messages=8000 early=1000000", |r| {
            r.faults.early_locals
        }),
        (
            "seed=6 messages=8000 life=5 slowresp=1000000 early=1000000 rails=4",
            |r| r.faults.overtaken,
        ),
        ("seed=7 messages=8000 inject=1000000", |r| r.faults.injected),
        ("seed=8 messages=8000 busy=500000", |r| r.faults.busy),
        ("seed=9 messages=8000 storm=20000", |r| r.faults.storms),
        ("seed=10 messages=8000 busy=900000 window=128", |r| {
            r.not_now[2]
        }),
        ("seed=11 messages=8000 dup=500000 close=1 life=50", |r| {
            r.faults.repeated
        }),
        ("seed=12 messages=8000 stray=300000 close=1 life=50", |r| {
            r.faults.strays
        }),
        ("seed=13 messages=8000 len=0 rails=4", |r| r.segments),
        ("seed=14 messages=8000 virt=0 longkeys=1 rails=3", |r| {
            r.segments
        }),
        ("seed=15 messages=8000 ctlrr=0 rails=4", |r| r.segments),
        ("seed=16 messages=8000 trunc=1000000", |r| r.eager),
        ("seed=17 messages=8000 zero=1000000 flush=1000000", |r| {
            r.flushes
        }),
        ("seed=18 messages=8000 eager=-1", |r| r.segments),
        (
            "seed=19 messages=8000 eager=4096 stripe=4096 max=4096 window=128",
            |r| r.eager,
        ),
        ("seed=20 messages=8000 window=200 max=64 hosts=1", |r| {
            r.not_now[1]
        }),
        (
            "seed=21 messages=8000 eager=1 stripe=1 rails=4 small=0",
            |r| r.segments,
        ),
    ];
    for (spec, evidence) in cases {
        let report = run(spec);
        let wanted = if cfg!(debug_assertions) { 2000 } else { 8000 };
        assert_eq!(report.messages, wanted, "{spec}");
        assert_eq!((report.lives_failed, report.stalls), (0, 0), "{spec}");
        assert!(evidence(&report) > 0, "{spec} did not happen: {report}");
    }
}

/// Faults that may fail the link they hit, and no other: that is what the oracles check.
#[test]
fn hurtful_faults_stay_where_they_hit() {
    type Evidence = fn(&Report) -> u64;
    let cases: [(&str, Evidence); 6] = [
        ("seed=31 messages=8000 life=100 links=12 error=3000", |r| {
            r.faults.errors
        }),
        ("seed=32 messages=8000 life=100 links=12 refuse=3000", |r| {
            r.faults.refused
        }),
        (
            "seed=33 messages=8000 life=100 links=12 abrupt=500000",
            |r| r.faults.abrupt,
        ),
        (
            "seed=341 messages=16000 life=100 links=12 abrupt=900000 straggle=300000 window=128 eager=-1",
            |r| r.faults.late_writes,
        ),
        (
            "seed=35 messages=8000 life=30 links=12 abrupt=900000 close=1 busy=300000 rails=4",
            |r| r.faults.abrupt,
        ),
        (
            "seed=36 messages=8000 life=100 links=12 abrupt=500000 error=1000 stray=50000 dup=50000",
            |r| r.faults.strays,
        ),
    ];
    for (spec, evidence) in cases {
        let report = run(spec);
        assert!(evidence(&report) > 0, "{spec} did not happen: {report}");
        assert!(report.lives_failed > 0, "{spec}: {report}");
        assert!(report.messages > 100, "{spec}: {report}");
    }
}

/// A host dies in the middle. What the others' provider says of it differs; that every request
/// ends, and that links between the living carry all they have to, does not.
#[test]
fn a_dead_host_takes_only_its_own_links_along() {
    for death in 0..4 {
        let messages = 12_000;
        let spec =
            format!("seed=4{death} hosts=3 links=6 messages={messages} deathus=300 death={death}");
        let report = run(&spec);
        // Links 0 and 1 join hosts 0 and 1, which live: they carry their sixth each.
        let each = if cfg!(debug_assertions) {
            messages / 4
        } else {
            messages
        } / 6;
        assert!(report.messages >= 2 * each, "{spec}: {report}");
        assert!(report.messages < 6 * each, "{spec}: nothing died: {report}");
        assert!(report.lives_failed > 0, "{spec}: {report}");
        if death == 0 {
            assert!(report.faults.vanished > 0, "{spec}: {report}");
            assert!(
                report.stalls > 0,
                "{spec}: silence has to be reported: {report}"
            );
        }
    }
}

/// The receiver is not ready: eager messages wait for a buffer, and more buffers are made.
#[test]
fn receivers_that_are_not_ready_are_waited_for() {
    let report = run(
        "seed=51 messages=8000 window=128 max=64 eager=64 stripe=1024 links=12 dmin=100 dmax=400",
    );
    assert!(report.faults.not_ready > 0, "{report}");
}
