//! Are the EFAs there, with a driver, device files that may be opened, and ports that are up?

use super::instance;
use crate::doctor::code::Code;
use crate::doctor::facts::Host;
use crate::doctor::facts::devices::{DeviceNode, RdmaNic};
use crate::doctor::facts::user::Access;
use crate::doctor::finding::Finding;

pub(super) fn check(host: &Host) -> Vec<Finding> {
    let mut found: Vec<Finding> = attached(host).into_iter().collect();
    if !host.devices.has_efa() || host.is_emulated {
        return found;
    }
    found.extend(driver(host));
    found.extend(nodes(host));
    found.extend(ports(host));
    found
}

/// What the instance type has against what is on the bus, or in sysfs where the bus cannot be seen.
fn attached(host: &Host) -> Option<Finding> {
    let devices = &host.devices;
    let wanted = instance::nics(&devices.product)?;
    let has = devices.efas.len().max(devices.efa_nics().count());
    let line = format!("{}: {has} of {wanted} EFAs are attached", devices.product);
    let code = match has {
        0 => Code::NoEfaAttached,
        has if has < wanted => Code::EfasMissing,
        _ => return None,
    };
    Some(Finding::new(code, [line]))
}

fn driver(host: &Host) -> Vec<Finding> {
    let devices = &host.devices;
    let mut found = Vec::new();
    let on_bus = devices.efas.len();
    let seen = devices.efa_nics().count();
    // A driver that is built in is in no list of modules: what it made shows it.
    if seen == 0 {
        let module = match (&devices.modules, devices.has_module("efa")) {
            (None, _) => "which modules are loaded is not said",
            (Some(_), true) => "the module efa is loaded",
            (Some(_), false) => "the module efa is not loaded",
        };
        found.push(Finding::new(
            Code::NoDriver,
            [
                format!("{on_bus} EFAs are on the PCI bus, {seen} are in /sys/class/infiniband"),
                module.to_owned(),
            ],
        ));
    }
    let has_uverbs = devices.efa_nics().any(|nic| nic.node.is_some());
    if !has_uverbs && !devices.has_module("ib_uverbs") {
        let line = "it is not in /proc/modules".to_owned();
        found.push(Finding::new(Code::NoUverbs, [line]));
    }
    found
}

fn nodes(host: &Host) -> Vec<Finding> {
    let nics: Vec<&RdmaNic> = host.devices.efa_nics().collect();
    let nodes = &host.devices.nodes;
    if nodes.is_empty() {
        let container = host.process.container;
        let place = container.unwrap_or("this does not look like a container");
        let lines = [
            format!("{} EFAs are in /sys/class/infiniband", nics.len()),
            format!("/dev/infiniband has no uverbs file; {place}"),
        ];
        return vec![Finding::new(Code::NoDeviceNodes, lines)];
    }
    let mut found = Vec::new();
    let is_missing = |nic: &&&RdmaNic| {
        let wanted = nic.node.as_ref();
        wanted.is_some_and(|wanted| nodes.iter().all(|node| node.name != *wanted))
    };
    let missing: Vec<&str> = nics
        .iter()
        .filter(is_missing)
        .map(|nic| nic.name.as_str())
        .collect();
    if !missing.is_empty() {
        let line = format!(
            "{} of {} EFAs: {}",
            missing.len(),
            nics.len(),
            missing.join(", ")
        );
        found.push(Finding::new(Code::NodesMissing, [line]));
    }
    found.extend(refusals(nodes, host));
    found
}

/// Permission bits and a refusal in spite of them are different causes.
fn refusals(nodes: &[DeviceNode], host: &Host) -> Vec<Finding> {
    let process = &host.process;
    if let Some(shut) = &host.shut {
        return vec![
            Finding::new(Code::NodeDenied, [format!("/dev/infiniband: {shut}")])
                .with_fix("chmod a+rx the directory that is named"),
        ];
    }
    let may = |node: &&DeviceNode| {
        let bits = (node.owner, node.group, node.mode);
        node.has_acl || process.user.may(Access::ReadWrite, bits)
    };
    let (allowed, denied): (Vec<_>, Vec<_>) = nodes.iter().partition(may);
    let mut found = Vec::new();
    if let Some(node) = denied.first() {
        let whose = match &process.by {
            None => format!("this is user {}", process.user.show()),
            Some(by) => format!("the job's user is {} (by {by})", process.user.show()),
        };
        found.push(Finding::new(
            Code::NodeDenied,
            [format!(
                "/dev/infiniband/{} has mode {:o}, owner {}, group {}; {whose} ({} such files)",
                node.name,
                node.mode,
                node.owner,
                node.group,
                denied.len()
            )],
        ));
    }
    let refused = allowed
        .iter()
        .find_map(|node| Some((node, node.refused.as_ref()?)));
    if let Some((node, why)) = refused {
        let line = format!("/dev/infiniband/{}: {why}", node.name);
        let place = process.container.map(str::to_owned);
        found.push(Finding::new(
            Code::NodeRefused,
            [line].into_iter().chain(place),
        ));
    }
    found
}

fn ports(host: &Host) -> Option<Finding> {
    let is_down = |nic: &&RdmaNic| {
        nic.state
            .as_ref()
            .is_some_and(|state| !state.contains("ACTIVE"))
    };
    let down: Vec<String> = (host.devices.efa_nics().filter(is_down))
        .map(|nic| {
            format!(
                "{}: port 1 is {}",
                nic.name,
                nic.state.as_deref().unwrap_or("?")
            )
        })
        .collect();
    (!down.is_empty()).then(|| Finding::new(Code::PortDown, down))
}
