//! A provider whose regions have to be bound to the endpoint (`FI_MR_ENDPOINT`): none is used before, none is
//! bound twice, and keys are valid only then.

use crate::common::{
    self, Buffer, Side, connect, finish, in_one_process, irecv, isend, pattern, wait,
};
use crate::{meddling, message, regions, state::with};
use ofi_net::{Code, Config, MemoryKind, MrWord, NetError};

fn register(side: &Side, comm: ofi_net::CommWord, bytes: &mut [u8]) -> Result<MrWord, NetError> {
    let (start, len) = (bytes.as_mut_ptr().cast(), bytes.len());
    // SAFETY: the tests deregister it before the bytes go.
    unsafe { side.net.reg_mr(comm, start, len, MemoryKind::Host) }
}

fn assert_all_bound() {
    with(|state| {
        assert_eq!(state.unbound(), 0, "regions that were not bound");
        assert_eq!(state.wrong, Vec::<String>::new());
    });
}

/// The same buffer twice: one region with the cache and two without, each bound once.
fn twice(mr_cache: bool) {
    let config = || Config {
        mr_cache,
        ..common::sendrecv()
    };
    let (a, b) = (Side::new(config()), Side::new(config()));
    // Several connections: their messages lie in one block of memory.
    for _ in 0..3 {
        message(&a, &b, connect(&a.net, &b.net), 3000);
    }
    let (send, recv) = connect(&a.net, &b.net);
    let mut bytes = pattern(1, 50_000);
    let before = regions();
    with(|state| state.arm(1, libc::EIO, Some("fi_mr_bind")));
    let refused = register(&a, send, &mut bytes).unwrap_err();
    assert_eq!(
        (refused.code(), refused.errno()),
        (Code::Register, -libc::EIO)
    );
    assert_eq!(regions(), before, "left registered");
    let first = register(&a, send, &mut bytes).unwrap();
    let second = register(&a, send, &mut bytes).unwrap();
    assert_eq!(first == second, mr_cache);
    assert_eq!(regions() - before, if mr_cache { 1 } else { 2 });
    assert_all_bound();
    a.net.dereg_mr(send, first).unwrap();
    let mut source = Buffer {
        bytes: core::mem::ManuallyDrop::new(bytes),
        mr: second,
    };
    let mut sink = Buffer::new(&b.net, recv, vec![0; 50_000]);
    let r = irecv(&b.net, recv, &mut sink, 0, 50_000);
    let s = isend(&a.net, send, &mut source, 0, 50_000);
    assert_eq!(finish(&a.net, s, &b.net, r), (50_000, 50_000));
    assert!(source.bytes == sink.bytes);
    let (at, mr) = (sink.at(0), sink.mr);
    // SAFETY: the buffer lives until its region is deregistered.
    let flush = unsafe { b.net.iflush(recv, at, 50_000, mr) }.unwrap();
    assert_eq!(
        wait(&b.net, flush.unwrap()),
        4,
        "by the key of the bound region"
    );
    sink.free(&b.net, recv);
    source.free(&a.net, send);
    assert_eq!(regions(), before);
    assert_all_bound();
}

fn bound_once() {
    meddling::install();
    with(|state| state.binds = true);
    twice(false);
    twice(true);
}

#[test]
fn regions_are_bound_to_the_endpoint_once_cached_or_not() {
    in_one_process(
        "binding::regions_are_bound_to_the_endpoint_once_cached_or_not",
        bound_once,
    );
}
