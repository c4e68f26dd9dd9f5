//! The PCI functions of a host as a tree: from the machine over packages, NUMA nodes, root buses and
//! bridges down to devices.
//!
//! ```text
//! machine +- package 0 - NUMA node 0 +- root bus 0000:10 +- 0000:10:1b.0 (NIC)
//!         |                          |                   +- 0000:10:1c.0 (GPU)
//!         |                          +- root bus 0000:20 - bridge - bridge - ..
//!         +- package 1 - NUMA node 1 - ..
//!         +- root bus 0000:00 (nobody knows its node) - ..
//! ```
//!
//! Every source (sysfs, a dump of hwloc, a description in a test) gives the same tree, in one order: that
//! in which hwloc visits PCI devices, on which the reference builds its numbering (protocol 2h.3).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::{Link, PciAddress};

/// Bridges above one function, at most, in a file that is read: hosts have some ten, and a file that nests
/// without end would take memory in the square of its size.
#[cfg(any(feature = "hwloc-xml", feature = "nccl-xml"))]
pub(crate) const BRIDGES_MAX: usize = 64;

/// One PCI function: a NIC, an accelerator, a bridge, or something else.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PciFunction {
    /// Where it is.
    pub address: PciAddress,
    /// The bridges above it, from its root bus down; empty on a root bus.
    pub bridges: Vec<PciAddress>,
    /// Class and subclass: 0x0302 is a 3D controller, 0x0200 an Ethernet controller; 0 when unknown.
    pub class: u16,
    /// Who made it: 0x10de is NVIDIA; 0 when unknown.
    pub vendor: u16,
    /// What it is among the vendor's devices; 0 when unknown.
    pub device: u16,
    /// Its NUMA node; `None` where the firmware does not say (-1 in sysfs).
    pub numa: Option<u32>,
    /// What its link can do at most.
    pub link: Link,
    /// It is a virtual function, and the one that it is a part of is on this host too (`physfn` in sysfs;
    /// dumps of hwloc do not say). In a virtual machine that was given one, it is a function like any other.
    pub is_part: bool,
}

impl PciFunction {
    /// A function of which only the place is known.
    #[must_use]
    pub const fn new(address: PciAddress, bridges: Vec<PciAddress>) -> Self {
        Self {
            address,
            bridges,
            class: 0,
            vendor: 0,
            device: 0,
            numa: None,
            link: Link {
                speed: None,
                width: None,
            },
            is_part: false,
        }
    }

    /// Its root bus: domain and number.
    pub(crate) fn root(&self) -> (u32, u8) {
        let top = self.bridges.first().unwrap_or(&self.address);
        (top.domain(), top.bus())
    }

    fn path(&self) -> impl Iterator<Item = &PciAddress> {
        self.bridges.iter().chain([&self.address])
    }
}

/// A place above PCI functions, or a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Node {
    Machine,
    Package(u32),
    Numa(u32),
    Root(u32, u8),
    Function(PciAddress),
}

/// All PCI functions of a host, each once, in the order in which hwloc visits them: by package and NUMA
/// node (those of no node last), then root bus, then depth first by address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    functions: Vec<PciFunction>,
    /// Where each is in that order.
    places: BTreeMap<PciAddress, usize>,
    /// NUMA node to package.
    packages: BTreeMap<u32, u32>,
    /// NUMA node of each root bus: that of the first function on it, as hwloc has it.
    roots: BTreeMap<(u32, u8), Option<u32>>,
    /// Addresses that came more than once.
    repeated: Vec<PciAddress>,
    /// What the source has where an address should be: some of it.
    unread: Vec<String>,
    /// Addresses that sysfs lists without a place below its root.
    unplaced: Vec<PciAddress>,
}

/// Of what cannot be read so many are kept, of so many characters.
const UNREAD_MAX: usize = 16;
const UNREAD_CHARS: usize = 64;

impl Tree {
    /// A tree of these functions, in any order; of two with one address the first is kept. `packages`
    /// says for a NUMA node which package it belongs to, where that is known.
    ///
    /// # Costs
    /// O(n log n) comparisons of paths.
    #[must_use]
    pub fn new(functions: Vec<PciFunction>, packages: BTreeMap<u32, u32>) -> Self {
        let mut by_address: BTreeMap<PciAddress, PciFunction> = BTreeMap::new();
        let mut repeated = Vec::new();
        for function in functions {
            match by_address.entry(function.address) {
                Entry::Vacant(free) => {
                    free.insert(function);
                }
                Entry::Occupied(_) => repeated.push(function.address),
            }
        }
        repeated.sort_unstable();
        repeated.dedup();
        let mut functions: Vec<PciFunction> = by_address.into_values().collect();
        functions.sort_by(|a, b| a.path().cmp(b.path()));
        let mut roots = BTreeMap::new();
        for function in &functions {
            roots.entry(function.root()).or_insert(function.numa);
        }
        let place = |function: &PciFunction| {
            let root = function.root();
            let numa = roots.get(&root).copied().flatten();
            let package = numa.and_then(|node| packages.get(&node).copied());
            (numa.is_none(), package, numa, root)
        };
        functions.sort_by_key(place);
        let addresses = functions.iter().map(|function| function.address);
        Self {
            places: addresses.zip(0..).collect(),
            functions,
            packages,
            roots,
            repeated,
            unread: Vec::new(),
            unplaced: Vec::new(),
        }
    }

    /// The same, from a source that has these texts in place of addresses.
    pub(crate) fn with_unread(mut self, texts: impl Iterator<Item = impl AsRef<str>>) -> Self {
        let short = |text: &str| text.chars().take(UNREAD_CHARS).collect();
        let some = texts.take(UNREAD_MAX);
        self.unread = some.map(|text| short(text.as_ref())).collect();
        self
    }

    /// The same, from a source that lists these functions and does not show where they are.
    pub(crate) fn with_unplaced(mut self, mut addresses: Vec<PciAddress>) -> Self {
        addresses.sort_unstable();
        self.unplaced = addresses;
        self
    }

    /// What the source that this was read from (a file, the list of sysfs) has where the address of a PCI
    /// function should be, the first 16 of it; empty text where there is nothing. Those functions were left out.
    #[must_use]
    pub fn unread(&self) -> &[String] {
        &self.unread
    }

    /// Addresses that sysfs lists, in order, and whose entry is no place below its `devices`: it leads out of
    /// the root (a copy of a host that is not whole), to nothing, or to another function, or is no link at all (a
    /// copy that followed links). They were left out.
    #[must_use]
    pub fn unplaced(&self) -> &[PciAddress] {
        &self.unplaced
    }

    /// Addresses that several functions were said to have, in order: all but the first of each were left out.
    #[must_use]
    pub fn repeated(&self) -> &[PciAddress] {
        &self.repeated
    }

    /// The functions, in the order of the tree.
    #[must_use]
    pub fn functions(&self) -> &[PciFunction] {
        &self.functions
    }

    /// The function at an address.
    ///
    /// # Costs
    /// O(log n).
    #[must_use]
    pub fn find(&self, address: PciAddress) -> Option<&PciFunction> {
        self.functions.get(*self.places.get(&address)?)
    }

    /// The package of a NUMA node, where it is known.
    #[must_use]
    pub fn package_of(&self, numa: u32) -> Option<u32> {
        self.packages.get(&numa).copied()
    }

    /// NUMA node to package, where it is known.
    #[must_use]
    pub const fn packages(&self) -> &BTreeMap<u32, u32> {
        &self.packages
    }

    /// The NUMA node of the root bus that a function is below.
    #[must_use]
    pub fn numa_of(&self, function: &PciFunction) -> Option<u32> {
        self.roots.get(&function.root()).copied().flatten()
    }

    /// What its link leaves of it: the least of its own and that of the port above it.
    #[must_use]
    pub fn link_of(&self, function: &PciFunction) -> Link {
        let port = function.bridges.last().and_then(|port| self.find(*port));
        port.map_or(function.link, |port| function.link.behind(port.link))
    }

    /// What is above a function, nearest first, up to the machine.
    pub(crate) fn above(&self, function: &PciFunction) -> Vec<Node> {
        let (domain, bus) = function.root();
        let numa = self.numa_of(function);
        let package = numa.and_then(|node| self.package_of(node));
        let bridges = function.bridges.iter().rev().copied().map(Node::Function);
        bridges
            .chain([Node::Root(domain, bus)])
            .chain(numa.map(Node::Numa))
            .chain(package.map(Node::Package))
            .chain([Node::Machine])
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Node, PciFunction, Tree};
    use crate::PciAddress;

    fn function(path: &str, numa: Option<u32>) -> PciFunction {
        let mut path: Vec<PciAddress> = path.split('/').map(|a| a.parse().unwrap()).collect();
        let mut function = PciFunction::new(path.pop().unwrap(), path);
        function.numa = numa;
        function
    }

    #[test]
    fn visited_by_node_then_bus_then_depth_first() {
        let tree = Tree::new(
            vec![
                function("0000:00:03.0", None),
                function("0000:90:1b.0", Some(1)),
                function("0000:10:02.0", Some(0)),
                function("0000:10:01.0/0000:12:00.0", Some(0)),
                function("0000:10:01.0", Some(0)),
                function("0000:10:02.0", Some(7)),
            ],
            [(0, 0), (1, 1)].into(),
        );
        let order: Vec<String> = tree
            .functions()
            .iter()
            .map(|f| f.address.to_string())
            .collect();
        assert_eq!(
            order,
            [
                "0000:10:01.0",
                "0000:12:00.0",
                "0000:10:02.0",
                "0000:90:1b.0",
                "0000:00:03.0"
            ]
        );
        let last = tree.find("0000:12:00.0".parse().unwrap()).unwrap();
        let bridge = Node::Function("0000:10:01.0".parse().unwrap());
        assert_eq!(
            tree.above(last),
            [
                bridge,
                Node::Root(0, 0x10),
                Node::Numa(0),
                Node::Package(0),
                Node::Machine
            ]
        );
        let loose = tree.find("0000:00:03.0".parse().unwrap()).unwrap();
        assert_eq!(tree.above(loose), [Node::Root(0, 0), Node::Machine]);
    }
}
