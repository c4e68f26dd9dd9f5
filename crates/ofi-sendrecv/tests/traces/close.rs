//! Closing, with and without operations in flight.

use ofi_rdma::{Cause, Outcome};
use ofi_sendrecv::Op;

use crate::bench::{Bench, REGION, connect_message};

/// Protocol 2j: the reference leaves the posted receive of an abandoned accept behind.
#[test]
fn nothing_is_left_of_an_abandoned_accept() {
    let mut b = Bench::default();
    let (listener, _) = b.engine.listen().unwrap();
    let awaited = b.post();
    b.engine.close(listener, 0).unwrap();
    b.quiet();
    assert_eq!(b.port.cancels, [awaited.token]);
    assert_eq!(b.engine.live_comms(), 1, "until the provider gave it back");
    b.port.cancels.clear();
    b.engine
        .on_failed(awaited.token, Cause::errno(Cause::CANCELED));
    b.baseline();
}

/// The message can win against the cancellation.
#[test]
fn nothing_is_left_when_the_message_comes_first() {
    let mut b = Bench::default();
    let (listener, _) = b.engine.listen().unwrap();
    let awaited = b.post();
    b.engine.close(listener, 0).unwrap();
    b.quiet();
    b.port.cancels.clear();
    b.engine.on_connect(awaited.token, &connect_message(b'P'));
    b.baseline();
}

#[test]
fn nothing_is_left_of_a_listener_that_was_never_posted_or_never_accepted() {
    let mut b = Bench::default();
    let (listener, _) = b.engine.listen().unwrap();
    b.engine.close(listener, 0).unwrap();
    b.quiet();
    let (listener, _) = b.engine.listen().unwrap();
    let awaited = b.post();
    b.engine.on_connect(awaited.token, &connect_message(b'P'));
    b.engine.close(listener, 0).unwrap();
    b.quiet();
    b.baseline();
}

/// Decision 13: receives at the provider come back before the communicator goes; what is queued is
/// dropped; the words are stale at once.
#[test]
fn nothing_is_left_of_receives_in_flight() {
    let mut b = Bench::default();
    let (receiver, _, watch) = b.receiver(b'P');
    let flying = b.irecv(receiver, 0, 8);
    let posted = b.post();
    let done = b.irecv(receiver, 8, 8);
    let second = b.post();
    b.engine.on_local(second.token, 8);
    b.port.answers.extend([Outcome::Busy; 2]);
    let queued = b.irecv(receiver, 16, 8);
    b.quiet();
    b.engine.close(receiver, 0).unwrap();
    b.quiet();
    for request in [flying, done, queued] {
        b.engine.test(request).unwrap_err();
    }
    let mut cancels = b.port.cancels.split_off(0);
    cancels.sort_by_key(|token| token.0);
    assert_eq!(cancels, [watch.token, posted.token]);
    assert_eq!(b.engine.region_refs(REGION), 1);
    assert_eq!(b.engine.awaited_requests(REGION).count(), 1);
    for token in cancels {
        b.engine.on_failed(token, Cause::errno(Cause::CANCELED));
    }
    b.baseline();
}

/// What is done and was not tested holds up no deregistration: nothing will happen to it any more.
#[test]
fn a_region_whose_requests_are_over_is_not_awaited() {
    let mut b = Bench::default();
    let (receiver, ..) = b.receiver(b'P');
    let request = b.irecv(receiver, 0, 8);
    let posted = b.post();
    assert!(b.engine.region_awaited(REGION), "its bytes may still come");
    assert_eq!(b.engine.awaited_requests(REGION).next(), Some(request));
    b.engine.on_local(posted.token, 8);
    assert_eq!(b.engine.region_refs(REGION), 1, "until its test");
    assert!(!b.engine.region_awaited(REGION));
    assert!(b.engine.requests().eq([request]), "it is there still");
    b.done(request, 8);
    assert_eq!(b.engine.region_refs(REGION), 0);
}

#[test]
fn nothing_is_left_of_sends_in_flight() {
    let mut b = Bench::default();
    let sender = b.sender(b'P', 1);
    b.isend(sender, 0, 8);
    let posted = b.post();
    b.engine.close(sender, 0).unwrap();
    b.quiet();
    assert!(
        b.port.cancels.is_empty(),
        "what is sent cannot be taken back"
    );
    assert_eq!(
        (b.engine.live_comms(), b.engine.region_refs(REGION)),
        (1, 1)
    );
    b.engine.on_local(posted.token, 0);
    b.baseline();
}

/// Receives of a failed communicator are withdrawn at once: the caller frees memory next.
#[test]
fn a_failure_withdraws_the_receives() {
    let mut b = Bench::default();
    let (receiver, _, watch) = b.receiver(b'P');
    let (first, second) = (b.irecv(receiver, 0, 8), b.irecv(receiver, 8, 8));
    let posts = b.posts();
    b.engine.on_failed(posts[0].token, Cause::errno(5));
    b.quiet();
    let mut cancels = b.port.cancels.split_off(0);
    cancels.sort_by_key(|token| token.0);
    assert_eq!(cancels, [watch.token, posts[1].token]);
    b.engine.test(first).unwrap_err();
    b.engine.test(second).unwrap_err();
    for token in cancels {
        b.engine.on_failed(token, Cause::errno(Cause::CANCELED));
    }
    b.close(receiver);
    b.baseline();
}

#[test]
fn nothing_is_left_of_a_connection_being_made() {
    let mut b = Bench::default();
    let (sender, posted) = {
        let target = ofi_sendrecv::Target {
            name: crate::bench::name(b'P'),
            tag: 1,
        };
        let comm = b.engine.connect(0, &mut b.port, &target).unwrap();
        (comm, b.post())
    };
    assert_eq!(posted.op, Op::Connect);
    b.engine.close(sender, 0).unwrap();
    b.engine.close(sender, 0).unwrap_err();
    assert_eq!(b.engine.live_comms(), 1);
    b.engine.on_local(posted.token, 0);
    b.baseline();
}

/// Of a failed communicator what is at the provider is awaited, and nothing else.
#[test]
fn a_region_of_a_failed_communicator_is_awaited_for_what_the_provider_has() {
    let mut b = Bench::default();
    let (receiver, ..) = b.receiver(b'P');
    let (first, at_first) = (b.irecv(receiver, 0, 8), b.post());
    let (second, at_second) = (b.irecv(receiver, 8, 8), b.post());
    b.engine.on_failed(at_first.token, Cause::errno(5));
    assert!(b.engine.awaited_requests(REGION).eq([second]));
    assert!(b.engine.requests().eq([first, second]));
    b.engine
        .on_failed(at_second.token, Cause::errno(Cause::CANCELED));
    assert!(!b.engine.region_awaited(REGION));
    for request in [first, second] {
        b.engine.test(request).unwrap_err();
    }
}
