//! Appendix B, B2 to B8: messages, one operation and one completion at a time. The peer is made of
//! bytes; sequence numbers are those of the appendix.

use crate::bench::{Bench, Posted, REGION, config, ctrl, peer};
use ofi_rdma::{CommKey, Lane, RxFate, RxId, Wire};

const MIB: u64 = 1 << 20;
const ADDR: u64 = 0x7F00_0000_1000;
const REMOTE: u64 = 0x7E00_0000_2000;
const KEY: u32 = 0xA0A1_A2A3;

/// CTRL of the peer for a receive of ours: comm 0 is our send communicator.
fn ctrl_from_peer(seq: u32, len: u64) -> Vec<u8> {
    ctrl(2, seq, 0, u32::try_from(len).expect("fits"), REMOTE, &[KEY])
}

/// The one segment of a message, on the only rail.
fn assert_write(posted: &Posted, imm: u32, len: u64) {
    let expected = Wire::Write {
        peer: peer(Lane::data(0)),
        addr: ADDR,
        len,
        region: REGION,
        remote_addr: REMOTE,
        remote_key: KEY.into(),
        data: Some(imm.into()),
    };
    assert_eq!((posted.lane, posted.wire), (Lane::data(0), expected));
}

fn assert_eager(posted: &Posted, imm: u32, len: u32) {
    let expected = Wire::Eager {
        peer: peer(Lane::data(0)),
        addr: ADDR,
        len,
        region: REGION,
        imm,
    };
    assert_eq!((posted.lane, posted.wire), (Lane::data(0), expected));
}

/// The engine's CTRL for a receive: the bytes of protocol 2c.4, for the peer's communicator 0.
fn assert_ctrl(posted: &Posted, seq: u32, len: u64) {
    assert_eq!(posted.lane, Lane::control(0));
    let len = u32::try_from(len).expect("fits");
    assert_eq!(posted.bytes, ctrl(2, seq, 0, len, ADDR, &[KEY]));
}

fn irecv(b: &mut Bench, comm: CommKey, len: u64) -> ofi_rdma::ReqKey {
    b.irecv(comm, ADDR, len, [KEY.into(), 0, 0, 0])
}

const RX: RxId = RxId { rail: 0, index: 3 };

/// B2 at the sender, seq 0: the CTRL is there before isend.
fn b2_send(a: &mut Bench, comm: CommKey) {
    assert!(!a.engine.ctrl_known(comm));
    a.engine.on_control(&ctrl_from_peer(0, MIB));
    assert!(a.engine.ctrl_known(comm));
    let req = a.isend(comm, ADDR, MIB);
    let write = a.post();
    assert_write(&write, 0x1000_0400, MIB);
    a.pending(req);
    a.engine.on_local(write.token);
    a.done(req, MIB);
}

/// B3, seq 1: no CTRL, nothing outstanding: eager; done by its own completion and the CTRL.
fn b3_send(a: &mut Bench, comm: CommKey) {
    let req = a.isend(comm, ADDR, 1000);
    let eager = a.post();
    assert_eager(&eager, 0x1000_0401, 1000);
    a.engine.on_local(eager.token);
    a.pending(req);
    a.engine.on_control(&ctrl_from_peer(1, 1000));
    a.done(req, 1000);
    a.quiet();
}

/// B4, seq 2: the CTRL crosses the eager message; its payload is not sent again.
fn b4_send(a: &mut Bench, comm: CommKey) {
    let req = a.isend(comm, ADDR, 1000);
    let eager = a.post();
    assert_eager(&eager, 0x1000_0402, 1000);
    a.engine.on_control(&ctrl_from_peer(2, 1000));
    a.quiet();
    a.pending(req);
    a.engine.on_local(eager.token);
    a.done(req, 1000);
}

/// B5, seq 3 and 4: a big one waits for its CTRL, so the small one behind it is not eager.
fn b5_send(a: &mut Bench, comm: CommKey) {
    let big = a.isend(comm, ADDR, MIB);
    let small = a.isend(comm, ADDR, 100);
    a.quiet();
    a.engine.on_control(&ctrl_from_peer(4, 100));
    let second = a.post();
    assert_write(&second, 0x1000_0404, 100);
    a.engine.on_control(&ctrl_from_peer(3, MIB));
    let first = a.post();
    assert_write(&first, 0x1000_0403, MIB);
    a.engine.on_local(second.token);
    a.engine.on_local(first.token);
    a.done(small, 100);
    a.done(big, MIB);
}

/// B2 to B5 at the sender, on one communicator; after them the gate for eager messages opens again.
#[test]
fn b2_to_b5_at_the_sender() {
    let mut a = Bench::new(config(1, 1));
    let comm = a.sender(1, 1);
    b2_send(&mut a, comm);
    b3_send(&mut a, comm);
    b4_send(&mut a, comm);
    b5_send(&mut a, comm);
    let req = a.isend(comm, ADDR, 100);
    let eager = a.post();
    assert_eager(&eager, 0x1000_0405, 100);
    a.engine.on_local(eager.token);
    a.engine.on_control(&ctrl_from_peer(5, 4096));
    a.done(req, 100);
    a.engine.close(comm, 0).expect("close");
    a.baseline();
}

/// B2 at the receiver, seq 0: done by the CTRL's own completion and the one segment.
fn b2_receive(b: &mut Bench, comm: CommKey) {
    let req = irecv(b, comm, MIB);
    let sent = b.post();
    assert_ctrl(&sent, 0, MIB);
    b.engine.on_remote_write(0, 0x1000_0400, Some(MIB));
    b.pending(req);
    b.engine.on_local(sent.token);
    b.done(req, MIB);
}

/// B3, seq 1: eager data first; irecv sends its CTRL all the same (trap 3), and copies.
fn b3_receive(b: &mut Bench, comm: CommKey) {
    assert_eq!(b.engine.on_eager(0x1000_0401, 1000, RX), RxFate::Held);
    assert_eq!(b.engine.early_messages(), 1);
    let req = irecv(b, comm, 1000);
    let posts = b.posts();
    assert_eq!(posts.len(), 2, "{posts:?}");
    assert_ctrl(&posts[0], 1, 1000);
    let copy = Wire::EagerCopy {
        rx: RX,
        len: 1000,
        addr: ADDR,
        region: REGION,
    };
    assert_eq!((posts[1].lane, posts[1].wire), (Lane::data(0), copy));
    b.engine.on_local(posts[0].token);
    b.pending(req);
    assert_eq!(b.engine.take_released(), None, "the copy still reads it");
    b.engine.on_local(posts[1].token);
    assert_eq!(b.engine.take_released(), Some(RX));
    b.done(req, 1000);
}

/// B4, seq 2: the receive is there, the eager message crosses its CTRL.
fn b4_receive(b: &mut Bench, comm: CommKey) {
    let req = irecv(b, comm, 1000);
    let sent = b.post();
    assert_ctrl(&sent, 2, 1000);
    assert_eq!(b.engine.on_eager(0x1000_0402, 1000, RX), RxFate::Held);
    let copy = b.post();
    b.engine.on_local(copy.token);
    b.engine.on_local(sent.token);
    assert_eq!(b.engine.take_released(), Some(RX));
    b.done(req, 1000);
}

/// B5, seq 3 and 4: the later message lands first.
fn b5_receive(b: &mut Bench, comm: CommKey) {
    let (big, first) = (irecv(b, comm, MIB), b.post());
    assert_ctrl(&first, 3, MIB);
    let (small, second) = (irecv(b, comm, 100), b.post());
    assert_ctrl(&second, 4, 100);
    b.engine.on_local(second.token);
    b.engine.on_local(first.token);
    b.engine.on_remote_write(0, 0x1000_0404, Some(100));
    b.pending(big);
    b.done(small, 100);
    b.engine.on_remote_write(0, 0x1000_0403, Some(MIB));
    b.done(big, MIB);
}

/// B2 to B5 at the receiver, on one communicator.
#[test]
fn b2_to_b5_at_the_receiver() {
    let mut b = Bench::new(config(1, 1));
    let comm = b.receiver(1, 1);
    b2_receive(&mut b, comm);
    b3_receive(&mut b, comm);
    b4_receive(&mut b, comm);
    b5_receive(&mut b, comm);
    assert_eq!(b.engine.counters().strays, 0);
    b.engine.close(comm, 0).expect("close");
    assert_eq!(b.engine.live_comms(), 1, "the listener");
    assert_eq!(b.engine.live_requests(), 0);
}

#[test]
fn b6_truncation_at_the_sender() {
    let mut a = Bench::new(config(1, 1));
    let comm = a.sender(1, 1);
    // 2 MiB into 1 MiB: 1 MiB is written, 1 MiB is reported.
    a.engine.on_control(&ctrl_from_peer(0, MIB));
    let req = a.isend(comm, ADDR, 2 * MIB);
    let write = a.post();
    assert_write(&write, 0x1000_0400, MIB);
    a.engine.on_local(write.token);
    a.done(req, MIB);
    // 5 KiB eager into 4 KiB: 5 KiB travel, 4 KiB are reported.
    let req = a.isend(comm, ADDR, 5 << 10);
    let eager = a.post();
    assert_eager(&eager, 0x1000_0401, 5 << 10);
    a.engine.on_control(&ctrl_from_peer(1, 4 << 10));
    a.engine.on_local(eager.token);
    a.done(req, 4 << 10);
}

#[test]
fn b6_truncation_at_the_receiver() {
    let mut b = Bench::new(config(1, 1));
    let comm = b.receiver(1, 1);
    let req = irecv(&mut b, comm, 4 << 10);
    let sent = b.post();
    assert_ctrl(&sent, 0, 4 << 10);
    b.engine.on_local(sent.token);
    assert_eq!(b.engine.on_eager(0x1000_0400, 5 << 10, RX), RxFate::Held);
    let copy = b.post();
    let expected = Wire::EagerCopy {
        rx: RX,
        len: 4 << 10,
        addr: ADDR,
        region: REGION,
    };
    assert_eq!(copy.wire, expected, "never more than there is room for");
    b.engine.on_local(copy.token);
    b.done(req, 4 << 10);
}

#[test]
fn b7_four_rails_at_the_sender() {
    let mut a = Bench::new(config(4, 4));
    let comm = a.sender(4, 4);
    let keys = [0xA0, 0xB0, 0xC0, 0xD0];
    // One stripe first, so that the large round robin stands at 1.
    a.engine.on_control(&ctrl(2, 0, 0, 64 << 10, REMOTE, &keys));
    let req = a.isend(comm, ADDR, 64 << 10);
    let write = a.post();
    assert_eq!(write.lane, Lane::data(0));
    a.engine.on_local(write.token);
    a.done(req, 64 << 10);

    a.engine.on_control(&ctrl(2, 1, 0, 1 << 20, REMOTE, &keys));
    let req = a.isend(comm, ADDR, MIB);
    let mut posts = a.posts();
    posts.sort_by_key(|posted| match posted.wire {
        Wire::Write { addr, .. } => addr,
        _ => 0,
    });
    assert_eq!(posts.len(), 4);
    for (k, (posted, rail)) in posts.iter().zip([1, 2, 3, 0]).enumerate() {
        let offset = 262_144 * k as u64;
        let expected = Wire::Write {
            peer: peer(Lane::data(rail)),
            addr: ADDR + offset,
            len: 262_144,
            region: REGION,
            remote_addr: REMOTE + offset,
            remote_key: u64::from(keys[usize::from(rail)]),
            data: Some(0x4000_0401),
        };
        assert_eq!((posted.lane, posted.wire), (Lane::data(rail), expected));
    }
    for posted in posts.iter().skip(1) {
        a.engine.on_local(posted.token);
        a.pending(req);
    }
    a.engine.on_local(posts[0].token);
    a.done(req, MIB);
}

#[test]
fn b7_four_rails_at_the_receiver() {
    let mut b = Bench::new(config(4, 4));
    let comm = b.receiver(4, 4);
    let mut lanes = Vec::new();
    for seq in 0..8_u32 {
        let req = b.irecv(comm, ADDR, MIB, [0xA0, 0xB0, 0xC0, 0xD0]);
        let sent = b.post();
        let expected = ctrl(2, seq, 0, 1 << 20, ADDR, &[0xA0, 0xB0, 0xC0, 0xD0]);
        assert_eq!(sent.bytes, expected);
        lanes.push(sent.lane);
        b.engine.on_local(sent.token);
        for _ in 0..3 {
            b.engine
                .on_remote_write(0, 0x4000_0400 | u64::from(seq), Some(262_144));
            b.pending(req);
        }
        b.engine
            .on_remote_write(0, 0x4000_0400 | u64::from(seq), Some(262_144));
        b.done(req, MIB);
    }
    // CTRL goes round the control rails (32 bytes, below the threshold of 64: protocol 2c.4).
    let expected: Vec<_> = (0..8).map(|seq| Lane::control(seq % 4)).collect();
    assert_eq!(lanes, expected);
}

/// The sender's half of B8; the receiver's half (early completion) is not offered yet.
#[test]
fn b8_a_receiver_that_wants_no_completion_gets_plain_writes() {
    let mut config = config(1, 1);
    config.eager_max = None;
    let mut a = Bench::new(config);
    let comm = a.sender(1, 1);
    a.engine.on_control(&ctrl(5, 0, 0, 4096, REMOTE, &[KEY]));
    let req = a.isend(comm, ADDR, 4096);
    let write = a.post();
    let Wire::Write { data, len, .. } = write.wire else {
        panic!("{write:?}")
    };
    assert_eq!((data, len), (None, 4096));
    a.engine.on_local(write.token);
    a.done(req, 4096);
}

/// Empty messages: eager of length 0 completes without a copy; a write of length 0 counts (trap 5).
#[test]
fn empty_messages_both_ways() {
    let mut b = Bench::new(config(1, 1));
    let comm = b.receiver(1, 1);
    assert_eq!(b.engine.on_eager(0x1000_0400, 0, RX), RxFate::Held);
    let req = irecv(&mut b, comm, 64);
    let sent = b.post();
    assert_eq!(b.engine.take_released(), Some(RX));
    b.engine.on_local(sent.token);
    b.done(req, 0);
    let req = irecv(&mut b, comm, 0);
    let sent = b.post();
    b.engine.on_local(sent.token);
    b.engine.on_remote_write(0, 0x1000_0401, Some(0));
    b.done(req, 0);

    let mut a = Bench::new(config(1, 1));
    let comm = a.sender(1, 1);
    a.engine.on_control(&ctrl_from_peer(0, 0));
    let req = a.isend(comm, ADDR, 500);
    let write = a.post();
    assert_write(&write, 0x1000_0400, 0);
    a.engine.on_local(write.token);
    a.done(req, 0);
}

/// Sequence numbers go round at 1024, on both sides.
#[test]
fn sequence_numbers_wrap_on_the_wire() {
    let mut a = Bench::new(config(1, 1));
    let comm = a.sender(1, 1);
    for n in 0..3000_u32 {
        let seq = n % 1024;
        a.engine.on_control(&ctrl_from_peer(seq, 64));
        let req = a.isend(comm, ADDR, 64);
        let write = a.post();
        assert_write(&write, 0x1000_0400 | seq, 64);
        a.engine.on_local(write.token);
        a.done(req, 64);
    }
    let mut b = Bench::new(config(1, 1));
    let comm = b.receiver(1, 1);
    for n in 0..3000_u32 {
        let seq = n % 1024;
        let req = irecv(&mut b, comm, 64);
        let sent = b.post();
        assert_ctrl(&sent, seq, 64);
        b.engine
            .on_remote_write(0, 0x1000_0400 | u64::from(seq), Some(64));
        b.engine.on_local(sent.token);
        b.done(req, 64);
    }
}

/// A BASE peer says nothing of capabilities: whatever our provider could carry, it gets the 32 bits of
/// the immediate and zeros above, and as a sender it is taken to say nothing there (protocol 2c.1).
#[test]
fn a_base_peer_gets_and_gives_nothing_above_the_immediate() {
    let mut settings = config(1, 1);
    (settings.lengths_told, settings.cq_data_bytes) = (false, 8);
    let mut b = Bench::new(settings.clone());
    let comm = b.sender(1, 1);
    b.engine.on_control(&ctrl(2, 0, 0, 5000, 0x9000, &[7]));
    let _req = b.isend(comm, 0x1000, 5000);
    let wrote = b.post();
    assert!(
        matches!(
            wrote.wire,
            Wire::Write {
                data: Some(0x1000_0400),
                ..
            }
        ),
        "{wrote:?}"
    );

    let mut b = Bench::new(settings);
    let comm = b.receiver(1, 1);
    let req = b.irecv(comm, 0x1000, 4096, [1, 2, 3, 4]);
    let sent = b.post();
    b.engine.on_local(sent.token);
    // Rubbish above the immediate is not a length: what is known is the room that was posted.
    b.engine.on_remote_write(0, 0x0000_0065_1000_0400, None);
    b.done(req, 4096);
}
