//! Appendix B, B1: both sides of a connection, message by message.

use crate::bench::{Bench, PEER, config, conn, name, peer};
use ofi_rdma::{Error, Lane, Mismatch, Outcome, Stage, Target, Why, Wire};

fn target() -> Target {
    Target {
        control_name: name(b'P', Lane::control(0)),
        listener_id: 0,
    }
}

/// What CONN and `CONN_RESP` have to look like: header, then names at 16 and 272.
fn assert_conn(bytes: &[u8], header: [u8; 16], rails: u8, control_rails: u8) {
    assert_eq!(bytes.len(), 528);
    assert_eq!(bytes[..16], header);
    for (base, count, lane) in [
        (16, control_rails, Lane::control as fn(u8) -> Lane),
        (272, rails, Lane::data as fn(u8) -> Lane),
    ] {
        for rail in 0..4_u8 {
            let entry = &bytes[base + 64 * usize::from(rail)..][..64];
            if rail < count {
                assert_eq!(entry[..32], name(b'U', lane(rail))[..32]);
                assert_eq!(entry[56..], [32, 0, 0, 0, 0, 0, 0, 0]);
            } else {
                assert!(
                    entry.iter().all(|&byte| byte == 0),
                    "unused entries are zero: trap 10"
                );
            }
        }
    }
}

#[test]
fn b1_connector() {
    let mut a = Bench::new(config(1, 1));
    let comm = a
        .engine
        .connect(0, &mut a.port, &target())
        .expect("connect");
    let sent = a.post();
    assert_eq!(sent.lane, Lane::control(0));
    assert_eq!(
        sent.wire,
        Wire::Control {
            peer: peer(Lane::control(0)),
            len: 528
        }
    );
    // CONN: type 0, one rail, one control rail, local id 0, the listener's id 0.
    assert_conn(
        &sent.bytes,
        [0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        1,
        1,
    );
    assert_eq!(a.engine.poll_connect(comm, 1, &mut a.port), Ok(false));
    // CONN_RESP may come before the completion of CONN is seen: nothing is overwritten (trap 9).
    a.engine.on_control(&conn(1, 1, 1, PEER, 0));
    assert_eq!(a.engine.poll_connect(comm, 2, &mut a.port), Ok(true));
    a.engine.on_local(sent.token);
    let info = a.engine.comm_info(comm).expect("it is there");
    assert_eq!(
        (info.local_id, info.remote_id, info.connected),
        (0, PEER, true)
    );
    a.quiet();
    // A second answer finds nobody (trap 11) and changes nothing.
    let strays = a.engine.counters().strays;
    a.engine.on_control(&conn(1, 1, 1, 77, 0));
    assert_eq!(a.engine.counters().strays, strays + 1);
    assert_eq!(
        a.engine.comm_info(comm).map(|info| info.remote_id),
        Some(PEER)
    );
    a.engine.close(comm, 3).expect("close");
    a.baseline();
}

#[test]
fn b1_listener() {
    let mut b = Bench::new(config(1, 1));
    let (listener, id) = b.engine.listen().expect("listen");
    assert_eq!(id, 0, "lowest first");
    assert_eq!(b.engine.poll_accept(listener, 0, &mut b.port), Ok(None));
    b.engine.on_control(&conn(0, 1, 1, 5, 0));
    // A second CONN is refused: it must not replace the first (trap 11).
    b.engine.on_control(&conn(0, 1, 1, 6, 0));
    assert_eq!(b.engine.counters().strays, 1);
    assert_eq!(b.engine.poll_accept(listener, 0, &mut b.port), Ok(None));
    let sent = b.post();
    assert_eq!(sent.lane, Lane::control(0));
    // CONN_RESP: type 1, local id 1, the sender's id 5.
    assert_conn(
        &sent.bytes,
        [1, 0, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0],
        1,
        1,
    );
    assert_eq!(
        b.engine.poll_accept(listener, 1, &mut b.port),
        Ok(None),
        "not sent yet"
    );
    b.engine.on_local(sent.token);
    let comm = b
        .engine
        .poll_accept(listener, 2, &mut b.port)
        .expect("accept")
        .expect("accepted");
    let info = b.engine.comm_info(comm).expect("it is there");
    assert_eq!(
        (info.local_id, info.remote_id, info.connected),
        (1, 5, true)
    );
    assert_eq!(
        b.engine.poll_accept(listener, 3, &mut b.port),
        Err(Error::AlreadyAccepted)
    );
    b.engine.close(comm, 4).expect("close");
    b.engine.close(listener, 4).expect("close");
    b.baseline();
}

#[test]
fn four_rails_put_all_names_in() {
    let mut a = Bench::new(config(4, 4));
    a.engine
        .connect(0, &mut a.port, &target())
        .expect("connect");
    let header = [0, 0, 4, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    assert_conn(&a.post().bytes, header, 4, 4);
}

#[test]
fn a_busy_provider_delays_conn_and_is_named_at_the_deadline() {
    let mut a = Bench::new(config(1, 1));
    a.port.answers.extend([Outcome::Busy; 2]);
    let comm = a
        .engine
        .connect(0, &mut a.port, &target())
        .expect("connect");
    a.quiet();
    a.quiet();
    assert_eq!(a.engine.poll_connect(comm, 1000, &mut a.port), Ok(false));
    let late = a.engine.poll_connect(comm, 1001, &mut a.port);
    let Err(Error::Failed(failure)) = late else {
        panic!("the deadline passed: {late:?}")
    };
    assert_eq!(
        failure.why,
        Why::ConnectTimeout {
            waited_ms: 1001,
            stage: Stage::SendConn
        }
    );
    a.quiet();
    a.engine.close(comm, 1002).expect("close");
    a.baseline();
}

#[test]
fn silence_is_named_at_the_deadline() {
    let mut a = Bench::new(config(1, 1));
    let comm = a
        .engine
        .connect(0, &mut a.port, &target())
        .expect("connect");
    let sent = a.post();
    a.engine.on_local(sent.token);
    let late = a.engine.poll_connect(comm, 5000, &mut a.port);
    let Err(Error::Failed(failure)) = late else {
        panic!("the deadline passed: {late:?}")
    };
    assert_eq!(
        failure.why,
        Why::ConnectTimeout {
            waited_ms: 5000,
            stage: Stage::AwaitConnResp
        }
    );
    a.engine.close(comm, 5001).expect("close");
    // The answer comes after all: for nobody.
    a.engine.on_control(&conn(1, 1, 1, PEER, 0));
    assert_eq!(a.engine.counters().strays, 1);
    a.baseline();
}

#[test]
fn peers_with_other_rails_are_told_apart_by_both_sides() {
    let mut a = Bench::new(config(2, 1));
    let comm = a
        .engine
        .connect(0, &mut a.port, &target())
        .expect("connect");
    let sent = a.post();
    a.engine.on_local(sent.token);
    a.engine.on_control(&conn(1, 4, 1, PEER, 0));
    let answer = a.engine.poll_connect(comm, 1, &mut a.port);
    let Err(Error::Failed(failure)) = answer else {
        panic!("rails differ: {answer:?}")
    };
    assert_eq!(
        failure.why,
        Why::Mismatch {
            what: Mismatch::Rails,
            ours: 2,
            theirs: 4
        }
    );

    let mut b = Bench::new(config(2, 2));
    let (listener, _) = b.engine.listen().expect("listen");
    b.engine.on_control(&conn(0, 2, 1, 0, 0));
    assert_eq!(b.engine.poll_accept(listener, 0, &mut b.port), Ok(None));
    // The connector learns it from our true counts (decision 19).
    let sent = b.post();
    assert_eq!(sent.bytes[..6], [1, 0, 2, 0, 2, 0]);
    b.engine.on_local(sent.token);
    let answer = b.engine.poll_accept(listener, 1, &mut b.port);
    let Err(Error::Failed(failure)) = answer else {
        panic!("control rails differ: {answer:?}")
    };
    let (what, ours, theirs) = (Mismatch::ControlRails, 2, 1);
    assert_eq!(failure.why, Why::Mismatch { what, ours, theirs });
    b.engine.close(listener, 2).expect("close");
    b.baseline();
}

/// An address that the provider refuses: no communicator, no event, nothing left, and the error says it.
#[test]
fn a_refused_address_leaves_nothing() {
    let mut b = Bench::new(config(1, 1));
    let target = Target {
        control_name: [0; 56],
        listener_id: 3,
    };
    match b.engine.connect(0, &mut b.port, &target) {
        Err(Error::Unreachable(failure)) => {
            let lane = Lane::control(0);
            assert!(matches!(failure.why, Why::Unreachable { lane: l, .. } if l == lane));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(b.engine.poll_event(), None);
    b.baseline();
}
