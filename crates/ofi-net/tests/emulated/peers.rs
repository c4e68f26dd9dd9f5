//! Peers in other processes that die, hang, or do not poll.

use super::{BOUND, impatient};
use crate::common::emulated::under_plan;
use crate::common::peer::{given_handle, peer_process_with};
use crate::common::{accept_from, connect_to, listen, say, until, wait};
use crate::{Buffer, Side, irecv, isend, pattern, until_error};
use ofi_net::Code;
use std::time::Instant;

/// Sends without end, until the plan or the test ends it.
fn sends_forever(side: &Side, handle: &mut [u8; 128]) {
    let net = &side.net;
    let send = connect_to(net, handle);
    let mut buffer = Buffer::new(net, send, pattern(1, 20_000));
    until("the end", || {
        let request = isend(net, send, &mut buffer, 0, 20_000);
        let ended = until("a message", || match net.test(request) {
            Ok(done) => done.map(|_| false),
            Err(_) => Some(true),
        });
        ended.then_some(())
    });
}

/// Receives from the peer until that fails, which it has to in time after the last message.
fn receives_until_it_fails(name: &str) {
    let side = Side::new(impatient());
    let net = &side.net;
    if let Some(mut handle) = given_handle() {
        return sends_forever(&side, &mut handle);
    }
    let (listener, handle) = listen(net);
    let peer = [("EFA_EMU_NAME".to_owned(), "peer".to_owned())];
    let _other = peer_process_with(name, &handle, &peer);
    let recv = accept_from(net, listener);
    let mut sink = Buffer::new(net, recv, vec![0; 20_000]);
    let mut messages = 0;
    let mut last = Instant::now();
    let error = loop {
        let request = irecv(net, recv, &mut sink, 0, 20_000);
        let end = until("a message, or an error", || match net.test(request) {
            Ok(done) => done.map(Ok),
            Err(error) => Some(Err(error)),
        });
        match end {
            Ok(size) => assert_eq!(size, 20_000),
            Err(error) => break error,
        }
        assert!(*sink.bytes == pattern(1, 20_000));
        messages += 1;
        last = Instant::now();
    };
    say(&format!("after {messages} messages: {error}"));
    assert!(messages > 5, "{messages}");
    assert!(
        matches!(error.code(), Code::Stalled | Code::Operation),
        "{error}"
    );
    assert!(last.elapsed() < BOUND, "{:?}", last.elapsed());
    sink.free(net, recv);
    net.close_recv(recv).unwrap();
}

macro_rules! sick_peers {
    ($($name:ident: $plan:literal;)*) => { $(
        #[test]
        fn $name() {
            const NAME: &str = concat!("peers::", stringify!($name));
            under_plan(NAME, $plan, || receives_until_it_fails(NAME));
        }
    )* };
}

sick_peers! {
    a_sender_that_kills_itself_is_an_error_in_time: "die process=peer on=imm at=20";
    a_sender_that_hangs_is_an_error_in_time: "mute process=peer on=imm at=20";
    a_sender_that_stops_polling_is_an_error_in_time: "stop-polling process=peer on=imm at=20";
    a_sender_without_its_nic_is_an_error_in_time: "nic-lost process=peer nic=0 on=imm at=20";
}

/// The receiver of what we send dies: its writes fail, or stand still, in time.
fn sends_until_it_fails() {
    const NAME: &str = "peers::a_receiver_that_kills_itself_is_an_error_in_time";
    let side = Side::new(impatient());
    let net = &side.net;
    let (listener, mine) = listen(net);
    if let Some(mut handle) = given_handle() {
        let send = connect_to(net, &mut handle);
        let mut buffer = Buffer::new(net, send, mine.to_vec());
        wait(net, isend(net, send, &mut buffer, 0, 128));
        let recv = accept_from(net, listener);
        let mut sink = Buffer::new(net, recv, vec![0; 20_000]);
        return until("the end", || {
            wait(net, irecv(net, recv, &mut sink, 0, 20_000));
            None
        });
    }
    let peer = [("EFA_EMU_NAME".to_owned(), "peer".to_owned())];
    let _other = peer_process_with(NAME, &mine, &peer);
    let recv = accept_from(net, listener);
    let mut buffer = Buffer::new(net, recv, vec![0; 128]);
    wait(net, irecv(net, recv, &mut buffer, 0, 128));
    let mut theirs = [0; 128];
    theirs.copy_from_slice(&buffer.bytes);
    let send = connect_to(net, &mut theirs);
    let mut source = Buffer::new(net, send, pattern(1, 20_000));
    let mut last = Instant::now();
    let error = until_error("sends to a peer that dies", || {
        let request = isend(net, send, &mut source, 0, 20_000);
        let end = until("a message, or an error", || net.test(request).transpose());
        end.inspect(|_| last = Instant::now())
    });
    say(&format!("dead receiver: {error}"));
    assert!(
        matches!(error.code(), Code::Stalled | Code::Operation),
        "{error}"
    );
    assert!(last.elapsed() < BOUND, "{:?}", last.elapsed());
    buffer.free(net, recv);
    source.free(net, recv);
    net.close_send(send).unwrap();
    net.close_recv(recv).unwrap();
}

#[test]
fn a_receiver_that_kills_itself_is_an_error_in_time() {
    // Receives show as posts of the control messages that grant them.
    under_plan(
        "peers::a_receiver_that_kills_itself_is_an_error_in_time",
        "die process=peer on=send at=20",
        sends_until_it_fails,
    );
}
