//! Layer 2 on every provider: operations that own their buffers.

use efa_fabric::{
    Access, Buffer, Completed, CompletionFlags, Errno, Exposed, FabricError, Incoming, Info,
    OperationError, Peer, Port, Posted, RemoteRegion, SubmitError, Submitted, Ticket, Unfinished,
    leak_count,
};

use crate::common::{on_each_provider, until};

on_each_provider! {
    there_and_back written_and_told read_back injected_bytes_are_copied
    a_dropped_ticket_does_not_stop_the_operation a_dropped_port_gives_its_buffers_back
    dropped_in_every_order what_does_not_fit_together_is_refused cancelled_through_its_ticket
}

/// Two ports that know each other, and the peers: `(a, b, b as a's peer, a as b's peer)`.
fn connected(info: &Info) -> (Port, Port, Peer, Peer) {
    let (mut a, mut b) = (
        Port::open(info).expect("port"),
        Port::open(info).expect("port"),
    );
    let to_b = a.insert(&b.name().expect("name")).expect("insert");
    let to_a = b.insert(&a.name().expect("name")).expect("insert");
    (a, b, to_b, to_a)
}

/// The memory as a peer names it.
fn region(peer: Peer, exposed: &Exposed) -> RemoteRegion {
    // SAFETY: exposed under this key by the test, which keeps its domain until it is over.
    unsafe { peer.region(exposed.address(), exposed.key(), exposed.len()) }
}

/// Repeats an attempt until the provider takes it; `port` is the one that tries.
fn started(
    port: &mut Port,
    other: &mut Port,
    buffer: Buffer,
    mut attempt: impl FnMut(&mut Port, Buffer) -> Result<Submitted, SubmitError>,
) -> Ticket {
    let mut waiting = Some(buffer);
    let mut ticket = None;
    until("an operation to start", || {
        let buffer = waiting.take().expect("not started yet");
        match attempt(port, buffer).expect("an attempt") {
            Submitted::Pending(pending) => ticket = Some(pending),
            Submitted::Busy(back) => waiting = Some(back),
        }
        port.poll().expect("poll");
        other.poll().expect("poll");
        ticket.is_some()
    });
    ticket.expect("started above")
}

/// Polls both until the operation is over.
fn finished(ticket: Ticket, a: &mut Port, b: &mut Port) -> Completed {
    until("an operation to end", || {
        a.poll().expect("poll");
        b.poll().expect("poll");
        ticket.is_done()
    });
    ticket.take().expect("done")
}

fn there_and_back(info: &Info) {
    let (mut a, mut b, to_b, to_a) = connected(info);
    let message = Buffer::from_bytes(a.domain(), b"..hello..".to_vec()).expect("buffer");
    let (into_a, into_b) = (
        Buffer::zeroed(a.domain(), 64).expect("buffer"),
        Buffer::zeroed(b.domain(), 64).expect("buffer"),
    );
    let at_b = started(&mut b, &mut a, into_b, Port::recv);
    let at_a = started(&mut a, &mut b, into_a, Port::recv);
    let sent = started(&mut a, &mut b, message, |port, buffer| {
        port.send(buffer, 2..7, to_b, None)
    });
    let Completed { buffer, outcome } = finished(at_b, &mut a, &mut b);
    let transfer = outcome.expect("received");
    assert_eq!(
        (&buffer[..transfer.len], transfer.data),
        (&b"hello"[..], None)
    );
    // The received buffer goes back as it is, with data.
    let back = started(&mut b, &mut a, buffer, |port, buffer| {
        port.send(buffer, 0..5, to_a, Some(11))
    });
    let Completed { buffer, outcome } = finished(at_a, &mut a, &mut b);
    let transfer = outcome.expect("received");
    assert_eq!(
        (&buffer[..transfer.len], transfer.data),
        (&b"hello"[..], Some(11))
    );
    assert_eq!(finished(sent, &mut a, &mut b).buffer[..], b"..hello.."[..]);
    finished(back, &mut a, &mut b).outcome.expect("sent");
    assert_eq!((a.in_flight(), b.in_flight()), (0, 0));
}

fn written_and_told(info: &Info) {
    let (mut a, mut b, to_b, _) = connected(info);
    let target = Exposed::zeroed(b.domain(), 100, Access::REMOTE_WRITE).expect("exposed");
    let region = region(to_b, &target);
    let bytes = Buffer::from_bytes(a.domain(), vec![7; 64]).expect("buffer");
    let ticket = started(&mut a, &mut b, bytes, |port, buffer| {
        port.write(
            buffer,
            0..10,
            region.skip(20).expect("20 bytes"),
            Some(0xabcd),
        )
    });
    finished(ticket, &mut a, &mut b).outcome.expect("written");
    let mut incoming = None;
    until("the immediate", || {
        a.poll().expect("poll");
        b.poll().expect("poll");
        incoming = b.next_incoming();
        incoming.is_some()
    });
    let Some(Incoming::Immediate { data, .. }) = incoming else {
        panic!("{incoming:?}")
    };
    assert_eq!(data, 0xabcd);
    let mut all = [0; 200];
    assert_eq!(target.read_at(0, &mut all), 100);
    assert_eq!(all[..20], [0; 20]);
    assert_eq!(all[20..30], [7; 10]);
    assert_eq!(all[30..], [0; 170]);
    assert_eq!(target.read_at(101, &mut all), 0);
}

fn read_back(info: &Info) {
    let (mut a, mut b, to_b, _) = connected(info);
    let source = Exposed::zeroed(b.domain(), 32, Access::REMOTE_READ).expect("exposed");
    assert_eq!(source.write_at(30, &[1, 2, 3]), 2);
    let region = region(to_b, &source);
    let into = Buffer::zeroed(a.domain(), 32).expect("buffer");
    let ticket = started(&mut a, &mut b, into, |port, buffer| {
        port.read(buffer, region)
    });
    let Completed { buffer, outcome } = finished(ticket, &mut a, &mut b);
    assert!(outcome.expect("read").flags.contains(CompletionFlags::READ));
    assert_eq!((&buffer[..30], &buffer[30..]), (&[0; 30][..], &[1, 2][..]));
}

fn injected_bytes_are_copied(info: &Info) {
    let (mut a, mut b, to_b, _) = connected(info);
    let target = Exposed::zeroed(b.domain(), 16, Access::REMOTE_WRITE).expect("exposed");
    let region = region(to_b, &target);
    let into = Buffer::zeroed(b.domain(), 16).expect("buffer");
    let received = started(&mut b, &mut a, into, Port::recv);
    let mut bytes = [5; 16];
    inject(&mut a, &mut b, |port| port.inject(&bytes, to_b, Some(1)));
    bytes.fill(6);
    inject(&mut a, &mut b, |port| {
        port.inject_write(&bytes, region, Some(2))
    });
    bytes.fill(7);
    assert_eq!(finished(received, &mut a, &mut b).buffer[..], [5; 16]);
    until("the write", || {
        a.poll().expect("poll");
        b.poll().expect("poll");
        b.next_incoming().is_some()
    });
    target.read_at(0, &mut bytes);
    assert_eq!(bytes, [6; 16]);
    let long = vec![0; info.inject_size() + 1];
    let error = a.inject(&long, to_b, None).expect_err("too long");
    assert_eq!(error.errno(), Errno::EMSGSIZE);
    assert!(
        error.to_string().contains(&format!("{} bytes", long.len())),
        "{error}"
    );
}

fn inject(
    port: &mut Port,
    other: &mut Port,
    mut attempt: impl FnMut(&mut Port) -> Result<Posted, FabricError>,
) {
    until("an injection", || {
        let posted = attempt(port).expect("an attempt");
        port.poll().expect("poll");
        other.poll().expect("poll");
        posted == Posted::Accepted
    });
}

fn a_dropped_ticket_does_not_stop_the_operation(info: &Info) {
    let (mut a, mut b, to_b, _) = connected(info);
    let into = Buffer::zeroed(b.domain(), 1 << 20).expect("buffer");
    let received = started(&mut b, &mut a, into, Port::recv);
    let from = Buffer::from_bytes(a.domain(), vec![9; 1 << 20]).expect("buffer");
    let sent = started(&mut a, &mut b, from, |port, buffer| {
        port.send(buffer, 0..1 << 20, to_b, None)
    });
    drop(sent);
    let Completed { buffer, outcome } = finished(received, &mut a, &mut b);
    assert_eq!(outcome.expect("received").len, 1 << 20);
    assert!(buffer.iter().all(|byte| *byte == 9));
    until("the send to end", || {
        a.poll().expect("poll");
        b.poll().expect("poll");
        a.in_flight() == 0
    });
}

fn a_dropped_port_gives_its_buffers_back(info: &Info) {
    let before = leak_count();
    let (mut a, b, ..) = connected(info);
    let into = Buffer::from_bytes(a.domain(), vec![3; 64]).expect("buffer");
    let Submitted::Pending(ticket) = a.recv(into).expect("receive") else {
        panic!("busy")
    };
    let ticket = match ticket.take() {
        Err(Unfinished::Pending(ticket)) => ticket,
        other => panic!("{other:?}"),
    };
    drop(a);
    let Completed { buffer, outcome } = ticket.take().expect("given back");
    assert_eq!(outcome, Err(OperationError::PortClosed));
    assert_eq!(buffer[..], [3; 64]);
    drop(b);
    assert_eq!(leak_count(), before);
}

/// Both ends, a target and the tickets of operations in flight go in every order; what is left goes
/// on being polled, and nothing crashes (run it under a sanitizer, too).
fn dropped_in_every_order(info: &Info) {
    for order in 0..24_usize {
        let (mut a, mut b, to_b, to_a) = connected(info);
        let exposed = Exposed::zeroed(b.domain(), 4096, Access::REMOTE_WRITE).expect("exposed");
        let region = region(to_b, &exposed);
        let mut tickets = Vec::new();
        for _ in 0..4 {
            let into = Buffer::zeroed(b.domain(), 4096).expect("buffer");
            tickets.push(started(&mut b, &mut a, into, |port, buffer| {
                port.recv(buffer)
            }));
        }
        for _ in 0..2 {
            let from = Buffer::zeroed(a.domain(), 4096).expect("buffer");
            tickets.push(started(&mut a, &mut b, from, |port, buffer| {
                port.send(buffer, 0..4096, to_b, None)
            }));
            let from = Buffer::zeroed(a.domain(), 4096).expect("buffer");
            tickets.push(started(&mut a, &mut b, from, |port, buffer| {
                port.write(buffer, 0..4096, region, Some(1))
            }));
        }
        assert_ne!(to_a, to_b);
        drop_in_order(order, a, b, exposed, tickets);
    }
}

fn drop_in_order(order: usize, a: Port, b: Port, exposed: Exposed, tickets: Vec<Ticket>) {
    let (mut a, mut b) = (Some(a), Some(b));
    let (mut exposed, mut tickets) = (Some(exposed), Some(tickets));
    let mut left = vec![0, 1, 2, 3];
    let mut code = order;
    while !left.is_empty() {
        let pick = code % left.len();
        code /= left.len();
        match left.remove(pick) {
            0 => drop(a.take()),
            1 => drop(b.take()),
            2 => drop(exposed.take()),
            _ => drop(tickets.take()),
        }
        // shm of one process follows a stale pointer when it posts to a closed endpoint, so only
        // what was posted before is driven on.
        for port in [&mut a, &mut b].into_iter().flatten() {
            for _ in 0..20 {
                port.poll().expect("poll");
            }
        }
    }
}

fn what_does_not_fit_together_is_refused(info: &Info) {
    let (mut a, b, to_b, to_a) = connected(info);
    let foreign = Buffer::from_bytes(b.domain(), vec![1; 8]).expect("buffer");
    let refused = a
        .send(foreign, 0..8, to_b, None)
        .expect_err("a buffer of another domain");
    assert_eq!(refused.error.errno(), Errno::EDOMAIN);
    assert_eq!(refused.buffer[..], [1; 8]);
    let refused = a
        .recv(refused.buffer)
        .expect_err("a buffer of another domain");
    assert_eq!(refused.error.errno(), Errno::EDOMAIN);
    let own = Buffer::zeroed(a.domain(), 8).expect("buffer");
    let refused = a
        .send(own, 0..8, to_a, None)
        .expect_err("a peer of another port");
    assert_eq!(refused.error.errno(), Errno::EINVAL);
    let refused = a
        .send(refused.buffer, 4..9, to_b, None)
        .expect_err("not within the buffer");
    assert!(
        refused.to_string().contains("4..9 of a buffer of 8"),
        "{refused}"
    );
    let exposed = Exposed::zeroed(b.domain(), 7, Access::REMOTE_WRITE).expect("exposed");
    let region = region(to_b, &exposed);
    let refused = a
        .write(refused.buffer, 0..8, region, None)
        .expect_err("a shorter region");
    assert!(
        refused.to_string().contains("8 bytes of a region of 7"),
        "{refused}"
    );
    let refused = a
        .read(refused.buffer, region)
        .expect_err("a shorter region");
    assert_eq!(refused.error.errno(), Errno::EINVAL);
    let error = a
        .inject_write(&[0; 8], region, None)
        .expect_err("a shorter region");
    assert_eq!(error.errno(), Errno::EINVAL);
    assert_eq!(region.skip(8), None);
    assert_eq!(region.skip(7).map(|rest| rest.len()), Some(0));
    assert_eq!(a.in_flight(), 0);
}

fn cancelled_through_its_ticket(info: &Info) {
    let (mut a, mut b, ..) = connected(info);
    let into = Buffer::zeroed(a.domain(), 64).expect("buffer");
    let ticket = started(&mut a, &mut b, into, Port::recv);
    assert!(!b.cancel(&ticket).expect("of another port"));
    assert!(a.cancel(&ticket).expect("cancel"));
    match finished(ticket, &mut a, &mut b).outcome {
        Err(OperationError::Failed(error)) => assert!(error.is_cancelled(), "{error}"),
        other => panic!("{other:?}"),
    }
}
