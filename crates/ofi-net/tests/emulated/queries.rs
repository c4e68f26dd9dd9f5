//! How often libfabric is asked for NICs: twice at most, whatever EFA has and whoever asks, on an instance
//! that is in no table, so that both protocols are looked at.

use super::instances::at_home;
use crate::common::emulated::on_shape_with;
use crate::{Buffer, Side, connect, finish, irecv, isend, pattern};
use ofi_net::log::{Level, Log};
use ofi_net::{Code, Config, Protocol, Transport};
use std::sync::Arc;

/// What a scenario is told.
const PROTOCOL: &str = "OFI_NET_TEST_PROTOCOL";
const EXPECTED: &str = "OFI_NET_TEST_EXPECTED";

/// A message from one side to the other.
fn carries(a: &Side, b: &Side) {
    let comms = connect(&a.net, &b.net);
    let mut source = Buffer::new(&a.net, comms.0, pattern(3, 70_000));
    let mut sink = Buffer::new(&b.net, comms.1, vec![0; 70_000]);
    let r = irecv(&b.net, comms.1, &mut sink, 0, 70_000);
    let s = isend(&a.net, comms.0, &mut source, 0, 70_000);
    assert_eq!(finish(&a.net, s, &b.net, r), (70_000, 70_000));
    assert!(source.free(&a.net, comms.0) == sink.free(&b.net, comms.1));
}

/// A start, as the first of its process, ends as it should, after two queries at most.
fn starts() {
    let protocol = std::env::var(PROTOCOL).unwrap();
    let config = Config {
        product_name: Some("unknown.9xlarge".to_owned()),
        ..at_home(match &*protocol {
            "RDMA" => Some(Protocol::Rdma),
            "SENDRECV" => Some(Protocol::SendRecv),
            _ => None,
        })
    };
    let expected = std::env::var(EXPECTED).unwrap();
    if let Some(lacks) = expected.strip_prefix("lacks ") {
        let log = Arc::new(crate::common::Lines::default());
        let error = Transport::init(config, Arc::clone(&log) as Arc<dyn Log>).unwrap_err();
        assert_eq!(error.code(), Code::AllRejected, "{error}");
        assert!(error.what().contains(&expected), "{lacks}: {error}");
        let block = log.at(Level::Info);
        let tried = block.iter().filter(|line| line.starts_with("tried "));
        assert_eq!(tried.count(), 2, "{block:?}");
        return;
    }
    let (a, b) = (Side::new(config.clone()), Side::new(config));
    let lines = a.log.at(Level::Info);
    assert_eq!(a.log.at(Level::Warn), Vec::<String>::new());
    let queries = a.net.startup().queries;
    assert!((1..=2).contains(&queries), "{queries}: {lines:?}");
    assert_eq!(b.net.startup().queries, 0);
    // One line tells of the provider, with the fabric where that has a name of its own.
    let direct = "provider efa (fabric efa-direct): ";
    let fabric = match lines.iter().filter(|line| line.contains(direct)).count() {
        0 => "efa",
        _ => "efa-direct",
    };
    let (protocol, devices) = (a.net.protocol(), a.net.devices().unwrap());
    let is = format!("{protocol} of {devices}, fabric {fabric}");
    assert_eq!(is, expected, "{lines:?}");
    carries(&a, &b);
}

/// What EFA lacks, whose, the protocol asked for, and what is found: protocol, devices, fabric.
const STARTS: [(&str, &str, &str, &str); 14] = [
    ("", "2.5", "", "RDMA of 8, fabric efa-direct"),
    ("", "2.5", "SENDRECV", "SENDRECV of 16, fabric efa"),
    ("hmem", "2.5", "", "RDMA of 8, fabric efa-direct"),
    ("hmem", "2.5", "RDMA", "RDMA of 8, fabric efa-direct"),
    ("hmem", "2.5", "SENDRECV", "SENDRECV of 16, fabric efa"),
    ("hmem", "1.22", "", "RDMA of 8, fabric efa"),
    ("hmem,tagged", "2.5", "", "RDMA of 8, fabric efa-direct"),
    ("hmem,tagged", "2.5", "SENDRECV", "lacks FI_TAGGED"),
    ("hmem,rma", "2.5", "", "SENDRECV of 16, fabric efa"),
    ("hmem,rma", "2.5", "RDMA", "lacks FI_RMA"),
    ("hmem,rma", "2.5", "SENDRECV", "SENDRECV of 16, fabric efa"),
    ("tagged", "1.22", "", "RDMA of 8, fabric efa"),
    ("rma", "2.5", "", "SENDRECV of 16, fabric efa"),
    ("rma", "1.22", "SENDRECV", "SENDRECV of 16, fabric efa"),
];

#[test]
fn two_queries_are_enough_whatever_efa_lacks() {
    let name = "queries::two_queries_are_enough_whatever_efa_lacks";
    for (lacks, generation, protocol, expected) in STARTS {
        let set = [
            ("EFA_EMU_LACKS", lacks),
            ("EFA_EMU_GENERATION", generation),
            (PROTOCOL, protocol),
            (EXPECTED, expected),
        ];
        on_shape_with(("p5en", &set), name, starts);
        if std::env::var_os(EXPECTED).is_some() {
            return;
        }
    }
}

/// One NIC a device and no tagged messages beside device memory: what is there is used, and no third list
/// is asked for.
#[test]
fn single_nics_without_tags_speak_rdma() {
    let name = "queries::single_nics_without_tags_speak_rdma";
    let set = [
        ("EFA_EMU_LACKS", "tagged"),
        ("EFA_EMU_GENERATION", "2.5"),
        (PROTOCOL, ""),
        (EXPECTED, "RDMA of 1, fabric efa-direct"),
    ];
    on_shape_with(("c5n", &set), name, starts);
}

/// An instance type with GPUs is refused where the network does not reach their memory, whatever is spoken; it is
/// used where the user insists.
fn required_memory() {
    for protocol in [Protocol::Rdma, Protocol::SendRecv] {
        let listens = |check| {
            let config = Config {
                product_name: Some("p4d.24xlarge".to_owned()),
                gdr_required_check: check,
                ..at_home(Some(protocol))
            };
            let log = Arc::new(crate::common::Lines::default());
            let net = Transport::init(config, log as Arc<dyn Log>)?;
            net.listen(0, &mut [0; 128]).map(drop)
        };
        let error = listens(true).unwrap_err();
        assert_eq!(error.code(), Code::NoDeviceMemory, "{protocol:?}: {error}");
        listens(false).unwrap();
    }
}

#[test]
fn memory_of_gpus_is_required_where_the_instance_has_them() {
    let name = "queries::memory_of_gpus_is_required_where_the_instance_has_them";
    on_shape_with(("p4d", &[("EFA_EMU_LACKS", "hmem")]), name, required_memory);
}

/// EFA that writes by messages is refused for RDMA, with what to do; it is used where the user insists.
fn emulated_writes() {
    let config = |check| Config {
        product_name: Some("unknown.9xlarge".to_owned()),
        native_rdma_check: check,
        ..at_home(Some(Protocol::Rdma))
    };
    let log = Arc::new(crate::common::Lines::default());
    let error = Transport::init(config(true), Arc::clone(&log) as Arc<dyn Log>).unwrap_err();
    assert_eq!(error.code(), Code::SlowWrites, "{error}");
    let text = error.to_string();
    for part in [
        "this device writes by messages",
        "OFI_NCCL_PROTOCOL=SENDRECV",
        "OFI_NCCL_DISABLE_NATIVE_RDMA_CHECK=1",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let (a, b) = (Side::new(config(false)), Side::new(config(false)));
    assert_eq!(a.net.protocol(), Protocol::Rdma);
    carries(&a, &b);
}

#[test]
fn writes_by_messages_are_refused_unless_asked_for() {
    let name = "queries::writes_by_messages_are_refused_unless_asked_for";
    for generation in ["1.22", "2.5"] {
        let set = [
            ("EFA_EMU_LACKS", "write"),
            ("EFA_EMU_GENERATION", generation),
            (EXPECTED, "refused"),
        ];
        on_shape_with(("p4d", &set), name, emulated_writes);
        if std::env::var_os(EXPECTED).is_some() {
            return;
        }
    }
}
