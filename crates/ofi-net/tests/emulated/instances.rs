//! Whole instances: their NICs emulated, with the file tree that their sysfs shows.

use crate::common::config;
use crate::common::emulated::{on_shape, root};
use crate::{Buffer, Side, connect, finish, irecv, isend, pattern};
use efa_emu::shape::Shape;
use ofi_net::{Config, Protocol};
use std::path::PathBuf;

/// With the machine's own name read from the tree, and nothing forced.
fn at_home(protocol: Option<Protocol>) -> Config {
    Config {
        fs_root: root(),
        product_name: None,
        force_num_rails: None,
        protocol,
        ..config(1)
    }
}

/// A device for each NIC, in the order of their places, named and placed as the instance has them.
fn devices(name: &str, protocol: Protocol) {
    let shape = Shape::by_name(name).unwrap();
    let side = Side::new(at_home(None));
    assert_eq!(side.net.protocol(), protocol, "{name}");
    let mut nics: Vec<_> = shape.nics().iter().collect();
    nics.sort_by_key(|nic| nic.pci);
    assert_eq!(side.net.devices().unwrap(), nics.len());
    let mut guids = Vec::new();
    for (i, nic) in nics.into_iter().enumerate() {
        let device = side.net.properties(i).unwrap();
        assert_eq!(device.name, nic.name);
        assert_eq!(device.speed_mbps, nic.speed_bps / 1_000_000);
        let path = PathBuf::from(device.pci_path.as_deref().unwrap());
        assert!(path.ends_with(nic.pci.to_string()), "{}", path.display());
        assert!(path.starts_with("/sys/devices"), "{}", path.display());
        guids.push(device.guid);
    }
    guids.sort_unstable();
    guids.dedup();
    assert_eq!(
        guids.len(),
        shape.nics().len(),
        "each device has a GUID of its own"
    );
}

macro_rules! instances {
    ($($name:ident: $shape:literal, $protocol:expr;)*) => { $(
        #[test]
        fn $name() {
            let name = concat!("instances::", stringify!($name));
            on_shape($shape, name, "", || devices($shape, $protocol));
        }
    )* };
}

instances! {
    p4d_has_its_devices: "p4d", Protocol::SendRecv;
    p5_has_its_devices: "p5", Protocol::Rdma;
    p5en_has_its_devices: "p5en", Protocol::Rdma;
    trn1_has_its_devices: "trn1", Protocol::SendRecv;
    trn2_has_its_devices: "trn2", Protocol::Rdma;
}

/// A message over each of 32 devices.
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
        let mut source = Buffer::new(&a.net, send, pattern(device, 50_000));
        let mut sink = Buffer::new(&b.net, recv, vec![0; 50_000]);
        let r = irecv(&b.net, recv, &mut sink, 0, 50_000);
        let s = isend(&a.net, send, &mut source, 0, 50_000);
        assert_eq!(finish(&a.net, s, &b.net, r), (50_000, 50_000));
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
