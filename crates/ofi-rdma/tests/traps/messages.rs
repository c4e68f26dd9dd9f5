//! Traps of messages: counting, eager, order.

use crate::bench::{Bench, REGION, config, ctrl};
use ofi_rdma::{
    Admission, Cause, Error, Lane, NotNow, OpKind, Outcome, RecvBuf, RxFate, RxId, SendBuf,
    Violation, Why, Wire,
};

const ADDR: u64 = 0x1000;
const KEYS: [u64; 4] = [1, 2, 3, 4];
const RX: RxId = RxId { rail: 0, index: 3 };

fn recv_buf(optional: bool) -> RecvBuf {
    RecvBuf {
        addr: ADDR,
        len: 64,
        region: REGION,
        wire_addr: ADDR,
        keys: KEYS,
        optional,
    }
}

/// A CTRL for every receive, also when its data is here; the eager sender waits for it.
#[test]
fn trap_03_every_receive_sends_a_ctrl_and_every_eager_send_waits_for_it() {
    let mut b = Bench::new(config(1, 1));
    let comm = b.receiver(1, 1);
    assert_eq!(b.engine.on_eager(0x1000_0400, 64, RX), RxFate::Held);
    let req = b.irecv(comm, ADDR, 64, KEYS);
    let posts = b.posts();
    let ctrls = posts.iter().filter(|post| post.lane.is_control()).count();
    assert_eq!((posts.len(), ctrls), (2, 1), "{posts:?}");
    for post in posts.iter().filter(|post| !post.lane.is_control()) {
        b.engine.on_local(post.token);
    }
    b.pending(req);

    let mut a = Bench::new(config(1, 1));
    let comm = a.sender(1, 1);
    let req = a.isend(comm, ADDR, 64);
    let eager = a.post();
    a.engine.on_local(eager.token);
    a.pending(req);
    a.engine.on_control(&ctrl(2, 0, 0, 64, 0x9000, &[1]));
    a.done(req, 64);
}

/// How many completions a send needs is known from its CTRL on, not before, and no segment count may
/// change on the way.
#[test]
fn trap_04_completions_are_counted_against_what_was_promised() {
    let mut a = Bench::new(config(4, 1));
    let comm = a.sender(4, 1);
    let req = a.isend(comm, ADDR, 1 << 20);
    a.pending(req);
    a.engine
        .on_control(&ctrl(2, 0, 0, 1 << 20, 0x9000, &[1, 2, 3, 4]));
    let posts = a.posts();
    assert_eq!(posts.len(), 4);
    for post in &posts {
        a.pending(req);
        a.engine.on_local(post.token);
        // One that comes twice is none.
        a.engine.on_local(post.token);
    }
    assert_eq!(a.engine.counters().strays, 4);
    a.done(req, 1 << 20);

    let mut b = Bench::new(config(4, 1));
    let comm = b.receiver(4, 1);
    let req = b.irecv(comm, ADDR, 64, KEYS);
    let sent = b.post();
    b.engine.on_local(sent.token);
    b.engine.on_remote_write(0, 0x3000_0400, Some(8));
    b.pending(req);
    b.engine.on_remote_write(1, 0x2000_0400, Some(8));
    let Err(Error::Failed(failure)) = b.engine.test(req) else {
        panic!("segment counts of one message differ")
    };
    assert_eq!(failure.why, Why::Protocol(Violation::SegmentCount));
}

/// Empty stripes are posted and counted like others, on both sides.
#[test]
fn trap_05_empty_stripes_are_segments() {
    let mut settings = config(4, 1);
    (
        settings.min_stripe_bytes,
        settings.small_max_bytes,
        settings.eager_max,
    ) = (1, 0, None);
    let mut a = Bench::new(settings.clone());
    let comm = a.sender(4, 1);
    a.engine
        .on_control(&ctrl(2, 0, 0, 300, 0x9000, &[1, 2, 3, 4]));
    let req = a.isend(comm, ADDR, 300);
    let posts = a.posts();
    let lens: Vec<u64> = posts
        .iter()
        .map(|post| match post.wire {
            Wire::Write { len, data, .. } => {
                assert_eq!(data.map(|data| data >> 28), Some(4), "four segments");
                len
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        (lens.len(), lens.iter().sum::<u64>(), lens.contains(&0)),
        (4, 300, true)
    );
    posts.iter().for_each(|post| a.engine.on_local(post.token));
    a.done(req, 300);

    let mut b = Bench::new(settings);
    let comm = b.receiver(4, 1);
    let req = b.irecv(comm, ADDR, 300, KEYS);
    let sent = b.post();
    b.engine.on_local(sent.token);
    for len in [128, 128, 44] {
        b.engine.on_remote_write(0, 0x4000_0400, Some(len));
        b.pending(req);
    }
    b.engine.on_remote_write(3, 0x4000_0400, Some(0));
    b.done(req, 300);
}

/// A flush that found a rail busy goes on with that rail: no rail is read twice.
#[test]
fn trap_12_a_flush_resumes_at_the_rail_where_it_stopped() {
    let mut b = Bench::new(config(4, 1));
    let comm = b.receiver(4, 1);
    let accept = Outcome::Accepted;
    b.port
        .answers
        .extend([accept, accept, Outcome::Busy, accept]);
    let req = b.engine.flush(comm, ADDR, REGION).expect("flush");
    let first = b.posts();
    let lanes: Vec<Lane> = first.iter().map(|post| post.lane).collect();
    assert_eq!(lanes, [Lane::data(0), Lane::data(1), Lane::data(3)]);
    first.iter().for_each(|post| b.engine.on_local(post.token));
    b.pending(req);
    let last = b.post();
    assert_eq!(last.lane, Lane::data(2));
    b.pending(req);
    b.engine.on_local(last.token);
    b.done(req, 0);
}

/// The copy of an eager payload fails: so does its receive, which can then be closed.
#[test]
fn trap_14_a_failed_eager_copy_fails_its_receive_and_close_works() {
    let mut b = Bench::new(config(1, 1));
    let comm = b.receiver(1, 1);
    let req = b.irecv(comm, ADDR, 64, KEYS);
    let sent = b.post();
    b.engine.on_local(sent.token);
    assert_eq!(b.engine.on_eager(0x1000_0400, 64, RX), RxFate::Held);
    let copy = b.post();
    let cause = Cause::errno(5);
    b.engine.on_failed(copy.token, cause);
    let Err(Error::Failed(failure)) = b.engine.test(req) else {
        panic!("the copy failed")
    };
    let (op, lane) = (OpKind::EagerCopy, Lane::data(0));
    assert_eq!(failure.why, Why::Operation { op, lane, cause });
    assert_eq!(
        b.engine.test(req),
        Err(Error::NoSuchRequest),
        "reported once"
    );
    assert_eq!(b.engine.take_released(), Some(RX));
    b.engine.close(comm, 0).expect("close");
    assert_eq!(
        (b.engine.live_requests(), b.engine.region_refs(REGION)),
        (0, 0)
    );
}

/// An error is its own communicator's: a call on another one, which happens to find it, succeeds.
#[test]
fn trap_15_an_error_is_reported_to_its_owner_only() {
    let mut b = Bench::new(config(1, 1));
    let first = b.receiver(1, 1);
    let (listener, id) = b.engine.listen().expect("listen");
    b.engine.on_control(&crate::bench::conn(0, 1, 1, 9, id));
    assert_eq!(b.engine.poll_accept(listener, 0, &mut b.port), Ok(None));
    let sent = b.post();
    b.engine.on_local(sent.token);
    let second = b
        .engine
        .poll_accept(listener, 0, &mut b.port)
        .expect("accept")
        .expect("up");
    let hit = b.irecv(first, ADDR, 64, KEYS);
    let failing = b.post();
    let other = b.irecv(second, ADDR, 64, KEYS);
    let sent = b.post();
    b.engine.on_failed(failing.token, Cause::errno(107));
    b.engine.on_local(sent.token);
    b.pending(other);
    b.engine.on_remote_write(0, 0x1000_0000 | 3 << 10, Some(64));
    b.done(other, 64);
    assert!(matches!(b.engine.test(hit), Err(Error::Failed(_))));
}

/// The gate for eager messages opens when `test` takes the write, and a request that is never tested
/// is back-pressure at the cap, no error.
#[test]
fn trap_16_the_eager_gate_opens_again_and_an_untested_request_is_back_pressure() {
    let mut a = Bench::new(config(1, 1));
    let comm = a.sender(1, 1);
    for seq in [0_u32, 2] {
        let big = a.isend(comm, ADDR, 1 << 20);
        let behind = a.isend(comm, ADDR, 64);
        a.quiet();
        for (at, len) in [(seq, 1 << 20), (seq + 1, 64)] {
            a.engine.on_control(&ctrl(2, at, 0, len, 0x9000, &[1]));
        }
        a.posts()
            .iter()
            .for_each(|post| a.engine.on_local(post.token));
        a.done(big, 1 << 20);
        a.done(behind, 64);
    }
    a.isend(comm, ADDR, 64);
    assert!(matches!(a.post().wire, Wire::Eager { .. }), "open again");
    let buf = SendBuf {
        addr: ADDR,
        len: 1 << 20,
        region: REGION,
    };
    for _ in 0..127 {
        assert!(matches!(
            a.engine.isend(comm, buf),
            Ok(Admission::Admitted(_))
        ));
    }
    for _ in 0..300 {
        assert_eq!(
            a.engine.isend(comm, buf),
            Ok(Admission::NotNow(NotNow::InFlightCap))
        );
    }
}

/// Whether the completion is wanted is read at each call: a refusal remembers nothing.
#[test]
fn trap_17_the_optional_word_is_read_at_each_retry() {
    let mut settings = config(1, 1);
    (settings.eager_max, settings.early_completion) = (None, true);
    let mut b = Bench::new(settings);
    let comm = b.receiver(1, 1);
    b.port.answers.push_back(Outcome::Busy);
    b.irecv(comm, ADDR, 64, KEYS);
    b.quiet();
    for optional in [true, false] {
        let refused = b.engine.irecv(comm, &recv_buf(optional));
        assert_eq!(refused, Ok(Admission::NotNow(NotNow::PostsWaiting)));
    }
    b.post();
    for (optional, kind) in [(false, 2), (true, 5), (false, 2)] {
        let admitted = b.engine.irecv(comm, &recv_buf(optional));
        assert!(
            matches!(admitted, Ok(Admission::Admitted(_))),
            "{admitted:?}"
        );
        assert_eq!(b.post().bytes[0] & 0xF, kind);
    }
}

/// CTRL type 5 is understood whatever our own settings are.
#[test]
fn trap_26_type_5_is_always_understood() {
    for eager_max in [None, Some(8192)] {
        let mut settings = config(1, 1);
        settings.eager_max = eager_max;
        let mut a = Bench::new(settings);
        let comm = a.sender(1, 1);
        a.engine.on_control(&ctrl(5, 0, 0, 64, 0x9000, &[1]));
        let req = a.isend(comm, ADDR, 64);
        let write = a.post();
        assert!(
            matches!(write.wire, Wire::Write { data: None, .. }),
            "{write:?}"
        );
        a.engine.on_local(write.token);
        a.done(req, 64);
    }
}

/// Three rails and two stripes stay two; 5000 bytes, eager or not, turn the wheel of large messages.
#[test]
fn trap_33_the_wheels_turn_as_the_references() {
    let mut settings = config(3, 1);
    settings.min_stripe_bytes = 65_536;
    let mut a = Bench::new(settings);
    let comm = a.sender(3, 1);
    let mut lanes = Vec::new();
    for (seq, len) in [100_000_u32, 5000, 100_000, 32, 100_000]
        .into_iter()
        .enumerate()
    {
        let seq = u32::try_from(seq).expect("small");
        a.engine
            .on_control(&ctrl(2, seq, 0, len, 0x9000, &[1, 2, 3]));
        let req = a.isend(comm, ADDR, len.into());
        let posts = a.posts();
        lanes.push(
            posts
                .iter()
                .map(|post| post.lane.rail())
                .collect::<Vec<_>>(),
        );
        posts.iter().for_each(|post| a.engine.on_local(post.token));
        a.done(req, len.into());
    }
    lanes.iter_mut().for_each(|rails| rails.sort_unstable());
    assert_eq!(
        lanes,
        [vec![0, 1], vec![2], vec![0, 1], vec![0], vec![0, 2]]
    );
    for (len, rail) in [(32, 1), (5000, 1)] {
        a.isend(comm, ADDR, len);
        let eager = a.post();
        assert!(matches!(eager.wire, Wire::Eager { .. }), "{eager:?}");
        assert_eq!(eager.lane.rail(), rail, "an eager message of {len} bytes");
    }
}
