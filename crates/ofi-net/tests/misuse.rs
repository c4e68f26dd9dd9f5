//! What callers and the world do wrong: an error each, within a bound, and nothing is left behind.
#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use common::{
    Buffer, Lcg, Side, config, connect, in_one_process, listen, on_each_provider, until_error,
};
use core::ptr::null_mut;
use core::time::Duration;
use ofi_net::{Code, CommWord, Config, MemoryKind, MrWord, ReqWord, Transport};
use std::sync::Arc;
use std::time::Instant;

fn impatient() -> Config {
    Config {
        connect_timeout_ms: 500,
        ..config(1)
    }
}

/// Within the deadline of `impatient` and a margin for a loaded machine.
const BOUND: Duration = Duration::from_secs(15);

fn fails_in_time(side: &Side, mut handle: [u8; 128], what: &str) -> Code {
    let start = Instant::now();
    let error = until_error(what, || match side.net.connect(0, &mut handle) {
        Ok(Some(_)) => panic!("connected to {what}"),
        Ok(None) => Ok(()),
        Err(error) => Err(error),
    });
    assert!(start.elapsed() < BOUND, "{what}: {:?}", start.elapsed());
    let again = side.net.connect(0, &mut handle).unwrap_err();
    assert!(!again.to_string().is_empty());
    error.code()
}

fn bad_handles() {
    let side = Side::new(impatient());
    assert_eq!(fails_in_time(&side, [0; 128], "zeros"), Code::Unreachable);
    assert_eq!(
        fails_in_time(&side, [0xFF; 128], "ones"),
        Code::CorruptHandle
    );
    let mut random = Lcg(77);
    for n in 0..20 {
        let mut handle = [0; 128];
        handle.fill_with(|| u8::try_from(random.below(256)).unwrap());
        fails_in_time(&side, handle, &format!("random bytes {n}"));
        // Random name and id, no state.
        handle[64..88].fill(0);
        fails_in_time(&side, handle, &format!("a random name {n}"));
    }
}

#[test]
fn bad_handles_are_errors_in_time() {
    on_each_provider("bad_handles_are_errors_in_time", bad_handles);
}

/// A good handle, damaged: the id beyond its range, and of nobody.
fn damaged() {
    let (side, other) = (Side::new(impatient()), Side::new(impatient()));
    let (listener, good) = listen(&other.net);
    let mut handle = good;
    handle[56..60].copy_from_slice(&(1_u32 << 18).to_le_bytes());
    assert_eq!(
        fails_in_time(&side, handle, "an id out of range"),
        Code::CorruptHandle
    );
    let mut handle = good;
    handle[56..60].copy_from_slice(&4711_u32.to_le_bytes());
    assert_eq!(
        fails_in_time(&side, handle, "an id of nobody"),
        Code::ConnectTimeout
    );
    // The peer that got that message goes on.
    until_gone(&other, listener);
    let (send, recv) = connect(&side.net, &other.net);
    side.net.close_send(send).unwrap();
    other.net.close_recv(recv).unwrap();
}

fn until_gone(side: &Side, listener: CommWord) {
    for _ in 0..100 {
        assert_eq!(side.net.accept(listener).unwrap(), None);
    }
    side.net.close_listen(listener).unwrap();
}

#[test]
fn damaged_handles_are_errors_in_time() {
    in_one_process("damaged_handles_are_errors_in_time", damaged);
}

/// Nobody accepts: the deadline, and the words say what was waited for.
fn nobody_accepts() {
    let (side, other) = (Side::new(impatient()), Side::new(impatient()));
    let (listener, handle) = listen(&other.net);
    assert_eq!(
        fails_in_time(&side, handle, "a listener that does not accept"),
        Code::ConnectTimeout
    );
    let warnings = side.log.at(ofi_net::log::Level::Warn);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("OFI-E0402"), "{warnings:?}");
    // Whom it could not reach: a port of IP, or a name.
    let is_ip = i32::from(u16::from_ne_bytes([handle[0], handle[1]])) == libc::AF_INET;
    let port = u16::from_be_bytes([handle[2], handle[3]]);
    let wanted = match std::env::var("FI_PROVIDER").as_deref() {
        Ok("efa") => "peer fe80:".to_owned(),
        _ if is_ip => format!(":{port}: "),
        _ => "peer fi_shm://".to_owned(),
    };
    assert!(
        warnings[0].contains("peer ") && warnings[0].contains(&wanted),
        "{wanted:?}: {warnings:?}"
    );
    let start = Instant::now();
    // Its connection message is still there, its sender is not: accept ends either way.
    let accepted = other.net.accept_blocking(listener);
    assert!(start.elapsed() < BOUND, "{accepted:?}");
}

#[test]
fn a_connect_that_nobody_accepts_ends() {
    in_one_process("a_connect_that_nobody_accepts_ends", nobody_accepts);
}

fn accept_without_connect() {
    let side = Side::new(impatient());
    let (listener, _) = listen(&side.net);
    let start = Instant::now();
    let error = side.net.accept_blocking(listener).unwrap_err();
    assert_eq!(error.code(), Code::ConnectTimeout);
    assert!(start.elapsed() < BOUND);
    side.net.close_listen(listener).unwrap();
}

#[test]
fn a_blocking_accept_is_bounded() {
    on_each_provider("a_blocking_accept_is_bounded", accept_without_connect);
}

/// The code of a send of `len` bytes from `buffer`.
fn send_code(
    side: &Side,
    comm: CommWord,
    buffer: &mut Buffer,
    len: usize,
    mr: Option<MrWord>,
) -> Code {
    let start = buffer.at(0);
    // SAFETY: refused; the buffer lives as long as the transport all the same.
    let sent = unsafe { side.net.isend(comm, start, len, mr) };
    sent.unwrap_err().code()
}

/// Words that are of another kind, of another instance, or of nothing.
fn words() {
    let (a, b) = (Side::new(config(1)), Side::new(config(1)));
    let (send, recv) = connect(&a.net, &b.net);
    let mut buffer = Buffer::new(&a.net, send, vec![0; 4096]);
    let mr = buffer.mr;
    for bits in [0, 1, u64::MAX, mr.to_bits()] {
        let word = CommWord::from_bits(bits);
        assert_eq!(
            send_code(&a, word, &mut buffer, 1, Some(mr)),
            Code::StaleComm
        );
    }
    let foreign = send_code(&a, recv, &mut buffer, 0, None);
    assert_eq!(foreign, Code::StaleComm, "of another instance");
    let outside = send_code(&a, send, &mut buffer, 16_384, Some(mr));
    assert_eq!(outside, Code::OutsideRegion);
    let nothing = Some(MrWord::from_bits(5));
    assert_eq!(
        send_code(&a, send, &mut buffer, 1, nothing),
        Code::StaleRegion
    );
    assert_eq!(
        send_code(&a, send, &mut buffer, 1, None),
        Code::NullArgument
    );
    for bits in [0, 1, u64::MAX, send.to_bits(), mr.to_bits() ^ (1 << 62)] {
        let word = ReqWord::from_bits(bits);
        assert_eq!(a.net.test(word).unwrap_err().code(), Code::StaleRequest);
    }
    stale_words(&a, send, &mut buffer);
    b.net.close_recv(recv).unwrap();
}

/// Words of what was there, and calls on the wrong kind.
fn stale_words(a: &Side, send: CommWord, buffer: &mut Buffer) {
    let mr = buffer.mr;
    let refusals = [
        a.net.close_recv(send).err(),
        a.net.close_listen(send).err(),
        a.net.accept(send).err(),
    ];
    for refusal in refusals {
        assert_eq!(refusal.unwrap().code(), Code::WrongKind);
    }
    a.net.dereg_mr(send, mr).unwrap();
    assert_eq!(
        a.net.dereg_mr(send, mr).unwrap_err().code(),
        Code::StaleRegion
    );
    assert_eq!(send_code(a, send, buffer, 1, Some(mr)), Code::StaleRegion);
    a.net.close_send(send).unwrap();
    assert_eq!(a.net.close_send(send).unwrap_err().code(), Code::StaleComm);
    assert_eq!(send_code(a, send, buffer, 0, None), Code::StaleComm);
}

/// A damaged memory handle names nothing: neither another region nor one of our own.
fn damaged_words() {
    let (a, b) = (Side::new(config(1)), Side::new(config(1)));
    let (send, recv) = connect(&a.net, &b.net);
    let sink = Buffer::new(&b.net, recv, vec![0; 4096]);
    b.net.mr_key(sink.mr).unwrap();
    for bit in 0..64 {
        let damaged = MrWord::from_bits(sink.mr.to_bits() ^ 1 << bit);
        let error = b.net.mr_key(damaged).unwrap_err();
        assert_eq!(error.code(), Code::StaleRegion, "bit {bit}");
    }
    sink.free(&b.net, recv);
    a.net.close_send(send).unwrap();
    b.net.close_recv(recv).unwrap();
}

#[test]
fn every_damaged_memory_handle_is_an_error() {
    in_one_process("every_damaged_memory_handle_is_an_error", damaged_words);
}

#[test]
fn wrong_words_are_errors() {
    in_one_process("wrong_words_are_errors", words);
}

fn arguments() {
    let side = Side::new(config(1));
    let mut handle = [0; 128];
    assert_eq!(
        side.net.listen(7, &mut handle).unwrap_err().code(),
        Code::UnknownDevice
    );
    assert_eq!(
        side.net.connect(7, &mut handle).unwrap_err().code(),
        Code::UnknownDevice
    );
    assert_eq!(
        side.net.properties(7).unwrap_err().code(),
        Code::UnknownDevice
    );
    let (listener, handle) = listen(&side.net);
    let mut short = [0; 64];
    short.copy_from_slice(&handle[..64]);
    // The send communicator of v4 is there at once, connected or not.
    let send = side.net.connect_v4(0, &mut short).unwrap();
    assert_eq!(short, handle[..64], "a handle of v4 has no state");
    let mut bytes = [0_u8; 8];
    let start = bytes.as_mut_ptr().cast();
    // SAFETY: refused, each of them: nothing to register, a listener, memory that is not here.
    let refused =
        |comm, at, len, kind| unsafe { side.net.reg_mr(comm, at, len, kind) }.unwrap_err();
    assert_eq!(
        refused(send, null_mut(), 0, MemoryKind::Host).code(),
        Code::Register
    );
    assert_eq!(
        refused(listener, start, 8, MemoryKind::Host).code(),
        Code::WrongKind
    );
    // EFA takes memory of devices; the emulated one believes what it is told.
    if std::env::var("FI_PROVIDER").as_deref() != Ok("efa") {
        refused(send, start, 8, MemoryKind::Neuron);
    }
    side.net.close_send(send).unwrap();
    side.net.close_listen(listener).unwrap();
}

#[test]
fn wrong_arguments_are_errors() {
    on_each_provider("wrong_arguments_are_errors", arguments);
}

/// One handle, two connects: the second is told, the first goes on.
fn handle_used_twice() {
    let (a, b) = (Side::new(config(1)), Side::new(config(1)));
    let (listener, mut handle) = listen(&b.net);
    let mut recv = None;
    let send = common::until("connect", || {
        recv = recv.or_else(|| b.net.accept(listener).unwrap());
        a.net.connect(0, &mut handle).unwrap()
    });
    assert_eq!(
        a.net.connect(0, &mut handle).unwrap_err().code(),
        Code::CorruptHandle
    );
    // In another process, or instance, the state is not ours.
    assert_eq!(
        b.net.connect(0, &mut handle).unwrap_err().code(),
        Code::CorruptHandle
    );
    let recv = common::until("accept", || {
        recv.or_else(|| b.net.accept(listener).unwrap())
    });
    assert_eq!(
        b.net.accept(listener).unwrap_err().code(),
        Code::AlreadyAccepted
    );
    a.net.close_send(send).unwrap();
    b.net.close_recv(recv).unwrap();
}

/// Trap 8: the state of a connect lies in the handle. A used one is told apart, whoever brings it.
#[test]
fn trap_08_a_handle_serves_one_connect() {
    in_one_process("trap_08_a_handle_serves_one_connect", handle_used_twice);
}

/// Rail counts that differ: both are told which numbers, and by what variable they are set.
fn different_rails() {
    let (a, b) = (Side::new(config(1)), Side::new(config(2)));
    let (listener, mut handle) = listen(&b.net);
    let (mut at_a, mut at_b) = (None, None);
    common::until("both errors", || {
        if at_a.is_none() {
            at_a = a.net.connect(0, &mut handle).err();
        }
        if at_b.is_none() {
            at_b = b.net.accept(listener).err();
        }
        (at_a.is_some() && at_b.is_some()).then_some(())
    });
    let (at_a, at_b) = (at_a.unwrap(), at_b.unwrap());
    assert_eq!((at_a.code(), at_b.code()), (Code::Mismatch, Code::Mismatch));
    assert!(at_a.what().contains("1 here, 2 at the peer"), "{at_a}");
    assert!(at_b.what().contains("2 here, 1 at the peer"), "{at_b}");
    assert!(at_b.what().contains("OFI_NCCL_FORCE_NUM_RAILS"), "{at_b}");
}

#[test]
fn different_rail_counts_are_told_to_both() {
    in_one_process("different_rail_counts_are_told_to_both", different_rails);
}

/// Settings that are wrong for RDMA are not hidden by speaking something else.
fn wrong_settings() {
    let nic = Side::new(config(2)).net.properties(0).unwrap().name.clone();
    let groups = [
        "nosuch".to_owned(),
        ";;".to_owned(),
        format!("{nic},nosuch"),
    ];
    for groups in groups {
        let wrong = Config {
            nic_groups: Some(groups.clone()),
            force_num_rails: None,
            protocol: None,
            ..config(1)
        };
        let error = Transport::init(wrong, Arc::new(common::Lines::default())).unwrap_err();
        assert_eq!(error.code(), Code::Grouping, "{groups}");
    }
    let early = Config {
        early_completion: Some(true),
        protocol: None,
        ..config(2)
    };
    let error = Transport::init(early, Arc::new(common::Lines::default())).unwrap_err();
    assert_eq!(error.code(), Code::EarlyCompletion);
}

#[test]
fn wrong_settings_are_no_reason_to_speak_something_else() {
    let name = "wrong_settings_are_no_reason_to_speak_something_else";
    on_each_provider(name, wrong_settings);
}

/// What is too large for the provider or for memory is told with the setting that asked for it.
fn too_large() {
    let queue = Config {
        cq_entries: i32::MAX as usize,
        ..config(1)
    };
    let buffers = Config {
        eager_max: Some(i32::MAX.unsigned_abs()),
        min_stripe_bytes: u64::from(u32::MAX),
        ..config(1)
    };
    for (setting, wrong) in [
        ("OFI_NCCL_CQ_SIZE", queue),
        ("OFI_NCCL_EAGER_MAX_SIZE", buffers),
    ] {
        let net = Transport::init(wrong, Arc::new(common::Lines::default())).unwrap();
        match net.listen(0, &mut [0; 128]) {
            // A queue that this provider and machine have room for.
            Ok(_) => assert_eq!(setting, "OFI_NCCL_CQ_SIZE"),
            Err(error) => assert!(error.to_string().contains(setting), "{error}"),
        }
    }
}

#[test]
fn what_is_too_large_is_told_with_its_setting() {
    on_each_provider("what_is_too_large_is_told_with_its_setting", too_large);
}
