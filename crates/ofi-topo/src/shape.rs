//! Real instances as descriptions: a row a fact, with its source; for tests and emulators.
//!
//! ```text
//! Shape::by_name("p5") --+--> tree, NICs                      what a reader should find
//!                        +--> write_sysfs(root)               what Linux would show
//!                        +--> hwloc_xml()                     what hwloc would say
//! ```
//!
//! Sources: *dump*: a hwloc dump of the instance (as in nixl, Apache-2.0). *topo*: the topology file that
//! aws-ofi-nccl installs (Apache-2.0). *lspci*: `lspci -tv` in the Neuron documentation. *fabtests*: the
//! table of libfabric's tests. *spec*: the instance's page at AWS. *ours*: nobody told us; made up so
//! that it fits the rest.

mod instance;
mod write;
mod xml;

use crate::{NodeGuid, PciAddress, PciFunction, Tree};

/// An instance: its name, and what it shows.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shape {
    /// Short name: `p5`.
    pub name: String,
    /// What the firmware calls it: `p5.48xlarge`.
    pub product: String,
    /// Its PCI functions.
    pub tree: Tree,
    /// Its NICs, in the order of the tree.
    pub nics: Vec<ShapeNic>,
}

/// A NIC for collectives: an EFA.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShapeNic {
    /// Its name in `/sys/class/infiniband`.
    pub name: String,
    /// Where it is.
    pub address: PciAddress,
    /// Speed of its link in bits per second.
    pub speed_bps: u64,
    /// Its GUID: function index, card bus, card domain, and half of a made-up MAC address (protocol
    /// 2h.5). Cards are what is behind one bridge of a root bus, or on a root bus.
    pub guid: NodeGuid,
}

impl Shape {
    /// The instances that are described.
    pub const NAMES: [&'static str; 8] = ["p3dn", "p4d", "p5", "p5en", "g5", "c5n", "trn1", "trn2"];

    /// The shape of an instance, by one of [`Self::NAMES`] or by its product name.
    ///
    /// ```
    /// use ofi_topo::shape::Shape;
    /// assert_eq!(Shape::by_name("p5").unwrap().nics.len(), 32);
    /// assert!(Shape::by_name("p5.48xlarge").is_some() && Shape::by_name("p9").is_none());
    /// ```
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        let shapes = instance::ALL.iter().map(|make| make());
        shapes
            .into_iter()
            .find(|shape| shape.name == name || shape.product == name)
    }

    /// A shape of these functions; those at `nics` are its NICs, of `speed_bps` each.
    #[must_use]
    pub fn new(
        (name, product): (&str, &str),
        tree: Tree,
        nics: &[PciAddress],
        speed_bps: u64,
    ) -> Self {
        let functions = tree.functions().iter();
        let nics: Vec<&PciFunction> = functions
            .filter(|function| nics.contains(&function.address))
            .collect();
        let nics = nics
            .iter()
            .enumerate()
            .map(|(index, function)| ShapeNic {
                name: nic_name(function.address),
                address: function.address,
                speed_bps,
                guid: guid(function, index, &nics),
            })
            .collect();
        Self {
            name: name.to_owned(),
            product: product.to_owned(),
            tree,
            nics,
        }
    }

    /// The shape without some functions: `kept` says which stay. NICs keep their names and GUIDs.
    #[must_use]
    pub fn without(&self, dropped: impl Fn(&PciFunction) -> bool) -> Self {
        let functions = self.tree.functions().iter();
        let kept = functions.filter(|f| !dropped(f)).cloned().collect();
        let tree = Tree::new(kept, self.tree.packages().clone());
        let nics = self.nics.iter();
        let nics = nics
            .filter(|nic| tree.find(nic.address).is_some())
            .cloned()
            .collect();
        Self {
            name: self.name.clone(),
            product: self.product.clone(),
            tree,
            nics,
        }
    }

    /// Its NICs as a provider lists them, numbered from 0.
    #[must_use]
    pub fn provider_list(&self) -> Vec<crate::Nic> {
        let nics = self.nics.iter().enumerate();
        nics.map(|(index, nic)| {
            crate::Nic::new(index, nic.name.clone())
                .with_pci(nic.address)
                .with_speed_bps(nic.speed_bps)
                .with_guid(nic.guid)
        })
        .collect()
    }
}

/// The name of an EFA at a place, as in the dumps: `rdmap79s0` for 0000:4f:00.0. Numbers are decimal; a
/// domain and a function of 0 are left out.
#[must_use]
pub fn nic_name(address: PciAddress) -> String {
    let part = |letter: &str, number: u32| match number {
        0 => String::new(),
        number => format!("{letter}{number}"),
    };
    let domain = part("P", address.domain());
    let function = part("f", address.function().into());
    format!(
        "rdma{domain}p{}s{}{function}",
        address.bus(),
        address.device()
    )
}

fn guid(function: &PciFunction, index: usize, nics: &[&PciFunction]) -> NodeGuid {
    let card = |function: &PciFunction| (function.root(), function.bridges.first().copied());
    let mut same = nics.iter().filter(|other| card(other) == card(function));
    let card_bus = same.clone().next().map_or(0, |first| first.address.bus());
    let in_card = same
        .position(|other| other.address == function.address)
        .unwrap_or(0);
    let byte = |n: usize| u64::try_from(n).unwrap_or(0) & 0xff;
    // A locally administered address: nobody's.
    let mac_low = 0x0e_fa_00_00 | byte(index);
    let domain = u64::from(function.address.domain()) & 0xffff;
    NodeGuid(mac_low << 32 | domain << 16 | u64::from(card_bus) << 8 | byte(in_card))
}

#[cfg(test)]
mod tests;
