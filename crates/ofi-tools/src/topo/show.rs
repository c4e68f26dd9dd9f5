//! A host as text: the branches that lead to NICs and accelerators, and the devices made of them.

use std::collections::BTreeSet;

use ofi_topo::{Accelerators, Grouping, Link, PciAddress, PciFunction, Remark};

use super::host::Host;

/// The tree, a line each.
pub(super) fn tree(host: &Host, accelerators: Accelerators) -> Vec<String> {
    let ends = |f: &&PciFunction| host.nic(f.address).is_some() || accelerators.contain(f);
    let functions = host.tree.functions().iter();
    let shown: BTreeSet<PciAddress> = functions
        .filter(ends)
        .flat_map(|f| f.bridges.iter().copied().chain([f.address]))
        .collect();
    let mut lines = vec![format!(
        "{}: {} PCI functions, {} NICs",
        host.name,
        host.tree.functions().len(),
        host.nics.len()
    )];
    let mut place = None;
    for function in host.tree.functions() {
        if !shown.contains(&function.address) {
            continue;
        }
        let here = Some(place_of(host, function));
        if here != place {
            lines.extend(here.clone());
            place = here;
        }
        let indent = "  ".repeat(function.bridges.len() + 1);
        lines.push(format!(
            "{indent}{}",
            describe(host, function, accelerators)
        ));
    }
    lines
}

/// Package, NUMA node and root bus.
fn place_of(host: &Host, function: &PciFunction) -> String {
    let numa = host.tree.numa_of(function);
    let package = numa.and_then(|node| host.tree.package_of(node));
    let top = function.bridges.first().unwrap_or(&function.address);
    let known = |what: &str, number: Option<u32>| match number {
        Some(number) => format!("{what} {number}"),
        None => format!("no {what}"),
    };
    format!(
        "{}, {}, root bus {:04x}:{:02x}",
        known("package", package),
        known("NUMA node", numa),
        top.domain(),
        top.bus()
    )
}

fn describe(host: &Host, function: &PciFunction, accelerators: Accelerators) -> String {
    let PciFunction {
        address,
        vendor,
        device,
        ..
    } = function;
    let what = match host.nic(*address) {
        Some(nic) => format!("NIC {}", nic.name),
        None if accelerators.contain(function) => "accelerator".to_owned(),
        None => "bridge".to_owned(),
    };
    let link = link(function.link);
    format!("{address} {what} [{vendor:04x}:{device:04x}]{link}")
}

fn link(link: Link) -> String {
    match (link.speed, link.width) {
        (Some(speed), Some(width)) => format!(" {speed} GT/s x{width}"),
        _ => String::new(),
    }
}

/// The devices, a line each, then what is remarkable.
pub(super) fn groups(host: &Host, grouping: &Grouping) -> Vec<String> {
    if grouping.devices.is_empty() {
        let name = &host.name;
        return vec![format!(
            "no devices: {name} has no EFA and no InfiniBand NIC; --nic ADDRESS takes another function for one"
        )];
    }
    let name = |index: &usize| {
        let nic = host.nics.iter().find(|nic| nic.index == *index);
        nic.map_or_else(String::new, |nic| {
            let place = nic.pci.map_or_else(String::new, |pci| format!(" ({pci})"));
            format!("{}{place}", nic.name)
        })
    };
    let devices = grouping.devices.iter().enumerate().map(|(number, device)| {
        let rails: Vec<String> = device.rails.iter().map(name).collect();
        let near = device
            .near
            .map_or_else(String::new, |near| format!("; near {near}"));
        format!("device {number}: {}{near}", rails.join(", "))
    });
    let mut lines: Vec<String> = devices.collect();
    lines.extend(grouping.remarks.iter().map(|remark| match remark {
        Remark::Elsewhere { index } => format!("note: {} is not in the tree", name(index)),
        Remark::Spread {
            nics,
            accelerators,
            devices,
        } => format!(
            "note: {nics} NICs near {accelerators} accelerators make {devices} devices: one has at most {} rails",
            ofi_topo::MAX_RAILS
        ),
        Remark::Unequal { least, most } => format!(
            "note: devices have {least} to {most} rails, and those that differ cannot be connected"
        ),
        other => format!("note: {other:?}"),
    }));
    lines
}
