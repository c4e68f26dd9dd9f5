//! NICs of real instances: how many, how fast, where they sit, and a file tree that says the same.
//!
//! ```text
//! "p5", "custom:nics=4,.." --> Shape --+--> NicSpec of each NIC, for libfabric
//!                                      +--> write_root(dir): dir/sys/.., for code that reads sysfs
//! ```
//!
//! The instances are described in `ofi_topo::shape`.

mod custom;
mod pci;

#[cfg(test)]
mod tests;

use std::fs;
use std::io;
use std::path::Path;

use ofi_topo::shape::ShapeNic;

pub use pci::{NotAPciAddress, Pci};

/// PCI vendor of EFAs.
const AMAZON: u16 = 0x1d0f;
/// An Ethernet controller, as which EFAs show in the dumps.
const NIC_CLASS: u16 = 0x0200;
/// Longest message of an EFA, in bytes (providers 3).
const MTU: usize = 8928;

/// One NIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NicSpec {
    /// Its name in `/sys/class/infiniband`.
    pub name: String,
    /// Where it sits.
    pub pci: Pci,
    /// Speed of its link in bits per second.
    pub speed_bps: u64,
    /// Bytes of the longest message.
    pub mtu: usize,
    /// PCI vendor, as libfabric writes it: `0x1d0f`.
    pub vendor_id: String,
    /// PCI device: `0xefa1`.
    pub device_id: String,
    /// Generation of the device; EFAs say their PCI device here too.
    pub device_version: String,
    /// Name of the driver.
    pub driver: String,
    /// Version of the firmware: that there is none.
    pub firmware: String,
    /// The node GUID, in the bits that the platform code reads (protocol 2h.5): function index,
    /// card bus, card domain, lower half of the MAC address.
    pub guid: u64,
}

/// An instance's NICs and accelerators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Where everything sits.
    host: ofi_topo::shape::Shape,
    nics: Vec<NicSpec>,
}

/// A shape that cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("shape \"{text}\": {what}\n  try: one of {}, or custom:nics=4,speed=100", Shape::NAMES.join(", "))]
pub struct ShapeError {
    /// The part that is wrong.
    pub text: String,
    /// What is wrong with it.
    pub what: String,
}

impl Shape {
    /// The instances.
    pub const NAMES: [&'static str; 8] = ofi_topo::shape::Shape::NAMES;

    /// The shape of an instance of [`Self::NAMES`] (its product name will do), or `custom:` with
    /// words between commas: `nics=4`, `speed=100` (Gb/s of each), and lists with `+` between, `pci=`
    /// of addresses and `names=`, `product=`, and `generation=` of EFA (2 unless said).
    ///
    /// ```
    /// use efa_emu_fi::shape::Shape;
    /// assert_eq!(Shape::by_name("p5").unwrap().nics().len(), 32);
    /// let two = Shape::by_name("custom:pci=0000:10:1b.0+0000:20:1b.0,speed=400").unwrap();
    /// assert_eq!(two.nics()[1].name, "rdmap32s27");
    /// ```
    ///
    /// # Errors
    /// [`ShapeError`] when there is no such instance, or a word makes no sense.
    pub fn by_name(name: &str) -> Result<Self, ShapeError> {
        if let Some(described) = name.strip_prefix("custom:") {
            return custom::parse(described);
        }
        if name == "custom" {
            return Err(ShapeError {
                text: name.to_owned(),
                what: "it needs a description, such as custom:nics=4".to_owned(),
            });
        }
        let known = ofi_topo::shape::Shape::by_name(name);
        known.map(Self::of).ok_or_else(|| ShapeError {
            text: name.to_owned(),
            what: "there is no such shape".to_owned(),
        })
    }

    /// So many NICs of 100 Gb/s side by side, and nothing else; at most 64.
    #[must_use]
    pub fn simple(nics: usize) -> Self {
        let places = custom::in_a_row(nics.min(64));
        custom::build(
            ("simple", "emulated"),
            (100, custom::GENERATION),
            &places,
            &[],
        )
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.host.name
    }

    /// The product name of the machine, as DMI says it.
    #[must_use]
    pub fn product(&self) -> &str {
        &self.host.product
    }

    /// Its NICs, in the order of the instance's PCI tree, or as they were described.
    #[must_use]
    pub fn nics(&self) -> &[NicSpec] {
        &self.nics
    }

    /// Writes under `root`, which stands for `/`, what Linux shows of the instance: the PCI devices
    /// with their ids, links and NUMA nodes, `class/pci_bus`, `class/infiniband` with the GUIDs, and
    /// the product name; and which kernel this is, which is this machine's whatever the instance. Files that
    /// are there are written over.
    ///
    /// # Errors
    /// What making a directory, a file or a link gave, with its name.
    pub fn write_root(&self, root: &Path) -> io::Result<()> {
        self.host.write_sysfs(root)?;
        // What memory can be lent by dma-buf depends on the kernel that runs; nobody emulates one.
        let release = Path::new("proc/sys/kernel/osrelease");
        match fs::read(Path::new("/").join(release)) {
            Ok(text) => {
                fs::create_dir_all(root.join("proc/sys/kernel"))?;
                fs::write(root.join(release), text)
            }
            // A machine that does not show its own has none to pass on.
            Err(_) => Ok(()),
        }
    }

    fn of(host: ofi_topo::shape::Shape) -> Self {
        let nics = host.nics.iter().map(|nic| spec(&host, nic)).collect();
        Self { host, nics }
    }
}

fn spec(host: &ofi_topo::shape::Shape, nic: &ShapeNic) -> NicSpec {
    let device = host.tree.find(nic.address).map_or(0, |it| it.device);
    let device = format!("{device:#06x}");
    NicSpec {
        name: nic.name.clone(),
        pci: nic.address.into(),
        speed_bps: nic.speed_bps,
        mtu: MTU,
        vendor_id: format!("{AMAZON:#06x}"),
        device_version: device.clone(),
        device_id: device,
        driver: "efa".to_owned(),
        firmware: "0.0.0.0".to_owned(),
        guid: nic.guid.0,
    }
}
