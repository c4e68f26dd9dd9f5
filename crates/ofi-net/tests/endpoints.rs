//! An endpoint for each communicator of a peer (protocol 2d.1, `OFI_NCCL_ENDPOINT_PER_COMM`).
#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use common::peer::{given_handle, peer_process};
use common::{
    Buffer, PATIENCE, Side, accept_from, config, connect, connect_to, in_one_process, irecv, isend,
    listen, on_each_provider, pattern, until, wait,
};
use ofi_net::{Code, CommWord, Config, Transport};

/// Longer than an eager message: the sender needs the receiver's address first.
const LONG: usize = 1 << 20;

fn per_comm() -> Config {
    Config {
        endpoint_per_comm: true,
        ..config(2)
    }
}

fn send(net: &Transport, comm: CommWord, bytes: Vec<u8>) {
    let len = bytes.len();
    let mut buffer = Buffer::new(net, comm, bytes);
    let request = isend(net, comm, &mut buffer, 0, len);
    assert_eq!(wait(net, request), len as u64);
    buffer.free(net, comm);
}

fn recv(net: &Transport, comm: CommWord, len: usize) -> Vec<u8> {
    let mut buffer = Buffer::new(net, comm, vec![0; len]);
    let request = irecv(net, comm, &mut buffer, 0, len);
    assert_eq!(wait(net, request), len as u64);
    buffer.free(net, comm)
}

/// Sends on `out`, receives on `back`, and asks only about the receive, which the peer answers when it
/// has the whole send: that needs progress where nobody asks.
fn answered(net: &Transport, out: CommWord, back: CommWord, seed: usize) {
    let mut sent = Buffer::new(net, out, pattern(seed, LONG));
    let mut answer = Buffer::new(net, back, vec![0; LONG]);
    let sending = isend(net, out, &mut sent, 0, LONG);
    let receiving = irecv(net, back, &mut answer, 0, LONG);
    // `wait` would see to the other domain by itself.
    let start = std::time::Instant::now();
    while net.test(receiving).unwrap().is_none() {
        assert!(start.elapsed() < PATIENCE, "no progress on the sends");
    }
    assert_eq!(wait(net, sending), LONG as u64);
    sent.free(net, out);
    assert!(answer.free(net, back) == pattern(seed + 1, LONG));
}

fn answer(net: &Transport, out: CommWord, back: CommWord, seed: usize) {
    assert!(recv(net, back, LONG) == pattern(seed, LONG));
    send(net, out, pattern(seed + 1, LONG));
}

fn parent(net: &Transport, name: &str) {
    let (first, handle) = listen(net);
    let other = peer_process(name, &handle);
    let first = accept_from(net, first);
    let mut theirs: [u8; 128] = recv(net, first, 128).try_into().unwrap();
    let out = connect_to(net, &mut theirs);
    let mut comms = vec![first];
    for seed in 0..2 {
        let (listener, handle) = listen(net);
        send(net, out, handle.to_vec());
        comms.push(accept_from(net, listener));
        answered(net, out, comms[seed], seed);
    }
    assert_eq!(
        net.domains(0),
        Ok(1 + comms.len()),
        "one that listens and sends, and one for each communicator of the peer"
    );
    for (seed, &comm) in comms.iter().enumerate() {
        answered(net, out, comm, 10 + seed);
    }
    // A closed one makes room for the next.
    send(net, out, vec![1]);
    assert_eq!(recv(net, comms[1], 1), [2]);
    net.close_recv(comms.remove(1)).unwrap();
    let (listener, handle) = listen(net);
    send(net, out, handle.to_vec());
    comms.push(accept_from(net, listener));
    answered(net, out, comms[2], 20);
    assert_eq!(net.domains(0), Ok(4));
    send(net, out, vec![3]);
    for comm in comms {
        net.close_recv(comm).unwrap();
    }
    net.close_send(out).unwrap();
    other.finish();
}

fn child(net: &Transport, mut handle: [u8; 128]) {
    let connect_next = |net: &Transport, back: CommWord| {
        let mut handle: [u8; 128] = recv(net, back, 128).try_into().unwrap();
        connect_to(net, &mut handle)
    };
    let first = connect_to(net, &mut handle);
    let (listener, own) = listen(net);
    send(net, first, own.to_vec());
    let back = accept_from(net, listener);
    let mut outs = vec![first];
    for seed in 0..2 {
        outs.push(connect_next(net, back));
        answer(net, outs[seed], back, seed);
    }
    for (seed, &out) in outs.iter().enumerate() {
        answer(net, out, back, 10 + seed);
    }
    assert_eq!(recv(net, back, 1), [1]);
    send(net, outs[1], vec![2]);
    let closed = outs.remove(1);
    net.close_send(closed).unwrap();
    outs.push(connect_next(net, back));
    answer(net, outs[2], back, 20);
    assert_eq!(recv(net, back, 1), [3]);
    for out in outs {
        net.close_send(out).unwrap();
    }
    net.close_recv(back).unwrap();
}

#[test]
fn trap_25_each_communicator_has_endpoints_and_none_starves() {
    const NAME: &str = "trap_25_each_communicator_has_endpoints_and_none_starves";
    on_each_provider(NAME, || {
        let side = Side::new(per_comm());
        assert!(!side.net.properties(0).unwrap().reg_is_global);
        match given_handle() {
            Some(handle) => child(&side.net, handle),
            None => parent(&side.net, NAME),
        }
    });
}

#[test]
fn a_peer_without_the_setting_does_not_notice() {
    const NAME: &str = "a_peer_without_the_setting_does_not_notice";
    on_each_provider(NAME, || match given_handle() {
        Some(handle) => child(&Side::new(config(2)).net, handle),
        None => parent(&Side::new(per_comm()).net, NAME),
    });
}

#[test]
fn closing_a_listener_ends_what_was_being_made_for_it() {
    in_one_process("closing_a_listener_ends_what_was_being_made_for_it", || {
        let (a, b) = (Side::new(config(2)), Side::new(per_comm()));
        // After more and more steps of accept: before, while and after a communicator is made.
        for steps in [0, 1, 2, 3, 5, 8, 13, 50, 200] {
            let (listener, mut handle) = listen(&b.net);
            let mut accepted = None;
            for _ in 0..steps {
                // Connected perhaps; what becomes of it is not the subject here.
                let connected = a.net.connect(0, &mut handle);
                assert!(connected.is_ok() || accepted.is_some(), "{connected:?}");
                if accepted.is_none() {
                    accepted = b.net.accept(listener).unwrap();
                }
            }
            b.net.close_listen(listener).unwrap();
            if let Some(comm) = accepted {
                b.net.close_recv(comm).unwrap();
            }
        }
        // The one domain for it is free again.
        connect(&a.net, &b.net);
        assert_eq!(b.net.domains(0), Ok(2));
        let second = connect(&a.net, &b.net);
        assert_eq!(b.net.domains(0), Ok(3));
        b.net.close_recv(second.1).unwrap();
        let gone = b.net.close_recv(second.1).unwrap_err();
        assert_eq!(gone.code(), Code::StaleComm);
    });
}

#[test]
fn a_listener_gives_one_connection_and_refuses_other_rails() {
    in_one_process(
        "a_listener_gives_one_connection_and_refuses_other_rails",
        || {
            let (a, b) = (Side::new(config(1)), Side::new(per_comm()));
            let (listener, mut handle) = listen(&b.net);
            let (mut refused, mut told) = (None, None);
            until("a refusal on both sides", || {
                refused = refused.take().or_else(|| b.net.accept(listener).err());
                told = told.take().or_else(|| a.net.connect(0, &mut handle).err());
                (refused.is_some() && told.is_some()).then_some(())
            });
            assert_eq!(refused.unwrap().code(), Code::Mismatch);
            assert_eq!(told.unwrap().code(), Code::Mismatch);
            let c = Side::new(config(2));
            handle[64..88].fill(0);
            let (mut up, mut accepted) = (None, None);
            until("the listener's next connection", || {
                up = up.or_else(|| c.net.connect(0, &mut handle).unwrap());
                accepted = accepted.or_else(|| b.net.accept(listener).unwrap());
                up.zip(accepted)
            });
            let again = b.net.accept(listener).unwrap_err();
            assert_eq!(again.code(), Code::AlreadyAccepted);
        },
    );
}

#[test]
fn threads_and_communicators_cannot_both_have_domains() {
    let both = Config {
        domain_per_thread: Some(true),
        ..per_comm()
    };
    let error = both.check().unwrap_err();
    assert_eq!(error.code(), Code::Contradiction);
    assert!(error.to_string().contains("OFI_NCCL_DOMAIN_PER_THREAD"));
}
