//! Layer 2 over a provider that holds operations back: whatever is dropped in whatever order, memory
//! stays registered and allocated until the provider is done with it. Each test runs in a process
//! of its own thread and state; leaks are counted for the whole process, so they are one test.

mod provider;

use std::path::PathBuf;

use efa_fabric::{
    Av, Buffer, Cq, CqEntry, CqPoll, Domain, Errno, Hints, Library, OperationError, Peer, Port,
    Submitted, Ticket, leak_count,
};
use provider::{regions, with};

/// A domain of the shim, a port in it, and a peer. `None`, after saying so, only where the
/// environment allows a machine without libfabric, whose `fi_info` the shim borrows.
#[expect(
    clippy::print_stderr,
    reason = "a skipped test is named where people look"
)]
fn port(test: &str) -> Option<(Domain, Port, Peer)> {
    let path = std::env::var_os("OFI_LIBFABRIC_PATH").map(PathBuf::from);
    let library = match Library::load(path.as_deref()) {
        Ok(library) => library,
        Err(error) if std::env::var_os("OFI_TEST_ALLOW_NO_FABRIC").is_some_and(|v| v == "1") => {
            eprintln!("skipped: {test}: {error}");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let hints = Hints::rdm(efa_fabric::Caps::MSG | efa_fabric::Caps::RMA).provider(c"shm");
    let list = hints.query(library).expect("shm");
    // SAFETY: the shim's domain is never closed and can be used from any thread.
    let domain = unsafe { Domain::from_raw(provider::domain(), list.first()) }.expect("domain");
    let mut port = Port::open_on(&domain, list.first()).expect("port");
    let peer = port.insert(b"somebody\0").expect("insert");
    Some((domain, port, peer))
}

fn buffer(domain: &Domain) -> Buffer {
    Buffer::from_bytes(domain, vec![1; 32]).expect("buffer")
}

fn pending(submitted: Submitted) -> Ticket {
    match submitted {
        Submitted::Pending(ticket) => ticket,
        Submitted::Busy(buffer) => panic!("busy with {buffer:?}"),
    }
}

fn assert_no_violations() {
    with(|state| assert!(state.violations.is_empty(), "{:?}", state.violations));
}

#[test]
fn a_dropped_ticket_keeps_memory_until_the_completion() {
    let Some((domain, mut port, peer)) = port("a_dropped_ticket") else {
        return;
    };
    let ticket = pending(port.send(buffer(&domain), 0..32, peer, None).expect("send"));
    drop(ticket);
    assert_eq!(port.poll(), Ok(0));
    assert_eq!((regions(), port.in_flight()), (1, 1));
    with(|state| state.may_complete = 1);
    assert_eq!(port.poll(), Ok(1));
    assert_eq!((regions(), port.in_flight()), (0, 0));
    assert_no_violations();
}

#[test]
fn a_buffer_comes_back_with_what_the_device_wrote() {
    let Some((domain, mut port, _)) = port("a_buffer_comes_back") else {
        return;
    };
    let ticket = pending(port.recv(buffer(&domain)).expect("recv"));
    with(|state| state.may_complete = 1);
    assert_eq!(port.poll(), Ok(1));
    let completed = ticket.take().expect("done");
    assert_eq!(completed.buffer[..], [0x5a; 32]);
    assert_eq!(completed.outcome.expect("received").len, 32);
    assert_no_violations();
}

#[test]
fn a_busy_provider_gives_the_buffer_back() {
    let Some((domain, mut port, peer)) = port("a_busy_provider") else {
        return;
    };
    with(|state| state.busy = 1);
    let back = match port.send(buffer(&domain), 0..32, peer, None).expect("send") {
        Submitted::Busy(buffer) => buffer,
        Submitted::Pending(_) => panic!("it was told to be busy"),
    };
    assert_eq!(port.in_flight(), 0);
    drop(pending(port.send(back, 0..32, peer, None).expect("send")));
    assert_eq!(port.in_flight(), 1);
}

#[test]
fn the_endpoint_closes_before_regions_and_queue() {
    let Some((domain, mut port, peer)) = port("the_endpoint_closes_first") else {
        return;
    };
    drop(pending(
        port.send(buffer(&domain), 0..32, peer, None).expect("send"),
    ));
    let kept = pending(port.recv(buffer(&domain)).expect("recv"));
    drop(domain);
    drop(port);
    with(|state| assert_eq!(state.closed, ["ep", "mr", "cq", "av"]));
    let completed = kept.take().expect("given back");
    assert_eq!(completed.outcome, Err(OperationError::PortClosed));
    drop(completed.buffer);
    with(|state| assert_eq!(state.closed, ["ep", "mr", "cq", "av", "mr"]));
    assert_eq!(regions(), 0);
    assert_no_violations();
}

#[test]
fn what_cannot_be_freed_is_leaked_and_counted() {
    let test = "what_cannot_be_freed";
    // The sink of a read: a peer on shared memory may still copy into it.
    let Some((domain, mut first, peer)) = port(test) else {
        return;
    };
    // SAFETY: the shim has no peers, and looks at no target.
    let region = unsafe { peer.region(0, 0, 32) };
    let before = leak_count();
    let ticket = pending(first.read(buffer(&domain), region).expect("read"));
    drop(first);
    assert!(matches!(ticket.take(), Err(efa_fabric::Unfinished::Lost)));
    assert_eq!((regions(), leak_count()), (1, before + 1));
    // An endpoint that does not close: all it was using stays.
    let Some((domain, mut second, peer)) = port(test) else {
        return;
    };
    let before = leak_count();
    drop(pending(
        second
            .send(buffer(&domain), 0..32, peer, None)
            .expect("send"),
    ));
    with(|state| state.ep_close = -16);
    drop(second);
    assert_eq!(regions(), 2);
    assert_eq!(leak_count(), before + 2, "the buffer and the endpoint");
    let failed = domain.close().expect_err("kept open for the endpoint");
    assert_eq!(failed.error.errno(), Errno::EBUSY);
    // A region that does not close: its memory stays.
    let Some((domain, third, _)) = port(test) else {
        return;
    };
    let before = leak_count();
    let stuck = buffer(&domain);
    with(|state| (state.ep_close, state.mr_close) = (0, -16));
    drop(stuck);
    assert_eq!(regions(), 3);
    assert_eq!(leak_count(), before + 1);
    drop(third);
    assert_no_violations();
}

#[test]
fn an_error_may_come_late_and_has_the_devices_words() {
    let Some((domain, mut port, _)) = port("an_error_may_come_late") else {
        return;
    };
    let ticket = pending(port.recv(buffer(&domain)).expect("recv"));
    with(|state| (state.errors, state.errors_late) = (1, 2));
    assert_eq!(port.poll(), Ok(0));
    assert_eq!(port.poll(), Ok(0));
    assert_eq!(port.poll(), Ok(1));
    let completed = ticket.take().expect("done");
    let Err(OperationError::Failed(error)) = completed.outcome else {
        panic!("no error")
    };
    assert_eq!((error.errno().code(), error.prov_errno()), (5, 4242));
    assert_eq!(error.text(), "the device says no \u{fffd}");
}

/// A provider writes as many bytes of details as it is told there is room for, at every error.
#[test]
fn details_of_any_length_stay_in_their_room() {
    let Some((domain, mut port, _)) = port("details_of_any_length") else {
        return;
    };
    with(|state| state.long_details = true);
    let mut lengths = Vec::new();
    for _ in 0..100 {
        let ticket = pending(port.recv(buffer(&domain)).expect("recv"));
        with(|state| state.errors = 1);
        assert_eq!(port.poll(), Ok(1));
        let Err(OperationError::Failed(error)) = ticket.take().expect("done").outcome else {
            panic!("no error")
        };
        assert!(error.text().bytes().all(|byte| byte == b'x'));
        lengths.push(error.text().len());
    }
    lengths.dedup();
    assert!(lengths.len() == 1 && lengths[0] > 0, "{lengths:?}");
    assert_no_violations();
}

#[test]
fn a_broken_queue_is_an_error_of_the_call() {
    let Some((domain, mut port, _)) = port("a_broken_queue") else {
        return;
    };
    with(|state| state.queue_failure = -268);
    assert_eq!(port.poll().expect_err("overrun").errno(), Errno::EOVERRUN);
    let cq = Cq::open(&domain, 8).expect("queue");
    with(|state| state.queue_failure = 0);
    assert_eq!(cq.read_batch(&mut [CqEntry::EMPTY; 2]), Ok(CqPoll::Empty));
}

#[test]
fn an_address_that_was_not_added_is_an_error() {
    let Some((domain, ..)) = port("an_address_that_was_not_added") else {
        return;
    };
    let av = Av::open(&domain).expect("vector");
    with(|state| state.av_insert = 0);
    let error = av.insert(b"nobody\0").expect_err("none added");
    assert!(error.to_string().contains("it added 0"), "{error}");
    with(|state| state.av_insert = -11);
    assert_eq!(
        av.insert(b"nobody\0").expect_err("refused").errno(),
        Errno::EBUSY
    );
    with(|state| state.av_insert = 1);
    av.insert(b"somebody\0").expect("added");
}
