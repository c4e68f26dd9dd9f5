//! State dumps: written when something stalls, when they are asked for, and at the first error; and by
//! nobody else.
#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use common::{
    Buffer, Side, connect, finish, in_one_process, irecv, isend, listen, pattern, until,
    until_error,
};
use ofi_net::dump::{Comm, Domain, Dump, Kind, Reason, Stage, TRIGGER};
use ofi_net::log::Level;
use ofi_net::{Config, DumpConfig, Protocol};
use ofi_trace::{Op, Outcome, Reader, Record, Stamped};
use std::path::Path;
use std::time::UNIX_EPOCH;

fn dumping(dir: &Path, config: Config) -> Config {
    Config {
        stall_warn_ms: Some(300),
        dump: Some(DumpConfig {
            dir: dir.to_owned(),
            rank: Some(4),
            world: Some(9),
        }),
        ..config
    }
}

/// The dumps of a directory; whatever is there under a name of one is whole.
fn dumps(dir: &Path) -> Vec<Dump> {
    let entries = std::fs::read_dir(dir).into_iter().flatten();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .map(|path| serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap())
        .collect()
}

/// The newest dump for a reason, once there is one.
fn dump_for(dir: &Path, reason: Reason) -> Dump {
    until("a dump", || {
        let found = dumps(dir).into_iter().filter(|dump| dump.reason == reason);
        found.max_by_key(|dump| dump.at_unix_ms)
    })
}

fn of(protocol: Protocol) -> Config {
    match protocol {
        Protocol::Rdma => common::config(2),
        Protocol::SendRecv => common::sendrecv(),
    }
}

/// Changes the trigger: its time, as an answer has it.
fn ask(dir: &Path) -> u64 {
    std::fs::write(dir.join(TRIGGER), b"me").unwrap();
    let changed = std::fs::metadata(dir.join(TRIGGER)).unwrap().modified();
    let since = changed.unwrap().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(since.as_nanos()).unwrap()
}

/// A receive whose sender never sends: both sides poll; the one that waits says for whom, the other one,
/// which waits for nobody, is asked and answers.
fn stall(protocol: Protocol) {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [a, b] = [0, 1].map(|at| Side::new(dumping(dirs[at].path(), of(protocol))));
    let (send, recv) = connect(&a.net, &b.net);
    let mut source = Buffer::new(&a.net, send, pattern(1, 5000));
    let mut sink = Buffer::new(&b.net, recv, vec![0; 5000]);
    let received = irecv(&b.net, recv, &mut sink, 0, 5000);
    let test = || assert_eq!(b.net.test(received).unwrap(), None);
    let told = until("the dump of the stall", || {
        test();
        let mut stalls = dumps(dirs[1].path()).into_iter();
        let about = |dump: &Dump| {
            let mut comms = dump.domains.iter().flat_map(|domain| &domain.comms);
            dump.reason == Reason::Stall
                && comms.any(|comm| comm.kind == Kind::Recv && comm.idle_ms >= 300)
        };
        stalls.rfind(about)
    });
    assert_eq!((told.process.rank, told.process.world), (Some(4), Some(9)));
    assert_eq!(told.process.pid, std::process::id());
    assert_eq!(told.protocol, protocol.to_string());
    assert!(!told.libfabric.is_empty() && !told.devices.is_empty());
    let comms: Vec<_> = told
        .domains
        .iter()
        .flat_map(|domain| &domain.comms)
        .collect();
    let stuck = comms.iter().find(|comm| comm.kind == Kind::Recv).unwrap();
    let oldest = stuck.oldest.as_ref().unwrap();
    assert_eq!((stuck.stage, stuck.next_seq), (Some(Stage::AwaitData), 1));
    assert_eq!((oldest.seq, oldest.bytes), (Some(0), 5000));
    assert!(stuck.idle_ms >= 300 && oldest.age_ms >= 300, "{stuck:?}");
    // The other side tells of its start, and of the rest once it is asked.
    let starts = dumps(dirs[0].path()).into_iter();
    assert!(
        starts
            .map(|dump| dump.reason)
            .any(|reason| reason == Reason::Start)
    );
    let asked = ask(dirs[0].path());
    let other = until("an answer", || {
        let mut answers = dumps(dirs[0].path()).into_iter();
        // Or a later trigger: a stall of its own, on a machine that is busy, asks too.
        answers.find(|dump| dump.answers_ns >= Some(asked))
    });
    assert_ne!(other.reason, Reason::Start);
    let comms: Vec<_> = other
        .domains
        .iter()
        .flat_map(|domain| &domain.comms)
        .collect();
    let idle = comms.iter().find(|comm| comm.kind == Kind::Send).unwrap();
    assert_eq!((idle.stage, idle.next_seq, idle.outstanding), (None, 0, 0));
    // What one end says of the other is what that says of itself.
    let endpoints = other.domains.iter().flat_map(|domain| &domain.endpoints);
    let names: Vec<_> = endpoints.map(|end| &end.address).collect();
    assert!(
        names.contains(&stuck.peer.as_ref().unwrap()),
        "{stuck:?} of {names:?}"
    );
    assert_eq!((idle.id, idle.peer_id), (stuck.peer_id, stuck.id));
    // It was no failure: the message arrives.
    let sent = isend(&a.net, send, &mut source, 0, 5000);
    assert_eq!(finish(&a.net, sent, &b.net, received), (5000, 5000));
    let said = b.log.at(Level::Warn).join("\n");
    assert!(
        said.contains("OFI-W0609") && said.contains("receive communicator"),
        "{said}"
    );
    source.free(&a.net, send);
    sink.free(&b.net, recv);
}

#[test]
fn a_stall_is_dumped_and_who_is_asked_answers() {
    in_one_process("a_stall_is_dumped_and_who_is_asked_answers", || {
        stall(Protocol::Rdma);
    });
}

#[test]
fn sendrecv_is_dumped_as_well() {
    in_one_process("sendrecv_is_dumped_as_well", || stall(Protocol::SendRecv));
}

/// An accept that nobody connects to, and a receive that fails at its limit.
fn accept_and_error() {
    let dir = tempfile::tempdir().unwrap();
    let side = Side::new(Config {
        stall_fail_ms: Some(900),
        ..dumping(dir.path(), common::config(1))
    });
    let (listener, _) = listen(&side.net);
    let stalled = until("the dump of the accept", || {
        assert_eq!(side.net.accept(listener).unwrap(), None);
        let mut stalls = dumps(dir.path()).into_iter();
        stalls.find(|dump| dump.reason == Reason::Stall)
    });
    let mut comms = stalled.domains.iter().flat_map(|domain| &domain.comms);
    assert!(comms.any(|comm| comm.kind == Kind::Listener
        && comm.asked
        && comm.stage == Some(Stage::AwaitConn)));
    let peer = Side::new(common::config(1));
    let (send, recv) = connect(&peer.net, &side.net);
    let mut sink = Buffer::new(&side.net, recv, vec![0; 64]);
    let waiting = irecv(&side.net, recv, &mut sink, 0, 64);
    let error = until_error("the receive", || side.net.test(waiting));
    let failed = dump_for(dir.path(), Reason::Error);
    let mut comms = failed.domains.iter().flat_map(|domain| &domain.comms);
    let comm = comms.find(|comm| comm.failure.is_some()).unwrap();
    let failure = comm.failure.as_deref().unwrap();
    assert!(failure.contains("OFI-E0602"), "{failure} beside {error}");
    assert_eq!(comm.stage, Some(Stage::AwaitData));
    sink.free(&side.net, recv);
    peer.net.close_send(send).unwrap();
}

#[test]
fn accept_waits_and_the_first_error_are_dumped() {
    in_one_process(
        "accept_waits_and_the_first_error_are_dumped",
        accept_and_error,
    );
}

/// A listener whose owner never calls accept: the call that says so is the last one that is made, and the dump
/// of the error is there, with whom it was for. A connection to the same peer that is made later ends that.
fn connect_in_vain() {
    let dir = tempfile::tempdir().unwrap();
    let side = Side::new(Config {
        connect_timeout_ms: 300,
        ..dumping(dir.path(), common::config(1))
    });
    let peer = Side::new(common::config(1));
    let (listener, handle) = listen(&peer.net);
    let mut handle = handle;
    let error = until_error("connect", || side.net.connect(0, &mut handle));
    assert!(error.to_string().contains("OFI-E0402"), "{error}");
    let lost = |dump: &Dump| {
        let mut comms = dump.domains.iter().flat_map(|domain| &domain.comms);
        let text = |comm: &Comm| comm.failure.clone().unwrap_or_default();
        comms.find(|comm| text(comm).contains("OFI-E0402")).cloned()
    };
    let told = dumps(dir.path()).into_iter();
    let told = told.rev().find(|dump| dump.reason == Reason::Error);
    let lost_then = lost(&told.expect("a dump of the error")).expect("whom it was for");
    assert_eq!((lost_then.kind, lost_then.closed), (Kind::Send, true));
    assert_eq!(lost_then.state, "connecting");
    assert!(lost_then.peer.is_some());
    peer.net.close_listen(listener).unwrap();
    let (send, _recv) = connect(&side.net, &peer.net);
    let asked = ask(dir.path());
    let made = until("an answer", || {
        let (listener, _) = listen(&side.net);
        side.net.close_listen(listener).unwrap();
        let mut answers = dumps(dir.path()).into_iter();
        answers.find(|dump| dump.answers_ns >= Some(asked))
    });
    assert_eq!(lost(&made), None);
    side.net.close_send(send).unwrap();
}

#[test]
fn a_connection_that_was_not_made_is_in_the_dump_of_its_error() {
    in_one_process(
        "a_connection_that_was_not_made_is_in_the_dump_of_its_error",
        connect_in_vain,
    );
}

/// Records of a domain in a dump.
const RING: usize = 24;

fn remembering(dir: &Path, protocol: Protocol) -> Config {
    Config {
        trace_ring: RING,
        ..dumping(dir, of(protocol))
    }
}

/// The records of a domain, one after the other.
fn kept(domain: &Domain) -> Vec<u8> {
    domain.trace.as_ref().unwrap().to_bytes().unwrap()
}

/// Whether a dump is from after so many receives: on a machine that is busy the accept stalls too.
fn has_received(dump: &Dump, count: u32) -> bool {
    let mut comms = dump.domains.iter().flat_map(|domain| &domain.comms);
    comms.any(|comm| comm.kind == Kind::Recv && comm.next_seq == count)
}

/// Some hundred messages, and a receive that nobody sends to: the last records are there, those before made
/// room, and the end is what the receiver did last.
fn remembered(protocol: Protocol) {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (
        Side::new(of(protocol)),
        Side::new(remembering(dir.path(), protocol)),
    );
    let (send, recv) = connect(&a.net, &b.net);
    let mut source = Buffer::new(&a.net, send, pattern(1, 5000));
    let mut sink = Buffer::new(&b.net, recv, vec![0; 5000]);
    for _ in 0..100 {
        let received = irecv(&b.net, recv, &mut sink, 0, 5000);
        let sent = isend(&a.net, send, &mut source, 0, 5000);
        assert_eq!(finish(&a.net, sent, &b.net, received), (5000, 5000));
    }
    let received = irecv(&b.net, recv, &mut sink, 0, 5000);
    let told = until("the dump of the stall", || {
        assert_eq!(b.net.test(received).unwrap(), None);
        let mut stalls = dumps(dir.path()).into_iter();
        stalls.find(|dump| dump.reason == Reason::Stall && has_received(dump, 101))
    });
    let domain = &told.domains[0];
    let trace = domain.trace.as_ref().unwrap();
    assert!(trace.lost > 100, "{}", trace.lost);
    let bytes = kept(domain);
    let records: Vec<Stamped<'_>> = Reader::of_records(&bytes).map(Result::unwrap).collect();
    let (names, events): (Vec<&Stamped<'_>>, Vec<&Stamped<'_>>) =
        records.iter().partition(|stamped| {
            let record = stamped.record;
            matches!(record, Record::Endpoint { .. } | Record::Peer { .. })
        });
    assert!(
        events.len() <= RING && events.len() > RING / 2,
        "{events:?}"
    );
    assert!(events.is_sorted_by_key(|stamped| stamped.at_ns));
    let of_endpoints = names
        .iter()
        .filter(|named| matches!(named.record, Record::Endpoint { .. }));
    assert_eq!(of_endpoints.count(), domain.endpoints.len());
    let posted = events.iter().rev().find_map(|event| match event.record {
        Record::Post {
            op, outcome, peer, ..
        } => Some((op, outcome, peer)),
        _ => None,
    });
    let (op, outcome, to) = posted.unwrap();
    assert!(matches!(outcome, Outcome::Accepted | Outcome::Injected));
    match protocol {
        Protocol::Rdma => {
            assert_eq!(op, Op::Control);
            let mut peers = names.iter().map(|named| named.record);
            let is_meant = |record| matches!(record, Record::Peer { peer, .. } if peer == to);
            assert!(peers.any(is_meant), "who it went to: {names:?}");
        }
        Protocol::SendRecv => assert_eq!(op, Op::TaggedRecv),
    }
    let newest_ns = trace.started_unix_ns + events.last().unwrap().at_ns;
    assert!(
        newest_ns / 1_000_000 <= told.at_unix_ms + 1,
        "{newest_ns} after {}",
        told.at_unix_ms
    );
    // Of the receive, or of the accept beside it.
    let says_stall = |text: &str| text.contains("OFI-W0609") || text.contains("OFI-W0415");
    let is_stall =
        |event: &&Stamped<'_>| matches!(event.record, Record::Note { text } if says_stall(text));
    assert!(
        events.iter().copied().any(|event| is_stall(&event)),
        "{events:?}"
    );
}

#[test]
fn the_last_records_are_in_a_dump() {
    in_one_process("the_last_records_are_in_a_dump", || {
        remembered(Protocol::Rdma);
    });
}

#[test]
fn the_last_records_of_sendrecv_are_in_a_dump() {
    in_one_process("the_last_records_of_sendrecv_are_in_a_dump", || {
        remembered(Protocol::SendRecv);
    });
}

/// What a NIC counts itself, in a tree that stands for sysfs.
fn of_the_nic() {
    let first = Side::new(common::config(1));
    let nic = {
        let info = &first.net.rails(0).unwrap()[0];
        let name = info.nic().and_then(|nic| nic.name());
        name.unwrap_or_else(|| info.domain_name()).to_owned()
    };
    let root = tempfile::tempdir().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let hw = root.path().join("sys/class/infiniband").join(&nic);
    let hw = hw.join("ports/1/hw_counters");
    std::fs::create_dir_all(&hw).unwrap();
    std::fs::write(hw.join("retrans_timeout_events"), "1000\n").unwrap();
    std::fs::write(hw.join("tx_bytes"), "7\n").unwrap();
    let config = Config {
        fs_root: root.path().to_owned(),
        ..common::config(1)
    };
    let side = Side::new(dumping(dir.path(), config));
    let (listener, _) = listen(&side.net);
    assert_eq!(dump_for(dir.path(), Reason::Start).nics, []);
    std::fs::write(hw.join("retrans_timeout_events"), "1017\n").unwrap();
    let asked = ask(dir.path());
    let told = until("an answer", || {
        assert_eq!(side.net.accept(listener).unwrap(), None);
        let mut answers = dumps(dir.path()).into_iter();
        answers.find(|dump| dump.answers_ns >= Some(asked))
    });
    assert_eq!(told.nics.len(), 1, "{told:?}");
    assert_eq!(told.nics[0].nic, nic);
    let grown: Vec<_> = told.nics[0].grown.iter().collect();
    assert_eq!(grown, [(&"retrans_timeout_events".to_owned(), &17)]);
}

#[test]
fn what_nics_counted_meanwhile_is_in_a_dump() {
    in_one_process("what_nics_counted_meanwhile_is_in_a_dump", of_the_nic);
}
