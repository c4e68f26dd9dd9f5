//! Settings from parameters, and what they mean together.

use super::{Config, Protocol};
use crate::error::{Code, NetError};
use crate::params::{self, Flavour, Note};

fn config(pairs: &[(&str, &str)]) -> (Result<Config, NetError>, Vec<Note>) {
    let (values, mut notes) = params::parse(Flavour::Neuron, pairs.iter().copied());
    (Config::from_values(&values, &mut notes), notes)
}

#[test]
fn no_parameters_give_the_defaults() {
    let (config, notes) = config(&[]);
    assert_eq!(config, Ok(Config::new(Flavour::Neuron)));
    assert!(notes.is_empty());
}

#[test]
fn defaults_are_those_of_the_reference() {
    let config = Config::new(Flavour::Neuron);
    assert_eq!(config.eager_max, Some(8192));
    assert_eq!(
        (config.posted_eager, config.posted_control),
        ((64, 128), (1920, 2048))
    );
    assert_eq!(config.exclude_tcp_if, ["lo", "docker0"]);
    assert_eq!(
        (config.connect_timeout_ms, config.stall_fail_ms),
        (120_000, None)
    );
    assert!(config.rr_ctrl_msg && !config.close_messages && !config.mr_cache && config.flush);
    assert!(Config::new(Flavour::Nccl).mr_cache);
}

#[test]
fn values_reach_their_fields() {
    let (config, _) = config(&[
        ("OFI_NCCL_EAGER_MAX_SIZE", "-1"),
        ("OFI_NCCL_PROTOCOL", "sendRecv"),
        ("OFI_NCCL_EXCLUDE_TCP_IF", " lo , docker0,,"),
        ("OFI_NCCL_FORCE_NUM_RAILS", "4"),
        ("OFI_NCCL_FORCE_PRODUCT_NAME", " p5.48xlarge "),
        ("OFI_NCCL_STALL_FAIL", "2"),
        ("OFI_NCCL_DISABLE_CLOSE_MESSAGE", "0"),
        ("OFI_LIBFABRIC_PATH", "/opt/lf/libfabric.so.1"),
        ("FI_PROVIDER", ""),
        ("FI_EFA_IFACE", "rdmap79s0, rdmap80s0"),
    ]);
    let config = config.unwrap();
    assert_eq!(config.efa_iface.as_deref(), Some("rdmap79s0, rdmap80s0"));
    assert_eq!(config.eager_max, None);
    assert_eq!(config.protocol, Some(Protocol::SendRecv));
    assert_eq!(config.exclude_tcp_if, ["lo", "docker0"]);
    assert_eq!(config.force_num_rails, Some(4));
    assert_eq!(config.product_name.as_deref(), Some("p5.48xlarge"));
    assert_eq!(config.stall_fail_ms, Some(2000));
    assert!(config.close_messages);
    assert_eq!(config.libfabric_path, Some("/opt/lf/libfabric.so.1".into()));
    assert_eq!(
        config.fi_provider.as_deref(),
        Some(""),
        "libfabric takes it as set"
    );
}

/// Of a variable with two names an empty one is as unset, whichever it is, and no reason for a warning.
#[test]
fn an_empty_path_of_libfabric_is_none() {
    let (name, alias) = ("OFI_NCCL_LIBFABRIC_PATH", "OFI_LIBFABRIC_PATH");
    for empty in ["", " "] {
        for (pairs, path) in [
            (&[(alias, empty)][..], None),
            (&[(name, empty)], None),
            (&[(name, empty), (alias, empty)], None),
            (&[(name, empty), (alias, "/opt/lf")], Some("/opt/lf")),
            (&[(alias, "/opt/lf"), (name, empty)], Some("/opt/lf")),
            (&[(name, "/opt/lf"), (alias, empty)], Some("/opt/lf")),
        ] {
            let (config, notes) = config(pairs);
            assert_eq!(
                config.unwrap().libfabric_path,
                path.map(Into::into),
                "{pairs:?}"
            );
            assert!(notes.is_empty(), "{pairs:?}: {notes:?}");
        }
    }
}

#[test]
fn a_forced_instance_type_that_no_row_has_is_told_of() {
    let on = |product: &str| Config {
        product_name: Some(product.to_owned()),
        ..Config::new(Flavour::Nccl)
    };
    let known = on("p5.48xlarge").describe_platform(false).unwrap();
    assert!(known.contains("\"p5.48xlarge\", known as p5/"), "{known}");
    assert_eq!(on("p5.48xlarge").describe_platform(true), Some(known));
    for unknown in ["p5x.48xlarge", "a server", "p5\u{1b}[31m"] {
        let line = on(unknown).describe_platform(true).unwrap();
        assert!(line.contains(": in no row of the table"), "{line}");
        assert!(line.starts_with("instance type \""), "{line}");
        assert!(line.contains("(OFI_NCCL_FORCE_PRODUCT_NAME)"), "{line}");
        assert!(!line.contains('\u{1b}'), "{line}");
        // What the firmware says is nobody's mistake.
        assert_eq!(on(unknown).describe_platform(false), None);
    }
    assert_eq!(on("").describe_platform(true), None);
}

#[test]
fn what_leaves_no_efa_out_is_no_list_of_efas() {
    for all in ["", "all"] {
        let (config, notes) = config(&[("FI_EFA_IFACE", all)]);
        assert_eq!(config.unwrap().efa_iface, None, "{all:?}");
        assert!(notes.is_empty(), "{all:?}: {notes:?}");
    }
}

#[test]
fn one_instance_type_shows_its_nic_several_times() {
    let on = |product: &str, flavour, asked| Config {
        product_name: Some(product.to_owned()),
        nic_dup_conns: asked,
        ..Config::new(flavour)
    };
    let p3dn = on("p3dn.24xlarge", Flavour::Nccl, 0);
    assert_eq!((p3dn.duplicates(true), p3dn.duplicates(false)), (4, 1));
    assert_eq!(on("p3dn.24xlarge", Flavour::Nccl, 2).duplicates(true), 2);
    assert_eq!(on("p3dn.24xlarge", Flavour::Neuron, 0).duplicates(true), 1);
    assert_eq!(on("p4d.24xlarge", Flavour::Nccl, 0).duplicates(true), 1);
}

#[test]
fn trap_34_a_queue_has_room_for_the_receives_of_its_rail() {
    let (config, notes) = config(&[("OFI_NCCL_CQ_SIZE", "16")]);
    let config = config.unwrap();
    let receives = config.posted_control.1 + config.posted_eager.1;
    let entries = config.cq_depth();
    assert!(
        entries > receives,
        "{entries} entries for {receives} receives"
    );
    assert!(
        notes.len() == 1 && notes[0].to_string().contains("OFI_NCCL_CQ_SIZE"),
        "{notes:?}"
    );
    let (defaults, notes) = super::tests::config(&[]);
    assert_eq!(defaults.unwrap().cq_depth(), 12_288);
    assert!(notes.is_empty());
}

#[test]
fn an_empty_exclude_list_excludes_nothing() {
    let (config, _) = config(&[("OFI_NCCL_EXCLUDE_TCP_IF", "")]);
    assert!(config.unwrap().exclude_tcp_if.is_empty());
}

#[test]
fn withdrawn_names_and_contradictions_are_coded() {
    let cases = [
        (
            ("OFI_NCCL_RDMA_MIN_POSTED_BOUNCE_BUFFERS", "64"),
            Code::DeprecatedParameter,
        ),
        (("OFI_NCCL_MIN_STRIPE_SIZE", "4096"), Code::Contradiction),
    ];
    for (pair, code) in cases {
        let (config, _) = config(&[pair]);
        assert_eq!(config.map_err(|error| error.code()), Err(code), "{pair:?}");
    }
}

#[test]
fn a_minimum_above_its_maximum_is_told_and_lowered() {
    let (config, notes) = config(&[("OFI_NCCL_RDMA_MIN_POSTED_EAGER_BUFFERS", "500")]);
    assert_eq!(config.unwrap().posted_eager, (128, 128));
    assert!(
        notes.len() == 1 && notes[0].to_string().starts_with("OFI-W0209"),
        "{notes:?}"
    );
}

#[test]
fn a_limit_of_rdma_is_none_of_sendrecv() {
    let settings = |protocol| Config {
        eager_max: Some(1 << 20),
        min_stripe_bytes: 4096,
        protocol,
        ..Config::new(Flavour::Nccl)
    };
    for protocol in [None, Some(Protocol::Rdma)] {
        let error = settings(protocol).check().unwrap_err();
        assert_eq!(error.code(), Code::Contradiction);
    }
    assert_eq!(settings(Some(Protocol::SendRecv)).check(), Ok(()));
}
