//! There is none, but for sends of `efa`.

use efa_fabric::{FabricError, PeerAddr, PostFlags, Posted};

use crate::side::{Actor, Memory, Side};

const COUNT: u64 = 200;

/// Writes overtake each other, and none is lost or doubled; sends of `efa` keep their order.
pub(crate) fn overtaken_but_complete(actor: &Actor<'_>) {
    let pair = actor.pair(4096);
    if actor.side == 0 {
        for data in 0..COUNT {
            pair.side
                .write(pair.memory.source(8), Some(data), pair.target);
        }
        pair.side.wait(usize::try_from(COUNT).unwrap_or(0));
        actor.link.meet();
        for data in 0..COUNT {
            let context = Side::context();
            let source = pair.memory.source(8);
            // SAFETY: memory and context are never freed.
            let posted = unsafe {
                pair.side
                    .ep
                    .post_senddata(source, data, pair.target.peer, context)
            };
            assert_eq!(posted, Ok(Posted::Accepted));
        }
        pair.side.wait(usize::try_from(COUNT).unwrap_or(0));
    } else {
        let count = usize::try_from(COUNT).unwrap_or(0);
        let data = |events: Vec<crate::side::Event>| -> Vec<u64> {
            events
                .into_iter()
                .map(|event| event.done().data())
                .collect()
        };
        let written = data(pair.side.wait(count));
        let mut sorted = written.clone();
        sorted.sort_unstable();
        assert!(sorted.iter().copied().eq(0..COUNT), "{sorted:?}");
        assert_ne!(written, sorted, "nothing was overtaken");
        let room = Memory::new(&pair.side.domain, 8 * count);
        for i in 0..count {
            pair.side.recv(room.sink(8 * i, 8));
        }
        actor.link.meet();
        let sent = data(pair.side.wait(count));
        let mut sorted = sent.clone();
        sorted.sort_unstable();
        assert!(sorted.iter().copied().eq(0..COUNT), "{sorted:?}");
        assert_eq!(sent == sorted, !actor.is_direct(), "{sent:?}");
    }
    actor.link.meet();
}

/// With FI_MORE nothing goes before the doorbell.
pub(crate) fn doorbells(actor: &Actor<'_>) {
    let pair = actor.pair(64);
    if actor.side == 0 {
        let flags = PostFlags::REMOTE_CQ_DATA | PostFlags::COMPLETION;
        let post = |data, more| {
            let flags = if more { flags | PostFlags::MORE } else { flags };
            let (source, context) = (pair.memory.source(8), Side::context());
            // SAFETY: memory and context are never freed.
            unsafe {
                pair.side
                    .ep
                    .post_writemsg(source, data, pair.target, context, flags)
            }
        };
        for data in 0..3 {
            assert_eq!(post(data, true), Ok(Posted::Accepted));
        }
        pair.side.silent();
        actor.link.meet();
        actor.link.meet();
        assert_eq!(post(3, false), Ok(Posted::Accepted));
        pair.side.wait(4);
        actor.link.meet();
        // A full queue is a doorbell too: what waits would wait for ever.
        let mut posted = 0;
        while post(9, true) == Ok(Posted::Accepted) {
            posted += 1;
        }
        assert_eq!(posted, pair.side.info.tx_size());
        pair.side.wait(posted);
        actor.link.tell(&posted.to_string());
    } else {
        actor.link.meet();
        pair.side.silent();
        actor.link.meet();
        let events = pair.side.wait(4);
        let mut data: Vec<u64> = events
            .into_iter()
            .map(|event| event.done().data())
            .collect();
        data.sort_unstable();
        assert_eq!(data, [0, 1, 2, 3]);
        actor.link.meet();
        let posted = actor.link.hear().parse().expect("a number");
        pair.side.wait(posted);
    }
    actor.link.meet();
}

/// Where completions at the target are late: that of the initiator is there before, so nothing about the
/// target follows from it.
pub(crate) fn completed_before_it_shows(actor: &Actor<'_>) {
    let pair = actor.pair(64);
    if actor.side == 0 {
        pair.memory.fill(3);
        pair.side
            .write(pair.memory.source(64), Some(5), pair.target);
        pair.side.one().done();
        actor.link.meet();
    } else {
        actor.link.meet();
        // The bytes are there, and are not told of yet.
        assert!(pair.memory.has(0..64, 3));
        assert!(pair.side.poll().is_empty());
        assert_eq!(pair.side.one().done().data(), 5);
    }
    actor.link.meet();
}

/// As many posts of each kind each time, in an order that follows from when completions come: what the plan
/// says of them is to be the same.
pub(crate) fn a_fixed_program(actor: &Actor<'_>) {
    const EACH: usize = 300;
    let pair = actor.pair(4096);
    let again = |post: &dyn Fn() -> Result<Posted, FabricError>| post() == Ok(Posted::Busy);
    let (mut received, mut written, mut seen) = (0, 0, 0);
    // Of each write its completion, and that of the peer's.
    while written < EACH || received < EACH || seen < 2 * EACH {
        let (source, sink) = (pair.memory.source(64), pair.memory.sink(0, 64));
        // SAFETY: memory and context are never freed.
        let receive = || unsafe { pair.side.ep.post_recv(sink, PeerAddr::ANY, Side::context()) };
        // SAFETY: as above.
        let write = || unsafe {
            let context = Side::context();
            pair.side.ep.post_writedata(source, 1, pair.target, context)
        };
        written += usize::from(written < EACH && !again(&write));
        // Who has seen much posts receives sooner.
        let is_due = received < EACH && (seen > received || written == EACH);
        received += usize::from(is_due && !again(&receive));
        seen += pair.side.poll().len();
    }
    actor.link.meet();
}
