//! Does the emulated EFA keep the rules of EFA? One function a rule (providers.md 6), each played by
//! two sides: two threads of one process, and two processes, with direct copies and without, on both
//! fabrics.
//!
//! `OFI_LIBFABRIC_PATH` names the libfabric; without it the machine's is taken, and without one the
//! tests fail, unless `OFI_TEST_ALLOW_NO_FABRIC=1` has them say that they are skipped.

#![expect(
    clippy::doc_markdown,
    clippy::print_stdout,
    reason = "C constants are plain text here; a side says which rule it is at"
)]

mod link;
mod rules;
mod run;
mod side;

use run::{Copies, Fabric, Place, all, with};

/// The two sides, when this binary is run again: not a test.
#[test]
fn child() {
    run::child();
}

#[test]
fn efa_within_a_process() {
    all(Fabric::Rdm, Place::Threads, Copies::Direct);
}

#[test]
fn efa_direct_within_a_process() {
    all(Fabric::Direct, Place::Threads, Copies::Direct);
}

#[test]
fn efa_between_processes() {
    all(Fabric::Rdm, Place::Processes, Copies::Direct);
}

#[test]
fn efa_direct_between_processes() {
    all(Fabric::Direct, Place::Processes, Copies::Direct);
}

#[test]
fn efa_where_no_direct_copy_is_permitted() {
    all(Fabric::Rdm, Place::Processes, Copies::Relayed);
}

#[test]
fn efa_direct_where_no_direct_copy_is_permitted() {
    all(Fabric::Direct, Place::Processes, Copies::Relayed);
}

#[test]
fn efa_where_the_calls_are_forbidden() {
    all(Fabric::Rdm, Place::Processes, Copies::Forbidden);
}

#[test]
fn efa_within_a_process_where_the_calls_are_forbidden() {
    all(Fabric::Rdm, Place::Threads, Copies::Forbidden);
}

#[test]
fn efa_direct_where_the_calls_are_forbidden() {
    all(Fabric::Direct, Place::Processes, Copies::Forbidden);
}

#[test]
fn a_peer_that_becomes_another_program() {
    for fabric in [Fabric::Rdm, Fabric::Direct] {
        with("becomes_another_program", fabric, &[]);
    }
}

#[test]
fn a_peer_that_is_stopped_anywhere() {
    for fabric in [Fabric::Rdm, Fabric::Direct] {
        with("stopped_anywhere", fabric, &[]);
    }
}

#[test]
fn a_dead_peer() {
    for fabric in [Fabric::Rdm, Fabric::Direct] {
        with("dead_peer", fabric, &[]);
    }
}

#[test]
fn a_peer_that_dies_in_the_middle() {
    for fabric in [Fabric::Rdm, Fabric::Direct] {
        with("dies_in_the_middle", fabric, &[]);
    }
}

#[test]
fn hosts_without_some_devices() {
    let set = [("EFA_EMU_LACKS", "cuda,dmabuf")];
    for fabric in [Fabric::Rdm, Fabric::Direct] {
        with("without_some", fabric, &set);
    }
}

#[test]
fn options_of_each_generation() {
    for generation in ["1.17", "1.18", "1.19", "1.22", "2.1", "2.5"] {
        let set = [("EFA_EMU_GENERATION", generation)];
        with("options_by_generation", Fabric::Rdm, &set);
    }
}

/// Delays, refusals, faults: all of it follows from the seed.
#[test]
fn the_same_seed_gives_the_same_schedule() {
    let plan = "reorder window=32; delay exp=20us; eagain on=any chance=20% burst=3; late chance=10% by=50us";
    let schedule = |seed: &str| {
        let dir = tempfile::tempdir().expect("a directory");
        let stats = dir.path().to_str().expect("text");
        let set = [
            ("EFA_EMU_PLAN", plan),
            ("EFA_EMU_SEED", seed),
            ("EFA_EMU_STATS", stats),
        ];
        with("a_fixed_program", Fabric::Direct, &set);
        let all = efa_emu_fi::stats::Snapshot::read_dir(dir.path()).expect("statistics");
        ["0", "1"].map(|side| {
            let own = all.iter().find(|process| process.process == side);
            let total = own.expect("both sides").total();
            assert!(total.again > 50, "{total:?}");
            total.schedule
        })
    };
    let (first, again, other) = (schedule("11"), schedule("11"), schedule("12"));
    assert_eq!(first, again);
    assert!(first[0] != first[1] && first[0] != other[0] && first[1] != other[1]);
}

#[test]
fn immediates_that_need_a_receive() {
    let set = [("FI_EFA_USE_UNSOLICITED_WRITE_RECV", "0")];
    with("solicited_immediates", Fabric::Direct, &set);
}
