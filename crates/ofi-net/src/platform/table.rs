//! The table of instance types: one row a family, the first that matches wins. Rows and columns are those
//! of the reference (protocol 2h.5, BASE) unless the row says otherwise; counts of NICs are what AWS says
//! of network cards with EFA ("EC2 instance types", network specifications), held against the dumps that
//! `ofi_topo::shape` was written from where there is one.

use super::{Match, Platform, Row};
use crate::config::Protocol::{Rdma, SendRecv};

/// Families of AWS.
pub(super) const TABLE: &[Row] = &[
    Row {
        platform: Platform {
            family: "p4d.24xlarge",
            latency_us: 75,
            protocol: SendRecv,
            gdr_required: true,
            domain_per_thread: false,
            duplicates: 0,
        },
        matches: Match::Exact("p4d.24xlarge"),
        source: "protocol 2h.5",
    },
    Row {
        platform: Platform {
            family: "p4de.24xlarge",
            latency_us: 75,
            protocol: SendRecv,
            gdr_required: true,
            domain_per_thread: false,
            duplicates: 0,
        },
        matches: Match::Exact("p4de.24xlarge"),
        source: "protocol 2h.5",
    },
    Row {
        platform: Platform {
            family: "p3dn.24xlarge",
            latency_us: 150,
            protocol: SendRecv,
            gdr_required: false,
            domain_per_thread: false,
            duplicates: 4,
        },
        matches: Match::Exact("p3dn.24xlarge"),
        source: "protocol 2h.5",
    },
    Row {
        platform: Platform {
            family: "p-series",
            latency_us: 35,
            protocol: Rdma,
            gdr_required: true,
            domain_per_thread: false,
            duplicates: 0,
        },
        // `^(p5en\.48xlarge)|(^p([6-9]|[0-9]{2,}).*)`
        matches: Match::Generation("p5en.48xlarge", 'p', 6),
        source: "protocol 2h.5",
    },
    Row {
        platform: Platform {
            family: "p5/p5e",
            latency_us: 75,
            protocol: Rdma,
            gdr_required: true,
            domain_per_thread: false,
            duplicates: 0,
        },
        // `^p5(e?\..*)`
        matches: Match::Prefixes(&["p5.", "p5e."]),
        source: "protocol 2h.5",
    },
    Row {
        platform: Platform {
            family: "g5.48xlarge",
            latency_us: 75,
            protocol: SendRecv,
            gdr_required: false,
            domain_per_thread: false,
            duplicates: 0,
        },
        matches: Match::Exact("g5.48xlarge"),
        source: "protocol 2h.5",
    },
    Row {
        platform: Platform {
            family: "trn1",
            latency_us: 75,
            protocol: SendRecv,
            gdr_required: true,
            domain_per_thread: true,
            duplicates: 0,
        },
        matches: Match::Prefixes(&["trn1"]),
        source: "protocol 2h.5",
    },
    Row {
        platform: Platform {
            family: "trn2",
            latency_us: 75,
            protocol: Rdma,
            gdr_required: true,
            domain_per_thread: true,
            duplicates: 0,
        },
        matches: Match::Prefixes(&["trn2"]),
        source: "protocol 2h.5",
    },
    Row {
        platform: Platform {
            family: "inf",
            latency_us: 75,
            protocol: SendRecv,
            gdr_required: true,
            domain_per_thread: true,
            duplicates: 0,
        },
        matches: Match::Prefixes(&["inf"]),
        source: "protocol 2h.5",
    },
];

/// NICs for collectives of whole instances: product name, how many, source.
pub(super) const NICS: &[(&str, usize, &str)] = &[
    ("p4d.24xlarge", 4, "hwloc dump of the instance"),
    ("p4de.24xlarge", 4, "EC2 network specifications"),
    ("p5.48xlarge", 32, "hwloc dump of the instance"),
    ("p5e.48xlarge", 32, "EC2 network specifications"),
    ("p5en.48xlarge", 16, "EC2 network specifications"),
    ("trn1.32xlarge", 8, "lspci in the Neuron documentation"),
    ("trn1n.32xlarge", 16, "EC2 network specifications"),
    ("trn2.48xlarge", 16, "fabtests of libfabric"),
];

/// NVIDIA accelerators of whole instances: product name, how many, source. Devices are made by them.
pub(super) const ACCELERATORS: &[(&str, usize, &str)] = &[
    ("p4d.24xlarge", 8, "hwloc dump of the instance"),
    ("p4de.24xlarge", 8, "EC2 accelerator specifications"),
    ("p5.48xlarge", 8, "hwloc dump of the instance"),
    ("p5e.48xlarge", 8, "EC2 accelerator specifications"),
    ("p5en.48xlarge", 8, "EC2 accelerator specifications"),
];
