//! What arrives where a connect message is awaited, and completions for nothing.

use ofi_rdma::{Cause, Event, Stray, Token, Violation, Why};
use ofi_sendrecv::{Error, Op, Rest};
use proptest::prelude::*;

use crate::bench::{Bench, connect_message};

/// Trap 29: nothing tells the messages of two senders on one tag apart, so the communicator ends.
#[test]
fn a_second_sender_is_told() {
    let mut b = Bench::default();
    let (receiver, tag, watch) = b.receiver(b'P');
    let recv = b.irecv(receiver, 0, 8);
    b.post();
    b.engine.on_connect(watch.token, &connect_message(b'Q'));
    let Err(Error::Common(ofi_rdma::Error::Failed(failure))) = b.engine.test(recv) else {
        panic!("the receive ends in error");
    };
    assert_eq!(failure.comm_id, tag);
    assert_eq!(failure.why, Why::Protocol(Violation::SecondSender));
}

#[test]
fn garbage_for_a_connect_message_is_dropped_and_awaited_again() {
    let mut b = Bench::default();
    let (listener, _) = b.engine.listen().unwrap();
    let mut awaited = b.post();
    let mut bad_name = connect_message(b'P');
    bad_name[56..64].copy_from_slice(&57_u64.to_le_bytes());
    let mut unknown = connect_message(b'P');
    unknown[3] = 0;
    let mut not_us = connect_message(b'P');
    not_us[64] = 1;
    // 160 bytes: the connect message of releases from 1.16 on.
    for bytes in [
        vec![],
        vec![7; 160],
        vec![0xFF; 80],
        bad_name,
        unknown,
        not_us,
    ] {
        b.engine.on_connect(awaited.token, &bytes);
        assert_eq!(b.engine.poll_accept(listener, 0, &mut b.port), Ok(None));
        awaited = b.post();
        assert_eq!(awaited.op, Op::Await);
    }
    assert_eq!(b.engine.counters().strays, 6);
    b.engine.on_truncated(awaited.token, Rest::Unknown);
    awaited = b.post();
    b.engine.on_connect(awaited.token, &connect_message(b'P'));
    let accepted = b.engine.poll_accept(listener, 0, &mut b.port);
    assert!(matches!(accepted, Ok(Some(_))));
    let first = b.engine.poll_event();
    assert_eq!(
        first,
        Some(Event::Stray(Stray::Malformed { kind: 0, len: 0 }))
    );
}

#[test]
fn a_completion_for_nothing_is_a_stray() {
    let mut b = Bench::default();
    let sender = b.sender(b'P', 1);
    let request = b.isend(sender, 0, 8);
    let posted = b.post();
    b.engine.on_local(posted.token, 0);
    b.engine.on_local(posted.token, 0);
    b.engine.on_failed(Token(u64::MAX), Cause::errno(5));
    b.engine.on_connect(posted.token, &connect_message(b'P'));
    assert_eq!(b.engine.counters().strays, 3);
    b.done(request, 8);
}

/// A length beyond the room would be the provider's mistake; it does not become the caller's.
#[test]
fn a_receive_is_never_longer_than_its_room() {
    let mut b = Bench::default();
    let (receiver, ..) = b.receiver(b'P');
    let recv = b.irecv(receiver, 0, 8);
    let posted = b.post();
    b.engine.on_local(posted.token, u64::MAX);
    b.done(recv, 8);
}

proptest! {
    #[test]
    fn any_bytes_at_the_tag_leave_a_listener_that_works(
        garbage in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 0..20)
    ) {
        let mut b = Bench::default();
        let (listener, _) = b.engine.listen().unwrap();
        for bytes in &garbage {
            let awaited = b.post();
            b.engine.on_connect(awaited.token, bytes);
            prop_assert_eq!(b.engine.poll_accept(listener, 0, &mut b.port), Ok(None));
        }
        let awaited = b.post();
        b.engine.on_connect(awaited.token, &connect_message(b'P'));
        prop_assert!(b.engine.poll_accept(listener, 0, &mut b.port).unwrap().is_some());
    }
}
