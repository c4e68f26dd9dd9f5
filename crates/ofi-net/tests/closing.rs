//! Closing at any time, many communicators, several threads, peers that die.
#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use common::{
    Buffer, Side, accept_from, breaking, config, connect, connect_to, finish, given_handle,
    in_one_process, irecv, isend, listen, on_each_provider, pattern, peer_process, say, until,
    until_error, wait,
};
use core::time::Duration;
use ofi_net::{Code, Config};
use std::time::Instant;

/// Requests in flight on both sides when both close; memory is deregistered; the next pair works.
fn in_flight() {
    let (a, b) = (Side::new(config(2)), Side::new(config(2)));
    for round in 0..10 {
        let (send, recv) = connect(&a.net, &b.net);
        let mut source = Buffer::new(&a.net, send, pattern(round, 1 << 20));
        let mut sink = Buffer::new(&b.net, recv, vec![0; 1 << 20]);
        let s: Vec<_> = (0..8)
            .map(|n| isend(&a.net, send, &mut source, n * 100_000, 100_000))
            .collect();
        let r: Vec<_> = (0..8)
            .map(|n| irecv(&b.net, recv, &mut sink, n * 100_000, 100_000))
            .collect();
        let (mut last_s, mut last_r) = (None, None);
        for _ in 0..round * 3 {
            // Somewhere in the middle of it.
            last_s = last_s.or_else(|| a.net.test(s[7]).unwrap());
            last_r = last_r.or_else(|| b.net.test(r[7]).unwrap());
        }
        // Receiver first, sender first, by turns.
        if round % 2 == 0 {
            b.net.close_recv(recv).unwrap();
            a.net.close_send(send).unwrap();
        } else {
            a.net.close_send(send).unwrap();
            b.net.close_recv(recv).unwrap();
        }
        for (side, request) in [(&a, s[0]), (&b, r[0])] {
            assert_eq!(
                side.net.test(request).unwrap_err().code(),
                Code::StaleRequest
            );
        }
        let (again, back) = connect(&a.net, &b.net);
        // A region serves all communicators of the device; the closed ones are let go of.
        let s = isend(&a.net, again, &mut source, 0, 1000);
        let r = irecv(&b.net, back, &mut sink, 0, 1000);
        assert_eq!(finish(&a.net, s, &b.net, r), (1000, 1000));
        source.free(&a.net, again);
        sink.free(&b.net, back);
        a.net.close_send(again).unwrap();
        b.net.close_recv(back).unwrap();
    }
}

#[test]
fn closing_with_requests_in_flight_leaves_the_rest_alone() {
    in_one_process(
        "closing_with_requests_in_flight_leaves_the_rest_alone",
        in_flight,
    );
}

/// Dropping the transport with everything open and in flight: bounded, no crash.
fn dropped() {
    let start = Instant::now();
    let (a, b) = (Side::new(config(2)), Side::new(config(2)));
    let (send, recv) = connect(&a.net, &b.net);
    let mut source = Buffer::new(&a.net, send, pattern(1, 1 << 20));
    let mut sink = Buffer::new(&b.net, recv, vec![0; 1 << 20]);
    for n in 0..4 {
        isend(&a.net, send, &mut source, n, 200_000);
        irecv(&b.net, recv, &mut sink, n, 200_000);
    }
    let (_listener, _) = listen(&b.net);
    drop(a);
    drop(b);
    assert!(
        start.elapsed() < Duration::from_secs(30),
        "{:?}",
        start.elapsed()
    );
}

#[test]
fn a_transport_can_be_dropped_at_any_time() {
    breaking("a_transport_can_be_dropped_at_any_time", dropped);
}

/// Again and again: nothing is left that would make the next one fail.
fn again() {
    for _ in 0..5 {
        let side = Side::new(config(1));
        let (listener, _) = listen(&side.net);
        side.net.close_listen(listener).unwrap();
    }
}

#[test]
fn transports_come_and_go() {
    on_each_provider("transports_come_and_go", again);
}

/// Many communicators to one peer, each with its own message.
fn many() {
    let (a, b) = (Side::new(config(1)), Side::new(config(1)));
    let comms: Vec<_> = (0..60).map(|_| connect(&a.net, &b.net)).collect();
    let mut source = Buffer::new(&a.net, comms[0].0, pattern(4, 60 * 100));
    let mut sink = Buffer::new(&b.net, comms[0].1, vec![0; 60 * 100]);
    let mut requests = Vec::new();
    for (n, &(send, recv)) in comms.iter().enumerate() {
        let r = irecv(&b.net, recv, &mut sink, n * 100, 100);
        requests.push((isend(&a.net, send, &mut source, n * 100, 100), r));
    }
    for (s, r) in requests {
        assert_eq!(finish(&a.net, s, &b.net, r), (100, 100));
    }
    assert!(source.bytes == sink.bytes);
    for (send, recv) in comms {
        a.net.close_send(send).unwrap();
        b.net.close_recv(recv).unwrap();
    }
}

#[test]
fn many_communicators_to_one_peer() {
    in_one_process("many_communicators_to_one_peer", many);
}

/// Four threads, a communicator pair each, one domain a side: no byte is mixed up, nobody starves.
fn threads() {
    let (a, b) = (Side::new(config(2)), Side::new(config(2)));
    let comms: Vec<_> = (0..4).map(|_| connect(&a.net, &b.net)).collect();
    std::thread::scope(|scope| {
        for (seed, &(send, recv)) in comms.iter().enumerate() {
            let (left, right) = (&a, &b);
            scope.spawn(move || {
                left.watch();
                right.watch();
                let (a, b) = (&*left.net, &*right.net);
                let mut source = Buffer::new(a, send, pattern(seed, 150_000));
                let mut sink = Buffer::new(b, recv, vec![0; 150_000]);
                for n in 0..300 {
                    let len = if n % 10 == 0 { 150_000 } else { n * 13 };
                    let r = irecv(b, recv, &mut sink, 0, len);
                    let s = isend(a, send, &mut source, 0, len);
                    assert_eq!(finish(a, s, b, r), (len as u64, len as u64));
                    assert!(
                        source.bytes[..len] == sink.bytes[..len],
                        "thread {seed}, message {n}"
                    );
                    sink.bytes[..len].fill(0);
                }
                source.free(a, send);
                sink.free(b, recv);
                a.close_send(send).unwrap();
                b.close_recv(recv).unwrap();
            });
        }
    });
}

#[test]
fn threads_have_a_communicator_each() {
    in_one_process("threads_have_a_communicator_each", threads);
}

fn impatient() -> Config {
    Config {
        stall_fail_ms: Some(1500),
        connect_timeout_ms: 3000,
        ..config(2)
    }
}

/// The peer is killed with messages in flight: an error within the bound, said once, and other
/// communicators go on. (shm reports success for writes to a dead peer: a receive still fails.)
fn killed() {
    let side = Side::new(impatient());
    let net = &side.net;
    if let Some(mut handle) = given_handle() {
        let send = connect_to(net, &mut handle);
        let mut buffer = Buffer::new(net, send, pattern(1, 4096));
        let request = isend(net, send, &mut buffer, 0, 4096);
        wait(net, request);
        // Killed here, in the middle of what its peer believes to be a conversation.
        return until("being killed", || net.test(request).is_ok().then_some(()));
    }
    let (listener, handle) = listen(net);
    let other = peer_process("a_killed_peer_is_an_error_in_time", &handle);
    let recv = accept_from(net, listener);
    let mut sink = Buffer::new(net, recv, vec![0; 1 << 20]);
    let first = irecv(net, recv, &mut sink, 0, 4096);
    assert_eq!(wait(net, first), 4096);
    let waiting = irecv(net, recv, &mut sink, 0, 1 << 20);
    drop(other);
    let start = Instant::now();
    let error = until_error("the receive from a dead peer", || net.test(waiting));
    say(&format!("dead peer: {error}"));
    assert!(
        start.elapsed() < Duration::from_secs(20),
        "{:?}",
        start.elapsed()
    );
    let (at, mr) = (sink.at(0), sink.mr);
    // SAFETY: the buffer is kept for good.
    let sticks = unsafe { net.irecv(recv, at, 64, Some(mr)) }.unwrap_err();
    assert_eq!(sticks.code(), error.code(), "the first failure sticks");
    let warnings = side.log.at(ofi_net::log::Level::Warn);
    assert_eq!(
        warnings
            .iter()
            .filter(|line| line.contains("OFI-E06"))
            .count(),
        1,
        "{warnings:?}"
    );
    sink.free(net, recv);
    net.close_recv(recv).unwrap();
}

#[test]
fn a_killed_peer_is_an_error_in_time() {
    on_each_provider("a_killed_peer_is_an_error_in_time", killed);
}

/// The peer listens and dies before it accepts.
fn killed_before_accept() {
    let side = Side::new(impatient());
    let net = &side.net;
    let (listener, mine) = listen(net);
    if let Some(mut handle) = given_handle() {
        let send = connect_to(net, &mut handle);
        let mut buffer = Buffer::new(net, send, mine.to_vec());
        let request = isend(net, send, &mut buffer, 0, 128);
        wait(net, request);
        return until("being killed", || None);
    }
    let other = peer_process("a_peer_killed_before_accept_is_an_error_in_time", &mine);
    let recv = accept_from(net, listener);
    let mut buffer = Buffer::new(net, recv, vec![0; 128]);
    let request = irecv(net, recv, &mut buffer, 0, 128);
    wait(net, request);
    let mut theirs = [0; 128];
    theirs.copy_from_slice(&buffer.bytes);
    drop(other);
    let start = Instant::now();
    let error = until_error("connect to a dead peer", || {
        match net.connect(0, &mut theirs) {
            Ok(Some(_)) => panic!("connected to a dead peer"),
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        }
    });
    say(&format!("dead listener: {error}"));
    assert!(
        start.elapsed() < Duration::from_secs(20),
        "{:?}",
        start.elapsed()
    );
}

#[test]
fn a_peer_killed_before_accept_is_an_error_in_time() {
    on_each_provider(
        "a_peer_killed_before_accept_is_an_error_in_time",
        killed_before_accept,
    );
}
