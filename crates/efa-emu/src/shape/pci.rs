//! The address of a PCI function.

use core::fmt;
use core::str::FromStr;

use ofi_topo::{PciAddress, TopoError};

/// Domain, bus, device and function, written `dddd:bb:dd.f` in hex.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pci {
    /// The domain; libfabric reports 16 bits of it.
    pub domain: u16,
    /// The bus.
    pub bus: u8,
    /// The device, below 32.
    pub device: u8,
    /// The function, below 8.
    pub function: u8,
}

impl Pci {
    /// A function of domain 0.
    #[must_use]
    pub const fn new(bus: u8, device: u8, function: u8) -> Self {
        Self {
            domain: 0,
            bus,
            device,
            function,
        }
    }
}

impl From<PciAddress> for Pci {
    /// Domains beyond 16 bits (Intel VMD) are cut: libfabric reports no more.
    fn from(address: PciAddress) -> Self {
        Self {
            domain: u16::try_from(address.domain() & 0xffff).unwrap_or(0),
            bus: address.bus(),
            device: address.device(),
            function: address.function(),
        }
    }
}

impl TryFrom<Pci> for PciAddress {
    type Error = TopoError;

    fn try_from(pci: Pci) -> Result<Self, TopoError> {
        Self::new(pci.domain.into(), pci.bus, pci.device, pci.function)
    }
}

impl fmt::Display for Pci {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            domain,
            bus,
            device,
            function,
        } = *self;
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}.{function:x}")
    }
}

/// The text is no address of a PCI function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a PCI address is written dddd:bb:dd.f in hex, with a device below 20 and a function below 8"
)]
pub struct NotAPciAddress;

impl FromStr for Pci {
    type Err = NotAPciAddress;

    fn from_str(text: &str) -> Result<Self, NotAPciAddress> {
        let parse = || {
            let (domain, rest) = text.split_once(':')?;
            let (bus, rest) = rest.split_once(':')?;
            let (device, function) = rest.split_once('.')?;
            let small = |text, digits| u8::try_from(hex(text, digits)?).ok();
            Some(Self {
                domain: hex(domain, 4)?,
                bus: small(bus, 2)?,
                device: small(device, 2).filter(|d| *d < 32)?,
                function: small(function, 1).filter(|f| *f < 8)?,
            })
        };
        parse().ok_or(NotAPciAddress)
    }
}

/// A hex number of exactly so many digits.
fn hex(text: &str, digits: usize) -> Option<u16> {
    let well_formed = text.len() == digits && text.bytes().all(|b| b.is_ascii_hexdigit());
    if well_formed {
        u16::from_str_radix(text, 16).ok()
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::{NotAPciAddress, Pci};

    #[test]
    fn addresses_are_read_as_they_are_written() {
        for text in ["0000:4f:00.0", "0001:a0:1b.7"] {
            assert_eq!(text.parse::<Pci>().unwrap().to_string(), text);
        }
        for bad in [
            "",
            "4f:00.0",
            "0000:4f:20.0",
            "0000:4f:00.8",
            "0000:4f:00",
            "0000:4f:00.0 ",
        ] {
            assert_eq!(bad.parse::<Pci>(), Err(NotAPciAddress), "{bad}");
        }
    }
}
