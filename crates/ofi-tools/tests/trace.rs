//! `ofi trace` as it is called.
#![expect(clippy::unwrap_used, reason = "test code")]

use ofi_trace::{Header, Lane, Op, Outcome, Record, Stamped};
use std::path::Path;
use std::process::{Command, Output};

fn ofi(args: &[&str], files: &[&Path]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ofi"));
    command
        .arg("trace")
        .args(args)
        .args(files)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> &str {
    core::str::from_utf8(bytes).unwrap()
}

fn trace(host: &str, started_unix_ns: u64, records: &[(u64, Record<'_>)]) -> Vec<u8> {
    let header = Header {
        pid: 7,
        started_unix_ns,
        host: host.to_owned(),
    };
    let mut bytes = Vec::new();
    header.encode(&mut bytes);
    for &(at_ns, record) in records {
        let stamped = Stamped {
            at_ns,
            domain: 0,
            lane: Lane::data(0),
            record,
        };
        stamped.encode(&mut bytes);
    }
    bytes
}

const WRITE: Record<'_> = Record::Post {
    op: Op::WriteData,
    outcome: Outcome::Accepted,
    token: 5,
    peer: 1,
    len: 100,
    data: 0x1000_0400,
    remote_addr: 64,
    remote_key: 3,
    message: &[],
};

const SEGMENT: Record<'_> = Record::RemoteWrite {
    data: 0x1000_0400,
    len: Some(100),
};

#[test]
fn two_hosts_are_one_list_in_the_order_of_time() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    std::fs::write(
        &a,
        trace(
            "n1",
            1000,
            &[(2000, WRITE), (9000, Record::Done { token: 5 })],
        ),
    )
    .unwrap();
    std::fs::write(&b, trace("n2", 2000, &[(5000, SEGMENT)])).unwrap();
    let output = ofi(&[], &[&b, &a]);
    assert!(output.status.success(), "{output:?}");
    let lines: Vec<_> = text(&output.stdout).lines().take(3).collect();
    assert!(lines[0].contains("n1:7 d0 data0 > writedata"), "{lines:?}");
    assert!(
        lines[1].contains("n2:7 d0 data0 < segment    nseg=1 receiver=1 seq=0 bytes=100"),
        "{lines:?}"
    );
    assert!(
        lines[2].contains(". done       op=1 was=writedata us=7"),
        "{lines:?}"
    );
}

#[test]
fn what_never_completed_is_in_the_summary() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a");
    std::fs::write(&file, trace("n1", 0, &[(2_000_000, WRITE)])).unwrap();
    let output = ofi(&["--summary"], &[&file]);
    let shown = text(&output.stdout);
    assert!(
        shown.contains("operations that never completed: 1"),
        "{shown}"
    );
    assert!(
        shown.contains("op=1 d0 data0 writedata of 100 B to self, posted at 0.002000"),
        "{shown}"
    );
    assert!(!shown.contains("> writedata"), "{shown}");
}

#[test]
fn json_is_one_object_a_line() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a");
    std::fs::write(&file, trace("n1", 0, &[(1, WRITE), (2, SEGMENT)])).unwrap();
    let output = ofi(&["--json"], &[&file]);
    let lines: Vec<serde_json::Value> = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(
        (&lines[0]["what"], &lines[1]["bytes"]),
        (&"writedata".into(), &100.into())
    );
}

#[test]
fn what_cannot_be_read_is_told_by_words_and_status() {
    let dir = tempfile::tempdir().unwrap();
    let [missing, other, damaged, cut] =
        ["missing", "other", "damaged", "cut"].map(|n| dir.path().join(n));
    std::fs::write(&other, b"something else").unwrap();
    let good = trace("n1", 0, &[(1, SEGMENT)]);
    std::fs::write(&damaged, [&good[..], &[3, 0, 0, 0]].concat()).unwrap();
    std::fs::write(&cut, &good[..good.len() - 1]).unwrap();
    let cases = [
        (&missing, 2, "No such file"),
        (&other, 2, "not a trace"),
        (&damaged, 1, "damaged at byte"),
    ];
    for (file, status, words) in cases {
        let output = ofi(&[], &[file]);
        assert_eq!(output.status.code(), Some(status), "{output:?}");
        assert!(text(&output.stderr).contains(words), "{output:?}");
    }
    let output = ofi(&["--summary"], &[&cut]);
    assert!(
        output.status.success() && text(&output.stdout).contains("cut off"),
        "{output:?}"
    );
}

/// What Perfetto loads: one object, names for each process and track, a beginning and an end for each
/// operation, with the time between them.
#[test]
fn chrome_has_a_bar_for_each_operation() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    let done = Record::Done { token: 5 };
    std::fs::write(&a, trace("n1", 1_000_000, &[(1000, WRITE), (4500, done)])).unwrap();
    std::fs::write(&b, trace("n2", 1_000_000, &[(2000, SEGMENT)])).unwrap();
    let output = ofi(&["--chrome"], &[&a, &b]);
    assert!(output.status.success(), "{output:?}");
    let whole: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let events = whole["traceEvents"].as_array().unwrap();
    let of = |ph: &str| -> Vec<&serde_json::Value> {
        events.iter().filter(|event| event["ph"] == ph).collect()
    };
    let (begins, ends, instants) = (of("b"), of("e"), of("i"));
    assert_eq!((begins.len(), ends.len(), instants.len()), (1, 1, 1));
    for field in ["name", "cat", "id2", "pid", "tid"] {
        assert_eq!(begins[0][field], ends[0][field], "{field}");
    }
    assert_eq!(begins[0]["name"], "writedata");
    let (from, to) = (
        begins[0]["ts"].as_f64().unwrap(),
        ends[0]["ts"].as_f64().unwrap(),
    );
    assert!((to - from - 3.5).abs() < 1e-6, "microseconds: {from} {to}");
    assert_eq!(instants[0]["name"], "segment");
    assert_ne!(instants[0]["pid"], begins[0]["pid"]);
    let names: Vec<_> = of("M")
        .iter()
        .map(|event| event["args"]["name"].clone())
        .collect();
    for name in ["n1:7", "n2:7", "d0 data0"] {
        assert!(names.iter().any(|found| found == name), "{name}: {names:?}");
    }
}
