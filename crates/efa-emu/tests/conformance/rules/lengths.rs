//! Lengths that no memory has.

use core::ffi::c_void;
use core::ptr;

use efa_fabric::sys::ops::RmaTarget;
use efa_fabric::sys::{consts as c, errno as e, grown::fi_mr_attr, ops};

use crate::side::{Actor, Event, Pair, Side};

/// Writes on either side of one that cannot be.
const WRITES: u64 = 10;

/// What each of the calls gives.
macro_rules! posted {
    ($($call:expr,)*) => {
        // SAFETY: fi_msg(3), fi_rma(3): an open endpoint; no bytes are looked at, for there are too many.
        [$(unsafe { $call }),*]
    };
}

/// One piece that ends behind the last address is refused by whatever takes pieces.
pub(crate) fn lengths_of_one_piece(actor: &Actor<'_>) {
    let info = match actor.is_direct() {
        true => actor.info(),
        false => super::unexpected::tagged(),
    };
    let pair = actor.pair_of(Side::new(info), 100);
    let at: *mut c_void = pair.memory.ptr.cast();
    let desc = pair.memory.mr.desc().as_raw();
    let (ep, peer, context) = (pair.side.raw(), pair.target.peer.as_raw(), Side::context());
    let (target, context) = (rma(&pair), context.cast::<c_void>());
    for len in [usize::MAX, usize::MAX - 4096] {
        let messages = posted![
            ops::fi_send(ep, at, len, desc, peer, context),
            ops::fi_senddata(ep, at, len, desc, 1, peer, context),
            ops::fi_inject(ep, at, len, peer),
            ops::fi_injectdata(ep, at, len, 1, peer),
            ops::fi_recv(ep, at, len, desc, u64::MAX, context),
        ];
        let tagged = posted![
            ops::fi_tsend(ep, at, len, desc, peer, 1, context),
            ops::fi_tinject(ep, at, len, peer, 1),
            ops::fi_trecv(ep, at, len, desc, u64::MAX, 1, 0, context),
        ];
        let accesses = posted![
            ops::fi_read(ep, at, len, desc, target, context),
            ops::fi_write(ep, at, len, desc, target, context),
            ops::fi_writedata(ep, at, len, desc, 1, target, context),
            ops::fi_inject_write(ep, at, len, target),
            ops::fi_inject_writedata(ep, at, len, 1, target),
        ];
        let too_long = -(e::FI_EMSGSIZE as isize);
        assert_eq!((messages, accesses), ([too_long; 5], [too_long; 5]));
        let none = -(e::FI_ENOSYS as isize);
        let of_tagged = if actor.is_direct() { none } else { too_long };
        assert_eq!(tagged, [of_tagged; 3]);
        assert_eq!(register(&pair, at, len), -e::FI_EINVAL);
    }
    pair.side.silent();
    actor.link.meet();
}

/// One that could be, but is of no region, is an error of its own, and what is before and behind it is not
/// touched by it.
pub(crate) fn lengths_among_others(actor: &Actor<'_>) {
    let pair = actor.pair(100);
    let mut expected = 0;
    for data in 0..2 * WRITES {
        if data % WRITES == WRITES / 2 {
            expected += usize::from(longest(actor, &pair));
        }
        pair.side
            .write(pair.memory.source(100), Some(data), pair.target);
    }
    let writes = usize::try_from(2 * WRITES).expect("a number");
    let (mut failed, mut seen) = (0, Vec::new());
    for event in pair.side.wait(2 * writes + expected) {
        match event {
            Event::Done(entry) if !entry.flags().contains(remote()) => {}
            Event::Done(entry) => seen.push(entry.data()),
            Event::Failed(error) => {
                assert_eq!(
                    (error.errno().code(), error.prov_errno()),
                    (e::FI_EINVAL, 7)
                );
                failed += 1;
            }
        }
    }
    seen.sort_unstable();
    assert_eq!((failed, seen.len()), (expected, writes));
    assert!(seen.iter().copied().eq(0..2 * WRITES), "{seen:?}");
    actor.link.meet();
}

fn remote() -> efa_fabric::CompletionFlags {
    efa_fabric::CompletionFlags::REMOTE_CQ_DATA
}

/// Writes as much as can be counted; whether it is taken, which `efa` does: it has no limit.
fn longest(actor: &Actor<'_>, pair: &Pair) -> bool {
    let (none, context) = (ptr::null_mut(), Side::context().cast());
    let (ep, target) = (pair.side.raw(), rma(pair));
    // SAFETY: fi_rma(3): there is no memory, which no key of a region says there is.
    let code = unsafe { ops::fi_write(ep, none, usize::MAX, none, target, context) };
    let is_taken = code == 0;
    assert_eq!(is_taken, !actor.is_direct(), "{code}");
    is_taken
}

fn rma(pair: &Pair) -> RmaTarget {
    RmaTarget {
        peer: pair.target.peer.as_raw(),
        addr: pair.target.addr,
        key: pair.target.key,
    }
}

fn register(pair: &Pair, at: *mut c_void, len: usize) -> i32 {
    let iov = libc::iovec {
        iov_base: at,
        iov_len: len,
    };
    // SAFETY: all zero is a valid fi_mr_attr.
    let mut attr: fi_mr_attr = unsafe { core::mem::zeroed() };
    attr.mr_iov = (&raw const iov).cast();
    attr.iov_count = 1;
    attr.access = c::FI_SEND;
    let mut mr = ptr::null_mut();
    let domain = pair.side.domain.as_raw();
    // SAFETY: fi_mr(3): an open domain, attributes, and where the object would go.
    unsafe { ops::fi_mr_regattr(domain, &raw const attr, 0, &raw mut mr) }
}
