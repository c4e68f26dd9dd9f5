//! What a NIC has too little of.

use super::{Pair, impatient};
use crate::common::emulated::{so_far, under_plan};
use crate::common::{Lines, accept_from, connect_to, listen, until};
use crate::{Buffer, Side, connect, finish, irecv, isend, pattern};
use ofi_net::log::{Level, Log};
use ofi_net::{Code, Config, MemoryKind, NetError, Transport};
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
fn first_use() -> NetError {
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
        "mr-error size=150000..500000 chance=20% errno=EINVAL",
        single_failures,
    );
}

/// A transport that has called nothing yet, and its log.
fn fresh(config: Config) -> (Transport, Arc<Lines>) {
    let log = Arc::new(Lines::default());
    let net = Transport::init(config, Arc::clone(&log) as Arc<dyn Log>).unwrap();
    (net, log)
}

/// It says what was not registered, for what, and why.
fn of_no_memory(error: &NetError) {
    assert_eq!(error.code(), Code::Register, "{error}");
    assert_eq!(error.errno(), -libc::ENOMEM, "{error}");
    let text = error.to_string();
    for words in ["memory for messages of peers", "bytes of Host memory"] {
        assert!(text.contains(words), "{text}");
    }
}

/// One message from `a` to `b`.
fn one_message((a, b): (&Transport, &Transport), len: usize) {
    let (send, recv) = connect(a, b);
    let mut source = Buffer::new(a, send, pattern(1, len));
    let mut sink = Buffer::new(b, recv, vec![0; len]);
    let received = irecv(b, recv, &mut sink, 0, len);
    let sent = isend(a, send, &mut source, 0, len);
    let size = len as u64;
    assert_eq!(finish(a, sent, b, received), (size, size));
    assert!(source.free(a, send) == sink.free(b, recv));
    a.close_send(send).unwrap();
    b.close_recv(recv).unwrap();
}

/// Nobody could get through to a listener without receive buffers: there is none.
fn no_memory_to_listen() {
    let (net, told) = fresh(impatient());
    for _ in 0..3 {
        of_no_memory(&net.listen(0, &mut [0; 128]).unwrap_err());
    }
    assert_eq!(told.at(Level::Warn), [""; 0], "the error says it");
}

#[test]
fn a_listener_without_memory_for_messages_is_an_error_at_once() {
    let name = "limits::a_listener_without_memory_for_messages_is_an_error_at_once";
    // None of its receives; those of connection messages only.
    for plan in ["mr-limit pages=10", "mr-limit pages=50"] {
        for seen in under_plan(name, plan, no_memory_to_listen) {
            // Not in each pass: some times a lane and call, of which there are four and three.
            let struck = seen.rules[0];
            assert!(struck <= 4 * 4 * 3, "{plan}: tried {struck} times");
        }
    }
}

/// The answer to a connection could not come in: it is not begun. Once there is memory it is made, with the same
/// handle.
fn no_memory_to_connect() {
    let ((a, told), (b, _)) = (fresh(impatient()), fresh(impatient()));
    let (listener, mut handle) = listen(&b);
    let mut refused = 0;
    until("a connect that is not refused", || {
        match a.connect(0, &mut handle) {
            Err(error) => of_no_memory(&error),
            Ok(_) => return Some(()),
        }
        refused += 1;
        None
    });
    assert_eq!(
        refused, 1,
        "what is struck on each rail is tried in one call"
    );
    assert_eq!(told.at(Level::Warn), [""; 0], "the error says it");
    let accepted = std::thread::scope(|scope| {
        let accepting = scope.spawn(|| accept_from(&b, listener));
        let send = connect_to(&a, &mut handle);
        (send, accepting.join().unwrap())
    });
    a.close_send(accepted.0).unwrap();
    b.close_recv(accepted.1).unwrap();
    one_message((&a, &b), 5000);
}

#[test]
fn a_connect_without_memory_for_its_answer_is_an_error_at_once() {
    under_plan(
        "limits::a_connect_without_memory_for_its_answer_is_an_error_at_once",
        "mr-error size=40960..40960 at=2 errno=ENOMEM",
        no_memory_to_connect,
    );
}

/// No memory for the endpoint that a connection gets of its own: accept says so once, and takes the next one.
fn no_memory_to_adopt() {
    let per_comm = Config {
        endpoint_per_comm: true,
        ..impatient()
    };
    let ((a, _), (b, told)) = (fresh(impatient()), fresh(per_comm));
    let (listener, mut handle) = listen(&b);
    let fresh_handle = handle;
    let mut refused = 0;
    until("a connect that ends", || {
        let ended = a.connect(0, &mut handle);
        match b.accept(listener) {
            Err(error) => {
                of_no_memory(&error);
                refused += 1;
            }
            Ok(accepted) => assert_eq!(accepted, None),
        }
        // Nobody answers it: its own deadline ends it.
        ended.is_err().then_some(())
    });
    assert_eq!(refused, 1, "once for a CONN");
    assert_eq!(told.at(Level::Warn), [""; 0], "the error says it");
    let mut handle = fresh_handle;
    let accepted = std::thread::scope(|scope| {
        let accepting = scope.spawn(|| accept_from(&b, listener));
        let send = connect_to(&a, &mut handle);
        (send, accepting.join().unwrap())
    });
    a.close_send(accepted.0).unwrap();
    b.close_recv(accepted.1).unwrap();
}

#[test]
fn an_accept_without_memory_for_an_endpoint_of_its_own_ends_that_connect() {
    under_plan(
        "limits::an_accept_without_memory_for_an_endpoint_of_its_own_ends_that_connect",
        "mr-error size=40960..40960 at=3 errno=ENOMEM",
        no_memory_to_adopt,
    );
}

/// Some buffers, though not all that are wanted: everything works, and it is told once.
fn less_than_wanted() {
    let config = Config {
        eager_max: None,
        ..impatient()
    };
    let ((a, told), (b, _)) = (fresh(config.clone()), fresh(config));
    one_message((&a, &b), 20_000);
    let lines = told.at(Level::Warn);
    let about = (lines.iter()).filter(|line| line.contains("OFI-W0606"));
    assert_eq!(about.count(), 1, "{lines:?}");
}

#[test]
fn fewer_receives_than_wanted_are_told_once_and_do() {
    let name = "limits::fewer_receives_than_wanted_are_told_once_and_do";
    // So many that 64 buffers of connection messages are to be had on both sides, and the next 128 not.
    under_plan(name, "mr-limit pages=41", less_than_wanted);
}
