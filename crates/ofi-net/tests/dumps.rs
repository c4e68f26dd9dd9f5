//! State dumps: written when something stalls, when they are asked for, and at the first error; and by
//! nobody else.
#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use common::{
    Buffer, Side, connect, finish, in_one_process, irecv, isend, listen, pattern, until,
    until_error,
};
use ofi_net::dump::{Dump, Kind, Reason, Stage, TRIGGER};
use ofi_net::log::Level;
use ofi_net::{Config, DumpConfig, Protocol};
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
        answers.find(|dump| dump.answers_ns == Some(asked))
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
    let failure = comms.find_map(|comm| comm.failure.clone()).unwrap();
    assert!(failure.contains("OFI-E0602"), "{failure} beside {error}");
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
