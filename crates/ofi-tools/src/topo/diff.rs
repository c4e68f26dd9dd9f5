//! What two hosts, or two descriptions of one, say differently.

use std::collections::BTreeSet;

use ofi_topo::{PciAddress, PciFunction};

use super::host::Host;

/// A line for each function that is in one alone, or elsewhere, or something else. What a source does not
/// tell (0, or nothing) is no difference.
pub(super) fn lines(a: &Host, b: &Host) -> Vec<String> {
    let addresses = |host: &Host| -> BTreeSet<PciAddress> {
        host.tree.functions().iter().map(|f| f.address).collect()
    };
    let all: BTreeSet<PciAddress> = addresses(a).union(&addresses(b)).copied().collect();
    let mut lines = Vec::new();
    for address in all {
        match (a.tree.find(address), b.tree.find(address)) {
            (Some(here), Some(there)) => {
                lines.extend(differences(here, there).map(|what| format!("{address}: {what}")));
            }
            (Some(_), None) => lines.push(format!("- {address} ({})", what(a, address))),
            (None, Some(_)) => lines.push(format!("+ {address} ({})", what(b, address))),
            (None, None) => {}
        }
    }
    lines
}

fn what(host: &Host, address: PciAddress) -> String {
    let nic = host.nic(address).map(|nic| format!("NIC {}", nic.name));
    let ids = host
        .tree
        .find(address)
        .map(|f| format!("class {:04x}, {:04x}:{:04x}", f.class, f.vendor, f.device));
    nic.or(ids).unwrap_or_default()
}

fn differences(a: &PciFunction, b: &PciFunction) -> impl Iterator<Item = String> {
    let path = |f: &PciFunction| -> String {
        let bridges: Vec<String> = f.bridges.iter().map(ToString::to_string).collect();
        match bridges.is_empty() {
            true => "its root bus".to_owned(),
            false => bridges.join("/"),
        }
    };
    let moved = (a.bridges != b.bridges).then(|| format!("behind {}, not {}", path(b), path(a)));
    let numa = a.numa.zip(b.numa).filter(|(a, b)| a != b);
    let numa = numa.map(|(a, b)| format!("NUMA node {b}, not {a}"));
    let ids = [
        ("class", a.class, b.class),
        ("vendor", a.vendor, b.vendor),
        ("device", a.device, b.device),
    ];
    let ids = ids
        .into_iter()
        .filter(|(_, a, b)| *a != 0 && *b != 0 && a != b);
    let ids = ids.map(|(name, a, b)| format!("{name} {b:04x}, not {a:04x}"));
    moved.into_iter().chain(numa).chain(ids)
}
