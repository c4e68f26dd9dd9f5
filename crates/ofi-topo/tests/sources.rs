//! Every source of the tree says the same.

mod common;

use common::devices;
use ofi_topo::shape::Shape;
use ofi_topo::{Accelerators, Link, Nic, PciAddress, Sysfs, Tree, group_near, nearest};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// The tree without what hwloc does not tell.
fn without_links(tree: &Tree) -> Tree {
    let functions = tree.functions().iter().cloned().map(|mut function| {
        function.link = Link::default();
        function
    });
    Tree::new(functions.collect(), tree.packages().clone())
}

#[test]
fn sysfs_and_hwloc_say_what_the_shape_says() {
    for name in Shape::NAMES {
        let shape = Shape::by_name(name).unwrap();
        let root = tempfile::tempdir().unwrap();
        shape.write_sysfs(root.path()).unwrap();
        if shape.nics.len() < 2 {
            // A root that is there already is written over.
            shape.write_sysfs(root.path()).unwrap();
        }
        let sysfs = Sysfs::new(root.path());
        assert_eq!(sysfs.tree().unwrap(), shape.tree, "{name}");
        assert_eq!(
            sysfs.product_name().unwrap().as_deref(),
            Some(shape.product.as_str())
        );
        for nic in &shape.nics {
            assert_eq!(sysfs.node_guid(&nic.name).unwrap(), nic.guid);
            let path = sysfs.pci_path(nic.address).unwrap();
            assert!(path.ends_with(nic.address.to_string()), "{path:?}");
        }
        let dump = Tree::from_hwloc_xml(&shape.hwloc_xml()).unwrap();
        assert_eq!(dump, without_links(&shape.tree), "{name}");
    }
}

#[test]
fn p5_sits_behind_its_switches() {
    let root = tempfile::tempdir().unwrap();
    let p5 = Shape::by_name("p5").unwrap();
    // A fraction of it: writing files is slow.
    let first = p5.without(|f| f.bridges.first().unwrap_or(&f.address).bus() != 0x44);
    first.write_sysfs(root.path()).unwrap();
    let path = Sysfs::new(root.path())
        .pci_path("0000:4f:00.0".parse().unwrap())
        .unwrap();
    assert_eq!(
        path,
        Path::new("/sys/devices/pci0000:44/0000:44:00.0/0000:45:00.0/0000:46:01.0/0000:4f:00.0")
    );
}

#[test]
fn what_sysfs_does_not_say_is_unknown() {
    let root = tempfile::tempdir().unwrap();
    let sysfs = Sysfs::new(root.path());
    assert_eq!(sysfs.tree().unwrap(), Tree::default(), "no /sys at all");

    let devices = root.path().join("sys/bus/pci/devices");
    let real = root
        .path()
        .join("sys/devices/pci0000:80/0000:80:05.5/pci10000:00/10000:00:02.0/10000:01:00.0");
    fs::create_dir_all(&devices).unwrap();
    fs::create_dir_all(&real).unwrap();
    fs::create_dir_all(devices.join("README")).unwrap();
    symlink(&real, devices.join("10000:01:00.0")).unwrap();
    // A link to somewhere else than its name says, and one that leads out of the root.
    symlink(&real, devices.join("0000:00:01.0")).unwrap();
    symlink("/", devices.join("0000:00:02.0")).unwrap();
    fs::write(real.join("class"), "0x030200\n").unwrap();
    fs::write(real.join("vendor"), "10de").unwrap();
    fs::write(real.join("numa_node"), "-1\n").unwrap();
    fs::write(real.join("max_link_width"), "255\n").unwrap();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("device"), "0x1234\n").unwrap();
    symlink(outside.path().join("device"), real.join("device")).unwrap();

    let tree = sysfs.tree().unwrap();
    assert_eq!(tree.functions().len(), 1, "{tree:?}");
    let function = &tree.functions()[0];
    assert_eq!((function.class, function.vendor), (0x0302, 0));
    assert_eq!(function.device, 0, "a link out of the root is not followed");
    assert_eq!((function.numa, function.link), (None, Link::default()));
    let bridges: Vec<String> = function.bridges.iter().map(ToString::to_string).collect();
    assert_eq!(bridges, ["10000:00:02.0"], "a domain of its own");
}

/// Dumps of real instances, where they are beside this checkout.
#[test]
fn real_dumps_are_grouped_as_the_shapes_are() {
    let dumps = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/topo");
    if !dumps.is_dir() {
        return say("skipped: no dumps of real instances beside this checkout");
    }
    for (name, file) in [
        ("c5n", "c5n.18xl-topo.xml"),
        ("g5", "g5.48xl-topo.xml"),
        ("p3dn", "p3dn.24xl-topo.xml"),
        ("p4d", "p4d.24xl-topo.xml"),
        ("p5", "p5.48xl-topo.xml"),
    ] {
        let text = fs::read_to_string(dumps.join(file)).unwrap();
        let tree = Tree::from_hwloc_xml(&text).unwrap();
        let shape = Shape::by_name(name).unwrap();
        // The instance's EFAs are found by what they are, not by what the shape believes.
        let efas = tree
            .functions()
            .iter()
            .filter(|f| f.vendor == 0x1d0f && f.device & 0xfff0 == 0xefa0);
        let nics: Vec<Nic> = efas
            .enumerate()
            .map(|(index, f)| {
                Nic::new(index, ofi_topo::shape::nic_name(f.address)).with_pci(f.address)
            })
            .collect();
        let list = shape.provider_list();
        let here = group_near(&list, &shape.tree, Accelerators::NVIDIA).unwrap();
        let there = group_near(&nics, &tree, Accelerators::NVIDIA).unwrap();
        assert_eq!(devices(&there, &nics), devices(&here, &list), "{name}");
        // All that the shape has stands in the dump, at the same place.
        for function in shape.tree.functions() {
            let Some(found) = tree.find(function.address) else {
                panic!("{name}: {} is not in the dump", function.address);
            };
            assert_eq!(found.bridges, function.bridges, "{name}");
            assert_eq!(
                (found.class, found.vendor, found.device, found.numa),
                (
                    function.class,
                    function.vendor,
                    function.device,
                    function.numa
                ),
                "{name} {}",
                function.address
            );
        }
    }
}

/// Which EFA belongs to which Neuron device on trn2, as libfabric's own tests have it, where the table is
/// beside this checkout: each is the one nearest to a Neuron device.
#[test]
fn every_neuron_device_of_trn2_has_an_efa_of_its_own() {
    let file = "../../../shared/data/topo/trn2-neuron-device-to-efa-bdf.json";
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let Ok(text) = fs::read_to_string(file) else {
        return say("skipped: no table of trn2 beside this checkout");
    };
    let listed: BTreeSet<PciAddress> = text
        .split('"')
        .filter_map(|word| word.parse().ok())
        .collect();
    assert_eq!(listed.len(), 16);
    let shape = Shape::by_name("trn2").unwrap();
    let nics = shape.provider_list();
    let neuron = shape
        .tree
        .functions()
        .iter()
        .filter(|f| Accelerators::NEURON.contain(f));
    let near: Vec<PciAddress> = neuron
        .map(
            |device| match nearest(&nics, &shape.tree, device.address)[..] {
                [nic] => nic.pci.unwrap(),
                ref several => panic!("{}: {several:?}", device.address),
            },
        )
        .collect();
    assert_eq!(near.len(), 16);
    assert_eq!(near.into_iter().collect::<BTreeSet<_>>(), listed);
}

#[expect(clippy::print_stdout, reason = "what was skipped is said, by name")]
fn say(text: &str) {
    println!("{text}");
}

/// GPUs that are shared out to virtual machines: their virtual functions are no more accelerators. Where the
/// whole is not shown, as in such a machine or in a container, one is as good as any.
#[test]
fn virtual_functions_beside_their_whole_are_no_accelerators() {
    let root = tempfile::tempdir().unwrap();
    let p4d = Shape::by_name("p4d").unwrap();
    p4d.write_sysfs(root.path()).unwrap();
    let sysfs = Sysfs::new(root.path());
    let nics = p4d.provider_list();
    let made = || group_near(&nics, &sysfs.tree().unwrap(), Accelerators::NVIDIA).unwrap();
    let before = made();
    let whole: PciAddress = "0000:10:1c.0".parse().unwrap();
    let list = root.path().join("sys/bus/pci/devices");
    let dir = list.join(whole.to_string()).canonicalize().unwrap();
    for function in 1..8 {
        let name = format!("0000:10:1c.{function}");
        let part = dir.with_file_name(&name);
        fs::create_dir(&part).unwrap();
        for file in ["vendor", "device", "class", "numa_node"] {
            fs::copy(dir.join(file), part.join(file)).unwrap();
        }
        symlink(Path::new("..").join(whole.to_string()), part.join("physfn")).unwrap();
        symlink(&part, list.join(&name)).unwrap();
    }
    assert_eq!(made(), before);
    let parts = |tree: &Tree| tree.functions().iter().filter(|f| f.is_part).count();
    assert_eq!(parts(&sysfs.tree().unwrap()), 7);
    // The whole is hidden: each of its parts counts, as a function of its own.
    fs::remove_file(list.join(whole.to_string())).unwrap();
    let tree = sysfs.tree().unwrap();
    let gpus = tree
        .functions()
        .iter()
        .filter(|f| Accelerators::NVIDIA.contain(f));
    assert_eq!((parts(&tree), gpus.count()), (0, 8 - 1 + 7));
    // What is no link to a function says nothing.
    let odd = list.join("0000:10:1c.1").join("physfn");
    for target in ["../nowhere", "/", "..", "../0000:10:1c.9"] {
        fs::remove_file(&odd).unwrap();
        symlink(target, &odd).unwrap();
        assert_eq!(parts(&sysfs.tree().unwrap()), 0, "{target}");
    }
}
