//! Appendix B, B9, and the rest of decision 13: what is and is not said at the end, and failures
//! that stay where they are.

use crate::bench::{Bench, config, conn, ctrl};
use ofi_rdma::{
    Admission, Cause, Error, Lane, NotNow, OpKind, Outcome, RecvBuf, RegionId, SendBuf, Why,
};

const ADDR: u64 = 0x1000;
const KEYS: [u64; 4] = [1, 2, 3, 4];

#[test]
fn b9_close_says_how_many_ctrls_there_were() {
    let mut settings = config(1, 1);
    settings.close_messages = true;
    let mut b = Bench::new(settings);
    let comm = b.receiver(1, 1);
    for seq in 0..3_u64 {
        let req = b.irecv(comm, ADDR, 64, KEYS);
        let sent = b.post();
        b.engine.on_local(sent.token);
        b.engine.on_remote_write(0, 0x1000_0400 | seq, Some(64));
        b.done(req, 64);
    }
    b.engine.close(comm, 0).expect("close");
    let sent = b.post();
    // Protocol 2c.5: type 4, counter 3 at 8, the sender's id 0 at 16.
    let mut close = [0; 24];
    (close[0], close[8]) = (4, 3);
    assert_eq!((sent.lane, sent.bytes), (Lane::control(0), close.to_vec()));
    b.engine.on_local(sent.token);
    b.quiet();
    assert_eq!(b.engine.live_comms(), 1, "the listener");
}

#[test]
fn no_close_without_a_ctrl_or_by_default() {
    let mut settings = config(1, 1);
    settings.close_messages = true;
    let mut b = Bench::new(settings);
    let comm = b.receiver(1, 1);
    b.engine.close(comm, 0).expect("close");
    b.quiet();

    let mut b = Bench::new(config(1, 1));
    let comm = b.receiver(1, 1);
    let req = b.irecv(comm, ADDR, 64, KEYS);
    let sent = b.post();
    b.engine.on_local(sent.token);
    b.engine.on_remote_write(0, 0x1000_0400, Some(64));
    b.done(req, 64);
    b.engine.close(comm, 0).expect("close");
    b.quiet();
}

/// A completion of `CONN_RESP` that comes again while CLOSE is at the provider is a stray: it must not
/// end the communicator before the provider gave CLOSE back.
#[test]
fn a_repeated_completion_is_not_taken_for_another() {
    let mut settings = config(1, 1);
    settings.close_messages = true;
    let mut b = Bench::new(settings);
    let (listener, _) = b.engine.listen().expect("listen");
    b.engine.on_control(&conn(0, 1, 1, 0, 0));
    assert_eq!(b.engine.poll_accept(listener, 0, &mut b.port), Ok(None));
    let answer = b.post();
    b.engine.on_local(answer.token);
    let comm = b
        .engine
        .poll_accept(listener, 0, &mut b.port)
        .expect("accept")
        .expect("accepted");
    let req = b.irecv(comm, ADDR, 64, KEYS);
    let sent = b.post();
    b.engine.on_local(sent.token);
    b.engine.on_remote_write(0, 0x1000_0400, Some(64));
    b.done(req, 64);
    b.engine.close(comm, 0).expect("close");
    let close = b.post();
    b.engine.on_local(answer.token);
    assert_eq!((b.engine.counters().strays, b.engine.live_comms()), (1, 2));
    b.engine.on_local(close.token);
    assert_eq!((b.engine.counters().strays, b.engine.live_comms()), (1, 1));
}

#[test]
fn close_of_a_sender_is_understood_before_and_after_its_own() {
    let mut a = Bench::new(config(1, 1));
    let comm = a.sender(1, 1);
    let mut close = [0; 24];
    close[0] = 4;
    a.engine.on_control(&close);
    assert_eq!(a.engine.counters().strays, 0);
    a.engine.close(comm, 0).expect("close");
    a.engine.on_control(&close);
    assert_eq!(a.engine.counters().strays, 1);
    a.baseline();
}

/// A BASE peer would crash of a write or an eager message after the close: none may follow.
#[test]
fn nothing_is_posted_after_close() {
    let mut a = Bench::new(config(1, 1));
    let comm = a.sender(1, 1);
    a.port.answers.push_back(Outcome::Busy);
    let req = a.isend(comm, ADDR, 64);
    assert_eq!(a.engine.posts_waiting(), 1);
    a.engine.close(comm, 0).expect("close");
    a.quiet();
    assert_eq!(a.engine.test(req), Err(Error::NoSuchRequest));
    a.baseline();

    let mut b = Bench::new(config(1, 1));
    let comm = b.receiver(1, 1);
    b.port.answers.push_back(Outcome::Busy);
    b.irecv(comm, ADDR, 64, KEYS);
    b.quiet();
    b.engine.close(comm, 0).expect("close");
    b.quiet();
}

/// Close with operations at the provider: the region stays referenced until they are back.
#[test]
fn close_waits_for_nobody_and_forgets_nothing() {
    let mut a = Bench::new(config(1, 1));
    let comm = a.sender(1, 1);
    a.engine.on_control(&ctrl(2, 0, 0, 4096, ADDR, &[9]));
    a.isend(comm, ADDR, 4096);
    let write = a.post();
    a.engine.close(comm, 0).expect("close");
    assert_eq!(
        (a.engine.region_refs(RegionId(7)), a.engine.live_comms()),
        (1, 1)
    );
    a.engine.on_local(write.token);
    a.baseline();
    a.engine.on_local(write.token);
    assert_eq!(a.engine.counters().strays, 1, "a completion comes once");
}

#[test]
fn early_messages_of_a_closed_communicator_are_given_back() {
    let mut b = Bench::new(config(1, 1));
    let comm = b.receiver(1, 1);
    let rx = ofi_rdma::RxId { rail: 0, index: 1 };
    assert_eq!(
        b.engine.on_eager(0x1000_0400, 10, rx),
        ofi_rdma::RxFate::Held
    );
    b.engine.close(comm, 0).expect("close");
    assert_eq!(b.engine.take_released(), Some(rx));
    assert_eq!(b.engine.early_messages(), 0);
    assert_eq!(
        b.engine.on_eager(0x1000_0401, 10, rx),
        ofi_rdma::RxFate::Repost,
        "for nobody"
    );
}

#[test]
fn a_failed_operation_fails_its_communicator_and_no_other() {
    let mut a = Bench::new(config(1, 1));
    let first = a.sender(1, 1);
    let second = a.sender_with(1);

    let hit = a.isend(first, ADDR, 64);
    let eager = a.post();
    let cause = Cause {
        errno: 103,
        provider_errno: 15,
    };
    a.engine.on_failed(eager.token, cause);
    let Err(Error::Failed(failure)) = a.engine.test(hit) else {
        panic!("it failed")
    };
    let (op, lane) = (OpKind::Eager, Lane::data(0));
    assert_eq!(failure.why, Why::Operation { op, lane, cause });
    assert_eq!((failure.comm_id, failure.seq), (0, Some(0)));
    // Sticky, with the first cause.
    let buf = SendBuf {
        addr: ADDR,
        len: 64,
        region: RegionId(7),
    };
    assert_eq!(a.engine.isend(first, buf), Err(Error::Failed(failure)));

    let req = a.isend(second, ADDR, 64);
    let eager = a.post();
    a.engine.on_local(eager.token);
    a.engine.on_control(&ctrl(2, 0, 1, 64, ADDR, &[9]));
    a.done(req, 64);
    a.engine.close(first, 0).expect("close");
    a.engine.close(second, 0).expect("close");
    a.baseline();
}

#[test]
fn the_129th_message_is_not_now_and_consumes_nothing() {
    let mut b = Bench::new(config(1, 1));
    let comm = b.receiver(1, 1);
    let reqs: Vec<_> = (0..128)
        .map(|_| {
            let req = b.irecv(comm, ADDR, 64, KEYS);
            let sent = b.post();
            b.engine.on_local(sent.token);
            req
        })
        .collect();
    let (wire_addr, keys) = (ADDR, KEYS);
    let buf = RecvBuf {
        addr: ADDR,
        len: 64,
        region: RegionId(7),
        wire_addr,
        keys,
        optional: false,
    };
    for _ in 0..3 {
        let answer = b.engine.irecv(comm, &buf);
        assert_eq!(answer, Ok(Admission::NotNow(NotNow::InFlightCap)));
        b.quiet();
    }
    b.engine.on_remote_write(0, 0x1000_0400, Some(64));
    b.done(reqs[0], 64);
    let next = b.irecv(comm, ADDR, 64, KEYS);
    let sent = b.post();
    assert_eq!(
        sent.bytes[..2],
        ctrl(2, 128, 0, 64, ADDR, &[1])[..2],
        "sequence number 128"
    );
    b.pending(next);
}
