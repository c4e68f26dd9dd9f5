//! Traps of connections, ids and closing.

use crate::bench::{Bench, PEER, config, conn, ctrl, name};
use ofi_rdma::{
    Cause, CommKey, Config, ConfigError, Engine, Error, Lane, Mismatch, Outcome, Target, Why, Wire,
};

const KEYS: [u64; 4] = [1, 2, 3, 4];

fn target(listener_id: u32) -> Target {
    Target {
        control_name: name(b'P', Lane::control(0)),
        listener_id,
    }
}

fn connect(a: &mut Bench, listener_id: u32) -> CommKey {
    a.engine
        .connect(0, &mut a.port, &target(listener_id))
        .expect("connect")
}

/// Control messages are told from eager ones by CQ data alone: no control message is anything but a
/// plain send, and an eager payload always carries its immediate.
#[test]
fn trap_01_control_messages_have_no_cq_data_and_eager_ones_always() {
    let mut settings = config(1, 1);
    settings.close_messages = true;
    let mut b = Bench::new(settings.clone());
    let comm = b.receiver(1, 1);
    b.irecv(comm, 0x1000, 64, KEYS);
    let sent = b.post();
    assert!(matches!(sent.wire, Wire::Control { .. }) && sent.lane.is_control());
    b.engine.on_local(sent.token);
    b.engine.close(comm, 0).expect("close");
    let said = b.post();
    assert!(matches!(said.wire, Wire::Control { .. }) && said.lane.is_control());

    let mut a = Bench::new(settings);
    connect(&mut a, 0);
    let sent = a.post();
    assert!(matches!(sent.wire, Wire::Control { .. }) && sent.lane.is_control());
    let mut a = Bench::new(config(1, 1));
    let comm = a.sender(1, 1);
    a.isend(comm, 0x1000, 0);
    let eager = a.post();
    assert!(
        matches!(
            eager.wire,
            Wire::Eager {
                imm: 0x1000_0400,
                ..
            }
        ) && !eager.lane.is_control()
    );
}

/// Four ids, four directions, none of them equal here.
#[test]
fn trap_02_each_message_names_the_id_of_the_right_side() {
    let mut a = Bench::new(config(1, 1));
    for _ in 0..3 {
        a.engine.listen().expect("an id");
    }
    let comm = connect(&mut a, 0x777);
    let sent = a.post();
    assert_eq!(
        sent.bytes[8..16],
        [3, 0, 0, 0, 0x77, 7, 0, 0],
        "CONN: our id, the listener's"
    );
    a.engine.on_local(sent.token);
    a.engine.on_control(&conn(1, 1, 1, 0x1234, 3));
    assert_eq!(a.engine.poll_connect(comm, 0, &mut a.port), Ok(true));
    a.engine.on_control(&ctrl(2, 0, 3, 64, 0x9000, &[1]));
    a.isend(comm, 0x1000, 64);
    let Wire::Write { data, .. } = a.post().wire else {
        panic!("CTRL names the sender's id")
    };
    assert_eq!(
        data,
        Some(1 << 28 | 0x1234 << 10),
        "an immediate names the receiver's id"
    );

    let mut b = Bench::new(config(1, 1));
    let (listener, id) = b.engine.listen().expect("listen");
    b.engine.on_control(&conn(0, 1, 1, 0x2222, id));
    assert_eq!(b.engine.poll_accept(listener, 0, &mut b.port), Ok(None));
    let sent = b.post();
    assert_eq!(
        sent.bytes[8..16],
        [1, 0, 0, 0, 0x22, 0x22, 0, 0],
        "CONN_RESP: our id, the sender's"
    );
    b.engine.on_local(sent.token);
    let comm = b
        .engine
        .poll_accept(listener, 0, &mut b.port)
        .expect("accept")
        .expect("up");
    b.irecv(comm, 0x1000, 64, KEYS);
    assert_eq!(b.post().bytes, ctrl(2, 0, 0x2222, 64, 0x1000, &[1]));
    b.engine
        .on_remote_write(0, 1 << 28 | 0x2222 << 10, Some(64));
    assert_eq!(
        b.engine.counters().strays,
        1,
        "their id means nothing in an immediate"
    );
}

/// What nobody negotiates is compared, with both values, and the other side is told.
#[test]
fn trap_06_rails_control_rails_and_key_width_are_compared() {
    for (theirs, what, numbers) in [
        ((2, 1), Mismatch::Rails, (4, 2)),
        ((4, 4), Mismatch::ControlRails, (1, 4)),
    ] {
        let mut a = Bench::new(config(4, 1));
        let comm = connect(&mut a, 0);
        a.post();
        a.engine.on_control(&conn(1, theirs.0, theirs.1, PEER, 0));
        let Err(Error::Failed(failure)) = a.engine.poll_connect(comm, 0, &mut a.port) else {
            panic!("{what:?}")
        };
        let (ours, theirs) = numbers;
        assert_eq!(failure.why, Why::Mismatch { what, ours, theirs });
    }
    let mut a = Bench::new(config(1, 1));
    let comm = a.sender(1, 1);
    let req = a.isend(comm, 0x1000, 1 << 20);
    let mut long = ctrl(2, 0, 0, 64, 0x9000, &[1]);
    long.extend([0; 4]);
    a.engine.on_control(&long);
    let Err(Error::Failed(failure)) = a.engine.test(req) else {
        panic!("a CTRL with long keys")
    };
    let (what, ours, theirs) = (Mismatch::KeyWidth, 4, 8);
    assert_eq!(failure.why, Why::Mismatch { what, ours, theirs });
}

/// Who accepts tells the other side by its own true counts, and is told when that is sent.
#[test]
fn trap_06_a_refusal_is_sent_before_it_is_reported() {
    let mut b = Bench::new(config(4, 1));
    let (listener, id) = b.engine.listen().expect("listen");
    b.engine.on_control(&conn(0, 2, 1, 5, id));
    assert_eq!(b.engine.poll_accept(listener, 0, &mut b.port), Ok(None));
    let sent = b.post();
    assert_eq!(sent.bytes[..6], [1, 0, 4, 0, 1, 0], "CONN_RESP, 4 rails, 1");
    b.engine.on_local(sent.token);
    let Err(Error::Failed(failure)) = b.engine.poll_accept(listener, 0, &mut b.port) else {
        panic!("the numbers of rails differ")
    };
    let (what, ours, theirs) = (Mismatch::Rails, 4, 2);
    assert_eq!(failure.why, Why::Mismatch { what, ours, theirs });
}

#[test]
fn trap_07_more_than_four_rails_are_refused() {
    for rails in [0, 5, 200] {
        let settings = Config {
            data_rails: rails,
            control_rails: 1,
            ..config(1, 1)
        };
        let refused = Engine::<ofi_rdma::Base>::new(settings).map(drop);
        assert_eq!(refused, Err(ConfigError::Rails(rails)));
    }
    // And of a peer: five rails are no connection message.
    let mut a = Bench::new(config(4, 1));
    connect(&mut a, 0);
    a.post();
    let mut answer = conn(1, 4, 1, PEER, 0);
    answer[2] = 5;
    a.engine.on_control(&answer);
    assert_eq!(a.engine.counters().strays, 1);
}

/// The answer can come before CONN's own completion was seen: nothing of CONN is overwritten, and both
/// count.
#[test]
fn trap_09_the_answer_may_overtake_the_completion_of_conn() {
    let mut a = Bench::new(config(1, 1));
    let comm = connect(&mut a, 0);
    let sent = a.post();
    let before = sent.bytes.clone();
    a.engine.on_control(&conn(1, 1, 1, PEER, 0));
    assert_eq!(a.engine.poll_connect(comm, 0, &mut a.port), Ok(true));
    assert_eq!(sent.bytes, before);
    a.engine.close(comm, 0).expect("close");
    assert_eq!(a.engine.live_comms(), 1, "CONN is still at the provider");
    a.engine.on_local(sent.token);
    assert_eq!(a.engine.counters().strays, 0);
    a.baseline();
}

/// Rubbish in what is not used is not looked at, and ours is zero.
#[test]
fn trap_10_tails_are_not_compared_and_ours_are_zero() {
    let mut a = Bench::new(config(2, 1));
    let comm = connect(&mut a, 0);
    let sent = a.post();
    assert_eq!(
        (sent.bytes[0] & 0xF0, sent.bytes[1], &sent.bytes[6..8]),
        (0, 0, &[0, 0][..])
    );
    for (base, used) in [(16, 1), (272, 2)] {
        for entry in used..4 {
            let at = base + 64 * entry;
            assert!(
                sent.bytes[at..at + 64].iter().all(|b| *b == 0),
                "entry {entry} at {base}"
            );
        }
        // The tail of a name, but for the capability word in that of control name 0.
        let tail = if base == 16 { 48..72 } else { 304..328 };
        let ours = base == 16;
        let zero = sent.bytes[tail.clone()]
            .iter()
            .take(if ours { 8 } else { 24 });
        assert!(
            zero.copied().all(|b| b == 0),
            "the tail of a name at {tail:?}"
        );
    }
    a.engine.on_local(sent.token);
    // `conn` is full of 0xEE where nothing is said.
    a.engine.on_control(&conn(1, 2, 1, PEER, 0));
    assert_eq!(a.engine.poll_connect(comm, 0, &mut a.port), Ok(true));
}

#[test]
fn trap_11_a_second_conn_and_one_for_nobody_change_nothing() {
    let mut b = Bench::new(config(1, 1));
    let (listener, id) = b.engine.listen().expect("listen");
    b.engine.on_control(&conn(0, 1, 1, 5, id));
    b.engine.on_control(&conn(0, 1, 1, 6, id));
    b.engine.on_control(&conn(0, 1, 1, 7, 4711));
    assert_eq!(b.engine.poll_accept(listener, 0, &mut b.port), Ok(None));
    // While the answer is on its way, too.
    b.engine.on_control(&conn(0, 1, 1, 8, id));
    let sent = b.post();
    assert_eq!(sent.bytes[12], 5, "the first one is answered");
    assert_eq!(
        b.engine.poll_accept(listener, 0, &mut b.port),
        Ok(None),
        "not sent yet"
    );
    b.engine.on_local(sent.token);
    assert!(
        b.engine
            .poll_accept(listener, 0, &mut b.port)
            .expect("accept")
            .is_some()
    );
    b.engine.on_control(&conn(0, 1, 1, 9, id));
    assert_eq!(b.engine.counters().strays, 4);
    assert_eq!(
        b.engine.poll_accept(listener, 0, &mut b.port),
        Err(Error::AlreadyAccepted)
    );
}

#[test]
fn trap_13_a_close_that_found_the_provider_busy_goes_out_later() {
    let mut settings = config(1, 1);
    settings.close_messages = true;
    let mut b = Bench::new(settings);
    let comm = b.receiver(1, 1);
    b.irecv(comm, 0x1000, 64, KEYS);
    let sent = b.post();
    b.engine.on_local(sent.token);
    b.engine.on_remote_write(0, 0x1000_0400, Some(64));
    b.port.answers.extend([Outcome::Busy; 5]);
    b.engine.close(comm, 0).expect("close");
    for _ in 0..5 {
        b.quiet();
    }
    assert_eq!(b.post().bytes[0] & 0xF, 4);
}

/// A late message of a dead peer finds nobody, since its id rests.
#[test]
fn trap_20_ids_rest_before_they_are_used_again() {
    let mut a = Bench::new(config(1, 1));
    for round in 0..300 {
        let (listener, id) = a.engine.listen().expect("listen");
        assert_eq!(id, round, "never the one just freed");
        a.engine.close(listener, 0).expect("close");
    }
    let comm = a.sender_with(300);
    a.engine.close(comm, 0).expect("close");
    a.engine.on_control(&ctrl(2, 0, 300, 64, 0x9000, &[1]));
    assert_eq!(a.engine.counters().strays, 1);
}

/// Nothing blocks: neither setting of the close messages makes a call wait, nor for ever anything else.
#[test]
fn trap_21_close_never_waits_whatever_the_other_side_does() {
    for close_messages in [true, false] {
        let mut settings = config(1, 1);
        settings.close_messages = close_messages;
        let mut a = Bench::new(settings);
        let comm = a.sender(1, 1);
        a.engine.on_control(&ctrl(2, 0, 0, 64, 0x9000, &[1]));
        a.engine.close(comm, 0).expect("returns");
        // The other side never says anything.
        a.engine.tick(10_000);
        a.engine.tick(20_000);
        a.baseline();
    }
}

/// A listener closes at every stage, and nothing is left.
#[test]
fn trap_28_a_listener_closes_at_any_stage() {
    for stage in 0..4 {
        let mut b = Bench::new(config(1, 1));
        let (listener, id) = b.engine.listen().expect("listen");
        if stage > 0 {
            b.engine.on_control(&conn(0, 1, 1, 5, id));
        }
        let mut sent = None;
        if stage > 1 {
            assert_eq!(b.engine.poll_accept(listener, 0, &mut b.port), Ok(None));
            sent = (stage > 2).then(|| b.post());
        }
        b.engine.close(listener, 0).expect("close");
        b.quiet();
        if let Some(sent) = sent {
            b.engine.on_local(sent.token);
        }
        b.baseline();
    }
}

/// An answer that fails does not take the listener with it.
#[test]
fn trap_28_a_failed_accept_leaves_the_listener_alone() {
    let mut b = Bench::new(config(1, 1));
    let (listener, id) = b.engine.listen().expect("listen");
    b.engine.on_control(&conn(0, 1, 1, 5, id));
    assert_eq!(b.engine.poll_accept(listener, 0, &mut b.port), Ok(None));
    let sent = b.post();
    b.engine.on_failed(sent.token, Cause::errno(113));
    let failed = b.engine.poll_accept(listener, 0, &mut b.port);
    assert!(matches!(failed, Err(Error::Failed(_))), "{failed:?}");
    b.engine.on_control(&conn(0, 1, 1, 6, id));
    assert_eq!(b.engine.poll_accept(listener, 0, &mut b.port), Ok(None));
    let sent = b.post();
    b.engine.on_local(sent.token);
    assert!(
        b.engine
            .poll_accept(listener, 0, &mut b.port)
            .expect("accept")
            .is_some()
    );
}
