//! Making connections, byte by byte.

use ofi_rdma::{Cause, CommKind, Event, Outcome, PeerAddr};
use ofi_sendrecv::limits::FIRST_TAG;
use ofi_sendrecv::{Error, Op, Target, Wire};

use crate::bench::{Bench, CONTROL, connect_message, name, peer};

/// Protocol 2c.10, 2d.8: one message of 80 bytes to the handle's address, and its local completion
/// makes the connection.
#[test]
fn a_sender_says_who_it_is() {
    let mut b = Bench::default();
    let target = Target {
        name: name(b'P'),
        tag: 3,
    };
    let comm = b.engine.connect(0, &mut b.port, &target).unwrap();
    let sent = b.post();
    let (to, tag) = (peer(b'P'), CONTROL | 3);
    assert_eq!(sent.wire, Wire::Connect { peer: to, tag });
    let mut golden = [0_u8; 80];
    golden[..16].copy_from_slice(&[b'U', 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9]);
    golden[56] = 16;
    assert_eq!(sent.bytes, golden);
    assert_eq!(b.engine.poll_connect(comm, 1), Ok(false), "not sent yet");
    b.engine.on_local(sent.token, 0);
    assert_eq!(b.engine.poll_connect(comm, 2), Ok(true));
    let info = b.engine.comm_info(comm).unwrap();
    assert_eq!(
        (info.kind, info.remote_id, info.connected),
        (CommKind::Send, 3, true)
    );
    b.close(comm);
    b.baseline();
}

/// The listener awaits its message from anybody on the tag with the control bit, and the receive
/// communicator then uses the bare tag.
#[test]
fn a_listener_awaits_one_connect_message() {
    let mut b = Bench::default();
    let (listener, tag) = b.engine.listen().unwrap();
    assert_eq!(tag, FIRST_TAG, "no number that an RDMA listener has");
    let awaited = b.post();
    assert_eq!(
        awaited.wire,
        Wire::Await {
            tag: CONTROL | u64::from(tag)
        }
    );
    assert_eq!(b.engine.poll_accept(listener, 0, &mut b.port), Ok(None));
    b.engine.on_connect(awaited.token, &connect_message(b'P'));
    let comm = b
        .engine
        .poll_accept(listener, 0, &mut b.port)
        .unwrap()
        .unwrap();
    let again = b.engine.poll_accept(listener, 0, &mut b.port);
    assert_eq!(again, Err(Error::Common(ofi_rdma::Error::AlreadyAccepted)));
    assert_eq!(
        b.post().wire,
        Wire::Await {
            tag: CONTROL | u64::from(tag)
        },
        "for a second sender"
    );
    b.irecv(comm, 0x1000, 64);
    assert!(matches!(b.post().wire, Wire::Recv { tag: of, .. } if of == u64::from(tag)));
}

/// The message may be here before accept is called, and the listener may be closed after it.
#[test]
fn accept_after_the_message_and_close_of_the_listener() {
    let mut b = Bench::default();
    let (comm, tag, _) = b.receiver(b'P');
    assert_eq!(tag, FIRST_TAG);
    assert!(b.engine.comm_info(comm).unwrap().connected);
    b.close(comm);
    b.baseline();
}

#[test]
fn eagain_of_the_connect_message_is_tried_again() {
    let mut b = Bench::default();
    b.port.answers.extend([Outcome::Busy, Outcome::Busy]);
    let target = Target {
        name: name(b'P'),
        tag: 1,
    };
    let comm = b.engine.connect(0, &mut b.port, &target).unwrap();
    b.quiet();
    b.quiet();
    assert_eq!(b.engine.poll_connect(comm, 1), Ok(false));
    assert_eq!(b.post().op, Op::Connect);
    assert_eq!(b.engine.counters().busy, 2);
}

/// To ourselves the message is flagged, and connect is done once the provider has it: the thread that
/// waits for its completion is the one that has to call accept.
#[test]
fn self_connect_does_not_wait_for_the_accept() {
    let mut b = Bench::default();
    let (listener, tag) = b.engine.listen().unwrap();
    let awaited = b.post();
    let target = Target {
        name: name(b'U'),
        tag,
    };
    let sender = b.engine.connect(0, &mut b.port, &target).unwrap();
    let sent = b.post();
    assert_eq!(
        sent.bytes[64..80],
        [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    );
    assert_eq!(
        b.engine.poll_connect(sender, 0),
        Ok(true),
        "its completion is missing"
    );
    b.engine.on_connect(awaited.token, &sent.bytes);
    let receiver = b
        .engine
        .poll_accept(listener, 0, &mut b.port)
        .unwrap()
        .unwrap();
    b.engine.on_local(sent.token, 0);
    b.isend(sender, 0x1000, 8);
    b.irecv(receiver, 0x2000, 8);
    let ops: Vec<Op> = b.posts().iter().map(|post| post.op).collect();
    assert_eq!(ops.iter().filter(|op| **op == Op::Send).count(), 1);
    for comm in [sender, receiver, listener] {
        b.engine.close(comm, 0).unwrap();
    }
}

#[test]
fn a_self_connect_that_fails_later_fails_its_communicator() {
    let mut b = Bench::default();
    let target = Target {
        name: name(b'U'),
        tag: 9,
    };
    let comm = b.engine.connect(0, &mut b.port, &target).unwrap();
    let sent = b.post();
    assert_eq!(b.engine.poll_connect(comm, 0), Ok(true));
    b.engine.on_failed(sent.token, Cause::errno(5));
    b.engine.poll_connect(comm, 0).unwrap_err();
}

/// A handle of another protocol or a damaged one: a tag that cannot be, an address that cannot be.
#[test]
fn a_handle_that_is_none_is_refused_and_leaves_nothing() {
    let mut b = Bench::default();
    let zero = Target {
        name: name(b'P'),
        tag: 0,
    };
    let refused = b.engine.connect(0, &mut b.port, &zero);
    let max = u32::MAX;
    assert_eq!(refused, Err(Error::BadTag { tag: 0, max }));
    let nobody = Target {
        name: [0; 56],
        tag: 1,
    };
    let refused = b.engine.connect(0, &mut b.port, &nobody);
    assert!(matches!(
        refused,
        Err(Error::Common(ofi_rdma::Error::Unreachable(_)))
    ));
    b.quiet();
    b.baseline();
}

#[test]
fn both_sides_are_told_as_connected_once() {
    let mut b = Bench::default();
    b.sender(b'P', 3);
    b.receiver(b'Q');
    let mut ids = Vec::new();
    while let Some(event) = b.engine.poll_event() {
        if let Event::Connected { local_id, .. } = event {
            ids.push(local_id);
        }
    }
    assert_eq!(ids, [3, FIRST_TAG]);
    assert_ne!(peer(b'P'), PeerAddr(u64::MAX));
}
