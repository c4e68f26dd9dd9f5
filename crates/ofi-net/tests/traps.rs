//! Traps of protocol section 4 that lie in this crate and in no other test file (22, 23, 32:
//! `registration.rs`; 25: `endpoints.rs`; 6: `agreement.rs`; 8: `misuse.rs`; 27, 34: unit tests).
#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use common::{
    Buffer, PATIENCE, Side, config, connect, finish, in_one_process, irecv, isend,
    on_each_provider, pattern, wait,
};
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use ofi_net::log::NoLog;
use ofi_net::{Code, Config, Transport};
use std::sync::Arc;
use std::time::Instant;

fn refusal(config: Config) -> Code {
    Transport::init(config, Arc::new(NoLog)).unwrap_err().code()
}

/// Trap 7: more than 4 rails overrun the arrays of the wire. Here they do not get so far.
#[test]
fn trap_07_more_than_four_rails_are_refused() {
    on_each_provider("trap_07_more_than_four_rails_are_refused", || {
        for rails in [5, 8, 255] {
            assert_eq!(refusal(config(rails)), Code::Grouping, "{rails}");
        }
        let nic = Side::new(config(1)).net.properties(0).unwrap().name.clone();
        let group = |count| Config {
            nic_groups: Some(vec![nic.as_str(); count].join(",")),
            force_num_rails: None,
            ..config(1)
        };
        assert_eq!(refusal(group(5)), Code::Grouping);
        assert_eq!(refusal(group(200)), Code::Grouping);
    });
}

/// Trap 19: receivers run 128 messages ahead on every communicator; all their CTRLs find a buffer and are
/// kept until the sends are called.
#[test]
fn trap_19_many_receivers_run_ahead() {
    in_one_process("trap_19_many_receivers_run_ahead", || {
        const COMMS: usize = 6;
        let (a, b) = (Side::new(config(2)), Side::new(config(2)));
        let mut flows: Vec<_> = (0..COMMS)
            .map(|seed| {
                let (send, recv) = connect(&a.net, &b.net);
                let source = Buffer::new(&a.net, send, pattern(seed, 128 * 100));
                let sink = Buffer::new(&b.net, recv, vec![0; 128 * 100]);
                (send, recv, source, sink)
            })
            .collect();
        let received: Vec<Vec<_>> = flows
            .iter_mut()
            .map(|(_, recv, _, sink)| {
                let ahead = 0..128;
                ahead
                    .map(|n| irecv(&b.net, *recv, sink, n * 100, 100))
                    .collect()
            })
            .collect();
        // Last communicator first, so that the CTRLs of the others wait longest.
        for (send, _, source, _) in flows.iter_mut().rev() {
            let sent: Vec<_> = (0..128)
                .map(|n| isend(&a.net, *send, source, n * 100, 100))
                .collect();
            for request in sent {
                assert_eq!(wait(&a.net, request), 100);
            }
        }
        for request in received.into_iter().flatten() {
            assert_eq!(wait(&b.net, request), 100);
        }
        for (seed, (send, recv, source, sink)) in flows.into_iter().enumerate() {
            source.free(&a.net, send);
            assert!(sink.free(&b.net, recv) == pattern(seed, 128 * 100));
        }
    });
}

/// Trap 24: a caller that only posts still moves what it posted, on every rail, also with one control
/// rail: looking for a CTRL looks at all completion queues.
#[test]
fn trap_24_posting_alone_moves_every_rail() {
    in_one_process("trap_24_posting_alone_moves_every_rail", || {
        // More on each rail than the system takes at once.
        const BIG: usize = 64 << 20;
        // Fewer than make the engine say "not now", which looks at everything.
        const CALLS: usize = 100;
        const PAUSE: Duration = Duration::from_millis(50);
        let one_control_rail = || Config {
            rr_ctrl_msg: false,
            ..config(4)
        };
        let (a, b) = (Side::new(one_control_rail()), Side::new(one_control_rail()));
        let (send, recv) = connect(&a.net, &b.net);
        let mut source = Buffer::new(&a.net, send, pattern(1, 1 << 16).repeat(BIG >> 16));
        let mut sink = Buffer::new(&b.net, recv, vec![0; BIG]);
        // Some providers connect a rail when it is first used.
        let first = irecv(&b.net, recv, &mut sink, 0, BIG);
        let sent = isend(&a.net, send, &mut source, 0, BIG);
        finish(&a.net, sent, &b.net, first);
        sink.bytes.fill(0);

        let received = irecv(&b.net, recv, &mut sink, 0, BIG);
        let (at, mr, mut posted) = (source.at(0), source.mr, Vec::new());
        // Nothing but isend on this side from here on: beyond the first no CTRL is ever there.
        let has_arrived = (0..CALLS).any(|_| {
            // SAFETY: the buffer outlives the transport's use of it.
            posted.extend(unsafe { a.net.isend(send, at, BIG, Some(mr)) }.unwrap());
            let start = Instant::now();
            let mut done = false;
            while !done && start.elapsed() < PAUSE {
                done = b.net.test(received).unwrap().is_some();
            }
            done
        });
        assert!(has_arrived, "a rail waits for the sender to test");
        assert!(*sink.bytes == *source.bytes);
        // shm of 1.17 does not bear a peer that goes with completions to take.
        wait(&a.net, posted[0]);
    });
}

/// Trap 30: a host that tells no product name (or any other fact) is no crash, and eager messages longer
/// than a stripe are a contradiction with a negative errno, never a positive code.
#[test]
fn trap_30_a_silent_host_and_a_contradiction_are_no_surprise() {
    on_each_provider(
        "trap_30_a_silent_host_and_a_contradiction_are_no_surprise",
        || {
            let silent = Config {
                fs_root: "/nonexistent".into(),
                ..config(1)
            };
            let side = Side::new(silent);
            let (listener, _) = common::listen(&side.net);
            side.net.close_listen(listener).unwrap();
            assert!(side.net.properties(0).unwrap().pci_path.is_none());
            let contradiction = Config {
                eager_max: Some(8192),
                min_stripe_bytes: 4096,
                ..config(1)
            };
            let error = Transport::init(contradiction, Arc::new(NoLog)).unwrap_err();
            assert_eq!(
                (error.code(), error.errno()),
                (Code::Contradiction, -libc::EINVAL)
            );
        },
    );
}

/// Opens a listener, looks, and closes it, over and over, on several threads at once. `come_and_go`: what is
/// opened is left by a thread that ends, so that its domain is given to another one.
fn open_look_and_close(config: Config, come_and_go: bool) {
    const THREADS: usize = 4;
    const ROUNDS: usize = 50;
    let side = Arc::new(Side::new(config));
    let done = Arc::new(AtomicUsize::new(0));
    // Not scoped: a scope would wait for threads that wait for each other.
    for _ in 0..THREADS {
        let (side, done) = (Arc::clone(&side), Arc::clone(&done));
        std::thread::spawn(move || {
            for _ in 0..ROUNDS {
                let net = Arc::clone(&side.net);
                let open = move || {
                    let listener = net.listen(0, &mut [0; 128]).unwrap();
                    net.accept(listener).unwrap();
                    net.counters(0).unwrap();
                    listener
                };
                let listener = match come_and_go {
                    true => std::thread::spawn(open).join().unwrap(),
                    false => open(),
                };
                side.net.close_listen(listener).unwrap();
            }
            done.fetch_add(1, Ordering::Relaxed);
        });
    }
    let start = Instant::now();
    while done.load(Ordering::Relaxed) < THREADS {
        assert!(start.elapsed() < PATIENCE / 3, "a deadlock");
        std::thread::yield_now();
    }
    let domains = side.net.domains(0).unwrap();
    assert!(come_and_go || domains <= 1 + THREADS, "{domains} domains");
}

/// Trap 31: opening takes the device's lock and then the registry's, closing and looking take none of a
/// device while they hold a domain's: threads that do all of it at once come to an end.
#[test]
fn trap_31_opening_closing_and_looking_never_wait_for_each_other() {
    in_one_process(
        "trap_31_opening_closing_and_looking_never_wait_for_each_other",
        || {
            let per_thread = || Config {
                domain_per_thread: Some(true),
                ..config(1)
            };
            let per_comm = Config {
                endpoint_per_comm: true,
                ..config(1)
            };
            open_look_and_close(per_thread(), false);
            open_look_and_close(per_thread(), true);
            open_look_and_close(per_comm, false);
        },
    );
}

/// Protocol 2.l, "no nic attributes": what software providers know, and nothing invented; where the
/// reference reports 0 though it could know (key size, global registrations), the truth.
#[test]
fn properties_without_a_nic_are_true() {
    let has_no_nic = |provider: &str| provider != common::emulated::EFA;
    common::on_providers("properties_without_a_nic_are_true", has_no_nic, || {
        let side = Side::new(config(2));
        let of = side.net.properties(0).unwrap();
        assert!(!of.name.is_empty() && of.pci_path.is_none());
        assert!(!of.dmabuf && of.reg_is_global);
        assert_eq!((of.port, of.max_comms, of.max_recvs), (1, 262_144, 1));
        assert!((0.0..1.0).contains(&of.latency_us), "{}", of.latency_us);
        let longest = usize::try_from(i32::MAX).unwrap();
        assert!((1..=longest).contains(&of.max_message_bytes));
        assert!((1..=8).contains(&of.max_mr_key_bytes));
        // The guid of each device is its own, and the same for who asks again.
        let again = Side::new(config(2));
        let guids = |side: &Side| -> Vec<u64> {
            let devices = 0..side.net.devices().unwrap();
            devices
                .map(|dev| side.net.properties(dev).unwrap().guid)
                .collect()
        };
        let all = guids(&side);
        assert_eq!(all, guids(&again));
        let distinct: std::collections::HashSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
        let platform = Config {
            product_name: Some("p5en.48xlarge".to_owned()),
            ..config(1)
        };
        let p5en = Side::new(platform);
        let of = p5en.net.properties(0).unwrap();
        assert!((of.latency_us - 35.0).abs() < 0.1);
        assert_eq!(of.speed_mbps, 200_000, "a link of p5en, once for each NIC");
    });
}
