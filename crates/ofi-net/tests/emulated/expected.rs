//! What a tool says that a start would make of a host's EFAs is what a start makes of them.

use super::instances::at_home;
use crate::common::emulated::{on_shape, root};
use efa_emu::shape::Shape;
use ofi_net::log::Log;
use ofi_net::{Accelerators, Code, Config, Expected, Protocol, Transport};
use ofi_topo::{Nic, Sysfs};
use std::sync::Arc;

/// Settings that decide about devices, each alone and where one excludes another.
fn settings() -> Vec<Config> {
    let with = |change: fn(&mut Config)| {
        let mut config = at_home(None);
        change(&mut config);
        config
    };
    vec![
        with(|_| {}),
        with(|config| config.protocol = Some(Protocol::SendRecv)),
        with(|config| config.protocol = Some(Protocol::Rdma)),
        with(|config| config.group_by = Accelerators::NONE),
        with(|config| config.force_num_rails = Some(2)),
        with(|config| config.product_name = Some("unknown.9xlarge".to_owned())),
        with(|config| config.product_name = Some("p4d.24xlarge".to_owned())),
        with(|config| {
            config.product_name = Some("unknown.9xlarge".to_owned());
            config.group_by = Accelerators::NONE;
        }),
        with(|config| config.nic_groups = Some("nosuch".to_owned())),
    ]
}

fn agrees(shape: &str) {
    let shape = Shape::by_name(shape).unwrap();
    let sysfs = Sysfs::new(root());
    let described = shape.nics().iter().enumerate().map(|(index, nic)| {
        let at = nic.pci.to_string().parse().unwrap();
        Nic::new(index, nic.name.clone()).with_pci(at)
    });
    let described: Vec<Nic> = described.collect();
    for config in settings() {
        let mut named = config.clone();
        let product = || sysfs.product_name().unwrap().unwrap_or_default();
        named.product_name.get_or_insert_with(product);
        let expected = Expected::of(&named, &described, &sysfs.tree().unwrap());
        let log: Arc<dyn Log> = Arc::new(crate::common::Lines::default());
        let (expected, net) = match (expected, Transport::init(config, log)) {
            (Ok(expected), Ok(started)) => (expected, started),
            (Err(expected), Err(started)) => {
                assert_eq!(expected.code(), Code::Grouping, "{expected}");
                assert_eq!(expected.what(), started.what());
                continue;
            }
            (expected, started) => panic!("{expected:?}, and {:?}", started.err()),
        };
        assert_eq!(expected.protocol, net.protocol(), "{expected:?}");
        assert_eq!(expected.devices, net.devices().unwrap(), "{expected:?}");
        let most = (0..expected.devices).map(|dev| net.rail_names(dev).unwrap().len());
        assert_eq!(expected.rails, most.max().unwrap(), "{expected:?}");
    }
}

#[test]
fn on_an_instance_with_several_nics_an_accelerator() {
    let name = "expected::on_an_instance_with_several_nics_an_accelerator";
    on_shape("p5", name, "", || agrees("p5"));
}

#[test]
fn on_an_instance_without() {
    let name = "expected::on_an_instance_without";
    on_shape("trn2", name, "", || agrees("trn2"));
}
