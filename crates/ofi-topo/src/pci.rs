//! The address of a PCI function, `dddd:bb:dd.f`.

use core::fmt;
use core::str::FromStr;

use crate::TopoError;

/// Domain, bus, device and function of a PCI function.
///
/// Ordered by domain, then bus, device, function: the order in which Linux enumerates.
/// Displayed as Linux and NCCL write it, `0000:00:05.0`, in lower-case hex (protocol 2a.4).
///
/// ```
/// use ofi_topo::PciAddress;
/// let a: PciAddress = "0000:A0:1d.7".parse().unwrap();
/// assert_eq!(a.to_string(), "0000:a0:1d.7");
/// assert!("0000:a0:20.0".parse::<PciAddress>().is_err(), "a bus has 32 devices");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PciAddress {
    // 32 bits: devices behind Intel VMD live in domains from 0x10000 on.
    domain: u32,
    bus: u8,
    device: u8,
    function: u8,
}

impl PciAddress {
    /// An address from its parts: device below 32, function below 8.
    ///
    /// # Errors
    /// [`TopoError::BadPciAddress`] when device or function is out of range.
    pub fn new(domain: u32, bus: u8, device: u8, function: u8) -> Result<Self, TopoError> {
        if device >= 32 || function >= 8 {
            return Err(TopoError::BadPciAddress {
                text: format!("{domain:04x}:{bus:02x}:{device:02x}.{function:x}"),
                reason: "the device must be below 0x20 and the function below 8",
            });
        }
        Ok(Self {
            domain,
            bus,
            device,
            function,
        })
    }

    /// An address of domain 0 whose device and function are known to be in range.
    #[cfg(feature = "shapes")]
    pub(crate) const fn in_domain_0(bus: u8, device: u8, function: u8) -> Self {
        Self {
            domain: 0,
            bus,
            device,
            function,
        }
    }

    /// The PCI domain (segment); libfabric reports 16 bits of it.
    #[must_use]
    pub const fn domain(self) -> u32 {
        self.domain
    }

    /// The bus, 0 to 255.
    #[must_use]
    pub const fn bus(self) -> u8 {
        self.bus
    }

    /// The device on the bus, 0 to 31.
    #[must_use]
    pub const fn device(self) -> u8 {
        self.device
    }

    /// The function of the device, 0 to 7.
    #[must_use]
    pub const fn function(self) -> u8 {
        self.function
    }

    /// Name of the bus in `/sys/class/pci_bus`: `dddd:bb`.
    #[must_use]
    pub fn bus_name(self) -> String {
        format!("{:04x}:{:02x}", self.domain, self.bus)
    }
}

impl fmt::Display for PciAddress {
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

impl FromStr for PciAddress {
    type Err = TopoError;

    /// Reads `dddd:bb:dd.f`: 4 to 8 hex digits of domain, 2 of bus, 2 of device, 1 of function,
    /// in either case.
    fn from_str(text: &str) -> Result<Self, TopoError> {
        let bad = |reason| TopoError::BadPciAddress {
            text: text.to_owned(),
            reason,
        };
        let shape = || bad("it is not of the form dddd:bb:dd.f in hex digits");
        let (domain, rest) = text.split_once(':').ok_or_else(shape)?;
        let (bus, rest) = rest.split_once(':').ok_or_else(shape)?;
        let (device, function) = rest.split_once('.').ok_or_else(shape)?;
        let domain = hex(domain, 4..=8).ok_or_else(shape)?;
        let [bus, device, function] = [(bus, 2), (device, 2), (function, 1)]
            .map(|(t, digits)| hex(t, digits..=digits).and_then(|v| u8::try_from(v).ok()));
        Self::new(
            domain,
            bus.ok_or_else(shape)?,
            device.ok_or_else(shape)?,
            function.ok_or_else(shape)?,
        )
        .map_err(|_| bad("the device must be below 0x20 and the function below 8"))
    }
}

/// A hex number of exactly so many digits: unlike `from_str_radix`, no sign is accepted.
fn hex(text: &str, digits: core::ops::RangeInclusive<usize>) -> Option<u32> {
    let well_formed = digits.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit());
    if well_formed {
        u32::from_str_radix(text, 16).ok()
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::PciAddress;
    use proptest::prelude::*;

    #[test]
    fn refuses_what_is_not_an_address() {
        for text in [
            "",
            ":",
            "0000:00:05",
            "0000:00.05.0",
            "000:00:05.0",
            "0000:0:05.0",
            "0000:00:5.0",
            "0000:00:05.8",
            "0000:00:20.0",
            "0000:00:05.00",
            "+000:00:05.0",
            "0000:00:05.0 ",
            "0000:00:05.-",
            "123456789:00:05.0",
            "0000:00:0g.0",
            "0000:00:05.0:0",
        ] {
            let error = text.parse::<PciAddress>().unwrap_err().to_string();
            assert!(error.contains(&format!("\"{text}\"")), "{error}");
        }
    }

    #[test]
    fn vmd_domains_have_five_digits() {
        let a: PciAddress = "10000:e1:00.0".parse().unwrap();
        assert_eq!(
            (a.domain(), a.bus(), a.device(), a.function()),
            (0x10000, 0xe1, 0, 0)
        );
        assert_eq!(a.to_string(), "10000:e1:00.0");
        assert_eq!(a.bus_name(), "10000:e1");
    }

    proptest! {
        #[test]
        fn round_trips(domain: u32, bus: u8, device in 0u8..32, function in 0u8..8) {
            let a = PciAddress::new(domain, bus, device, function).unwrap();
            prop_assert_eq!(a.to_string().parse::<PciAddress>().unwrap(), a);
            prop_assert_eq!(a.to_string().to_uppercase().parse::<PciAddress>().unwrap(), a);
        }

        #[test]
        fn never_panics_on_text(text in "\\PC*") {
            let parsed = text.parse::<PciAddress>();
            if let Ok(a) = parsed {
                prop_assert_eq!(a.to_string(), text.to_lowercase());
            }
        }
    }
}
