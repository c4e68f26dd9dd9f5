//! Do the NICs make devices that fit each other, and does NCCL get a topology that it takes?

use ofi_net::Expected;
use ofi_topo::nccl_read::{self, Fault};
use ofi_topo::{Accelerators, Grouping, Nic, Remark};

use super::{environment, libfabric};
use crate::doctor::code::Code;
use crate::doctor::facts::Host;
use crate::doctor::finding::Finding;

/// Faults of a topology file that are told; `ofi topo validate` tells all.
const LINES_MAX: usize = 8;

pub(super) fn check(host: &Host) -> Vec<Finding> {
    let mut found: Vec<Finding> = topo_file(host).into_iter().collect();
    if host.devices.nics.is_empty() {
        return found;
    }
    if host.devices.tree.functions().is_empty() {
        let line = "/sys/bus/pci/devices has nothing".to_owned();
        found.push(Finding::new(Code::NoTopology, [line]));
        return found;
    }
    found.extend(accelerators(host));
    match expected(host) {
        Some(Err(why)) => found.push(Finding::new(Code::GroupsWrong, [why])),
        Some(Ok(expected)) => {
            let grouping = expected.grouping.as_ref();
            found.extend(grouping.and_then(|grouping| uneven(host, grouping)));
            found.extend(grouping.and_then(|grouping| idle(host, grouping)));
        }
        None => {}
    }
    found
}

/// As the plugin warns of it.
fn accelerators(host: &Host) -> Option<Finding> {
    let devices = &host.devices;
    let whole = ofi_net::instance_accelerators(&devices.product)?;
    let config = environment::config(host).0.ok()?;
    let is_by_them = config.group_by == Accelerators::NVIDIA && config.nic_groups.is_none();
    let line = format!("{} of the {whole} of {}", devices.gpus, devices.product);
    (is_by_them && devices.gpus < whole).then(|| Finding::new(Code::AcceleratorsMissing, [line]))
}

/// The devices that the plugin would make of this host's EFAs, by its own functions; the error is a line.
/// `None`: the settings end the start before.
pub(crate) fn expected(host: &Host) -> Option<Result<Expected, String>> {
    let nics: Vec<Nic> = libfabric::efas_left(host)
        .enumerate()
        .map(|(index, nic)| {
            let mut described = Nic::new(index, nic.name.clone());
            (described.pci, described.guid) = (nic.pci, nic.guid);
            described
        })
        .collect();
    let mut config = environment::config(host).0.ok()?;
    config.product_name = Some(host.devices.product.clone());
    let expected = Expected::of(&config, &nics, &host.devices.tree);
    Some(expected.map_err(|error| error.what().replace('\n', "; ")))
}

fn uneven(host: &Host, grouping: &Grouping) -> Option<Finding> {
    let unequal = grouping.remarks.iter().find_map(|remark| match remark {
        Remark::Unequal { least, most } => Some((least, most)),
        _ => None,
    })?;
    let config = environment::config(host).0;
    let is_forced = config.is_ok_and(|config| config.force_num_rails.is_some());
    let names = names(host);
    let odd = grouping
        .devices
        .iter()
        .enumerate()
        .filter(|(_, device)| device.rails.len() == *unequal.0);
    let lines = odd.map(|(number, device)| {
        let rails = device
            .rails
            .iter()
            .filter_map(|rail| names.get(*rail).copied());
        let near = device
            .near
            .map(|pci| format!(" near {pci}"))
            .unwrap_or_default();
        format!(
            "device {number}{near} has {} of {} rails: {}",
            unequal.0,
            unequal.1,
            rails.collect::<Vec<_>>().join(", ")
        )
    });
    (!is_forced).then(|| Finding::new(Code::UnevenRails, lines.take(8)))
}

/// As they are numbered in a grouping.
fn names(host: &Host) -> Vec<&str> {
    let nics = libfabric::efas_left(host);
    nics.map(|nic| nic.name.as_str()).collect()
}

/// NICs that are of no device: only settings make it so.
fn idle(host: &Host, grouping: &Grouping) -> Option<Finding> {
    let names = names(host);
    let unused = grouping.unused.iter();
    let unused: Vec<&str> = (unused.take(8))
        .filter_map(|index| names.get(*index).copied())
        .collect();
    let rules = ["OFI_NCCL_NIC_GROUPS", "OFI_NCCL_FORCE_NUM_RAILS"];
    let set = rules
        .into_iter()
        .filter(|name| host.settings.filled(name).is_some());
    let set = set.map(|name| host.settings.show(name));
    let count = grouping.unused.len();
    let line = format!(
        "{count} of {} carry nothing: {}",
        names.len(),
        unused.join(", ")
    );
    (count > 0).then(|| Finding::new(Code::NicsIdle, set.chain([line])))
}

fn topo_file(host: &Host) -> Option<Finding> {
    let (file, text) = host.topo_file.as_ref()?;
    let shown = host.settings.show("NCCL_TOPO_FILE");
    // What the plugin makes for its own process is not a file for others.
    if file.starts_with("/proc/self/fd") {
        return None;
    }
    let Ok(text) = text else {
        return Some(Finding::new(Code::TopoFileMissing, [shown]));
    };
    let faults = match nccl_read::faults(text, None) {
        Ok(faults) => faults,
        Err(error) => {
            let why = error.to_string().replace('\n', "; ");
            return Some(Finding::new(Code::TopoFileBad, [shown, why]));
        }
    };
    // What it names beyond this host is no fault here: whole instances have files that serve their parts.
    let is_refused = |fault: &&Fault| matches!(fault, Fault::TooMuch(_));
    let refused: Vec<String> = (faults.iter().filter(is_refused))
        .map(Fault::to_string)
        .collect();
    let (code, lines) = match (refused.is_empty(), faults.is_empty()) {
        (false, _) => (Code::TopoFileBig, refused),
        (true, false) => {
            let lines = faults.iter().map(Fault::to_string);
            (Code::TopoFileBad, lines.collect())
        }
        (true, true) => return None,
    };
    let lines = lines.into_iter().take(LINES_MAX);
    Some(Finding::new(code, [shown].into_iter().chain(lines)))
}
