//! Operations that end badly: as values with the provider's words, and nothing else suffers.

use efa_fabric::{CompletionFlags, Context2, Errno, Info, PeerAddr};

use crate::common::{
    Block, Event, Side, accepted, connect, drain_until, on_each_provider, until, wait_for,
};

on_each_provider! { truncated cancelled wrong_length_of_an_address bytes_that_are_no_address }

fn truncated(info: &Info) {
    let (a, b, to_b, _) = connect(info);
    let (from, into) = (Block::of(&a.domain, &[3; 190]), Block::new(&b.domain, 100));
    let (mut ca, mut cb) = (Context2::new(), Context2::new());
    // SAFETY: blocks and contexts live to the end of the test, after the completions.
    accepted([&a, &b], || unsafe {
        b.ep.post_recv(into.sink(), PeerAddr::ANY, &raw mut cb)
    });
    // SAFETY: as above.
    accepted([&a, &b], || unsafe {
        a.ep.post_send(from.source(), to_b, &raw mut ca)
    });
    // The sender's completion is good or none, never the receiver's error.
    let error = drain_until(&b, &a, Event::assert_good).failed();
    assert!(error.is_truncated(), "{error}");
    assert_eq!(error.errno(), Errno::ETRUNC);
    assert_eq!(error.context(), &raw mut cb);
    assert!(error.flags().contains(CompletionFlags::RECV), "{error}");
    assert!(error.to_string().contains("FI_ETRUNC (265)"), "{error}");
    let after = into.read();
    assert!(
        after.iter().all(|byte| *byte == 3 || *byte == 0),
        "{after:?}"
    );
}

fn cancelled(info: &Info) {
    let (a, b, to_b, _) = connect(info);
    let into = [Block::new(&b.domain, 64), Block::new(&b.domain, 64)];
    let mut contexts = [Context2::new(), Context2::new()];
    let [first, second] = contexts.each_mut().map(core::ptr::from_mut);
    for (block, context) in into.iter().zip([first, second]) {
        // SAFETY: blocks and contexts live to the end of the test, after the completions.
        accepted([&a, &b], || unsafe {
            b.ep.post_recv(block.sink(), PeerAddr::ANY, context)
        });
    }
    assert!(b.ep.cancel(first).expect("cancel"));
    let error = drain_until(&b, &a, |event| panic!("{event:?}")).failed();
    assert!(error.is_cancelled(), "{error}");
    assert_eq!(error.context(), first);
    // The other one still works.
    let from = Block::of(&a.domain, &[4; 64]);
    let mut context = Context2::new();
    // SAFETY: as above.
    accepted([&a, &b], || unsafe {
        a.ep.post_send(from.source(), to_b, &raw mut context)
    });
    let (_, mut received) = wait_for((&a, 1), (&b, 1));
    assert_eq!(received.remove(0).done().context(), second);
    assert_eq!(into[1].read(), [4; 64]);
    // Cancelling what is over is no error, and gives no event.
    b.ep.cancel(second).expect("cancel");
    let mut polls = 0;
    until("some polls", || {
        assert!(b.poll().is_empty());
        polls += 1;
        polls == 100
    });
}

fn wrong_length_of_an_address(info: &Info) {
    let side = Side::new(info);
    for len in [0, 300] {
        let error = side.av.insert(&vec![0; len]).expect_err("no address");
        assert_eq!((error.op(), error.errno()), ("fi_av_insert", Errno::EINVAL));
        assert!(
            error.to_string().contains(&format!("{len} bytes")),
            "{error}"
        );
    }
}

fn bytes_that_are_no_address(info: &Info) {
    let side = Side::new(info);
    let mut state = 0x9e37_79b9_u32;
    let mut inserted = 0;
    for round in 0..200 {
        let len = 16 + round % 41;
        let bytes: Vec<u8> = (0..len)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 17;
                state ^= state << 5;
                state.to_le_bytes()[0]
            })
            .collect();
        // An error that names the call, or a peer that nobody will ever reach; never a crash.
        match side.av.insert(&bytes) {
            Ok(_) => inserted += 1,
            Err(error) => assert_eq!(error.op(), "fi_av_insert"),
        }
    }
    // A socket address has a family, and two random bytes are hardly ever one that TCP knows.
    assert!(info.provider_name() == "shm" || inserted < 20, "{inserted}");
}
