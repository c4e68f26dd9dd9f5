//! Several domains on one device: one for each thread (protocol 2d.1, `OFI_NCCL_DOMAIN_PER_THREAD`), over
//! both protocols.
#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use common::{
    Buffer, Side, config, connect, finish, in_one_process, irecv, isend, on_providers, pattern,
    sendrecv,
};
use ofi_net::params::Flavour::{self, Nccl, Neuron};
use ofi_net::{Code, CommWord, Config, MemoryKind, Protocol, Transport};

fn rdma() -> Config {
    config(1)
}

/// One side with a domain a thread, and one without.
fn sides(base: fn() -> Config) -> (Side, Side) {
    let per_thread = Config {
        domain_per_thread: Some(true),
        ..base()
    };
    (Side::new(per_thread), Side::new(base()))
}

/// One message from `send` to `recv`, whoever calls.
fn exchange(a: &Transport, send: CommWord, b: &Transport, recv: CommWord, seed: usize) {
    let bytes = pattern(seed, 20_000);
    let mut from = Buffer::new(a, send, bytes.clone());
    let mut to = Buffer::new(b, recv, vec![0; bytes.len()]);
    let received = irecv(b, recv, &mut to, 0, bytes.len());
    let sent = isend(a, send, &mut from, 0, bytes.len());
    assert_eq!(finish(a, sent, b, received), (20_000, 20_000));
    from.free(a, send);
    assert!(to.free(b, recv) == bytes, "seed {seed}");
}

/// Runs `f` in a thread of its own that sees to both sides while it waits.
fn in_thread<R: Send>(a: &Side, b: &Side, f: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            a.watch();
            b.watch();
            f()
        });
        thread.join().unwrap()
    })
}

fn any_thread_may_call(base: fn() -> Config) {
    let (a, b) = sides(base);
    let own = connect(&a.net, &b.net);
    // Both at once: a thread that has ended leaves its domain to the next one.
    let (first, second) = in_thread(&a, &b, || {
        let first = connect(&a.net, &b.net);
        (first, in_thread(&a, &b, || connect(&b.net, &a.net)))
    });
    assert_eq!((a.net.domains(0), b.net.domains(0)), (Ok(3), Ok(1)));
    for round in 0..4 {
        exchange(&a.net, own.0, &b.net, own.1, round);
        exchange(&a.net, first.0, &b.net, first.1, 10 + round);
        exchange(&b.net, second.0, &a.net, second.1, 20 + round);
    }
    let counters = a.net.counters(0).unwrap();
    assert_eq!((counters.sends, counters.recvs), (8, 4), "of all domains");
}

#[test]
fn each_thread_has_a_domain_and_any_thread_may_call() {
    in_one_process("each_thread_has_a_domain_and_any_thread_may_call", || {
        let (a, b) = sides(rdma);
        assert!(!a.net.properties(0).unwrap().reg_is_global);
        assert!(b.net.properties(0).unwrap().reg_is_global);
        drop((a, b));
        any_thread_may_call(rdma);
    });
}

#[test]
fn over_sendrecv_each_thread_has_a_domain_and_any_thread_may_call() {
    in_one_process(
        "over_sendrecv_each_thread_has_a_domain_and_any_thread_may_call",
        || any_thread_may_call(sendrecv),
    );
}

fn foreign_registration(base: fn() -> Config) {
    let (a, b) = sides(base);
    let own = connect(&a.net, &b.net);
    let (other, _) = in_thread(&a, &b, || connect(&a.net, &b.net));
    let mut buffer = Buffer::new(&a.net, own.0, vec![7; 4096]);
    let error = a.net.dereg_mr(other, buffer.mr).unwrap_err();
    assert_eq!(error.code(), Code::StaleRegion);
    assert!(error.to_string().contains("regIsGlobal"), "{error}");
    let (at, mr) = (buffer.at(0), buffer.mr);
    // SAFETY: refused; the buffer is kept until it is deregistered.
    let error = unsafe { a.net.isend(other, at, 4096, Some(mr)) }.unwrap_err();
    assert_eq!(error.code(), Code::StaleRegion);
    assert!(error.to_string().contains("regIsGlobal"), "{error}");
    buffer.free(&a.net, own.0);
}

#[test]
fn a_registration_of_another_domain_is_refused_by_name() {
    in_one_process(
        "a_registration_of_another_domain_is_refused_by_name",
        || foreign_registration(rdma),
    );
}

#[test]
fn over_sendrecv_a_registration_of_another_domain_is_refused_by_name() {
    in_one_process(
        "over_sendrecv_a_registration_of_another_domain_is_refused_by_name",
        || foreign_registration(sendrecv),
    );
}

fn handed_on(base: fn() -> Config) {
    let (a, b) = sides(base);
    let kept = in_thread(&a, &b, || connect(&a.net, &b.net));
    let stale = in_thread(&a, &b, || {
        let (send, recv) = connect(&a.net, &b.net);
        exchange(&a.net, send, &b.net, recv, 1);
        a.net.close_send(send).unwrap();
        b.net.close_recv(recv).unwrap();
        send
    });
    for seed in 0..10 {
        in_thread(&a, &b, || {
            let (send, recv) = connect(&a.net, &b.net);
            exchange(&a.net, send, &b.net, recv, seed);
            a.net.close_send(send).unwrap();
            b.net.close_recv(recv).unwrap();
        });
    }
    // This thread's, that of the thread whose communicator is open, and one for all others; one
    // more where a thread was still seen when the next one asked.
    assert!(a.net.domains(0).unwrap() <= 4, "{:?}", a.net.domains(0));
    exchange(&a.net, kept.0, &b.net, kept.1, 99);
    assert_eq!(
        a.net.close_send(stale).unwrap_err().code(),
        Code::StaleComm,
        "its domain lives, with others in it"
    );
}

#[test]
fn domains_of_ended_threads_are_handed_on_once_they_are_unused() {
    in_one_process(
        "domains_of_ended_threads_are_handed_on_once_they_are_unused",
        || handed_on(rdma),
    );
}

#[test]
fn over_sendrecv_domains_of_ended_threads_are_handed_on_once_they_are_unused() {
    in_one_process(
        "over_sendrecv_domains_of_ended_threads_are_handed_on_once_they_are_unused",
        || handed_on(sendrecv),
    );
}

fn shared(base: fn() -> Config) {
    let (a, b) = (Side::new(base()), Side::new(base()));
    let own = connect(&a.net, &b.net);
    let (other, _) = in_thread(&a, &b, || connect(&a.net, &b.net));
    assert_eq!(a.net.domains(0), Ok(1));
    let bytes = [1_u8; 64];
    // SAFETY: the bytes outlive the registration.
    let mr = unsafe {
        a.net.reg_mr(
            own.0,
            bytes.as_ptr().cast_mut().cast(),
            64,
            MemoryKind::Host,
        )
    };
    a.net
        .dereg_mr(other, mr.unwrap())
        .expect("one registration serves both");
}

#[test]
fn threads_share_a_domain_unless_told_otherwise() {
    in_one_process("threads_share_a_domain_unless_told_otherwise", || {
        shared(rdma);
    });
}

#[test]
fn over_sendrecv_threads_share_a_domain_unless_told_otherwise() {
    in_one_process(
        "over_sendrecv_threads_share_a_domain_unless_told_otherwise",
        || shared(sendrecv),
    );
}

/// Neuron instances have a domain a thread in the Neuron plugin, as the platform table says (2h.5).
#[test]
fn the_platform_decides_unless_the_user_does() {
    in_one_process("the_platform_decides_unless_the_user_does", || {
        let on = |product: &str, flavour, asked| {
            let config = Config {
                flavour,
                product_name: Some(product.to_owned()),
                domain_per_thread: asked,
                ..config(1)
            };
            let side = Side::new(config);
            side.net.properties(0).unwrap().reg_is_global
        };
        assert!(!on("trn2.48xlarge", Neuron, None));
        assert!(on("trn2.48xlarge", Neuron, Some(false)));
        assert!(on("trn2.48xlarge", Nccl, None));
        assert!(on("p5.48xlarge", Neuron, None));
    });
}

/// trn1 and inf speak SENDRECV with a domain a thread (2h.5), where the provider may be EFA.
fn sendrecv_by_platform() {
    let domains = |product: &str, flavour: Flavour, asked| {
        let config = Config {
            flavour,
            product_name: Some(product.to_owned()),
            // The process has another: unset would be an error on these types.
            fi_provider: Some("efa".to_owned()),
            protocol: None,
            domain_per_thread: asked,
            ..config(1)
        };
        let side = Side::new(config);
        assert_eq!(side.net.protocol(), Protocol::SendRecv, "{product}");
        let listened = std::thread::scope(|scope| {
            let thread = scope.spawn(|| side.net.listen(0, &mut [0; 128]).map(drop));
            thread.join().unwrap()
        });
        listened.unwrap();
        side.net.domains(0).unwrap()
    };
    assert_eq!(domains("trn1.32xlarge", Neuron, None), 2);
    assert_eq!(domains("inf2.48xlarge", Neuron, None), 2);
    assert_eq!(domains("trn1.32xlarge", Neuron, Some(false)), 1);
    assert_eq!(domains("trn1.32xlarge", Nccl, None), 1);
    assert_eq!(domains("p4d.24xlarge", Neuron, None), 1);
    assert_eq!(domains("p4d.24xlarge", Neuron, Some(true)), 2);
}

#[test]
fn over_sendrecv_the_platform_decides_unless_the_user_does() {
    on_providers(
        "over_sendrecv_the_platform_decides_unless_the_user_does",
        |provider| provider == "net" || provider == "tcp",
        sendrecv_by_platform,
    );
}
