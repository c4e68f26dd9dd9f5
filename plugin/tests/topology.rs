//! What NCCL learns of a host whose devices have several NICs: an emulated p5, seen through its own tables.

use std::collections::BTreeSet;
use std::path::Path;

use ofi_topo::shape::Shape;

use super::harness;

/// The devices that a p5 has by itself.
const DEVICES: usize = 8;

/// A host: its NICs, GPUs and instance type as files, and what it is told apart by.
fn host(id: &str) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a directory of this test's own");
    let shape = Shape::by_name("p5").expect("the shape is known");
    shape.write_sysfs(root.path()).expect("files can be made");
    let etc = root.path().join("etc");
    std::fs::create_dir(&etc).expect("nobody else makes it");
    std::fs::write(etc.join("machine-id"), id).expect("the directory was just made");
    root
}

/// The numbers of the devices of that host, as a process of its own sees them.
fn numbers(plugin: &Path, root: &Path, theirs: Option<&str>) -> Option<Vec<String>> {
    let count = DEVICES.to_string();
    let arguments: Vec<&str> = [count.as_str()].into_iter().chain(theirs).collect();
    let said = harness::run_on("efa", (&[plugin.into()], "topo", &arguments), |command| {
        command
            .env("EFA_EMU_SHAPE", "p5")
            .env_remove("EFA_EMU_NICS")
            .env_remove("NCCL_TOPO_FILE")
            .env("OFI_NCCL_FS_ROOT", root);
    })?;
    let numbers = said.lines().filter_map(|line| line.strip_prefix("number "));
    Some(numbers.map(str::to_owned).collect())
}

/// The file for NCCL has the NICs of the properties, a user's own is left alone, and numbers of devices are
/// the same in each process of a host and of no other.
pub(crate) fn file_and_numbers(plugin: &Path) {
    let (here, there) = (host("one\n"), host("another\n"));
    let Some(first) = numbers(plugin, here.path(), None) else {
        return;
    };
    assert_eq!(first.len(), DEVICES);
    // Another process of the host, which leaves a file of the user's own alone.
    let again = numbers(plugin, here.path(), Some("/etc/mine.xml"));
    assert_eq!(again.as_ref(), Some(&first));
    let others = numbers(plugin, there.path(), None).expect("it ran before");
    let all: BTreeSet<&String> = first.iter().chain(&others).collect();
    assert_eq!(all.len(), 2 * DEVICES, "{first:?} {others:?}");
}
