//! What the host shows of EFAs, told where libfabric shows none: of the causes (no device, no driver, hidden
//! from a container, no right to it, left out by libfabric) one is left.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use ofi_topo::{Sysfs, Tree};

use crate::config::Config;
use crate::platform;

/// PCI vendor and devices: 1d0f:efa0 and its kin.
const VENDOR: u16 = 0x1d0f;
const EFA: u16 = 0xefa0;

/// What speaks for EFAs on this host (protocol 2h.1 (1)): an instance type that the reference runs over EFA
/// alone, or EFAs in sysfs. `None`: nothing does.
pub(super) fn for_efa(config: &Config) -> Option<String> {
    let product = config.product_name.as_deref().unwrap_or_default();
    match (platform::nics(product), config.platform()) {
        (Some(whole), _) => Some(format!("{product} has {whole} EFAs")),
        (None, Some(_)) => Some(format!(
            "{product} is of a family that runs over EFA in the sizes that have one"
        )),
        (None, None) => match seen(&config.fs_root) {
            0 => None,
            count => Some(format!("this host shows {count} EFAs")),
        },
    }
}

/// EFAs on PCI; where that cannot be seen, RDMA devices of the names that EFAs have.
fn seen(root: &Path) -> usize {
    let tree = Sysfs::new(root).tree().unwrap_or_default();
    if tree.functions().is_empty() {
        let all = names(&root.join("sys/class/infiniband"), "");
        let is_efa = |name: &&String| name.starts_with("rdmap") || name.starts_with("efa_");
        return all.iter().filter(is_efa).count();
    }
    on_pci(&tree)
}

fn on_pci(tree: &Tree) -> usize {
    let functions = tree.functions().iter();
    let efas = functions.filter(|f| f.vendor == VENDOR && f.device & 0xfff0 == EFA);
    efas.count()
}

/// One sentence, of what is below `root`.
pub(super) fn efas(root: &Path) -> String {
    let tree = Sysfs::new(root).tree().unwrap_or_default();
    let on_pci = on_pci(&tree);
    let with_driver = names(&root.join("sys/class/infiniband"), "").len();
    let devices = root.join("dev/infiniband");
    let nodes = names(&devices, "uverbs");
    match (on_pci, with_driver, nodes.first()) {
        (0, 0, _) => "this host shows no EFA on PCI".to_owned(),
        (count, 0, _) => {
            format!("{count} EFAs on PCI, and no driver has them (is the module efa loaded?)")
        }
        (_, count, None) => format!(
            "{count} RDMA devices in sysfs, and no uverbs device in /dev/infiniband here (docker: \
             --device=/dev/infiniband; Kubernetes: resources of vpc.amazonaws.com/efa)"
        ),
        (_, count, Some(first)) => match open(&devices.join(first)) {
            Ok(()) => format!(
                "{count} RDMA devices that can be opened: this libfabric has no provider for them, or \
                 FI_EFA_IFACE leaves them out"
            ),
            Err(error) => format!("/dev/infiniband/{first} cannot be opened: {error}"),
        },
    }
}

/// Names in a directory that begin so, in order; none where there is no such directory.
fn names(dir: &Path, start: &str) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name.starts_with(start)).collect();
    names.sort_unstable();
    names
}

/// As the provider opens it.
fn open(path: &PathBuf) -> io::Result<()> {
    File::options().read(true).write(true).open(path).map(drop)
}

#[cfg(test)]
mod tests {
    use super::efas;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn each_cause_is_told_from_the_others() {
        let root = tempfile::tempdir().unwrap();
        let says = |what: &str| {
            let text = efas(root.path());
            assert!(text.contains(what) && !text.contains('\n'), "{text}");
        };
        let dir = |path: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(&path).unwrap();
            path
        };
        says("no EFA on PCI");
        let function = dir("sys/devices/pci0000:00/0000:00:06.0");
        fs::write(function.join("vendor"), "0x1d0f\n").unwrap();
        fs::write(function.join("device"), "0xefa1\n").unwrap();
        symlink(&function, dir("sys/bus/pci/devices").join("0000:00:06.0")).unwrap();
        says("1 EFAs on PCI, and no driver has them");
        dir("sys/class/infiniband/rdmap0s6");
        says("no uverbs device in /dev/infiniband here (docker: --device=/dev/infiniband");
        // Not even root opens a directory for writing.
        let node = dir("dev/infiniband/uverbs0");
        says("/dev/infiniband/uverbs0 cannot be opened: Is a directory");
        fs::remove_dir(&node).unwrap();
        fs::write(&node, "").unwrap();
        says("1 RDMA devices that can be opened: this libfabric has no provider for them");
    }
}
