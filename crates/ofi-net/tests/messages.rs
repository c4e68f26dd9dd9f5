//! Messages between two transports of one process, over every provider: each byte is looked at.
#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use common::{
    Buffer, Side, config, connect, end_quietly, finish, in_one_process, irecv, isend, pattern,
    until, wait, with_keys_of_ours,
};
use ofi_net::{Code, CommWord, Config, MemoryKind};

/// Sends one message of `sent` bytes to a receive of `room`, receive first or send first.
fn exchange(a: &Side, b: &Side, comms: (CommWord, CommWord), case: Case) {
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
    end_quietly((a, b));
}

#[test]
fn every_size_over_one_rail() {
    in_one_process("every_size_over_one_rail", || sizes_over(1));
}

#[test]
fn every_size_over_two_rails() {
    in_one_process("every_size_over_two_rails", || sizes_over(2));
}

#[test]
fn every_size_over_four_rails() {
    in_one_process("every_size_over_four_rails", || sizes_over(4));
}

/// A message longer than the receive is cut on both sides, a shorter one fills a part (2e.6).
fn truncation() {
    let (a, b) = (Side::new(config(2)), Side::new(config(2)));
    let comms = connect(&a.net, &b.net);
    let pairs = [
        (2 << 20, 1 << 20),
        (1 << 20, 2 << 20),
        (5000, 4096),
        (4096, 5000),
        (100, 0),
        (0, 100),
    ];
    for (seed, (sent, room)) in pairs.into_iter().enumerate() {
        for recv_first in [true, false] {
            exchange(
                &a,
                &b,
                comms,
                Case {
                    seed,
                    sent,
                    room,
                    recv_first,
                },
            );
        }
    }
}

#[test]
fn messages_are_cut_on_either_side() {
    in_one_process("messages_are_cut_on_either_side", truncation);
}

/// Receives first, or sends first, by turns; the 10-bit sequence wraps twice.
fn wrap() {
    let (a, b) = (Side::new(config(1)), Side::new(config(1)));
    let (send, recv) = connect(&a.net, &b.net);
    let mut source = Buffer::new(&a.net, send, pattern(5, 4096));
    let mut sink = Buffer::new(&b.net, recv, vec![0; 4096]);
    for n in 0..2200 {
        let len = (n * 37) % 4096;
        let (s, r) = if n % 3 == 0 {
            let s = isend(&a.net, send, &mut source, 0, len);
            (s, irecv(&b.net, recv, &mut sink, 0, len))
        } else {
            let r = irecv(&b.net, recv, &mut sink, 0, len);
            (isend(&a.net, send, &mut source, 0, len), r)
        };
        assert_eq!(
            finish(&a.net, s, &b.net, r),
            (len as u64, len as u64),
            "message {n}"
        );
        assert!(sink.bytes[..len] == source.bytes[..len], "message {n}");
        sink.bytes.fill(0);
    }
}

#[test]
fn sequences_wrap() {
    in_one_process("sequences_wrap", wrap);
}

/// 128 in flight, and the next is "not now", not an error (decision 10); all arrive.
fn full_window(eager_max: Option<u32>) {
    let config = || Config {
        eager_max,
        ..config(2)
    };
    let (a, b) = (Side::new(config()), Side::new(config()));
    let (send, recv) = connect(&a.net, &b.net);
    let mut source = Buffer::new(&a.net, send, pattern(9, 128 * 512));
    let mut sink = Buffer::new(&b.net, recv, vec![0; 128 * 512]);
    let sends: Vec<_> = (0..128)
        .map(|n| isend(&a.net, send, &mut source, n * 512, 512))
        .collect();
    let (start, mr) = (source.at(0), source.mr);
    for _ in 0..1000 {
        // SAFETY: the buffer lives as long as the transport.
        let more = unsafe { a.net.isend(send, start, 512, Some(mr)) }.unwrap();
        assert_eq!(more, None, "a 129th send");
    }
    let recvs: Vec<_> = (0..128)
        .map(|n| irecv(&b.net, recv, &mut sink, n * 512, 512))
        .collect();
    let (start, mr) = (sink.at(0), sink.mr);
    // SAFETY: as above.
    let more = unsafe { b.net.irecv(recv, start, 512, Some(mr), false) }.unwrap();
    assert_eq!(more, None, "a 129th receive");
    let (mut left_a, mut left_b) = (sends, recvs);
    until("128 messages", || {
        left_a.retain(|&request| a.net.test(request).unwrap().is_none());
        left_b.retain(|&request| b.net.test(request).unwrap().is_none());
        (left_a.is_empty() && left_b.is_empty()).then_some(())
    });
    assert!(source.bytes == sink.bytes);
}

#[test]
fn a_full_window_of_eager_messages_is_back_pressure() {
    in_one_process("a_full_window_of_eager_messages_is_back_pressure", || {
        full_window(Some(8192));
    });
}

#[test]
fn a_full_window_of_rendezvous_messages_is_back_pressure() {
    in_one_process(
        "a_full_window_of_rendezvous_messages_is_back_pressure",
        || full_window(None),
    );
}

/// More unread eager messages than buffers are posted, on one communicator; another one still works
/// (2k.4).
fn unread() {
    let config = || Config {
        posted_eager: (4, 8),
        ..config(1)
    };
    let (a, b) = (Side::new(config()), Side::new(config()));
    let first = connect(&a.net, &b.net);
    let second = connect(&a.net, &b.net);
    let mut source = Buffer::new(&a.net, first.0, pattern(3, 128 * 64));
    let sends: Vec<_> = (0..128)
        .map(|n| isend(&a.net, first.0, &mut source, n * 64, 64))
        .collect();
    for seed in 0..20 {
        exchange(
            &a,
            &b,
            second,
            Case {
                seed,
                sent: 3000,
                room: 3000,
                recv_first: false,
            },
        );
    }
    let mut sink = Buffer::new(&b.net, first.1, vec![0; 128 * 64]);
    for (n, s) in sends.into_iter().enumerate() {
        let r = irecv(&b.net, first.1, &mut sink, n * 64, 64);
        assert_eq!(finish(&a.net, s, &b.net, r), (64, 64), "message {n}");
    }
    assert!(source.bytes == sink.bytes);
}

#[test]
fn unread_eager_data_starves_nobody() {
    in_one_process("unread_eager_data_starves_nobody", unread);
}

fn flushes() {
    let (a, b) = (Side::new(config(4)), Side::new(config(4)));
    let (send, recv) = connect(&a.net, &b.net);
    let mut sink = Buffer::new(&b.net, recv, vec![1; 4096]);
    let (start, mr) = (sink.at(8), sink.mr);
    for _ in 0..50 {
        // SAFETY: the buffer lives as long as the transport.
        let request = unsafe { b.net.iflush(recv, start, 100, mr) }.unwrap();
        assert_eq!(wait(&b.net, request.unwrap()), 0);
    }
    // SAFETY: as above.
    let nothing = unsafe { b.net.iflush(recv, start, 0, mr) }.unwrap();
    assert_eq!(nothing, None, "no bytes, no request");
    assert!(sink.bytes.iter().all(|&byte| byte == 1), "a flush reads");
    b.net.close_recv(recv).unwrap();
    // SAFETY: as above.
    let late = unsafe { b.net.iflush(recv, start, 100, mr) }.unwrap_err();
    assert_eq!(late.code(), Code::StaleComm);
    a.net.close_send(send).unwrap();
}

/// A flush reads four bytes, and the message it is for may be shorter and end where the region ends.
fn flushes_at_the_end() {
    const PAGE: usize = 4096;
    let (a, b) = (Side::new(config(2)), Side::new(config(2)));
    let (send, recv) = connect(&a.net, &b.net);
    let mut memory = vec![1_u8; 3 * PAGE];
    let lead = memory.as_ptr().align_offset(PAGE);
    let page = memory.as_mut_ptr().wrapping_add(lead);
    // SAFETY: the page lies in `memory`, which outlives the registration.
    let mr = unsafe { b.net.reg_mr(recv, page.cast(), PAGE, MemoryKind::Host) }.unwrap();
    for bytes in 1..=5 {
        let tail = page.wrapping_add(PAGE - bytes);
        // SAFETY: as above.
        let request = unsafe { b.net.iflush(recv, tail.cast(), bytes, mr) }.unwrap();
        assert_eq!(wait(&b.net, request.unwrap()), 0, "the last {bytes} bytes");
    }
    b.net.dereg_mr(recv, mr).unwrap();
    b.net.close_recv(recv).unwrap();
    a.net.close_send(send).unwrap();
    drop((a, b));
    assert!(memory.iter().all(|&byte| byte == 1), "a flush reads");
}

#[test]
fn the_last_bytes_of_a_region_are_flushed() {
    in_one_process("the_last_bytes_of_a_region_are_flushed", flushes_at_the_end);
}

#[test]
fn flushes_complete_on_every_rail() {
    in_one_process("flushes_complete_on_every_rail", flushes);
}

/// A transport connected to itself: one domain, both ends.
fn to_itself() {
    let side = Side::new(config(2));
    let comms = connect(&side.net, &side.net);
    for (seed, size) in [0, 10, 8192, 100_000, 1 << 20].into_iter().enumerate() {
        exchange(
            &side,
            &side,
            comms,
            Case {
                seed,
                sent: size,
                room: size,
                recv_first: seed % 2 == 0,
            },
        );
    }
}

#[test]
fn a_device_talks_to_itself() {
    in_one_process("a_device_talks_to_itself", to_itself);
}

/// With the registration cache: one region for equal ranges, still there while one user is left.
fn cached() {
    let config = || Config {
        mr_cache: true,
        ..config(2)
    };
    let (a, b) = (Side::new(config()), Side::new(config()));
    let comms = connect(&a.net, &b.net);
    let bytes = pattern(1, 100_000);
    let (start, len) = (bytes.as_ptr().cast_mut().cast(), bytes.len());
    let register = || {
        // SAFETY: the bytes live to the end of this function.
        unsafe { a.net.reg_mr(comms.0, start, len, MemoryKind::Host) }.unwrap()
    };
    let (first, second) = (register(), register());
    assert_eq!(first, second, "the same range is registered once");
    a.net.dereg_mr(comms.0, first).unwrap();
    let mut source = Buffer {
        bytes: core::mem::ManuallyDrop::new(bytes),
        mr: second,
    };
    let mut sink = Buffer::new(&b.net, comms.1, vec![0; 100_000]);
    let r = irecv(&b.net, comms.1, &mut sink, 0, 100_000);
    let s = isend(&a.net, comms.0, &mut source, 0, 100_000);
    assert_eq!(finish(&a.net, s, &b.net, r), (100_000, 100_000));
    assert!(source.bytes == sink.bytes);
    a.net.dereg_mr(comms.0, second).unwrap();
    let twice = a.net.dereg_mr(comms.0, second).unwrap_err();
    assert_eq!(twice.code(), Code::StaleRegion);
}

#[test]
fn the_cache_registers_once() {
    in_one_process("the_cache_registers_once", cached);
}

/// Offsets and keys of our own, where the provider offers those: in CTRL, in eager copies, in flushes.
fn offsets() {
    let config = || Config {
        provider_addressing: true,
        ..config(2)
    };
    let (a, b) = (Side::new(config()), Side::new(config()));
    let told = a.log.at(ofi_net::log::Level::Info).join("\n");
    let shm = told.contains("provider shm");
    assert!(shm || told.contains("offsets, own keys"), "{told}");
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
    // Somewhere inside of a region, whose start is not that of a page.
    let mut source = Buffer::new(&a.net, comms.0, pattern(8, 300_000));
    let mut sink = Buffer::new(&b.net, comms.1, vec![0; 300_000]);
    let r = irecv(&b.net, comms.1, &mut sink, 12_345, 200_000);
    let s = isend(&a.net, comms.0, &mut source, 777, 200_000);
    assert_eq!(finish(&a.net, s, &b.net, r), (200_000, 200_000));
    assert!(sink.bytes[12_345..212_345] == source.bytes[777..200_777]);
    let (start, mr) = (sink.at(12_345), sink.mr);
    // SAFETY: the buffer is kept for good.
    let flush = unsafe { b.net.iflush(comms.1, start, 200_000, mr) }.unwrap();
    assert_eq!(wait(&b.net, flush.unwrap()), 0);
}

#[test]
fn offsets_and_own_keys_work() {
    with_keys_of_ours("offsets_and_own_keys_work", offsets);
}
