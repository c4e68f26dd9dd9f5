//! Shapes against the facts, and against the code that reads sysfs.

use super::Shape;
use ofi_topo::{PciAddress, Sysfs};

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
    assert_eq!(shape("custom:").nics()[0].device_id, "0xefa1");
    let fourth = shape("custom:generation=4");
    assert_eq!(fourth.nics()[0].device_id, "0xefa3");
    let many = Shape::simple(1000);
    let places: std::collections::HashSet<_> = many.nics().iter().map(|nic| nic.pci).collect();
    assert_eq!((many.nics().len(), places.len()), (64, 64));
    assert_eq!(Shape::simple(0).nics().len(), 0);
}

#[test]
fn a_custom_shape_needs_its_description() {
    let error = Shape::by_name("custom").unwrap_err().to_string();
    assert!(
        error.contains("custom:nics=4") && !error.contains("no such"),
        "{error}"
    );
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
        ("custom:generation=0", "1 to 9"),
    ] {
        let error = Shape::by_name(text).unwrap_err().to_string();
        assert!(error.contains(says), "{text}: {error}");
    }
}

#[test]
fn a_root_says_what_the_nics_say() {
    let root = tempfile::tempdir().unwrap();
    let two = shape("custom:pci=0000:20:1b.0+0000:10:1b.0,names=b+a,product=x9.large");
    two.write_root(root.path()).unwrap();
    let sysfs = Sysfs::new(root.path());
    assert_eq!(sysfs.product_name().unwrap().as_deref(), Some("x9.large"));
    // The kernel is the one that runs: what it lends by dma-buf is up to it.
    let kernel = |root: &Sysfs| root.line("proc/sys/kernel/osrelease");
    assert_eq!(kernel(&sysfs), kernel(&Sysfs::new("/")));
    let tree = sysfs.tree().unwrap();
    assert_eq!(tree.functions().len(), 2);
    for nic in two.nics() {
        assert_eq!(sysfs.node_guid(&nic.name).unwrap().0, nic.guid);
        let address = PciAddress::try_from(nic.pci).unwrap();
        let function = tree.find(address).unwrap();
        assert_eq!(format!("{:#06x}", function.device), nic.device_id);
        assert_eq!(format!("{:#06x}", function.vendor), nic.vendor_id);
    }
    assert_eq!(names(&two), ["b", "a"], "in the order of the description");
    assert_eq!(two.nics()[0].pci.bus, 0x20);
}
