//! Messages between two transports of one process, over every provider: each byte is looked at.
#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use common::{Buffer, Side, config, connect, finish, irecv, isend, on_each_provider, pattern};

/// Sends one message of `sent` bytes to a receive of `room`, receive first or send first.
fn exchange(a: &Side, b: &Side, comms: (ofi_net::CommWord, ofi_net::CommWord), case: Case) {
    let Case {
        seed,
        sent,
        room,
        recv_first,
    } = case;
    let (send, recv) = comms;
    let mut source = Buffer::new(&a.net, send, pattern(seed, sent.max(1)));
    let mut sink = Buffer::new(&b.net, recv, vec![0xAA; room + 64]);
    let (s, r) = if recv_first {
        let r = irecv(&b.net, recv, &mut sink, 32, room);
        (isend(&a.net, send, &mut source, 0, sent), r)
    } else {
        let s = isend(&a.net, send, &mut source, 0, sent);
        (s, irecv(&b.net, recv, &mut sink, 32, room))
    };
    let moved = sent.min(room);
    let sizes = finish(&a.net, s, &b.net, r);
    assert_eq!(sizes, (moved as u64, moved as u64), "{case:?}");
    let source = source.free(&a.net, send);
    let sink = sink.free(&b.net, recv);
    assert!(
        sink[32..32 + moved] == source[..moved],
        "wrong bytes: {case:?}"
    );
    let guards = sink[..32].iter().chain(&sink[32 + moved..]);
    assert!(
        guards.copied().all(|byte| byte == 0xAA),
        "written outside: {case:?}"
    );
}

#[derive(Clone, Copy, Debug)]
struct Case {
    seed: usize,
    sent: usize,
    room: usize,
    recv_first: bool,
}

const SIZES: [usize; 17] = [
    0,
    1,
    31,
    64,
    65,
    127,
    1000,
    4096,
    8192,
    8193,
    65_536,
    65_537,
    131_073,
    200_000,
    262_145,
    1 << 20,
    4 << 20,
];

fn sizes_over(rails: u8) {
    let (a, b) = (Side::new(config(rails)), Side::new(config(rails)));
    let comms = connect(&a.net, &b.net);
    for (seed, &size) in SIZES.iter().enumerate() {
        for recv_first in [true, false] {
            exchange(
                &a,
                &b,
                comms,
                Case {
                    seed,
                    sent: size,
                    room: size,
                    recv_first,
                },
            );
        }
    }
    a.net.close_send(comms.0).unwrap();
    b.net.close_recv(comms.1).unwrap();
}

#[test]
fn every_size_over_one_rail() {
    on_each_provider("every_size_over_one_rail", || sizes_over(1));
}

#[test]
fn every_size_over_two_rails() {
    on_each_provider("every_size_over_two_rails", || sizes_over(2));
}

#[test]
fn every_size_over_four_rails() {
    on_each_provider("every_size_over_four_rails", || sizes_over(4));
}
