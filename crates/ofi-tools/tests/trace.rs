//! `ofi trace` as it is called.
#![expect(clippy::unwrap_used, reason = "test code")]

use ofi_net::dump::{Domain, Dump, Process, Reason, SCHEMA, TOOL, Trace};
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
        shown.contains("op=1 d0 data0 writedata of 100 B to peer1, posted at 0.002000"),
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

/// What a domain kept: records with their times, and how many were before them.
fn kept(lost: u64, records: &[(u64, Record<'_>)]) -> Trace {
    let encoded = records.iter().map(|&(at_ns, record)| {
        let mut bytes = Vec::new();
        let stamped = Stamped {
            at_ns,
            domain: 0,
            lane: Lane::data(0),
            record,
        };
        stamped.encode(&mut bytes);
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    });
    Trace {
        started_unix_ns: 1_000_000,
        lost,
        records: encoded.collect(),
    }
}

/// The dump of a process of that number, with a domain for each of `traces`.
fn dump(pid: u32, at_unix_ms: u64, traces: Vec<Option<Trace>>) -> Vec<u8> {
    let domain = |(nth, trace): (usize, Option<Trace>)| Domain {
        label: format!("device {nth} (eth{nth})"),
        seq_modulus: 1024,
        trace,
        ..Domain::default()
    };
    let dump = Dump {
        tool: TOOL.to_owned(),
        schema: SCHEMA,
        version: String::new(),
        reason: Reason::Trigger,
        at_unix_ms,
        answers_ns: None,
        dir_inode: 7,
        process: Process {
            pid,
            start_ticks: 1,
            host: "n1".to_owned(),
            rank: Some(0),
            world: None,
        },
        libfabric: String::new(),
        protocol: "RDMA".to_owned(),
        stall_warn_ms: None,
        stall_fail_ms: None,
        devices: Vec::new(),
        nics: Vec::new(),
        domains: traces.into_iter().enumerate().map(domain).collect(),
    };
    serde_json::to_vec_pretty(&dump).unwrap()
}

#[test]
fn a_dump_is_shown_as_a_trace_is() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("ofi-dump-n1-8-1.json");
    let name = [2, 0, 0x11, 0x51, 10, 0, 0, 9];
    let names = [
        Record::Endpoint {
            name: &name,
            format: 2,
        },
        Record::Peer {
            peer: 1,
            name: &name,
        },
    ];
    let first = kept(41, &[(2000, names[0]), (2000, names[1]), (2000, WRITE)]);
    let third = kept(0, &[(1000, SEGMENT), (9000, Record::Done { token: 99 })]);
    std::fs::write(&file, dump(8, 1, vec![Some(first), None, Some(third)])).unwrap();
    for path in [file.as_path(), dir.path()] {
        let output = ofi(&[], &[path]);
        assert!(output.status.success(), "{output:?}");
        let shown = text(&output.stdout);
        let lines: Vec<_> = shown.lines().collect();
        for (line, words) in [
            (0, "n1:8 d2 data0 < segment    nseg=1"),
            (3, "n1:8 d0 data0 > writedata"),
            (3, "peer=10.0.0.9:4433 op=1"),
            // Its post is among those that made room.
            (4, "n1:8 d2 data0 . done       token=0x63"),
        ] {
            assert!(lines[line].contains(words), "{words}: {shown}");
        }
        for words in [
            "== n1:8 (dump of process 8 on n1, device 0 (eth0))",
            "the last records; 41 before them are not kept",
            "operations that never completed: 1",
            "op=1 d0 data0 writedata of 100 B to 10.0.0.9:4433",
            "device 2 (eth2)",
        ] {
            assert!(shown.contains(words), "{words}: {shown}");
        }
    }
    let output = ofi(&["--chrome"], &[&file]);
    let whole: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let events = whole["traceEvents"].as_array().unwrap();
    assert!(
        events
            .iter()
            .any(|event| event["name"] == "writedata" && event["ph"] == "b")
    );
}

/// A process writes several dumps, whose records overlap; a wire trace may be beside them.
#[test]
fn of_a_process_the_newest_dump_is_shown() {
    let dir = tempfile::tempdir().unwrap();
    let names = [
        "ofi-dump-n1-8-1.json",
        "ofi-dump-n1-8-2.json",
        "ofi-dump-n1-9-1.json",
        "trace",
    ];
    let files = names.map(|name| dir.path().join(name));
    let once = |records| vec![Some(kept(0, records))];
    std::fs::write(&files[0], dump(8, 1, once(&[(1, SEGMENT)]))).unwrap();
    std::fs::write(&files[1], dump(8, 2, once(&[(1, SEGMENT), (2, SEGMENT)]))).unwrap();
    std::fs::write(&files[2], dump(9, 1, once(&[(3, SEGMENT)]))).unwrap();
    std::fs::write(&files[3], trace("n2", 1_000_004, &[(0, SEGMENT)])).unwrap();
    let output = ofi(
        &["--json"],
        &files.each_ref().map(std::path::PathBuf::as_path),
    );
    assert!(output.status.success(), "{output:?}");
    let who: Vec<String> = text(&output.stdout)
        .lines()
        .map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            line["who"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(who, ["n1:8", "n1:8", "n1:9", "n2:7"]);
}

/// A rank that was killed while it wrote leaves half a file among those of all others.
#[test]
fn what_is_damaged_keeps_nothing_else_from_being_shown() {
    let dir = tempfile::tempdir().unwrap();
    let good = dump(8, 1, vec![Some(kept(0, &[(1, SEGMENT)]))]);
    let write = |name: &str, bytes: &[u8]| {
        let file = dir.path().join(name);
        std::fs::write(&file, bytes).unwrap();
        file
    };
    let whole = write("ofi-dump-n1-8-1.json", &good);
    let half = write("ofi-dump-n1-9-1.json", &good[..good.len() / 2]);
    let other = dir.path().join("other");
    std::fs::write(&other, b"something else").unwrap();
    let missing = dir.path().join("missing");
    for files in [
        vec![dir.path()],
        vec![&whole, &half],
        vec![&half, &whole],
        vec![&other, &whole],
        vec![&missing, &whole],
    ] {
        let output = ofi(&[], &files);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(
            text(&output.stdout).contains("n1:8 d0 data0 < segment"),
            "{output:?}"
        );
        let refused = files.iter().find(|file| **file != whole).unwrap();
        let refused = if *refused == dir.path() {
            &half
        } else {
            *refused
        };
        let told = text(&output.stderr);
        assert!(told.contains(&refused.display().to_string()), "{told}");
    }
    std::fs::remove_file(&whole).unwrap();
    let output = ofi(&[], &[dir.path()]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

#[test]
fn a_dump_without_records_and_one_that_is_damaged_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let with = |records: &[&str]| {
        let records = records.iter().map(|&record| record.to_owned()).collect();
        let trace = Trace {
            started_unix_ns: u64::MAX,
            lost: u64::MAX,
            records,
        };
        dump(8, 1, vec![Some(trace)])
    };
    let unknown = "1000ee000000000001000000000000000000";
    let cases: [(&str, Vec<u8>, i32, &str); 6] = [
        (
            "none",
            dump(8, 1, vec![None]),
            2,
            "OFI_NCCL_TRACE_RING was not set",
        ),
        ("text", with(&["xyz"]), 2, "a damaged dump"),
        ("cut", with(&["ff00"]), 2, "a damaged dump"),
        ("short", with(&["0400ffff"]), 1, "damaged at byte 0"),
        (
            "other",
            b"{\"tool\": \"else\"}".to_vec(),
            2,
            "JSON of something else",
        ),
        ("deep", "[".repeat(100_000).into_bytes(), 2, "no state dump"),
    ];
    for (name, bytes, status, words) in cases {
        let file = dir.path().join(name);
        std::fs::write(&file, bytes).unwrap();
        let output = ofi(&[], &[&file]);
        assert_eq!(output.status.code(), Some(status), "{name}: {output:?}");
        assert!(text(&output.stderr).contains(words), "{name}: {output:?}");
    }
    let file = dir.path().join("unknown");
    std::fs::write(&file, with(&[&unknown[..32]])).unwrap();
    let output = ofi(&[], &[&file]);
    assert!(output.status.success(), "{output:?}");
    assert!(text(&output.stdout).contains("1 records of kinds that this version does not know"));
}
