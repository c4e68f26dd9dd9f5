//! The tree of PCI functions, from `/sys/bus/pci/devices` and `/sys/devices/system`.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use super::Sysfs;
use crate::{Link, PciAddress, PciFunction, TopoError, Tree};

/// Functions looked at; the largest hosts have some hundreds.
const FUNCTIONS_MAX: usize = 65_536;

impl Sysfs {
    /// Every PCI function of the host that sysfs shows. A host, or a container, that shows none has an
    /// empty tree, which is no error; what is not told of a function stays unknown. A function whose
    /// entry leads to no place of its own below `sys/devices` is left out ([`Tree::unplaced`]): out of the root, or
    /// nowhere as in a copy that followed links. So is a name that is no address ([`Tree::unread`]).
    ///
    /// # Errors
    /// [`TopoError::Sysfs`] when the directory is there and cannot be read.
    ///
    /// # Costs
    /// Some ten system calls a function: milliseconds on large hosts. Made once a process.
    pub fn tree(&self) -> Result<Tree, TopoError> {
        let path = self.root.join("sys/bus/pci/devices");
        let failed = |source| TopoError::Sysfs {
            what: "the list of PCI functions",
            path: path.clone(),
            source,
        };
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Tree::default()),
            Err(error) => return Err(failed(error)),
        };
        // What is elsewhere (a copy that followed links) does not tell of the bridges above a function.
        let devices = self.real_path("the devices", &self.root.join("sys/devices"));
        let devices = devices.ok();
        let mut functions = Vec::new();
        let (mut unread, mut unplaced) = (Vec::new(), Vec::new());
        for entry in entries.take(FUNCTIONS_MAX) {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let Ok(address) = name.parse() else {
                unread.push(name.into_owned());
                continue;
            };
            let below = devices.as_deref();
            match below.and_then(|below| self.function(address, &entry.path(), below)) {
                Some(function) => functions.push(function),
                None => unplaced.push(address),
            }
        }
        // The order of a directory is nobody's.
        unread.sort_unstable();
        let tree = Tree::new(functions, self.packages());
        Ok(tree.with_unread(unread.iter()).with_unplaced(unplaced))
    }

    /// The function that `link` leads to, a place below `devices`.
    fn function(&self, address: PciAddress, link: &Path, devices: &Path) -> Option<PciFunction> {
        let place = self.real_path("a PCI function", link).ok()?;
        if !place.starts_with(devices) {
            return None;
        }
        let mut bridges = Vec::new();
        for part in place.components() {
            let part = part.as_os_str().to_str()?;
            // Domains of their own below a function (Intel VMD) start another tree, as in hwloc.
            if part.starts_with("pci") {
                bridges.clear();
            }
            bridges.extend(part.parse::<PciAddress>());
        }
        if bridges.pop() != Some(address) {
            return None;
        }
        let dir = self.root.join(place);
        let hex = |name| u32::from_str_radix(line(&dir, name).strip_prefix("0x")?, 16).ok();
        let small = |name| hex(name).and_then(|value| u16::try_from(value).ok());
        let mut function = PciFunction::new(address, bridges);
        // Six digits: class, subclass, programming interface.
        function.class = hex("class")
            .and_then(|class| u16::try_from(class >> 8).ok())
            .unwrap_or(0);
        function.vendor = small("vendor").unwrap_or(0);
        function.device = small("device").unwrap_or(0);
        function.is_part = self.shows_the_whole_of(&dir);
        // -1 is no node.
        function.numa = line(&dir, "numa_node").parse().ok();
        function.link = link_in(&dir);
        Some(function)
    }

    /// Whether the function in `dir` is a virtual one of another that is listed too.
    fn shows_the_whole_of(&self, dir: &Path) -> bool {
        let link = fs::read_link(dir.join("physfn"));
        let name = link
            .ok()
            .and_then(|link| Some(link.file_name()?.to_owned()));
        let address = name.and_then(|name| name.to_str()?.parse::<PciAddress>().ok());
        let listed = self.root.join("sys/bus/pci/devices");
        address.is_some_and(|of| fs::symlink_metadata(listed.join(of.to_string())).is_ok())
    }

    /// NUMA node to package, by the first processor of each node.
    fn packages(&self) -> BTreeMap<u32, u32> {
        let system = self.root.join("sys/devices/system");
        let nodes = fs::read_dir(system.join("node"))
            .into_iter()
            .flatten()
            .flatten();
        let package = |entry: fs::DirEntry| {
            let name = entry.file_name();
            let node = name.to_str()?.strip_prefix("node")?.parse().ok()?;
            let list = line(&entry.path(), "cpulist");
            let first = list.split(['-', ',']).next()?.parse::<u32>().ok()?;
            let topology = system.join(format!("cpu/cpu{first}/topology"));
            let package = line(&topology, "physical_package_id").parse().ok()?;
            Some((node, package))
        };
        nodes.filter_map(package).collect()
    }
}

/// What the link of a function can do at most; where that is not said, what it does now.
fn link_in(dir: &Path) -> Link {
    let most = Link::parse(&line(dir, "max_link_speed"), &line(dir, "max_link_width"));
    if most.speed.is_some() && most.width.is_some() {
        return most;
    }
    let now = Link::parse(
        &line(dir, "current_link_speed"),
        &line(dir, "current_link_width"),
    );
    Link {
        speed: most.speed.or(now.speed),
        width: most.width.or(now.width),
    }
}

/// The first line of a plain file of `dir`; empty where there is none. Links are not followed: in these
/// directories sysfs has none.
fn line(dir: &Path, name: &str) -> String {
    let path = dir.join(name);
    let is_plain = fs::symlink_metadata(&path).is_ok_and(|about| about.is_file());
    let text = is_plain.then(|| super::read_bounded(&path).unwrap_or_default());
    let text = text.unwrap_or_default();
    text.lines().next().unwrap_or("").trim().to_owned()
}
