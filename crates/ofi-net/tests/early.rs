//! Early completion and the CLOSE handshake over real providers (protocol 2e.10, 2c.5).
#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use common::{
    Buffer, Side, config, connect, finish, in_one_process, irecv, isend, on_each_provider, pattern,
    say, until, wait,
};
use core::time::Duration;
use ofi_net::{Code, Config, Rails, Transport};
use std::sync::Arc;
use std::time::Instant;

/// Whether the provider here moves data by itself: then receives that are optional complete early.
fn is_automatic(config: &Config) -> bool {
    let explicit = Config {
        early_completion: Some(true),
        ..config.clone()
    };
    match Transport::init(explicit, Arc::new(common::Lines::default())) {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.code(), Code::EarlyCompletion, "{error}");
            assert!(error.to_string().contains("Manual"), "{error}");
            false
        }
    }
}

fn early() {
    let settings = Config {
        eager_max: None,
        ..config(2)
    };
    let automatic = is_automatic(&settings);
    // These providers say so, and it is believed because it is asked for.
    let settings = Config {
        early_completion: automatic.then_some(true),
        ..settings
    };
    say(&format!("early completion: {automatic}"));
    let (a, b) = (Side::new(settings.clone()), Side::new(settings));
    let (send, recv) = connect(&a.net, &b.net);
    let mut source = Buffer::new(&a.net, send, pattern(3, 300_000));
    let mut sink = Buffer::new(&b.net, recv, vec![0; 300_000]);
    for n in 0..200 {
        let len = 1 + n * 1000;
        sink.bytes.fill(0);
        let (at, mr) = (sink.at(0), sink.mr);
        let received = until("irecv", || {
            // SAFETY: the buffer lives to the end, and is looked at for its bytes only.
            unsafe { b.net.irecv(recv, at, len, Some(mr), true) }.unwrap()
        });
        if automatic {
            // Done before there is a send.
            assert_eq!(wait(&b.net, received), 0);
        }
        let sent = isend(&a.net, send, &mut source, n, len);
        if automatic {
            assert_eq!(wait(&a.net, sent), len as u64);
            until("the bytes of a message", || {
                let there = core::hint::black_box(&sink.bytes[..len]);
                (there == &source.bytes[n..n + len]).then_some(())
            });
        } else {
            let sizes = finish(&a.net, sent, &b.net, received);
            assert_eq!(sizes, (len as u64, len as u64));
            assert!(sink.bytes[..len] == source.bytes[n..n + len]);
        }
    }
    source.free(&a.net, send);
    sink.free(&b.net, recv);
    a.net.close_send(send).unwrap();
    b.net.close_recv(recv).unwrap();
}

#[test]
fn an_optional_receive_is_done_when_its_peer_was_told() {
    in_one_process("an_optional_receive_is_done_when_its_peer_was_told", early);
}

fn with_eager() {
    let settings = Config {
        early_completion: Some(true),
        ..config(1)
    };
    let refused = Transport::init(settings, Arc::new(common::Lines::default())).unwrap_err();
    assert_eq!(refused.code(), Code::EarlyCompletion);
    assert!(
        refused
            .to_string()
            .contains("OFI_NCCL_EAGER_MAX_SIZE is 8192"),
        "{refused}"
    );
}

#[test]
fn asked_for_with_eager_messages_it_is_an_error_of_init() {
    on_each_provider(
        "asked_for_with_eager_messages_it_is_an_error_of_init",
        with_eager,
    );
}

fn saying_close(close_messages: bool) -> Config {
    Config {
        close_messages,
        ..config(2)
    }
}

/// Both settings on each side. `close` returns at once, and the end of a transport is bounded whatever
/// the other side says.
fn handshake() {
    for (ours, theirs) in [(true, true), (true, false), (false, true), (false, false)] {
        let (a, b) = (
            Side::new(saying_close(ours)),
            Side::new(saying_close(theirs)),
        );
        for first in [true, false, true] {
            let (send, recv) = connect(&a.net, &b.net);
            let mut source = Buffer::new(&a.net, send, pattern(3, 5000));
            let mut sink = Buffer::new(&b.net, recv, vec![0; 5000]);
            for _ in 0..3 {
                let s = isend(&a.net, send, &mut source, 0, 5000);
                let r = irecv(&b.net, recv, &mut sink, 0, 5000);
                finish(&a.net, s, &b.net, r);
            }
            source.free(&a.net, send);
            sink.free(&b.net, recv);
            let start = Instant::now();
            if first {
                a.net.close_send(send).unwrap();
                b.net.close_recv(recv).unwrap();
            } else {
                b.net.close_recv(recv).unwrap();
                a.net.close_send(send).unwrap();
            }
            assert!(start.elapsed() < Duration::from_millis(900), "close waited");
        }
        let start = Instant::now();
        drop(a);
        drop(b);
        assert!(
            start.elapsed() < Duration::from_secs(10),
            "{ours} {theirs}: {:?}",
            start.elapsed()
        );
    }
}

#[test]
fn close_messages_of_either_side_hold_up_nobody() {
    in_one_process("close_messages_of_either_side_hold_up_nobody", handshake);
}

fn rails() {
    let (a, b) = (Side::new(config(4)), Side::new(config(4)));
    let (send, recv) = connect(&a.net, &b.net);
    let mut source = Buffer::new(&a.net, send, pattern(3, 1 << 20));
    let mut sink = Buffer::new(&b.net, recv, vec![0; 1 << 20]);
    let received = irecv(&b.net, recv, &mut sink, 0, 1 << 20);
    let sent = isend(&a.net, send, &mut source, 0, 1 << 20);
    let (mut first, mut second) = (None, None);
    let (s, r) = until("a send and its receive", || {
        first = first.or_else(|| a.net.test_done(sent).unwrap());
        second = second.or_else(|| b.net.test_done(received).unwrap());
        first.zip(second)
    });
    let all = Rails::from_bits(0b1111);
    assert_eq!((s.bytes, s.rails), (1 << 20, all));
    assert_eq!((r.bytes, r.rails), (1 << 20, all));
    source.free(&a.net, send);
    sink.free(&b.net, recv);
    a.net.close_send(send).unwrap();
    b.net.close_recv(recv).unwrap();
}

#[test]
fn a_striped_message_names_its_rails_on_both_sides() {
    in_one_process("a_striped_message_names_its_rails_on_both_sides", rails);
}
