//! A shape as a file tree: what sysfs shows of it.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::{Shape, ShapeNic};
use crate::{Link, PciFunction};

impl Shape {
    /// Writes under `root`, which stands for `/`, what Linux shows of the instance: the PCI functions with
    /// their ids, links and NUMA nodes, `class/pci_bus`, `class/infiniband` with the GUIDs, the NUMA nodes
    /// with their packages, and the product name. Files that are there are written over.
    ///
    /// # Errors
    /// What making a directory, a file or a link gave, with its name.
    pub fn write_sysfs(&self, root: &Path) -> io::Result<()> {
        let tree = Files {
            sys: root.join("sys"),
        };
        for function in self.tree.functions() {
            let place = tree.function(function)?;
            for nic in self
                .nics
                .iter()
                .filter(|nic| nic.address == function.address)
            {
                tree.nic(nic, &place)?;
            }
        }
        let dmi = tree.dir("devices/virtual/dmi/id")?;
        write(&dmi.join("product_name"), &self.product)?;
        for (node, package) in self.tree.packages() {
            // Two processors a node are enough to say which package it belongs to.
            let first = node * 2;
            let dir = tree.dir(format!("devices/system/node/node{node}"))?;
            write(&dir.join("cpulist"), &format!("{first}-{}", first + 1))?;
            let dir = tree.dir(format!("devices/system/cpu/cpu{first}/topology"))?;
            write(&dir.join("physical_package_id"), &package.to_string())?;
        }
        Ok(())
    }
}

struct Files {
    sys: PathBuf,
}

impl Files {
    /// A directory below `sys`, made if need be.
    fn dir(&self, path: impl AsRef<Path>) -> io::Result<PathBuf> {
        let dir = self.sys.join(path);
        fs::create_dir_all(&dir).map_err(|e| named(&dir, &e))?;
        Ok(dir)
    }

    /// The files of a function, its bus, and the links by which it is found. Its place below `sys`.
    fn function(&self, function: &PciFunction) -> io::Result<PathBuf> {
        let (domain, bus) = function.root();
        let above = Path::new("devices").join(format!("pci{domain:04x}:{bus:02x}"));
        let bridges = function.bridges.iter().map(ToString::to_string);
        let above: PathBuf = [above]
            .into_iter()
            .chain(bridges.map(PathBuf::from))
            .collect();
        let place = above.join(function.address.to_string());
        let dir = self.dir(&place)?;
        let (speed, width) = link_texts(function.link);
        for (name, text) in [
            ("vendor", format!("{:#06x}", function.vendor)),
            ("device", format!("{:#06x}", function.device)),
            ("subsystem_vendor", format!("{:#06x}", function.vendor)),
            ("subsystem_device", format!("{:#06x}", function.device)),
            ("class", format!("{:#06x}00", function.class)),
            ("numa_node", function.numa.map_or(-1, i64::from).to_string()),
            ("current_link_speed", speed.clone()),
            ("max_link_speed", speed),
            ("current_link_width", width.clone()),
            ("max_link_width", width),
        ] {
            write(&dir.join(name), &text)?;
        }
        let links = self.dir("bus/pci/devices")?;
        let target = Path::new("../../..").join(&place);
        link_to(&links.join(function.address.to_string()), &target)?;
        let bus = above.join("pci_bus").join(function.address.bus_name());
        self.dir(&bus)?;
        let links = self.dir("class/pci_bus")?;
        link_to(
            &links.join(function.address.bus_name()),
            &Path::new("../..").join(bus),
        )?;
        Ok(place)
    }

    /// The RDMA device of the NIC whose function is at `place`.
    fn nic(&self, nic: &ShapeNic, place: &Path) -> io::Result<()> {
        let place = place.join("infiniband").join(&nic.name);
        let dir = self.dir(&place)?;
        let port = self.dir(place.join("ports/1"))?;
        let [a, b, c, d] = [48, 32, 16, 0].map(|shift| nic.guid.0 >> shift & 0xffff);
        write(
            &dir.join("node_guid"),
            &format!("{a:04x}:{b:04x}:{c:04x}:{d:04x}"),
        )?;
        write(&dir.join("node_type"), "255: unspecified")?;
        write(&dir.join("fw_ver"), "0.0.0.0")?;
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

/// As Linux writes it, also what it does not know.
fn link_texts(link: Link) -> (String, String) {
    let speed = link.speed.map(|speed| speed.to_string());
    let speed = speed.map(|number| match number.contains('.') {
        true => format!("{number} GT/s PCIe"),
        false => format!("{number}.0 GT/s PCIe"),
    });
    let width = link.width.unwrap_or(u8::MAX);
    (
        speed.unwrap_or_else(|| "Unknown".to_owned()),
        width.to_string(),
    )
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
