//! `ofi top`: what happens between two looks.

use super::{Made, ofi, text};
use ofi_trace::stats::{HeadAt, RailAt, State, Total, rail_word};
use serde_json::Value;
use std::process::Command;

/// A script that looks once learns that not all is seen, as from `ofi stats`.
#[test]
fn a_damaged_file_is_a_status_whoever_looks() {
    let dir = tempfile::tempdir().unwrap();
    Made::new().write(dir.path(), "live");
    for (bad, status) in [(false, 0), (true, 1)] {
        if bad {
            std::fs::write(dir.path().join("ofi-bad.stats"), "no counters").unwrap();
        }
        for words in [&["stats"][..], &["top", "--once", "--interval", "0.01"]] {
            let ran = ofi(words, dir.path());
            assert_eq!(ran.status.code(), Some(status), "{words:?}: {ran:?}");
            assert!(text(&ran.stdout).contains("rdmap0s6"), "{words:?}: {ran:?}");
            assert_eq!(
                text(&ran.stderr).contains("ofi-bad.stats"),
                bad,
                "{words:?}"
            );
        }
    }
}

/// What grows between two looks is a rate, of the process that it is of; the busiest comes first.
#[test]
fn top_shows_what_happens_between_two_looks() {
    let dir = tempfile::tempdir().unwrap();
    let mut made = Made::new();
    made.write(dir.path(), "live");
    Made::new()
        .set(HeadAt::Opened as usize, 7)
        .write(dir.path(), "idle");
    Made::new()
        .set(HeadAt::State as usize, State::Ended as u64)
        .write(dir.path(), "ended");
    let top = Command::new(env!("CARGO_BIN_EXE_ofi"))
        .args(["top", "--json", "--interval", "0.05"])
        .env("OFI_NCCL_STATS_DIR", dir.path())
        .stdout(std::process::Stdio::piped())
        .spawn();
    let mut top = top.unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(top.stdout.take().unwrap()));
    let mut grown = 0;
    // However slow this machine is, some look falls between two writes.
    let seen = loop {
        grown += 1_000_000;
        let fresh = dir.path().join("fresh");
        made.total(Total::BytesSent, 5000 + grown)
            .set(rail_word(0, RailAt::BytesSent), 5000 + grown);
        std::fs::rename(made.write(dir.path(), "fresh"), &fresh).unwrap();
        std::fs::rename(&fresh, dir.path().join("ofi-live.stats")).unwrap();
        let look: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        if look["processes"][0]["sent_bytes_per_s"].as_f64().unwrap() > 0.0 {
            break look;
        }
    };
    top.kill().unwrap();
    top.wait().unwrap();
    let processes = seen["processes"].as_array().unwrap();
    assert_eq!(processes.len(), 2, "those that ended do nothing: {seen}");
    assert_eq!(processes[1]["sent_bytes_per_s"], 0.0);
    assert!(
        seen["rails"][0]["sent_bytes_per_s"].as_f64().unwrap() > 0.0,
        "{seen}"
    );
    assert_eq!(seen["comms"].as_array().unwrap().len(), 2);
    let once = ofi(
        &["top", "--once", "--interval", "0.01", "--sort", "busy"],
        dir.path(),
    );
    assert_eq!(once.status.code(), Some(0), "{once:?}");
    let page = text(&once.stdout);
    assert!(
        page.contains("0/0 rdmap0s6") && page.contains("send 6 10.0.0.2:5"),
        "{page}"
    );
    let wrong = ofi(&["top", "--interval", "0"], dir.path());
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
}

/// Traffic that is sent again shows while it happens, once for all rails of a NIC.
#[test]
fn what_nics_count_is_a_rate_too() {
    let dir = tempfile::tempdir().unwrap();
    let (files, root) = (dir.path().join("files"), dir.path().join("root"));
    let hw = root.join("sys/class/infiniband/rdmap0s6/ports/1/hw_counters");
    std::fs::create_dir_all(&hw).unwrap();
    std::fs::create_dir_all(&files).unwrap();
    let (counter, fresh) = (hw.join("retrans_bytes"), hw.join("fresh"));
    let grow = |to: u64| {
        std::fs::write(&fresh, format!("{to}\n")).unwrap();
        std::fs::rename(&fresh, &counter).unwrap();
    };
    grow(130);
    for name in ["one", "two"] {
        Made::new().write(&files, name);
    }
    for words in [&["--json"][..], &[]] {
        let top = Command::new(env!("CARGO_BIN_EXE_ofi"))
            .args(["top", "--interval", "0.05", "--root"])
            .arg(&root)
            .args(words)
            .env("OFI_NCCL_STATS_DIR", &files)
            .stdout(std::process::Stdio::piped())
            .spawn();
        let mut top = top.unwrap();
        let lines = std::io::BufRead::lines(std::io::BufReader::new(top.stdout.take().unwrap()));
        let mut to = 130;
        let seen = lines.map(Result::unwrap).find(|line| {
            to += 1000;
            grow(to);
            line.contains("retrans_bytes")
        });
        top.kill().unwrap();
        top.wait().unwrap();
        let seen = seen.unwrap();
        if words.is_empty() {
            assert!(seen.contains("rdmap0s6"), "{seen}");
            continue;
        }
        let look: Value = serde_json::from_str(&seen).unwrap();
        let nics = look["nics"].as_array().unwrap();
        assert_eq!(nics.len(), 1, "{look}");
        assert_eq!(nics[0]["nic"], "rdmap0s6");
        assert!(nics[0]["per_s"].as_f64().unwrap() > 0.0, "{look}");
    }
}
