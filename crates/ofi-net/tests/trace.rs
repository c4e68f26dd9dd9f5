//! The wire trace: what one side says it sent is what the other says it got.
#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use common::{Buffer, Side, config, connect, finish, in_one_process, irecv, isend, pattern};
use ofi_net::log::Level;
use ofi_net::{Config, TraceConfig};
use ofi_trace::{Op, Outcome, Reader, Record, Stamped};
use std::collections::BTreeMap;
use std::path::Path;

fn traced(dir: &Path, name: &str) -> Config {
    Config {
        trace: Some(TraceConfig {
            file: dir.join(format!("{name}-%p")).display().to_string(),
            bytes_max: 64 << 20,
        }),
        ..config(2)
    }
}

/// Moves messages of each kind; then both sides are closed.
fn run(dir: &Path) {
    let (a, b) = (Side::new(traced(dir, "a")), Side::new(traced(dir, "b")));
    let (send, recv) = connect(&a.net, &b.net);
    let mut source = Buffer::new(&a.net, send, pattern(1, 1 << 20));
    let mut sink = Buffer::new(&b.net, recv, vec![0; 1 << 20]);
    for len in [0, 8, 5000, 300_000, 1 << 20] {
        let sent = isend(&a.net, send, &mut source, 0, len);
        let received = irecv(&b.net, recv, &mut sink, 0, 1 << 20);
        let len = len as u64;
        assert_eq!(finish(&a.net, sent, &b.net, received), (len, len));
    }
    source.free(&a.net, send);
    sink.free(&b.net, recv);
    a.net.close_send(send).unwrap();
    b.net.close_recv(recv).unwrap();
}

fn file(dir: &Path, name: &str) -> Vec<u8> {
    std::fs::read(dir.join(format!("{name}-{}", std::process::id()))).unwrap()
}

fn records(bytes: &[u8]) -> Vec<Stamped<'_>> {
    let (header, reader) = Reader::open(bytes).unwrap();
    assert_eq!(header.pid, std::process::id());
    reader.map(Result::unwrap).collect()
}

/// What was posted and taken by the provider, in order.
fn posted(records: &[Stamped<'_>], wanted: Op) -> Vec<(u64, u64)> {
    let taken = records.iter().filter_map(|stamped| match stamped.record {
        Record::Post {
            op,
            outcome: Outcome::Accepted | Outcome::Injected,
            len,
            data,
            ..
        } if op == wanted => Some((len, data)),
        _ => None,
    });
    taken.collect()
}

fn messages<'a>(records: &[Stamped<'a>], sent: bool) -> Vec<&'a [u8]> {
    let found = records.iter().filter_map(|stamped| match stamped.record {
        Record::Post {
            op: Op::Control,
            outcome: Outcome::Accepted | Outcome::Injected,
            message,
            ..
        } if sent => Some(message),
        Record::Control { message } if !sent => Some(message),
        _ => None,
    });
    let mut found: Vec<_> = found.collect();
    // The rails overtake each other.
    found.sort_unstable();
    found
}

fn both_views_agree() {
    let dir = tempfile::tempdir().unwrap();
    run(dir.path());
    let (a, b) = (file(dir.path(), "a"), file(dir.path(), "b"));
    let (a, b) = (records(&a), records(&b));
    assert!(messages(&a, true).len() == 1, "CONN");
    assert_eq!(messages(&b, true).len(), 1 + 5, "CONN_RESP and five CTRL");
    assert_eq!(messages(&a, true), messages(&b, false));
    assert_eq!(messages(&b, true), messages(&a, false));
    let segments = b.iter().filter_map(|stamped| match stamped.record {
        Record::RemoteWrite { data, .. } => Some(data),
        Record::Eager { data, .. } => Some(data),
        _ => None,
    });
    let mut arrived: Vec<u64> = segments.collect();
    let mut sent: Vec<u64> = posted(&a, Op::WriteData)
        .into_iter()
        .chain(posted(&a, Op::Eager))
        .map(|(_, data)| data)
        .collect();
    arrived.sort_unstable();
    sent.sort_unstable();
    assert_eq!(arrived, sent);
    let bytes = |op| posted(&a, op).iter().map(|(len, _)| len).sum::<u64>();
    assert_eq!(
        bytes(Op::WriteData) + bytes(Op::Eager),
        8 + 5000 + 300_000 + (1 << 20)
    );
    for side in [&a, &b] {
        every_operation_ends(side);
    }
}

/// Each operation that the provider took has one completion, later and on the same lane.
fn every_operation_ends(records: &[Stamped<'_>]) {
    let mut open = BTreeMap::new();
    for stamped in records {
        match stamped.record {
            Record::Post {
                outcome: Outcome::Accepted,
                token,
                ..
            } => assert_eq!(open.insert(token, (stamped.lane, stamped.at_ns)), None),
            Record::Done { token } => {
                let (lane, at_ns) = open.remove(&token).unwrap();
                assert_eq!(lane, stamped.lane);
                assert!(at_ns <= stamped.at_ns);
            }
            Record::Failed { .. } | Record::Full => panic!("{stamped:?}"),
            _ => {}
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn what_one_side_sent_the_other_got() {
    in_one_process("what_one_side_sent_the_other_got", both_views_agree);
}

/// The same over SENDRECV: a connect message and three messages, all of them on one lane.
fn sendrecv_views_agree() {
    let dir = tempfile::tempdir().unwrap();
    let sides = ["a", "b"].map(|name| {
        Side::new(Config {
            protocol: Some(ofi_net::config::Protocol::SendRecv),
            force_num_rails: None,
            ..traced(dir.path(), name)
        })
    });
    let [a, b] = &sides;
    let (send, recv) = connect(&a.net, &b.net);
    let mut source = Buffer::new(&a.net, send, pattern(1, 300_000));
    let mut sink = Buffer::new(&b.net, recv, vec![0; 300_000]);
    for len in [0, 8, 300_000] {
        let sent = isend(&a.net, send, &mut source, 0, len);
        let received = irecv(&b.net, recv, &mut sink, 0, 300_000);
        let len = len as u64;
        assert_eq!(finish(&a.net, sent, &b.net, received), (len, len));
    }
    let (a, b) = (file(dir.path(), "a"), file(dir.path(), "b"));
    let (a, b) = (records(&a), records(&b));
    let arrived = b.iter().filter_map(|stamped| match stamped.record {
        Record::Tagged { tag, len, .. } => Some((len, tag)),
        _ => None,
    });
    let arrived: Vec<_> = arrived.collect();
    assert_eq!(
        arrived.iter().map(|&(len, _)| len).collect::<Vec<_>>(),
        [80, 0, 8, 300_000]
    );
    assert_eq!(posted(&a, Op::TaggedSend), arrived);
}

#[test]
fn what_one_side_sent_the_other_got_over_sendrecv() {
    let name = "what_one_side_sent_the_other_got_over_sendrecv";
    in_one_process(name, sendrecv_views_agree);
}

fn not_writable() {
    let dir = tempfile::tempdir().unwrap();
    let side = Side::new(traced(&dir.path().join("missing"), "a"));
    let warnings = side.log.at(Level::Warn);
    assert!(
        warnings.len() == 1 && warnings[0].contains("OFI-W0205") && warnings[0].contains("missing"),
        "{warnings:?}"
    );
    let (peer, _) = common::listen(&side.net);
    side.net.close_listen(peer).unwrap();
}

#[test]
fn a_trace_that_cannot_be_written_is_a_warning_and_the_job_runs() {
    let name = "a_trace_that_cannot_be_written_is_a_warning_and_the_job_runs";
    common::on_each_provider(name, not_writable);
}

/// What a trace may take is used up: one warning with the file and the bound, whatever goes on after.
fn full() {
    let dir = tempfile::tempdir().unwrap();
    let mut small = traced(dir.path(), "a");
    small.trace.as_mut().unwrap().bytes_max = 2000;
    let side = Side::new(small);
    let (send, recv) = connect(&side.net, &side.net);
    let mut source = Buffer::new(&side.net, send, pattern(1, 5000));
    let mut sink = Buffer::new(&side.net, recv, vec![0; 5000]);
    for _ in 0..50 {
        let sent = isend(&side.net, send, &mut source, 0, 5000);
        let received = irecv(&side.net, recv, &mut sink, 0, 5000);
        assert_eq!(finish(&side.net, sent, &side.net, received), (5000, 5000));
    }
    let warnings = side.log.at(Level::Warn);
    let [line] = &warnings[..] else {
        panic!("{} warnings: {warnings:?}", warnings.len());
    };
    let file = dir.path().join(format!("a-{}", std::process::id()));
    for part in [
        "OFI-W0208",
        &file.display().to_string(),
        "; likely: ",
        "OFI_NCCL_TRACE_MAX, or",
    ] {
        assert!(line.contains(part), "{part}: {line}");
    }
    assert!(matches!(
        records(&std::fs::read(&file).unwrap())
            .last()
            .unwrap()
            .record,
        Record::Full
    ));
    source.free(&side.net, send);
    sink.free(&side.net, recv);
}

#[test]
fn a_full_trace_is_one_warning_and_the_job_runs() {
    in_one_process("a_full_trace_is_one_warning_and_the_job_runs", full);
}
