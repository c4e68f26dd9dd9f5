//! Whole instances: their NICs emulated, with the file tree that their sysfs shows.

use crate::common::config;
use crate::common::emulated::{on_part, on_shape, root};
use crate::{Buffer, Side, connect, finish, irecv, isend, pattern};
use efa_emu::shape::Shape;
use ofi_net::log::Level;
use ofi_net::{Accelerators, Code, Config, Protocol};
use std::path::PathBuf;

/// With the machine's own name read from the tree, and nothing forced.
pub(super) fn at_home(protocol: Option<Protocol>) -> Config {
    Config {
        fs_root: root(),
        product_name: None,
        force_num_rails: None,
        protocol,
        ..config(1)
    }
}

/// The devices that the reference makes of the instance: so many, of so many NICs each, named and placed
/// as their first NIC, as fast as all of them; and a topology file for NCCL where there are several.
fn devices(name: &str, protocol: Protocol, (count, rails): (usize, usize)) {
    let shape = Shape::by_name(name).unwrap();
    let side = Side::new(at_home(None));
    assert_eq!(side.net.protocol(), protocol, "{name}");
    assert_eq!(side.net.devices().unwrap(), count, "{name}");
    let (mut guids, mut leaders) = (Vec::new(), Vec::new());
    for i in 0..count {
        let device = side.net.properties(i).unwrap();
        // The last NIC near an accelerator leads; NICs are numbered by place.
        let nic = &shape.nics()[(i + 1) * rails - 1];
        assert_eq!(device.name, nic.name);
        let speed = nic.speed_bps / 1_000_000 * u64::try_from(rails).unwrap();
        assert_eq!(device.speed_mbps, speed);
        let path = PathBuf::from(device.pci_path.as_deref().unwrap());
        assert!(path.ends_with(nic.pci.to_string()), "{}", path.display());
        assert!(path.starts_with("/sys/devices"), "{}", path.display());
        guids.push(device.guid);
        leaders.push(nic.pci.to_string());
    }
    guids.sort_unstable();
    guids.dedup();
    assert_eq!(guids.len(), count, "each device has a GUID of its own");
    let file = side.net.nccl_topology();
    assert_eq!(file.is_some(), rails > 1, "{name}");
    for leader in file.iter().flat_map(|_| &leaders) {
        let tag = format!("<pci busid=\"{leader}\" link_speed=");
        assert!(file.unwrap().contains(&tag), "{tag}: {file:?}");
    }
    healthy(&side);
}

/// Nothing is warned of, and what the start cost is one line: two queries at most.
fn healthy(side: &Side) {
    assert_eq!(side.log.at(Level::Warn), Vec::<String>::new());
    assert!((1..=2).contains(&side.net.startup().queries));
    let lines = side.log.at(Level::Info);
    let told = lines.iter().filter(|line| line.starts_with("start-up: "));
    assert_eq!(told.count(), 1, "{lines:?}");
}

macro_rules! instances {
    ($($name:ident: $shape:literal, $protocol:expr, $devices:literal of $rails:literal;)*) => { $(
        #[test]
        fn $name() {
            let name = concat!("instances::", stringify!($name));
            on_shape($shape, name, "", || devices($shape, $protocol, ($devices, $rails)));
        }
    )* };
}

instances! {
    p4d_has_its_devices: "p4d", Protocol::SendRecv, 4 of 1;
    p5_has_its_devices: "p5", Protocol::Rdma, 8 of 4;
    p5en_has_its_devices: "p5en", Protocol::Rdma, 8 of 2;
    p3dn_has_its_device: "p3dn", Protocol::SendRecv, 1 of 1;
    g5_has_its_device: "g5", Protocol::SendRecv, 1 of 1;
    c5n_has_its_device: "c5n", Protocol::SendRecv, 1 of 1;
    trn1_has_its_devices: "trn1", Protocol::SendRecv, 8 of 1;
    trn2_has_its_devices: "trn2", Protocol::Rdma, 16 of 1;
}

/// A second transport of the process asks nobody anything.
fn once_a_process() {
    let first = Side::new(at_home(None));
    let second = Side::new(at_home(None));
    healthy(&first);
    assert_eq!(second.net.startup().queries, 0);
    let names = |side: &Side| -> Vec<_> {
        let all = (0..side.net.devices().unwrap()).map(|i| side.net.properties(i).unwrap());
        all.map(|device| (device.name.clone(), device.guid))
            .collect()
    };
    assert_eq!(names(&first), names(&second));
}

#[test]
fn lists_and_topology_are_read_once_a_process() {
    let name = "instances::lists_and_topology_are_read_once_a_process";
    on_shape("p5", name, "", once_a_process);
}

/// A container that shows a part is one warning: of devices that cannot be connected with each other, which says that
/// NICs are missing, too, or of fewer NICs than the instance has.
fn some_are_missing() {
    let side = Side::new(at_home(None));
    let warnings = side.log.at(Level::Warn);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    for part in [
        "OFI-W0113",
        "devices have 1 to 4 rails; 5 of the 32 EFAs of p5.48xlarge; FI_EFA_IFACE=\"rdmap79s0,rdmap80s0,",
        "give this host all its NICs",
        "OFI_NCCL_FORCE_NUM_RAILS",
    ] {
        assert!(warnings[0].contains(part), "{part}: {warnings:?}");
    }
    // What it advises; then they are only fewer.
    let forced = Side::new(Config {
        force_num_rails: Some(1),
        ..at_home(None)
    });
    let warnings = forced.log.at(Level::Warn);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    for part in [
        "OFI-W0114",
        "5 of the 32 EFAs of p5.48xlarge; FI_EFA_IFACE=",
        "unset FI_EFA_IFACE",
        "launch template",
    ] {
        assert!(warnings[0].contains(part), "{part}: {warnings:?}");
    }
    let (send, recv) = connect(&side.net, &side.net);
    assert_eq!(side.net.devices().unwrap(), 2);
    side.net.close_send(send).unwrap();
    side.net.close_recv(recv).unwrap();
    // A device of four rails and one of one: both sides are told of both numbers.
    let (listener, mut handle) = crate::common::listen(&forced.net);
    let (mut ours, mut theirs) = (None, None);
    crate::common::until("errors on both sides", || {
        ours = ours
            .take()
            .or_else(|| side.net.connect(0, &mut handle).err());
        theirs = theirs.take().or_else(|| forced.net.accept(listener).err());
        (ours.is_some() && theirs.is_some()).then_some(())
    });
    for (error, counts) in [
        (ours.unwrap(), "4 here, 1 at the peer"),
        (theirs.unwrap(), "1 here, 4 at the peer"),
    ] {
        assert_eq!(error.code(), Code::Mismatch, "{error}");
        assert!(error.what().contains(counts), "{error}");
        assert!(error.what().contains("FI_EFA_IFACE"), "{error}");
        assert!(
            error.to_string().contains("OFI_NCCL_FORCE_NUM_RAILS"),
            "{error}"
        );
    }
}

#[test]
fn a_part_of_an_instance_is_told_of() {
    let name = "instances::a_part_of_an_instance_is_told_of";
    let five = "rdmap79s0,rdmap80s0,rdmap81s0,rdmap82s0,rdmap96s0";
    on_part(("p5", Some(five)), name, "", some_are_missing);
}

/// A container without /sys on a machine that nobody knows: each NIC is a device, which is not so on other
/// hosts, and so may be the protocol. None is told who says how devices are made.
fn nothing_is_shown() {
    let empty = tempfile::tempdir().unwrap();
    let start = |force_num_rails, group_by| {
        let side = Side::new(Config {
            fs_root: empty.path().to_owned(),
            force_num_rails,
            group_by,
            ..at_home(None)
        });
        assert_eq!(side.net.devices().unwrap(), 32);
        (side.net.protocol(), side.log.at(Level::Warn))
    };
    let (protocol, warnings) = start(None, Accelerators::NVIDIA);
    assert_eq!(
        (protocol, warnings.len()),
        (Protocol::SendRecv, 1),
        "{warnings:?}"
    );
    let shown = empty.path().join("sys/bus/pci/devices");
    let shown = format!(
        "32 NICs are PCI functions, and {} shows no",
        shown.display()
    );
    for part in [
        "OFI-W0117",
        "/sys of the host is not mounted",
        "mount /sys",
        &shown,
    ] {
        assert!(warnings[0].contains(part), "{part}: {warnings:?}");
    }
    for (rails, group_by) in [(Some(1), Accelerators::NVIDIA), (None, Accelerators::NONE)] {
        assert_eq!(start(rails, group_by).1, Vec::<String>::new());
    }
}

#[test]
fn a_host_without_sysfs_is_told_of() {
    let name = "instances::a_host_without_sysfs_is_told_of";
    on_shape("p5", name, "", nothing_is_shown);
}

/// Accelerators that sysfs does not show: one warning with both numbers, none for who groups otherwise.
fn accelerators_are_gone() {
    let sys = root().join("sys/bus/pci/devices");
    let is_gpu = |path: &std::path::Path| {
        std::fs::read_to_string(path.join("vendor")).is_ok_and(|text| text.trim() == "0x10de")
    };
    let entries = std::fs::read_dir(&sys).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let gpu = paths.into_iter().find(|path| is_gpu(path)).unwrap();
    std::fs::remove_file(gpu).unwrap();
    // A tree is read once a process, by the name of its root.
    let start = |root: PathBuf, devices: usize, says: &[&str]| {
        let side = Side::new(Config {
            fs_root: root.clone(),
            ..at_home(None)
        });
        assert_eq!(side.net.devices().unwrap(), devices);
        let warnings = side.log.at(Level::Warn);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        for part in says.iter().chain(&["OFI-W0117", "p5.48xlarge"]) {
            assert!(warnings[0].contains(part), "{part}: {warnings:?}");
        }
        let alone = Side::new(Config {
            fs_root: root,
            group_by: Accelerators::NONE,
            ..at_home(None)
        });
        assert_eq!(alone.log.at(Level::Warn), Vec::<String>::new());
    };
    start(root(), 11, &["7 of the 8 accelerators"]);
    // Of a host that nobody knows what it should have: what comes of it is told.
    let unknown = Side::new(Config {
        product_name: Some("a server".to_owned()),
        ..at_home(None)
    });
    let warnings = unknown.log.at(Level::Warn);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].contains("OFI-W0113") && warnings[0].contains("devices have 1 to 4 rails"),
        "{warnings:?}"
    );
    std::fs::remove_dir_all(root().join("sys/bus")).unwrap();
    start(
        root().join("sys/.."),
        32,
        &["has 8", "no PCI function", "sys/bus/pci/devices"],
    );
}

#[test]
fn lost_accelerators_are_told_of() {
    let name = "instances::lost_accelerators_are_told_of";
    on_shape("p5", name, "", accelerators_are_gone);
}

/// Grouping is the user's to turn off, and peers that did it are told.
fn one_device_a_nic() {
    let alone = Side::new(Config {
        group_by: Accelerators::NONE,
        ..at_home(None)
    });
    assert_eq!(alone.net.devices().unwrap(), 32);
    assert_eq!(alone.net.nccl_topology(), None);
    healthy(&alone);
}

#[test]
fn no_grouping_when_asked() {
    on_shape(
        "p5",
        "instances::no_grouping_when_asked",
        "",
        one_device_a_nic,
    );
}

/// A message over each of 32 NICs, four a device.
fn all_devices() {
    let (a, b) = (
        Side::new(at_home(Some(Protocol::Rdma))),
        Side::new(at_home(Some(Protocol::Rdma))),
    );
    for device in 0..a.net.devices().unwrap() {
        let mut handle = [0; 128];
        let listener = b.net.listen(device, &mut handle).unwrap();
        let (mut send, mut recv) = (None, None);
        let (send, recv) = crate::common::until("connect and accept", || {
            send = send.or_else(|| a.net.connect(device, &mut handle).unwrap());
            recv = recv.or_else(|| b.net.accept(listener).unwrap());
            send.zip(recv)
        });
        b.net.close_listen(listener).unwrap();
        let mut source = Buffer::new(&a.net, send, pattern(device, 500_000));
        let mut sink = Buffer::new(&b.net, recv, vec![0; 500_000]);
        let r = irecv(&b.net, recv, &mut sink, 0, 500_000);
        let s = isend(&a.net, send, &mut source, 0, 500_000);
        assert_eq!(finish(&a.net, s, &b.net, r), (500_000, 500_000));
        assert!(source.free(&a.net, send) == sink.free(&b.net, recv));
        a.net.close_send(send).unwrap();
        b.net.close_recv(recv).unwrap();
    }
}

#[test]
fn every_nic_of_a_p5_carries_bytes() {
    let seen = on_shape(
        "p5",
        "instances::every_nic_of_a_p5_carries_bytes",
        "",
        all_devices,
    );
    for process in seen {
        for (i, nic) in process.nics.iter().enumerate() {
            assert!(nic.writes_data > 0, "NIC {i} was not used: {process}");
        }
    }
}

/// Four NICs a device, as the user says it.
fn groups() {
    let four = || Config {
        nic_groups: Some("rdmap16s25,rdmap16s26,rdmap32s25,rdmap32s26".to_owned()),
        ..at_home(Some(Protocol::Rdma))
    };
    let (a, b) = (Side::new(four()), Side::new(four()));
    let two = Side::new(Config {
        force_num_rails: Some(2),
        ..four()
    });
    for (side, idle) in [(&a, 4), (&two, 6)] {
        let start = format!("{idle} of 8 NICs are of no device and carry nothing (");
        let mut lines = side.log.at(Level::Info);
        lines.retain(|line| line.starts_with(&start));
        let [line] = &lines[..] else {
            panic!("{:?}", side.log.at(Level::Info));
        };
        let (_, names) = line.rsplit_once(": ").unwrap();
        let cut = names.contains("rdmap32s25, rdmap32s26");
        assert_eq!(
            (names.split(", ").count(), cut),
            (idle, idle == 6),
            "{line}"
        );
    }
    let comms = connect(&a.net, &b.net);
    let mut source = Buffer::new(&a.net, comms.0, pattern(1, 4_000_000));
    let mut sink = Buffer::new(&b.net, comms.1, vec![0; 4_000_000]);
    let r = irecv(&b.net, comms.1, &mut sink, 0, 4_000_000);
    let s = isend(&a.net, comms.0, &mut source, 0, 4_000_000);
    assert_eq!(finish(&a.net, s, &b.net, r), (4_000_000, 4_000_000));
    assert!(source.free(&a.net, comms.0) == sink.free(&b.net, comms.1));
}

#[test]
fn a_message_is_striped_over_the_nics_of_a_device() {
    let name = "instances::a_message_is_striped_over_the_nics_of_a_device";
    let seen = on_shape("trn1", name, "", groups);
    for process in seen {
        let used = process.nics.iter().filter(|nic| nic.bytes_out > 990_000);
        assert_eq!(used.count(), 4, "{process}");
    }
}
