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

/// Where copies need its help, and with so long until an operation fails that they must not do so one
/// after the other.
#[test]
fn a_peer_that_is_stopped_and_then_killed() {
    let set = [("EFA_EMU_CMA", "0"), ("EFA_EMU_DEAD_MS", "500")];
    for fabric in [Fabric::Rdm, Fabric::Direct] {
        for rule in ["stopped_under_way", "stopped_before"] {
            with(rule, fabric, &set);
        }
    }
}

#[test]
fn a_dead_peer() {
    for fabric in [Fabric::Rdm, Fabric::Direct] {
        with("dead_peer", fabric, &[]);
    }
}

#[test]
fn a_peer_that_dies_with_a_message_announced() {
    with("lost_with_its_process", Fabric::Rdm, &[]);
    let set = &[("EFA_EMU_PROGRESS", "calls")];
    with("lost_when_it_has_its_receive", Fabric::Rdm, set);
}

#[test]
fn a_peer_that_dies_in_the_middle() {
    for fabric in [Fabric::Rdm, Fabric::Direct] {
        with("dies_in_the_middle", fabric, &[]);
    }
}

#[test]
fn hosts_without_some_devices() {
    let set = [("EFA_EMU_LACKS", "cuda,dmabuf,write")];
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
fn a_completion_says_nothing_of_the_target() {
    let set = [
        ("EFA_EMU_PLAN", "late side=remote by=200ms"),
        ("EFA_EMU_PROGRESS", "calls"),
    ];
    for fabric in [Fabric::Rdm, Fabric::Direct] {
        with("completed_before_it_shows", fabric, &set);
    }
}

#[test]
fn immediates_that_need_a_receive() {
    let set = [("FI_EFA_USE_UNSOLICITED_WRITE_RECV", "0")];
    with("solicited_immediates", Fabric::Direct, &set);
}

/// Plays a rule under a plan, and gives what its sides counted.
fn counted(
    rule: &str,
    fabric: Fabric,
    plan: &str,
    set: &[(&str, &str)],
) -> [efa_emu_fi::stats::Snapshot; 2] {
    let dir = tempfile::tempdir().expect("a directory");
    let stats = dir.path().to_str().expect("text");
    let mut all = vec![("EFA_EMU_PLAN", plan), ("EFA_EMU_STATS", stats)];
    all.extend(set);
    with(rule, fabric, &all);
    let read = efa_emu_fi::stats::Snapshot::read_dir(dir.path()).expect("statistics");
    ["0", "1"].map(|side| {
        let own = read.iter().find(|process| process.process == side);
        own.expect("both sides").clone()
    })
}

/// Of each kind that there is: who closes all leaves nothing, and what another leaves open is told.
#[test]
fn what_is_left_open_is_known() {
    for fabric in [Fabric::Rdm, Fabric::Direct] {
        let [open, closed] = counted("one_of_each", fabric, "", &[]);
        let left: Vec<_> = open.leaks().collect();
        let of_nic = [
            "domains",
            "endpoints",
            "completion queues",
            "address vectors",
            "regions",
        ];
        let mut all = vec![(None, "fabrics", 2), (None, "event queues", 1)];
        all.extend(of_nic.map(|what| (Some(0), what, 1)));
        assert_eq!(left, all);
        assert_eq!(closed.leaks().collect::<Vec<_>>(), []);
    }
}

/// At the initiator and at the target alike, whose program learns nothing of most of it.
#[test]
fn bytes_count_on_both_sides() {
    for fabric in [Fabric::Rdm, Fabric::Direct] {
        for set in [
            &[][..],
            &[("EFA_EMU_CMA", "0")],
            &[("EFA_EMU_PROGRESS", "calls")],
            &[("FI_EFA_USE_UNSOLICITED_WRITE_RECV", "0")],
        ] {
            let [own, peer] = counted("moved_by_a_peer", fabric, "", set);
            let (own, peer) = (own.total(), peer.total());
            let written = 900 + 80 + 50;
            assert_eq!((own.bytes_out, own.bytes_in), (written, 300), "{set:?}");
            assert_eq!((peer.bytes_in, peer.bytes_out), (written, 300), "{set:?}");
            // Of the write that was beyond its region; what is taken back is no error.
            let errors = [&own, &peer].map(|of| of.statuses.iter().sum::<u64>() + of.errors_other);
            assert_eq!(errors, [1, 0], "{set:?}");
        }
    }
}

#[test]
fn what_shows_twice_counts_once() {
    let solicited = [("FI_EFA_USE_UNSOLICITED_WRITE_RECV", "0")];
    for fabric in [Fabric::Rdm, Fabric::Direct] {
        for (plan, set) in [
            ("duplicate side=remote", &[][..]),
            ("duplicate side=remote", &solicited),
            ("duplicate side=remote; late side=remote by=1ms", &solicited),
            ("duplicate side=local", &[]),
        ] {
            let [own, peer] = counted("doubled", fabric, plan, set);
            let received = if set.is_empty() || fabric == Fabric::Rdm {
                4
            } else {
                6
            };
            assert_eq!(peer.total().recvs, received, "{plan}");
            assert_eq!((own.total().sends, own.total().writes_data), (4, 2));
            for side in [own, peer] {
                assert_eq!(side.leaks().count(), 0, "{plan}: {side}");
                assert_eq!(side.total().pending, 0, "{plan}: {side}");
            }
        }
        let [_, peer] = counted("doubled_error", fabric, "duplicate side=remote", &[]);
        assert_eq!(peer.total().errors, 1);
    }
}

/// With direct copies, and where bytes go in many turns.
#[test]
fn a_key_has_as_many_uses_as_the_plan_says() {
    let plan = ("EFA_EMU_PLAN", "revoke process=1 at=1 after=3");
    for fabric in [Fabric::Rdm, Fabric::Direct] {
        for copies in ["0", "1"] {
            let set = [plan, ("EFA_EMU_CMA", copies)];
            with("revoked_after_uses", fabric, &set);
        }
    }
}

#[test]
fn death_is_at_the_post_whatever_else_is_said_of_it() {
    for (plan, at) in [
        ("die process=0 on=recv at=1", "recv"),
        (
            "refuse on=send at=1 errno=EIO; die process=0 on=send at=1",
            "send",
        ),
        (
            "mute process=0 on=send at=1; die process=0 on=send at=1",
            "send",
        ),
        (
            "eagain on=send burst=forever; die process=0 on=send at=1",
            "send",
        ),
        ("die process=0 on=imm at=1", "imm"),
        (
            "nic-lost process=0 on=imm at=1; die process=0 on=imm at=1",
            "imm",
        ),
        (
            "nic-lost process=0 on=recv at=1; die process=0 on=read at=1",
            "read",
        ),
        (
            "delay fixed=20s; error on=read code=22/7; die process=0 on=read at=1",
            "read",
        ),
    ] {
        let set = [("EFA_EMU_PLAN", plan), ("EFA_TEST_DIES", at)];
        with("dies_at_the_post", Fabric::Direct, &set);
    }
}

#[test]
fn a_lost_nic_takes_everything_along() {
    let plan = "nic-lost process=0 on=write at=2 code=aborted refuse=EIO";
    for fabric in [Fabric::Rdm, Fabric::Direct] {
        let [own, peer] = counted("all_ends_with_the_nic", fabric, plan, &[]);
        assert_eq!((own.total().errors, own.total().pending), (4, 0), "{own}");
        assert_eq!(peer.leaks().count(), 0, "{peer}");
    }
}

#[test]
fn errors_are_late_as_well() {
    let plan = "late by=300ms; error on=imm code=22/7 lands=yes";
    for fabric in [Fabric::Rdm, Fabric::Direct] {
        with("late_errors", fabric, &[("EFA_EMU_PLAN", plan)]);
    }
}

#[test]
fn closed_endpoints_give_back_their_memory() {
    let dir = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let dir = dir.path().to_str().expect("text");
    for fabric in [Fabric::Rdm, Fabric::Direct] {
        with("given_back", fabric, &[("EFA_EMU_DIR", dir)]);
    }
}

#[test]
fn reads_and_writes_of_messages() {
    let set = [("FI_EFA_USE_DEVICE_RDMA", "0")];
    for fabric in [Fabric::Rdm, Fabric::Direct] {
        with("without_device_rdma", fabric, &set);
    }
}

#[test]
fn a_nic_that_hangs_is_one_of_several() {
    for plan in ["mute nic=0 at=1", "stop-polling nic=0 at=1"] {
        with("one_of_several", Fabric::Direct, &[("EFA_EMU_PLAN", plan)]);
    }
}

#[test]
fn a_nic_that_hangs_keeps_nothing_from_others() {
    let plan = "mute process=0 nic=0 on=write at=20";
    for fabric in [Fabric::Rdm, Fabric::Direct] {
        for copies in ["0", "1"] {
            let set = [("EFA_EMU_PLAN", plan), ("EFA_EMU_CMA", copies)];
            with("nothing_kept_by_a_hanging_nic", fabric, &set);
        }
    }
}
