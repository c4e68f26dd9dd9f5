//! Closing at any time, many communicators, several threads, forked children.
#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use common::{
    Buffer, Side, breaking, config, connect, finish, in_one_process, irecv, isend, listen,
    on_each_provider, pattern, say, sendrecv, until,
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
    // More than the address vector of shm has entries: it must be one for all.
    const COUNT: usize = 300;
    let (a, b) = (Side::new(config(1)), Side::new(config(1)));
    let comms: Vec<_> = (0..COUNT).map(|_| connect(&a.net, &b.net)).collect();
    let mut source = Buffer::new(&a.net, comms[0].0, pattern(4, COUNT * 100));
    let mut sink = Buffer::new(&b.net, comms[0].1, vec![0; COUNT * 100]);
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

/// A forked child is told; the parent's connection works on after the child has gone (decision 22).
fn forked() {
    let (a, b) = (Side::new(config(1)), Side::new(config(1)));
    let (send, recv) = connect(&a.net, &b.net);
    // SAFETY: the child makes calls that fail before they touch anything, and leaves by _exit.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let calls = [
            a.net.close_send(send).err(),
            a.net.connect(0, &mut [0; 128]).err(),
            a.net.listen(0, &mut [0; 128]).err(),
        ];
        let told = calls.iter().all(|error| {
            error
                .as_ref()
                .is_some_and(|error| error.code() == Code::Forked)
        });
        // SAFETY: _exit(2) takes any status and does not return.
        unsafe { libc::_exit(if told { 7 } else { 8 }) };
    }
    let mut status = 0;
    // SAFETY: waitpid(2) writes one int.
    let waited = unsafe { libc::waitpid(pid, &raw mut status, 0) };
    assert_eq!((waited, libc::WEXITSTATUS(status)), (pid, 7));
    let mut source = Buffer::new(&a.net, send, pattern(6, 100_000));
    let mut sink = Buffer::new(&b.net, recv, vec![0; 100_000]);
    let r = irecv(&b.net, recv, &mut sink, 0, 100_000);
    let s = isend(&a.net, send, &mut source, 0, 100_000);
    assert_eq!(finish(&a.net, s, &b.net, r), (100_000, 100_000));
    assert!(source.bytes == sink.bytes);
}

#[test]
fn a_forked_child_is_told_and_the_parent_goes_on() {
    in_one_process("a_forked_child_is_told_and_the_parent_goes_on", forked);
}

/// The connect of v4 returns at once; sends are "not now" until the peer has accepted (decision 18).
fn v4() {
    let (a, b) = (Side::new(config(1)), Side::new(config(1)));
    let (listener, handle) = listen(&b.net);
    let mut short = [0; 64];
    short.copy_from_slice(&handle[..64]);
    let send = a.net.connect_v4(0, &mut short).unwrap();
    let mut source = Buffer::new(&a.net, send, pattern(2, 5000));
    let (start, mr) = (source.at(0), source.mr);
    // SAFETY: the buffer is kept for good.
    let early = || unsafe { a.net.isend(send, start, 5000, Some(mr)) }.unwrap();
    assert_eq!(early(), None, "nobody has accepted");
    let mut recv = None;
    let s = until("v4", || {
        recv = recv.or_else(|| b.net.accept(listener).unwrap());
        early()
    });
    let recv = until("accept", || {
        recv.or_else(|| b.net.accept(listener).unwrap())
    });
    let mut sink = Buffer::new(&b.net, recv, vec![0; 5000]);
    let r = irecv(&b.net, recv, &mut sink, 0, 5000);
    assert_eq!(finish(&a.net, s, &b.net, r), (5000, 5000));
    assert!(source.bytes == sink.bytes);
}

#[test]
fn a_v4_connection_completes_in_later_calls() {
    in_one_process("a_v4_connection_completes_in_later_calls", v4);
}

/// One thread registers and deregisters without end while another transfers: neither disturbs the other.
fn registering() {
    let (a, b) = (Side::new(config(2)), Side::new(config(2)));
    let (send, recv) = connect(&a.net, &b.net);
    let done = core::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (left, right, stop) = (&a, &b, &done);
        scope.spawn(move || {
            while !stop.load(core::sync::atomic::Ordering::Relaxed) {
                let first = Buffer::new(&left.net, send, vec![0; 10_000]);
                let second = Buffer::new(&right.net, recv, vec![0; 10_000]);
                second.free(&right.net, recv);
                first.free(&left.net, send);
            }
        });
        let (a, b) = (&*a.net, &*b.net);
        let mut source = Buffer::new(a, send, pattern(3, 150_000));
        let mut sink = Buffer::new(b, recv, vec![0; 150_000]);
        for n in 0..2000 {
            let r = irecv(b, recv, &mut sink, 0, 150_000);
            let s = isend(a, send, &mut source, 0, 150_000);
            assert_eq!(finish(a, s, b, r), (150_000, 150_000), "message {n}");
        }
        assert!(source.bytes == sink.bytes);
        done.store(true, core::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn registration_and_transfer_do_not_meet() {
    in_one_process("registration_and_transfer_do_not_meet", registering);
}

/// Messages that nobody takes, at providers that do not give them back: their memory is freed within one bound, however
/// many regions there are, and what follows is as ever.
fn many_regions() {
    const BOUND: Duration = Duration::from_millis(5000);
    let settings = Config {
        stall_fail_ms: Some(1000),
        ..sendrecv()
    };
    let (a, b) = (Side::new(settings), Side::new(sendrecv()));
    let (send, _recv) = connect(&a.net, &b.net);
    let fresh = |_| Buffer::new(&a.net, send, vec![0; 4 << 20]);
    let mut sources: Vec<Buffer> = (0..6).map(fresh).collect();
    let sent = sources.iter_mut();
    let sent: Vec<_> = sent
        .map(|source| isend(&a.net, send, source, 0, 4 << 20))
        .collect();
    let mut left = sent;
    let ended = until("all to be taken, or one to end", || {
        let mut error = None;
        left.retain(|request| match a.net.test(*request) {
            Ok(done) => done.is_none(),
            Err(failed) => {
                error = Some(failed);
                true
            }
        });
        (left.is_empty() || error.is_some()).then_some(error)
    });
    let Some(error) = ended else {
        return say("skipped: this provider takes all of a message before anybody receives");
    };
    assert_eq!(error.code(), Code::Stalled, "{error}");
    let start = Instant::now();
    for source in sources {
        source.free(&a.net, send);
    }
    let took = start.elapsed();
    say(&format!("six regions: {took:?}"));
    assert!(took < BOUND + BOUND / 2, "{took:?} for six regions");
}

#[test]
fn after_a_failure_the_wait_for_memory_is_one() {
    breaking("after_a_failure_the_wait_for_memory_is_one", many_regions);
}

/// A peer that takes nothing any more, and no failure: what hangs costs the bound once, whichever protocol.
fn regions_of_who_is_innocent() {
    const BOUND: Duration = Duration::from_millis(5000);
    const LEN: usize = 100_000;
    for settings in [config(1), sendrecv()] {
        let (a, b) = (Side::new(settings.clone()), Side::new(settings));
        let (send, recv) = connect(&a.net, &b.net);
        let (_, other) = connect(&b.net, &a.net);
        let fresh = |comm| Buffer::new(&a.net, comm, vec![0; LEN]);
        let mut sources: Vec<Buffer> = (0..6).map(|_| fresh(send)).collect();
        let mut sinks: Vec<Buffer> = (0..6).map(|_| fresh(other)).collect();
        for source in &mut sources {
            isend(&a.net, send, source, 0, LEN);
        }
        for sink in &mut sinks {
            irecv(&a.net, other, sink, 0, LEN);
        }
        let start = Instant::now();
        for source in sources {
            source.free(&a.net, send);
        }
        for sink in sinks {
            sink.free(&a.net, other);
        }
        let took = start.elapsed();
        say(&format!("twelve regions: {took:?}"));
        assert!(took < 2 * BOUND, "{took:?} for twelve regions");
        a.net.close_send(send).unwrap();
        a.net.close_recv(other).unwrap();
        b.net.close_recv(recv).unwrap();
    }
}

#[test]
fn without_a_failure_the_wait_for_memory_is_one() {
    breaking(
        "without_a_failure_the_wait_for_memory_is_one",
        regions_of_who_is_innocent,
    );
}
