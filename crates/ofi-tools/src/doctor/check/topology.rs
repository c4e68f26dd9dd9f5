//! Do the NICs make devices that fit each other, and does NCCL get a topology that it takes?

use ofi_topo::nccl_read::{self, Fault};
use ofi_topo::{Accelerators, Grouping, Nic, Remark, Rule, UserGroups, group, group_near};

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
    match groups(host) {
        Err(why) => found.push(Finding::new(Code::GroupsWrong, [why])),
        Ok(grouping) => found.extend(uneven(host, &grouping)),
    }
    found
}

/// The devices that the plugin would make of this host's EFAs; the error is a line.
pub(crate) fn groups(host: &Host) -> Result<Grouping, String> {
    let nics: Vec<Nic> = host
        .devices
        .efa_nics()
        .enumerate()
        .map(|(index, nic)| {
            let mut described = Nic::new(index, nic.name.clone());
            (described.pci, described.guid) = (nic.pci, nic.guid);
            described
        })
        .collect();
    let settings = &host.settings;
    let grouping = match settings.filled("OFI_NCCL_NIC_GROUPS") {
        Some(text) => text
            .parse::<UserGroups>()
            .and_then(|groups| group(&nics, &Rule::UserGroups(groups))),
        None => group_near(&nics, &host.devices.tree, accelerators(host)),
    };
    let forced = settings
        .filled("OFI_NCCL_FORCE_NUM_RAILS")
        .and_then(|text| text.trim().parse().ok());
    let grouping = grouping.and_then(|made| made.force_rails(forced.unwrap_or(0)));
    grouping.map_err(|error| error.to_string().replace('\n', "; "))
}

fn accelerators(host: &Host) -> Accelerators {
    match host
        .settings
        .value("OFI_NCCL_GROUP_BY")
        .unwrap_or_default()
        .trim()
    {
        "AMD" => Accelerators::AMD,
        "NEURON" => Accelerators::NEURON,
        "ANY" => Accelerators::ANY,
        "NONE" => Accelerators::NONE,
        _ => Accelerators::NVIDIA,
    }
}

fn uneven(host: &Host, grouping: &Grouping) -> Option<Finding> {
    let unequal = grouping.remarks.iter().find_map(|remark| match remark {
        Remark::Unequal { least, most } => Some((least, most)),
        _ => None,
    })?;
    let is_forced = host
        .settings
        .filled("OFI_NCCL_FORCE_NUM_RAILS")
        .is_some_and(|n| n.trim() != "0");
    let names: Vec<&str> = host
        .devices
        .efa_nics()
        .map(|nic| nic.name.as_str())
        .collect();
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
