//! The file of counters: what it says is what happened, whatever became of its process.
#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use common::{
    Buffer, Side, config, connect, finish, in_one_process, irecv, isend, on_each_provider,
    on_providers, pattern, sendrecv,
};
use ofi_net::Config;
use ofi_net::log::Level;
use ofi_trace::stats::{Side as Way, Snapshot, Total};
use std::path::Path;

fn counted(dir: &Path, config: Config) -> Config {
    std::fs::create_dir_all(dir).unwrap();
    Config {
        stats_dir: Some(dir.display().to_string()),
        ..config
    }
}

/// The one file of a directory.
fn read(dir: &Path) -> Snapshot {
    let mut files = std::fs::read_dir(dir).unwrap();
    let path = files.next().unwrap().unwrap().path();
    assert!(files.next().is_none());
    Snapshot::read(&std::fs::read(path).unwrap()).unwrap()
}

const LENS: [usize; 5] = [0, 8, 5000, 300_000, 1 << 20];

/// Moves a message of each length; the sum of their bytes.
fn messages(a: &Side, b: &Side, (send, recv): (ofi_net::CommWord, ofi_net::CommWord)) -> u64 {
    let mut source = Buffer::new(&a.net, send, pattern(1, 1 << 20));
    let mut sink = Buffer::new(&b.net, recv, vec![0; 1 << 20]);
    for len in LENS {
        let sent = isend(&a.net, send, &mut source, 0, len);
        let received = irecv(&b.net, recv, &mut sink, 0, 1 << 20);
        assert_eq!(
            finish(&a.net, sent, &b.net, received),
            (len as u64, len as u64)
        );
    }
    source.free(&a.net, send);
    sink.free(&b.net, recv);
    LENS.iter().sum::<usize>() as u64
}

fn file_agrees(config: Config) {
    let dir = tempfile::tempdir().unwrap();
    let (of_a, of_b) = (dir.path().join("a"), dir.path().join("b"));
    let a = Side::new(counted(&of_a, config.clone()));
    let b = Side::new(counted(&of_b, config));
    let kept = connect(&a.net, &b.net);
    let closed = connect(&a.net, &b.net);
    let bytes = messages(&a, &b, kept) + messages(&a, &b, closed);
    // A close brings the files up to date, for those that stay open too.
    a.net.close_send(closed.0).unwrap();
    b.net.close_recv(closed.1).unwrap();
    let (sent, received) = (read(&of_a), read(&of_b));
    totals_are(&sent, &received, bytes);
    for (side, way) in [(&sent, Way::Send), (&received, Way::Recv)] {
        one_is_open(side, way, bytes / 2);
    }
    assert!(!sent.comms[0].peer.is_empty());
    let (count, each) = (LENS.len(), bytes / 2);
    says(&a, &format!("closed: sent {count} messages"));
    says(
        &b,
        &format!("closed: received {count} messages, {each} bytes"),
    );
    let log = std::sync::Arc::clone(&a.log);
    drop(a);
    let last = log.at(Level::Info).pop().unwrap();
    let count = 2 * count;
    assert!(
        last.contains(&format!("closed: sent {count} messages")),
        "{last}"
    );
    let sent = read(&of_a);
    assert!(sent.ended && sent.comms.is_empty() && sent.comms_open == 0);
    assert_eq!(sent.total(Total::BytesSent), bytes);
}

/// Both sides count all messages, and the rails of the sender all bytes.
fn totals_are(sent: &Snapshot, received: &Snapshot, bytes: u64) {
    let count = 2 * LENS.len() as u64;
    assert_eq!(sent.pid, std::process::id());
    assert!(!sent.ended && sent.start_ticks > 0 && sent.updated_ms >= sent.opened_ms);
    let of = |side: &Snapshot, totals: [Total; 2]| totals.map(|total| side.total(total));
    assert_eq!(of(sent, [Total::Sends, Total::BytesSent]), [count, bytes]);
    let arrived = of(received, [Total::Recvs, Total::BytesReceived]);
    assert_eq!(arrived, [count, bytes]);
    let on_rails = sent.rails.iter().map(|rail| rail.bytes_sent);
    assert_eq!(on_rails.sum::<u64>(), bytes);
    let segments: u64 = sent.rails.iter().map(|rail| rail.segments).sum();
    let eager = sent.total(Total::EagerSends);
    assert_eq!(segments, sent.total(Total::Segments));
    assert!(
        segments + eager >= count,
        "{segments} and {eager} of {count}"
    );
}

/// One communicator is left, with its messages; two buffers were registered for each of two.
fn one_is_open(side: &Snapshot, way: Way, bytes: u64) {
    assert_eq!((side.comms_open, side.comms_ever, side.torn), (1, 2, 0));
    let [comm] = side.comms.as_slice() else {
        panic!("{:?}", side.comms);
    };
    let messages = LENS.len() as u64;
    assert_eq!(
        (comm.side, comm.bytes, comm.messages),
        (way, bytes, messages)
    );
    assert_eq!(comm.outstanding, 0);
    let bad = [Total::Errors, Total::Strays, Total::RegFailures];
    assert_eq!(bad.map(|total| side.total(total)), [0; 3]);
    assert!(side.total(Total::RegRequests) >= 2);
    let served = side.total(Total::Registrations) + side.total(Total::RegHits);
    assert_eq!(served, side.total(Total::RegRequests));
    assert!(side.rails.iter().all(|rail| rail.completions > 0));
}

fn says(side: &Side, what: &str) {
    let lines = side.log.at(Level::Info);
    assert!(
        lines.iter().any(|line| line.contains(what)),
        "{what}: {lines:#?}"
    );
}

#[test]
fn the_file_says_what_was_sent() {
    in_one_process("the_file_says_what_was_sent", || file_agrees(config(2)));
}

#[test]
fn the_file_says_what_was_sent_over_sendrecv() {
    in_one_process("the_file_says_what_was_sent_over_sendrecv", || {
        file_agrees(sendrecv());
    });
}

/// What came in is by rail too. On EFA: TCP of libfabric 1.17 tells no lengths of writes.
fn what_one_sent_the_other_got() {
    let dir = tempfile::tempdir().unwrap();
    let (of_a, of_b) = (dir.path().join("a"), dir.path().join("b"));
    let (a, b) = (
        Side::new(counted(&of_a, config(2))),
        Side::new(counted(&of_b, config(2))),
    );
    let comms = connect(&a.net, &b.net);
    messages(&a, &b, comms);
    a.net.close_send(comms.0).unwrap();
    b.net.close_recv(comms.1).unwrap();
    let (sent, received) = (read(&of_a), read(&of_b));
    assert!(received.rails.len() == 2 && sent.rails.len() == 2);
    for (from, to) in sent.rails.iter().zip(&received.rails) {
        assert_eq!((from.rail, from.bytes_sent), (to.rail, to.bytes_received));
    }
}

#[test]
fn bytes_of_a_rail_are_the_same_on_both_sides() {
    let name = "bytes_of_a_rail_are_the_same_on_both_sides";
    on_providers(
        name,
        |provider| provider == "efa",
        what_one_sent_the_other_got,
    );
}

/// More communicators than there is room for: totals stay exact, and a slot is used again.
fn slots_are_used_again() {
    let dir = tempfile::tempdir().unwrap();
    let of_a = dir.path().join("a");
    let (a, b) = (Side::new(counted(&of_a, config(1))), Side::new(config(1)));
    let many: Vec<_> = (0..520).map(|_| connect(&a.net, &b.net)).collect();
    let bytes = messages(&a, &b, many[519]);
    a.net.close_send(many[0].0).unwrap();
    let seen = read(&of_a);
    assert_eq!(
        (seen.comms_open, seen.comms_ever, seen.comms_unseen),
        (519, 520, 8)
    );
    assert_eq!(
        (seen.comms.len(), seen.total(Total::BytesSent)),
        (511, bytes)
    );
    let more = connect(&a.net, &b.net);
    let bytes = bytes + messages(&a, &b, more);
    for (send, _) in many.iter().skip(1) {
        a.net.close_send(*send).unwrap();
    }
    let seen = read(&of_a);
    assert_eq!(
        (seen.comms_open, seen.comms_ever, seen.comms_unseen),
        (1, 521, 0)
    );
    let [comm] = seen.comms.as_slice() else {
        panic!("{:?}", seen.comms);
    };
    assert_eq!(
        (comm.messages, seen.total(Total::BytesSent)),
        (LENS.len() as u64, bytes)
    );
}

#[test]
fn more_communicators_than_slots_are_counted() {
    in_one_process(
        "more_communicators_than_slots_are_counted",
        slots_are_used_again,
    );
}

fn cannot_be_made() {
    let dir = tempfile::tempdir().unwrap();
    // Below a file there is no directory.
    let file = dir.path().join("a_file");
    std::fs::write(&file, "").unwrap();
    let missing = file.join("missing").display().to_string();
    let side = Side::new(Config {
        stats_dir: Some(missing),
        ..config(1)
    });
    let warnings = side.log.at(Level::Warn);
    assert!(
        warnings.len() == 1 && warnings[0].contains("OFI-W0215") && warnings[0].contains("missing"),
        "{warnings:?}"
    );
    let (listener, _) = common::listen(&side.net);
    side.net.close_listen(listener).unwrap();
}

#[test]
fn a_file_that_cannot_be_made_is_a_warning_and_the_job_runs() {
    let name = "a_file_that_cannot_be_made_is_a_warning_and_the_job_runs";
    on_each_provider(name, cannot_be_made);
}

/// A disk without room: a file system of 64 KiB, where this process may mount one. Nothing of the file is left,
/// and nobody is killed by it later.
fn no_room() {
    // SAFETY: unshare(2) with these flags changes what this process alone, a child made for this test, sees.
    let apart = unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS) } == 0;
    let dir = tempfile::tempdir().unwrap();
    let path = std::ffi::CString::new(dir.path().display().to_string()).unwrap();
    let (kind, options) = (c"tmpfs", c"size=64k");
    // SAFETY: mount(2) takes strings with an end; in a mount namespace of our own.
    let mounted = apart
        && unsafe {
            libc::mount(
                kind.as_ptr(),
                path.as_ptr(),
                kind.as_ptr(),
                0,
                options.as_ptr().cast(),
            )
        } == 0;
    if !mounted {
        return common::say("skipped: a full disk (this machine lets nobody mount one)");
    }
    let side = Side::new(counted(dir.path(), config(1)));
    let warnings = side.log.at(Level::Warn);
    assert!(
        warnings.len() == 1 && warnings[0].contains("OFI-W0215"),
        "{warnings:?}"
    );
    assert!(warnings[0].contains("No space left"), "{warnings:?}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    let (listener, _) = common::listen(&side.net);
    side.net.close_listen(listener).unwrap();
}

#[test]
fn a_full_disk_is_a_warning_and_the_job_runs() {
    in_one_process("a_full_disk_is_a_warning_and_the_job_runs", no_room);
}

/// A child of a fork that ends leaves the numbers of its parent alone.
fn a_child_ends() {
    let dir = tempfile::tempdir().unwrap();
    let of_a = dir.path().join("a");
    let (a, b) = (Side::new(counted(&of_a, config(1))), Side::new(config(1)));
    let comms = connect(&a.net, &b.net);
    let bytes = messages(&a, &b, comms);
    // SAFETY: the child drops a transport, which touches nothing there, and leaves by _exit(2).
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork failed");
    if child == 0 {
        drop(a);
        // SAFETY: _exit(2) takes any status and does not return.
        unsafe { libc::_exit(0) };
    }
    let mut status = 1;
    // SAFETY: waitpid(2) writes one int.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
    let seen = read(&of_a);
    assert!(!seen.ended && seen.comms_open == 1);
    a.net.close_send(comms.0).unwrap();
    let seen = read(&of_a);
    assert_eq!((seen.comms_open, seen.total(Total::BytesSent)), (0, bytes));
}

#[test]
fn a_forked_child_leaves_the_file_alone() {
    in_one_process("a_forked_child_leaves_the_file_alone", a_child_ends);
}

/// What a NIC counts itself, in a tree that stands for sysfs.
fn of_the_nic() {
    let dir = tempfile::tempdir().unwrap();
    let (root, of_a) = (dir.path().join("root"), dir.path().join("a"));
    let of_b = dir.path().join("b");
    let first = Side::new(counted(&of_b, config(1)));
    common::listen(&first.net);
    let nic = read(&of_b).rails.remove(0).nic;
    let hw = root
        .join("sys/class/infiniband")
        .join(&nic)
        .join("ports/1/hw_counters");
    std::fs::create_dir_all(&hw).unwrap();
    std::fs::write(hw.join("retrans_bytes"), "1000\n").unwrap();
    std::fs::write(hw.join("rx_drops"), "garbage").unwrap();
    let config = Config {
        fs_root: root,
        ..config(1)
    };
    let side = Side::new(counted(&of_a, config));
    let (listener, _) = common::listen(&side.net);
    std::fs::write(hw.join("retrans_bytes"), "1017\n").unwrap();
    side.net.close_listen(listener).unwrap();
    drop(side);
    let seen = read(&of_a);
    let found: Vec<_> = seen.rails[0]
        .hw
        .iter()
        .map(|hw| (hw.name.as_str(), hw.base, hw.last))
        .collect();
    assert_eq!(found, [("retrans_bytes", 1000, 1017)]);
    assert_eq!(seen.rails[0].nic, nic);
}

#[test]
fn what_the_nic_counts_is_kept_with_what_it_was_at_first() {
    let name = "what_the_nic_counts_is_kept_with_what_it_was_at_first";
    in_one_process(name, of_the_nic);
}
