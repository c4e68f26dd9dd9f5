//! Shapes against the facts, and against the code that reads sysfs.

use super::Shape;
use ofi_topo::{PciAddress, Sysfs};
use std::path::Path;

fn shape(name: &str) -> Shape {
    Shape::by_name(name).unwrap()
}

fn names(shape: &Shape) -> Vec<&str> {
    shape.nics().iter().map(|nic| nic.name.as_str()).collect()
}

#[test]
fn instances_have_their_nics() {
    for (name, count, gbps_in_all) in [
        ("p4d", 4, 400),
        ("p5", 32, 3200),
        ("p5en", 16, 3200),
        ("trn1", 8, 800),
        ("trn2", 16, 3200),
    ] {
        let shape = shape(name);
        assert_eq!(shape.nics().len(), count, "{name}");
        let bps: u64 = shape.nics().iter().map(|nic| nic.speed_bps).sum();
        assert_eq!(bps, gbps_in_all * 1_000_000_000, "{name}");
        assert_eq!(shape.twins(), None, "{name}");
        assert_eq!(self::shape(shape.product()), shape);
    }
}

#[test]
fn names_and_places_are_those_of_the_dumps() {
    assert_eq!(
        names(&shape("p4d")),
        ["rdmap16s27", "rdmap32s27", "rdmap144s27", "rdmap160s27"]
    );
    let p5 = shape("p5");
    assert_eq!(
        &names(&p5)[..5],
        [
            "rdmap79s0",
            "rdmap80s0",
            "rdmap81s0",
            "rdmap82s0",
            "rdmap96s0"
        ]
    );
    assert_eq!(names(&p5)[31], "rdmap201s0");
    assert_eq!(p5.nics()[0].pci.to_string(), "0000:4f:00.0");
    assert_eq!(p5.nics()[0].device_id, "0xefa1");
    assert_eq!(shape("trn1").nics()[7].pci.to_string(), "0000:a0:1a.0");
}

#[test]
fn custom_shapes_are_as_described() {
    let four = shape("custom:nics=4,speed=25,product=x9.large");
    assert_eq!(
        names(&four),
        ["rdmap0s4", "rdmap0s5", "rdmap0s6", "rdmap0s7"]
    );
    assert_eq!(
        (four.nics()[3].speed_bps, four.product()),
        (25_000_000_000, "x9.large")
    );
    let named = shape("custom:names=a+b,pci=0000:10:1b.0+0001:20:1b.1");
    assert_eq!(names(&named), ["a", "b"]);
    assert_eq!(shape("custom:").nics().len(), 1);
    let many = Shape::simple(1000);
    assert_eq!((many.nics().len(), many.twins()), (64, None));
    assert_eq!(Shape::simple(0).nics().len(), 0);
}

#[test]
fn shapes_that_make_no_sense_are_refused() {
    for (text, says) in [
        ("p9", "p4d, p5, p5en"),
        ("", "no such shape"),
        ("custom:nics=0", "1 to 64"),
        ("custom:nics=65", "1 to 64"),
        ("custom:speed=", "1 to 6400"),
        ("custom:pci=0000:00:20.0", "below 20"),
        ("custom:nics=3,names=a+b", "3 NICs"),
        ("custom:names=a+a", "a twice"),
        (
            "custom:pci=0000:10:1b.0+0000:10:1b.0,names=a+b",
            "0000:10:1b.0 twice",
        ),
        ("custom:names=a/b", "letters"),
        ("custom:nic=3", "nics=4"),
    ] {
        let error = Shape::by_name(text).unwrap_err().to_string();
        assert!(error.contains(says), "{text}: {error}");
    }
}

#[test]
fn a_root_says_what_the_shape_says() {
    for name in Shape::NAMES {
        let shape = shape(name);
        let root = tempfile::tempdir().unwrap();
        shape.write_root(root.path()).unwrap();
        let sysfs = Sysfs::new(root.path());
        assert_eq!(
            sysfs.product_name().unwrap().as_deref(),
            Some(shape.product())
        );
        for (nic, function) in shape.nics().iter().zip(functions(&shape)) {
            assert_eq!(sysfs.node_guid(&nic.name).unwrap().0, nic.guid);
            let address: PciAddress = nic.pci.to_string().parse().unwrap();
            let path = sysfs.pci_path(address).unwrap();
            assert_eq!(
                path.components().count(),
                5 + function.bridges.len(),
                "{path:?}"
            );
            let file = |path: &Path| std::fs::read_to_string(path).unwrap();
            let class = root.path().join("sys/class/infiniband").join(&nic.name);
            assert_eq!(file(&class.join("device/device")).trim(), nic.device_id);
            let device = root
                .path()
                .join("sys/bus/pci/devices")
                .join(nic.pci.to_string());
            assert_eq!(file(&device.join("vendor")).trim(), "0x1d0f");
            assert_eq!(
                file(&device.join("numa_node")).trim(),
                function.numa.to_string()
            );
        }
    }
}

fn functions(shape: &Shape) -> impl Iterator<Item = &super::Function> {
    let is_nic = |function: &&super::Function| function.kind == super::Kind::Nic;
    shape.functions.iter().filter(is_nic)
}

#[test]
fn p5_sits_behind_its_switches() {
    let root = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        // A root that is there already is written over.
        shape("p5").write_root(root.path()).unwrap();
    }
    let path = Sysfs::new(root.path())
        .pci_path("0000:4f:00.0".parse().unwrap())
        .unwrap();
    assert_eq!(
        path,
        Path::new("/sys/devices/pci0000:44/0000:44:00.0/0000:45:00.0/0000:46:01.0/0000:4f:00.0")
    );
    let gpu = root.path().join("sys/bus/pci/devices/0000:53:00.0");
    let class = std::fs::read_to_string(gpu.join("class")).unwrap();
    assert_eq!(class.trim(), "0x030200");
}

#[test]
fn guids_tell_the_functions_of_a_card_apart() {
    let p5 = shape("p5");
    let guid = |i: usize| ofi_topo::NodeGuid(p5.nics()[i].guid);
    let card: Vec<u8> = (0..4).map(|i| guid(i).function_index()).collect();
    assert_eq!(card, [0, 1, 2, 3]);
    assert_eq!(guid(3).card_bus(), 0x4f);
    assert_eq!((guid(4).card_bus(), guid(4).function_index()), (0x60, 0));
}
