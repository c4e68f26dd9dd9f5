//! A host's PCI functions and NICs, from wherever they can be read.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use ofi_hwloc::Source;
use ofi_topo::shape::nic_name;
use ofi_topo::{Accelerators, Nic, PciAddress, PciFunction, Sysfs, Tree};

/// Files are read up to so many bytes; the largest dumps have some hundred KiB.
const FILE_MAX: u64 = 64 << 20;
const AMAZON: u16 = 0x1d0f;
const EFA: u16 = 0xefa0;
/// An InfiniBand controller.
const INFINIBAND: u16 = 0x0207;

/// What is looked at.
#[derive(Debug)]
pub(super) struct Host {
    /// For people: where it is from.
    pub(super) name: String,
    pub(super) tree: Tree,
    /// NICs for collectives.
    pub(super) nics: Vec<Nic>,
    /// Index of the NIC at an address.
    by_place: BTreeMap<PciAddress, usize>,
    /// The root, where it is from sysfs.
    pub(super) root: Option<PathBuf>,
    /// What is to be known of where it is from.
    pub(super) notes: Vec<String>,
}

/// Where to read it.
#[derive(Clone, Debug)]
pub(super) enum From {
    /// A sysfs below this root.
    Root(PathBuf),
    /// A dump of hwloc, or a topology file of NCCL.
    File(PathBuf),
    /// The hwloc that is installed.
    Hwloc,
}

impl From {
    /// A directory is a root, anything else a file.
    pub(super) fn path(path: &Path) -> Self {
        match path.is_dir() {
            true => Self::Root(path.to_owned()),
            false => Self::File(path.to_owned()),
        }
    }
}

impl Host {
    /// Reads it; `more` are NICs that nothing else tells from other functions.
    ///
    /// # Errors
    /// Text for the user.
    pub(super) fn read(from: &From, more: &[PciAddress]) -> Result<Self, String> {
        let (name, tree, root) = match from {
            From::Root(root) => {
                if !root.is_dir() {
                    return Err(format!("{}: it is no directory", root.display()));
                }
                let tree = Sysfs::new(root).tree().map_err(|error| error.to_string())?;
                (format!("sysfs below {}", root.display()), tree, Some(root))
            }
            From::File(path) => (path.display().to_string(), read_file(path)?, None),
            From::Hwloc => {
                let tree = ofi_hwloc::tree(Source::Host).map_err(|error| error.to_string())?;
                ("hwloc of this host".to_owned(), tree, None)
            }
        };
        let named = root.map(|root| names(root)).unwrap_or_default();
        let functions = tree.functions().iter();
        let is_nic = |f: &&PciFunction| {
            named.contains_key(&f.address) || is_known(f) || more.contains(&f.address)
        };
        let nics = functions.filter(is_nic).enumerate().map(|(index, f)| {
            let name = named.get(&f.address).cloned();
            let name = name.unwrap_or_else(|| nic_name(f.address));
            let guid = root.and_then(|root| Sysfs::new(root).node_guid(&name).ok());
            let bps = root.map_or(0, |root| rate(root, &name));
            let nic = Nic::new(index, name)
                .with_pci(f.address)
                .with_speed_bps(bps);
            match guid.filter(|_| f.vendor == AMAZON) {
                Some(guid) => nic.with_guid(guid),
                None => nic,
            }
        });
        let nics: Vec<Nic> = nics.collect();
        let places = nics.iter().zip(0..);
        Ok(Self {
            by_place: places
                .filter_map(|(nic, at)| Some((nic.pci?, at)))
                .collect(),
            nics,
            root: root.cloned(),
            notes: notes(from, &tree),
            name,
            tree,
        })
    }

    /// The NIC at an address.
    pub(super) fn nic(&self, address: PciAddress) -> Option<&Nic> {
        self.nics.get(*self.by_place.get(&address)?)
    }
}

/// What a source does not say, or less of than there should be.
fn notes(from: &From, tree: &Tree) -> Vec<String> {
    let functions = tree.functions();
    let repeated: Vec<String> = tree.repeated().iter().map(ToString::to_string).collect();
    let unread: Vec<String> = tree
        .unread()
        .iter()
        .map(|text| format!("{text:?}"))
        .collect();
    let unplaced: Vec<String> = tree.unplaced().iter().map(ToString::to_string).collect();
    let folded = [
        fold(
            &repeated,
            ("comes several times", "addresses come several times"),
            ("the first is taken", "the first of each is taken"),
        ),
        fold(
            &unread,
            ("is no PCI address", "names are no PCI address"),
            (
                "the function that has it is left out",
                "the functions that have them are left out",
            ),
        ),
        fold(
            &unplaced,
            (
                "is listed, and its entry leads to no such function below the root",
                "functions are listed, and their entries lead to no such function below the root",
            ),
            ("it is left out", "they are left out"),
        ),
    ];
    let mut notes: Vec<String> = folded.into_iter().flatten().collect();
    match from {
        From::Root(root) if functions.is_empty() => {
            notes.push(format!(
                "{} shows no PCI function (sys/bus/pci/devices)",
                root.display()
            ));
        }
        From::Root(root) => notes.extend(lost(root, functions)),
        From::File(_) | From::Hwloc => {
            let is_silent = functions.iter().all(|f| f.link.speed.is_none());
            let says = "it tells of no link's speed and width, as dumps of hwloc do: `emit` takes the defaults";
            let note = (!functions.is_empty() && is_silent).then(|| says.to_owned());
            notes.extend(note);
            notes.extend(perhaps_virtual(functions));
        }
    }
    notes
}

/// Names that a note has.
const NAMED: usize = 3;

/// One note of all that is of a kind: of one what it is and what comes of it, of several how many and the first.
fn fold(all: &[String], is: (&str, &str), then: (&str, &str)) -> Option<String> {
    match all {
        [] => None,
        [one] => Some(format!("{one} {}: {}", is.0, then.0)),
        all => {
            let first = all.iter().take(NAMED).map(String::as_str);
            let first: Vec<&str> = first.collect();
            let more = if all.len() > NAMED { ", .." } else { "" };
            let (count, first) = (all.len(), first.join(", "));
            Some(format!("{count} {} ({first}{more}): {}", is.1, then.1))
        }
    }
}

/// Bits a second of an RDMA device's first port, as libfabric has it; 0 where nobody says.
fn rate(root: &Path, name: &str) -> u64 {
    let line = Sysfs::new(root).line(&format!("sys/class/infiniband/{name}/ports/1/rate"));
    let number = line.and_then(|line| line.split_once(" Gb/sec")?.0.parse::<u64>().ok());
    number.map_or(0, |gbps| gbps.saturating_mul(1_000_000_000))
}

/// Accelerators that may be virtual functions of another, which these sources do not say: no card has two of
/// them under one device number, while those of virtual machines begin behind the card's own.
fn perhaps_virtual(functions: &[PciFunction]) -> Option<String> {
    let device = |f: &PciFunction| (f.address.domain(), f.address.bus(), f.address.device());
    let accelerators = functions.iter().filter(|f| Accelerators::ANY.contain(f));
    let mut wholes = BTreeMap::new();
    let parts = accelerators.filter(|f| match wholes.entry((device(f), f.vendor)) {
        Entry::Vacant(free) => {
            free.insert(f.address);
            false
        }
        Entry::Occupied(_) => true,
    });
    let parts: Vec<String> = parts.map(|f| f.address.to_string()).collect();
    let first = parts.first()?;
    Some(format!(
        "{first}{} may be virtual functions of the accelerator before them, which this source does not \
         tell and sysfs does: they count as accelerators here",
        match parts.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        }
    ))
}

/// Fewer accelerators than the instance type has: the plugins make other devices than elsewhere.
fn lost(root: &Path, functions: &[PciFunction]) -> Option<String> {
    let product = Sysfs::new(root).product_name().ok().flatten()?;
    let whole = ofi_net::instance_accelerators(&product)?;
    let found = functions.iter().filter(|f| Accelerators::NVIDIA.contain(f));
    let found = found.count();
    (found < whole).then(|| format!("{found} of the {whole} accelerators of {product}"))
}

/// A NIC by what it is; or the leader of a device in a file for NCCL, which says its place and link alone.
fn is_known(function: &PciFunction) -> bool {
    let is_efa = function.vendor == AMAZON && function.device & 0xfff0 == EFA;
    let is_leader = function.class == 0 && function.vendor == 0 && function.link.speed.is_some();
    is_efa || is_leader || function.class == INFINIBAND
}

/// A text file, bounded.
///
/// # Errors
/// Text for the user.
pub(super) fn text_of(path: &Path) -> Result<String, String> {
    let told = |error: &dyn core::fmt::Display| format!("{}: {error}", path.display());
    let mut text = String::new();
    // A pipe or a device says nothing of its size, and need not end.
    let file = fs::File::open(path).map_err(|error| told(&error))?;
    let read = file.take(FILE_MAX + 1).read_to_string(&mut text);
    if read.map_err(|error| told(&error))? as u64 > FILE_MAX {
        let what = format!("more than {FILE_MAX} bytes, and no topology has so many");
        return Err(told(&what));
    }
    Ok(text)
}

/// A dump or a file of NCCL: what it is shows at its first element.
fn read_file(path: &Path) -> Result<Tree, String> {
    let text = text_of(path)?;
    let tree = match text.contains("<system") {
        true => Tree::from_nccl_xml(&text),
        false => Tree::from_hwloc_xml(&text),
    };
    tree.map_err(|error| format!("{}: {error}", path.display()))
}

/// Names of RDMA devices by where they are.
fn names(root: &Path) -> BTreeMap<PciAddress, String> {
    let class = root.join("sys/class/infiniband");
    let entries = fs::read_dir(class).into_iter().flatten().flatten();
    let place = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let place = fs::canonicalize(entry.path()).ok()?;
        let mut parts = place.components().rev();
        let address = parts.find_map(|part| part.as_os_str().to_str()?.parse().ok())?;
        Some((address, name))
    };
    entries.filter_map(place).collect()
}
