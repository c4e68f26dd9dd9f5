//! Jobs that run, processes that never came up, and runs before the last.

use super::*;
use std::time::{SystemTime, UNIX_EPOCH};

/// One day, milliseconds.
const DAY_MS: u64 = 86_400_000;

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(since.as_millis()).unwrap()
}

/// The dump of the start of the same process, so much before.
fn start(dump: &Dump, before_ms: u64) -> Dump {
    Dump {
        reason: Reason::Start,
        answers_ns: None,
        at_unix_ms: dump.at_unix_ms.saturating_sub(before_ms),
        domains: Vec::new(),
        ..dump.clone()
    }
}

/// A ring in which all wait for their neighbours, as in any job that runs; nothing has moved for so long.
fn ring(ranks: u32, idle_ms: u64, away_ms: u64) -> Vec<Dump> {
    let one = |own: u32| {
        let (next, before) = ((own + 1) % ranks, (own + ranks - 1) % ranks);
        let send = Comm {
            stage: Some(Stage::Completions),
            ..stuck(Kind::Send, (own, next), 9)
        };
        let both = [send, stuck(Kind::Recv, (own, before), 9)];
        let comms = both.map(|comm| Comm {
            idle_ms,
            away_ms,
            ..comm
        });
        rank(own, comms.to_vec())
    };
    (0..ranks).map(one).collect()
}

fn page(args: &[&str], dumps: &[Dump]) -> (String, i32) {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), dumps);
    let output = ofi(args, dir.path());
    let page = String::from_utf8_lossy(&output.stdout).into_owned();
    (page, output.status.code().unwrap())
}

#[test]
fn a_job_that_runs_is_not_stuck() {
    let (said, status) = page(&[], &ring(6, 12, 0));
    assert!(said.contains("nobody is stuck"), "{said}");
    assert_eq!(status, 0, "{said}");
    // A second later nothing has moved; neither has it while nobody looked.
    for (idle_ms, away_ms) in [(1500, 0), (12, 1500), (u64::MAX, u64::MAX)] {
        let (said, status) = page(&[], &ring(6, idle_ms, away_ms));
        assert!(said.contains("the network from"), "{said}");
        assert_eq!(status, 1, "{said}");
    }
}

/// Of two dumps of one process, the later says that something moved just now. If all numbers are those of the
/// earlier one it did not.
#[test]
fn two_dumps_tell_slow_from_stuck() {
    for (earlier_seq, status) in [(8, 0), (9, 1)] {
        let earlier = ring(3, 12, 0).into_iter().map(|dump| {
            let mut dump = Dump {
                at_unix_ms: 1000,
                ..dump
            };
            for comm in &mut dump.domains[0].comms {
                comm.next_seq = earlier_seq;
            }
            dump
        });
        let dumps: Vec<Dump> = ring(3, 12, 0).into_iter().chain(earlier).collect();
        let (said, got) = page(&[], &dumps);
        assert_eq!(got, status, "{said}");
    }
}

/// One that is stuck is named among many that move, and what is said is no longer for a large job.
#[test]
fn what_is_stuck_is_named_among_what_moves() {
    let mut dumps = ring(6, 12, 0);
    dumps[3].domains[0].comms[1].idle_ms = 70_000;
    let (said, status) = page(&[], &dumps);
    assert_eq!(status, 1, "{said}");
    assert!(
        said.starts_with("the network from rank 2 to rank 3"),
        "{said}"
    );
    assert!(!said.contains("also:"), "{said}");
    let (said, _) = page(&[], &ring(300, 9000, 0));
    assert!(said.lines().count() < 60, "{said}");
    assert!(said.contains("more ends of waiting"), "{said}");
}

#[test]
fn a_rank_that_never_came_up_is_a_verdict() {
    let with_world = |mut dump: Dump| {
        dump.process.world = Some(4);
        dump
    };
    let idle = [0, 1, 3].map(|at| with_world(rank(at, Vec::new())));
    let (kind, who, text, status) = verdict(&idle);
    assert_eq!((kind.as_str(), who), ("silent", vec!["rank 2".to_owned()]));
    assert!(text.contains("rank 2 is silent"), "{text}");
    assert_eq!(status, 1);
    let (said, _) = page(&[], &idle);
    assert!(said.contains("rank 2: it wrote no dump"), "{said}");
}

/// Whom nobody has answered is told, though no dump says that anybody asked.
#[test]
fn that_nobody_answers_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let inode = std::os::unix::fs::MetadataExt::ino(&dir.path().metadata().unwrap());
    let old = [0, 1].map(|at| Dump {
        dir_inode: inode,
        at_unix_ms: now_ms() - 5000,
        ..start(&rank(at, Vec::new()), 0)
    });
    write(dir.path(), &old);
    let quiet = ofi(&[], dir.path());
    assert_eq!(quiet.status.code(), Some(0), "nobody was asked: {quiet:?}");
    let asked = ofi(&["--ask", "1"], dir.path());
    let said = String::from_utf8_lossy(&asked.stdout);
    assert!(said.starts_with("nobody has answered"), "{said}");
    assert_eq!(asked.status.code(), Some(1), "{said}");
    // Who was started since then was not asked.
    let late = Dump {
        dir_inode: inode,
        at_unix_ms: now_ms() + 5000,
        ..start(&rank(2, Vec::new()), 0)
    };
    std::fs::write(
        dir.path().join("ofi-dump-n2-102-0.json"),
        serde_json::to_vec(&late).unwrap(),
    )
    .unwrap();
    let said = ofi(&[], dir.path());
    let said = String::from_utf8_lossy(&said.stdout);
    assert!(said.contains("2 silent (rank 0, rank 1)"), "{said}");
}

/// Yesterday's run failed in the same directory; today another rank hangs. Ranks are known or not, and there were
/// more of them.
#[test]
fn an_earlier_run_hides_nothing() {
    let failed = |at: u32| {
        let text = "OFI-E0601 an operation failed: errno 22, provider error 6";
        let comm = Comm {
            failure: Some(text.to_owned()),
            ..comm(Kind::Send, (at, 0), 3)
        };
        let mut dump = rank(at, vec![comm]);
        dump.reason = Reason::Error;
        dump.process.start_ticks = 9;
        dump.process.world = Some(8);
        dump
    };
    let now = now_ms();
    // Ranks are known, and the world is smaller now; or a launcher says nothing, and only time does.
    for (knows, before_ms) in [(true, DAY_MS), (true, 60_000), (false, DAY_MS)] {
        let mut dumps = Vec::new();
        for mut dump in [
            rank(1, vec![stuck(Kind::Recv, (1, 2), 9)]),
            rank(2, vec![comm(Kind::Send, (2, 1), 8)]),
        ] {
            dump.at_unix_ms = now;
            dump.process.world = Some(4);
            dumps.push(dump);
        }
        for mut dump in [failed(6), failed(7)] {
            dump.at_unix_ms = now - before_ms;
            dumps.push(dump);
        }
        for dump in &mut dumps {
            if !knows {
                (dump.process.rank, dump.process.world) = (None, None);
            }
        }
        let starts: Vec<Dump> = dumps.iter().map(|dump| start(dump, 20_000)).collect();
        dumps.extend(starts);
        let (kind, _, text, _) = verdict(&dumps);
        assert_eq!(kind, "process", "{text}");
        assert!(
            text.contains("has not posted the send for message 8"),
            "{text}"
        );
        let (said, _) = page(&[], &dumps);
        assert!(said.contains("left out: 2 of an earlier run"), "{said}");
        assert!(!said.contains("OFI-E0601"), "{said}");
    }
}

/// On this host it is known who is gone: a run that was started again at once is another run.
#[test]
fn what_died_before_a_restart_is_an_earlier_run() {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let own = std::process::id();
    let here = |mut dump: Dump, pid: u32, ticks: u64| {
        dump.process.host = host.trim().to_owned();
        (dump.process.pid, dump.process.start_ticks) = (pid, ticks);
        (dump.process.rank, dump.process.world) = (None, None);
        dump
    };
    let failed = Comm {
        failure: Some("OFI-E0601 an operation failed: errno 22, provider error 6".to_owned()),
        ..comm(Kind::Send, (1, 2), 3)
    };
    let now = now_ms();
    let mut dead = here(rank(1, vec![failed]), own, 1);
    dead.at_unix_ms = now - 30_000;
    let ticks = ofi_net::start_ticks(own).unwrap();
    let mut alive = here(rank(3, vec![stuck(Kind::Recv, (3, 4), 9)]), own, ticks);
    alive.at_unix_ms = now;
    let starts = [start(&dead, 5000), start(&alive, 20_000)];
    let dumps: Vec<Dump> = starts.into_iter().chain([dead, alive]).collect();
    let (kind, _, text, _) = verdict(&dumps);
    assert_eq!(kind, "address", "{text}");
    let (said, _) = page(&[], &dumps);
    assert!(said.contains("left out: 1 of an earlier run"), "{said}");
}

/// Connect gave up: whom it was for is known from that, and not who has fewest connections.
#[test]
fn a_connect_that_gave_up_leads_to_who_did_not_accept() {
    let gave_up = |own: u32, peer: u32| Comm {
        state: "connecting".to_owned(),
        closed: true,
        failure: Some("OFI-E0402 a connection was not made in time: 120000 ms".to_owned()),
        ..comm(Kind::Send, (own, peer), 0)
    };
    let listener = |own: u32, asked: bool| Comm {
        asked,
        stage: asked.then_some(Stage::AwaitConn),
        peer: None,
        ..comm(Kind::Listener, (own, 0), 0)
    };
    let waits = Comm {
        state: "connecting".to_owned(),
        stage: Some(Stage::AwaitConnResp),
        ..comm(Kind::Send, (0, 1), 0)
    };
    // 1 is silent since its error, and others wait for it meanwhile.
    let told = Dump {
        reason: Reason::Error,
        answers_ns: None,
        ..rank(1, vec![gave_up(1, 2), listener(1, false)])
    };
    let dumps = [
        rank(0, vec![waits, listener(0, true)]),
        told,
        rank(2, vec![comm(Kind::Send, (2, 0), 0), listener(2, false)]),
    ];
    let (kind, who, text, _) = verdict(&dumps);
    assert_eq!((kind.as_str(), who), ("process", vec!["rank 2".to_owned()]));
    assert!(
        text.contains("has not called accept for listener 2"),
        "{text}"
    );
}

/// Numbers of a file are any numbers: none of them ends the tool.
#[test]
fn numbers_of_a_file_overflow_nothing() {
    let large = |kind, peer| {
        let max = u32::MAX;
        let mut large = stuck(kind, (2, peer), 9);
        large.peer = Some(address(peer));
        for number in [
            &mut large.next_seq,
            &mut large.oldest_seq,
            &mut large.outstanding,
            &mut large.done,
            &mut large.early,
            &mut large.posts_waiting,
            &mut large.flying,
        ] {
            *number = max;
        }
        (large.idle_ms, large.away_ms, large.ctrls) = (u64::MAX, u64::MAX, u64::MAX);
        let oldest = large.oldest.as_mut().unwrap();
        oldest.seq = Some(max);
        (oldest.bytes, oldest.moved, oldest.age_ms) = (u64::MAX, u64::MAX, u64::MAX);
        (oldest.completions, oldest.segments) = ((max, max), (max, max));
        large
    };
    let idle = |kind, peer| Comm {
        stage: None,
        ..large(kind, peer)
    };
    let extreme = |mut dump: Dump| {
        (dump.at_unix_ms, dump.answers_ns) = (u64::MAX, Some(u64::MAX));
        (dump.process.pid, dump.process.start_ticks) = (u32::MAX, u64::MAX);
        (dump.stall_warn_ms, dump.stall_fail_ms) = (Some(u64::MAX), Some(0));
        for domain in &mut dump.domains {
            (domain.device, domain.comms_omitted) = (usize::MAX, u64::MAX);
            (domain.eagain, domain.sends, domain.recvs) = (u64::MAX, u64::MAX, u64::MAX);
        }
        dump
    };
    let culprit = rank(
        2,
        vec![
            idle(Kind::Send, 1),
            idle(Kind::Send, 1),
            idle(Kind::Recv, 1),
        ],
    );
    let waiting = rank(1, vec![stuck(Kind::Recv, (1, 2), 9), large(Kind::Send, 2)]);
    for dumps in [
        vec![waiting.clone(), culprit.clone()],
        vec![extreme(waiting.clone()), culprit.clone()],
        vec![waiting.clone(), extreme(culprit.clone())],
        vec![
            extreme(waiting.clone()),
            start(&extreme(waiting), 0),
            extreme(culprit),
        ],
    ] {
        for args in [&[][..], &["--json"]] {
            let (said, status) = page(args, &dumps);
            assert!(status == 0 || status == 1, "{status}: {said}");
        }
    }
}

/// What others put in a shared directory of dumps: `--ask` neither follows it nor waits for it, and says so.
#[test]
fn a_trigger_that_is_no_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (trigger, precious) = (dir.path().join("trigger"), dir.path().join("precious"));
    std::fs::write(&precious, "mine").unwrap();
    let refused = |says: &str| {
        let output = ofi(&["--ask", "1"], dir.path());
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains("trigger") && error.contains(says), "{error}");
        assert_eq!(output.status.code(), Some(2));
    };
    std::os::unix::fs::symlink(&precious, &trigger).unwrap();
    refused("symbolic link");
    std::fs::remove_file(&trigger).unwrap();
    std::fs::hard_link(&precious, &trigger).unwrap();
    refused("hard link");
    std::fs::remove_file(&trigger).unwrap();
    let made = Command::new("mkfifo").arg(&trigger).status();
    assert!(made.unwrap().success());
    refused("no file");
    assert_eq!(std::fs::read(&precious).unwrap(), b"mine");
}

/// Whose last word is in a file that is none has answered, whatever an older dump of it says.
#[test]
fn a_newest_dump_that_cannot_be_read_is_no_silence() {
    let whole = serde_json::to_string(&rank(2, Vec::new())).unwrap();
    let newer = whole.replace(&format!("\"schema\":{SCHEMA}"), "\"schema\":99");
    let answered = Dump {
        answers_ns: Some(ASKED - 1),
        ..rank(2, Vec::new())
    };
    let waits = || rank(1, vec![stuck(Kind::Recv, (1, 2), 9)]);
    let unread = "its newest dump cannot be read";
    for text in [&whole[..whole.len() / 2], "", &newer] {
        for (older, first, says) in [
            (
                start(&answered, 100),
                rank(1, Vec::new()),
                format!("rank 2: {unread}, and nobody waits"),
            ),
            (
                start(&answered, 100),
                waits(),
                format!("10.0.0.2:7, perhaps rank 2: {unread}; waiting: rank 1"),
            ),
            (
                answered.clone(),
                waits(),
                format!("rank 2: {unread}; wanted of it: "),
            ),
        ] {
            let dir = tempfile::tempdir().unwrap();
            write(dir.path(), &[first, older]);
            let file = dir.path().join("ofi-dump-n2-102-5.json");
            std::fs::write(&file, text).unwrap();
            let output = ofi(&[], dir.path());
            let page = String::from_utf8(output.stdout).unwrap();
            assert_eq!(output.status.code(), Some(2), "{page}");
            assert!(page.contains(&says), "{says}: {page}");
            assert!(page.contains(" 0 silent, 1 unreadable (rank 2)"), "{page}");
            assert!(!page.contains("is silent"), "{page}");
            let said: Value = serde_json::from_slice(&ofi(&["--json"], dir.path()).stdout).unwrap();
            let second = &said["processes"][1];
            assert_eq!(
                (&second["silent"], &second["unread"]),
                (&false.into(), &true.into())
            );
            // Of before the dump that can be read it says nothing.
            let damaged = std::fs::File::options().write(true).open(&file).unwrap();
            damaged.set_modified(UNIX_EPOCH).unwrap();
            let page = String::from_utf8(ofi(&[], dir.path()).stdout).unwrap();
            assert!(
                !page.contains(unread) && page.contains("1 silent (rank 2)"),
                "{page}"
            );
        }
    }
}

/// Nothing else of that process is there: who waits for it is shown the file.
#[test]
fn a_file_of_nobody_known_is_named_where_somebody_is_missed() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &[rank(1, vec![stuck(Kind::Recv, (1, 2), 9)])]);
    // Another process of the same host, whose number begins alike.
    std::fs::write(dir.path().join("ofi-dump-n1-1019-1.json"), "").unwrap();
    let page = String::from_utf8(ofi(&[], dir.path()).stdout).unwrap();
    let says = "and wrote no dump that can be read, perhaps ofi-dump-n1-1019-1.json";
    assert!(
        page.contains(says) && !page.contains("unreadable"),
        "{page}"
    );
    let mut counted = rank(1, Vec::new());
    counted.process.world = Some(2);
    write(dir.path(), &[counted]);
    let page = String::from_utf8(ofi(&[], dir.path()).stdout).unwrap();
    let says = "or its dump is one that cannot be read, as ofi-dump-n1-1019-1.json";
    assert!(
        page.contains("rank 0: it wrote no dump") && page.contains(says),
        "{page}"
    );
}

/// Once a job is over all of its processes are gone, which says nothing of one: what errors have in common does.
#[test]
fn an_ended_job_is_judged_by_its_errors() {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let failed = |ends, words: &str| Comm {
        failure: Some(format!("OFI-E0601 an operation failed: {words}")),
        ..comm(Kind::Send, ends, 3)
    };
    let (lost, silent) = (
        "errno 125, provider error 1",
        "errno 103, provider error 13",
    );
    let of_rank = |own: u32, comms: Vec<Comm>| {
        let mut dump = rank(own, comms);
        dump.process.host = host.trim().to_owned();
        (dump.reason, dump.answers_ns) = (Reason::Error, None);
        dump
    };
    // Rank 0 has lost its NIC, and 3 sends to it; 1 and 2 heard of nothing before the job ended.
    let own = of_rank(0, vec![failed((0, 1), lost)]);
    let peer = of_rank(3, vec![failed((3, 0), silent)]);
    let quiet = |own: u32, peer: u32| {
        let mut dump = of_rank(own, vec![comm(Kind::Send, (own, peer), 3)]);
        dump.reason = Reason::Start;
        dump
    };
    let dumps = [own, quiet(1, 2), quiet(2, 3), peer];
    let (kind, who, text, _) = verdict(&dumps);
    assert_eq!(
        (kind.as_str(), who),
        ("network", vec!["rank 0".to_owned()]),
        "{text}"
    );
    // One that died without a word: by now its network and it look alike.
    let died = |at: u32| failed((at, 2), silent);
    let dumps = [1, 3].map(|at| of_rank(at, vec![died(at)]));
    let dumps: Vec<Dump> = dumps
        .into_iter()
        .chain([quiet(0, 1), quiet(2, 3)])
        .collect();
    let (kind, who, text, _) = verdict(&dumps);
    assert_eq!(
        (kind.as_str(), who),
        ("network", vec!["rank 2".to_owned()]),
        "{text}"
    );
}
