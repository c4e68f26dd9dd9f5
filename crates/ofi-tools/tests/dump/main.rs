//! `ofi dump` on dumps that are made here: chains, circles, who is silent, and files that are none.
#![expect(clippy::unwrap_used, reason = "test code")]

mod rings;
mod runs;
mod subsets;

use ofi_net::dump::{
    Comm, Domain, Dump, Endpoint, Kind, NicCounters, Process, Reason, Request, SCHEMA, Stage, TOOL,
};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// The trigger that all have answered who are not silent.
const ASKED: u64 = 6_000_000_000;

fn address(rank: u32) -> String {
    format!("10.0.0.{rank}:7")
}

/// A rank with these communicators, which has answered.
fn rank(rank: u32, comms: Vec<Comm>) -> Dump {
    Dump {
        tool: TOOL.to_owned(),
        schema: SCHEMA,
        version: String::new(),
        reason: Reason::Trigger,
        at_unix_ms: 5000,
        answers_ns: Some(ASKED),
        dir_inode: 7,
        process: Process {
            pid: 100 + rank,
            start_ticks: 1,
            host: format!("n{rank}"),
            rank: Some(rank),
            world: None,
        },
        libfabric: String::new(),
        protocol: "RDMA".to_owned(),
        stall_warn_ms: None,
        stall_fail_ms: None,
        devices: Vec::new(),
        nics: Vec::new(),
        domains: vec![Domain {
            seq_modulus: 1024,
            endpoints: vec![Endpoint {
                lane: "ctl0".to_owned(),
                address: address(rank),
            }],
            comms,
            ..Domain::default()
        }],
    }
}

/// The communicator of `kind` between two ranks: numbers are those of the ranks. It will start `next`.
fn comm(kind: Kind, (own, peer): (u32, u32), next: u32) -> Comm {
    Comm {
        kind,
        id: own,
        peer_id: peer,
        peer: Some(address(peer)),
        state: "up".to_owned(),
        closed: false,
        stage: None,
        idle_ms: 9000,
        away_ms: 0,
        next_seq: next,
        oldest_seq: next,
        outstanding: 0,
        done: 0,
        early: 0,
        ctrls: 0,
        posts_waiting: 0,
        flying: 0,
        eagain: 0,
        asked: false,
        answered: false,
        oldest: None,
        failure: None,
    }
}

/// The same, waiting with its last message.
fn stuck(kind: Kind, ends: (u32, u32), next: u32) -> Comm {
    let stage = match kind {
        Kind::Send => Stage::AwaitCtrl,
        _ => Stage::AwaitData,
    };
    let oldest = Request {
        request: "1.1".to_owned(),
        kind: "send".to_owned(),
        seq: Some((next + 1023) % 1024),
        bytes: 4096,
        moved: 0,
        age_ms: 9000,
        completions: (0, 1),
        segments: (0, 0),
        ctrl_seen: false,
        posts_waiting: 0,
        flying: Vec::new(),
    };
    Comm {
        stage: Some(stage),
        oldest: Some(oldest),
        outstanding: 1,
        ..comm(kind, ends, next)
    }
}

fn write(dir: &Path, dumps: &[Dump]) {
    for (at, dump) in dumps.iter().enumerate() {
        let process = &dump.process;
        let name = format!("ofi-dump-{}-{}-{at}.json", process.host, process.pid);
        std::fs::write(dir.join(name), serde_json::to_vec(dump).unwrap()).unwrap();
    }
}

fn ofi(args: &[&str], dir: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ofi"))
        .arg("dump")
        .args(args)
        .arg(dir)
        .output()
        .unwrap()
}

/// The first verdict: its kind, whom it names, its words; and the status.
fn verdict(dumps: &[Dump]) -> (String, Vec<String>, String, i32) {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), dumps);
    let output = ofi(&["--json"], dir.path());
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let first = &said["verdicts"][0];
    let who = first["who"].as_array().cloned().unwrap_or_default();
    let who = who.iter().map(|who| who.as_str().unwrap().to_owned());
    (
        first["kind"].as_str().unwrap_or("none").to_owned(),
        who.collect(),
        first["text"].as_str().unwrap_or_default().to_owned(),
        output.status.code().unwrap(),
    )
}

/// 1 waits for 2, which has not sent because it waits for 3; 3 has not posted the receive. Numbers wrap.
#[test]
fn a_chain_is_followed_to_its_end() {
    let dumps = [
        rank(1, vec![stuck(Kind::Recv, (1, 2), 9)]),
        rank(
            2,
            vec![comm(Kind::Send, (2, 1), 8), stuck(Kind::Send, (2, 3), 0)],
        ),
        rank(3, vec![comm(Kind::Recv, (3, 2), 1023)]),
    ];
    let (kind, who, text, status) = verdict(&dumps);
    assert_eq!(
        (kind.as_str(), who, status),
        ("process", vec!["rank 3".to_owned()], 1)
    );
    assert!(
        text.contains(
            "has not posted the receive for message 1023 of communicator 3; waiting: rank 2"
        ),
        "{text}"
    );
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &dumps);
    let page = ofi(&[], dir.path());
    let page = String::from_utf8_lossy(&page.stdout);
    assert!(page.contains("behind them: rank 1"), "{page}");
}

#[test]
fn ranks_that_wait_for_each_other_are_a_circle() {
    let two = |own, next: u32, before: u32| {
        rank(
            own,
            vec![
                stuck(Kind::Send, (own, next), 5),
                comm(Kind::Recv, (own, before), 4),
            ],
        )
    };
    let (kind, who, _, status) = verdict(&[two(0, 1, 2), two(1, 2, 0), two(2, 0, 1)]);
    assert_eq!((kind.as_str(), who.len(), status), ("circle", 3, 1));
}

/// The one that is waited for has an old dump, or none: it is silent, whatever it said then.
#[test]
fn who_does_not_answer_is_named_as_silent() {
    let waits = || rank(1, vec![stuck(Kind::Recv, (1, 2), 9)]);
    let old = Dump {
        reason: Reason::Start,
        answers_ns: None,
        ..rank(2, vec![stuck(Kind::Send, (2, 1), 50)])
    };
    let (kind, who, text, _) = verdict(&[waits(), old]);
    assert_eq!((kind.as_str(), who), ("process", vec!["rank 2".to_owned()]));
    assert!(text.contains("send for message 8"), "{text}");
    let (kind, who, ..) = verdict(&[waits()]);
    assert_eq!((kind.as_str(), who), ("address", vec![address(2)]));
}

/// A network that loses packets shows in the NICs alone: beside the verdict, those that counted most first; what counts
/// work is left out, and so are old dumps, which have none.
#[test]
fn what_nics_counted_that_is_bad_stands_beside_the_verdict() {
    let with = |at: u32, counters: &[(&str, u64)]| {
        let grown = counters.iter().map(|(name, by)| ((*name).to_owned(), *by));
        let nic = NicCounters {
            nic: format!("rdmap{at}s0"),
            grown: grown.collect(),
        };
        Dump {
            nics: vec![nic],
            ..rank(at, Vec::new())
        }
    };
    let dir = tempfile::tempdir().unwrap();
    let of_others: Vec<Dump> = (10..20).map(|at| with(at, &[("rx_drops", 2)])).collect();
    let dumps = [
        with(1, &[("tx_bytes", 1 << 40), ("tx_pkts", 9)]),
        with(
            2,
            &[
                ("retrans_bytes", 9000),
                ("retrans_timeout_events", 3),
                ("tx_bytes", 5),
            ],
        ),
        with(3, &[("unresponsive_remote_events", 70)]),
        rank(4, Vec::new()),
    ];
    write(dir.path(), &[&dumps[..], &of_others].concat());
    let said = String::from_utf8(ofi(&[], dir.path()).stdout).unwrap();
    let lines: Vec<&str> = said.lines().filter(|line| line.contains("NIC")).collect();
    let wanted = [
        "rank 3: the NIC rdmap3s0 itself: unresponsive_remote_events 70",
        "rank 2: the NIC rdmap2s0 itself: retrans_timeout_events 3",
        "rank 10: the NIC rdmap10s0 itself: rx_drops 2",
    ];
    assert_eq!(lines[..3], wanted, "{said}");
    assert_eq!(
        (lines.len(), lines[8]),
        (9, "and 4 more NICs that counted such: see --json"),
        "{said}"
    );
    let said: Value = serde_json::from_slice(&ofi(&["--json"], dir.path()).stdout).unwrap();
    let nics = |at: usize| &said["processes"][at]["nics"];
    assert_eq!(nics(0)[0]["grown"]["tx_pkts"], 9);
    assert_eq!(nics(3), &serde_json::json!([]));
}

/// Both have done their part: it is neither of them.
#[test]
fn what_is_under_way_is_the_network() {
    let sender = Comm {
        stage: Some(Stage::Completions),
        ..stuck(Kind::Send, (2, 1), 9)
    };
    let dumps = [
        rank(1, vec![stuck(Kind::Recv, (1, 2), 9)]),
        rank(2, vec![sender]),
    ];
    let (kind, who, ..) = verdict(&dumps);
    assert_eq!(kind, "network");
    assert_eq!(who, ["rank 2", "rank 1"], "from whom, to whom");
}

/// An error is the cause of what stands still since. It is that of who tells of it, unless it says that the
/// peer does not answer.
#[test]
fn an_error_comes_before_what_follows_from_it() {
    for (said, culprit) in [
        ("errno 22, provider error 6", "rank 1"),
        ("errno 103, provider error 13", "rank 2"),
        ("errno 1103, provider error 13", "rank 1"),
    ] {
        let failed = Comm {
            failure: Some(format!("OFI-E0601 an operation failed: {said}")),
            ..comm(Kind::Send, (1, 2), 3)
        };
        let dumps = [
            rank(0, vec![stuck(Kind::Recv, (0, 1), 9)]),
            rank(1, vec![failed, comm(Kind::Send, (1, 0), 8)]),
            rank(2, vec![comm(Kind::Recv, (2, 1), 9)]),
        ];
        let (kind, who, ..) = verdict(&dumps);
        assert_eq!((kind.as_str(), who), ("network", vec![culprit.to_owned()]));
    }
}

#[test]
fn nobody_who_waits_is_no_verdict_and_earlier_runs_are_left_out() {
    let idle = |at| rank(at, vec![comm(Kind::Send, (at, 1 - at), 3)]);
    let mut earlier = rank(0, vec![stuck(Kind::Recv, (0, 1), 1)]);
    earlier.process.pid = 1;
    earlier.at_unix_ms = 1;
    let (kind, _, _, status) = verdict(&[idle(0), idle(1), earlier]);
    assert_eq!((kind.as_str(), status), ("none", 0));
}

/// Each of these is said to be what it is, and the others still count.
#[test]
fn hostile_files_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &[rank(1, vec![stuck(Kind::Recv, (1, 2), 9)])]);
    let good = serde_json::to_value(rank(3, Vec::new())).unwrap();
    let mut newer = good.clone();
    newer["schema"] = 2.into();
    let mut damaged = good.clone();
    damaged["domains"][0]["seq_modulus"] = 0.into();
    let mut busy = good.clone();
    busy["domains"][0]["busy"] = true.into();
    busy["domains"][0]["seq_modulus"] = 0.into();
    busy["domains"][0]["comms"] = serde_json::to_value([comm(Kind::Send, (1, 2), 9)]).unwrap();
    let mut negative = good;
    negative["process"]["pid"] = (-1).into();
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let bad = [
        ("a", newer.to_string(), "format 2"),
        ("b", damaged.to_string(), "seq_modulus"),
        ("c", negative.to_string(), "damaged"),
        ("d", deep, "no dump"),
        ("e", "{}".to_owned(), "something else"),
        ("f", "\u{0}".to_owned(), "no dump"),
        ("g", busy.to_string(), "seq_modulus"),
    ];
    for (name, text, _) in &bad {
        let file = dir.path().join(format!("ofi-dump-{name}.json"));
        std::fs::write(file, text).unwrap();
    }
    std::os::unix::fs::symlink("/dev/zero", dir.path().join("ofi-dump-z.json")).unwrap();
    let pipe = Command::new("mkfifo")
        .arg(dir.path().join("ofi-dump-y.json"))
        .status();
    assert!(pipe.unwrap().success());
    let output = ofi(&[], dir.path());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        errors.contains("ofi-dump-y.json: it is no file"),
        "{errors}"
    );
    for (name, _, says) in &bad {
        let line = errors
            .lines()
            .find(|line| line.contains(&format!("ofi-dump-{name}.json")));
        assert!(
            line.is_some_and(|line| line.contains(says)),
            "{name}: {errors}"
        );
    }
    assert!(
        errors.contains("ofi-dump-z.json: it is a symbolic link"),
        "{errors}"
    );
    assert_eq!(output.status.code(), Some(2));
    let page = String::from_utf8_lossy(&output.stdout);
    assert!(page.contains("who has the address 10.0.0.2:7"), "{page}");
}

#[test]
fn a_directory_without_dumps_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let output = ofi(&[], dir.path());
    assert_eq!(output.status.code(), Some(2));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        errors.contains("OFI_NCCL_DUMP_DIR") && errors.contains("--ask"),
        "{errors}"
    );
}
