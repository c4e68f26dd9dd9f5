//! Every kind of transfer between two endpoints, on every provider.

use core::ptr;

use efa_fabric::{CompletionFlags, Context2, CqEntry, Info, Library, PeerAddr, PostFlags, Posted};

use crate::common::{Block, Event, Side, accepted, connect, on_each_provider, until, wait_for};

on_each_provider! {
    message message_with_data injected_messages written_silently written_with_immediate
    written_with_flags injected_writes read large_write self_loop receives_in_a_batch
    accepted_means_completed
}

fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..=250)
        .cycle()
        .map(|byte: u8| byte ^ seed)
        .take(len)
        .collect()
}

fn message(info: &Info) {
    let (a, b, to_b, _) = connect(info);
    let (from, into) = (
        Block::of(&a.domain, &pattern(1000, 1)),
        Block::new(&b.domain, 4096),
    );
    let (mut ca, mut cb) = (Context2::new(), Context2::new());
    // SAFETY: blocks and contexts live to the end of the test, after the completions.
    accepted([&a, &b], || unsafe {
        b.ep.post_recv(into.sink(), PeerAddr::ANY, &raw mut cb)
    });
    // SAFETY: as above.
    accepted([&a, &b], || unsafe {
        a.ep.post_send(from.source(), to_b, &raw mut ca)
    });
    let (mut sent, mut received) = wait_for((&a, 1), (&b, 1));
    let (sent, received) = (sent.remove(0).done(), received.remove(0).done());
    assert_eq!(sent.context(), &raw mut ca);
    assert!(sent.flags().contains(CompletionFlags::SEND));
    assert_eq!(received.context(), &raw mut cb);
    assert!(received.flags().contains(CompletionFlags::RECV));
    assert_eq!(received.len(), 1000);
    assert_eq!(into.read()[..1000], pattern(1000, 1));
    assert_eq!(into.read()[1000..], [0; 3096]);
}

fn message_with_data(info: &Info) {
    let (a, b, to_b, _) = connect(info);
    let (from, into) = (
        Block::of(&a.domain, &pattern(64, 2)),
        Block::new(&b.domain, 64),
    );
    let (mut ca, mut cb) = (Context2::new(), Context2::new());
    // SAFETY: blocks and contexts live to the end of the test, after the completions.
    accepted([&a, &b], || unsafe {
        b.ep.post_recv(into.sink(), PeerAddr::ANY, &raw mut cb)
    });
    // SAFETY: as above.
    accepted([&a, &b], || unsafe {
        a.ep.post_senddata(from.source(), 0xdead_beef, to_b, &raw mut ca)
    });
    let (_, mut received) = wait_for((&a, 1), (&b, 1));
    let received = received.remove(0).done();
    assert!(
        received
            .flags()
            .contains(CompletionFlags::RECV | CompletionFlags::REMOTE_CQ_DATA)
    );
    assert_eq!((received.data(), received.len()), (0xdead_beef, 64));
    assert_eq!(into.read(), pattern(64, 2));
}

fn injected_messages(info: &Info) {
    let (a, b, to_b, _) = connect(info);
    let into = [Block::new(&b.domain, 64), Block::new(&b.domain, 64)];
    let mut contexts = [Context2::new(), Context2::new()];
    for (block, context) in into.iter().zip(&mut contexts) {
        let context = ptr::from_mut(context);
        // SAFETY: blocks and contexts live to the end of the test, after the completions.
        accepted([&a, &b], || unsafe {
            b.ep.post_recv(block.sink(), PeerAddr::ANY, context)
        });
    }
    // The bytes are overwritten as soon as the call returns: the peer must see the old ones.
    let mut bytes = [7_u8; 32];
    // SAFETY: the bytes are used during the call only; the peer was inserted.
    accepted([&a, &b], || unsafe { a.ep.post_inject(&bytes, to_b) });
    bytes.fill(8);
    // SAFETY: as above.
    accepted([&a, &b], || unsafe {
        a.ep.post_injectdata(&bytes, 42, to_b)
    });
    bytes.fill(9);
    let (_, received) = wait_for((&a, 0), (&b, 2));
    let received: Vec<_> = received.into_iter().map(Event::done).collect();
    let plain = received
        .iter()
        .find(|e| !e.flags().contains(CompletionFlags::REMOTE_CQ_DATA));
    let with_data = received
        .iter()
        .find(|e| e.flags().contains(CompletionFlags::REMOTE_CQ_DATA));
    assert_eq!(plain.map(CqEntry::len), Some(32));
    assert_eq!(with_data.map(|e| (e.len(), e.data())), Some((32, 42)));
    let mut seen: Vec<_> = into
        .iter()
        .map(|block| block.read()[..32].to_vec())
        .collect();
    seen.sort();
    assert_eq!(seen, [vec![7; 32], vec![8; 32]]);
}

fn written_silently(info: &Info) {
    let (a, b, to_b, _) = connect(info);
    let (from, into) = (
        Block::of(&a.domain, &pattern(4096, 3)),
        Block::new(&b.domain, 4096),
    );
    let mut context = Context2::new();
    // SAFETY: blocks and context live to the end of the test, after the completion.
    accepted([&a, &b], || unsafe {
        a.ep.post_write(from.source(), into.target(to_b), &raw mut context)
    });
    let (mut written, _) = wait_for((&a, 1), (&b, 0));
    let written = written.remove(0).done();
    assert_eq!(written.context(), &raw mut context);
    assert!(written.flags().contains(CompletionFlags::WRITE));
    until("the bytes to land", || {
        assert!(
            b.poll().is_empty(),
            "a plain write gives its target no event"
        );
        into.read() == pattern(4096, 3)
    });
}

/// Whether the provider tells the length of an incoming write: TCP does not before 1.18.
fn tells_length(info: &Info) -> bool {
    let version = Library::get().map_or((0, 0), Library::version);
    version >= (1, 18) || matches!(info.provider_name(), "shm" | "efa")
}

fn written_with_immediate(info: &Info) {
    let (a, b, to_b, _) = connect(info);
    let (from, into) = (
        Block::of(&a.domain, &pattern(5000, 4)),
        Block::new(&b.domain, 8192),
    );
    let mut context = Context2::new();
    // SAFETY: blocks and context live to the end of the test, after the completions.
    accepted([&a, &b], || unsafe {
        a.ep.post_writedata(
            from.source(),
            0x1234_5678,
            into.target(to_b),
            &raw mut context,
        )
    });
    let (mut written, mut arrived) = wait_for((&a, 1), (&b, 1));
    assert_eq!(written.remove(0).done().context(), &raw mut context);
    let arrived = arrived.remove(0).done();
    let expected = CompletionFlags::REMOTE_WRITE | CompletionFlags::REMOTE_CQ_DATA;
    assert!(arrived.flags().contains(expected), "{arrived:?}");
    assert!(arrived.context().is_null(), "{arrived:?}");
    assert_eq!(arrived.data(), 0x1234_5678);
    assert_eq!(arrived.len(), if tells_length(info) { 5000 } else { 0 });
    assert_eq!(into.read()[..5000], pattern(5000, 4));
    assert_eq!(into.read()[5000..], [0; 3192]);
}

fn written_with_flags(info: &Info) {
    let (a, b, to_b, _) = connect(info);
    let (from, into) = (
        Block::of(&a.domain, &pattern(512, 5)),
        Block::new(&b.domain, 512),
    );
    let mut context = Context2::new();
    let flags = PostFlags::REMOTE_CQ_DATA | PostFlags::DELIVERY_COMPLETE | PostFlags::COMPLETION;
    // SAFETY: blocks and context live to the end of the test, after the completions.
    accepted([&a, &b], || unsafe {
        a.ep.post_writemsg(from.source(), 9, into.target(to_b), &raw mut context, flags)
    });
    let (_, mut arrived) = wait_for((&a, 1), (&b, 1));
    assert_eq!(arrived.remove(0).done().data(), 9);
    assert_eq!(into.read(), pattern(512, 5));
}

fn injected_writes(info: &Info) {
    let (a, b, to_b, _) = connect(info);
    let (plain, marked) = (Block::new(&b.domain, 32), Block::new(&b.domain, 32));
    let mut bytes = [5_u8; 32];
    // SAFETY: the bytes are used during the call only; the target block outlives the endpoints' use.
    accepted([&a, &b], || unsafe {
        a.ep.post_inject_write(&bytes, plain.target(to_b))
    });
    bytes.fill(6);
    // SAFETY: as above.
    accepted([&a, &b], || unsafe {
        a.ep.post_inject_writedata(&bytes, 77, marked.target(to_b))
    });
    bytes.fill(0);
    let (_, mut arrived) = wait_for((&a, 0), (&b, 1));
    assert_eq!(arrived.remove(0).done().data(), 77);
    assert_eq!(marked.read(), [6; 32]);
    until("the first write to land", || plain.read() == [5; 32]);
}

fn read(info: &Info) {
    let (a, b, to_b, _) = connect(info);
    let (into, from) = (
        Block::new(&a.domain, 4096),
        Block::of(&b.domain, &pattern(4096, 6)),
    );
    let mut context = Context2::new();
    // SAFETY: blocks and context live to the end of the test, after the completion.
    accepted([&a, &b], || unsafe {
        a.ep.post_read(into.sink(), from.target(to_b), &raw mut context)
    });
    let (mut done, _) = wait_for((&a, 1), (&b, 0));
    let done = done.remove(0).done();
    assert_eq!(done.context(), &raw mut context);
    assert!(done.flags().contains(CompletionFlags::READ));
    assert_eq!(into.read(), pattern(4096, 6));
}

fn large_write(info: &Info) {
    const LEN: usize = 8 << 20;
    let (a, b, to_b, _) = connect(info);
    let (from, into) = (
        Block::of(&a.domain, &pattern(LEN, 7)),
        Block::new(&b.domain, LEN),
    );
    let mut context = Context2::new();
    // SAFETY: blocks and context live to the end of the test, after the completions.
    accepted([&a, &b], || unsafe {
        a.ep.post_writedata(from.source(), 1, into.target(to_b), &raw mut context)
    });
    wait_for((&a, 1), (&b, 1));
    assert!(into.read() == pattern(LEN, 7));
}

fn self_loop(info: &Info) {
    let side = Side::new(info);
    let me = side
        .av
        .insert(&side.ep.name().expect("name"))
        .expect("insert");
    let (from, into) = (
        Block::of(&side.domain, &pattern(256, 8)),
        Block::new(&side.domain, 256),
    );
    let back = Block::new(&side.domain, 256);
    let mut context = Context2::new();
    // SAFETY: blocks and context live to the end of the test, after the completions.
    accepted([&side, &side], || unsafe {
        side.ep
            .post_writedata(from.source(), 3, into.target(me), &raw mut context)
    });
    let mut seen = Vec::new();
    until("both events of the write", || {
        seen.extend(side.poll().into_iter().map(Event::done));
        seen.len() >= 2
    });
    assert!(
        seen.iter()
            .any(|e| e.flags().contains(CompletionFlags::REMOTE_CQ_DATA) && e.data() == 3)
    );
    assert!(seen.iter().any(|e| e.context() == &raw mut context));
    assert_eq!(into.read(), pattern(256, 8));
    // SAFETY: as above.
    accepted([&side, &side], || unsafe {
        side.ep
            .post_read(back.sink(), into.target(me), &raw mut context)
    });
    until("the read", || {
        side.poll().into_iter().map(Event::done).count() == 1
    });
    assert_eq!(back.read(), pattern(256, 8));
}

fn receives_in_a_batch(info: &Info) {
    const COUNT: u8 = 8;
    let count = usize::from(COUNT);
    let (a, b, to_b, _) = connect(info);
    let into: Vec<Block> = (0..COUNT).map(|_| Block::new(&b.domain, 64)).collect();
    let mut contexts: Vec<Context2> = (0..COUNT).map(|_| Context2::new()).collect();
    for (i, (block, context)) in into.iter().zip(&mut contexts).enumerate() {
        let flags = if i + 1 < count {
            PostFlags::MORE
        } else {
            PostFlags::empty()
        };
        let context = ptr::from_mut(context);
        // SAFETY: blocks and contexts live to the end of the test, after the completions.
        accepted([&a, &b], || unsafe {
            b.ep.post_recvmsg(block.sink(), PeerAddr::ANY, context, flags)
        });
    }
    let from: Vec<Block> = (0..COUNT)
        .map(|i| Block::of(&a.domain, &pattern(64, i)))
        .collect();
    let mut sending: Vec<Context2> = (0..COUNT).map(|_| Context2::new()).collect();
    let mut sent = 0;
    let mut received = 0;
    until("all messages", || {
        if let (Some(block), Some(context)) = (from.get(sent), sending.get_mut(sent)) {
            let flags = PostFlags::COMPLETION;
            // SAFETY: as above.
            let posted = unsafe {
                a.ep.post_sendmsg(block.source(), 0, to_b, ptr::from_mut(context), flags)
            };
            sent += usize::from(posted.expect("a post") == Posted::Accepted);
        }
        a.poll().into_iter().for_each(Event::assert_good);
        received += b.poll().into_iter().map(Event::done).count();
        received == count
    });
    let mut seen: Vec<_> = into.iter().map(Block::read).collect();
    seen.sort();
    let mut expected: Vec<_> = (0..COUNT).map(|i| pattern(64, i)).collect();
    expected.sort();
    assert_eq!(seen, expected);
}

fn accepted_means_completed(info: &Info) {
    const POSTS: usize = 3000;
    let (a, b, to_b, _) = connect(info);
    let (from, into) = (
        Block::of(&a.domain, &pattern(64, 9)),
        Block::new(&b.domain, 64),
    );
    let mut contexts: Vec<Context2> = (0..POSTS).map(|_| Context2::new()).collect();
    let (mut posted, mut completed) = (0, 0);
    // Posts as fast as the provider takes them and reads only when it is busy: whatever was accepted
    // completes once, and what was busy left no trace.
    until("all writes", || {
        while let Some(context) = contexts.get_mut(posted) {
            let context = ptr::from_mut(context);
            // SAFETY: blocks and contexts live to the end of the test, after the completions.
            let post = unsafe { a.ep.post_write(from.source(), into.target(to_b), context) };
            match post.expect("a post") {
                Posted::Accepted => posted += 1,
                Posted::Busy => break,
            }
        }
        completed += a.poll().into_iter().map(Event::done).count();
        assert!(b.poll().is_empty());
        completed == POSTS
    });
    assert_eq!(posted, POSTS);
    assert!(a.poll().is_empty());
}
