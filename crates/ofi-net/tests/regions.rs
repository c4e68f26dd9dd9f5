//! Regions of callers: very many, the same twice, of few bytes at odd places, of memory that went and came
//! back with other bytes.
#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use common::{
    Buffer, Side, config, connect, finish, in_one_process, irecv, pattern, sendrecv, until,
};
use core::ffi::c_void;
use ofi_net::{Code, CommWord, Config, MemoryKind, MrWord, Protocol};
use std::collections::BTreeSet;

/// Without and with a cache, and the other protocol.
fn kinds() -> [Config; 3] {
    let cached = Config {
        mr_cache: true,
        ..config(2)
    };
    [config(2), cached, sendrecv()]
}

fn register(side: &Side, comm: CommWord, at: *mut c_void, len: usize) -> MrWord {
    // SAFETY: the tests leak or unmap late what they register.
    unsafe { side.net.reg_mr(comm, at, len, MemoryKind::Host) }.unwrap()
}

/// Sends `len` bytes at `from` to `to`.
fn transfer(
    (a, b): (&Side, &Side),
    (send, recv): (CommWord, CommWord),
    (from, mr): (*mut c_void, MrWord),
    sink: &mut Buffer,
    len: usize,
) {
    let r = irecv(&b.net, recv, sink, 0, len);
    let s = until("isend", || {
        // SAFETY: the caller's bytes outlive the request.
        unsafe { a.net.isend(send, from, len, Some(mr)) }.unwrap()
    });
    assert_eq!(finish(&a.net, s, &b.net, r), (len as u64, len as u64));
}

/// A thousand regions at once: each has a key of its own, and all can be used and given back.
fn a_thousand() {
    const COUNT: usize = 1000;
    let (a, b) = (Side::new(config(2)), Side::new(config(2)));
    let comms = connect(&a.net, &b.net);
    let bytes = pattern(3, COUNT * 4096).leak().as_mut_ptr();
    let regions: Vec<_> = (0..COUNT)
        .map(|n| {
            let at = bytes.wrapping_add(n * 4096).cast();
            (at, register(&a, comms.0, at, 4000))
        })
        .collect();
    let keys: BTreeSet<_> = regions
        .iter()
        .map(|&(_, mr)| a.net.mr_key(mr).unwrap())
        .collect();
    assert_eq!(keys.len(), COUNT, "a key each");
    let mut sink = Buffer::new(&b.net, comms.1, vec![0; 4096]);
    for &region in regions.iter().step_by(97) {
        transfer((&a, &b), comms, region, &mut sink, 4000);
    }
    for (_, mr) in regions {
        a.net.dereg_mr(comms.0, mr).unwrap();
    }
}

#[test]
fn a_thousand_regions_have_a_key_each() {
    in_one_process("a_thousand_regions_have_a_key_each", a_thousand);
}

/// One buffer registered twice, given back in either order: while one is left, it can be used; then not.
fn twice() {
    for config in kinds() {
        let is_cached = config.mr_cache;
        let (a, b) = (Side::new(config.clone()), Side::new(config));
        let comms = connect(&a.net, &b.net);
        let mut sink = Buffer::new(&b.net, comms.1, vec![0; 9000]);
        let at = pattern(1, 9000).leak().as_mut_ptr().cast();
        for first_goes in [true, false] {
            let (one, two) = (
                register(&a, comms.0, at, 9000),
                register(&a, comms.0, at, 9000),
            );
            assert_eq!(one == two, is_cached, "the cache has one region for both");
            let (goes, stays) = if first_goes { (one, two) } else { (two, one) };
            a.net.dereg_mr(comms.0, goes).unwrap();
            sink.bytes.fill(0);
            transfer((&a, &b), comms, (at, stays), &mut sink, 9000);
            assert!(sink.bytes[..] == pattern(1, 9000)[..]);
            a.net.dereg_mr(comms.0, stays).unwrap();
            let again = a.net.dereg_mr(comms.0, stays).unwrap_err();
            assert_eq!(again.code(), Code::StaleRegion);
        }
    }
}

#[test]
fn a_buffer_registered_twice_is_given_back_twice() {
    in_one_process("a_buffer_registered_twice_is_given_back_twice", twice);
}

/// Thirteen bytes at every place in a line, between guards, on both sides.
fn odd() {
    for config in kinds() {
        let (a, b) = (Side::new(config.clone()), Side::new(config));
        let comms = connect(&a.net, &b.net);
        for place in [1, 7, 63, 4090, 4096 + 4089] {
            let from = pattern(place, 3 * 4096).leak();
            let into = vec![0xAA_u8; 3 * 4096].leak();
            let at = from[place..].as_mut_ptr().cast();
            let target: *mut c_void = into[place..].as_mut_ptr().cast();
            let source = register(&a, comms.0, at, 13);
            let sink = register(&b, comms.1, target, 13);
            let r = until("irecv", || {
                // SAFETY: leaked, and looked at only after the request.
                unsafe { b.net.irecv(comms.1, target, 13, Some(sink), false) }.unwrap()
            });
            let s = until("isend", || {
                // SAFETY: leaked.
                unsafe { a.net.isend(comms.0, at, 13, Some(source)) }.unwrap()
            });
            assert_eq!(finish(&a.net, s, &b.net, r), (13, 13));
            a.net.dereg_mr(comms.0, source).unwrap();
            b.net.dereg_mr(comms.1, sink).unwrap();
            for (n, (&got, &sent)) in into.iter().zip(from.iter()).enumerate() {
                let is_inside = (place..place + 13).contains(&n);
                assert_eq!(got, if is_inside { sent } else { 0xAA }, "byte {n}");
            }
        }
    }
}

#[test]
fn a_few_bytes_at_odd_places_arrive_alone() {
    in_one_process("a_few_bytes_at_odd_places_arrive_alone", odd);
}

/// New pages at `at`, or anywhere if it is null.
fn map(at: *mut c_void, len: usize) -> *mut c_void {
    let fixed = if at.is_null() { 0 } else { libc::MAP_FIXED };
    let (protection, flags) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | fixed,
    );
    // SAFETY: mmap(2): new pages, or in the place of pages that this test mapped and nobody uses.
    let pages = unsafe { libc::mmap(at, len, protection, flags, -1, 0) };
    assert_ne!(pages, libc::MAP_FAILED);
    pages
}

/// Memory is sent, given back, unmapped; other memory comes to the same address and is registered: what
/// arrives are its bytes, with and without a cache.
fn came_back() {
    const LEN: usize = 64 << 10;
    for config in kinds() {
        let is_rdma = config.protocol != Some(Protocol::SendRecv);
        let (a, b) = (Side::new(config.clone()), Side::new(config));
        let comms = connect(&a.net, &b.net);
        let mut sink = Buffer::new(&b.net, comms.1, vec![0; LEN]);
        let pages = map(core::ptr::null_mut(), LEN);
        for round in 0..6_usize {
            let at = map(pages, LEN);
            let bytes = pattern(round, LEN);
            // SAFETY: the pages were just mapped, and nobody else knows them.
            unsafe { at.cast::<u8>().copy_from(bytes.as_ptr(), LEN) };
            let mr = register(&a, comms.0, at, LEN);
            // Eager, and by writes.
            for len in [1000, LEN] {
                sink.bytes.fill(0);
                transfer((&a, &b), comms, (at, mr), &mut sink, len);
                assert!(
                    sink.bytes[..len] == bytes[..len],
                    "round {round}, {is_rdma}"
                );
            }
            a.net.dereg_mr(comms.0, mr).unwrap();
        }
        // SAFETY: mapped above, registered no more.
        assert_eq!(unsafe { libc::munmap(pages, LEN) }, 0);
    }
}

#[test]
fn other_memory_at_an_old_address_is_what_is_sent() {
    in_one_process("other_memory_at_an_old_address_is_what_is_sent", came_back);
}
