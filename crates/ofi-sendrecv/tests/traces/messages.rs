//! Messages, back-pressure, flush, receives that are too short.

use ofi_rdma::{Admission, Cause, CommKey, NotNow, Outcome, PeerAddr, Test, Violation, Why};
use ofi_sendrecv::{Error, Op, Rest, Wire};

use crate::bench::{Bench, REGION, buffer, peer};

#[test]
fn a_message_is_one_send_and_one_receive() {
    let mut b = Bench::default();
    let sender = b.sender(b'P', 3);
    let send = b.isend(sender, 0x1000, 100);
    let posted = b.post();
    let (to, sent) = (peer(b'P'), buffer(0x1000, 100));
    assert_eq!(
        posted.wire,
        Wire::Send {
            peer: to,
            tag: 3,
            buffer: sent
        }
    );
    b.pending(send);
    b.engine.on_local(posted.token, 0);
    b.done(send, 100);

    let (receiver, tag, _) = b.receiver(b'P');
    let recv = b.irecv(receiver, 0x2000, 4096);
    let posted = b.post();
    let room = buffer(0x2000, 4096);
    assert_eq!(
        posted.wire,
        Wire::Recv {
            tag: u64::from(tag),
            buffer: room
        }
    );
    b.pending(recv);
    b.engine.on_local(posted.token, 100);
    b.done(recv, 100);
}

#[test]
fn an_empty_message_is_a_message() {
    let mut b = Bench::default();
    let sender = b.sender(b'P', 3);
    let send = b.isend(sender, 0, 0);
    let posted = b.post();
    b.engine.on_local(posted.token, 0);
    b.done(send, 0);
}

fn refusal(answer: Result<Admission, Error>) -> NotNow {
    match answer {
        Ok(Admission::NotNow(why)) => why,
        other => panic!("not now was expected: {other:?}"),
    }
}

/// Decision 10: the 129th is "not now", consumes nothing, and goes once one was tested.
#[test]
fn the_cap_of_128_is_back_pressure() {
    let mut b = Bench::default();
    let sender = b.sender(b'P', 3);
    let requests: Vec<_> = (0..128).map(|i| b.isend(sender, i, 8)).collect();
    let posts = b.posts();
    assert_eq!(posts.len(), 128);
    let answer = b.engine.isend(sender, buffer(0, 8));
    assert_eq!(refusal(answer), NotNow::InFlightCap);
    b.quiet();
    b.engine.on_local(posts[0].token, 0);
    let answer = b.engine.isend(sender, buffer(0, 8));
    assert_eq!(
        refusal(answer),
        NotNow::InFlightCap,
        "done is not yet taken"
    );
    b.done(requests[0], 8);
    b.isend(sender, 0, 8);
}

#[test]
fn eagain_keeps_the_order_and_is_told_as_not_now() {
    let mut b = Bench::default();
    let (receiver, ..) = b.receiver(b'P');
    b.port.answers.extend([Outcome::Busy; 2]);
    b.irecv(receiver, 0x1000, 8);
    b.quiet();
    let answer = b.engine.irecv(receiver, buffer(0x2000, 8));
    assert_eq!(refusal(answer), NotNow::PostsWaiting);
    let first = b.post();
    assert!(matches!(first.wire, Wire::Recv { buffer, .. } if buffer.addr == 0x1000));
    b.irecv(receiver, 0x2000, 8);
    let second = b.post();
    assert!(matches!(second.wire, Wire::Recv { buffer, .. } if buffer.addr == 0x2000));
}

/// On TCP a peer that is gone answers EAGAIN for ever (providers 1a).
#[test]
fn a_busy_peer_blocks_nobody_else() {
    let mut b = Bench::default();
    let dead: Vec<CommKey> = (0..10).map(|tag| b.sender(b'D', tag + 1)).collect();
    let alive = b.sender(b'P', 99);
    b.port.busy_peer = Some(peer(b'D'));
    for comm in dead {
        b.isend(comm, 0, 8);
    }
    b.isend(alive, 0, 8);
    // Four tries a pump: after three pumps everybody had a turn.
    let sent: Vec<_> = (0..3).flat_map(|_| b.posts()).collect();
    assert_eq!(sent.len(), 1);
    assert!(matches!(sent[0].wire, Wire::Send { tag: 99, .. }));
    // And a dead peer is not tried at every poll.
    let busy = b.engine.counters().busy;
    for _ in 0..10_000 {
        b.quiet();
    }
    assert!(b.engine.counters().busy - busy < 2000);
}

/// The reference spins in iflush on EAGAIN; ours queues, and never says "not now".
#[test]
fn a_flush_is_queued_and_reports_four_bytes() {
    let mut b = Bench::default();
    let (receiver, ..) = b.receiver(b'P');
    b.port.answers.push_back(Outcome::Busy);
    let flush = b.engine.flush(receiver, 0x3000, REGION).unwrap();
    b.quiet();
    let more = b.engine.flush(receiver, 0x4000, REGION).unwrap();
    let posts = b.posts();
    assert_eq!(posts.len(), 2);
    let (addr, region) = (0x3000, REGION);
    assert_eq!(posts[0].wire, Wire::FlushRead { addr, region });
    b.engine.on_local(posts[1].token, 0);
    b.pending(flush);
    b.done(more, 4);
    b.engine.on_local(posts[0].token, 0);
    b.done(flush, 4);
}

#[test]
fn flushes_do_not_count_as_messages() {
    let mut b = Bench::default();
    let (receiver, ..) = b.receiver(b'P');
    for addr in 0..128 {
        b.irecv(receiver, addr, 8);
    }
    b.engine.flush(receiver, 0, REGION).unwrap();
    assert_eq!(b.posts().len(), 129);
}

/// Where the provider drops the rest cleanly: done, with what there was room for, and on it goes.
#[test]
fn a_short_receive_is_done_with_its_room() {
    let mut b = Bench::default();
    let (receiver, ..) = b.receiver(b'P');
    let (short, next) = (b.irecv(receiver, 0, 100), b.irecv(receiver, 0, 200));
    let posts = b.posts();
    b.engine.on_truncated(posts[0].token, Rest::Dropped);
    b.done(short, 100);
    b.engine.on_local(posts[1].token, 150);
    b.done(next, 150);
}

/// Where it does not: an error that says so, and the next receive is not believed.
#[test]
fn a_short_receive_of_unknown_content_ends_its_communicator() {
    let mut b = Bench::default();
    let (receiver, tag, _) = b.receiver(b'P');
    let (short, next) = (b.irecv(receiver, 0, 100), b.irecv(receiver, 0, 200));
    let posts = b.posts();
    b.engine.on_truncated(posts[0].token, Rest::Unknown);
    assert_eq!(
        b.engine.test(short),
        Err(Error::Truncated { tag, room: 100 })
    );
    let again = b.engine.test(short);
    assert_eq!(again, Err(Error::Common(ofi_rdma::Error::NoSuchRequest)));
    b.engine.on_local(posts[1].token, 150);
    let Err(Error::Common(ofi_rdma::Error::Failed(failure))) = b.engine.test(next) else {
        panic!("the next one fails");
    };
    assert_eq!(failure.why, Why::Protocol(Violation::Overrun));
    b.close(receiver);
}

/// Decision 11: the first error sticks to its communicator, its followers are counted, and others do
/// not notice.
#[test]
fn an_error_has_one_owner() {
    let mut b = Bench::default();
    let (bad, good) = (b.sender(b'P', 1), b.sender(b'Q', 2));
    let (first, second, other) = (b.isend(bad, 0, 8), b.isend(bad, 8, 8), b.isend(good, 0, 8));
    let posts = b.posts();
    b.engine.on_failed(posts[0].token, Cause::errno(107));
    b.engine
        .on_failed(posts[1].token, Cause::errno(Cause::CANCELED));
    b.engine.on_local(posts[2].token, 0);
    let failed = b.engine.test(first).unwrap_err();
    assert_eq!(
        b.engine.test(second),
        Err(failed),
        "the cause, not the follower"
    );
    assert_eq!(b.engine.isend(bad, buffer(0, 8)), Err(failed), "it sticks");
    assert_eq!(b.engine.counters().followers, 1);
    b.done(other, 8);
    b.isend(good, 0, 8);
}

#[test]
fn a_refused_post_fails_its_communicator() {
    let mut b = Bench::default();
    let sender = b.sender(b'P', 1);
    let cause = Cause::errno(22);
    b.port.answers.push_back(Outcome::Failed(cause));
    let send = b.isend(sender, 0, 8);
    b.quiet();
    b.engine.test(send).unwrap_err();
    b.close(sender);
    b.baseline();
}

#[test]
fn lengths_and_kinds_are_checked() {
    let mut b = Bench::default();
    let (sender, (receiver, ..)) = (b.sender(b'P', 1), b.receiver(b'P'));
    let long = buffer(0, 1 << 31);
    b.engine.isend(sender, long).unwrap_err();
    b.engine.irecv(receiver, long).unwrap_err();
    // Above the provider's limit: nothing to send, but room to receive.
    b.engine
        .isend(sender, buffer(0, (1 << 30) + 1))
        .unwrap_err();
    b.irecv(receiver, 0, (1 << 30) + 1);
    b.engine.isend(receiver, buffer(0, 1)).unwrap_err();
    b.engine.irecv(sender, buffer(0, 1)).unwrap_err();
    b.engine.flush(sender, 0, REGION).unwrap_err();
}

/// Decision 35: one look at the queue an epoch, however many requests are tested.
#[test]
fn one_poll_an_epoch() {
    let mut b = Bench::default();
    let sender = b.sender(b'P', 1);
    let (x, y) = (b.isend(sender, 0, 8), b.isend(sender, 0, 8));
    let sent = b.posts();
    assert_eq!(
        sent.iter().map(|p| p.op).collect::<Vec<_>>(),
        [Op::Send, Op::Send]
    );
    let mut polls = |req| b.engine.test(req);
    assert_eq!(polls(x), Ok(Test::Pending { poll: true }));
    assert_eq!(polls(y), Ok(Test::Pending { poll: false }));
    assert_eq!(polls(x), Ok(Test::Pending { poll: true }), "a new epoch");
    assert_eq!(PeerAddr(1), peer(1));
}
