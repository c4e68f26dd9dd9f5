//! What a NIC has too little of.

use super::{Pair, impatient};
use crate::common::Lines;
use crate::common::emulated::{so_far, under_plan};
use crate::{Buffer, Side, connect, pattern};
use ofi_net::log::Log;
use ofi_net::{Code, MemoryKind, Transport};
use std::sync::Arc;

/// The limit is reached by a buffer of the user: the call fails and says why; what is there goes on, and
/// after a deregistration there is room again.
fn too_many() {
    let side = Side::new(impatient());
    let (send, recv) = connect(&side.net, &side.net);
    let mut kept = Vec::new();
    let error = loop {
        let bytes = vec![0_u8; 10_000].leak();
        // SAFETY: the bytes are kept for good.
        match unsafe {
            side.net
                .reg_mr(send, bytes.as_mut_ptr().cast(), 10_000, MemoryKind::Host)
        } {
            Ok(mr) => kept.push(mr),
            Err(error) => break error,
        }
        assert!(kept.len() <= 100, "no limit");
    };
    assert_eq!(
        (error.code(), error.errno()),
        (Code::Register, -libc::ENOMEM)
    );
    assert!(error.to_string().contains("`ulimit -l`"), "{error}");
    let full = so_far().total().regions;
    side.net.dereg_mr(send, kept.pop().unwrap()).unwrap();
    assert_eq!(so_far().total().regions, full - 2, "one a rail");
    let again = Buffer::new(&side.net, send, pattern(1, 10_000));
    again.free(&side.net, send);
    for mr in kept {
        side.net.dereg_mr(send, mr).unwrap();
    }
    side.net.close_send(send).unwrap();
    side.net.close_recv(recv).unwrap();
}

#[test]
fn a_limit_of_regions_is_told_and_harms_nobody() {
    under_plan(
        "limits::a_limit_of_regions_is_told_and_harms_nobody",
        "mr-limit count=40",
        too_many,
    );
}

/// Limits of bytes and of pages, with whatever errno: the same.
fn too_much() {
    let pair = Pair::new();
    let before = so_far().total().regions;
    let bytes = vec![0_u8; 64 << 20].leak();
    let at = bytes.as_mut_ptr().cast();
    // SAFETY: the bytes are kept for good.
    let refused = unsafe {
        pair.a
            .net
            .reg_mr(pair.hit.0, at, 64 << 20, MemoryKind::Host)
    };
    let error = refused.unwrap_err();
    assert_eq!(error.code(), Code::Register);
    let errno = match std::env::var("EFA_EMU_PLAN").unwrap().contains("EINVAL") {
        true => libc::EINVAL,
        false => libc::ENOMEM,
    };
    assert_eq!(error.errno(), -errno, "{error}");
    assert_eq!(so_far().total().regions, before, "nothing of it stays");
    // SAFETY: as above.
    let less = unsafe { pair.a.net.reg_mr(pair.hit.0, at, 1 << 20, MemoryKind::Host) };
    pair.a.net.dereg_mr(pair.hit.0, less.unwrap()).unwrap();
    pair.spared_goes_on();
}

#[test]
fn limits_of_bytes_and_of_pages_are_told_and_harm_nobody() {
    for plan in ["mr-limit bytes=60M", "mr-limit pages=15000 errno=EINVAL"] {
        let name = "limits::limits_of_bytes_and_of_pages_are_told_and_harm_nobody";
        under_plan(name, plan, too_much);
    }
}

/// No region at all: init fails with the reason, and closes what it opened.
fn nothing_registers() {
    let log = Arc::new(Lines::default());
    let error = Transport::init(impatient(), Arc::clone(&log) as Arc<dyn Log>).map(|_| ());
    let error = error.and_then(|()| Err::<(), _>(first_use()));
    let error = error.unwrap_err();
    assert_eq!(error.errno(), -libc::ENOMEM, "{error}");
}

/// A transport that registers at its first use only fails there.
fn first_use() -> ofi_net::NetError {
    let side = Arc::new(Lines::default());
    let net = Transport::init(impatient(), side as Arc<dyn Log>).unwrap();
    net.listen(0, &mut [0; 128]).unwrap_err()
}

#[test]
fn without_any_region_the_reason_is_told() {
    under_plan(
        "limits::without_any_region_the_reason_is_told",
        "mr-limit count=0",
        nothing_registers,
    );
}

/// Single registrations fail: each is told, and nothing of it stays.
fn single_failures() {
    let pair = Pair::new();
    let mut failed = 0;
    for _ in 0..40 {
        let before = so_far().total().regions;
        let bytes = vec![0_u8; 200_000].leak();
        let at = bytes.as_mut_ptr().cast();
        // SAFETY: the bytes are kept for good.
        match unsafe { pair.a.net.reg_mr(pair.hit.0, at, 200_000, MemoryKind::Host) } {
            Ok(mr) => pair.a.net.dereg_mr(pair.hit.0, mr).unwrap(),
            Err(error) => {
                failed += 1;
                assert_eq!(
                    (error.code(), error.errno()),
                    (Code::Register, -libc::EINVAL)
                );
            }
        }
        assert_eq!(so_far().total().regions, before);
    }
    assert!(failed > 2, "{failed} of 40");
    pair.spared_goes_on();
}

#[test]
fn registrations_that_fail_leave_nothing() {
    under_plan(
        "limits::registrations_that_fail_leave_nothing",
        "mr-error size=150000.. chance=20% errno=EINVAL",
        single_failures,
    );
}
