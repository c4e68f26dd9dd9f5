//! Operations that fail, or never end.

use super::{LARGE, Pair};
use crate::common::emulated::under_plan;
use ofi_net::{Code, Config};

/// A write that fails: its sender says with what; the receiver, whom nobody tells, fails by its bound.
fn failed(err: i32, prov_errno: i32) {
    let pair = Pair::new();
    let (at_sender, at_receiver) = pair.struck();
    assert_eq!(
        (at_sender.code(), at_sender.errno()),
        (Code::Operation, -err)
    );
    let text = at_sender.to_string();
    assert!(
        text.contains(&format!("provider error {prov_errno}")),
        "{text}"
    );
    assert_eq!(at_receiver.code(), Code::Stalled, "{at_receiver}");
    pair.spared_goes_on();
}

macro_rules! write_errors {
    ($($name:ident: $code:literal, $err:literal, $prov_errno:literal;)*) => { $(
        #[test]
        fn $name() {
            let name = concat!("errors::", stringify!($name));
            let plan = concat!("error on=imm size=100000.. at=1 code=", $code);
            let seen = under_plan(name, plan, || failed($err, $prov_errno));
            for process in seen {
                let total = process.total();
                let counted = total.statuses.get($prov_errno).copied();
                assert!(counted.unwrap_or(total.errors_other) > 0, "{process}");
            }
        }
    )* };
}

write_errors! {
    a_write_to_a_bad_key_fails_its_sender: "bad-rkey", 22, 7;
    a_write_from_a_bad_key_fails_its_sender: "bad-lkey", 22, 5;
    a_write_to_nobody_fails_its_sender: "bad-qpn", 107, 9;
    a_write_to_who_does_not_answer_fails_its_sender: "unresponsive", 103, 13;
    an_aborted_write_fails_its_sender: "aborted", 103, 8;
    a_write_to_who_does_not_know_us_fails_its_sender: "unknown-peer", 107, 14;
    a_write_without_a_way_fails_its_sender: "unreachable", 113, 15;
    a_write_that_does_not_fit_fails_its_sender: "bad-length", 90, 11;
    a_write_before_a_failed_handshake_fails_its_sender: "handshake-failed", 103, 4126;
    a_write_that_is_flushed_fails_its_sender: "flushed", 125, 1;
    a_write_to_who_is_never_ready_fails_its_sender: "269/10", 269, 10;
}

/// The bytes arrived: the receiver has its message, whatever the sender was told.
fn landed() {
    let pair = Pair::new();
    let (a, b) = (&pair.a.net, &pair.b.net);
    let mut source = crate::Buffer::new(a, pair.hit.0, crate::pattern(1, LARGE));
    let mut sink = crate::Buffer::new(b, pair.hit.1, vec![0; LARGE]);
    let received = crate::irecv(b, pair.hit.1, &mut sink, 0, LARGE);
    let sent = crate::isend(a, pair.hit.0, &mut source, 0, LARGE);
    let error = crate::until_error("the send", || a.test(sent));
    assert_eq!(error.code(), Code::Operation, "{error}");
    assert_eq!(crate::common::wait(b, received), LARGE as u64);
    assert!(*source.bytes == *sink.bytes);
    a.close_send(pair.hit.0).unwrap();
    b.close_recv(pair.hit.1).unwrap();
    source.free(a, pair.spared.0);
    sink.free(b, pair.spared.1);
    pair.spared_goes_on();
}

#[test]
fn bytes_that_landed_in_spite_of_an_error_are_received() {
    under_plan(
        "errors::bytes_that_landed_in_spite_of_an_error_are_received",
        "error on=imm size=100000.. at=1 code=unresponsive lands=yes",
        landed,
    );
}

#[test]
fn an_error_that_cannot_be_read_at_once_is_told_all_the_same() {
    under_plan(
        "errors::an_error_that_cannot_be_read_at_once_is_told_all_the_same",
        "error on=imm size=100000.. at=1 code=bad-rkey; readerr busy=5",
        || failed(22, 7),
    );
}

/// Neither bytes nor a completion: both sides fail by their bounds.
fn lost() {
    let pair = Pair::new();
    let (at_sender, at_receiver) = pair.struck();
    assert_eq!(at_sender.code(), Code::Stalled, "{at_sender}");
    assert_eq!(at_receiver.code(), Code::Stalled, "{at_receiver}");
    pair.spared_goes_on();
}

#[test]
fn a_write_that_never_ends_fails_both_sides_in_time() {
    under_plan(
        "errors::a_write_that_never_ends_fails_both_sides_in_time",
        "lose on=imm size=100000.. at=1",
        lost,
    );
}

/// The post itself is refused.
fn refused() {
    let pair = Pair::new();
    let (at_sender, at_receiver) = pair.struck();
    assert_eq!(at_sender.errno(), -22, "{at_sender}");
    assert_eq!(at_receiver.code(), Code::Stalled, "{at_receiver}");
    pair.spared_goes_on();
}

#[test]
fn a_refused_post_fails_its_communicator() {
    under_plan(
        "errors::a_refused_post_fails_its_communicator",
        "refuse on=imm size=100000.. at=1 errno=EINVAL",
        refused,
    );
}

/// Completions that come twice, at either side, are noticed and harm nobody.
fn twice() {
    let pair = Pair::new();
    for _ in 0..20 {
        pair.message(pair.hit, LARGE);
        pair.spared_goes_on();
    }
}

#[test]
fn local_completions_that_come_twice_harm_nobody() {
    let seen = under_plan(
        "errors::local_completions_that_come_twice_harm_nobody",
        "duplicate on=imm,send chance=30%",
        twice,
    );
    assert!(seen.iter().all(|process| process.total().duplicates > 10));
}

/// A second completion at the target of a message that came in one piece fails the communicator that it
/// names, at this receive or at the next one; no byte is wrong, and others go on.
fn arrived_twice() {
    let pair = Pair::new();
    let (a, b) = (&pair.a.net, &pair.b.net);
    // More than fits in one eager message, less than two stripes.
    let len = 20_000;
    let mut source = crate::Buffer::new(a, pair.hit.0, crate::pattern(1, len));
    let mut sink = crate::Buffer::new(b, pair.hit.1, vec![0; len]);
    let (at, mr) = (sink.at(0), sink.mr);
    let error = crate::until_error("the message that arrives twice", || {
        sink.bytes.fill(0);
        let received = crate::common::until("irecv", || {
            // SAFETY: the buffer is kept while the connection is open.
            unsafe { b.irecv(pair.hit.1, at, len, Some(mr), false) }.transpose()
        })?;
        let sent = crate::isend(a, pair.hit.0, &mut source, 0, len);
        let size = crate::common::until("the receive", || b.test(received).transpose())?;
        assert_eq!(size, len as u64);
        assert!(*source.bytes == *sink.bytes);
        crate::common::wait(a, sent);
        Ok(())
    });
    assert_eq!(error.code(), Code::PeerProtocol, "{error}");
    a.close_send(pair.hit.0).unwrap();
    b.close_recv(pair.hit.1).unwrap();
    source.free(a, pair.spared.0);
    sink.free(b, pair.spared.1);
    pair.spared_goes_on();
}

#[test]
fn a_message_that_arrives_twice_fails_its_communicator() {
    let seen = under_plan(
        "errors::a_message_that_arrives_twice_fails_its_communicator",
        "duplicate on=imm size=20000..20000 every=3 side=remote",
        arrived_twice,
    );
    assert!(seen.iter().all(|process| process.total().duplicates > 0));
}

/// The key of the receiver's buffer goes bad.
fn revoked() {
    let pair = Pair::new();
    let (at_sender, _) = pair.struck();
    assert_eq!(
        (at_sender.code(), at_sender.errno()),
        (Code::Operation, -22)
    );
    assert!(
        at_sender.to_string().contains("provider error 7"),
        "{at_sender}"
    );
}

#[test]
fn a_revoked_key_fails_the_sender() {
    under_plan(
        "errors::a_revoked_key_fails_the_sender",
        // Of the pages of that message's buffers; what the transport registers for itself is of other sizes.
        "revoke size=300000..310000 after=0",
        revoked,
    );
}

/// A NIC that is lost takes its communicators along, in time, and says so.
fn lost_nic() {
    let pair = Pair::new();
    let (at_sender, at_receiver) = pair.struck();
    assert!(
        matches!(
            at_sender.code(),
            Code::Operation | Code::Stalled | Code::Poisoned
        ),
        "{at_sender}"
    );
    assert!(
        matches!(
            at_receiver.code(),
            Code::Operation | Code::Stalled | Code::Poisoned
        ),
        "{at_receiver}"
    );
}

#[test]
fn a_lost_nic_is_an_error_in_time() {
    under_plan(
        "errors::a_lost_nic_is_an_error_in_time",
        "nic-lost nic=1 on=imm size=100000.. at=1",
        lost_nic,
    );
}

/// With SENDRECV a send that fails is told too, and the next message is not taken for it.
fn failed_send() {
    let config = || Config {
        stall_fail_ms: Some(3000),
        ..crate::common::sendrecv()
    };
    let (a, b) = (crate::Side::new(config()), crate::Side::new(config()));
    let (hit, spared) = (
        crate::connect(&a.net, &b.net),
        crate::connect(&a.net, &b.net),
    );
    let mut source = crate::Buffer::new(&a.net, hit.0, crate::pattern(1, LARGE));
    let mut sink = crate::Buffer::new(&b.net, hit.1, vec![0; LARGE]);
    let received = crate::irecv(&b.net, hit.1, &mut sink, 0, LARGE);
    let sent = crate::isend(&a.net, hit.0, &mut source, 0, LARGE);
    crate::isend(&a.net, hit.0, &mut source, 0, 5000);
    let error = crate::until_error("the send", || a.net.test(sent));
    assert_eq!((error.code(), error.errno()), (Code::Operation, -103));
    let error = crate::until_error("the receive", || b.net.test(received));
    assert_eq!(error.code(), Code::Stalled, "{error}");
    a.net.close_send(hit.0).unwrap();
    b.net.close_recv(hit.1).unwrap();
    source.free(&a.net, spared.0);
    sink.free(&b.net, spared.1);
}

#[test]
fn with_sendrecv_a_failed_send_is_told() {
    under_plan(
        "errors::with_sendrecv_a_failed_send_is_told",
        "error on=send size=100000.. at=1 code=unresponsive",
        failed_send,
    );
}
