//! The line of an operation that failed: with peer, rail, communicator, request, number and size.

use super::{LARGE, STALL, impatient};
use crate::common::emulated::under_plan;
use crate::common::until;
use crate::{Buffer, Side, connect, irecv, isend, pattern, until_error};
use ofi_net::log::Level;
use ofi_net::{Code, Config, LocalMemory, NetError, RemoteMemory};

/// One message of each size that is asked for, on a connection of its own; the last one fails, at the sender or at
/// the receiver.
fn struck(config: &Config, lens: &[usize], at_receiver: bool) -> (Side, NetError) {
    let (a, b) = (Side::new(config.clone()), Side::new(config.clone()));
    let comms = connect(&a.net, &b.net);
    let mut source = Buffer::new(&a.net, comms.0, pattern(1, LARGE));
    let mut sink = Buffer::new(&b.net, comms.1, vec![0; LARGE]);
    let (&last, before) = lens.split_last().unwrap();
    for &len in before {
        let received = irecv(&b.net, comms.1, &mut sink, 0, len);
        let sent = isend(&a.net, comms.0, &mut source, 0, len);
        crate::finish(&a.net, sent, &b.net, received);
    }
    let received = irecv(&b.net, comms.1, &mut sink, 0, last);
    let sent = isend(&a.net, comms.0, &mut source, 0, last);
    let error = match at_receiver {
        false => until_error("the send", || {
            let _other = b.net.test(received);
            a.net.test(sent)
        }),
        true => until_error("the receive", || {
            let _other = a.net.test(sent);
            b.net.test(received)
        }),
    };
    (if at_receiver { b } else { a }, error)
}

/// What the error and the line in the log have to say, the line with the peer too.
fn told(side: &Side, error: &NetError, wanted: &[&str]) {
    assert_eq!(error.code(), Code::Operation, "{error}");
    let lines = side.log.at(Level::Warn).join("\n");
    for words in wanted {
        assert!(error.to_string().contains(words), "{words:?}: {error}");
        assert!(lines.contains(words), "{words:?}: {lines}");
    }
    assert!(
        lines.contains("OFI-E0601") && lines.contains("peer "),
        "{lines}"
    );
    // Slot and generation: numbers that are not the same in each run.
    let text = error.to_string();
    let (_, name) = text.split_once(", request ").unwrap();
    let (name, _) = name.split_once(" (").unwrap();
    let numbers = name.split('.').map(str::parse::<u32>);
    assert_eq!(numbers.filter(Result::is_ok).count(), 2, "{name}");
}

fn sendrecv() -> Config {
    Config {
        stall_fail_ms: Some(u64::try_from(STALL.as_millis()).unwrap()),
        ..crate::common::sendrecv()
    }
}

macro_rules! lines {
    ($($name:ident: $plan:literal, $scenario:expr;)*) => { $(
        #[test]
        fn $name() {
            under_plan(concat!("requests::", stringify!($name)), $plan, $scenario);
        }
    )* };
}

lines! {
    of_a_write: "error on=imm size=100000.. at=1 code=unresponsive", || {
        let (side, error) = struck(&impatient(), &[5000, LARGE], false);
        told(&side, &error, &["message 1, request ", " (send of 300000 bytes): Write on data rail ", "provider error 13"]);
    };
    of_an_eager_send: "error on=send size=5000..5000 at=1 code=aborted", || {
        let (side, error) = struck(&impatient(), &[0, 0, 5000], false);
        told(&side, &error, &["message 2, request ", " (eager send of 5000 bytes): Eager on data rail ", "provider error 8"]);
    };
    of_a_ctrl: "refuse on=send size=16..64 at=1 errno=EIO", || {
        let (side, error) = struck(&impatient(), &[LARGE], true);
        told(&side, &error, &["message 0, request ", " (receive of 300000 bytes): Ctrl on control rail ", "errno 5"]);
    };
    of_a_ctrl_that_does_not_arrive: "error on=send size=16..64 at=1 code=unresponsive", || {
        let (side, error) = struck(&impatient(), &[LARGE], true);
        told(&side, &error, &["message 0, request ", " (receive of 300000 bytes): Ctrl on control rail ", "provider error 13"]);
    };
    of_a_ctrl_that_is_flushed: "error on=send size=16..64 at=1 code=flushed", || {
        let (side, error) = struck(&impatient(), &[LARGE], true);
        told(&side, &error, &["message 0, request ", " (receive of 300000 bytes): Ctrl on control rail ", "provider error 1"]);
    };
    of_a_short_eager_send: "error on=send size=8..8 at=1 code=unresponsive", || {
        let (side, error) = struck(&impatient(), &[0, 0, 8], false);
        told(&side, &error, &["message 2, request ", " (eager send of 8 bytes): Eager on data rail ", "provider error 13"]);
    };
    of_an_eager_send_without_bytes: "error on=send size=0..0 at=1 code=flushed", || {
        let (side, error) = struck(&impatient(), &[0], false);
        told(&side, &error, &["message 0, request ", " (eager send of 0 bytes): Eager on data rail ", "provider error 1"]);
    };
    of_a_read: "error on=read size=4000.. at=1 code=bad-rkey", one_sided_read;
    of_a_flush: "error on=read size=4..4 at=1 code=bad-lkey", || flush(&impatient(), "data rail ");
    of_a_tagged_send: "error on=send size=100000.. at=1 code=unresponsive", || {
        let (side, error) = struck(&sendrecv(), &[5000, 70, LARGE], false);
        told(&side, &error, &["message 2, request ", " (send of 300000 bytes): TaggedSend on data rail 0", "provider error 13"]);
    };
    of_a_tagged_receive: "error on=recv size=100000.. at=1 code=aborted", || {
        let (side, error) = struck(&sendrecv(), &[5000, LARGE], true);
        told(&side, &error, &["message 1, request ", " (receive of 300000 bytes): TaggedRecv on data rail 0", "provider error 8"]);
    };
    of_a_flush_of_sendrecv: "error on=read size=4..4 at=1 code=bad-lkey", || flush(&sendrecv(), "data rail 0");
}

fn one_sided_read() {
    let (a, b) = (Side::new(impatient()), Side::new(impatient()));
    let comms = connect(&a.net, &b.net);
    let mut source = Buffer::new(&a.net, comms.0, pattern(1, LARGE));
    let mut sink = Buffer::new(&b.net, comms.1, vec![0; LARGE]);
    let here = LocalMemory {
        addr: sink.at(0),
        len: 4096,
        mr: Some(sink.mr),
    };
    let there = RemoteMemory {
        addr: source.at(0).expose_provenance() as u64,
        key: a.net.mr_key(source.mr).unwrap(),
    };
    let read = until("iread", || {
        // SAFETY: both buffers are kept for good.
        unsafe { b.net.iread(comms.1, here, there) }.unwrap()
    });
    let error = until_error("the read", || b.net.test(read));
    let wanted = [
        ": communicator ",
        " (one-sided read of 4096 bytes): Get on data rail 0",
        "provider error 7",
    ];
    told(&b, &error, &wanted);
    assert!(
        !error.to_string().contains("message"),
        "it has no number: {error}"
    );
}

fn flush(config: &Config, rail: &str) {
    let (a, b) = (Side::new(config.clone()), Side::new(config.clone()));
    let comms = connect(&a.net, &b.net);
    let mut sink = Buffer::new(&b.net, comms.1, vec![0; LARGE]);
    let (at, mr) = (sink.at(0), sink.mr);
    // SAFETY: the buffer is kept for good.
    let flush = unsafe { b.net.iflush(comms.1, at, LARGE, mr) }.unwrap();
    let error = until_error("the flush", || b.net.test(flush.unwrap()));
    let failed = format!(" (flush of 4 bytes): Flush on {rail}");
    told(
        &b,
        &error,
        &[": communicator ", &failed, "provider error 5"],
    );
}
