//! Shapes that the user describes.

use super::pci::Pci;
use super::{AMAZON, NIC_CLASS, Shape, ShapeError};
use ofi_topo::shape::ShapeNic;
use ofi_topo::{Link, PciAddress, PciFunction, Tree};

/// The PCI device of EFA's first generation; each has its own.
const FIRST_GENERATION: u16 = 0xefa0;
/// The generation of NICs that nobody described.
pub(super) const GENERATION: u16 = 2;
/// NICs that may be asked for.
const NICS_MAX: usize = 64;
/// The first device of a bus that has a NIC; lower ones are the host's own in instances.
const FIRST_DEVICE: usize = 4;
const NICS_A_BUS: usize = 24;

/// So many NICs side by side, from 0000:00:04.0 on.
pub(super) fn in_a_row(count: usize) -> Vec<Pci> {
    let place = |i: usize| {
        let bus = u8::try_from(i / NICS_A_BUS).unwrap_or(u8::MAX);
        let device = u8::try_from(FIRST_DEVICE + i % NICS_A_BUS).unwrap_or(0);
        Pci::new(bus, device, 0)
    };
    (0..count).map(place).collect()
}

/// Reads what stands behind `custom:`.
pub(super) fn parse(text: &str) -> Result<Shape, ShapeError> {
    let mut asked = Asked::default();
    for word in text.split(',').filter(|word| !word.is_empty()) {
        asked.take(word).map_err(|what| ShapeError {
            text: word.to_owned(),
            what,
        })?;
    }
    asked.shape().map_err(|what| ShapeError {
        text: format!("custom:{text}"),
        what,
    })
}

#[derive(Default)]
struct Asked {
    nics: Option<usize>,
    speed_gbps: Option<u64>,
    places: Vec<Pci>,
    names: Vec<String>,
    product: Option<String>,
    generation: Option<u16>,
}

impl Asked {
    fn take(&mut self, word: &str) -> Result<(), String> {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        match name {
            "nics" => self.nics = Some(number(value, NICS_MAX)?),
            "speed" => self.speed_gbps = Some(number(value, 6400)?),
            "pci" => {
                let each = value.split('+').map(str::parse);
                let read: Result<_, super::pci::NotAPciAddress> = each.collect();
                self.places = read.map_err(|e| e.to_string())?;
            }
            "names" => {
                let each = value.split('+').map(name_of_a_nic);
                self.names = each.collect::<Result<_, _>>()?;
            }
            "product" if !value.is_empty() => self.product = Some(value.to_owned()),
            "generation" => self.generation = Some(number(value, 9)?),
            _ => {
                return Err(
                    "a custom shape has nics=4, speed=100 (Gb/s each), generation=2 (of EFA), pci=0000:10:1b.0+0000:20:1b.0, names=rdmap0s4+rdmap0s5 and product=p9.large"
                        .to_owned(),
                );
            }
        }
        Ok(())
    }

    fn shape(self) -> Result<Shape, String> {
        let given = [self.places.len(), self.names.len()];
        let given = given.into_iter().max().filter(|n| *n > 0);
        let count = self.nics.or(given).unwrap_or(1);
        let places = match self.places.len() {
            0 => in_a_row(count),
            _ => self.places,
        };
        if count > NICS_MAX
            || places.len() != count
            || !(self.names.is_empty() || self.names.len() == count)
        {
            return Err(format!(
                "it asks for {count} NICs (at most {NICS_MAX}) and gives {} addresses and {} names",
                places.len(),
                self.names.len()
            ));
        }
        let twin = |i: usize| places[..i].contains(&places[i]);
        if let Some(i) = (0..places.len()).find(|i| twin(*i)) {
            return Err(format!("it has {} twice", places[i]));
        }
        let twin = |i: usize| self.names[..i].contains(&self.names[i]);
        if let Some(i) = (0..self.names.len()).find(|i| twin(*i)) {
            return Err(format!("it has {} twice", self.names[i]));
        }
        let product = self.product.as_deref().unwrap_or("custom");
        let gbps = self.speed_gbps.unwrap_or(100);
        let generation = self.generation.unwrap_or(GENERATION);
        Ok(build(
            ("custom", product),
            (gbps, generation),
            &places,
            &self.names,
        ))
    }
}

/// NICs at these places, each on the root bus that its address says, with these names, or with those of
/// EFAs at such places.
pub(super) fn build(
    (name, product): (&str, &str),
    (speed_gbps, generation): (u64, u16),
    places: &[Pci],
    names: &[String],
) -> Shape {
    // All are in range: texts were checked, and the others count from small numbers.
    let places: Vec<PciAddress> = (places.iter())
        .filter_map(|place| PciAddress::try_from(*place).ok())
        .collect();
    let functions = places.iter().map(|place| {
        let mut nic = PciFunction::new(*place, Vec::new());
        (nic.class, nic.vendor) = (NIC_CLASS, AMAZON);
        nic.device = FIRST_GENERATION + generation - 1;
        nic.numa = Some(0);
        nic.link = Link::parse("8.0 GT/s PCIe", "16");
        nic
    });
    let tree = Tree::new(functions.collect(), [(0, 0)].into());
    let bps = speed_gbps * 1_000_000_000;
    let mut host = ofi_topo::shape::Shape::new((name, product), tree, &places, bps);
    // As they were described, not as they are visited.
    let place = |nic: &ShapeNic| places.iter().position(|place| *place == nic.address);
    host.nics.sort_by_key(place);
    for (nic, name) in host.nics.iter_mut().zip(names) {
        nic.name.clone_from(name);
    }
    Shape::of(host)
}

fn number<T: core::str::FromStr + PartialOrd + From<u8> + core::fmt::Display>(
    text: &str,
    max: T,
) -> Result<T, String> {
    let read = text.parse().ok().filter(|n| *n >= T::from(1) && *n <= max);
    read.ok_or_else(|| format!("it is a number from 1 to {max}"))
}

fn name_of_a_nic(text: &str) -> Result<String, String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let is_good = !text.is_empty() && text.len() <= 40 && text.chars().all(is_name);
    if is_good {
        Ok(text.to_owned())
    } else {
        Err("a NIC's name has 1 to 40 letters, digits, _ and -".to_owned())
    }
}
