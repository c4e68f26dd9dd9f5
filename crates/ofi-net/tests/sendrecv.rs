//! The SENDRECV protocol over every provider.
#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use common::peer::{given_handle, peer_process};
use common::{
    Buffer, Side, accept_from, breaking, config, connect, connect_to, end_quietly, finish,
    in_one_process, irecv, isend, listen, on_each_provider, on_providers, pattern, say, sendrecv,
    until, until_error, wait,
};
use efa_fabric::{Caps, Hints, Library, Port, Posted, consts};
use ofi_net::log::Level;
use ofi_net::{Code, Config, Protocol, Transport};
use ofi_sendrecv::limits::FIRST_TAG;
use std::sync::Arc;

const SIZES: [usize; 12] = [
    0,
    1,
    64,
    1000,
    4096,
    16_385,
    65_536,
    100_000,
    200_000,
    1 << 20,
    3 << 20,
    4 << 20,
];

fn pair() -> (Side, Side) {
    (Side::new(sendrecv()), Side::new(sendrecv()))
}

fn every_size_there_and_back() {
    let (a, b) = pair();
    assert_eq!(a.net.protocol(), Protocol::SendRecv);
    for (from, to) in [(&a, &b), (&b, &a)] {
        let (send, recv) = connect(&from.net, &to.net);
        for (seed, &size) in SIZES.iter().enumerate() {
            for recv_first in [true, false] {
                let mut source = Buffer::new(&from.net, send, pattern(seed, size.max(1)));
                let mut sink = Buffer::new(&to.net, recv, vec![0xAA; size + 64]);
                let (s, r) = if recv_first {
                    let r = irecv(&to.net, recv, &mut sink, 32, size);
                    (isend(&from.net, send, &mut source, 0, size), r)
                } else {
                    let s = isend(&from.net, send, &mut source, 0, size);
                    (s, irecv(&to.net, recv, &mut sink, 32, size))
                };
                let sizes = finish(&from.net, s, &to.net, r);
                assert_eq!(sizes, (size as u64, size as u64));
                let (source, sink) = (source.free(&from.net, send), sink.free(&to.net, recv));
                assert!(sink[32..32 + size] == source[..size], "{size} bytes");
                let guards = sink[..32].iter().chain(&sink[32 + size..]);
                assert!(guards.copied().all(|byte| byte == 0xAA));
            }
        }
        from.net.close_send(send).unwrap();
        to.net.close_recv(recv).unwrap();
    }
    end_quietly((a, b));
}

#[test]
fn every_size_arrives() {
    in_one_process("every_size_arrives", every_size_there_and_back);
}

/// More room than there is to receive is told by the size.
fn flush_and_size() {
    let (a, b) = pair();
    let (send, recv) = connect(&a.net, &b.net);
    let mut source = Buffer::new(&a.net, send, pattern(1, 500));
    let mut sink = Buffer::new(&b.net, recv, vec![0; 8192]);
    let r = irecv(&b.net, recv, &mut sink, 0, 8192);
    let s = isend(&a.net, send, &mut source, 0, 500);
    assert_eq!(finish(&a.net, s, &b.net, r), (500, 500));
    let (at, mr) = (sink.at(0), sink.mr);
    // SAFETY: the buffer lives until its region is deregistered.
    let flush = unsafe { b.net.iflush(recv, at, 500, mr) }.unwrap();
    assert_eq!(wait(&b.net, flush.unwrap()), 4, "protocol 2l");
    source.free(&a.net, send);
    sink.free(&b.net, recv);
}

#[test]
fn flush_reads_and_sizes_are_told() {
    in_one_process("flush_reads_and_sizes_are_told", flush_and_size);
}

/// Both ends in one transport and one thread: connect is done before accept is called.
fn to_itself() {
    let a = Side::new(sendrecv());
    let (listener, mut handle) = listen(&a.net);
    let send = connect_to(&a.net, &mut handle);
    let recv = accept_from(&a.net, listener);
    let mut source = Buffer::new(&a.net, send, pattern(3, 5000));
    let mut sink = Buffer::new(&a.net, recv, vec![0; 5000]);
    let r = irecv(&a.net, recv, &mut sink, 0, 5000);
    let s = isend(&a.net, send, &mut source, 0, 5000);
    assert_eq!(finish(&a.net, s, &a.net, r), (5000, 5000));
    assert!(sink.free(&a.net, recv) == source.free(&a.net, send));
}

#[test]
fn a_process_connects_to_itself() {
    on_each_provider("a_process_connects_to_itself", to_itself);
}

/// v4: connect gives the communicator at once, and isend says "not now" until it is connected.
fn by_v4() {
    let (a, b) = pair();
    let (listener, handle) = listen(&b.net);
    let mut short = [0; 64];
    short.copy_from_slice(&handle[..64]);
    let send = a.net.connect_v4(0, &mut short).unwrap();
    let mut source = Buffer::new(&a.net, send, pattern(4, 100));
    let s = isend(&a.net, send, &mut source, 0, 100);
    let recv = b.net.accept_blocking(listener).unwrap();
    let mut sink = Buffer::new(&b.net, recv, vec![0; 100]);
    let r = irecv(&b.net, recv, &mut sink, 0, 100);
    assert_eq!(finish(&a.net, s, &b.net, r), (100, 100));
}

#[test]
fn v4_connects_in_one_call() {
    in_one_process("v4_connects_in_one_call", by_v4);
}

fn what_it_says_of_itself() {
    let a = Side::new(sendrecv());
    let properties = a.net.properties(0).unwrap();
    assert!(!properties.reg_is_global && !properties.rma_supported);
    assert_eq!(properties.max_comms, i32::MAX.unsigned_abs());
    let (listener, mut handle) = listen(&a.net);
    assert_eq!(
        handle[56..60],
        (FIRST_TAG + 1).to_le_bytes(),
        "the tag: the spare listener has the first one"
    );
    assert!(handle[60..88].iter().all(|&byte| byte == 0));
    let send = connect_to(&a.net, &mut handle);
    let buffer = Buffer::new(&a.net, send, vec![0; 64]);
    let refused = a.net.mr_key(buffer.mr).unwrap_err();
    assert_eq!(refused.code(), Code::OneSided);
    assert!(refused.to_string().contains("SENDRECV"), "{refused}");
    a.net.close_listen(listener).unwrap();
}

#[test]
fn properties_and_what_it_cannot() {
    on_each_provider("properties_and_what_it_cannot", what_it_says_of_itself);
}

/// A receive that is too short: what fits where the provider drops the rest cleanly, else an error of
/// its own, and no message after it is believed.
fn too_short() {
    let (a, b) = pair();
    let (send, recv) = connect(&a.net, &b.net);
    let mut source = Buffer::new(&a.net, send, pattern(5, 190));
    let mut sink = Buffer::new(&b.net, recv, vec![0xAA; 200]);
    let r = irecv(&b.net, recv, &mut sink, 0, 100);
    let s = isend(&a.net, send, &mut source, 0, 190);
    let mut sent = None;
    let outcome = until("the receive to end", || {
        // The send may fail with the connection; the receive says what happened.
        sent = sent.or_else(|| a.net.test(s).ok().flatten());
        b.net.test(r).transpose()
    });
    let version = efa_fabric::Version::of(Library::get().unwrap());
    let provider = std::env::var("FI_PROVIDER").unwrap();
    let drops_cleanly = match provider.as_str() {
        "tcp" => version >= efa_fabric::Version::new(1, 22),
        other => other == "efa",
    };
    if drops_cleanly {
        assert_eq!(outcome, Ok(100));
        assert!(sink.bytes[..100] == source.bytes[..100]);
        let r = irecv(&b.net, recv, &mut sink, 0, 200);
        let s = isend(&a.net, send, &mut source, 0, 150);
        assert_eq!(finish(&a.net, s, &b.net, r), (150, 150));
        assert!(sink.bytes[..150] == source.bytes[..150]);
    } else {
        assert_eq!(outcome.map_err(|error| error.code()), Err(Code::Truncated));
        let (at, mr) = (sink.at(0), sink.mr);
        // SAFETY: the buffer is kept for good.
        let next = unsafe { b.net.irecv(recv, at, 200, Some(mr), false) };
        assert_eq!(next.map_err(|error| error.code()), Err(Code::PeerProtocol));
    }
    assert!(sink.bytes[100..].iter().all(|&byte| byte == 0xAA) || outcome_is_room(&sink.bytes));
}

/// The second message of the good case fills more.
fn outcome_is_room(bytes: &[u8]) -> bool {
    bytes[150..].iter().all(|&byte| byte == 0xAA)
}

#[test]
fn trap_29_a_receive_that_is_too_short_has_a_clear_end() {
    breaking(
        "trap_29_a_receive_that_is_too_short_has_a_clear_end",
        too_short,
    );
}

/// A connection given up before its time leaves nothing: its receive is cancelled, closing is quick.
fn abandoned() {
    let (a, b) = pair();
    for _ in 0..20 {
        let (listener, _) = listen(&b.net);
        assert_eq!(b.net.accept(listener), Ok(None));
        b.net.close_listen(listener).unwrap();
    }
    // Receives in flight come back: the region is free at once.
    let (send, recv) = connect(&a.net, &b.net);
    let mut sink = Buffer::new(&b.net, recv, vec![0; 4096]);
    let flying = irecv(&b.net, recv, &mut sink, 0, 4096);
    let (_, other) = connect(&a.net, &b.net);
    b.net.close_recv(recv).unwrap();
    assert_eq!(
        b.net.test(flying).map_err(|error| error.code()),
        Err(Code::StaleRequest)
    );
    let start = std::time::Instant::now();
    sink.free(&b.net, other);
    assert!(
        start.elapsed().as_secs() < 4,
        "deregMr waited for its bound"
    );
    a.net.close_send(send).unwrap();
}

#[test]
fn what_is_given_up_leaves_nothing() {
    in_one_process("what_is_given_up_leaves_nothing", abandoned);
}

/// Trap 29.
fn second_sender() {
    let (a, b) = pair();
    let (listener, handle) = listen(&b.net);
    let (mut first, mut second) = (handle, handle);
    let send = connect_to(&a.net, &mut first);
    let recv = accept_from(&b.net, listener);
    let mut sink = Buffer::new(&b.net, recv, vec![0; 64]);
    let waiting = irecv(&b.net, recv, &mut sink, 0, 64);
    connect_to(&a.net, &mut second);
    let error = until_error("the second sender to be told", || b.net.test(waiting));
    assert_eq!(error.code(), Code::PeerProtocol);
    assert!(error.to_string().contains("second sender"), "{error}");
    a.net.close_send(send).unwrap();
}

#[test]
fn trap_29_two_senders_on_one_tag_do_not_mix() {
    in_one_process("trap_29_two_senders_on_one_tag_do_not_mix", second_sender);
}

/// A stranger sends rubbish where connect messages are awaited; real connections go on.
fn garbage() {
    let provider = std::ffi::CString::new(std::env::var("FI_PROVIDER").unwrap()).unwrap();
    let (a, b) = pair();
    let (listener, mut handle) = listen(&b.net);
    let infos = Hints::rdm(Caps::TAGGED | Caps::MSG)
        .provider(&provider)
        .msg_order(consts::FI_ORDER_SAS)
        .query(Library::get().unwrap())
        .unwrap();
    let ours = |info: &&efa_fabric::Info| info.provider_name() == provider.to_str().unwrap();
    let lo = infos
        .iter()
        .filter(ours)
        .find(|info| info.domain_name() == "lo");
    // EFA has no such interface, but a network of its own.
    let info = lo.or_else(|| infos.iter().find(ours)).unwrap();
    let mut stranger = Port::open(info).unwrap();
    let to = stranger
        .insert(&handle[..stranger.name().unwrap().len()])
        .unwrap();
    let control = 1 << (63 - info.mem_tag_format().leading_zeros());
    let tag = control | u64::from(u32::from_le_bytes(handle[56..60].try_into().unwrap()));
    for len in [0, 1, 16, 64] {
        until("a message of a stranger to go out", || {
            stranger.poll().unwrap();
            let posted = stranger.tinject(&vec![0xFF; len], to, tag).unwrap();
            (posted == Posted::Accepted).then_some(())
        });
    }
    until("the rubbish to be dropped", || {
        stranger.poll().unwrap();
        assert_eq!(b.net.accept(listener), Ok(None));
        (b.net.counters(0).unwrap().strays >= 4).then_some(())
    });
    let send = connect_to(&a.net, &mut handle);
    let recv = accept_from(&b.net, listener);
    let mut source = Buffer::new(&a.net, send, pattern(6, 64));
    let mut sink = Buffer::new(&b.net, recv, vec![0; 64]);
    let r = irecv(&b.net, recv, &mut sink, 0, 64);
    let s = isend(&a.net, send, &mut source, 0, 64);
    assert_eq!(finish(&a.net, s, &b.net, r), (64, 64));
}

#[test]
fn garbage_at_the_tag_is_dropped() {
    on_providers(
        "garbage_at_the_tag_is_dropped",
        |provider| provider != "shm",
        garbage,
    );
}

/// A handle of the other protocol: an error, or a deadline whose text names the likely cause.
fn handles_of_the_other_protocol() {
    let quick = |config: Config| Config {
        connect_timeout_ms: 1000,
        stall_fail_ms: Some(1000),
        ..config
    };
    let (rdma, tagged) = (Side::new(quick(config(1))), Side::new(quick(sendrecv())));
    let (_, mut handle) = listen(&tagged.net);
    let error = until_error("RDMA refuses it", || rdma.net.connect(0, &mut handle));
    assert_eq!(error.code(), Code::CorruptHandle);
    assert!(error.to_string().contains("OFI_NCCL_PROTOCOL"), "{error}");

    // A BASE peer counts its listeners from 1.
    handle[56..60].copy_from_slice(&7_u32.to_le_bytes());
    let error = until_error("RDMA gives up", || rdma.net.connect(0, &mut handle));
    assert_eq!(error.code(), Code::ConnectTimeout);
    assert!(error.to_string().contains("OFI_NCCL_PROTOCOL"), "{error}");
    assert_eq!(tagged.log.at(Level::Warn), Vec::<String>::new());

    // Listener 0 of RDMA is no tag at all.
    let mut zero = [0; 128];
    zero[..56].copy_from_slice(&handle[..56]);
    let error = tagged.net.connect(0, &mut zero).unwrap_err();
    assert_eq!(error.code(), Code::CorruptHandle);
    assert!(error.to_string().contains("OFI_NCCL_PROTOCOL"), "{error}");

    // Others are, and nobody answers: connect may be done, and so may a message be on native tcp, which
    // takes all of it before anybody receives. Elsewhere a large one tells.
    let (_, mut handle) = listen(&rdma.net);
    let ended = sent_to_nobody(&tagged, &mut handle);
    let warned = tagged.log.at(Level::Warn);
    let foreign = warned.iter().filter(|line| line.contains("OFI-W0414"));
    assert_eq!(foreign.count(), 1, "{warned:?}");
    let Some(error) = ended else {
        assert_eq!(std::env::var("FI_PROVIDER").as_deref(), Ok("tcp"));
        return;
    };
    let codes = [Code::Stalled, Code::ConnectTimeout, Code::Operation];
    assert!(codes.contains(&error.code()), "{error}");
    if error.code() != Code::Operation {
        assert!(error.to_string().contains("OFI_NCCL_PROTOCOL"), "{error}");
    }
}

/// The error that connecting, or sending 4 MiB, ends with; `None` if both are done.
fn sent_to_nobody(side: &Side, handle: &mut [u8; 128]) -> Option<ofi_net::NetError> {
    let connected = until("connect to end", || side.net.connect(0, handle).transpose());
    let send = match connected {
        Ok(send) => send,
        Err(error) => return Some(error),
    };
    let mut source = Buffer::new(&side.net, send, vec![0; 4 << 20]);
    let request = isend(&side.net, send, &mut source, 0, 4 << 20);
    until("the send to end", || side.net.test(request).transpose()).err()
}

/// shm of 1.22 follows a null pointer when an endpoint without tags is closed that was sent a tagged
/// message (seen as a stack, below `fi_close`); `ofi_rxm` of 1.17 closes badly too.
#[test]
fn a_handle_of_the_other_protocol_has_a_clear_end() {
    on_providers(
        "a_handle_of_the_other_protocol_has_a_clear_end",
        |provider| {
            let sound = provider == "net" || provider == "tcp";
            if !sound {
                say("skipped: shm and rxm, closed with a message of the other protocol");
            }
            sound
        },
        handles_of_the_other_protocol,
    );
}

/// A peer that goes away: what waits for it ends, and the rest of the transport goes on.
fn gone() {
    let mut settings = sendrecv();
    settings.stall_fail_ms = Some(1000);
    let (a, b) = (Side::new(sendrecv()), Side::new(settings));
    let (_send, recv) = connect(&a.net, &b.net);
    let mut sink = Buffer::new(&b.net, recv, vec![0; 64]);
    let waiting = irecv(&b.net, recv, &mut sink, 0, 64);
    drop(a);
    let error = until_error("the receive to end", || b.net.test(waiting));
    assert!(
        [Code::Stalled, Code::Operation].contains(&error.code()),
        "{error}"
    );
    let c = Side::new(sendrecv());
    let (send, recv) = connect(&c.net, &b.net);
    let mut source = Buffer::new(&c.net, send, pattern(7, 64));
    let mut sink = Buffer::new(&b.net, recv, vec![0; 64]);
    let r = irecv(&b.net, recv, &mut sink, 0, 64);
    let s = isend(&c.net, send, &mut source, 0, 64);
    assert_eq!(finish(&c.net, s, &b.net, r), (64, 64));
}

#[test]
fn a_peer_that_is_gone_ends_its_requests_only() {
    breaking("a_peer_that_is_gone_ends_its_requests_only", gone);
}

const KILLED: &str = "a_killed_peer_ends_the_requests_that_wait_for_it";

/// Another process connects, and is killed while a receive waits for it.
fn killed() {
    let mut settings = sendrecv();
    settings.stall_fail_ms = Some(1000);
    let side = Side::new(settings);
    if let Some(mut handle) = given_handle() {
        connect_to(&side.net, &mut handle);
        until("to be killed", || None::<()>);
    }
    let (listener, handle) = listen(&side.net);
    let other = peer_process(KILLED, &handle);
    let recv = accept_from(&side.net, listener);
    let mut sink = Buffer::new(&side.net, recv, vec![0; 64]);
    let waiting = irecv(&side.net, recv, &mut sink, 0, 64);
    other.kill();
    let error = until_error("the receive to end", || side.net.test(waiting));
    assert!(
        [Code::Stalled, Code::Operation].contains(&error.code()),
        "{error}"
    );
    // The receive was withdrawn: the memory is free.
    assert_eq!(sink.free(&side.net, recv), [0; 64]);
    side.net.close_recv(recv).unwrap();
}

#[test]
fn a_killed_peer_ends_the_requests_that_wait_for_it() {
    on_each_provider(KILLED, killed);
}

fn chosen(change: impl FnOnce(&mut Config)) -> (Protocol, String) {
    let mut settings = Config {
        protocol: None,
        force_num_rails: None,
        ..config(1)
    };
    change(&mut settings);
    let log = Arc::new(common::Lines::default());
    let net = Transport::init(settings, Arc::clone(&log) as Arc<dyn ofi_net::log::Log>).unwrap();
    let lines = log.at(Level::Info);
    let line = lines.iter().find(|line| line.starts_with("protocol "));
    (net.protocol(), line.unwrap().clone())
}

/// Protocol 2h.2, and one line of the log that says so.
fn choices() {
    let (protocol, line) = chosen(|_| {});
    assert_eq!(protocol, Protocol::SendRecv);
    assert!(line.contains("one NIC a device"), "{line}");
    let (protocol, line) = chosen(|config| config.force_num_rails = Some(4));
    assert_eq!(protocol, Protocol::Rdma);
    assert!(line.contains("4 rails"), "{line}");
    // What the transport is told; libfabric lists what this process has, which unset would be an error here.
    let instance = |name: &str, provider: Option<&str>| {
        chosen(|config| {
            config.product_name = Some(name.to_owned());
            config.fi_provider = provider.map(str::to_owned);
            config.force_num_rails = Some(2);
        })
    };
    let (protocol, line) = instance("trn1.32xlarge", Some("efa"));
    assert_eq!(protocol, Protocol::SendRecv);
    assert!(line.contains("trn1"), "{line}");
    assert_eq!(instance("trn2.48xlarge", Some("efa")).0, Protocol::Rdma);
    // Of no meaning beside another provider than EFA.
    assert_eq!(instance("trn1.32xlarge", Some("tcp")).0, Protocol::Rdma);
    let asked = chosen(|config| config.protocol = Some(Protocol::Rdma));
    assert_eq!(asked.0, Protocol::Rdma);
    assert!(asked.1.contains("asked for"), "{}", asked.1);
}

#[test]
fn the_protocol_is_chosen_as_the_reference_does() {
    on_providers(
        "the_protocol_is_chosen_as_the_reference_does",
        |provider| provider == "net" || provider == "tcp",
        choices,
    );
}
