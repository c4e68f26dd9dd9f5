//! An installed hwloc says what we say: of dumps, and of this host. Where there is none, that is said.
#![expect(clippy::unwrap_used, reason = "test code")]

use ofi_hwloc::{HwlocError, Source, tree};
use ofi_topo::shape::Shape;
use ofi_topo::{Accelerators, PciFunction, Sysfs, Tree, group_near};
use std::path::Path;

/// `None` where no hwloc is installed, after saying so.
fn by_hwloc(source: Source<'_>) -> Option<Tree> {
    match tree(source) {
        Ok(tree) => Some(tree),
        Err(error @ HwlocError::NotFound { .. }) => {
            say(&format!("skipped: {error}"));
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// The same functions at the same places, and the same devices of the NICs of a shape.
fn agree(name: &str, shape: &Shape, dump: &str) -> Option<()> {
    let theirs = by_hwloc(Source::Dump(dump))?;
    let ours = Tree::from_hwloc_xml(dump).unwrap();
    assert_eq!(theirs, ours, "{name}");
    let nics = shape.provider_list();
    for accelerators in [Accelerators::NVIDIA, Accelerators::NEURON] {
        let said = |tree| group_near(&nics, tree, accelerators).unwrap().devices;
        assert_eq!(said(&theirs), said(&shape.tree), "{name}");
    }
    Some(())
}

#[test]
fn every_instance_is_grouped_alike_by_hwloc_sysfs_and_dump() {
    for name in Shape::NAMES {
        let whole = Shape::by_name(name).unwrap();
        // And with every third function that is no bridge taken away.
        let part = whole.without(|f| f.class != 0x0604 && f.address.device() % 3 == 0);
        for (what, shape) in [("whole", &whole), ("in part", &part)] {
            if agree(&format!("{name} {what}"), shape, &shape.hwloc_xml()).is_none() {
                return;
            }
        }
    }
}

/// What the test above takes from dumps of our own making, from those of others: where they are beside this
/// checkout.
#[test]
fn dumps_of_real_instances_are_read_as_hwloc_reads_them() {
    let dumps = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/topo");
    for (name, file) in [
        ("c5n", "c5n.18xl-topo.xml"),
        ("g5", "g5.48xl-topo.xml"),
        ("p3dn", "p3dn.24xl-topo.xml"),
        ("p4d", "p4d.24xl-topo.xml"),
        ("p5", "p5.48xl-topo.xml"),
    ] {
        let Ok(text) = std::fs::read_to_string(dumps.join(file)) else {
            return say("skipped: no dumps of real instances beside this checkout");
        };
        if agree(
            name,
            &Shape::by_name(name).unwrap(),
            &without_comments(&text),
        )
        .is_none()
        {
            return;
        }
    }
}

/// hwloc's own reader, which it has without its libxml plugin, takes no comments.
fn without_comments(text: &str) -> String {
    let mut parts = text.split("<!--");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |mut kept, part| {
        kept.push_str(
            part.split_once("-->")
                .map_or("", |(_, rest)| rest)
                .trim_start(),
        );
        kept
    })
}

#[test]
fn this_host_is_the_same_in_sysfs_and_hwloc() {
    let Some(theirs) = by_hwloc(Source::Host) else {
        return;
    };
    let ours = Sysfs::new("/").tree().unwrap();
    // hwloc has no NUMA nodes of hosts with one, and takes some functions for others' parts.
    let facts = |f: &PciFunction| (f.address, f.bridges.clone(), f.class, f.vendor, f.device);
    let told: Vec<_> = theirs.functions().iter().map(facts).collect();
    let found: Vec<_> = ours.functions().iter().map(facts).collect();
    assert_eq!(told, found);
}

#[expect(clippy::print_stdout, reason = "what was skipped is said, by name")]
fn say(text: &str) {
    println!("{text}");
}
