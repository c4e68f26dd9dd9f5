//! NICs, accelerators, drivers and device files of a host, from its `/sys`, `/proc` and `/dev`.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use ofi_topo::{Accelerators, NodeGuid, PciAddress, Sysfs, Tree};

use super::root::Root;
use super::user::has_acl;
use super::version::Version;

/// PCI vendor and device numbers of EFAs: 0xefa0 and up.
const AMAZON: u16 = 0x1d0f;
const EFA: core::ops::RangeInclusive<u16> = 0xefa0..=0xefaf;

/// What a kernel is built with that lends memory of devices to NICs (OFI-W0318 names them).
const DMABUF_OPTIONS: [&str; 2] = ["CONFIG_PCI_P2PDMA", "CONFIG_DMABUF_MOVE_NOTIFY"];

/// An RDMA device.
#[derive(Clone, Debug)]
pub(crate) struct RdmaNic {
    /// Its name in `/sys/class/infiniband`.
    pub(crate) name: String,
    pub(crate) pci: Option<PciAddress>,
    pub(crate) guid: Option<NodeGuid>,
    pub(crate) is_efa: bool,
    /// State of its port: `4: ACTIVE`.
    pub(crate) state: Option<String>,
    /// Its file in `/dev/infiniband`, where sysfs says which.
    pub(crate) node: Option<String>,
}

/// A file of `/dev/infiniband`.
#[derive(Clone, Debug)]
pub(crate) struct DeviceNode {
    pub(crate) name: String,
    pub(crate) owner: u32,
    pub(crate) group: u32,
    pub(crate) mode: u32,
    /// It has an access control list, which may let in whom the mode bits keep out.
    pub(crate) has_acl: bool,
    /// What opening it said, where it was tried.
    pub(crate) refused: Option<String>,
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Devices {
    /// What the firmware calls the machine.
    pub(crate) product: String,
    pub(crate) kernel: Option<Version>,
    /// Options that the running kernel was built without, of those that dma-buf for RDMA takes; none where
    /// nobody says.
    pub(crate) without: Vec<&'static str>,
    /// NVIDIA's driver is the closed one, which lends no memory by dma-buf.
    pub(crate) is_closed: bool,
    /// Loaded kernel modules; `None` where nobody says.
    pub(crate) modules: Option<Vec<String>>,
    pub(crate) tree: Tree,
    /// EFAs among the PCI functions.
    pub(crate) efas: Vec<PciAddress>,
    /// Accelerators that NICs are grouped by.
    pub(crate) gpus: usize,
    pub(crate) nics: Vec<RdmaNic>,
    pub(crate) nodes: Vec<DeviceNode>,
    /// Names of network interfaces.
    pub(crate) interfaces: Vec<String>,
    /// Free huge pages of the default size.
    pub(crate) huge_free: Option<u64>,
}

impl Devices {
    /// Reads them: what is about NICs below `sys`, the rest below `root`. `open` tries device files.
    pub(crate) fn read(root: &Root, sys: &Root, open: bool) -> Self {
        let sysfs = Sysfs::new(sys.dir());
        let tree = sysfs.tree().unwrap_or_default();
        let functions = || tree.functions().iter();
        let efas = functions().filter(|f| f.vendor == AMAZON && EFA.contains(&f.device));
        let efas: Vec<PciAddress> = efas.map(|f| f.address).collect();
        let nodes = root.names("/dev/infiniband");
        let nodes = nodes.iter().filter(|name| name.starts_with("uverbs"));
        Self {
            product: sysfs.product_name().ok().flatten().unwrap_or_default(),
            kernel: root
                .line("/proc/sys/kernel/osrelease")
                .and_then(|text| Version::parse(&text)),
            without: built_without(root),
            is_closed: root
                .line("/proc/driver/nvidia/version")
                .is_some_and(|line| !line.contains("Open Kernel Module")),
            modules: modules(root),
            gpus: functions()
                .filter(|f| Accelerators::NVIDIA.contain(f))
                .count(),
            nics: nics(sys, &sysfs, (&efas, tree.functions().is_empty())),
            nodes: nodes.filter_map(|name| node(root, name, open)).collect(),
            interfaces: root.names("/sys/class/net"),
            huge_free: huge_free(&root.text("/proc/meminfo").unwrap_or_default()),
            efas,
            tree,
        }
    }

    /// Whether a module is loaded; unknown counts as loaded.
    pub(crate) fn has_module(&self, name: &str) -> bool {
        let loaded = self.modules.as_ref();
        loaded.is_none_or(|all| all.iter().any(|module| module == name))
    }

    pub(crate) fn efa_nics(&self) -> impl Iterator<Item = &RdmaNic> {
        self.nics.iter().filter(|nic| nic.is_efa)
    }

    /// Whether there is an EFA, for the driver or at least on the bus.
    pub(crate) fn has_efa(&self) -> bool {
        !self.efas.is_empty() || self.efa_nics().next().is_some()
    }
}

/// By the configuration that distributions install beside a kernel: `# CONFIG_X is not set`.
fn built_without(root: &Root) -> Vec<&'static str> {
    let release = root.line("/proc/sys/kernel/osrelease").unwrap_or_default();
    let Ok(text) = root.text(format!("/boot/config-{release}")) else {
        return Vec::new();
    };
    let is_unset = |option: &&str| {
        let line = format!("# {option} is not set");
        text.lines().any(|is| is.trim() == line)
    };
    DMABUF_OPTIONS.into_iter().filter(is_unset).collect()
}

/// The RDMA devices; EFAs are those on the bus, or where that cannot be seen, by their names.
fn nics(sys: &Root, sysfs: &Sysfs, (efas, blind): (&[PciAddress], bool)) -> Vec<RdmaNic> {
    let class = Path::new("/sys/class/infiniband");
    let files = verbs(sys);
    let read = |name: String| {
        let dir = class.join(&name);
        let place = sys.real(&dir.join("device")).ok();
        let place = place.and_then(|place| Some(place.file_name()?.to_str()?.to_owned()));
        let pci: Option<PciAddress> = place.and_then(|place| place.parse().ok());
        let file = files.iter().find(|(device, _)| *device == name);
        RdmaNic {
            is_efa: match blind {
                true => name.starts_with("rdmap") || name.starts_with("efa_"),
                false => pci.is_some_and(|pci| efas.contains(&pci)),
            },
            guid: sysfs.node_guid(&name).ok(),
            state: sys.line(dir.join("ports/1/state")),
            node: file.map(|(_, file)| file.clone()),
            pci,
            name,
        }
    };
    sys.names(class).into_iter().map(read).collect()
}

/// RDMA device to file of `/dev/infiniband`.
fn verbs(sys: &Root) -> Vec<(String, String)> {
    let class = Path::new("/sys/class/infiniband_verbs");
    let pair = |file: String| Some((sys.line(class.join(&file).join("ibdev"))?, file));
    sys.names(class).into_iter().filter_map(pair).collect()
}

fn node(root: &Root, name: &str, open: bool) -> Option<DeviceNode> {
    let real = root.real(&Path::new("/dev/infiniband").join(name)).ok()?;
    let outside = root.outside(&real);
    let meta = std::fs::symlink_metadata(&outside).ok()?;
    let opened = || {
        std::fs::File::options()
            .read(true)
            .write(true)
            .open(&outside)
    };
    let refused = if open { opened().err() } else { None };
    Some(DeviceNode {
        name: name.to_owned(),
        owner: meta.uid(),
        group: meta.gid(),
        mode: meta.mode() & 0o7777,
        // Where all may use it nobody needs one.
        has_acl: meta.mode() & 0o6 != 0o6 && has_acl(&outside),
        refused: refused.map(|error| error.to_string()),
    })
}

fn modules(root: &Root) -> Option<Vec<String>> {
    let text = root.text("/proc/modules").ok()?;
    let names = text
        .lines()
        .filter_map(|line| line.split_ascii_whitespace().next());
    // Those that are built in have a directory all the same.
    let names = names.map(str::to_owned).chain(root.names("/sys/module"));
    // A list with nothing in it says nothing: a sandbox hides what there is.
    Some(names.collect::<Vec<_>>()).filter(|names| !names.is_empty())
}

fn huge_free(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("HugePages_Free:"))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{Devices, Root, huge_free};
    use ofi_topo::shape::Shape;

    #[test]
    fn an_instance_is_read() {
        let dir = tempfile::tempdir().unwrap();
        Shape::by_name("p4d")
            .unwrap()
            .write_sysfs(dir.path())
            .unwrap();
        let root = Root::new(dir.path());
        let devices = Devices::read(&root, &root, false);
        assert_eq!(
            (devices.efas.len(), devices.efa_nics().count(), devices.gpus),
            (4, 4, 8)
        );
        assert_eq!(devices.product, "p4d.24xlarge");
        assert!(
            devices
                .nics
                .iter()
                .all(|nic| nic.guid.is_some() && nic.state.is_some())
        );
        assert!(devices.modules.is_none() && devices.has_module("efa"));
    }

    #[test]
    fn huge_pages_are_read_as_the_kernel_writes_them() {
        assert_eq!(
            huge_free("HugePages_Total:   5\nHugePages_Free:       3\n"),
            Some(3)
        );
    }
}
