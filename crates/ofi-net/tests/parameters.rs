//! Protocol 2i, column BASE, row by row: every parameter of the reference is in the table of parameters
//! with its type and its defaults in both plugins; where ours differs, the reason stands here.

use ofi_net::params::Flavour::{Nccl, Neuron};
use ofi_net::params::{Kind, Param, Status, TABLE};

/// What protocol 2i says of a parameter: its type, and the defaults of libnccl-net-ofi.so and
/// libnccom-net.so.
enum Base {
    /// An int of the reference that means yes or no.
    Flag(i64, i64),
    /// A number, with the smallest and the largest value that ours takes.
    Number(i64, (i64, i64)),
    /// A text, with its default.
    Text(Option<&'static str>),
    /// One of some words.
    Words(&'static [&'static str]),
}

use Base::{Flag, Number, Text, Words};

const INT: i64 = i32::MAX as i64;

#[rustfmt::skip]
const ROWS: &[(&str, Base)] = &[
    ("USE_IPV6_TCP", Flag(0, 0)),
    ("EXCLUDE_TCP_IF", Text(Some("lo,docker0"))),
    ("GDR_FLUSH_DISABLE", Flag(0, 0)),
    ("NIC_DUP_CONNS", Number(0, (0, 64))),
    ("CUDA_FLUSH_ENABLE", Flag(0, 0)),
    // More than 4 bytes overflow the reference's pool (2g.2).
    ("MR_KEY_SIZE", Number(2, (1, 4))),
    ("MR_CACHE_DISABLE", Flag(0, 1)),
    // 0 and less are undefined in the reference.
    ("CQ_READ_COUNT", Number(4, (1, 256))),
    ("CQ_SIZE", Number(12_288, (1, INT))),
    ("PROTOCOL", Words(&["SENDRECV", "RDMA"])),
    ("DOMAIN_PER_THREAD", Number(-1, (-1, INT))),
    ("DISABLE_NATIVE_RDMA_CHECK", Flag(0, 0)),
    ("DISABLE_GDR_REQUIRED_CHECK", Flag(0, 0)),
    ("DISABLE_DMABUF", Flag(0, 0)),
    ("MIN_STRIPE_SIZE", Number(65_536, (1, INT))),
    ("SCHED_MAX_SMALL_RR_SIZE", Number(64, (0, INT))),
    ("RDMA_MIN_POSTED_BOUNCE_BUFFERS", Number(-1, (-1, INT))),
    ("RDMA_MAX_POSTED_BOUNCE_BUFFERS", Number(-1, (-1, INT))),
    ("RDMA_MIN_POSTED_EAGER_BUFFERS", Number(64, (1, 65_536))),
    ("RDMA_MAX_POSTED_EAGER_BUFFERS", Number(128, (1, 65_536))),
    ("RDMA_MIN_POSTED_CONTROL_BUFFERS", Number(1920, (1, 65_536))),
    ("RDMA_MAX_POSTED_CONTROL_BUFFERS", Number(2048, (1, 65_536))),
    ("RR_CTRL_MSG", Flag(1, 1)),
    ("NET_LATENCY", Number(-1, (-1, 65_535))),
    ("EAGER_MAX_SIZE", Number(8192, (-1, 1 << 30))),
    ("ERRORCHECK_MUTEX", Flag(0, 0)),
    ("ENDPOINT_PER_COMM", Flag(0, 0)),
    ("ABORT_ON_ERROR", Flag(0, 0)),
    ("TUNER_TYPE", Words(&["INTERNAL", "REGION", "MODEL"])),
    ("TUNER_NUM_CHANNELS", Number(8, (1, INT))),
    ("TUNER_NET_LATENCY", Number(20, (0, INT))),
    ("TUNER_NET_COMP_OVERHEAD", Number(3, (0, INT))),
    ("USE_LOW_LATENCY_TC", Flag(1, 1)),
    // Beyond 4 the reference overruns its arrays (trap 7).
    ("FORCE_NUM_RAILS", Number(0, (0, 4))),
    ("EARLY_COMPLETION", Number(-1, (-1, 1))),
    // The reference compares with 1.
    ("DISABLE_CLOSE_MESSAGE", Number(1, (0, 1))),
    ("FORCE_PRODUCT_NAME", Text(None)),
];

/// Read, and without effect in this plugin: each says why, in the log and in docs/tuning.md.
const WITHOUT_EFFECT: [&str; 6] = [
    "CUDA_FLUSH_ENABLE",
    "ERRORCHECK_MUTEX",
    "TUNER_TYPE",
    "TUNER_NUM_CHANNELS",
    "TUNER_NET_LATENCY",
    "TUNER_NET_COMP_OVERHEAD",
];

/// Concerns the SENDRECV protocol alone.
const SENDRECV_ONLY: &str = "NIC_DUP_CONNS";

fn row(name: &str) -> &'static Param {
    let name = format!("OFI_NCCL_{name}");
    let found = TABLE.iter().find(|param| param.name == name);
    found.unwrap_or_else(|| panic!("{name} of protocol 2i is not in the table"))
}

#[test]
fn every_parameter_of_base_has_its_type_default_and_range() {
    for (name, base) in ROWS {
        let param = row(name);
        let defaults = (param.default_number(Nccl), param.default_number(Neuron));
        match *base {
            Flag(nccl, neuron) => {
                assert_eq!(
                    (param.kind, defaults),
                    (Kind::Flag, (nccl, neuron)),
                    "{name}"
                );
            }
            Number(default, (min, max)) => {
                let kind = Kind::Number { min, max };
                assert_eq!((param.kind, defaults), (kind, (default, default)), "{name}");
            }
            Text(default) => {
                assert_eq!(
                    (param.kind, param.default_text()),
                    (Kind::Text, default),
                    "{name}"
                );
            }
            Words(words) => {
                assert_eq!(
                    (param.kind, param.default_text()),
                    (Kind::Choice(words), None),
                    "{name}"
                );
            }
        }
    }
}

#[test]
fn every_parameter_of_base_is_acted_on_or_says_why_not() {
    for (name, _) in ROWS {
        let status = row(name).status;
        match status {
            Status::NoEffect(why) => {
                assert!(
                    WITHOUT_EFFECT.contains(name) || *name == SENDRECV_ONLY,
                    "{name}: {why}"
                );
                assert!(!why.is_empty());
            }
            Status::Honoured => assert!(!WITHOUT_EFFECT.contains(name), "{name}"),
            Status::Withdrawn => assert!(name.contains("BOUNCE"), "{name}"),
        }
    }
}
