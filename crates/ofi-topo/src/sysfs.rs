//! All that is read from the file system, under a root that the caller chooses.
//!
//! The root stands for `/`: a test gives a directory of its own, a tool a copy of another host.
//! Nothing outside of it is read, wherever symbolic links lead.

use core::str::FromStr;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::{PciAddress, TopoError};

mod scan;

/// No file read here has more than a line; a file that does not end is not followed.
const FILE_BYTES_MAX: u64 = 4096;

/// A file tree that holds a `sys` directory.
#[derive(Clone, Debug)]
pub struct Sysfs {
    root: PathBuf,
}

impl Sysfs {
    /// The tree under `root`; on a live host that is `/`.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Where a PCI function sits: the real path of
    /// `/sys/class/pci_bus/DDDD:BB/../../DDDD:BB:DD.F`, as the host would name it (without the
    /// root), for example `/sys/devices/pci0000:00/0000:00:05.0` (protocol 2a.4, `pciPath`).
    ///
    /// # Errors
    /// [`TopoError::Sysfs`] when there is no such function; [`TopoError::OutsideRoot`] when links
    /// lead out of the root.
    pub fn pci_path(&self, address: PciAddress) -> Result<PathBuf, TopoError> {
        let path = self
            .root
            .join("sys/class/pci_bus")
            .join(address.bus_name())
            .join("../..")
            .join(address.to_string());
        let real = self.real_path("the place of a PCI function", &path)?;
        Ok(Path::new("/").join(real))
    }

    /// The machine's product name, the first line of
    /// `/sys/devices/virtual/dmi/id/product_name` (protocol 2h.5), for example `trn1.32xlarge`;
    /// `None` when the file is not there (common in containers and on Arm) or the line is blank.
    ///
    /// # Errors
    /// [`TopoError::Sysfs`] when the file is there and cannot be read.
    pub fn product_name(&self) -> Result<Option<String>, TopoError> {
        let path = self.root.join("sys/devices/virtual/dmi/id/product_name");
        match self.first_line("the product name", &path) {
            Ok(line) if line.is_empty() => Ok(None),
            Ok(line) => Ok(Some(line)),
            Err(TopoError::Sysfs { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The first line, without blanks around it, of a small file of the host, by its place below the root:
    /// `proc/sys/kernel/osrelease`. `None` where there is no such plain file inside the root.
    #[must_use]
    pub fn line(&self, file: &str) -> Option<String> {
        let path = self.root.join(file.trim_start_matches('/'));
        self.first_line("a file of the host", &path).ok()
    }

    /// What `/sys/class/net/<interface>/<attribute>` says of an IP interface, for example its `speed` in Mb/s
    /// (-1: nobody knows) or its `flags` in hex; `None` where it says nothing.
    #[must_use]
    pub fn interface(&self, interface: &str, attribute: &str) -> Option<String> {
        let is_name = |name: &str| !matches!(name, "" | "." | "..") && !name.contains(['/', '\0']);
        if !is_name(interface) || !is_name(attribute) {
            return None;
        }
        let interfaces = self.root.join("sys/class/net");
        let path = interfaces.join(interface).join(attribute);
        self.first_line("an attribute of an interface", &path).ok()
    }

    /// The GUID of an RDMA device, from `/sys/class/infiniband/<device>/node_guid`.
    ///
    /// # Errors
    /// [`TopoError::BadDeviceName`], [`TopoError::Sysfs`] when the file cannot be read,
    /// [`TopoError::BadContent`] when it holds no GUID. An unreadable GUID is no reason to give up
    /// a device: it only decides the order of rails of one card.
    pub fn node_guid(&self, device: &str) -> Result<NodeGuid, TopoError> {
        if matches!(device, "" | "." | "..") || device.contains(['/', '\0']) {
            return Err(TopoError::BadDeviceName {
                name: device.to_owned(),
            });
        }
        let path = self
            .root
            .join("sys/class/infiniband")
            .join(device)
            .join("node_guid");
        let line = self.first_line("the GUID of an RDMA device", &path)?;
        line.parse().map_err(|NotAGuid| TopoError::BadContent {
            what: "GUID of the form xxxx:xxxx:xxxx:xxxx",
            path,
            text: line.chars().take(64).collect(),
        })
    }

    /// The first line, without blanks around it, of a file inside the root.
    fn first_line(&self, what: &'static str, path: &Path) -> Result<String, TopoError> {
        let failed = |source| TopoError::Sysfs {
            what,
            path: path.to_owned(),
            source,
        };
        let inside = self.real_path(what, path)?;
        let text = read_bounded(&self.root.join(inside)).map_err(failed)?;
        Ok(text.lines().next().unwrap_or("").trim().to_owned())
    }

    /// All links resolved, relative to the root.
    fn real_path(&self, what: &'static str, path: &Path) -> Result<PathBuf, TopoError> {
        let failed = |source| TopoError::Sysfs {
            what,
            path: path.to_owned(),
            source,
        };
        let root = self.root.canonicalize().map_err(failed)?;
        let target = path.canonicalize().map_err(failed)?;
        match target.strip_prefix(&root) {
            Ok(inside) => Ok(inside.to_owned()),
            Err(_) => Err(TopoError::OutsideRoot {
                path: path.to_owned(),
                target,
                root,
            }),
        }
    }
}

/// The text of a file, or its first [`FILE_BYTES_MAX`] bytes. What is no file (a pipe that nobody writes to,
/// say) is not opened.
fn read_bounded(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a file"));
    }
    File::open(path)?
        .take(FILE_BYTES_MAX)
        .read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The GUID of an RDMA device, with the reading that EFA gives its bits (protocol 2h.5).
///
/// ```
/// let guid: ofi_topo::NodeGuid = "12ab:34cd:0001:a003".parse().unwrap();
/// assert_eq!((guid.mac_low(), guid.card_domain()), (0x12ab_34cd, 1));
/// assert_eq!((guid.card_bus(), guid.function_index()), (0xa0, 3));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeGuid(
    /// All 64 bits, the first group of digits uppermost.
    pub u64,
);

impl NodeGuid {
    /// Which function of its card the device is: bits 0 to 7.
    #[must_use]
    pub const fn function_index(self) -> u8 {
        self.0.to_le_bytes()[0]
    }

    /// PCI bus of the card: bits 8 to 15.
    #[must_use]
    pub const fn card_bus(self) -> u8 {
        self.0.to_le_bytes()[1]
    }

    /// PCI domain of the card: bits 16 to 31.
    #[must_use]
    pub const fn card_domain(self) -> u16 {
        let bytes = self.0.to_le_bytes();
        u16::from_le_bytes([bytes[2], bytes[3]])
    }

    /// Lower half of the MAC address: bits 32 to 63.
    #[must_use]
    pub const fn mac_low(self) -> u32 {
        let bytes = self.0.to_le_bytes();
        u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]])
    }
}

/// The text is no GUID. [`Sysfs::node_guid`] turns it into an error that names the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a GUID is written xxxx:xxxx:xxxx:xxxx in hex digits")]
pub struct NotAGuid;

impl FromStr for NodeGuid {
    type Err = NotAGuid;

    fn from_str(text: &str) -> Result<Self, NotAGuid> {
        let mut groups = text.split(':');
        let mut value = 0;
        for _ in 0..4 {
            let group = groups.next().ok_or(NotAGuid)?;
            if group.len() != 4 || !group.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(NotAGuid);
            }
            value = value << 16 | u64::from_str_radix(group, 16).map_err(|_| NotAGuid)?;
        }
        match groups.next() {
            None => Ok(Self(value)),
            Some(_) => Err(NotAGuid),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{NodeGuid, NotAGuid};

    #[test]
    fn guids_are_read_exactly() {
        for bad in [
            "",
            "1:2:3:4",
            "0000:0000:0000",
            "0000:0000:0000:0000:0000",
            "+000:0000:0000:0000",
        ] {
            assert_eq!(bad.parse::<NodeGuid>(), Err(NotAGuid), "{bad}");
        }
        let guid: NodeGuid = "FFFF:0001:0002:0304".parse().unwrap();
        assert_eq!(guid, NodeGuid(0xffff_0001_0002_0304));
    }
}
