//! The topology file that NCCL is given where a device has several NICs (protocol 2h.4).
//!
//! NCCL knows one PCI function a device, the leader. The file says where leaders are and that the link of
//! each carries what all its NICs together carry; the rest NCCL finds by itself.
//!
//! There are no files of fixed instances, which the reference installs for p4d, p4de and g5 (protocol 2h.5). They
//! say what those hypervisors hide: that a NIC shares a switch with two GPUs, so that NCCL lets the NIC read GPU
//! memory. The plugin offers NCCL no GPU memory, for which that matters; and a file of fixed addresses is wrong in
//! a container that shows a part, grows stale, and adds its elements to everybody's. What the tree shows is
//! enough to put each NIC beside its GPUs.

use core::fmt::{self, Write as _};
use std::collections::{BTreeMap, BTreeSet};

use crate::{
    Accelerators, DeviceGroup, Grouping, Link, LinkSpeed, Nic, PciAddress, PciFunction, Tree,
};

/// Lanes that are taken for a NIC that does not say (protocol 2h.4), at least.
const WIDTH_OF_UNKNOWN_NIC: u8 = 8;
/// Lanes of a slot: what a NIC that does not say, and an accelerator that does not say, have at most.
const WIDTH_OF_SLOT: u8 = 16;
/// Addresses that a sentence names.
const NAMED: usize = 3;

/// The file for these devices, or `None` where it would tell NCCL nothing: no device has several NICs, or none
/// that has is led by a function of the tree. A file without them would be worse than none: NCCL takes it in
/// place of the one that a hypervisor puts into `/var/run/nvidia-topologyd`. `host` tells hosts apart; `nics` are those that `grouping` was made of.
///
/// ```
/// # #[cfg(feature = "shapes")] {
/// use ofi_topo::{Accelerators, group_near, nccl_xml, shape::Shape};
/// let p5 = Shape::by_name("p5").unwrap();
/// let nics = p5.provider_list();
/// let grouping = group_near(&nics, &p5.tree, Accelerators::NVIDIA).unwrap();
/// let file = nccl_xml::file(&p5.tree, (&nics, &grouping), Accelerators::NVIDIA, 1).unwrap();
/// assert!(file.contains(
///     "<pci busid=\"0000:52:00.0\" link_speed=\"32 GT/s PCIe/s\" link_width=\"16\"/>"
/// ));
/// # }
/// ```
///
/// # Costs
/// O(f * n) for f functions and n NICs; made once per process.
#[must_use]
pub fn file(
    tree: &Tree,
    (nics, grouping): (&[Nic], &Grouping),
    accelerators: Accelerators,
    host: u64,
) -> Option<String> {
    let leaders = leaders(tree, nics, grouping)?;
    let ours: BTreeSet<PciAddress> = nics.iter().filter_map(|nic| nic.pci).collect();
    // NCCL takes node 0 where the firmware does not say.
    let node = |function: &PciFunction| tree.numa_of(function).unwrap_or(0);
    let mut nodes: BTreeMap<u32, Vec<&PciFunction>> = BTreeMap::new();
    for function in tree.functions() {
        if ours.contains(&function.address) || accelerators.contain(function) {
            nodes.entry(node(function)).or_default().push(function);
        }
    }
    let mut text = String::from("<system version=\"1\">\n");
    for (node, functions) in nodes {
        let mut branch = Branch {
            text: String::new(),
            open: Vec::new(),
        };
        // Writing to a string cannot fail.
        let written = functions
            .iter()
            .try_for_each(|function| branch.add((tree, nics), function, &leaders));
        if written.is_ok() {
            branch.close(0);
            let head = format!("  <cpu host_hash=\"{host:#x}\" numaid=\"{node}\">\n");
            text.extend([head.as_str(), &branch.text, "  </cpu>\n"]);
        }
    }
    text.push_str("</system>\n");
    Some(text)
}

/// What the file says of links that nobody shows, in a sentence; `None` where all are shown, or there is no file.
///
/// # Costs
/// O(d * n) for d devices and n NICs.
#[must_use]
pub fn unshown(tree: &Tree, nics: &[Nic], grouping: &Grouping) -> Option<String> {
    let leaders = leaders(tree, nics, grouping)?;
    let is_unshown = |address: &PciAddress| {
        let link = tree.find(*address).map(|function| tree.link_of(function));
        link.is_some_and(|link| link.speed.is_none() || link.width.is_none())
    };
    let of_nics: BTreeSet<PciAddress> = leaders.keys().copied().filter(is_unshown).collect();
    let several = leaders.values().filter(|device| nics_of(device) > 1);
    let near = several.filter_map(|device| device.near);
    let of_accelerators: BTreeSet<PciAddress> = near.filter(is_unshown).collect();
    let parts: Vec<String> = [
        (
            "NICs that lead devices",
            "NCCL is told 16 GT/s and 8 lanes of each, more where the NIC itself is faster",
            &of_nics,
        ),
        (
            "accelerators",
            "32 GT/s and 16 lanes are taken for what they let through",
            &of_accelerators,
        ),
    ]
    .into_iter()
    .filter(|(.., addresses)| !addresses.is_empty())
    .map(|(of, told, addresses)| {
        let first: Vec<String> = addresses
            .iter()
            .take(NAMED)
            .map(ToString::to_string)
            .collect();
        let more = if addresses.len() > NAMED { ", .." } else { "" };
        let (count, first) = (addresses.len(), first.join(", "));
        format!("of {count} {of} ({first}{more}): {told}")
    })
    .collect();
    (!parts.is_empty()).then(|| {
        format!(
            "no speed or width of the PCI link is shown {}",
            parts.join("; ")
        )
    })
}

/// Devices by the address that NCCL knows them by; `None` where there is nothing to tell.
fn leaders<'g>(
    tree: &Tree,
    nics: &[Nic],
    grouping: &'g Grouping,
) -> Option<BTreeMap<PciAddress, &'g DeviceGroup>> {
    let mut leaders: BTreeMap<PciAddress, &DeviceGroup> = BTreeMap::new();
    for device in &grouping.devices {
        let leader = nics.iter().find(|nic| nic.index == device.leader);
        if let Some(address) = leader.and_then(|nic| nic.pci) {
            leaders.entry(address).or_insert(device);
        }
    }
    let is_led = |(place, device): (&PciAddress, &&DeviceGroup)| {
        nics_of(device) > 1 && tree.find(*place).is_some()
    };
    leaders.iter().any(is_led).then_some(leaders)
}

/// NICs of a device; one that carries several rails counts once.
fn nics_of(device: &DeviceGroup) -> usize {
    device.rails.iter().collect::<BTreeSet<_>>().len()
}

/// What stands below a `cpu`.
struct Branch {
    text: String,
    /// The bridges that are open.
    open: Vec<PciAddress>,
}

impl Branch {
    fn add(
        &mut self,
        (tree, nics): (&Tree, &[Nic]),
        function: &PciFunction,
        leaders: &BTreeMap<PciAddress, &DeviceGroup>,
    ) -> fmt::Result {
        // Two bridges are one switch to NCCL, named by the upper: its depth is even, counted from 1
        // below the root bus.
        let switches: Vec<PciAddress> = (function.bridges.iter().skip(1))
            .step_by(2)
            .copied()
            .collect();
        let same = self.open.iter().zip(&switches).take_while(|(a, b)| a == b);
        let same = same.count();
        self.close(same);
        for switch in switches.iter().skip(same) {
            let indent = self.indent();
            writeln!(self.text, "{indent}<pci busid=\"{switch}\">")?;
            self.open.push(*switch);
        }
        let Some(device) = leaders.get(&function.address) else {
            return Ok(());
        };
        let leader = nics.iter().find(|nic| nic.index == device.leader);
        let bps = leader.map_or(0, |nic| nic.speed_bps);
        let (speed, width) = folded((tree, bps), function, device);
        let (indent, address) = (self.indent(), function.address);
        writeln!(
            self.text,
            "{indent}<pci busid=\"{address}\" link_speed=\"{speed} GT/s PCIe/s\" link_width=\"{width}\"/>"
        )
    }

    /// Closes bridges until `left` are open.
    fn close(&mut self, left: usize) {
        while self.open.len() > left {
            self.open.pop();
            let indent = self.indent();
            self.text.push_str(&indent);
            self.text.push_str("</pci>\n");
        }
    }

    fn indent(&self) -> String {
        "  ".repeat(self.open.len() + 2)
    }
}

/// The link of a leader that carries what all NICs of its device do, as far as their accelerator's link
/// goes: doubled in speed first, then in width, while there are NICs to add. Where nobody shows that link it is
/// that of a fast slot: NCCL takes the least on a path, and so bounds it by what it finds of the accelerator.
fn folded(
    (tree, bps): (&Tree, u64),
    function: &PciFunction,
    device: &DeviceGroup,
) -> (LinkSpeed, u8) {
    let (mut speed, mut width) = carrying(tree.link_of(function), bps);
    let near = device.near.and_then(|address| tree.find(address));
    let near = near.map(|near| tree.link_of(near)).unwrap_or_default();
    let speed_max = near.speed.unwrap_or(LinkSpeed::OF_UNKNOWN_ACCELERATOR);
    let width_max = near.width.unwrap_or(WIDTH_OF_SLOT);
    let mut nics = nics_of(device);
    while nics > 1 && speed < speed_max {
        speed = speed.next().unwrap_or(speed);
        nics /= 2;
    }
    while nics > 1 && width.saturating_mul(2) <= width_max {
        width *= 2;
        nics /= 2;
    }
    (speed, width)
}

/// The link of a NIC of `bps`. What of it nobody shows is taken as the reference does, and wider, then faster,
/// where that would not carry what the NIC does (0: nobody knows): NCCL would count with a part of it.
fn carrying(shown: Link, bps: u64) -> (LinkSpeed, u8) {
    let mut speed = shown.speed.unwrap_or(LinkSpeed::OF_UNKNOWN_NIC);
    let mut width = shown.width.unwrap_or(WIDTH_OF_UNKNOWN_NIC);
    while shown.width.is_none() && width < WIDTH_OF_SLOT && speed.bps(width) < bps {
        width *= 2;
    }
    while shown.speed.is_none() && speed.bps(width) < bps {
        let Some(next) = speed.next() else { break };
        speed = next;
    }
    (speed, width)
}
