//! Tagged messages on every provider (`fi_tagged(3)`).

use efa_fabric::{
    Buffer, Caps, CompletionFlags, Context2, Cq, CqBind, CqPoll, Domain, Endpoint, Errno, Fabric,
    Info, PeerAddr, Port, Submitted, TagMatch, TaggedEntry, consts,
};

use crate::common::{
    Block, Event, Side, accepted, connect, drain_until, on_each_provider, until, wait_for,
};

on_each_provider! { tagged:
    the_entry_says_what_tags_there_are a_receive_takes_its_tag_only ignored_bits_match_anything
    messages_of_one_tag_keep_their_order injected_and_unexpected a_longer_message_is_an_error_of_its_receive
    a_cancelled_receive_takes_nothing the_completion_carries_the_tag owned_buffers_and_tags
    to_oneself
}

/// A tag that uses the highest bit that the provider carries, as the connect messages of the SENDRECV
/// protocol do. (`net` of 1.17 has 62 bits, and drops the two above.)
fn high(info: &Info) -> u64 {
    1 << (63 - info.mem_tag_format().leading_zeros()) | 7
}

fn the_entry_says_what_tags_there_are(info: &Info) {
    assert!(info.caps().contains(Caps::TAGGED));
    assert!(64 - info.mem_tag_format().leading_zeros() >= 33);
    assert_ne!(info.msg_order() & consts::FI_ORDER_SAS, 0);
}

/// Posts a receive for a tag.
fn receive(side: &Side, other: &Side, into: &Block, wanted: TagMatch, context: *mut Context2) {
    // SAFETY: the caller's blocks and contexts live to the end of its test, after the completions.
    accepted([side, other], || unsafe {
        side.ep
            .post_trecv(into.sink(), PeerAddr::ANY, wanted, context)
    });
}

/// Posts a send under a tag.
fn send(from: (&Side, &Block), other: &Side, peer: PeerAddr, tag: u64, context: *mut Context2) {
    let (side, block) = from;
    // SAFETY: as in `receive`.
    accepted([side, other], || unsafe {
        side.ep.post_tsend(block.source(), peer, tag, context)
    });
}

fn a_receive_takes_its_tag_only(info: &Info) {
    let (a, b, to_b, _) = connect(info);
    let into = [Block::new(&b.domain, 64), Block::new(&b.domain, 64)];
    let from = [
        Block::of(&a.domain, &[1; 64]),
        Block::of(&a.domain, &[2; 64]),
    ];
    let mut contexts = [const { Context2::new() }; 4];
    let [r7, r_high, s_high, s7] = contexts.each_mut().map(core::ptr::from_mut);
    receive(&b, &a, &into[0], TagMatch::exactly(7), r7);
    receive(&b, &a, &into[1], TagMatch::exactly(high(info)), r_high);
    // Sent the other way round.
    send((&a, &from[1]), &b, to_b, high(info), s_high);
    send((&a, &from[0]), &b, to_b, 7, s7);
    let (_, received) = wait_for((&a, 2), (&b, 2));
    for event in received {
        let entry = event.done();
        let flags = CompletionFlags::RECV | CompletionFlags::TAGGED;
        assert!(entry.flags().contains(flags), "{entry:?}");
        assert_eq!(entry.len(), 64);
    }
    assert_eq!((into[0].read(), into[1].read()), (vec![1; 64], vec![2; 64]));
}

fn ignored_bits_match_anything(info: &Info) {
    let (a, b, to_b, _) = connect(info);
    let (into, from) = (Block::new(&b.domain, 8), Block::of(&a.domain, &[5; 8]));
    let mut contexts = [const { Context2::new() }; 2];
    let [r, s] = contexts.each_mut().map(core::ptr::from_mut);
    let wanted = TagMatch {
        tag: 0x1200,
        ignore: 0xFF,
    };
    receive(&b, &a, &into, wanted, r);
    send((&a, &from), &b, to_b, 0x1234, s);
    wait_for((&a, 1), (&b, 1));
    assert_eq!(into.read(), [5; 8]);
}

fn messages_of_one_tag_keep_their_order(info: &Info) {
    const COUNT: u8 = 20;
    let (a, b, to_b, _) = connect(info);
    let blocks = |domain, seed: u8| -> Vec<Block> {
        (0..COUNT)
            .map(|i| Block::of(domain, &[i * seed; 16]))
            .collect()
    };
    let (from, into) = (blocks(&a.domain, 1), blocks(&b.domain, 0));
    let mut contexts = [const { Context2::new() }; 2 * COUNT as usize];
    let mut free = contexts.iter_mut().map(core::ptr::from_mut);
    for block in &into {
        receive(
            &b,
            &a,
            block,
            TagMatch::exactly(3),
            free.next().expect("one"),
        );
    }
    let (mut sent, mut received) = (0, 0);
    for block in &from {
        let context = free.next().expect("one");
        until("a send to be accepted", || {
            // SAFETY: as in `receive`.
            let posted = unsafe { a.ep.post_tsend(block.source(), to_b, 3, context) };
            sent += a.poll().len();
            received += b.poll().len();
            posted.expect("a post") == efa_fabric::Posted::Accepted
        });
    }
    until("all to complete", || {
        sent += a.poll().len();
        received += b.poll().len();
        (sent, received) == (COUNT.into(), COUNT.into())
    });
    for (number, block) in (0..).zip(&into) {
        assert_eq!(block.read(), [number; 16]);
    }
}

/// A message without a receive waits for it.
fn injected_and_unexpected(info: &Info) {
    let (a, b, to_b, _) = connect(info);
    let into = Block::new(&b.domain, 64);
    // SAFETY: the bytes are used during the call only; the peer was inserted.
    accepted([&a, &b], || unsafe {
        a.ep.post_tinject(&[9; 32], to_b, high(info))
    });
    let mut polls = 0;
    until("some polls", || {
        assert!(a.poll().is_empty() && b.poll().is_empty());
        polls += 1;
        polls == 1000
    });
    let mut context = Context2::new();
    receive(
        &b,
        &a,
        &into,
        TagMatch::exactly(high(info)),
        &raw mut context,
    );
    let (_, mut received) = wait_for((&a, 0), (&b, 1));
    assert_eq!(received.remove(0).done().len(), 32);
    assert_eq!(into.read()[..32], [9; 32]);
}

/// An error of its receive. On native tcp what fits is in place, and the next message comes through;
/// what others make of it: `CompletionError::is_truncated`.
fn a_longer_message_is_an_error_of_its_receive(info: &Info) {
    let sizes = [(190, 100), (100_000, 64_000), (4 << 20, 1 << 20)];
    let native = info.provider_name() == "tcp";
    for (len, room) in sizes.into_iter().take(if native { 3 } else { 1 }) {
        let (a, b, to_b, _) = connect(info);
        let from = [
            Block::of(&a.domain, &vec![3; len]),
            Block::of(&a.domain, &[4; 16]),
        ];
        let into = [Block::new(&b.domain, room), Block::new(&b.domain, 16)];
        let mut contexts = [const { Context2::new() }; 4];
        let [r, s, r_next, s_next] = contexts.each_mut().map(core::ptr::from_mut);
        receive(&b, &a, &into[0], TagMatch::exactly(4), r);
        send((&a, &from[0]), &b, to_b, 4, s);
        let mut sent = 0;
        let error = drain_until(&b, &a, |event| {
            event.assert_good();
            sent += 1;
        });
        let error = error.failed();
        assert!(error.is_truncated(), "{error}");
        assert_eq!(error.context(), r);
        let placed = into[0].read();
        assert!(placed.iter().all(|byte| *byte == 3 || *byte == 0));
        if native {
            assert!(placed.iter().all(|byte| *byte == 3), "what fits");
            wait_for((&a, 1 - sent), (&b, 0));
            receive(&b, &a, &into[1], TagMatch::exactly(4), r_next);
            send((&a, &from[1]), &b, to_b, 4, s_next);
            wait_for((&a, 1), (&b, 1));
            assert_eq!(into[1].read(), [4; 16]);
        }
    }
}

fn a_cancelled_receive_takes_nothing(info: &Info) {
    let (a, b, to_b, _) = connect(info);
    let into = [Block::new(&b.domain, 16), Block::new(&b.domain, 16)];
    let from = Block::of(&a.domain, &[6; 16]);
    let mut contexts = [const { Context2::new() }; 3];
    let [first, second, s] = contexts.each_mut().map(core::ptr::from_mut);
    receive(&b, &a, &into[0], TagMatch::exactly(high(info)), first);
    receive(&b, &a, &into[1], TagMatch::exactly(high(info)), second);
    assert!(b.ep.cancel(first).expect("cancel"));
    let error = drain_until(&b, &a, |event| panic!("{event:?}")).failed();
    assert!(error.is_cancelled(), "{error}");
    assert_eq!(error.context(), first);
    send((&a, &from), &b, to_b, high(info), s);
    let (_, mut received) = wait_for((&a, 1), (&b, 1));
    assert_eq!(received.remove(0).done().context(), second);
    assert_eq!((into[0].read(), into[1].read()), (vec![0; 16], vec![6; 16]));
}

fn the_completion_carries_the_tag(info: &Info) {
    let fabric = Fabric::open(info).expect("fabric");
    let domain = Domain::open(&fabric, info).expect("domain");
    let cq = Cq::open_tagged(&domain, 64).expect("queue");
    let av = efa_fabric::Av::open(&domain).expect("vector");
    let mut setup = Endpoint::open(&domain, info).expect("endpoint");
    let all = CqBind::TRANSMIT | CqBind::RECV;
    setup.bind_cq(&cq, all).expect("bind");
    setup.bind_av(&av).expect("bind");
    let ep = setup.enable().expect("enable");
    let own = av.insert(&ep.name().expect("name")).expect("insert");
    let (into, from) = (Block::new(&domain, 16), Block::of(&domain, &[8; 16]));
    let mut contexts = [const { Context2::new() }; 2];
    let [r, s] = contexts.each_mut().map(core::ptr::from_mut);
    let mut found = Vec::new();
    let mut poll = || {
        let mut entries = [TaggedEntry::EMPTY; 8];
        if let CqPoll::Entries(count) = cq.read_batch(&mut entries).expect("a working queue") {
            found.extend(entries.iter().take(count).copied());
        }
        found.len()
    };
    // SAFETY: blocks and contexts live to the end of the test, after the completions.
    let posted =
        unsafe { ep.post_trecv(into.sink(), PeerAddr::ANY, TagMatch::exactly(high(info)), r) };
    assert_eq!(posted, Ok(efa_fabric::Posted::Accepted));
    until("the send to be accepted", || {
        poll();
        // SAFETY: as above.
        let posted = unsafe { ep.post_tsend(from.source(), own, high(info), s) };
        posted.expect("a post") == efa_fabric::Posted::Accepted
    });
    until("both to complete", || poll() == 2);
    let received = found.iter().find(|found| found.entry().context() == r);
    let received = received.expect("the receive completed");
    assert_eq!((received.tag(), received.entry().len()), (high(info), 16));
    assert_eq!(into.read(), [8; 16]);
}

fn owned_buffers_and_tags(info: &Info) {
    let (mut a, mut b) = (
        Port::open(info).expect("port"),
        Port::open(info).expect("port"),
    );
    let to_b = a.insert(&b.name().expect("name")).expect("insert");
    let into = Buffer::zeroed(b.domain(), 64).expect("buffer");
    let Ok(Submitted::Pending(received)) = b.trecv(into, TagMatch::exactly(high(info))) else {
        panic!("a receive is accepted");
    };
    let mut from = Some(Buffer::from_bytes(a.domain(), b"..hello..".to_vec()).expect("buffer"));
    let mut sent = None;
    until("the send to start", || {
        match a
            .tsend(from.take().expect("here"), 2..7, to_b, high(info))
            .expect("an attempt")
        {
            Submitted::Pending(ticket) => sent = Some(ticket),
            Submitted::Busy(back) => from = Some(back),
        }
        a.poll().expect("poll");
        b.poll().expect("poll");
        sent.is_some()
    });
    until("the message to arrive", || {
        a.poll().expect("poll");
        b.poll().expect("poll");
        received.is_done()
    });
    let completed = received.take().expect("done");
    let transfer = completed.outcome.expect("received");
    assert_eq!(
        (transfer.tag, transfer.len, transfer.data),
        (Some(high(info)), 5, None)
    );
    assert_eq!(completed.buffer[..5], *b"hello");
    let long = vec![0; a.endpoint().info().inject_size() + 1];
    let error = a.tinject(&long, to_b, 1).expect_err("too long");
    assert_eq!(error.errno(), Errno::EMSGSIZE);
}

fn to_oneself(info: &Info) {
    let a = Side::new(info);
    let own = a.av.insert(&a.ep.name().expect("name")).expect("insert");
    let (into, from) = (Block::new(&a.domain, 80), Block::of(&a.domain, &[4; 80]));
    let mut contexts = [const { Context2::new() }; 2];
    let [r, s] = contexts.each_mut().map(core::ptr::from_mut);
    // Sent before anybody waits for it.
    send((&a, &from), &a, own, 11, s);
    // SAFETY: blocks and contexts live to the end of the test, after the completions.
    let posted = unsafe {
        a.ep.post_trecv(into.sink(), PeerAddr::ANY, TagMatch::exactly(11), r)
    };
    assert_eq!(posted, Ok(efa_fabric::Posted::Accepted));
    let mut events = Vec::new();
    until("both to complete", || {
        events.extend(a.poll());
        events.len() == 2
    });
    events.into_iter().for_each(Event::assert_good);
    assert_eq!(into.read(), [4; 80]);
}
