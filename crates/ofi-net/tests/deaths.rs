//! Peers that die, at each stage: a coded error within a bound, said once.
#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use common::peer::{given_handle, peer_process};
use common::{
    Buffer, Side, accept_from, config, connect_to, irecv, isend, listen, on_each_provider, pattern,
    say, until, until_error, wait,
};
use core::time::Duration;
use ofi_net::{Code, Config};
use std::time::Instant;

fn impatient() -> Config {
    Config {
        stall_fail_ms: Some(4000),
        // Within it a healthy connection comes up on a machine that is busy with other things.
        connect_timeout_ms: 8000,
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
    other.kill();
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
    let sticks = unsafe { net.irecv(recv, at, 64, Some(mr), false) }.unwrap_err();
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

/// The peer dies while it is sent to: the survivor's sends end in error, within the bound.
fn killed_receiver() {
    let side = Side::new(impatient());
    let net = &side.net;
    let (listener, mine) = listen(net);
    if let Some(mut handle) = given_handle() {
        let send = connect_to(net, &mut handle);
        let mut buffer = Buffer::new(net, send, mine.to_vec());
        wait(net, isend(net, send, &mut buffer, 0, 128));
        let recv = accept_from(net, listener);
        let mut sink = Buffer::new(net, recv, vec![0; 100_000]);
        wait(net, irecv(net, recv, &mut sink, 0, 100_000));
        return until("being killed", || None);
    }
    let other = peer_process("a_killed_receiver_is_an_error_in_time", &mine);
    let recv = accept_from(net, listener);
    let mut buffer = Buffer::new(net, recv, vec![0; 128]);
    wait(net, irecv(net, recv, &mut buffer, 0, 128));
    let mut theirs = [0; 128];
    theirs.copy_from_slice(&buffer.bytes);
    let send = connect_to(net, &mut theirs);
    let mut source = Buffer::new(net, send, pattern(1, 100_000));
    wait(net, isend(net, send, &mut source, 0, 100_000));
    other.kill();
    let start = Instant::now();
    let (at, mr) = (source.at(0), source.mr);
    let mut flying = Vec::new();
    let error = until_error("sends to a dead peer", || {
        // SAFETY: the buffer is kept for good.
        flying.extend(unsafe { net.isend(send, at, 4096, Some(mr)) }?);
        let mut failed = Ok(());
        flying.retain(|&request| match net.test(request) {
            Ok(done) => done.is_none(),
            Err(error) => {
                failed = Err(error);
                false
            }
        });
        failed
    });
    say(&format!("dead receiver: {error}"));
    assert!(
        matches!(error.code(), Code::Stalled | Code::Operation),
        "{error}"
    );
    assert!(
        start.elapsed() < Duration::from_secs(20),
        "{:?}",
        start.elapsed()
    );
    source.free(net, send);
    net.close_send(send).unwrap();
}

#[test]
fn a_killed_receiver_is_an_error_in_time() {
    on_each_provider("a_killed_receiver_is_an_error_in_time", killed_receiver);
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
    other.kill();
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

/// A process killed before had our id, and left its shared memory under the names that ours will have.
fn left_behind() {
    let names: Vec<_> = (0..3)
        .map(|n| format!("/dev/shm/{}:0:{n}", std::process::id()))
        .collect();
    for name in &names {
        std::fs::write(name, vec![0; 4096]).unwrap();
    }
    let side = Side::new(config(1));
    let (listener, _) = listen(&side.net);
    side.net.close_listen(listener).unwrap();
    drop(side);
    for name in &names {
        // An error says that the provider took the name over.
        let _removed = std::fs::remove_file(name).is_ok();
    }
}

#[test]
fn names_of_a_killed_process_are_stepped_over() {
    let name = "names_of_a_killed_process_are_stepped_over";
    common::on_providers(name, |provider| provider == "shm", left_behind);
}
