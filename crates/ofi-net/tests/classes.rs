//! Traffic classes: each has endpoints of its own, and memory registered with one serves all (protocol
//! 2a.3, 2a.4).
#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use common::{
    Buffer, Side, config, connect, finish, in_one_process, irecv, isend, pattern, sendrecv, until,
};
use ofi_net::log::Level;
use ofi_net::{Code, CommWord, Config, MemoryKind, TrafficClass, Transport};

/// Expedited forwarding, and another one.
const CLASSES: [u32; 2] = [184, 0x205];

/// Connects with a class: both communicators are of it.
fn connect_classed(from: &Transport, to: &Transport, number: u32) -> (CommWord, CommWord) {
    let class = Some(TrafficClass::new(number).unwrap());
    connect_as((from, class), (to, class))
}

/// Connects with a class or none on each side.
fn connect_as(
    (from, class): (&Transport, Option<TrafficClass>),
    (to, listens): (&Transport, Option<TrafficClass>),
) -> (CommWord, CommWord) {
    let mut handle = [0; 128];
    let listener = to.listen_classed(0, listens, &mut handle).unwrap();
    let (mut send, mut recv) = (None, None);
    until("connect and accept", || {
        send = send.or_else(|| from.connect_classed(0, class, &mut handle).unwrap());
        recv = recv.or_else(|| to.accept(listener).unwrap());
        send.zip(recv)
    });
    to.close_listen(listener).unwrap();
    (send.unwrap(), recv.unwrap())
}

/// How many domains there are with `classes` classes: where the provider has none, there is one.
fn expect_domains(side: &Side, classes: usize) {
    let had = side.log.at(Level::Info);
    let had = had.iter().filter(|line| line.contains(": traffic class"));
    let refused = side.log.at(Level::Warn);
    match refused.as_slice() {
        [] => assert_eq!(had.count(), classes),
        [line] => {
            assert!(line.contains("OFI-W0207"), "{line}");
            assert_eq!(had.count(), 0, "{line}");
        }
        more => panic!("said more than once: {more:?}"),
    }
    let expected = if refused.is_empty() { 1 + classes } else { 1 };
    assert_eq!(side.net.domains(0), Ok(expected));
}

fn exchange(
    sides: (&Side, &Side),
    comms: (CommWord, CommWord),
    from: &mut Buffer,
    to: &mut Buffer,
) {
    let (a, b) = (&sides.0.net, &sides.1.net);
    let len = from.bytes.len();
    to.bytes.fill(0);
    let received = irecv(b, comms.1, to, 0, len);
    let sent = isend(a, comms.0, from, 0, len);
    assert_eq!(finish(a, sent, b, received), (len as u64, len as u64));
    assert!(*to.bytes == *from.bytes, "{comms:?}");
}

/// One region a side, registered with the communicator without a class, on all communicators.
fn one_registration_serves_all_classes(base: Config) {
    let (a, b) = (Side::new(base.clone()), Side::new(base));
    let plain = connect(&a.net, &b.net);
    let classed = CLASSES.map(|number| connect_classed(&a.net, &b.net, number));
    for side in [&a, &b] {
        expect_domains(side, CLASSES.len());
    }
    let mut from = Buffer::new(&a.net, plain.0, pattern(1, 100_000));
    let mut to = Buffer::new(&b.net, plain.1, vec![0; 100_000]);
    for round in 0..3 {
        from.bytes.copy_from_slice(&pattern(round, 100_000));
        for comms in [plain, classed[0], classed[1], classed[0]] {
            exchange((&a, &b), comms, &mut from, &mut to);
        }
    }
    // Any communicator of the device ends it, everywhere.
    let (source, sink) = (from.mr, to.mr);
    from.free(&a.net, classed[1].0);
    to.free(&b.net, plain.1);
    for (net, comm, mr) in [(&a.net, classed[0].0, source), (&b.net, classed[1].1, sink)] {
        let at = pattern(0, 64).leak().as_mut_ptr().cast();
        let refused = if comm == classed[0].0 {
            // SAFETY: leaked bytes; the call fails before it touches them.
            unsafe { net.isend(comm, at, 64, Some(mr)) }
        } else {
            // SAFETY: as above.
            unsafe { net.irecv(comm, at, 64, Some(mr), false) }
        };
        assert_eq!(refused.unwrap_err().code(), Code::StaleRegion);
        let again = net.dereg_mr(comm, mr).unwrap_err();
        assert_eq!(again.code(), Code::StaleRegion);
    }
    // A communicator of another class that is still open does not hold it up.
    for (send, recv) in classed.into_iter().chain([plain]) {
        a.net.close_send(send).unwrap();
        b.net.close_recv(recv).unwrap();
    }
}

#[test]
fn a_region_of_the_device_serves_every_class() {
    in_one_process("a_region_of_the_device_serves_every_class", || {
        for mr_cache in [false, true] {
            for rails in [1, 2] {
                one_registration_serves_all_classes(Config {
                    mr_cache,
                    ..config(rails)
                });
            }
        }
    });
}

/// With the cache, a region goes when it was deregistered as often as it was registered; so does its twin.
#[test]
fn a_twin_lives_as_long_as_the_last_of_several_registrations() {
    in_one_process(
        "a_twin_lives_as_long_as_the_last_of_several_registrations",
        || {
            let cached = Config {
                mr_cache: true,
                ..config(1)
            };
            let (a, b) = (Side::new(cached.clone()), Side::new(cached));
            let plain = connect(&a.net, &b.net);
            let classed = connect_classed(&a.net, &b.net, CLASSES[0]);
            let mut from = Buffer::new(&a.net, plain.0, pattern(1, 70_000));
            let mut to = Buffer::new(&b.net, classed.1, vec![0; 70_000]);
            // SAFETY: the buffer's own bytes.
            let again = unsafe { (a.net).reg_mr(plain.0, from.at(0), 70_000, MemoryKind::Host) };
            assert_eq!(again, Ok(from.mr));
            exchange((&a, &b), classed, &mut from, &mut to);
            a.net.dereg_mr(plain.0, from.mr).unwrap();
            exchange((&a, &b), classed, &mut from, &mut to);
            exchange((&a, &b), plain, &mut from, &mut to);
            let mr = from.mr;
            from.free(&a.net, plain.0);
            assert_eq!(a.net.mr_key(mr).unwrap_err().code(), Code::StaleRegion);
            to.free(&b.net, plain.1);
        },
    );
}

/// The same over SENDRECV, where a buffer is registered with the communicator that it is used with.
#[test]
fn sendrecv_has_classes_too() {
    in_one_process("sendrecv_has_classes_too", || {
        let (a, b) = (Side::new(sendrecv()), Side::new(sendrecv()));
        let mut all = vec![connect(&a.net, &b.net)];
        all.extend(CLASSES.map(|number| connect_classed(&a.net, &b.net, number)));
        for side in [&a, &b] {
            expect_domains(side, CLASSES.len());
        }
        for (seed, comms) in (0..).zip(all) {
            let mut from = Buffer::new(&a.net, comms.0, pattern(seed, 100_000));
            let mut to = Buffer::new(&b.net, comms.1, vec![0; 100_000]);
            exchange((&a, &b), comms, &mut from, &mut to);
            from.free(&a.net, comms.0);
            to.free(&b.net, comms.1);
        }
    });
}

/// What NCCL v10 does: listen without a class, then connect with one, to a peer that has none.
#[test]
fn a_class_for_one_direction_is_enough() {
    in_one_process("a_class_for_one_direction_is_enough", || {
        for base in [config(1), sendrecv()] {
            let (a, b) = (Side::new(base.clone()), Side::new(base));
            let class = a.net.traffic_class(Some(CLASSES[0]));
            assert!(class.is_some());
            let (send, recv) = connect_as((&a.net, class), (&b.net, None));
            expect_domains(&a, 1);
            assert_eq!(b.net.domains(0), Ok(1));
            let mut from = Buffer::new(&a.net, send, pattern(7, 50_000));
            let mut to = Buffer::new(&b.net, recv, vec![0; 50_000]);
            exchange((&a, &b), (send, recv), &mut from, &mut to);
            from.free(&a.net, send);
            to.free(&b.net, recv);
        }
    });
}
