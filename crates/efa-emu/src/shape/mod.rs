//! NICs of real instances: how many, how fast, where they sit, and a file tree that says the same.
//!
//! ```text
//! "p5", "custom:nics=4,.." --> Shape --+--> NicSpec of each NIC, for libfabric
//!                                      +--> write_root(dir): dir/sys/.., for code that reads sysfs
//! ```

mod custom;
mod fixture;
mod instance;
mod pci;

#[cfg(test)]
mod tests;

pub use pci::{NotAPciAddress, Pci};

/// PCI vendor of EFAs and Neuron devices.
const AMAZON: u16 = 0x1d0f;
/// An Ethernet controller, as which EFAs show in the dumps.
const NIC_CLASS: u32 = 0x02_00_00;
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
    name: String,
    product: String,
    nics: Vec<NicSpec>,
    functions: Vec<Function>,
}

/// A PCI function that is no bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Function {
    pci: Pci,
    /// From the root complex to the function; the root bus is that of the first one, or the
    /// function's own if there is none.
    bridges: Vec<Pci>,
    numa: u8,
    kind: Kind,
    class: u32,
    vendor: u16,
    device: u16,
    link: Link,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Nic,
    Accelerator,
}

/// A PCI link, in the words of sysfs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Link {
    speed: &'static str,
    width: u8,
}

impl Link {
    const fn new(speed: &'static str, width: u8) -> Self {
        Self { speed, width }
    }
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
    pub const NAMES: [&'static str; 5] = ["p4d", "p5", "p5en", "trn1", "trn2"];

    /// The shape of an instance of [`Self::NAMES`] (its product name will do), or `custom:` with
    /// words between commas: `nics=4`, `speed=100` (Gb/s of each), and lists with `+` between, `pci=`
    /// of addresses and `names=`, and `product=`.
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
        let all = [
            instance::p4d,
            instance::p5,
            instance::p5en,
            instance::trn1,
            instance::trn2,
        ];
        let shapes = all.into_iter().map(|make| make());
        let mut named = shapes.filter(|shape| shape.name == name || shape.product == name);
        named.next().ok_or_else(|| ShapeError {
            text: name.to_owned(),
            what: "there is no such shape".to_owned(),
        })
    }

    /// So many NICs of 100 Gb/s side by side, and nothing else; at most 64.
    #[must_use]
    pub fn simple(nics: usize) -> Self {
        custom::build("simple", "emulated", 100, custom::in_a_row(nics.min(64)))
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The product name of the machine, as DMI says it.
    #[must_use]
    pub fn product(&self) -> &str {
        &self.product
    }

    /// Its NICs, in the order of their PCI addresses in the table of the instance.
    #[must_use]
    pub fn nics(&self) -> &[NicSpec] {
        &self.nics
    }

    fn of(name: &str, product: &str, speed_bps: u64, functions: Vec<Function>) -> Self {
        let is_nic = |function: &&Function| function.kind == Kind::Nic;
        let nics = functions.iter().filter(is_nic).enumerate();
        Self {
            name: name.to_owned(),
            product: product.to_owned(),
            nics: nics
                .map(|(index, function)| spec(function, index, speed_bps, &functions))
                .collect(),
            functions,
        }
    }

    /// A name or an address that two NICs have.
    fn twins(&self) -> Option<String> {
        let all = self.nics.iter().enumerate();
        all.clone().find_map(|(i, nic)| {
            let others = &self.nics[..i];
            let name = others.iter().any(|other| other.name == nic.name);
            let place = others.iter().any(|other| other.pci == nic.pci);
            match (name, place) {
                (_, true) => Some(nic.pci.to_string()),
                (true, _) => Some(nic.name.clone()),
                _ => None,
            }
        })
    }
}

fn spec(function: &Function, index: usize, speed_bps: u64, all: &[Function]) -> NicSpec {
    let device = format!("{:#06x}", function.device);
    NicSpec {
        name: function.pci.nic_name(),
        pci: function.pci,
        speed_bps,
        mtu: MTU,
        vendor_id: format!("{:#06x}", function.vendor),
        device_version: device.clone(),
        device_id: device,
        driver: "efa".to_owned(),
        firmware: "0.0.0.0".to_owned(),
        guid: guid(function, index, all),
    }
}

/// Cards are what is behind one bridge, or on one root bus.
fn guid(function: &Function, index: usize, all: &[Function]) -> u64 {
    let same_card = |other: &&Function| {
        other.kind == Kind::Nic
            && match (&*function.bridges, &*other.bridges) {
                ([], []) => other.pci.bus == function.pci.bus,
                ([mine, ..], [theirs, ..]) => mine == theirs,
                _ => false,
            }
    };
    let mut card = all.iter().filter(same_card);
    let card_bus = card.clone().next().map_or(0, |first| first.pci.bus);
    let in_card = card
        .position(|other| other.pci == function.pci)
        .unwrap_or(0);
    let byte = |n: usize| u64::try_from(n).unwrap_or(0) & 0xff;
    // A locally administered address: nobody's.
    let mac_low = 0x0e_fa_00_00 | byte(index);
    mac_low << 32 | u64::from(function.pci.domain) << 16 | u64::from(card_bus) << 8 | byte(in_card)
}
