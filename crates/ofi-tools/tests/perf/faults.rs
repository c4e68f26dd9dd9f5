//! Plugins that do wrong, each in its own way: every one is caught, named, and ends the run.

use core::time::Duration;
use std::time::Instant;

use crate::common::{Ran, bare, nccl, perf, ran};

/// A check of which rank 1's plugin does wrong.
fn faulty(fault: &str, more: &[&str]) -> Ran {
    let mut command = perf(&[
        "check",
        "--messages",
        "40",
        "--max-size",
        "4K",
        "--no-pauses",
    ]);
    command
        .args(["--env", &format!("1:LOOP_FAULT={fault}")])
        .args(more);
    ran(command)
}

/// A plugin writes it into its dumps; a rank of the shell that `ofi perf` was started in is not theirs.
#[test]
fn ranks_are_told_who_they_are() {
    for shells in [None, Some("7")] {
        let mut command = perf(&[
            "check",
            "--messages",
            "4",
            "--max-size",
            "4K",
            "--no-pauses",
        ]);
        command.args(["--env", "LOOP_FAULT=asksrank"]);
        if let Some(rank) = shells {
            // Alone it is half of what a launcher sets, unless the ranks are local.
            command.args(["--ranks", "2"]).env("RANK", rank);
        }
        ran(command).assert_verified();
    }
}

#[test]
fn a_flipped_bit_is_found_with_rank_and_message() {
    let parts = [
        "wrong data",
        "rank 1: ",
        "receive from rank 0, comm 0, device 0, message 9",
        "--seed",
    ];
    faulty("flip", &[]).assert_says(1, &parts);
}

#[test]
fn a_flipped_bit_is_found_in_a_window_and_in_an_all_reduce() {
    for mode in ["bw", "bidir", "allreduce", "allgather", "alltoall", "lat"] {
        let mut command = perf(&[mode, "--check", "--sizes", "4K", "--iters", "16"]);
        command.args(["--env", "LOOP_FAULT=flip"]);
        let word = if mode.starts_with("all") {
            "wrong result"
        } else {
            "wrong data"
        };
        ran(command).assert_says(1, &[word]);
    }
}

#[test]
fn a_byte_too_far_is_found() {
    faulty("overrun", &[]).assert_says(1, &["guard bytes overwritten", "message 9"]);
}

#[test]
fn a_wrong_size_is_found() {
    faulty("size", &[]).assert_says(1, &["wrong size", "message 9", "--lax-sizes"]);
}

#[test]
fn an_error_names_call_code_and_message() {
    let parts = [
        "isend returned 2 (ncclSystemError)",
        "send to rank 0",
        "message 9",
    ];
    faulty("error", &[]).assert_says(1, &parts);
}

#[test]
fn a_crash_is_named_as_the_cause_whoever_complains_first() {
    faulty("crash", &[]).assert_says(
        1,
        &[
            "rank 1 is gone",
            "signal 11 (SIGSEGV)",
            "fault of the plugin",
        ],
    );
}

#[test]
fn a_hang_ends_with_what_every_rank_waited_for() {
    let parts = [
        "has not moved for 1 s",
        "rank 0: check",
        "rank 1: check",
        "receive from rank 0, comm 0, device 0",
        "waiting for message 9",
    ];
    let start = Instant::now();
    faulty("hang", &["--stall", "1"]).assert_says(3, &parts);
    assert!(start.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_call_that_never_returns_is_reported_by_the_watch() {
    let run = faulty("stuckinit", &["--stall", "1"]);
    run.assert_says(3, &["rank 1 has not moved", "rank 1: init of the plugin"]);
}

/// What each process of a run left open, by the file that it kept: communicators, listeners, regions,
/// regions that outlived their communicator, and how often it was finalized.
fn left_open(fault: &str, more: &[&str]) -> (Ran, Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    let mut command = perf(&["check", "--messages", "40", "--max-size", "4K"]);
    command
        .args(["--ranks", "3", "--env", &format!("1:LOOP_FAULT={fault}")])
        .args(more)
        .env("LOOP_OPEN", dir.path());
    let run = ran(command);
    let files = std::fs::read_dir(dir.path()).unwrap();
    let all = files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap());
    (run, all.collect())
}

/// Whoever failed and whoever did not: what a run leaves open is the plugin's, and not its own.
#[test]
fn every_rank_closes_what_it_opened_however_the_run_ends() {
    const CLOSED: &str = "0 0 0 0 1 ";
    let versions = ["ncclNetPlugin_v6", "ncclNetPlugin_v4"];
    for (fault, code, symbol) in [
        ("none", 0, versions[0]),
        ("flip", 1, versions[0]),
        ("error", 1, versions[0]),
        ("size", 1, versions[0]),
        ("hang", 3, versions[0]),
        // Its listener has a handle that is too long, and no other rank is further than that.
        ("handle", 1, versions[1]),
    ] {
        let (run, left) = left_open(fault, &["--stall", "2", "--symbol", symbol]);
        assert_eq!(run.code, Some(code), "{fault}: {run:#?}");
        let finalized = if symbol == versions[0] { "1 " } else { "0 " };
        let closed = CLOSED.replace("1 ", finalized);
        assert_eq!(left, [closed.as_str(); 3], "{fault}: {run:#?}");
    }
    // Of the two that a crash leaves behind.
    let (run, left) = left_open("crash", &[]);
    let closed = left.iter().filter(|left| *left == CLOSED).count();
    assert_eq!((run.code, closed), (Some(1), 2), "{left:?} {run:#?}");
}

/// As that of a plugin which waits for what is under way, within its own bounds.
#[test]
fn a_close_that_takes_its_time_is_waited_for() {
    let (run, left) = left_open("slowclose", &[]);
    run.assert_says(1, &["isend returned 2", "message 9"]);
    assert!(!run.stderr.contains("did not close"), "{run:#?}");
    assert_eq!(left, ["0 0 0 0 1 "; 3], "{run:#?}");
}

#[test]
fn a_close_that_never_returns_does_not_hold_up_the_end() {
    let start = Instant::now();
    let (run, left) = left_open("badclose", &[]);
    let parts = [
        "isend returned 2",
        "message 9",
        "rank 1 did not close everything",
    ];
    run.assert_says(1, &parts);
    assert!(!run.stderr.contains("rank 0 did not"), "{run:#?}");
    assert!(left.len() == 3, "{left:?}");
    assert!(start.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_stopped_rank_is_noticed_by_its_silence() {
    let parts = ["rank 1: no answer (stopped by SIGSTOP"];
    faulty("stop", &["--stall", "0.5"]).assert_says(3, &parts);
}

#[test]
fn a_rank_that_stops_in_init_is_noticed_by_its_silence() {
    // Here every other rank is done and waits, so nobody is stuck.
    let parts = [
        "rank 1 has given no sign of life",
        "rank 0: meeting the other ranks",
    ];
    faulty("stopinit", &["--stall", "0.5"]).assert_says(3, &parts);
}

#[test]
fn the_whole_run_is_bounded() {
    let run = faulty("hang", &["--timeout", "2"]);
    run.assert_says(
        3,
        &["not through after 2 s (--timeout)", "waiting for message 9"],
    );
}

#[test]
fn a_handle_too_long_for_v4_is_found() {
    let parts = ["listen wrote beyond the 64 bytes", "byte 64"];
    faulty("handle", &["--symbol", "ncclNetPlugin_v4"]).assert_says(1, &parts);
}

#[test]
fn what_cannot_be_loaded_is_said_with_what_to_try() {
    let missing = |args: &[&str]| {
        let mut command = bare(&[&["rate", "--sizes", "8"], args].concat());
        // Cargo puts its own directory there, which may have a plugin.
        command.env_remove("LD_LIBRARY_PATH");
        ran(command)
    };
    missing(&["--plugin", "/nonexistent/libnccom-net.so"]).assert_says(1, &["cannot load", "ldd"]);
    let bare = missing(&["--plugin", "libnccom-net.so"]);
    bare.assert_says(1, &["cannot load", "LD_LIBRARY_PATH", "./libnccom-net.so"]);
    missing(&["--plugin", "/x/libother.so"]).assert_says(2, &["--flavor"]);
    let path = nccl().to_str().unwrap();
    let symbol = ["--plugin", path, "--symbol", "ncclNetPlugin_v5"];
    missing(&symbol).assert_says(1, &["version 5", "nvidia v6 to v12"]);
    let symbol = ["--plugin", path, "--symbol", "other_v6"];
    missing(&symbol).assert_says(1, &["no symbol other_v6", "nm -D"]);
}

#[test]
fn bad_command_lines_end_with_status_2() {
    for args in [
        vec!["--ranks", "1"],
        vec!["--sizes", "8:1"],
        vec!["--devices", "x"],
        vec!["--rank", "2", "--ranks", "2", "--rendezvous", "unix:/x"],
        vec!["--rendezvous", "nowhere"],
        vec!["--rendezvous", "unix:/x"],
        vec!["--rendezvous", "unix:/x", "--ranks", "2"],
        vec!["nomode"],
    ] {
        assert_eq!(ran(perf(&args)).code, Some(2), "{args:?}");
    }
    let run = ran(perf(&["rate", "--devices", "5", "--sizes", "8"]));
    run.assert_says(1, &["device 5", "has 2 (0 to 1)"]);
}

#[test]
fn a_file_that_cannot_be_written_is_refused_before_the_run() {
    for option in ["--json", "--plot"] {
        let run = ran(perf(&["rate", option, "/nonexistent/out"]));
        run.assert_says(
            2,
            &["cannot write /nonexistent/out", option, "nothing was run"],
        );
        assert_eq!(run.stdout, "");
    }
}

#[test]
fn children_die_with_their_parent() {
    let mut command = perf(&["check", "--messages", "40", "--max-size", "64"]);
    command.args(["--env", "LOOP_FAULT=stuckinit"]);
    let mut parent = command.spawn().unwrap();
    let file = format!("/proc/{0}/task/{0}/children", parent.id());
    let limit = Instant::now() + Duration::from_secs(20);
    let mut children: Vec<String> = Vec::new();
    while children.len() < 2 {
        assert!(Instant::now() < limit, "no children came");
        let listed = std::fs::read_to_string(&file).unwrap();
        children = listed.split_whitespace().map(str::to_owned).collect();
        std::thread::yield_now();
    }
    // They have asked for the signal once they run the program and not only its loader.
    for child in &children {
        let maps = format!("/proc/{child}/maps");
        while !std::fs::read_to_string(&maps)
            .unwrap()
            .contains("libnccom-net.so")
        {
            assert!(Instant::now() < limit, "the plugin was not loaded");
            std::thread::yield_now();
        }
    }
    parent.kill().unwrap();
    parent.wait().unwrap();
    for child in children {
        let alive = || {
            let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
            !stat.is_empty() && !stat.contains(") Z ") && !stat.contains(") X ")
        };
        while alive() {
            assert!(
                Instant::now() < limit,
                "rank process {child} has outlived its parent"
            );
            std::thread::yield_now();
        }
    }
}
