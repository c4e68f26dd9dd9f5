//! Connecting in every order and again: progress made by others, to itself, both ways at once, peers that
//! restart at their old address, handles with one byte changed.
#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use common::peer::{given_handle, peer_process_with};
use common::{
    Buffer, Side, accept_from, config, connect, connect_to, finish, in_one_process, irecv, isend,
    listen, on_providers, pattern, say, sendrecv, until, wait,
};
use core::time::Duration;
use ofi_net::{CommWord, Config};
use std::time::Instant;

/// One message; every byte is looked at.
fn message(a: &Side, b: &Side, (send, recv): (CommWord, CommWord), len: usize) {
    let mut source = Buffer::new(&a.net, send, pattern(len, len));
    let mut sink = Buffer::new(&b.net, recv, vec![0; len]);
    let r = irecv(&b.net, recv, &mut sink, 0, len);
    let s = isend(&a.net, send, &mut source, 0, len);
    assert_eq!(finish(&a.net, s, &b.net, r), (len as u64, len as u64));
    assert!(source.free(&a.net, send) == sink.free(&b.net, recv));
}

/// Connection messages are taken in by calls about something else, again and again, before and between
/// the calls of the accepts they are for; then two threads poll an accept each.
fn by_others(config: fn() -> Config) {
    let (a, b) = (Side::new(config()), Side::new(config()));
    let first = connect(&a.net, &b.net);
    let mut sink = Buffer::new(&b.net, first.1, vec![0; 64]);
    let waiting = irecv(&b.net, first.1, &mut sink, 0, 64);
    let busy = || assert_eq!(b.net.test(waiting).unwrap(), None);
    let mut pairs: Vec<_> = (0..3).map(|_| listen(&b.net)).collect();
    let mut sends = [None; 3];
    for _ in 0..200 {
        for ((_, handle), send) in pairs.iter_mut().zip(&mut sends) {
            *send = send.or_else(|| a.net.connect(0, handle).unwrap());
            busy();
        }
    }
    let listeners: Vec<_> = pairs.iter().map(|&(listener, _)| listener).collect();
    let accept = |at: usize| {
        until("accept", || {
            busy();
            b.net.accept(listeners[at]).unwrap()
        })
    };
    let third = accept(2);
    let (one, two) = std::thread::scope(|scope| {
        let others = scope.spawn(|| accept(0));
        let own = accept(1);
        // The connector's side of it.
        a.watch();
        (others.join().unwrap(), own)
    });
    for (at, recv) in [one, two, third].into_iter().enumerate() {
        let handle = &mut pairs[at].1;
        let send = until("connect", || {
            sends[at].or_else(|| a.net.connect(0, handle).unwrap())
        });
        message(&a, &b, (send, recv), 5000);
    }
    let mut source = Buffer::new(&a.net, first.0, pattern(7, 64));
    let s = isend(&a.net, first.0, &mut source, 0, 64);
    assert_eq!(finish(&a.net, s, &b.net, waiting), (64, 64));
}

#[test]
fn accept_does_not_mind_who_makes_progress() {
    in_one_process("accept_does_not_mind_who_makes_progress", || {
        by_others(|| config(2));
        by_others(sendrecv);
    });
}

/// One thread, one device, both ends: whichever end is asked first, and however often.
fn to_itself(config: fn() -> Config) {
    let side = Side::new(config());
    for (connects, accepts) in [(1, 1), (50, 1), (1, 50)] {
        let (listener, mut handle) = listen(&side.net);
        let (mut send, mut recv) = (None, None);
        if accepts > connects {
            recv = side.net.accept(listener).unwrap();
        }
        let pair = until("both ends", || {
            for _ in 0..connects {
                send = send.or_else(|| side.net.connect(0, &mut handle).unwrap());
            }
            for _ in 0..accepts {
                recv = recv.or_else(|| side.net.accept(listener).unwrap());
            }
            send.zip(recv)
        });
        message(&side, &side, pair, 100_000);
    }
}

#[test]
fn a_process_connects_to_itself_in_any_order() {
    in_one_process("a_process_connects_to_itself_in_any_order", || {
        to_itself(|| config(2));
        to_itself(sendrecv);
    });
}

/// Both connect to the other at once, before anything else passed between them.
fn at_once() {
    for round in 0..12 {
        let (a, b) = (Side::new(config(1)), Side::new(config(1)));
        let (to_a, mut handle_a) = listen(&a.net);
        let (to_b, mut handle_b) = listen(&b.net);
        let (mut sends, mut recvs) = ([None; 2], [None; 2]);
        until("both connections", || {
            sends[0] = sends[0].or_else(|| a.net.connect(0, &mut handle_b).unwrap());
            sends[1] = sends[1].or_else(|| b.net.connect(0, &mut handle_a).unwrap());
            if round % 2 == 0 || sends[0].is_some() {
                recvs[0] = recvs[0].or_else(|| a.net.accept(to_a).unwrap());
            }
            recvs[1] = recvs[1].or_else(|| b.net.accept(to_b).unwrap());
            let all = sends.iter().chain(&recvs).all(Option::is_some);
            all.then_some(())
        });
        message(&a, &b, (sends[0].unwrap(), recvs[1].unwrap()), 20_000);
        message(&b, &a, (sends[1].unwrap(), recvs[0].unwrap()), 20_000);
    }
}

#[test]
fn two_sides_connect_at_once() {
    in_one_process("two_sides_connect_at_once", at_once);
}

/// Where the process that connects as v4 does writes its handle.
const HANDLE_FILE: &str = "OFI_NET_TEST_HANDLE_FILE";

/// The connect and the accept of v4, in a process that makes no call after them, as a caller that waits for
/// its peers by other means; its peer's accept ends all the same, also on a provider that
/// needs the receiver's calls to complete a send (shm of 2.x).
fn blocking() {
    let side = Side::new(config(1));
    let (listener, own) = listen(&side.net);
    if let Some(theirs) = given_handle() {
        let file = std::env::var_os(HANDLE_FILE).unwrap();
        let written = std::path::Path::new(&file).with_extension("new");
        std::fs::write(&written, own).unwrap();
        std::fs::rename(&written, &file).unwrap();
        let mut short = [0; 64];
        short.copy_from_slice(&theirs[..64]);
        side.net.connect_v4(0, &mut short).unwrap();
        side.net.accept_blocking(listener).unwrap();
        // The other side takes the file away when it has what it waits for. Nothing is called meanwhile.
        let start = Instant::now();
        while std::path::Path::new(&file).exists() && start.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(1));
        }
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("handle");
    let more = [(HANDLE_FILE.to_owned(), file.to_str().unwrap().to_owned())];
    let name = "after_a_blocking_accept_nobody_waits_for_another_call";
    let peer = peer_process_with(name, &own, &more);
    let theirs = until("their handle", || std::fs::read(&file).ok());
    let mut theirs = theirs.try_into().unwrap();
    let (mut send, mut recv) = (None, None);
    until("both connections", || {
        send = send.or_else(|| side.net.connect(0, &mut theirs).unwrap());
        recv = recv.or_else(|| side.net.accept(listener).unwrap());
        (send.is_some() && recv.is_some()).then_some(())
    });
    std::fs::remove_file(&file).unwrap();
    peer.finish();
}

#[test]
fn after_a_blocking_accept_nobody_waits_for_another_call() {
    let name = "after_a_blocking_accept_nobody_waits_for_another_call";
    on_providers(name, |_| true, blocking);
}

/// A connection that is given up before anybody accepted: its close, and the end of all, wait for nobody.
fn given_up() {
    let (a, b) = (Side::new(config(2)), Side::new(config(2)));
    let (_listener, handle) = listen(&b.net);
    let mut short = [0; 64];
    short.copy_from_slice(&handle[..64]);
    let send = a.net.connect_v4(0, &mut short).unwrap();
    let start = Instant::now();
    a.net.close_send(send).unwrap();
    assert!(
        start.elapsed() < Duration::from_secs(1),
        "{:?}",
        start.elapsed()
    );
    let (_listener, mut handle) = listen(&b.net);
    assert_eq!(a.net.connect(0, &mut handle).unwrap(), None);
    drop(a);
    // Its operations get two seconds to complete.
    assert!(
        start.elapsed() < Duration::from_secs(15),
        "{:?}",
        start.elapsed()
    );
}

#[test]
fn a_connection_given_up_waits_for_nobody() {
    let sound = |provider: &str| {
        if provider == "shm" {
            say(
                "skipped: a connection given up on shm (a receiver of 1.17 and 1.22 follows a null pointer to \
                 a sender that closed before its first message was read)",
            );
        }
        provider != "shm"
    };
    on_providers("a_connection_given_up_waits_for_nobody", sound, given_up);
}

/// SENDRECV connects to listeners that are gone, given up at once or once they are up: later ones are not held up.
fn to_nobody() {
    let (a, b) = (Side::new(sendrecv()), Side::new(sendrecv()));
    for is_polled in [true, false] {
        for _ in 0..40 {
            let (listener, mut handle) = listen(&b.net);
            b.net.close_listen(listener).unwrap();
            let send = if is_polled {
                connect_to(&a.net, &mut handle)
            } else {
                let mut short = [0; 64];
                short.copy_from_slice(&handle[..64]);
                a.net.connect_v4(0, &mut short).unwrap()
            };
            a.net.close_send(send).unwrap();
        }
    }
    message(&a, &b, connect(&a.net, &b.net), 5000);
}

#[test]
fn connections_to_nobody_hold_nobody_up() {
    let sound = |provider: &str| {
        let is_skipped = matches!(provider, "net" | "tcp");
        if is_skipped {
            say(
                "skipped: net and tcp (behind a tagged message that nobody awaits, nothing of that peer comes)",
            );
        }
        !is_skipped
    };
    on_providers("connections_to_nobody_hold_nobody_up", sound, to_nobody);
}

/// Each byte of a handle changed, all at once: an error within the deadline for each, or a connection that
/// nobody accepts; and the listener's process works on.
fn changed_bytes() {
    let impatient = Config {
        connect_timeout_ms: 1500,
        ..config(1)
    };
    let (a, b) = (Side::new(impatient), Side::new(config(1)));
    let (listener, good) = listen(&b.net);
    // A family and address of IP are left: another host is nobody's to try.
    let is_ip = i32::from(u16::from_ne_bytes([good[0], good[1]])) == libc::AF_INET;
    let places = (0..88).filter(|at| !(is_ip && (4..8).contains(at)));
    let mut handles: Vec<_> = places
        .map(|at| {
            let mut handle = good;
            handle[at] ^= 0x80;
            handle
        })
        .collect();
    let mut left: Vec<_> = handles.iter_mut().collect();
    until("an error of each", || {
        left.retain_mut(|handle| match a.net.connect(0, handle) {
            Ok(comm) => {
                assert_eq!(comm, None, "connected, and nobody accepted");
                true
            }
            Err(error) => {
                assert!(error.to_string().contains("OFI-E"), "{error}");
                false
            }
        });
        left.is_empty().then_some(())
    });
    b.net.close_listen(listener).unwrap();
    let comms = connect(&a.net, &b.net);
    message(&a, &b, comms, 3000);
}

#[test]
fn a_handle_with_any_byte_changed_is_an_error_in_time() {
    in_one_process(
        "a_handle_with_any_byte_changed_is_an_error_in_time",
        changed_bytes,
    );
}

/// Settings with which a process has the same two ports each time: as many as it has endpoints. They are
/// below those that the system hands out, so that nobody gets one between two lives of the peer.
fn two_ports() -> Vec<(String, String)> {
    use core::net::Ipv4Addr;
    use std::net::TcpListener;
    const LOWEST: u16 = 12_000;
    const PAIRS: u16 = 9_000;
    let start = u16::try_from(std::process::id() % u32::from(PAIRS)).unwrap();
    let pair = |at| LOWEST + 2 * ((start + at) % PAIRS);
    let is_free = |port| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok();
    let mut pairs = (0..PAIRS).map(pair);
    let first = pairs
        .find(|&port| is_free(port) && is_free(port + 1))
        .unwrap();
    let mut settings = Vec::new();
    for provider in ["TCP", "NET"] {
        for (end, port) in [("LOW", first), ("HIGH", first + 1)] {
            settings.push((format!("FI_{provider}_PORT_{end}_RANGE"), port.to_string()));
        }
    }
    settings
}

/// A peer is killed and starts again at its old address, several times: what the old one left never gets
/// anything of the new one, and the new one is as good as the first.
fn restarts() {
    let name = "a_peer_that_restarts_at_its_old_address_is_another";
    if let Some(mut handle) = given_handle() {
        let side = Side::new(config(1));
        let net = &side.net;
        let (listener, mine) = listen(net);
        let send = connect_to(net, &mut handle);
        let mut buffer = Buffer::new(net, send, mine.to_vec());
        wait(net, isend(net, send, &mut buffer, 0, 128));
        let recv = accept_from(net, listener);
        let mut sink = Buffer::new(net, recv, vec![0; 100_000]);
        wait(net, irecv(net, recv, &mut sink, 0, 100_000));
        assert!(sink.bytes[..] == pattern(5, 100_000)[..]);
        wait(net, isend(net, send, &mut buffer, 0, 8));
        return until("being killed", || None);
    }
    let ports = two_ports();
    let side = Side::new(Config {
        stall_fail_ms: None,
        ..config(1)
    });
    let net = &side.net;
    let mut addresses = Vec::new();
    let mut old = Vec::new();
    // Three peers have one of two addresses.
    for _ in 0..4 {
        let (listener, handle) = listen(net);
        let peer = peer_process_with(name, &handle, &ports);
        let recv = accept_from(net, listener);
        let mut sink = Buffer::new(net, recv, vec![0; 4096]);
        wait(net, irecv(net, recv, &mut sink, 0, 128));
        let mut theirs: [u8; 128] = sink.bytes[..128].try_into().unwrap();
        addresses.push(theirs[..16].to_vec());
        let send = connect_to(net, &mut theirs);
        let mut source = Buffer::new(net, send, pattern(5, 100_000));
        wait(net, isend(net, send, &mut source, 0, 100_000));
        wait(net, irecv(net, recv, &mut sink, 0, 8));
        let waiting = irecv(net, recv, &mut sink, 0, 4096);
        peer.kill();
        old.push((waiting, sink));
        for (request, _) in &old {
            let is_done = matches!(net.test(*request), Ok(Some(_)));
            assert!(!is_done, "a receive from a dead peer is done");
        }
    }
    let distinct: std::collections::BTreeSet<_> = addresses.iter().collect();
    assert!(
        distinct.len() < addresses.len(),
        "no address came again: {addresses:?}"
    );
}

#[test]
fn a_peer_that_restarts_at_its_old_address_is_another() {
    let is_ip = |provider: &str| !matches!(provider, "shm" | "efa");
    let name = "a_peer_that_restarts_at_its_old_address_is_another";
    on_providers(name, is_ip, restarts);
}
