//! Protocol 2.k: what overtakes what, and what a peer of the BASE generation cannot bear.

use crate::bench::{Bench, PEER, REGION, config, conn, ctrl, name};
use ofi_rdma::{Cause, CommKey, Config, Error, Event, Lane, Outcome, RxFate, RxId, Stray, Target};

const ADDR: u64 = 0x1000;
const KEYS: [u64; 4] = [1, 2, 3, 4];

fn target() -> Target {
    Target {
        control_name: name(b'P', Lane::control(0)),
        listener_id: 0,
    }
}

fn connecting(a: &mut Bench) -> CommKey {
    let comm = a
        .engine
        .connect(0, &mut a.port, &target())
        .expect("connect");
    let sent = a.post();
    a.engine.on_local(sent.token);
    comm
}

/// CTRLs and even CLOSE come before `CONN_RESP`: kept from the first connect on.
#[test]
fn k_1_ctrl_and_close_overtake_conn_resp() {
    let mut settings = config(1, 1);
    settings.close_messages = true;
    let mut a = Bench::new(settings);
    let comm = connecting(&mut a);
    for seq in [1, 0] {
        a.engine.on_control(&ctrl(2, seq, 0, 64, 0x9000, &[1]));
    }
    let mut close = [0; 24];
    (close[0], close[8]) = (4, 2);
    a.engine.on_control(&close);
    a.engine.on_control(&conn(1, 1, 1, PEER, 0));
    assert_eq!(a.engine.poll_connect(comm, 0, &mut a.port), Ok(true));
    assert!(a.engine.ctrl_known(comm));
    for _ in 0..2 {
        let req = a.isend(comm, ADDR, 64);
        let write = a.post();
        a.engine.on_local(write.token);
        a.done(req, 64);
    }
    a.engine.close(comm, 0).expect("close");
    assert_eq!(a.engine.counters().strays, 0);
    a.baseline();
}

/// After close, abort or a failure nothing that waited is posted: not an eager message, not a write, not
/// a CTRL, not a late `CONN_RESP`.
#[test]
fn k_2_nothing_is_posted_for_what_is_closed_or_failed() {
    for fail in [false, true] {
        let mut a = Bench::new(config(1, 1));
        let comm = a.sender(1, 1);
        a.engine.on_control(&ctrl(2, 0, 0, 64, 0x9000, &[1]));
        a.isend(comm, ADDR, 64);
        let first = a.post();
        a.port.answers.push_back(Outcome::Busy);
        a.isend(comm, ADDR, 64);
        a.quiet();
        if fail {
            a.engine.on_failed(first.token, Cause::errno(5));
        } else {
            a.engine.close(comm, 0).expect("close");
            a.engine.on_local(first.token);
        }
        a.quiet();
        a.engine.on_control(&ctrl(2, 1, 0, 64, 0x9000, &[1]));
        a.quiet();

        let mut b = Bench::new(config(1, 1));
        let comm = b.receiver(1, 1);
        b.irecv(comm, ADDR, 64, KEYS);
        let first = b.post();
        b.port.answers.push_back(Outcome::Busy);
        b.irecv(comm, ADDR, 64, KEYS);
        b.quiet();
        if fail {
            b.engine.on_failed(first.token, Cause::errno(5));
        } else {
            b.engine.close(comm, 0).expect("close");
        }
        b.quiet();
    }
    let mut b = Bench::new(config(1, 1));
    let (listener, id) = b.engine.listen().expect("listen");
    b.engine.on_control(&conn(0, 1, 1, 5, id));
    b.port.answers.push_back(Outcome::Busy);
    assert_eq!(b.engine.poll_accept(listener, 0, &mut b.port), Ok(None));
    b.quiet();
    b.engine.close(listener, 0).expect("close");
    b.quiet();
    b.baseline();
}

/// Our own bytes come back in the unused parts of a BASE peer's message: they are no capabilities.
#[test]
fn k_3_replayed_bytes_of_ours_are_no_capabilities() {
    let mut settings = config(1, 1);
    settings.cq_data_bytes = 8;
    let wants_lengths = Config {
        lengths_told: false,
        ..settings.clone()
    };
    let mut b = Bench::new(wants_lengths);
    let (listener, id) = b.engine.listen().expect("listen");
    b.engine.on_control(&conn(0, 1, 1, 5, id));
    assert_eq!(b.engine.poll_accept(listener, 0, &mut b.port), Ok(None));
    let answer = b.post().bytes;
    // It overwrites type, counts, ids, names and their lengths in the buffer that our answer came in.
    let fresh = conn(1, 1, 1, PEER, 0);
    let mut replayed = answer;
    replayed[0] = replayed[0] & 0xF0 | 1;
    replayed[2..48].copy_from_slice(&fresh[2..48]);
    replayed[72..80].copy_from_slice(&fresh[72..80]);
    replayed[272..304].copy_from_slice(&fresh[272..304]);
    replayed[328..336].copy_from_slice(&fresh[328..336]);
    assert_ne!(
        replayed[56..60],
        fresh[56..60],
        "the word of ours is still in it"
    );
    let mut a = Bench::new(settings);
    let comm = connecting(&mut a);
    a.engine.on_control(&replayed);
    assert_eq!(a.engine.poll_connect(comm, 0, &mut a.port), Ok(true));
    a.engine.on_control(&ctrl(2, 0, 0, 64, 0x9000, &[1]));
    a.isend(comm, ADDR, 64);
    let ofi_rdma::Wire::Write { data, .. } = a.post().wire else {
        panic!("a write")
    };
    assert_eq!(data, Some(0x1000_0400), "nothing above the immediate");
}

/// 128 eager messages of a communicator that nobody receives are held, and another one's go on.
#[test]
fn k_4_unread_eager_data_of_one_holds_up_nobody() {
    let mut b = Bench::new(config(1, 1));
    let first = b.receiver(1, 1);
    let (listener, id) = b.engine.listen().expect("listen");
    b.engine.on_control(&conn(0, 1, 1, 9, id));
    assert_eq!(b.engine.poll_accept(listener, 0, &mut b.port), Ok(None));
    let sent = b.post();
    b.engine.on_local(sent.token);
    let second = b
        .engine
        .poll_accept(listener, 0, &mut b.port)
        .expect("accept")
        .expect("up");
    for seq in 0..128 {
        let rx = RxId {
            rail: 0,
            index: seq,
        };
        assert_eq!(b.engine.on_eager(0x1000_0400 | seq, 64, rx), RxFate::Held);
    }
    let rx = RxId {
        rail: 0,
        index: 999,
    };
    assert_eq!(
        b.engine.on_eager(0x1000_0000 | 3 << 10, 64, rx),
        RxFate::Held
    );
    let req = b.irecv(second, ADDR, 64, KEYS);
    b.posts()
        .iter()
        .for_each(|post| b.engine.on_local(post.token));
    b.done(req, 64);
    assert_eq!(b.engine.take_released(), Some(rx));
    for seq in 0..128 {
        let req = b.irecv(first, ADDR, 64, KEYS);
        b.posts()
            .iter()
            .for_each(|post| b.engine.on_local(post.token));
        b.done(req, 64);
        assert_eq!(
            b.engine.take_released(),
            Some(RxId {
                rail: 0,
                index: seq
            })
        );
    }
}

/// One registration serves communicators of both kinds at once: it is referred to until the last is over.
#[test]
fn k_5_a_region_is_shared_by_communicators() {
    let mut b = Bench::new(config(1, 1));
    let recv = b.receiver(1, 1);
    let send = b.sender_with(2);
    b.irecv(recv, ADDR, 64, KEYS);
    b.isend(send, ADDR, 64);
    b.engine.flush(recv, ADDR, REGION).expect("flush");
    assert_eq!(b.engine.region_refs(REGION), 3);
    let posts = b.posts();
    b.engine.close(recv, 0).expect("close");
    b.engine.close(send, 0).expect("close");
    assert_eq!(
        b.engine.region_refs(REGION),
        3,
        "all three are at the provider"
    );
    posts.iter().for_each(|post| b.engine.on_local(post.token));
    assert_eq!(b.engine.region_refs(REGION), 0);
}

/// A CTRL is one message on one rail, however small the stripes are.
#[test]
fn k_6_a_ctrl_is_never_striped() {
    for (stripe, small) in [(1, 0), (8, 64), (65_536, 0), (65_536, 1 << 20)] {
        let mut settings = config(4, 4);
        (
            settings.min_stripe_bytes,
            settings.small_max_bytes,
            settings.eager_max,
        ) = (stripe, small, None);
        let mut b = Bench::new(settings);
        let comm = b.receiver(4, 4);
        for seq in 0..8_u32 {
            b.irecv(comm, ADDR, 64, KEYS);
            let sent = b.post();
            assert_eq!(sent.bytes, ctrl(2, seq, 0, 64, ADDR, &[1, 2, 3, 4]));
            b.engine.on_local(sent.token);
        }
    }
}

/// EAGAIN and an error in the same pass: the communicator is failed, not forgotten under the handle.
#[test]
fn k_7_an_error_while_conn_waits_leaves_a_communicator_to_close() {
    let mut a = Bench::new(config(1, 1));
    a.port.answers.push_back(Outcome::Busy);
    let comm = a
        .engine
        .connect(0, &mut a.port, &target())
        .expect("connect");
    a.quiet();
    assert_eq!(a.engine.poll_connect(comm, 0, &mut a.port), Ok(false));
    a.port.answers.push_back(Outcome::Failed(Cause::errno(113)));
    a.quiet();
    for _ in 0..2 {
        let failed = a.engine.poll_connect(comm, 0, &mut a.port);
        assert!(matches!(failed, Err(Error::Failed(_))), "{failed:?}");
    }
    a.engine.close(comm, 0).expect("it is there to be closed");
    a.baseline();
}

/// 0x3FFFF is never given away here, and accepted from a peer; beyond 18 bits there is nothing (2c.1).
#[test]
fn ids_of_a_peer_are_below_2_to_the_18() {
    let mut a = Bench::new(config(1, 1));
    let comm = connecting(&mut a);
    a.engine.on_control(&conn(1, 1, 1, 0x3_FFFF, 0));
    assert_eq!(a.engine.poll_connect(comm, 0, &mut a.port), Ok(true));
    let comm = connecting(&mut a);
    a.engine.on_control(&conn(1, 1, 1, 0x4_0000, 1));
    assert_eq!(a.engine.poll_connect(comm, 0, &mut a.port), Ok(false));
    let stray = core::iter::from_fn(|| a.engine.poll_event()).last();
    assert!(
        matches!(
            stray,
            Some(Event::Stray(Stray::Malformed { kind: 1, len: 528 }))
        ),
        "{stray:?}"
    );
}
