//! What a peer can get wrong, each thing once: it fails the one communicator it names, with the
//! reason, or is a stray that changes nothing (protocol 2c.1, 2.k, decisions 11, 14, 17, 19).

use crate::bench::{Bench, PEER, Posted, config, conn, ctrl};
use ofi_rdma::{CommKey, Error, Event, Mismatch, ReqKey, RxFate, RxId, Stray, Violation, Why};

const ADDR: u64 = 0x1000;
const KEYS: [u64; 4] = [1, 2, 3, 4];

/// The immediate: nseg, our receive communicator 1, seq.
fn imm(nseg: u64, seq: u64) -> u64 {
    nseg << 28 | 1 << 10 | seq
}

fn eager_imm(nseg: u32, seq: u32) -> u32 {
    nseg << 28 | 1 << 10 | seq
}

const RX: RxId = RxId { rail: 0, index: 3 };

struct Receiving {
    b: Bench,
    comm: CommKey,
    req: ReqKey,
    ctrl: Posted,
}

/// A receive of 1000 bytes, seq 0, on two rails, its CTRL posted.
fn receiving() -> Receiving {
    let mut b = Bench::new(config(2, 1));
    let comm = b.receiver(2, 1);
    let req = b.irecv(comm, ADDR, 1000, KEYS);
    let ctrl = b.post();
    Receiving { b, comm, req, ctrl }
}

/// The request ends with the violation, which sticks; after close nothing is left.
fn fails(mut r: Receiving, violation: Violation) {
    match r.b.engine.test(r.req) {
        Err(Error::Failed(failure)) => {
            assert_eq!(failure.why, Why::Protocol(violation));
            assert_eq!(failure.comm_id, 1);
        }
        other => panic!("{violation:?} expected: {other:?}"),
    }
    let sticky = r.b.engine.flush(r.comm, ADDR, crate::bench::REGION);
    assert!(
        matches!(sticky, Err(Error::Failed(_))),
        "it sticks: {sticky:?}"
    );
    r.b.engine.on_local(r.ctrl.token);
    r.b.engine.close(r.comm, 0).expect("close");
    r.b.quiet();
    assert_eq!(r.b.engine.live_requests(), 0);
    assert_eq!(r.b.engine.live_comms(), 1, "the listener");
}

#[test]
fn a_segment_count_of_0() {
    let mut r = receiving();
    r.b.engine.on_remote_write(0, imm(0, 0), Some(10));
    fails(r, Violation::SegmentCount);
}

#[test]
fn segment_counts_that_differ() {
    let mut r = receiving();
    r.b.engine.on_remote_write(0, imm(3, 0), Some(10));
    r.b.engine.on_remote_write(0, imm(2, 0), Some(10));
    fails(r, Violation::SegmentCount);
}

#[test]
fn a_segment_too_many() {
    let mut r = receiving();
    for _ in 0..3 {
        r.b.engine.on_remote_write(0, imm(2, 0), Some(10));
    }
    fails(r, Violation::Duplicate);
}

#[test]
fn more_bytes_than_room_in_one_segment_and_in_sum() {
    let mut r = receiving();
    r.b.engine.on_remote_write(0, imm(1, 0), Some(1001));
    fails(r, Violation::Overrun);
    let mut r = receiving();
    r.b.engine.on_remote_write(0, imm(2, 0), Some(1000));
    r.b.engine.on_remote_write(0, imm(2, 0), Some(1));
    fails(r, Violation::Overrun);
    let mut r = receiving();
    r.b.engine.on_remote_write(0, imm(1, 0), Some(u64::MAX));
    fails(r, Violation::Overrun);
}

#[test]
fn eager_data_after_segments_and_segments_after_eager_data() {
    let mut r = receiving();
    r.b.engine.on_remote_write(0, imm(2, 0), Some(10));
    assert_eq!(r.b.engine.on_eager(eager_imm(1, 0), 10, RX), RxFate::Held);
    assert_eq!(
        r.b.engine.take_released(),
        Some(RX),
        "the buffer comes back"
    );
    fails(r, Violation::EagerAndSegments);

    let mut r = receiving();
    assert_eq!(r.b.engine.on_eager(eager_imm(1, 0), 10, RX), RxFate::Held);
    r.b.engine.on_remote_write(0, imm(2, 0), Some(10));
    assert_eq!(
        r.b.engine.take_released(),
        Some(RX),
        "the copy was queued, not posted"
    );
    fails(r, Violation::EagerAndSegments);
}

#[test]
fn eager_data_twice() {
    let mut r = receiving();
    assert_eq!(r.b.engine.on_eager(eager_imm(1, 0), 10, RX), RxFate::Held);
    let other = RxId { rail: 1, index: 9 };
    assert_eq!(
        r.b.engine.on_eager(eager_imm(1, 0), 10, other),
        RxFate::Held
    );
    let mut back = [r.b.engine.take_released(), r.b.engine.take_released()];
    back.sort_by_key(|rx| rx.map(|rx| rx.rail));
    assert_eq!(back, [Some(RX), Some(other)]);
    fails(r, Violation::Duplicate);
}

#[test]
fn eager_data_of_several_segments() {
    let mut r = receiving();
    assert_eq!(r.b.engine.on_eager(eager_imm(2, 0), 10, RX), RxFate::Repost);
    fails(r, Violation::EagerSegments);
}

#[test]
fn eager_data_beyond_the_window() {
    let mut r = receiving();
    assert_eq!(
        r.b.engine.on_eager(eager_imm(1, 256), 10, RX),
        RxFate::Repost
    );
    fails(r, Violation::BeyondWindow);
}

#[test]
fn a_copy_at_the_provider_keeps_its_buffer_until_it_is_back() {
    let mut r = receiving();
    assert_eq!(r.b.engine.on_eager(eager_imm(1, 0), 10, RX), RxFate::Held);
    let copy = r.b.post();
    r.b.engine.on_remote_write(0, imm(1, 0), Some(1));
    assert_eq!(
        r.b.engine.take_released(),
        None,
        "the provider still reads it"
    );
    r.b.engine.on_local(copy.token);
    assert_eq!(r.b.engine.take_released(), Some(RX));
    fails(r, Violation::EagerAndSegments);
}

#[test]
fn keys_of_another_width_name_both_widths() {
    let mut b = Bench::new(config(2, 1));
    let comm = b.sender(2, 1);
    let req = b.isend(comm, ADDR, 100_000);
    // 16 + 2 * 8 bytes: 64-bit keys, where 16 + 2 * 4 are due.
    b.engine
        .on_control(&ctrl(2, 0, 0, 100_000, 0x9000, &[1, 0, 2, 0]));
    let why = Why::Mismatch {
        what: Mismatch::KeyWidth,
        ours: 4,
        theirs: 8,
    };
    match b.engine.test(req) {
        Err(Error::Failed(failure)) => assert_eq!(failure.why, why),
        other => panic!("{other:?}"),
    }
    b.quiet();
}

#[test]
fn a_ctrl_beyond_the_window_and_a_ctrl_twice() {
    let mut b = Bench::new(config(1, 1));
    let comm = b.sender(1, 1);
    let req = b.isend(comm, ADDR, 100_000);
    let first = ctrl(2, 0, 0, 100_000, 0x9000, &[1]);
    b.engine.on_control(&first);
    b.engine.on_control(&first);
    assert_eq!(b.engine.counters().strays, 1, "the second is nobody's");
    let wrote = b.post();
    b.engine.on_local(wrote.token);
    b.done(req, 100_000);
    b.engine.on_control(&ctrl(2, 300, 0, 1, 0x9000, &[1]));
    let sticky = b.engine.poll_connect(comm, 0, &mut b.port);
    match sticky {
        Err(Error::Failed(f)) => assert_eq!(f.why, Why::Protocol(Violation::BeyondWindow)),
        other => panic!("{other:?}"),
    }
}

/// Every message for nobody is counted, told, and changes nothing.
#[test]
fn strays_change_nothing() {
    let mut r = receiving();
    while r.b.engine.poll_event().is_some() {}
    let strays = [
        Stray::Malformed { kind: 15, len: 0 },
        Stray::Malformed { kind: 7, len: 100 },
        Stray::Malformed { kind: 2, len: 21 },
        Stray::Malformed { kind: 0, len: 527 },
        Stray::Conn(77),
        Stray::Conn(0),
        Stray::ConnResp(1),
        Stray::Ctrl(1, 5),
        Stray::Close(1),
        Stray::Write(9, 0),
        Stray::Write(1, 1),
        Stray::Eager(9, 0),
        Stray::Completion,
    ];
    let engine = &mut r.b.engine;
    engine.on_control(&[]);
    engine.on_control(&[7; 100]);
    engine.on_control(&[2; 21]);
    engine.on_control(&conn(0, 2, 1, 0, 0)[..527]);
    engine.on_control(&conn(0, 2, 1, 0, 77));
    // The listener has its connection: a second CONN is refused (decision 17).
    engine.on_control(&conn(0, 2, 1, 0, 0));
    engine.on_control(&conn(1, 2, 1, 0, 1));
    engine.on_control(&ctrl(2, 5, 1, 1, 0, &[1, 2]));
    let mut close = [0; 24];
    (close[0], close[16]) = (4, 1);
    engine.on_control(&close);
    engine.on_remote_write(0, 9 << 10 | 1 << 28, Some(1));
    engine.on_remote_write(0, imm(1, 1), Some(1));
    assert_eq!(engine.on_eager(1 << 28 | 9 << 10, 1, RX), RxFate::Repost);
    engine.on_local(ofi_rdma::Token(u64::MAX));
    let told: Vec<Event> = core::iter::from_fn(|| engine.poll_event()).collect();
    assert_eq!(told, strays.map(Event::Stray));
    assert_eq!(engine.counters().strays, 13);

    engine.on_local(r.ctrl.token);
    engine.on_remote_write(0, imm(1, 0), Some(1000));
    r.b.done(r.req, 1000);
}

/// One communicator's failure is nobody else's: the other one of the same engine goes on.
#[test]
fn a_violation_stays_where_it_is() {
    let mut r = receiving();
    let sender = {
        let target = ofi_rdma::Target {
            control_name: crate::bench::name(b'P', ofi_rdma::Lane::control(0)),
            listener_id: 0,
        };
        let comm =
            r.b.engine
                .connect(0, &mut r.b.port, &target)
                .expect("connect");
        let sent = r.b.post();
        r.b.engine.on_local(sent.token);
        r.b.engine.on_control(&conn(1, 2, 1, PEER, 2));
        assert_eq!(r.b.engine.poll_connect(comm, 0, &mut r.b.port), Ok(true));
        comm
    };
    let send = r.b.isend(sender, ADDR, 100);
    let eager = r.b.post();
    r.b.engine.on_remote_write(0, imm(0, 0), None);
    r.b.engine.on_local(eager.token);
    r.b.engine.on_control(&ctrl(2, 0, 2, 100, 0, &[1, 2]));
    r.b.done(send, 100);
    r.b.engine.close(sender, 0).expect("close");
    fails(r, Violation::SegmentCount);
}

/// What `deregMr` waits for: operations, and requests that may still get some; not the requests of a
/// failed communicator whose operations are back.
/// Requests that nobody tests do not hold a region up once nothing can happen to its memory.
#[test]
fn a_region_whose_requests_are_done_is_not_awaited() {
    let mut r = receiving();
    assert!(r.b.engine.region_awaited(crate::bench::REGION));
    r.b.engine.on_local(r.ctrl.token);
    assert!(
        r.b.engine.region_awaited(crate::bench::REGION),
        "the peer may write"
    );
    r.b.engine.on_remote_write(0, imm(1, 0), Some(1));
    assert!(!r.b.engine.region_awaited(crate::bench::REGION));
    assert!(r.b.engine.requests().eq([r.req]), "it is there still");
    assert_eq!(
        r.b.engine.region_refs(crate::bench::REGION),
        1,
        "not tested yet"
    );
    assert!(matches!(
        r.b.engine.test(r.req),
        Ok(ofi_rdma::Test::Done { .. })
    ));
}

#[test]
fn a_region_of_a_failed_communicator_is_not_awaited() {
    let mut r = receiving();
    assert!(r.b.engine.region_awaited(crate::bench::REGION));
    assert!(
        r.b.engine
            .awaited_requests(crate::bench::REGION)
            .eq([r.req])
    );
    r.b.engine.on_remote_write(0, imm(0, 0), Some(1));
    assert!(
        r.b.engine.region_awaited(crate::bench::REGION),
        "its CTRL is at the provider"
    );
    r.b.engine.on_local(r.ctrl.token);
    assert!(!r.b.engine.region_awaited(crate::bench::REGION));
    assert!(r.b.engine.requests().eq([r.req]), "it is there still");
    assert_eq!(
        r.b.engine.region_refs(crate::bench::REGION),
        1,
        "not tested yet"
    );
    assert!(matches!(r.b.engine.test(r.req), Err(Error::Failed(_))));
    assert_eq!(r.b.engine.region_refs(crate::bench::REGION), 0);
}
