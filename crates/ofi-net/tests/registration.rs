//! Registering memory: keys of our own, the cache, units of pages, large regions, dma-buf, kinds of
//! memory, and what deregistration waits for (protocol 2g, traps 22, 23, 32).
#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use common::{
    Buffer, Side, config, connect, finish, in_one_process, irecv, irecv_into, isend, pattern, say,
    sendrecv, until, wait, with_keys_of_ours,
};
use core::ffi::c_void;
use core::time::Duration;
use ofi_net::params::Flavour;
use ofi_net::{Code, CommWord, Config, DmaBuf, MemoryKind, MrWord, NetError, Transport};
use std::time::Instant;

/// Registers bytes that outlive the process.
fn register(
    net: &Transport,
    comm: CommWord,
    at: *mut c_void,
    len: usize,
) -> Result<MrWord, NetError> {
    // SAFETY: the tests leak what they register.
    unsafe { net.reg_mr(comm, at, len, MemoryKind::Host) }
}

/// Leaked bytes whose address is a multiple of 64 KiB.
fn aligned(len: usize) -> *mut u8 {
    const ALIGN: usize = 64 << 10;
    let bytes = vec![0_u8; len + ALIGN].leak();
    let skip = bytes.as_ptr().align_offset(ALIGN);
    bytes[skip..].as_mut_ptr()
}

/// Where keys are ours: 256 of one byte, those of our own buffers among them.
#[test]
fn own_keys_run_out_with_a_code_and_come_back() {
    with_keys_of_ours("own_keys_run_out_with_a_code_and_come_back", || {
        let few = Config {
            provider_addressing: true,
            mr_key_size: 1,
            ..config(2)
        };
        let (a, b) = (Side::new(few.clone()), Side::new(few));
        let (send, recv) = connect(&a.net, &b.net);
        let at = aligned(4096).cast();
        let mut held = Vec::new();
        let refused = loop {
            assert!(held.len() <= 256, "more keys than there are");
            match register(&a.net, send, at, 64) {
                Ok(mr) => held.push(mr),
                Err(error) => break error,
            }
        };
        if refused.code() != Code::OutOfKeys {
            // shm names regions by keys of its own in either mode.
            return say(&format!("skipped: the provider chooses keys: {refused}"));
        }
        assert_eq!(refused.errno(), -libc::ENOMEM);
        assert!(refused.to_string().contains("OFI_NCCL_MR_KEY_SIZE"));
        let keys: std::collections::HashSet<u64> =
            held.iter().map(|&mr| a.net.mr_key(mr).unwrap()).collect();
        assert_eq!(keys.len(), held.len(), "one key each");
        a.net.dereg_mr(send, held.pop().unwrap()).unwrap();
        let mut source = Buffer::new(&a.net, send, pattern(1, 100_000));
        let mut sink = Buffer::new(&b.net, recv, vec![0; 100_000]);
        let received = irecv(&b.net, recv, &mut sink, 0, 100_000);
        let sent = isend(&a.net, send, &mut source, 0, 100_000);
        finish(&a.net, sent, &b.net, received);
        source.free(&a.net, send);
        assert!(sink.free(&b.net, recv) == pattern(1, 100_000));
        for mr in held {
            a.net.dereg_mr(send, mr).unwrap();
        }
    });
}

/// The Neuron plugin registers anew each time, the other one finds what covers the range.
#[test]
fn the_cache_finds_what_is_covered_and_is_off_for_neuron() {
    in_one_process(
        "the_cache_finds_what_is_covered_and_is_off_for_neuron",
        || {
            for flavour in [Flavour::Neuron, Flavour::Nccl] {
                let defaults = Config::new(flavour);
                let cached = Config {
                    mr_cache: defaults.mr_cache,
                    ..config(1)
                };
                let (a, b) = (Side::new(cached), Side::new(config(1)));
                let (send, _) = connect(&a.net, &b.net);
                let at = aligned(1 << 16);
                let whole = register(&a.net, send, at.cast(), 1 << 16).unwrap();
                let part = register(&a.net, send, at.wrapping_add(5000).cast(), 100).unwrap();
                assert_eq!(whole == part, flavour == Flavour::Nccl);
                a.net.dereg_mr(send, part).unwrap();
                a.net.mr_key(whole).expect("the other reference holds it");
                a.net.dereg_mr(send, whole).unwrap();
                assert_eq!(a.net.mr_key(whole).unwrap_err().code(), Code::StaleRegion);
            }
        },
    );
}

/// SENDRECV as well: what is found is one registration, which serves until it was deregistered as often as
/// it was registered; without the cache each is its own.
fn cached_over_sendrecv() {
    const LEN: usize = 100_000;
    for flavour in [Flavour::Neuron, Flavour::Nccl] {
        let cached = Config {
            mr_cache: Config::new(flavour).mr_cache,
            ..sendrecv()
        };
        let (a, b) = (Side::new(cached.clone()), Side::new(cached));
        let (send, recv) = connect(&a.net, &b.net);
        let source = pattern(1, LEN).leak().as_mut_ptr();
        let first = register(&a.net, send, source.cast(), LEN).unwrap();
        let again = register(&a.net, send, source.cast(), LEN).unwrap();
        let part = register(&a.net, send, source.wrapping_add(5000).cast(), 100).unwrap();
        let is_one = flavour == Flavour::Nccl;
        assert_eq!((first == again, first == part), (is_one, is_one));
        a.net.dereg_mr(send, first).unwrap();
        a.net.dereg_mr(send, part).unwrap();
        let sink = vec![0_u8; LEN].leak();
        let whole = register(&b.net, recv, sink.as_mut_ptr().cast(), LEN).unwrap();
        let received = irecv_into(&b.net, recv, (sink.as_mut_ptr().cast(), LEN), whole);
        // SAFETY: leaked bytes; the last registration of them is open.
        let sent = until("isend", || unsafe {
            a.net.isend(send, source.cast(), LEN, Some(again)).unwrap()
        });
        let sizes = finish(&a.net, sent, &b.net, received);
        assert_eq!(sizes, (LEN as u64, LEN as u64));
        assert!(*sink == *pattern(1, LEN));
        a.net.dereg_mr(send, again).unwrap();
        for mr in [first, again, part] {
            let stale = a.net.dereg_mr(send, mr).unwrap_err();
            assert_eq!(stale.code(), Code::StaleRegion);
            // SAFETY: leaked bytes.
            let stale = unsafe { a.net.isend(send, source.cast(), 64, Some(mr)) };
            assert_eq!(stale.unwrap_err().code(), Code::StaleRegion);
        }
        let anew = register(&a.net, send, source.cast(), LEN).unwrap();
        assert_ne!(anew, again, "closed with its last user, and not kept");
        a.net.dereg_mr(send, anew).unwrap();
    }
}

#[test]
fn over_sendrecv_the_cache_registers_once_and_is_off_for_neuron() {
    in_one_process(
        "over_sendrecv_the_cache_registers_once_and_is_off_for_neuron",
        cached_over_sendrecv,
    );
}

/// On a system with pages of 64 KiB, two buffers in one of them are two regions, cached or not: the unit
/// of the cache is that of registrations.
#[test]
fn trap_22_buffers_in_one_large_page_are_two_regions() {
    in_one_process("trap_22_buffers_in_one_large_page_are_two_regions", || {
        for page in [4096, 64 << 10] {
            let cached = Config {
                mr_cache: true,
                page_bytes: Some(page),
                ..config(1)
            };
            let (a, b) = (Side::new(cached.clone()), Side::new(cached));
            let (send, recv) = connect(&a.net, &b.net);
            let (from, to) = (aligned(1 << 16), aligned(1 << 16));
            let words = |net: &Transport, comm, at: *mut u8| {
                let low = register(net, comm, at.cast(), 4096).unwrap();
                let high = register(net, comm, at.wrapping_add(8192).cast(), 4096).unwrap();
                assert_ne!(low, high, "pages of {page}");
                [low, high]
            };
            let sources = words(&a.net, send, from);
            let sinks = words(&b.net, recv, to);
            for (part, (source, sink)) in sources.into_iter().zip(sinks).enumerate() {
                let (from, to) = (from.wrapping_add(part * 8192), to.wrapping_add(part * 8192));
                let received = irecv_into(&b.net, recv, (to.cast(), 4096), sink);
                // SAFETY: leaked bytes, that nobody else uses.
                let sent = unsafe { a.net.isend(send, from.cast(), 4096, Some(source)) };
                let sizes = finish(&a.net, sent.unwrap().unwrap(), &b.net, received);
                assert_eq!(sizes, (4096, 4096));
            }
        }
    });
}

/// Memory of a device is registered exactly as given, never through the cache; a provider that cannot
/// says so with one code, whether it lacks `FI_HMEM` or the one interface.
#[test]
fn trap_23_device_memory_is_refused_where_it_cannot_be_used() {
    in_one_process(
        "trap_23_device_memory_is_refused_where_it_cannot_be_used",
        || {
            let cached = Config {
                mr_cache: true,
                ..config(2)
            };
            let (a, b) = (Side::new(cached), Side::new(config(2)));
            let (send, _) = connect(&a.net, &b.net);
            let at = aligned(4096).cast();
            // SAFETY: leaked bytes.
            let answer = unsafe { a.net.reg_mr(send, at, 100, MemoryKind::Neuron) };
            if std::env::var("FI_PROVIDER").as_deref() == Ok("efa") {
                // It can be used there; the emulated one believes what it is told.
                return a.net.dereg_mr(send, answer.unwrap()).unwrap();
            }
            let refused = answer.unwrap_err();
            assert_eq!(refused.code(), Code::MemoryKind, "{refused}");
            let mr = register(&a.net, send, at, 100).expect("nothing is left behind");
            a.net.dereg_mr(send, mr).unwrap();
        },
    );
}

/// The reason is named; nothing is left behind.
#[test]
fn dma_buf_is_refused_with_the_reason() {
    in_one_process("dma_buf_is_refused_with_the_reason", || {
        let off = Config {
            dmabuf: false,
            ..config(1)
        };
        for (config, reason) in [(config(1), None), (off, Some("OFI_NCCL_DISABLE_DMABUF"))] {
            let (a, b) = (Side::new(config.clone()), Side::new(config));
            assert!(!a.net.properties(0).unwrap().dmabuf, "no NIC");
            let (send, _) = connect(&a.net, &b.net);
            let at = aligned(8192).cast();
            let dmabuf = |offset| DmaBuf { fd: 0, offset };
            // SAFETY: leaked bytes; what is no dma-buf is not registered.
            let refused = unsafe {
                a.net
                    .reg_mr_dmabuf(send, at, 4096, MemoryKind::Host, dmabuf(0))
            };
            let text = refused
                .as_ref()
                .map_or_else(ToString::to_string, |mr| format!("{mr:?}"));
            say(&text);
            match (refused, reason) {
                (Err(error), Some(reason)) => {
                    assert_eq!(error.code(), Code::DmaBuf);
                    assert!(error.to_string().contains(reason), "{error}");
                }
                (Err(error), None) => {
                    assert!(
                        [Code::DmaBuf, Code::Register].contains(&error.code()),
                        "{error}"
                    );
                }
                // tcp and shm from 1.20 on take the address and never look at the file.
                (Ok(mr), None) => a.net.dereg_mr(send, mr).unwrap(),
                (Ok(_), Some(reason)) => panic!("registered in spite of {reason}"),
            }
            // SAFETY: nothing is registered.
            let far = unsafe {
                a.net
                    .reg_mr_dmabuf(send, at, 4096, MemoryKind::Host, dmabuf(u64::MAX))
            };
            assert_eq!(far.unwrap_err().code(), Code::Register);
            let mr = register(&a.net, send, at, 100).expect("nothing is left behind");
            a.net.dereg_mr(send, mr).unwrap();
        }
    });
}

/// Only the pages that a message touches need memory; the region needs addresses.
#[test]
fn three_gib_are_one_region() {
    in_one_process("three_gib_are_one_region", || {
        const LEN: usize = 3 << 30;
        let map = || {
            let (rw, flags) = (
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            );
            // SAFETY: a new mapping at an address of the kernel's choice (mmap(2)).
            unsafe { libc::mmap(core::ptr::null_mut(), LEN, rw, flags, -1, 0) }
        };
        let (from, to) = (map(), map());
        if from == libc::MAP_FAILED || to == libc::MAP_FAILED {
            return say("skipped: no room for 3 GiB of addresses");
        }
        let (a, b) = (Side::new(config(2)), Side::new(config(2)));
        let (send, recv) = connect(&a.net, &b.net);
        let registered = |net: &Transport, comm, at| match register(net, comm, at, LEN) {
            Err(error) if error.errno() == -libc::ENOMEM => {
                say(&format!("skipped: memory is short: {error}"));
                None
            }
            other => Some(other.unwrap()),
        };
        let Some(source) = registered(&a.net, send, from) else {
            return;
        };
        let Some(sink) = registered(&b.net, recv, to) else {
            return;
        };
        for at in [0, (2 << 30) - 100_000, LEN - 200_000] {
            let bytes = pattern(at, 200_000);
            let from = from.wrapping_byte_add(at);
            let to = to.wrapping_byte_add(at);
            // SAFETY: within the mapping; nothing is in flight.
            unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), from.cast(), bytes.len()) };
            let received = irecv_into(&b.net, recv, (to, 200_000), sink);
            // SAFETY: the mapping stays.
            let sent = until("isend", || unsafe {
                a.net.isend(send, from, 200_000, Some(source)).unwrap()
            });
            let sizes = finish(&a.net, sent, &b.net, received);
            assert_eq!(sizes, (200_000, 200_000));
            let mut arrived = vec![0_u8; bytes.len()];
            // SAFETY: as above; the message has come.
            unsafe { core::ptr::copy_nonoverlapping(to.cast(), arrived.as_mut_ptr(), 200_000) };
            assert!(arrived == bytes, "at {at}");
        }
        a.net.dereg_mr(send, source).unwrap();
        b.net.dereg_mr(recv, sink).unwrap();
    });
}

/// Requests that are done and not tested hold nothing up; one that the peer may still write to does, and
/// gets the progress that it needs.
#[test]
fn deregistration_waits_for_what_can_still_happen_only() {
    in_one_process(
        "deregistration_waits_for_what_can_still_happen_only",
        || {
            let (a, b) = (Side::new(config(1)), Side::new(config(1)));
            let (send, recv) = connect(&a.net, &b.net);
            let mut source = Buffer::new(&a.net, send, pattern(1, 100_000));
            let mut sink = Buffer::new(&b.net, recv, vec![0; 100_000]);
            let received = irecv(&b.net, recv, &mut sink, 0, 100_000);
            let sent = isend(&a.net, send, &mut source, 0, 100_000);
            wait(&b.net, received);
            // Done by now, or done by the progress that deregistration makes; nobody tests it.
            let start = Instant::now();
            source.free(&a.net, send);
            assert!(
                start.elapsed() < Duration::from_secs(3),
                "{:?}",
                start.elapsed()
            );
            assert_eq!(
                a.net.test(sent).unwrap(),
                Some(100_000),
                "its result is kept"
            );
            sink.free(&b.net, recv);
        },
    );
}

/// Trap 32: a handle lives as long as it is not deregistered, whatever communicators come and go.
#[test]
fn trap_32_a_registration_outlives_communicators() {
    in_one_process("trap_32_a_registration_outlives_communicators", || {
        let (a, b) = (Side::new(config(1)), Side::new(config(1)));
        let (send, recv) = connect(&a.net, &b.net);
        let mut source = Buffer::new(&a.net, send, pattern(5, 50_000));
        let key = a.net.mr_key(source.mr).unwrap();
        a.net.close_send(send).unwrap();
        b.net.close_recv(recv).unwrap();
        assert_eq!(a.net.mr_key(source.mr), Ok(key));
        let (send, recv) = connect(&a.net, &b.net);
        let mut sink = Buffer::new(&b.net, recv, vec![0; 50_000]);
        let received = irecv(&b.net, recv, &mut sink, 0, 50_000);
        let sent = isend(&a.net, send, &mut source, 0, 50_000);
        finish(&a.net, sent, &b.net, received);
        source.free(&a.net, send);
        assert!(sink.free(&b.net, recv) == pattern(5, 50_000));
    });
}
