//! Which NICs carry the bytes of a device, on every shape; and hosts that see different parts of theirs.

use super::instances::at_home;
use crate::common::emulated::{on_shape, so_far};
use crate::common::peer::{given_handle, peer_process_with};
use crate::common::{listen, until};
use crate::{Buffer, Side, finish, irecv, isend, pattern};
use efa_emu::shape::Shape;
use ofi_net::log::Level;
use ofi_net::{Code, CommWord, NetError, Protocol};

/// Long enough for a stripe on each rail.
const LEN: usize = 2_000_000;

fn message(a: &Side, b: &Side, (send, recv): (CommWord, CommWord), seed: usize) {
    let mut source = Buffer::new(&a.net, send, pattern(seed, LEN));
    let mut sink = Buffer::new(&b.net, recv, vec![0; LEN]);
    let r = irecv(&b.net, recv, &mut sink, 0, LEN);
    let s = isend(&a.net, send, &mut source, 0, LEN);
    let size = LEN as u64;
    assert_eq!(finish(&a.net, s, &b.net, r), (size, size));
    assert!(source.free(&a.net, send) == sink.free(&b.net, recv));
}

/// Bytes that each NIC of this process sent so far.
fn sent() -> Vec<u64> {
    so_far().nics.iter().map(|nic| nic.bytes_out).collect()
}

/// A message of each device goes over the device's own NICs, a like part over each, and over no other.
fn every_device_has_its_own(name: &str, rails: usize) {
    let sides = [(); 2].map(|()| Side::new(at_home(None)));
    let [a, b] = &sides;
    let count = a.net.devices().unwrap();
    assert_eq!(count * rails, Shape::by_name(name).unwrap().nics().len());
    for device in 0..count {
        let mut handle = [0; 128];
        let listener = b.net.listen(device, &mut handle).unwrap();
        let (mut send, mut recv) = (None, None);
        let comms = until("connect and accept", || {
            send = send.or_else(|| a.net.connect(device, &mut handle).unwrap());
            recv = recv.or_else(|| b.net.accept(listener).unwrap());
            send.zip(recv)
        });
        b.net.close_listen(listener).unwrap();
        let before = sent();
        message(a, b, comms, device);
        let part = (LEN / rails) as u64;
        for (nic, (after, before)) in sent().iter().zip(&before).enumerate() {
            let bytes = after - before;
            // Stripes begin at multiples of 128 bytes, and beside the data there are control messages.
            let wanted = if nic / rails == device {
                part - 1_000..part + 50_000
            } else {
                0..1
            };
            assert!(
                wanted.contains(&bytes),
                "device {device}, NIC {nic}: {bytes} bytes"
            );
        }
        a.net.close_send(comms.0).unwrap();
        b.net.close_recv(comms.1).unwrap();
    }
}

macro_rules! shapes {
    ($($name:ident: $shape:literal, $rails:literal;)*) => { $(
        #[test]
        fn $name() {
            let name = concat!("subsets::", stringify!($name));
            on_shape($shape, name, "", || every_device_has_its_own($shape, $rails));
        }
    )* };
}

shapes! {
    a_device_of_p4d_is_one_nic: "p4d", 1;
    a_device_of_p5_is_four_nics: "p5", 4;
    a_device_of_p5en_is_two_nics: "p5en", 2;
    a_device_of_trn1_is_one_nic: "trn1", 1;
    a_device_of_trn2_is_one_nic: "trn2", 1;
}

/// The other host sees one NIC of its instance, this one all of them: what each is told.
fn of_two_hosts(name: &str, shape: &str) -> Result<(), NetError> {
    let side = Side::new(at_home(Some(Protocol::Rdma)));
    let net = &side.net;
    if let Some(mut handle) = given_handle() {
        let warned = side.log.at(Level::Warn);
        assert!(
            warned.len() == 1 && warned[0].contains("OFI-W0114"),
            "{warned:?}"
        );
        let connected = until("a connection, or an error", || {
            net.connect(0, &mut handle).transpose()
        });
        return match connected {
            Ok(send) => {
                let mut source = Buffer::new(net, send, pattern(7, LEN));
                let request = isend(net, send, &mut source, 0, LEN);
                assert_eq!(crate::common::wait(net, request), LEN as u64);
                source.free(net, send);
                net.close_send(send).unwrap();
                Ok(())
            }
            Err(error) => Err(error),
        };
    }
    let one = Shape::by_name(shape).unwrap().nics()[0].name.clone();
    let (listener, handle) = listen(net);
    let more = [("EFA_EMU_NAME", "peer"), ("FI_EFA_IFACE", &one)];
    let more = more.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let other = peer_process_with(name, &handle, &more);
    let accepted = until("a connection, or an error", || {
        net.accept(listener).transpose()
    });
    if let Ok(recv) = accepted {
        let mut sink = Buffer::new(net, recv, vec![0; LEN]);
        let request = irecv(net, recv, &mut sink, 0, LEN);
        assert_eq!(crate::common::wait(net, request), LEN as u64);
        assert!(sink.free(net, recv) == pattern(7, LEN));
        net.close_recv(recv).unwrap();
    }
    net.close_listen(listener).unwrap();
    other.finish();
    accepted.map(drop)
}

/// Both sides have the error that names both numbers and the variable.
fn told_to_both(name: &str, shape: &str, rails: usize) {
    let is_other = given_handle().is_some();
    let error = of_two_hosts(name, shape).unwrap_err();
    assert_eq!(error.code(), Code::Mismatch, "{error}");
    let counts = match is_other {
        true => format!("1 here, {rails} at the peer"),
        false => format!("{rails} here, 1 at the peer"),
    };
    let text = error.to_string();
    assert!(text.contains(&counts), "{counts}: {text}");
    assert!(text.contains("OFI_NCCL_FORCE_NUM_RAILS"), "{text}");
}

#[test]
fn a_p5_that_shows_one_nic_is_told_apart_from_a_whole_one() {
    const NAME: &str = "subsets::a_p5_that_shows_one_nic_is_told_apart_from_a_whole_one";
    on_shape("p5", NAME, "", || told_to_both(NAME, "p5", 4));
}

#[test]
fn a_p5en_that_shows_one_nic_is_told_apart_from_a_whole_one() {
    const NAME: &str = "subsets::a_p5en_that_shows_one_nic_is_told_apart_from_a_whole_one";
    on_shape("p5en", NAME, "", || told_to_both(NAME, "p5en", 2));
}

/// One NIC a device: a host that shows fewer has fewer devices, and those work.
#[test]
fn a_p4d_that_shows_one_nic_talks_to_a_whole_one() {
    const NAME: &str = "subsets::a_p4d_that_shows_one_nic_talks_to_a_whole_one";
    on_shape("p4d", NAME, "", || of_two_hosts(NAME, "p4d").unwrap());
}
