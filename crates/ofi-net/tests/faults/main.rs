//! What a provider can do wrong, done by a real one that is meddled with: whatever fails, an error says
//! so, what was opened is closed once, and who was not hit goes on.
#![expect(clippy::unwrap_used, reason = "test code")]

mod binding;
mod classes;
#[path = "../common/mod.rs"]
mod common;
mod meddling;
mod state;
mod sweep;
mod table;

use common::{
    Buffer, Side, config, connect, finish, in_one_process, irecv, isend, pattern, until_error,
    with_keys_of_ours,
};
use core::sync::atomic::{AtomicU64, Ordering};
use efa_fabric::consts;
use efa_fabric::sys::bindings::fi_cq_data_entry;
use ofi_net::log::Level;
use ofi_net::{Code, CommWord, Config, MemoryKind};
use state::{ErrorEntry, Fate, with};
use std::sync::Arc;

/// One message of `len` bytes; every byte is looked at.
fn message(a: &Side, b: &Side, comms: (CommWord, CommWord), len: usize) {
    let mut source = Buffer::new(&a.net, comms.0, pattern(len, len));
    let mut sink = Buffer::new(&b.net, comms.1, vec![0; len]);
    let r = irecv(&b.net, comms.1, &mut sink, 0, len);
    let s = isend(&a.net, comms.0, &mut source, 0, len);
    let size = len as u64;
    assert_eq!(finish(&a.net, s, &b.net, r), (size, size));
    assert!(source.free(&a.net, comms.0) == sink.free(&b.net, comms.1));
}

/// Nothing is open but `classes`, and nothing was closed twice.
fn assert_left(classes: &[&str], when: &str) {
    with(|state| {
        assert_eq!(state.left(), classes, "{when}: left open");
        assert_eq!(state.wrong, Vec::<String>::new(), "{when}");
    });
}

/// Two transports with what each test wants different, and the state back to nothing.
fn two(rails: u8) -> (Side, Side) {
    meddling::install();
    let config = || Config {
        stall_fail_ms: Some(3000),
        ..config(rails)
    };
    (Side::new(config()), Side::new(config()))
}

fn regions() -> usize {
    with(|state| state.left().iter().filter(|class| **class == "mr").count())
}

/// The third of four rails refuses: the other two are undone, and the next try registers all four.
fn refused_on_one_rail(mr_cache: bool) {
    meddling::install();
    let side = Side::new(Config {
        mr_cache,
        ..config(4)
    });
    let (send, _) = connect(&side.net, &side.net);
    let mut bytes = vec![0_u8; 10_000];
    let start = bytes.as_mut_ptr().cast();
    // SAFETY: the bytes live to the end of this function.
    let register = || unsafe { side.net.reg_mr(send, start, 10_000, MemoryKind::Host) };
    let before = regions();
    for (errno, words) in [(libc::ENOMEM, "`ulimit -l`"), (266, "FI_ENOKEY (266)")] {
        with(|state| state.arm(3, errno, Some("fi_mr_regattr")));
        let error = register().unwrap_err();
        assert_eq!((error.code(), error.errno()), (Code::Register, -errno));
        let text = error.to_string();
        assert!(text.contains("on rail 2") && text.contains(words), "{text}");
        assert_eq!(regions(), before, "left registered");
        let mr = register().unwrap();
        assert_eq!(regions(), before + 4, "one region a rail, of its device");
        side.net.dereg_mr(send, mr).unwrap();
        assert_eq!(regions(), before);
    }
    with(|state| assert_eq!(state.wrong, Vec::<String>::new()));
}

#[test]
fn a_rail_that_does_not_register_undoes_the_others() {
    in_one_process("a_rail_that_does_not_register_undoes_the_others", || {
        refused_on_one_rail(false);
    });
}

#[test]
fn with_a_cache_a_refused_registration_leaves_nothing_either() {
    in_one_process(
        "with_a_cache_a_refused_registration_leaves_nothing_either",
        || refused_on_one_rail(true),
    );
}

/// Trap 27: an entry of an address vector for each endpoint of a peer, not for each communicator.
fn insertions() {
    let (a, b) = two(2);
    connect(&a.net, &b.net);
    with(|state| state.arm(u64::MAX, libc::EIO, Some("fi_av_insert")));
    for _ in 0..5 {
        connect(&a.net, &b.net);
    }
    with(|state| assert_eq!(state.calls(), 0, "inserted again"));
    // What it counts is counted: another peer is new to both.
    let c = Side::new(config(2));
    connect(&a.net, &c.net);
    assert!(with(|state| state.calls()) > 0);
}

#[test]
fn trap_27_a_peer_is_inserted_once() {
    in_one_process("trap_27_a_peer_is_inserted_once", insertions);
}

/// Every post, connection messages and receives included, is refused so many times first.
fn busy() {
    meddling::install();
    for (busy, config) in [(1, config(2)), (100, config(2)), (7, common::sendrecv())] {
        with(|state| state.busy = busy);
        let (a, b) = (Side::new(config.clone()), Side::new(config));
        let comms = connect(&a.net, &b.net);
        for len in [1, 3000, 300_000] {
            message(&a, &b, comms, len);
        }
    }
}

#[test]
fn a_provider_that_is_busy_before_each_post_delays_and_loses_nothing() {
    in_one_process(
        "a_provider_that_is_busy_before_each_post_delays_and_loses_nothing",
        busy,
    );
}

static NEXT_KEY: AtomicU64 = AtomicU64::new(1_000_000);

/// Keys counted from 0, where that of the receive buffer on rail 0 is 0; then keys that need 64 bits.
fn keys() {
    meddling::install();
    with(|state| state.disguise = Some(|_| NEXT_KEY.fetch_add(1, Ordering::Relaxed)));
    let (a, b) = (Side::new(config(4)), Side::new(config(4)));
    let (send, recv) = connect(&a.net, &b.net);
    let mut source = Buffer::new(&a.net, send, pattern(1, 300_000));
    NEXT_KEY.store(0, Ordering::Relaxed);
    let mut sink = Buffer::new(&b.net, recv, vec![0; 300_000]);
    assert_eq!(b.net.mr_key(sink.mr).unwrap(), 0);
    let r = irecv(&b.net, recv, &mut sink, 0, 300_000);
    let s = isend(&a.net, send, &mut source, 0, 300_000);
    assert_eq!(finish(&a.net, s, &b.net, r), (300_000, 300_000));
    assert!(source.bytes == sink.bytes);
    NEXT_KEY.store(2_000_000, Ordering::Relaxed);
    with(|state| state.disguise = Some(|real| real ^ 0xDEAD_BEEF_CAFE_BABE));
    for len in [100, 3000, 300_000] {
        message(&a, &b, (send, recv), len);
    }
}

#[test]
fn key_0_and_keys_of_64_bits_are_keys() {
    with_keys_of_ours("key_0_and_keys_of_64_bits_are_keys", keys);
}

fn is_local_write(entry: &fi_cq_data_entry) -> bool {
    entry.flags & consts::FI_WRITE != 0 && !entry.op_context.is_null()
}

/// One completion of one write comes as an error with the number that EFA gives for locked memory.
fn failed_write() {
    let (a, b) = two(2);
    let (hit, spared) = (connect(&a.net, &b.net), connect(&a.net, &b.net));
    message(&a, &b, spared, 300_000);
    let mut left = 1;
    let tamper = move |entry: &mut fi_cq_data_entry| {
        if left > 0 && is_local_write(entry) {
            left -= 1;
            return Fate::Fail {
                provider_errno: 4112,
            };
        }
        Fate::Pass
    };
    with(|state| state.tamper = Some(Box::new(tamper)));
    let mut source = Buffer::new(&a.net, hit.0, pattern(1, 300_000));
    let mut sink = Buffer::new(&b.net, hit.1, vec![0; 300_000]);
    irecv(&b.net, hit.1, &mut sink, 0, 300_000);
    let request = isend(&a.net, hit.0, &mut source, 0, 300_000);
    let error = until_error("the write that fails", || a.net.test(request));
    assert_eq!((error.code(), error.errno()), (Code::Operation, -libc::EIO));
    let text = error.to_string();
    assert!(
        text.contains("provider error 4112") && text.contains("locked memory"),
        "{text}"
    );
    let (start, mr) = (source.at(0), source.mr);
    // SAFETY: refused; the buffer is kept for good.
    let sticks = unsafe { a.net.isend(hit.0, start, 8, Some(mr)) };
    assert_eq!(sticks.unwrap_err().code(), Code::Operation);
    message(&a, &b, spared, 300_000);
    a.net.close_send(hit.0).unwrap();
    source.free(&a.net, spared.0);
    b.net.close_recv(hit.1).unwrap();
    sink.free(&b.net, spared.1);
    drop((a, b));
    assert_left(&[], "after it");
}

#[test]
fn a_failed_completion_is_told_to_its_own_communicator() {
    in_one_process(
        "a_failed_completion_is_told_to_its_own_communicator",
        failed_write,
    );
}

/// Errors for no operation, and for one at an address where none is: told, and nobody is harmed.
fn errors_of_nobody() {
    let (a, b) = two(2);
    let comms = connect(&a.net, &b.net);
    for context in [0, 8, 0xDEAD_0000, usize::MAX] {
        with(|state| {
            for cq in state.queues() {
                let (errno, provider_errno) = (libc::EIO, 4112);
                state.plant(
                    cq,
                    ErrorEntry {
                        context,
                        errno,
                        provider_errno,
                    },
                );
            }
        });
        message(&a, &b, comms, 300_000);
        message(&a, &b, comms, 300);
    }
    for side in [&a, &b] {
        let warnings = side.log.at(Level::Warn);
        let told = |line: &String| line.contains("OFI-W0608") && line.contains("locked memory");
        assert!(warnings.iter().any(told), "{warnings:?}");
    }
}

#[test]
fn an_error_without_an_operation_harms_nobody() {
    in_one_process(
        "an_error_without_an_operation_harms_nobody",
        errors_of_nobody,
    );
}

/// Connection messages come flagged as data, before anybody accepts.
fn flagged() {
    meddling::install();
    let impatient = Config {
        connect_timeout_ms: 3000,
        ..config(1)
    };
    let (a, b) = (Side::new(impatient), Side::new(config(1)));
    let tamper = |entry: &mut fi_cq_data_entry| {
        if entry.flags & consts::FI_RECV != 0 && entry.len == 528 {
            entry.flags |= consts::FI_REMOTE_CQ_DATA;
            entry.data = 0x1000_0401;
        }
        Fate::Pass
    };
    with(|state| state.tamper = Some(Box::new(tamper)));
    let (listener, mut handle) = common::listen(&b.net);
    let error = until_error("a connect that is not understood", || {
        assert_eq!(b.net.accept(listener)?, None);
        a.net
            .connect(0, &mut handle)
            .map(|comm| assert_eq!(comm, None))
    });
    assert_eq!(error.code(), Code::ConnectTimeout);
    with(|state| state.tamper = None);
    let comms = connect(&a.net, &b.net);
    message(&a, &b, comms, 3000);
}

#[test]
fn a_connection_message_flagged_as_data_is_dropped() {
    in_one_process("a_connection_message_flagged_as_data_is_dropped", flagged);
}

/// A write arrives without CQ data: what stands in the entry instead names nobody, although it reads as
/// a message of no segments for a communicator that waits for that very number.
fn unflagged() {
    let (a, b) = two(1);
    let (spared, hit) = (connect(&a.net, &b.net), connect(&a.net, &b.net));
    let (seen, hits) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (word, left) = (Arc::clone(&seen), Arc::clone(&hits));
    let tamper = move |entry: &mut fi_cq_data_entry| {
        if entry.flags & consts::FI_REMOTE_WRITE == 0 {
            return Fate::Pass;
        }
        if left.swap(0, Ordering::Relaxed) == 0 {
            word.store(entry.data, Ordering::Relaxed);
        } else {
            entry.flags &= !consts::FI_REMOTE_CQ_DATA;
            entry.data = (word.load(Ordering::Relaxed) & 0x0FFF_FFFF) + 1;
        }
        Fate::Pass
    };
    with(|state| state.tamper = Some(Box::new(tamper)));
    message(&a, &b, spared, 300_000);
    assert_ne!(seen.load(Ordering::Relaxed), 0, "no write was seen");
    let mut second = Buffer::new(&b.net, spared.1, vec![0; 300_000]);
    let waiting = irecv(&b.net, spared.1, &mut second, 0, 300_000);
    hits.store(1, Ordering::Relaxed);
    let mut source = Buffer::new(&a.net, hit.0, pattern(1, 300_000));
    let mut sink = Buffer::new(&b.net, hit.1, vec![0; 300_000]);
    let r = irecv(&b.net, hit.1, &mut sink, 0, 300_000);
    isend(&a.net, hit.0, &mut source, 0, 300_000);
    common::until("the write that tells nothing", || {
        assert_eq!(b.net.test(r).unwrap(), None, "a receive nobody told");
        (hits.load(Ordering::Relaxed) == 0).then_some(())
    });
    let s = isend(&a.net, spared.0, &mut source, 0, 300_000);
    assert_eq!(finish(&a.net, s, &b.net, waiting), (300_000, 300_000));
    assert!(second.bytes == source.bytes);
    let error = until_error("a receive that is not told", || b.net.test(r));
    assert_eq!(error.code(), Code::Stalled, "{error}");
}

#[test]
fn a_write_without_cq_data_is_taken_for_nobodys() {
    in_one_process("a_write_without_cq_data_is_taken_for_nobodys", unflagged);
}

/// A class of objects that the provider does not close: said or counted, never a panic or a hang.
fn stuck() {
    meddling::install();
    for class in ["domain", "cq", "av", "ep", "mr"] {
        let before = efa_fabric::leak_count();
        let (a, b) = (Side::new(config(2)), Side::new(config(2)));
        let comms = connect(&a.net, &b.net);
        message(&a, &b, comms, 300_000);
        with(|state| state.stuck = Some(class));
        let log = Arc::clone(&a.log);
        drop((a, b));
        with(|state| state.stuck = None);
        let left = with(state::State::forget);
        assert!(left.contains(&class), "{class}: {left:?}");
        let warnings = log.at(Level::Warn);
        let said = warnings.iter().any(|line| line.contains("did not close"));
        // What endpoints may still write to is kept, and that is said.
        let counted = efa_fabric::leak_count() > before;
        assert!(
            if class == "ep" { said } else { counted },
            "{class}: {warnings:?}"
        );
        with(|state| assert_eq!(state.wrong, Vec::<String>::new(), "{class}"));
    }
    common::peer::remove_shared_memory(std::process::id());
}

#[test]
fn objects_that_do_not_close_are_left_and_counted() {
    in_one_process("objects_that_do_not_close_are_left_and_counted", stuck);
}

/// A region that the provider does not give up: the device ends, with the reason, and its peer goes on.
fn stuck_region() {
    let (a, b) = two(2);
    let other = Side::new(config(2));
    let (hit, spared) = (connect(&a.net, &b.net), connect(&b.net, &other.net));
    message(&a, &b, hit, 300_000);
    let source = Buffer::new(&a.net, hit.0, vec![0; 4096]);
    with(|state| state.stuck = Some("mr"));
    let error = a.net.dereg_mr(hit.0, source.mr).unwrap_err();
    with(|state| state.stuck = None);
    assert_eq!(
        (error.code(), error.errno()),
        (Code::Deregister, -libc::EBUSY)
    );
    let (mut handle, mr) = ([0; 128], source.mr);
    let later = [
        a.net.listen(0, &mut handle).err(),
        a.net.dereg_mr(hit.0, mr).err(),
        a.net.mr_key(mr).err(),
    ];
    for error in later {
        let text = error.unwrap().to_string();
        assert!(text.contains("OFI-E0504"), "the first reason: {text}");
    }
    // Its end waits for nothing, and is no panic.
    drop(a);
    message(&b, &other, spared, 300_000);
}

#[test]
fn a_region_that_does_not_close_ends_its_device() {
    in_one_process("a_region_that_does_not_close_ends_its_device", stuck_region);
}
