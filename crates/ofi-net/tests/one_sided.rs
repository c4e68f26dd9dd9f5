//! One-sided operations on every provider: the peer's memory really changes, and nothing around it.
#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use common::{
    Buffer, Side, config, connect, finish, in_one_process, irecv, isend, on_each_provider, pattern,
    say, until, wait,
};
use ofi_net::{Code, CommWord, Config, LocalMemory, NetError, RemoteMemory, ReqWord, Transport};

/// What the peer opened: a buffer of ours in the same process, known by address and key only.
fn exposed(net: &Transport, buffer: &mut Buffer, at: usize) -> RemoteMemory {
    RemoteMemory {
        addr: buffer.at(at).expose_provenance() as u64,
        key: net.mr_key(buffer.mr).unwrap(),
    }
}

fn local(buffer: &mut Buffer, at: usize, len: usize) -> LocalMemory {
    LocalMemory {
        addr: buffer.at(at),
        len,
        mr: Some(buffer.mr),
    }
}

fn started(call: impl Fn() -> Result<Option<ReqWord>, NetError>) -> ReqWord {
    until("a one-sided call", || call().unwrap())
}

fn iwrite(net: &Transport, comm: CommWord, from: LocalMemory, to: RemoteMemory) -> ReqWord {
    // SAFETY: the buffers live until their requests were tested.
    started(|| unsafe { net.iwrite(comm, from, to) })
}

fn iread(net: &Transport, comm: CommWord, to: LocalMemory, from: RemoteMemory) -> ReqWord {
    // SAFETY: as for `iwrite`.
    started(|| unsafe { net.iread(comm, to, from) })
}

/// Waits for a write to be in place: its completion says that it left, not that it arrived.
fn arrived(buffer: &Buffer, what: &[u8], at: usize) {
    until("the bytes of a write", || {
        // What the network writes is read afresh each time.
        let there = core::hint::black_box(&buffer.bytes[at..at + what.len()]);
        (there == what).then_some(())
    });
}

const GUARD: u8 = 0xA5;

fn writes_and_reads() {
    let (a, b) = (Side::new(config(2)), Side::new(config(2)));
    let (send, recv) = connect(&a.net, &b.net);
    assert!(a.net.properties(0).unwrap().rma_supported);
    let mut source = Buffer::new(&a.net, send, pattern(1, 1 << 20));
    let mut sink = Buffer::new(&b.net, recv, vec![GUARD; 4 << 20]);
    for (n, len) in [1, 64, 4096, 1 << 20].into_iter().enumerate() {
        let at = 4096 * (n + 1);
        sink.bytes.fill(GUARD);
        let to = exposed(&b.net, &mut sink, at);
        let request = iwrite(&a.net, send, local(&mut source, 0, len), to);
        assert_eq!(wait(&a.net, request), len as u64);
        arrived(&sink, &source.bytes[..len], at);
        let around = sink.bytes[..at].iter().chain(&sink.bytes[at + len..]);
        assert!(around.copied().all(|byte| byte == GUARD), "{len} bytes");
        // And back again, by the receiver, into another place.
        let from = exposed(&a.net, &mut source, 0);
        let request = iread(&b.net, recv, local(&mut sink, 2 << 20, len), from);
        assert_eq!(wait(&b.net, request), len as u64);
        let read = &sink.bytes[2 << 20..];
        assert!(
            read[..len] == source.bytes[..len] && read[len] == GUARD,
            "{len} bytes"
        );
    }
    mixed(&a, &b, (send, recv), (source, sink));
}

/// Messages go on beside them, on the same communicator.
fn mixed(a: &Side, b: &Side, comms: (CommWord, CommWord), buffers: (Buffer, Buffer)) {
    let ((send, recv), (mut source, mut sink)) = (comms, buffers);
    for n in 0..50 {
        let to = exposed(&b.net, &mut sink, 2 << 20);
        let put = iwrite(&a.net, send, local(&mut source, n, 5000), to);
        let sent = isend(&a.net, send, &mut source, n * 1000, 20_000);
        let received = irecv(&b.net, recv, &mut sink, 0, 30_000);
        let sizes = finish(&a.net, sent, &b.net, received);
        assert_eq!((sizes, wait(&a.net, put)), ((20_000, 20_000), 5000));
        arrived(&sink, &source.bytes[n..n + 5000], 2 << 20);
        assert!(sink.bytes[..20_000] == source.bytes[n * 1000..][..20_000]);
    }
    source.free(&a.net, send);
    sink.free(&b.net, recv);
    a.net.close_send(send).unwrap();
    b.net.close_recv(recv).unwrap();
}

#[test]
fn remote_memory_is_written_and_read() {
    in_one_process("remote_memory_is_written_and_read", writes_and_reads);
}

fn inline() {
    let (a, b) = (Side::new(config(1)), Side::new(config(1)));
    let (send, recv) = connect(&a.net, &b.net);
    let max = a.net.properties(0).unwrap().max_write_inline_bytes;
    let mut sink = Buffer::new(&b.net, recv, vec![GUARD; max + 4096]);
    let to = exposed(&b.net, &mut sink, 64);
    for len in [0, 1, max / 2, max] {
        sink.bytes.fill(GUARD);
        let bytes = pattern(len, len);
        let mut taken = bytes.clone();
        // SAFETY: the peer's buffer lives to the end of this function.
        let request = started(|| unsafe { a.net.iwrite_inline(send, &taken, to) });
        // They are ours again at once.
        taken.fill(0xEE);
        assert_eq!(wait(&a.net, request), len as u64);
        arrived(&sink, &bytes, 64);
        let around = sink.bytes[..64].iter().chain(&sink.bytes[64 + len..]);
        assert!(around.copied().all(|byte| byte == GUARD), "{len} bytes");
    }
    // SAFETY: refused.
    let long = unsafe { a.net.iwrite_inline(send, &vec![0; max + 1], to) };
    assert_eq!(long.unwrap_err().code(), Code::InlineTooLong);
    sink.free(&b.net, recv);
    a.net.close_send(send).unwrap();
    b.net.close_recv(recv).unwrap();
}

#[test]
fn inline_writes_take_their_bytes_at_the_call() {
    in_one_process("inline_writes_take_their_bytes_at_the_call", inline);
}

fn cap() {
    let (a, b) = (Side::new(config(1)), Side::new(config(1)));
    let (send, recv) = connect(&a.net, &b.net);
    let mut source = Buffer::new(&a.net, send, pattern(1, 4096));
    let mut sink = Buffer::new(&b.net, recv, vec![0; 4096]);
    let to = exposed(&b.net, &mut sink, 0);
    let from = local(&mut source, 0, 32);
    let requests: Vec<_> = (0..128).map(|_| iwrite(&a.net, send, from, to)).collect();
    for _ in 0..100 {
        // SAFETY: not admitted.
        assert_eq!(unsafe { a.net.iwrite(send, from, to) }.unwrap(), None);
        // SAFETY: as above.
        let inline = unsafe { a.net.iwrite_inline(send, &[1], to) };
        assert_eq!(inline.unwrap(), None);
    }
    for request in requests {
        assert_eq!(wait(&a.net, request), 32);
    }
    let last = iwrite(&a.net, send, from, to);
    assert_eq!(wait(&a.net, last), 32);
    // Closed with some in flight.
    for _ in 0..20 {
        iwrite(&a.net, send, from, to);
    }
    a.net.close_send(send).unwrap();
    source.free(&a.net, send);
    sink.free(&b.net, recv);
    b.net.close_recv(recv).unwrap();
}

#[test]
fn the_129th_is_not_now_and_close_works_with_some_in_flight() {
    in_one_process(
        "the_129th_is_not_now_and_close_works_with_some_in_flight",
        cap,
    );
}

/// A key that nobody gave out. What the initiator hears of it differs by provider: nothing, success (a
/// write has left), an error of that communicator. No memory changes, and others go on.
fn bad_key() {
    let (a, b) = (Side::new(config(1)), Side::new(config(1)));
    let bad = connect(&a.net, &b.net);
    let mut source = Buffer::new(&a.net, bad.0, pattern(1, 4096));
    let mut sink = Buffer::new(&b.net, bad.1, vec![GUARD; 4096]);
    let mut to = exposed(&b.net, &mut sink, 0);
    to.key ^= 0x5A5A_0000;
    let request = iwrite(&a.net, bad.0, local(&mut source, 0, 64), to);
    let mut heard = "nothing".to_owned();
    for _ in 0..20_000 {
        match a.net.test(request) {
            Ok(None) => {}
            Ok(Some(bytes)) => {
                heard = format!("{bytes} bytes written");
                break;
            }
            Err(error) => {
                assert_eq!(error.code(), Code::Operation, "{error}");
                heard = error.to_string();
                break;
            }
        }
        assert_eq!(b.net.comm_info(bad.1).unwrap().failure, None);
    }
    say(&format!("a write with a wrong key: {heard}"));
    a.net.close_send(bad.0).unwrap();
    b.net.close_recv(bad.1).unwrap();
    let (send, recv) = connect(&a.net, &b.net);
    assert!(
        sink.bytes.iter().all(|&byte| byte == GUARD),
        "memory changed"
    );
    let sent = isend(&a.net, send, &mut source, 0, 4096);
    let received = irecv(&b.net, recv, &mut sink, 0, 4096);
    assert_eq!(finish(&a.net, sent, &b.net, received), (4096, 4096));
    assert!(*sink.bytes == *source.bytes);
    source.free(&a.net, send);
    sink.free(&b.net, recv);
    a.net.close_send(send).unwrap();
    b.net.close_recv(recv).unwrap();
}

fn on_those_that_check(name: &str, scenario: fn()) {
    let checks = |provider: &str| {
        // shm up to 1.22 checks neither key nor range: it would write anywhere (providers 1a).
        if provider == "shm" {
            say("skipped: shm checks no keys");
        }
        provider != "shm"
    };
    common::on_providers(name, checks, scenario);
}

#[test]
fn a_wrong_key_changes_no_memory_and_stops_nobody_else() {
    on_those_that_check(
        "a_wrong_key_changes_no_memory_and_stops_nobody_else",
        bad_key,
    );
}

/// Offsets instead of virtual addresses: the caller's address means nothing, so it is refused.
fn offsets() {
    let settings = Config {
        provider_addressing: true,
        ..config(1)
    };
    let (a, b) = (Side::new(settings.clone()), Side::new(settings));
    if a.net.properties(0).unwrap().rma_supported {
        return say("skipped: this provider has virtual addresses only");
    }
    let (send, recv) = connect(&a.net, &b.net);
    let mut source = Buffer::new(&a.net, send, pattern(1, 64));
    let to = RemoteMemory { addr: 0, key: 0 };
    let from = local(&mut source, 0, 64);
    // SAFETY: refused.
    let write = unsafe { a.net.iwrite(send, from, to) };
    // SAFETY: refused.
    let inline = unsafe { a.net.iwrite_inline(send, &[1], to) };
    // SAFETY: refused.
    let read = unsafe { b.net.iread(recv, from, to) };
    for refusal in [write, inline, read] {
        assert_eq!(refusal.unwrap_err().code(), Code::OneSided);
    }
    source.free(&a.net, send);
    a.net.close_send(send).unwrap();
    b.net.close_recv(recv).unwrap();
}

#[test]
fn without_virtual_addresses_they_are_refused() {
    in_one_process("without_virtual_addresses_they_are_refused", offsets);
}

/// The communicator of the wrong direction, and a buffer outside its region.
fn misuse() {
    let a = Side::new(config(1));
    let (send, recv) = connect(&a.net, &a.net);
    let mut buffer = Buffer::new(&a.net, send, pattern(1, 64));
    let to = exposed(&a.net, &mut buffer, 0);
    let from = local(&mut buffer, 0, 64);
    let outside = local(&mut buffer, 0, 1 << 20);
    let unregistered = LocalMemory { mr: None, ..from };
    // SAFETY: refused, as the three that follow.
    let write = |comm, from| unsafe { a.net.iwrite(comm, from, to) };
    // SAFETY: refused.
    let read = unsafe { a.net.iread(send, from, to) };
    let answers = [
        (write(recv, from), Code::StaleComm),
        (read, Code::StaleComm),
        (write(send, outside), Code::OutsideRegion),
        (write(send, unregistered), Code::NullArgument),
    ];
    for (answer, code) in answers {
        assert_eq!(answer.unwrap_err().code(), code);
    }
    buffer.free(&a.net, send);
    a.net.close_send(send).unwrap();
    a.net.close_recv(recv).unwrap();
}

#[test]
fn one_sided_misuse_is_an_error() {
    on_each_provider("one_sided_misuse_is_an_error", misuse);
}
