//! Early completion (protocol 2e.10, appendix B8, traps 17 and 26) and the rails that a request names.

use crate::bench::{Bench, REGION, config, ctrl};
use ofi_rdma::{
    Admission, CommKey, Config, ConfigError, Done, Engine, Error, Rails, RecvBuf, ReqKey, RxFate,
    RxId, Test, Violation, Why, Wire,
};

const ADDR: u64 = 0x1000;
const KEYS: [u64; 4] = [1, 2, 3, 4];

fn early(rails: u8) -> Config {
    Config {
        eager_max: None,
        early_completion: true,
        ..config(rails, 1)
    }
}

fn optional(b: &mut Bench, comm: CommKey, len: u64) -> ReqKey {
    let buf = RecvBuf {
        addr: ADDR,
        len,
        region: REGION,
        wire_addr: ADDR,
        keys: KEYS,
        optional: true,
    };
    match b.engine.irecv(comm, &buf) {
        Ok(Admission::Admitted(req)) => req,
        other => panic!("{other:?}"),
    }
}

fn done(b: &mut Bench, req: ReqKey) -> Done {
    match b.engine.test(req) {
        Ok(Test::Done(done)) => done,
        other => panic!("{other:?}"),
    }
}

/// B8 at the receiver: type 5, done with the CTRL's own completion and 0 bytes; test frees the slot.
#[test]
fn b8_at_the_receiver() {
    let mut b = Bench::new(early(1));
    let comm = b.receiver(1, 1);
    for seq in 0..300_u32 {
        let req = optional(&mut b, comm, 4096);
        let sent = b.post();
        assert_eq!(sent.bytes, ctrl(5, seq, 0, 4096, 0x1000, &[1]));
        b.pending(req);
        b.engine.on_local(sent.token);
        let Done { bytes, rails } = done(&mut b, req);
        assert_eq!((bytes, rails), (0, Rails::default()));
    }
    b.engine.close(comm, 0).expect("close");
    assert_eq!(
        (b.engine.live_requests(), b.engine.early_messages()),
        (0, 0)
    );
}

/// Optional and ordinary receives take turns: only the type is per message.
#[test]
fn an_ordinary_receive_beside_it_waits_for_its_data() {
    let mut b = Bench::new(early(1));
    let comm = b.receiver(1, 1);
    let first = optional(&mut b, comm, 64);
    let one = b.post();
    let second = b.irecv(comm, ADDR, 64, KEYS);
    let two = b.post();
    assert_eq!((one.bytes[0] & 0xF, two.bytes[0] & 0xF), (5, 2));
    b.engine.on_local(two.token);
    b.engine.on_local(one.token);
    b.done(first, 0);
    b.pending(second);
    b.engine.on_remote_write(0, 0x1000_0401, Some(64));
    b.done(second, 64);
}

/// Where early completion is off the word changes nothing (decision 10: it is read at each call).
#[test]
fn the_word_is_ignored_where_it_is_off() {
    let mut b = Bench::new(config(1, 1));
    let comm = b.receiver(1, 1);
    let req = optional(&mut b, comm, 64);
    let sent = b.post();
    assert_eq!(sent.bytes, ctrl(2, 0, 0, 64, 0x1000, &[1]));
    b.engine.on_local(sent.token);
    b.pending(req);
}

/// B8 at the sender, which always understands type 5: all segments by `fi_write`, none with CQ data.
#[test]
fn b8_at_the_sender() {
    let mut a = Bench::new(config(4, 1));
    let comm = a.sender(4, 1);
    a.engine
        .on_control(&ctrl(5, 0, 0, 1 << 20, 0x9000, &[1, 2, 3, 4]));
    let req = a.isend(comm, ADDR, 1 << 20);
    let posts = a.posts();
    assert_eq!(posts.len(), 4);
    for post in posts {
        let Wire::Write { data, .. } = post.wire else {
            panic!("{post:?}")
        };
        assert_eq!(data, None);
        a.engine.on_local(post.token);
    }
    a.done(req, 1 << 20);
    // And after isend, too.
    let req = a.isend(comm, ADDR, 100_000);
    a.quiet();
    a.engine
        .on_control(&ctrl(5, 1, 0, 1 << 20, 0x9000, &[1, 2, 3, 4]));
    for post in a.posts() {
        assert!(
            matches!(post.wire, Wire::Write { data: None, .. }),
            "{post:?}"
        );
        a.engine.on_local(post.token);
    }
    a.done(req, 100_000);
}

/// Nobody counts segments that are not told of, and a receiver that has seen all its bytes may be gone when
/// an empty one comes: there are none, but in a message of no bytes.
#[test]
fn no_empty_segment_goes_untold() {
    let mut a = Bench::new(Config {
        min_stripe_bytes: 1,
        ..early(4)
    });
    let comm = a.sender(4, 1);
    for (seq, (len, segments)) in (0..).zip([(200, 2), (512, 4), (1, 1), (0, 1)]) {
        for kind in [2, 5] {
            let seq = 2 * seq + u32::from(kind == 5);
            a.engine
                .on_control(&ctrl(kind, seq, 0, 4096, 0x9000, &[1, 2, 3, 4]));
            let req = a.isend(comm, ADDR, len);
            let posts = a.posts();
            let told = if len == 200 { 4 } else { segments };
            assert_eq!(
                posts.len(),
                if kind == 5 { segments } else { told },
                "{len} bytes"
            );
            let mut sum = 0;
            for post in posts {
                let Wire::Write {
                    len: part, data, ..
                } = post.wire
                else {
                    panic!("{post:?}")
                };
                assert_eq!(data.is_none(), kind == 5);
                sum += part;
                a.engine.on_local(post.token);
            }
            assert_eq!(sum, len);
            a.done(req, len);
        }
    }
}

/// Where there is no room there is nothing to see, so such a receive waits for its data.
#[test]
fn an_empty_receive_is_ordinary() {
    let mut b = Bench::new(early(1));
    let comm = b.receiver(1, 1);
    let req = optional(&mut b, comm, 0);
    let sent = b.post();
    assert_eq!(sent.bytes[0] & 0xF, 2);
    b.engine.on_local(sent.token);
    b.pending(req);
    b.engine.on_remote_write(0, 0x1000_0400, Some(0));
    b.done(req, 0);
}

#[test]
fn data_that_is_told_of_was_not_asked_for() {
    let broken = |b: &mut Bench, req: ReqKey| match b.engine.test(req) {
        Err(Error::Failed(failure)) => failure.why,
        other => panic!("{other:?}"),
    };
    let mut b = Bench::new(early(1));
    let comm = b.receiver(1, 1);
    let req = optional(&mut b, comm, 64);
    b.post();
    b.engine.on_remote_write(0, 0x1000_0400, Some(64));
    assert_eq!(broken(&mut b, req), Why::Protocol(Violation::Unwanted));

    let mut b = Bench::new(early(1));
    let comm = b.receiver(1, 1);
    let req = optional(&mut b, comm, 64);
    b.post();
    let rx = RxId { rail: 0, index: 3 };
    assert_eq!(b.engine.on_eager(0x1000_0400, 64, rx), RxFate::Held);
    assert_eq!(b.engine.take_released(), Some(rx));
    assert_eq!(broken(&mut b, req), Why::Protocol(Violation::Unwanted));
}

/// Eager data that was here before is copied like any other: the word is a permission, no demand.
#[test]
fn early_eager_data_is_received_all_the_same() {
    let mut b = Bench::new(early(1));
    let comm = b.receiver(1, 1);
    let rx = RxId { rail: 0, index: 3 };
    assert_eq!(b.engine.on_eager(0x1000_0400, 64, rx), RxFate::Held);
    let req = optional(&mut b, comm, 64);
    let posts = b.posts();
    assert_eq!(posts[0].bytes[0] & 0xF, 2, "an ordinary CTRL");
    posts.iter().for_each(|post| b.engine.on_local(post.token));
    b.done(req, 64);
}

#[test]
fn it_needs_eager_messages_off() {
    let both = Config {
        early_completion: true,
        ..config(1, 1)
    };
    let refused = Engine::<ofi_rdma::Base>::new(both).map(drop);
    assert_eq!(refused, Err(ConfigError::EarlyWithEager(8192)));
}

/// The rails that carried the bytes: those of the segments on both sides, of the eager message, of the
/// flush; never those of control messages.
#[test]
fn a_request_that_is_done_names_its_rails() {
    let mut a = Bench::new(config(4, 4));
    let comm = a.sender(4, 4);
    a.engine
        .on_control(&ctrl(2, 0, 0, 1 << 20, 0x9000, &[1, 2, 3, 4]));
    a.engine
        .on_control(&ctrl(2, 1, 0, 1 << 20, 0x9000, &[1, 2, 3, 4]));
    let req = a.isend(comm, ADDR, 1 << 20);
    a.posts()
        .iter()
        .for_each(|post| a.engine.on_local(post.token));
    assert_eq!(done(&mut a, req).rails.bits(), 0b1111);
    let req = a.isend(comm, ADDR, 100_000);
    a.posts()
        .iter()
        .for_each(|post| a.engine.on_local(post.token));
    assert_eq!(
        done(&mut a, req).rails.bits(),
        0b0011,
        "two stripes, from rail 0"
    );

    let mut b = Bench::new(config(4, 4));
    let comm = b.receiver(4, 4);
    let req = b.irecv(comm, ADDR, 1000, KEYS);
    let sent = b.post();
    b.engine.on_local(sent.token);
    for rail in [3, 1] {
        b.engine.on_remote_write(rail, 0x2000_0400, Some(500));
    }
    let got = done(&mut b, req);
    assert_eq!((got.bytes, got.rails.bits()), (1000, 0b1010));
    assert!(got.rails.contains(3) && !got.rails.contains(0) && !got.rails.contains(9));

    let rx = RxId { rail: 2, index: 3 };
    assert_eq!(b.engine.on_eager(0x1000_0401, 64, rx), RxFate::Held);
    let req = b.irecv(comm, ADDR, 1000, KEYS);
    b.posts()
        .iter()
        .for_each(|post| b.engine.on_local(post.token));
    assert_eq!(done(&mut b, req).rails.bits(), 0b0100);
    let req = b.engine.flush(comm, ADDR, REGION).expect("flush");
    b.posts()
        .iter()
        .for_each(|post| b.engine.on_local(post.token));
    assert_eq!(done(&mut b, req).rails.bits(), 0b1111);
}
