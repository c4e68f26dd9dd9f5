//! There is none, but for sends of `efa`.

use efa_fabric::{PostFlags, Posted};

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

/// Posts that are the same each time, whatever becomes of them: what the plan says of them is to be, too.
pub(crate) fn a_fixed_program(actor: &Actor<'_>) {
    let pair = actor.pair(4096);
    if actor.side == 0 {
        for n in 0..500 {
            let source = pair.memory.source(1 + n % 4000);
            let post = || {
                let context = Side::context();
                // SAFETY: memory and context are never freed.
                unsafe {
                    pair.side
                        .ep
                        .post_writedata(source, n as u64, pair.target, context)
                }
            };
            while post() == Ok(Posted::Busy) {}
            pair.side.one();
        }
    } else {
        pair.side.wait(500);
    }
    actor.link.meet();
}
