//! Messages at the borders: sizes around every limit, no bytes and no buffer, bursts a turn of the sequence
//! numbers apart, a close right after a flush.
#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use common::{
    Buffer, Side, config, connect, finish, in_one_process, irecv, isend, pattern, sendrecv, until,
    wait,
};
use core::ptr::null_mut;
use core::time::Duration;
use ofi_net::log::Level;
use ofi_net::{CommWord, Config, Protocol, ReqWord};
use std::time::Instant;

/// Limits of providers and of ours, in bytes: immediates and headers, cache lines, inject and inline
/// sizes, pages, eager messages, stripes, buffers of rxm.
const BORDERS: [usize; 13] = [
    1,
    64,
    128,
    192,
    256,
    264,
    4096,
    8192,
    16_384,
    65_536,
    131_072,
    262_144,
    1 << 20,
];

fn around_borders(config: &Config) {
    let (a, b) = (Side::new(config.clone()), Side::new(config.clone()));
    let (send, recv) = connect(&a.net, &b.net);
    let longest = BORDERS[BORDERS.len() - 1] + 1;
    let mut source = Buffer::new(&a.net, send, pattern(3, longest));
    let mut sink = Buffer::new(&b.net, recv, vec![0; longest + 64]);
    let sizes = BORDERS.iter().flat_map(|&size| size - 1..=size + 1);
    for size in sizes {
        for recv_first in [true, false] {
            sink.bytes[..size + 64].fill(0xAA);
            let (s, r) = if recv_first {
                let r = irecv(&b.net, recv, &mut sink, 0, size);
                (isend(&a.net, send, &mut source, 0, size), r)
            } else {
                let s = isend(&a.net, send, &mut source, 0, size);
                (s, irecv(&b.net, recv, &mut sink, 0, size))
            };
            let sizes = finish(&a.net, s, &b.net, r);
            assert_eq!(sizes, (size as u64, size as u64));
            assert!(sink.bytes[..size] == source.bytes[..size], "{size} bytes");
            let behind = &sink.bytes[size..size + 64];
            assert!(behind.iter().all(|&byte| byte == 0xAA), "{size} bytes");
        }
    }
}

#[test]
fn sizes_around_every_border_arrive() {
    in_one_process("sizes_around_every_border_arrive", || {
        around_borders(&config(1));
        around_borders(&config(4));
        around_borders(&sendrecv());
    });
}

/// Starts an operation without buffer and region.
fn nothing(side: &Side, comm: CommWord, is_send: bool) -> ReqWord {
    until("no bytes", || {
        let (net, none) = (&side.net, null_mut());
        let started = if is_send {
            // SAFETY: no bytes: nothing is read.
            unsafe { net.isend(comm, none, 0, None) }
        } else {
            // SAFETY: no bytes: nothing is written.
            unsafe { net.irecv(comm, none, 0, None, false) }
        };
        started.unwrap()
    })
}

/// Messages of no bytes, with no buffer at all, between large ones, receive first and send first.
fn no_bytes(config: &Config) {
    let (a, b) = (Side::new(config.clone()), Side::new(config.clone()));
    let (send, recv) = connect(&a.net, &b.net);
    let mut source = Buffer::new(&a.net, send, pattern(3, 200_000));
    let mut sink = Buffer::new(&b.net, recv, vec![0; 200_000]);
    for round in 0..40 {
        let (s, r) = match round % 4 {
            0 => {
                let r = nothing(&b, recv, false);
                (nothing(&a, send, true), r)
            }
            1 | 3 => {
                let r = irecv(&b.net, recv, &mut sink, 0, 200_000);
                (isend(&a.net, send, &mut source, 0, 200_000), r)
            }
            _ => {
                let s = nothing(&a, send, true);
                (s, nothing(&b, recv, false))
            }
        };
        let size = if round % 2 == 0 { 0 } else { 200_000 };
        assert_eq!(finish(&a.net, s, &b.net, r), (size, size), "round {round}");
        assert!(round % 2 == 0 || sink.bytes == source.bytes);
        sink.bytes.fill(0);
    }
}

#[test]
fn messages_of_no_bytes_need_no_buffer() {
    in_one_process("messages_of_no_bytes_need_no_buffer", || {
        for rails in [1, 2, 3, 4] {
            no_bytes(&config(rails));
        }
        no_bytes(&sendrecv());
    });
}

/// Bursts of eager messages whose first numbers are a turn of the 10 bits apart, one less, one more; what
/// lies between goes by writes.
fn bursts() {
    let (a, b) = (Side::new(config(2)), Side::new(config(2)));
    let (send, recv) = connect(&a.net, &b.net);
    let mut source = Buffer::new(&a.net, send, pattern(3, 128 * 64));
    let mut sink = Buffer::new(&b.net, recv, vec![0; 128 * 64]);
    for apart in [1023, 1024, 1025] {
        for _ in 0..2 {
            sink.bytes.fill(0);
            let burst = 16;
            let sends: Vec<_> = (0..burst)
                .map(|n| isend(&a.net, send, &mut source, n * 64, n + 1))
                .collect();
            for (n, s) in sends.into_iter().enumerate() {
                let r = irecv(&b.net, recv, &mut sink, n * 64, 64);
                let size = n as u64 + 1;
                assert_eq!(finish(&a.net, s, &b.net, r), (size, size), "{apart} apart");
                let (got, sent) = (&sink.bytes[n * 64..], &source.bytes[n * 64..]);
                assert!(got[..=n] == sent[..=n] && got[n + 1] == 0, "{apart} apart");
            }
            for n in burst..apart {
                let r = irecv(&b.net, recv, &mut sink, 0, 200);
                let s = isend(&a.net, send, &mut source, n % 64, 200);
                assert_eq!(finish(&a.net, s, &b.net, r), (200, 200));
                assert!(sink.bytes[..200] == source.bytes[n % 64..n % 64 + 200]);
            }
        }
    }
}

#[test]
fn bursts_a_turn_of_the_sequence_apart_are_not_mixed_up() {
    in_one_process(
        "bursts_a_turn_of_the_sequence_apart_are_not_mixed_up",
        bursts,
    );
}

/// Receive, flush, close at once, again and again: nothing fails, nothing is said.
fn close_after_flush(config: &Config) {
    let (a, b) = (Side::new(config.clone()), Side::new(config.clone()));
    for round in 0..100 {
        let (send, recv) = connect(&a.net, &b.net);
        let mut source = Buffer::new(&a.net, send, pattern(round, 5000));
        let mut sink = Buffer::new(&b.net, recv, vec![0; 5000]);
        let r = irecv(&b.net, recv, &mut sink, 0, 5000);
        let s = isend(&a.net, send, &mut source, 0, 5000);
        assert_eq!(finish(&a.net, s, &b.net, r), (5000, 5000));
        let (start, mr) = (sink.at(0), sink.mr);
        // SAFETY: the buffer lives until its region is deregistered below.
        let flush = unsafe { b.net.iflush(recv, start, 5000, mr) }.unwrap();
        // Tested to its end, or closed in the middle of it.
        if let Some(flush) = flush.filter(|_| round % 3 != 0) {
            wait(&b.net, flush);
        }
        let start = Instant::now();
        if round % 2 == 0 {
            b.net.close_recv(recv).unwrap();
            // Named by another communicator of the domain.
            sink.free(&b.net, b.spare());
        } else {
            sink.free(&b.net, recv);
            b.net.close_recv(recv).unwrap();
        }
        let took = start.elapsed();
        assert!(took < Duration::from_secs(4), "it was waited for: {took:?}");
        source.free(&a.net, send);
        a.net.close_send(send).unwrap();
    }
    for side in [&a, &b] {
        assert_eq!(side.log.at(Level::Warn), Vec::<String>::new());
    }
}

#[test]
fn a_close_right_after_a_flush_fails_nothing() {
    in_one_process("a_close_right_after_a_flush_fails_nothing", || {
        close_after_flush(&config(2));
        close_after_flush(&sendrecv());
    });
}

/// rxm, told to write instead of reading: by itself it completed receives too early in some versions. Here
/// its messages are ours, all of them.
fn rendezvous_by_writes() {
    // SAFETY: libfabric is not loaded yet, and the other thread of the test waits for this one.
    unsafe { std::env::set_var("FI_OFI_RXM_USE_RNDV_WRITE", "1") };
    let (a, b) = (Side::new(sendrecv()), Side::new(sendrecv()));
    assert_eq!(a.net.protocol(), Protocol::SendRecv);
    let (send, recv) = connect(&a.net, &b.net);
    let mut source = Buffer::new(&a.net, send, pattern(3, 16 << 20));
    let mut sink = Buffer::new(&b.net, recv, vec![0; 16 << 20]);
    for size in [1 << 20, 3 << 20, 16 << 20] {
        for round in 0..4 {
            sink.bytes[..size].fill(0);
            let r = irecv(&b.net, recv, &mut sink, 0, size);
            let s = isend(&a.net, send, &mut source, 0, size);
            assert_eq!(wait_for_receive(&a, &b, s, r), size as u64);
            let is_whole = sink.bytes[..size] == source.bytes[..size];
            assert!(is_whole, "{size} bytes, round {round}");
        }
    }
}

/// The receive is looked at the moment it is done, whatever the send does.
fn wait_for_receive(a: &Side, b: &Side, s: ReqWord, r: ReqWord) -> u64 {
    let mut sent = None;
    let size = until("the receive", || {
        sent = sent.or_else(|| a.net.test(s).unwrap());
        b.net.test(r).unwrap()
    });
    until("the send", || sent.or_else(|| a.net.test(s).unwrap()));
    size
}

#[test]
fn rxm_that_writes_completes_when_the_bytes_are_there() {
    let name = "rxm_that_writes_completes_when_the_bytes_are_there";
    common::on_providers(
        name,
        |provider| provider.contains("ofi_rxm"),
        || {
            rendezvous_by_writes();
        },
    );
}
