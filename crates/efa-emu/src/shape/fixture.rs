//! A shape as a file tree: what sysfs shows of its PCI functions and its NICs.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::{Function, Kind, Link, NicSpec, Pci, Shape};

/// PCI vendor and device of the bridges in the dumps.
const BRIDGE: (u16, u16) = (super::AMAZON, 0x0200);
const BRIDGE_CLASS: u32 = 0x06_04_00;

impl Shape {
    /// Writes under `root`, which stands for `/`, what Linux shows of the instance: the PCI devices
    /// with their ids, links and NUMA nodes, `class/pci_bus`, `class/infiniband` with the GUIDs, and
    /// the product name. Files that are there are written over.
    ///
    /// # Errors
    /// What making a directory, a file or a link gave, with its name.
    pub fn write_root(&self, root: &Path) -> io::Result<()> {
        let tree = Tree {
            sys: root.join("sys"),
        };
        let mut nics = self.nics.iter();
        let mut bridges = BTreeSet::new();
        for function in &self.functions {
            tree.ancestors(function, &mut bridges)?;
            let dir = tree.function(function)?;
            if function.kind == Kind::Nic {
                nics.next().map_or(Ok(()), |nic| tree.nic(nic, &dir))?;
            }
        }
        let dmi = tree.dir("devices/virtual/dmi/id")?;
        write(&dmi.join("product_name"), &self.product)?;
        let nodes: BTreeSet<u8> = self
            .functions
            .iter()
            .map(|function| function.numa)
            .collect();
        for node in nodes {
            tree.dir(format!("devices/system/node/node{node}"))?;
        }
        Ok(())
    }
}

struct Tree {
    sys: PathBuf,
}

impl Tree {
    /// A directory below `sys`, made if need be.
    fn dir(&self, path: impl AsRef<Path>) -> io::Result<PathBuf> {
        let dir = self.sys.join(path);
        fs::create_dir_all(&dir).map_err(|e| named(&dir, &e))?;
        Ok(dir)
    }

    /// Root complex and bridges above a function, those that are not in `made` yet.
    fn ancestors(&self, function: &Function, made: &mut BTreeSet<Pci>) -> io::Result<()> {
        let mut path = root_complex(function);
        let top = function.bridges.first().unwrap_or(&function.pci);
        self.bus(&path, *top)?;
        for (i, bridge) in function.bridges.iter().enumerate() {
            path.push(bridge.to_string());
            let below = function.bridges.get(i + 1).unwrap_or(&function.pci);
            if made.insert(*bridge) {
                let link = Link::new("16.0 GT/s PCIe", 16);
                self.device(&path, *bridge, BRIDGE, (BRIDGE_CLASS, function.numa, link))?;
            }
            self.bus(&path, *below)?;
        }
        Ok(())
    }

    fn function(&self, function: &Function) -> io::Result<PathBuf> {
        let mut path = root_complex(function);
        path.extend(function.bridges.iter().map(Pci::to_string));
        path.push(function.pci.to_string());
        let ids = (function.vendor, function.device);
        let about = (function.class, function.numa, function.link);
        self.device(&path, function.pci, ids, about)?;
        Ok(self.sys.join(path))
    }

    /// The files of a PCI device at `path`, and the link by which it is found.
    fn device(
        &self,
        path: &Path,
        pci: Pci,
        (vendor, device): (u16, u16),
        (class, numa, link): (u32, u8, Link),
    ) -> io::Result<()> {
        let dir = self.dir(path)?;
        let width = link.width.to_string();
        for (name, text) in [
            ("vendor", format!("{vendor:#06x}")),
            ("device", format!("{device:#06x}")),
            ("subsystem_vendor", format!("{vendor:#06x}")),
            ("subsystem_device", format!("{device:#06x}")),
            ("class", format!("{class:#08x}")),
            ("numa_node", numa.to_string()),
            ("current_link_speed", link.speed.to_owned()),
            ("max_link_speed", link.speed.to_owned()),
            ("current_link_width", width.clone()),
            ("max_link_width", width),
        ] {
            write(&dir.join(name), &text)?;
        }
        let links = self.dir("bus/pci/devices")?;
        link_to(
            &links.join(pci.to_string()),
            &Path::new("../../..").join(path),
        )
    }

    /// The bus of `child`, below what is at `parent`.
    fn bus(&self, parent: &Path, child: Pci) -> io::Result<()> {
        let name = format!("{:04x}:{:02x}", child.domain, child.bus);
        let place = parent.join("pci_bus").join(&name);
        self.dir(&place)?;
        let links = self.dir("class/pci_bus")?;
        link_to(&links.join(name), &Path::new("../..").join(place))
    }

    /// The RDMA device of the NIC whose PCI device is at `device`.
    fn nic(&self, nic: &NicSpec, device: &Path) -> io::Result<()> {
        let inside = device.strip_prefix(&self.sys).unwrap_or(device);
        let place = inside.join("infiniband").join(&nic.name);
        let dir = self.dir(&place)?;
        let port = self.dir(place.join("ports/1"))?;
        let [a, b, c, d] = [48, 32, 16, 0].map(|shift| nic.guid >> shift & 0xffff);
        write(
            &dir.join("node_guid"),
            &format!("{a:04x}:{b:04x}:{c:04x}:{d:04x}"),
        )?;
        write(&dir.join("node_type"), "255: unspecified")?;
        write(&dir.join("fw_ver"), &nic.firmware)?;
        write(&port.join("state"), "4: ACTIVE")?;
        write(&port.join("phys_state"), "5: LinkUp")?;
        write(&port.join("link_layer"), "Unspecified")?;
        let gbps = nic.speed_bps / 1_000_000_000;
        write(&port.join("rate"), &format!("{gbps} Gb/sec"))?;
        link_to(&dir.join("device"), Path::new("../.."))?;
        let links = self.dir("class/infiniband")?;
        link_to(&links.join(&nic.name), &Path::new("../..").join(place))
    }
}

/// `devices/pciDDDD:BB`, below `sys`.
fn root_complex(function: &Function) -> PathBuf {
    let top = function.bridges.first().unwrap_or(&function.pci);
    Path::new("devices").join(format!("pci{:04x}:{:02x}", top.domain, top.bus))
}

fn write(file: &Path, text: &str) -> io::Result<()> {
    fs::write(file, format!("{text}\n")).map_err(|e| named(file, &e))
}

/// A link that may be there already.
fn link_to(link: &Path, target: &Path) -> io::Result<()> {
    match symlink(target, link) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other.map_err(|e| named(link, &e)),
    }
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
