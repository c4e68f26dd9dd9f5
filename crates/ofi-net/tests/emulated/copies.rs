//! How eager payloads come to their place: into memory of the host without the network, into memory of a
//! device by the network's own read.

use super::impatient;
use crate::common::emulated::{so_far, under_plan};
use crate::common::irecv_into;
use crate::{Buffer, Side, connect, finish, isend, pattern};
use ofi_net::{Config, MemoryKind};

/// One eager message each time, of these sizes; reads that the NICs made of it.
fn reads_into(kind: MemoryKind) -> u64 {
    let config = || Config {
        eager_max: Some(8192),
        ..impatient()
    };
    let (a, b) = (Side::new(config()), Side::new(config()));
    let comms = connect(&a.net, &b.net);
    let before = reads();
    let sizes = [1, 8, 63, 64, 4096, 8191, 8192];
    for len in sizes {
        let mut source = Buffer::new(&a.net, comms.0, pattern(len, len));
        let mut sink = Buffer::new(&b.net, comms.1, vec![0; 2 * len]);
        let at = sink.at(0);
        // SAFETY: the buffer keeps its place until it is given back below.
        let mr = unsafe { b.net.reg_mr(comms.1, at, 2 * len, kind) }.unwrap();
        // Before its receive, so that it is eager.
        let sent = isend(&a.net, comms.0, &mut source, 0, len);
        let received = irecv_into(&b.net, comms.1, (at, 2 * len), mr);
        let size = len as u64;
        assert_eq!(finish(&a.net, sent, &b.net, received), (size, size));
        b.net.dereg_mr(comms.1, mr).unwrap();
        let sink = sink.free(&b.net, comms.1);
        assert!(source.free(&a.net, comms.0)[..] == sink[..len]);
        assert!(
            sink[len..].iter().all(|&byte| byte == 0),
            "beyond the message"
        );
    }
    a.net.close_send(comms.0).unwrap();
    b.net.close_recv(comms.1).unwrap();
    reads() - before
}

fn reads() -> u64 {
    so_far().total().reads
}

fn both_kinds() {
    assert_eq!(reads_into(MemoryKind::Host), 0, "the processor reaches it");
    assert_eq!(reads_into(MemoryKind::Neuron), 7, "one for each message");
}

#[test]
fn eager_payloads_for_the_host_are_not_read_through_the_network() {
    const NAME: &str = "copies::eager_payloads_for_the_host_are_not_read_through_the_network";
    under_plan(NAME, "", both_kinds);
}
