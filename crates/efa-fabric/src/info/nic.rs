//! The device behind an entry.

use core::fmt;
use core::ptr::NonNull;

use ofi_sys::bindings as b;

use crate::info::view::text;

/// Where a device sits on PCI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PciAddress {
    /// PCI domain.
    pub domain: u16,
    /// Bus.
    pub bus: u8,
    /// Device.
    pub device: u8,
    /// Function.
    pub function: u8,
}

impl fmt::Display for PciAddress {
    /// As in sysfs: `0000:00:1f.0`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:04x}:{:02x}:{:02x}.{:x}",
            self.domain, self.bus, self.device, self.function
        )
    }
}

/// A device, fi_nic(3). Each part may be missing.
#[derive(Clone, Copy)]
pub struct Nic<'a>(&'a b::fid_nic);

/// One of the structs that a `fid_nic` points to.
macro_rules! part {
    ($self:ident, $attr:ident) => {
        // SAFETY: fi_nic(3): null, or a struct that lives as long as the fid_nic, borrowed for 'a.
        unsafe { $self.0.$attr.as_ref() }
    };
}

/// A string in one of them, `None` where it is missing or empty.
macro_rules! string {
    ($self:ident, $attr:ident, $field:ident) => {
        part!($self, $attr).and_then(|attr| {
            // SAFETY: fi_nic(3): null, or a NUL-terminated string that lives as long as the fid_nic.
            let found = unsafe { text::<'a>(attr.$field) };
            (!found.is_empty()).then_some(found)
        })
    };
}

impl<'a> Nic<'a> {
    /// View of a raw device.
    ///
    /// # Safety
    ///
    /// `raw` came from libfabric and stays alive and unchanged for `'a`.
    pub(crate) unsafe fn from_raw(raw: NonNull<b::fid_nic>) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { raw.as_ref() })
    }

    /// Its address, where it is a PCI device.
    #[must_use]
    pub fn pci(&self) -> Option<PciAddress> {
        let bus = part!(self, bus_attr)?;
        if bus.bus_type != b::FI_BUS_PCI {
            return None;
        }
        // SAFETY: fi_nic(3): with FI_BUS_PCI the union holds the PCI attributes.
        let pci = unsafe { bus.attr.pci };
        Some(PciAddress {
            domain: pci.domain_id,
            bus: pci.bus_id,
            device: pci.device_id,
            function: pci.function_id,
        })
    }

    /// Name of the device, "rdmap0s31".
    #[must_use]
    pub fn name(&self) -> Option<&'a str> {
        string!(self, device_attr, name)
    }

    /// PCI device id as text, "0xefa2".
    #[must_use]
    pub fn device_id(&self) -> Option<&'a str> {
        string!(self, device_attr, device_id)
    }

    /// Revision.
    #[must_use]
    pub fn device_version(&self) -> Option<&'a str> {
        string!(self, device_attr, device_version)
    }

    /// PCI vendor id as text.
    #[must_use]
    pub fn vendor_id(&self) -> Option<&'a str> {
        string!(self, device_attr, vendor_id)
    }

    /// Kernel driver.
    #[must_use]
    pub fn driver(&self) -> Option<&'a str> {
        string!(self, device_attr, driver)
    }

    /// Firmware version.
    #[must_use]
    pub fn firmware(&self) -> Option<&'a str> {
        string!(self, device_attr, firmware)
    }

    /// Link address as text.
    #[must_use]
    pub fn link_address(&self) -> Option<&'a str> {
        string!(self, link_attr, address)
    }

    /// Kind of network, "EFA", "Ethernet".
    #[must_use]
    pub fn network_type(&self) -> Option<&'a str> {
        string!(self, link_attr, network_type)
    }

    /// Link speed in bits per second; 0 where it is not known.
    #[must_use]
    pub fn link_speed_bps(&self) -> usize {
        part!(self, link_attr).map_or(0, |link| link.speed)
    }

    /// Largest transmission unit in bytes; 0 where it is not known.
    #[must_use]
    pub fn mtu_bytes(&self) -> usize {
        part!(self, link_attr).map_or(0, |link| link.mtu)
    }

    /// Whether the link is up; `None` where it is not known.
    #[must_use]
    pub fn link_is_up(&self) -> Option<bool> {
        match part!(self, link_attr)?.state {
            b::FI_LINK_UP => Some(true),
            b::FI_LINK_DOWN => Some(false),
            _ => None,
        }
    }
}

impl fmt::Debug for Nic<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nic")
            .field("name", &self.name())
            .field("pci", &self.pci())
            .field("device_id", &self.device_id())
            .field("vendor_id", &self.vendor_id())
            .field("driver", &self.driver())
            .field("link_speed_bps", &self.link_speed_bps())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bus() -> b::fi_bus_attr {
        let pci = b::fi_pci_attr {
            domain_id: 0x10,
            bus_id: 2,
            device_id: 0x1f,
            function_id: 3,
        };
        b::fi_bus_attr {
            bus_type: b::FI_BUS_PCI,
            attr: b::fi_bus_attr_union { pci },
        }
    }

    #[test]
    fn a_pci_address_reads_as_in_sysfs() {
        let mut bus = bus();
        let mut raw = b::fid_nic {
            bus_attr: &raw mut bus,
            ..Default::default()
        };
        // SAFETY: alive and unchanged while the view is used.
        let nic = unsafe { Nic::from_raw(NonNull::from(&mut raw)) };
        assert_eq!(
            nic.pci().map(|pci| pci.to_string()).as_deref(),
            Some("0010:02:1f.3")
        );
        assert_eq!(
            (nic.name(), nic.link_speed_bps(), nic.link_is_up()),
            (None, 0, None)
        );
    }

    #[test]
    fn another_bus_has_no_pci_address() {
        let mut bus = b::fi_bus_attr {
            bus_type: b::FI_BUS_UNSPEC,
            ..bus()
        };
        let mut raw = b::fid_nic {
            bus_attr: &raw mut bus,
            ..Default::default()
        };
        // SAFETY: alive and unchanged while the view is used.
        let nic = unsafe { Nic::from_raw(NonNull::from(&mut raw)) };
        assert_eq!(nic.pci(), None);
    }
}
