//! The CLOSE handshake, both settings and both roles (protocol 2c.5, 2j, 2.k 2, decision 13, appendix
//! B9): what a sender waits for, in the background, and what it does not.

use crate::bench::{Bench, config, conn, ctrl, name};
use ofi_rdma::{CommKey, Config, Lane, Outcome, Target};

const ADDR: u64 = 0x1000;
const KEYS: [u64; 4] = [1, 2, 3, 4];

/// Bound of a connection, and of a close that waits, in the configuration of these traces.
const BOUND_MS: u64 = 1000;

fn settings(close_messages: bool) -> Config {
    Config {
        close_messages,
        ..config(1, 1)
    }
}

/// Protocol 2c.5, for the sender's communicator 0.
fn close_message(ctrls: u8) -> [u8; 24] {
    let mut bytes = [0xEE; 24];
    // Bits above the type are whatever they are.
    bytes[0] = 0xE4;
    bytes[8..16].copy_from_slice(&u64::from(ctrls).to_le_bytes());
    bytes[16..20].fill(0);
    bytes
}

fn ctrl_of(seq: u32) -> Vec<u8> {
    ctrl(2, seq, 0, 4096, 0x9000, &[9])
}

/// A sender that sent `messages` messages.
fn sender(close_messages: bool, messages: u32) -> (Bench, CommKey) {
    let mut a = Bench::new(settings(close_messages));
    let comm = a.sender(1, 1);
    for seq in 0..messages {
        a.engine.on_control(&ctrl_of(seq));
        let req = a.isend(comm, ADDR, 100);
        let write = a.post();
        a.engine.on_local(write.token);
        a.done(req, 100);
    }
    (a, comm)
}

fn lingers(a: &Bench, what: &str) {
    assert_eq!(a.engine.live_comms(), 1, "{what}: it waits");
    assert_eq!(a.engine.live_requests(), 0, "{what}");
}

#[test]
fn a_sender_waits_for_close_in_the_background() {
    let (mut a, comm) = sender(true, 3);
    a.engine.close(comm, 0).expect("close returns at once");
    lingers(&a, "no CLOSE yet");
    assert_eq!(a.engine.comm_info(comm), None, "the caller's key is stale");
    a.quiet();
    a.engine.on_control(&close_message(3));
    assert_eq!(a.engine.counters().strays, 0);
    a.baseline();
}

/// CLOSE may overtake CTRLs: the counter says how many there are (2.k 1).
#[test]
fn close_that_overtakes_ctrls_waits_for_them() {
    let (mut a, comm) = sender(true, 2);
    a.engine.close(comm, 0).expect("close");
    a.engine.on_control(&close_message(4));
    lingers(&a, "two CTRLs are missing");
    a.engine.on_control(&ctrl_of(3));
    lingers(&a, "one CTRL is missing");
    a.engine.on_control(&ctrl_of(2));
    assert_eq!(
        a.engine.counters().strays,
        0,
        "they found their communicator"
    );
    a.baseline();
}

#[test]
fn a_receiver_that_closed_first_is_not_waited_for() {
    let (mut a, comm) = sender(true, 3);
    a.engine.on_control(&close_message(3));
    a.engine.close(comm, 0).expect("close");
    a.baseline();

    // Unless CTRLs are still on their way.
    let (mut a, comm) = sender(true, 3);
    a.engine.on_control(&close_message(4));
    a.engine.close(comm, 0).expect("close");
    lingers(&a, "one CTRL is missing");
    a.engine.on_control(&ctrl_of(3));
    a.baseline();
}

#[test]
fn without_a_ctrl_or_by_default_nothing_waits() {
    let (mut a, comm) = sender(true, 0);
    a.engine.close(comm, 0).expect("close");
    a.baseline();

    let (mut a, comm) = sender(false, 3);
    a.engine.close(comm, 0).expect("close");
    a.baseline();
    // The peer may say it all the same, and be late with CTRLs.
    a.engine.on_control(&close_message(3));
    a.engine.on_control(&ctrl_of(3));
    assert_eq!(a.engine.counters().strays, 2);
}

/// A peer that says nothing is waited for no longer than the bound, by nobody's call.
#[test]
fn the_wait_is_bounded() {
    let (mut a, comm) = sender(true, 1);
    a.engine.close(comm, 500).expect("close");
    a.engine.tick(500 + BOUND_MS);
    lingers(&a, "within the bound");
    a.engine.tick(500 + 2 * BOUND_MS);
    a.baseline();
    a.engine.on_control(&close_message(1));
    assert_eq!(a.engine.counters().strays, 1, "too late");
}

#[test]
fn a_second_close_is_a_stray() {
    let (mut a, comm) = sender(true, 1);
    a.engine.on_control(&close_message(9));
    a.engine.on_control(&close_message(1));
    assert_eq!(a.engine.counters().strays, 1);
    a.engine.close(comm, 0).expect("close");
    lingers(&a, "the first one counts");
}

/// With operations at the provider it waits for both, in any order.
#[test]
fn close_with_requests_in_flight_waits_for_both() {
    for close_first in [true, false] {
        let (mut a, comm) = sender(true, 1);
        a.engine.on_control(&ctrl_of(1));
        a.isend(comm, ADDR, 4096);
        let write = a.post();
        // One more waits for its CTRL, and is dropped.
        a.isend(comm, ADDR, 1 << 20);
        a.engine.close(comm, 0).expect("close");
        if close_first {
            a.engine.on_control(&close_message(2));
            assert_eq!(a.engine.live_comms(), 1);
            a.engine.on_local(write.token);
        } else {
            a.engine.on_local(write.token);
            lingers(&a, "no CLOSE yet");
            a.engine.on_control(&close_message(2));
        }
        a.quiet();
        a.baseline();
    }
}

/// What failed waits for nobody: its peer may be gone.
#[test]
fn a_failed_sender_does_not_wait() {
    let (mut a, comm) = sender(true, 1);
    a.engine.on_control(&ctrl_of(1));
    a.isend(comm, ADDR, 4096);
    let write = a.post();
    a.engine.on_failed(write.token, ofi_rdma::Cause::errno(103));
    a.engine.close(comm, 0).expect("close");
    a.baseline();
}

/// The late CTRL of a peer finds the communicator it was sent to, and not the next one.
#[test]
fn its_id_is_nobody_elses_while_it_lingers() {
    let (mut a, comm) = sender(true, 1);
    a.engine.close(comm, 0).expect("close");
    let target = Target {
        control_name: name(b'P', Lane::control(0)),
        listener_id: 0,
    };
    let next = a.engine.connect(0, &mut a.port, &target).expect("connect");
    let id = a.engine.comm_info(next).expect("open").local_id;
    assert_ne!(id, 0);
    let sent = a.post();
    a.engine.on_local(sent.token);
    a.engine.on_control(&conn(1, 1, 1, 7, id));
    assert_eq!(a.engine.poll_connect(next, 0, &mut a.port), Ok(true));
    a.engine.on_control(&ctrl_of(1));
    assert!(!a.engine.ctrl_known(next));
    assert_eq!(a.engine.counters().strays, 0);
}

/// The receiver: exactly one CLOSE, after all CTRLs are back, with their number; nothing after it.
#[test]
fn the_receiver_says_close_once_all_ctrls_are_back() {
    let mut b = Bench::new(settings(true));
    let comm = b.receiver(1, 1);
    b.irecv(comm, ADDR, 64, KEYS);
    let first = b.post();
    b.irecv(comm, ADDR, 64, KEYS);
    let second = b.post();
    // A third was never taken by the provider: it is dropped, and does not count.
    b.port.answers.push_back(Outcome::Busy);
    b.irecv(comm, ADDR, 64, KEYS);
    b.quiet();
    b.engine.close(comm, 0).expect("close");
    b.quiet();
    b.engine.on_local(first.token);
    b.quiet();
    b.engine.on_local(second.token);
    let sent = b.post();
    let mut expected = [0; 24];
    (expected[0], expected[8]) = (4, 2);
    assert_eq!(
        (sent.lane, sent.bytes),
        (Lane::control(0), expected.to_vec())
    );
    b.engine.on_local(sent.token);
    b.quiet();
    assert_eq!(b.engine.live_comms(), 1, "the listener");
}

/// A CLOSE that finds no room in the provider is given up at the bound.
#[test]
fn a_close_that_cannot_be_sent_is_bounded() {
    let mut b = Bench::new(settings(true));
    let comm = b.receiver(1, 1);
    b.irecv(comm, ADDR, 64, KEYS);
    let sent = b.post();
    b.engine.on_local(sent.token);
    b.port.answers.extend([Outcome::Busy; 100]);
    b.engine.close(comm, 0).expect("close");
    b.quiet();
    b.engine.tick(BOUND_MS / 2);
    assert_eq!(b.engine.posts_waiting(), 1);
    b.engine.tick(2 * BOUND_MS);
    assert_eq!((b.engine.posts_waiting(), b.engine.live_comms()), (0, 1));
}
