//! Facts read from a made-up host.
#![expect(clippy::unwrap_used, reason = "test code")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use ofi_topo::{PciAddress, Sysfs, TopoError};

/// A root with one NIC behind a bridge, linked as Linux links it.
fn host() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let sys = root.path().join("sys");
    let bridge = sys.join("devices/pci0000:a0/0000:a0:01.0");
    fs::create_dir_all(bridge.join("0000:a1:00.0/infiniband/rdmap161s0")).unwrap();
    fs::create_dir_all(bridge.join("pci_bus/0000:a1")).unwrap();
    fs::create_dir_all(sys.join("class/pci_bus")).unwrap();
    fs::create_dir_all(sys.join("class/infiniband")).unwrap();
    fs::create_dir_all(sys.join("devices/virtual/dmi/id")).unwrap();
    symlink(
        "../../devices/pci0000:a0/0000:a0:01.0/pci_bus/0000:a1",
        sys.join("class/pci_bus/0000:a1"),
    )
    .unwrap();
    symlink(
        "../../devices/pci0000:a0/0000:a0:01.0/0000:a1:00.0/infiniband/rdmap161s0",
        sys.join("class/infiniband/rdmap161s0"),
    )
    .unwrap();
    let guid = bridge.join("0000:a1:00.0/infiniband/rdmap161s0/node_guid");
    fs::write(guid, "0e12:34ff:0000:a102\n").unwrap();
    root
}

fn address(text: &str) -> PciAddress {
    text.parse().unwrap()
}

#[test]
fn the_pci_path_is_the_hosts_not_the_fixtures() {
    let root = host();
    let sysfs = Sysfs::new(root.path());
    let path = sysfs.pci_path(address("0000:a1:00.0")).unwrap();
    assert_eq!(
        path,
        Path::new("/sys/devices/pci0000:a0/0000:a0:01.0/0000:a1:00.0")
    );
}

#[test]
fn a_root_reached_through_a_link_works() {
    let root = host();
    let elsewhere = tempfile::tempdir().unwrap();
    let link = elsewhere.path().join("host");
    symlink(root.path(), &link).unwrap();
    let path = Sysfs::new(link).pci_path(address("0000:a1:00.0")).unwrap();
    assert!(path.starts_with("/sys/devices"), "{}", path.display());
}

#[test]
fn a_missing_function_is_an_error_with_the_path() {
    let root = host();
    let error = Sysfs::new(root.path())
        .pci_path(address("0000:a1:01.0"))
        .unwrap_err();
    assert!(error.to_string().contains("0000:a1:01.0"), "{error}");
    assert!(matches!(error, TopoError::Sysfs { .. }), "{error}");
}

#[test]
fn links_do_not_lead_out_of_the_root() {
    let root = host();
    let outside = tempfile::tempdir().unwrap();
    fs::create_dir_all(outside.path().join("x/y")).unwrap();
    fs::create_dir(outside.path().join("0000:b0:00.0")).unwrap();
    let planted = root.path().join("sys/class/pci_bus/0000:b0");
    symlink(outside.path().join("x/y"), planted).unwrap();
    let error = Sysfs::new(root.path())
        .pci_path(address("0000:b0:00.0"))
        .unwrap_err();
    assert!(matches!(error, TopoError::OutsideRoot { .. }), "{error}");

    fs::write(outside.path().join("product_name"), "elsewhere\n").unwrap();
    let planted = root.path().join("sys/devices/virtual/dmi/id/product_name");
    symlink(outside.path().join("product_name"), planted).unwrap();
    let error = Sysfs::new(root.path()).product_name().unwrap_err();
    assert!(matches!(error, TopoError::OutsideRoot { .. }), "{error}");
}

#[test]
fn the_product_name_is_the_first_line() {
    let root = host();
    let sysfs = Sysfs::new(root.path());
    assert_eq!(sysfs.product_name().unwrap(), None, "no such file");
    let file = root.path().join("sys/devices/virtual/dmi/id/product_name");
    fs::write(&file, "trn1.32xlarge \nmore\n").unwrap();
    assert_eq!(
        sysfs.product_name().unwrap().as_deref(),
        Some("trn1.32xlarge")
    );
    fs::write(&file, " \n").unwrap();
    assert_eq!(sysfs.product_name().unwrap(), None, "a blank line");
    fs::write(&file, vec![b'x'; 100_000]).unwrap();
    assert_eq!(
        sysfs.product_name().unwrap().unwrap().len(),
        4096,
        "reading is bounded"
    );
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert!(matches!(sysfs.product_name(), Err(TopoError::Sysfs { .. })));
}

#[test]
fn guids_come_from_the_device() {
    let root = host();
    let sysfs = Sysfs::new(root.path());
    let guid = sysfs.node_guid("rdmap161s0").unwrap();
    assert_eq!((guid.card_bus(), guid.function_index()), (0xa1, 2));
    assert!(matches!(
        sysfs.node_guid("rdmap161s1"),
        Err(TopoError::Sysfs { .. })
    ));
    for name in ["", ".", "..", "a/b", "a\0b"] {
        let error = sysfs.node_guid(name).unwrap_err();
        assert!(matches!(error, TopoError::BadDeviceName { .. }), "{error}");
    }
    fs::write(
        root.path()
            .join("sys/class/infiniband/rdmap161s0/node_guid"),
        "none",
    )
    .unwrap();
    let error = sysfs.node_guid("rdmap161s0").unwrap_err();
    assert!(
        error.to_string().contains("node_guid holds \"none\""),
        "{error}"
    );
}

#[test]
fn pipes_loops_and_what_leads_out_say_nothing() {
    let root = host();
    let sysfs = Sysfs::new(root.path());
    let eth0 = root.path().join("sys/class/net/eth0");
    fs::create_dir_all(&eth0).unwrap();
    fs::write(eth0.join("speed"), "25000\n").unwrap();
    assert_eq!(sysfs.interface("eth0", "speed").as_deref(), Some("25000"));
    // Who opens a pipe to read waits for a writer.
    let pipe = |path: &Path| {
        let made = std::process::Command::new("mkfifo").arg(path).status();
        assert!(made.unwrap().success());
    };
    pipe(&eth0.join("flags"));
    symlink("/dev/zero", eth0.join("mtu")).unwrap();
    symlink("loop", eth0.join("loop")).unwrap();
    for (interface, attribute) in [
        ("eth0", "flags"),
        ("eth0", "mtu"),
        ("eth0", "loop"),
        ("eth0", "address"),
        ("eth1", "speed"),
        ("..", "speed"),
        ("../net/eth0", "speed"),
        ("eth0", "../eth0/speed"),
        ("", "speed"),
    ] {
        assert_eq!(
            sysfs.interface(interface, attribute),
            None,
            "{interface}/{attribute}"
        );
    }
    pipe(&root.path().join("sys/devices/virtual/dmi/id/product_name"));
    assert!(matches!(sysfs.product_name(), Err(TopoError::Sysfs { .. })));
    // The tree of a host with links in a circle, above a function and in its place.
    let devices = root.path().join("sys/bus/pci/devices");
    fs::create_dir_all(&devices).unwrap();
    symlink("0000:00:02.0", devices.join("0000:00:01.0")).unwrap();
    symlink("0000:00:01.0", devices.join("0000:00:02.0")).unwrap();
    let real = "../../../devices/pci0000:a0/0000:a0:01.0/0000:a1:00.0";
    symlink(real, devices.join("0000:a1:00.0")).unwrap();
    let inside = root
        .path()
        .join("sys/devices/pci0000:a0/0000:a0:01.0/0000:a1:00.0");
    symlink("..", inside.join("subsystem")).unwrap();
    pipe(&inside.join("class"));
    let tree = sysfs.tree().unwrap();
    assert_eq!(tree.functions().len(), 1, "{tree:?}");
    assert_eq!(tree.functions()[0].class, 0);
}

/// What a list shows and a tree cannot have is kept by name: a copy of a host that is not whole looks like a
/// host that lacks devices.
#[test]
fn functions_without_a_place_and_names_that_are_no_address_are_kept() {
    let root = host();
    let outside = tempfile::tempdir().unwrap();
    fs::create_dir_all(outside.path().join("pci0000:b0/0000:b0:00.0")).unwrap();
    let devices = root.path().join("sys/bus/pci/devices");
    fs::create_dir_all(&devices).unwrap();
    let real = "../../../devices/pci0000:a0/0000:a0:01.0/0000:a1:00.0";
    let long = "x".repeat(200);
    for (name, target) in [
        ("0000:a1:00.0", Path::new(real)),
        ("0000:c0:00.0", Path::new(real)),
        (
            "0000:b0:00.0",
            &outside.path().join("pci0000:b0/0000:b0:00.0"),
        ),
        ("0000:00:1f.0", Path::new("../../../devices/nowhere")),
        ("0000:zz:00.0", Path::new(real)),
        (long.as_str(), Path::new(real)),
    ] {
        symlink(target, devices.join(name)).unwrap();
    }
    let tree = Sysfs::new(root.path()).tree().unwrap();
    let here: Vec<PciAddress> = tree.functions().iter().map(|f| f.address).collect();
    assert_eq!(here, [address("0000:a1:00.0")]);
    let unplaced = ["0000:00:1f.0", "0000:b0:00.0", "0000:c0:00.0"].map(address);
    assert_eq!(tree.unplaced(), unplaced);
    assert_eq!(tree.unread(), ["0000:zz:00.0", &long[..64]]);
}

/// In a copy that followed links the entries of the list are directories, which do not tell where a function
/// is: taken as functions of root buses they would make other groups than the host has, without a word.
#[test]
fn entries_that_are_no_links_have_no_place() {
    let root = host();
    let real = "0000:a1:00.0";
    let devices = root.path().join("sys/bus/pci/devices");
    let copies = ["0000:a0:01.0", "0000:b0:00.0"];
    for copy in copies {
        fs::create_dir_all(devices.join(copy)).unwrap();
        fs::write(devices.join(copy).join("class"), "0x020000\n").unwrap();
    }
    let place = "../../../devices/pci0000:a0/0000:a0:01.0/0000:a1:00.0";
    symlink(place, devices.join(real)).unwrap();
    // A link to one that is elsewhere, below what looks like a root bus, is none either.
    let elsewhere = root.path().join("sys/copy/pci0000:c0/0000:c0:00.0");
    fs::create_dir_all(&elsewhere).unwrap();
    symlink(
        "../../../copy/pci0000:c0/0000:c0:00.0",
        devices.join("0000:c0:00.0"),
    )
    .unwrap();
    let tree = Sysfs::new(root.path()).tree().unwrap();
    let here: Vec<PciAddress> = tree.functions().iter().map(|f| f.address).collect();
    assert_eq!(here, [address(real)]);
    let unplaced = ["0000:a0:01.0", "0000:b0:00.0", "0000:c0:00.0"].map(address);
    assert_eq!(tree.unplaced(), unplaced);

    // The same where all of sys is reached through a link, which is no copy.
    let sys = root.path().join("sys");
    fs::rename(&sys, root.path().join("kept")).unwrap();
    symlink("kept", &sys).unwrap();
    let again = Sysfs::new(root.path()).tree().unwrap();
    assert_eq!(again.functions(), tree.functions());
    assert_eq!(again.unplaced(), unplaced);
}
