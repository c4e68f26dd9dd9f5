//! Which NICs carry the bytes of a device, on every shape; and hosts that see different parts of theirs.

use super::instances::at_home;
use crate::common::emulated::{on_part, on_shape, root, so_far};
use crate::common::peer::{given_handle, peer_process_with};
use crate::common::{listen, until, until_error};
use crate::{Buffer, Side, finish, irecv, isend, pattern};
use efa_emu::shape::Shape;
use ofi_net::log::Level;
use ofi_net::{Code, CommWord, Config, NetError, Protocol};

/// Long enough for a stripe on each rail.
const LEN: usize = 2_000_000;

fn message(a: &Side, b: &Side, (send, recv): (CommWord, CommWord), seed: usize) {
    let mut source = Buffer::new(&a.net, send, pattern(seed, LEN));
    let mut sink = Buffer::new(&b.net, recv, vec![0; LEN]);
    let r = irecv(&b.net, recv, &mut sink, 0, LEN);
    let s = isend(&a.net, send, &mut source, 0, LEN);
    let size = LEN as u64;
    assert_eq!(finish(&a.net, s, &b.net, r), (size, size));
    assert!(source.free(&a.net, send) == sink.free(&b.net, recv));
}

/// Bytes that each NIC of this process sent so far.
fn sent() -> Vec<u64> {
    so_far().nics.iter().map(|nic| nic.bytes_out).collect()
}

/// A message of each device goes over the device's own NICs, a like part over each, and over no other.
fn every_device_has_its_own(name: &str, rails: usize) {
    let sides = [(); 2].map(|()| Side::new(at_home(None)));
    let [a, b] = &sides;
    let count = a.net.devices().unwrap();
    assert_eq!(count * rails, Shape::by_name(name).unwrap().nics().len());
    for device in 0..count {
        let mut handle = [0; 128];
        let listener = b.net.listen(device, &mut handle).unwrap();
        let (mut send, mut recv) = (None, None);
        let comms = until("connect and accept", || {
            send = send.or_else(|| a.net.connect(device, &mut handle).unwrap());
            recv = recv.or_else(|| b.net.accept(listener).unwrap());
            send.zip(recv)
        });
        b.net.close_listen(listener).unwrap();
        let before = sent();
        message(a, b, comms, device);
        let part = (LEN / rails) as u64;
        for (nic, (after, before)) in sent().iter().zip(&before).enumerate() {
            let bytes = after - before;
            // Stripes begin at multiples of 128 bytes, and beside the data there are control messages.
            let wanted = if nic / rails == device {
                part - 1_000..part + 50_000
            } else {
                0..1
            };
            assert!(
                wanted.contains(&bytes),
                "device {device}, NIC {nic}: {bytes} bytes"
            );
        }
        a.net.close_send(comms.0).unwrap();
        b.net.close_recv(comms.1).unwrap();
    }
}

macro_rules! shapes {
    ($($name:ident: $shape:literal, $rails:literal;)*) => { $(
        #[test]
        fn $name() {
            let name = concat!("subsets::", stringify!($name));
            on_shape($shape, name, "", || every_device_has_its_own($shape, $rails));
        }
    )* };
}

shapes! {
    a_device_of_p4d_is_one_nic: "p4d", 1;
    a_device_of_p5_is_four_nics: "p5", 4;
    a_device_of_p5en_is_two_nics: "p5en", 2;
    a_device_of_trn1_is_one_nic: "trn1", 1;
    a_device_of_trn2_is_one_nic: "trn2", 1;
}

/// The other host sees one NIC of its instance, this one all of them: what each is told.
fn of_two_hosts(name: &str, shape: &str) -> Result<(), NetError> {
    let side = Side::new(at_home(Some(Protocol::Rdma)));
    let net = &side.net;
    if let Some(mut handle) = given_handle() {
        let warned = side.log.at(Level::Warn);
        assert!(
            warned.len() == 1 && warned[0].contains("OFI-W0114"),
            "{warned:?}"
        );
        let connected = until("a connection, or an error", || {
            net.connect(0, &mut handle).transpose()
        });
        return match connected {
            Ok(send) => {
                let mut source = Buffer::new(net, send, pattern(7, LEN));
                let request = isend(net, send, &mut source, 0, LEN);
                assert_eq!(crate::common::wait(net, request), LEN as u64);
                source.free(net, send);
                net.close_send(send).unwrap();
                Ok(())
            }
            Err(error) => Err(error),
        };
    }
    let one = Shape::by_name(shape).unwrap().nics()[0].name.clone();
    let (listener, handle) = listen(net);
    let more = [("EFA_EMU_NAME", "peer"), ("FI_EFA_IFACE", &one)];
    let more = more.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let other = peer_process_with(name, &handle, &more);
    let accepted = until("a connection, or an error", || {
        net.accept(listener).transpose()
    });
    if let Ok(recv) = accepted {
        let mut sink = Buffer::new(net, recv, vec![0; LEN]);
        let request = irecv(net, recv, &mut sink, 0, LEN);
        assert_eq!(crate::common::wait(net, request), LEN as u64);
        assert!(sink.free(net, recv) == pattern(7, LEN));
        net.close_recv(recv).unwrap();
    }
    net.close_listen(listener).unwrap();
    other.finish();
    accepted.map(drop)
}

/// Connections that are tried between two hosts.
const TRIES: u32 = 6;

/// What this host is called from now on, for the domains that are opened then.
fn call_host(name: &str) {
    let file = root().join("proc/sys/kernel/hostname");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, name).unwrap();
}

/// The other host sees one NIC: both are told of both numbers, both hosts and the variables by each error,
/// and by one line of the log for all connections.
fn told_to_both(name: &str, shape: &str, rails: usize) {
    let other = given_handle();
    if other.is_none() {
        call_host("host-a");
    }
    let side = Side::new(at_home(Some(Protocol::Rdma)));
    let (net, is_other) = (&side.net, other.is_some());
    let errors: Vec<NetError> = if let Some(given) = other {
        // Listeners that are made one after the other have numbers one after the other.
        let first = u32::from_le_bytes(given[56..60].try_into().unwrap());
        let connect = |number: u32| {
            let mut handle = given;
            handle[56..60].copy_from_slice(&(first + number).to_le_bytes());
            until_error("connect", || net.connect(0, &mut handle))
        };
        (0..TRIES).map(connect).collect()
    } else {
        let one = Shape::by_name(shape).unwrap().nics()[0].name.clone();
        let listeners: Vec<_> = (0..TRIES).map(|_| listen(net)).collect();
        let (_, handle) = listeners[0];
        call_host("host-b");
        let more = [("EFA_EMU_NAME", "peer"), ("FI_EFA_IFACE", &one)];
        let more = more.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let process = peer_process_with(name, &handle, &more);
        let accept = |(listener, _)| until_error("accept", || net.accept(listener));
        let errors = listeners.into_iter().map(accept).collect();
        process.finish();
        errors
    };
    let (counts, hosts) = match is_other {
        true => (
            format!("1 here, {rails} at the peer"),
            "host host-a; this is host host-b",
        ),
        false => (
            format!("{rails} here, 1 at the peer"),
            "host host-b; this is host host-a",
        ),
    };
    for error in &errors {
        assert_eq!(error.code(), Code::Mismatch, "{error}");
        assert!(error.what().contains(&counts), "{counts}: {error}");
    }
    let warnings = side.log.at(Level::Warn);
    let told: Vec<_> = (warnings.iter())
        .filter(|line| !line.contains("OFI-W0114"))
        .collect();
    assert_eq!(told.len(), 1, "{warnings:?}");
    let variables = [
        "OFI_NCCL_FORCE_NUM_RAILS",
        "OFI_NCCL_NIC_GROUPS",
        "OFI_NCCL_GROUP_BY",
    ];
    for part in [
        &counts,
        "OFI-E0403",
        ": peer fe80:",
        hosts,
        "; likely: ranks see",
    ]
    .into_iter()
    .chain(variables)
    {
        assert!(told[0].contains(part), "{part}: {told:?}");
    }
    // The others are counted.
    let log = std::sync::Arc::clone(&side.log);
    drop(side);
    let counted = log.at(Level::Info);
    let counted = counted.iter().filter(|line| {
        line.contains(hosts) && line.ends_with(": OFI-E0403 of 5 more communicators")
    });
    assert_eq!(counted.count(), 1);
}

/// A container that shows one NIC and nothing of the machine speaks SENDRECV, a whole p5 RDMA: the one that
/// connects is told at once, the one that accepts when nobody came.
fn told_of_the_protocol(name: &str) {
    if let Some(mut handle) = given_handle() {
        let side = Side::new(at_home(None));
        assert_eq!(side.net.protocol(), Protocol::Rdma);
        let error = until_error("connect", || side.net.connect(0, &mut handle));
        assert_eq!(error.code(), Code::CorruptHandle, "{error}");
        let text = error.to_string();
        for part in [
            "OFI-E0401",
            "the listener of fe80:",
            "it is of SENDRECV, where this side speaks RDMA",
            "OFI_NCCL_PROTOCOL",
            "the instance type on EFA",
            "OFI_NCCL_GROUP_BY",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        return;
    }
    let side = Side::new(Config {
        product_name: Some(String::new()),
        stall_warn_ms: Some(500),
        ..at_home(None)
    });
    assert_eq!(side.net.protocol(), Protocol::SendRecv);
    let (listener, handle) = listen(&side.net);
    let all = Shape::by_name("p5").unwrap();
    let all: Vec<&str> = all.nics().iter().map(|nic| nic.name.as_str()).collect();
    let more = [("EFA_EMU_NAME", "peer"), ("FI_EFA_IFACE", &all.join(","))];
    let more = more.map(|(name, value)| (name.to_owned(), value.to_owned()));
    peer_process_with(name, &handle, &more).finish();
    let warnings = until("a warning", || {
        assert_eq!(side.net.accept(listener), Ok(None));
        Some(side.log.at(Level::Warn)).filter(|warnings| !warnings.is_empty())
    });
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    for part in ["OFI-W0415", "RDMA or SENDRECV (OFI_NCCL_PROTOCOL;"] {
        assert!(warnings[0].contains(part), "{part}: {warnings:?}");
    }
}

#[test]
fn a_p5_that_speaks_another_protocol_is_told_of_it() {
    const NAME: &str = "subsets::a_p5_that_speaks_another_protocol_is_told_of_it";
    let one = Shape::by_name("p5").unwrap().nics()[0].name.clone();
    on_part(("p5", Some(&one)), NAME, "", || told_of_the_protocol(NAME));
}

#[test]
fn a_p5_that_shows_one_nic_is_told_apart_from_a_whole_one() {
    const NAME: &str = "subsets::a_p5_that_shows_one_nic_is_told_apart_from_a_whole_one";
    on_shape("p5", NAME, "", || told_to_both(NAME, "p5", 4));
}

#[test]
fn a_p5en_that_shows_one_nic_is_told_apart_from_a_whole_one() {
    const NAME: &str = "subsets::a_p5en_that_shows_one_nic_is_told_apart_from_a_whole_one";
    on_shape("p5en", NAME, "", || told_to_both(NAME, "p5en", 2));
}

/// One NIC a device: a host that shows fewer has fewer devices, and those work.
#[test]
fn a_p4d_that_shows_one_nic_talks_to_a_whole_one() {
    const NAME: &str = "subsets::a_p4d_that_shows_one_nic_talks_to_a_whole_one";
    on_shape("p4d", NAME, "", || of_two_hosts(NAME, "p4d").unwrap());
}
