//! Messages before their receives, on the fabric `efa`; efa-direct has receivers that are not ready.

use core::ffi::c_void;

use efa_fabric::sys::{consts as c, errno as e, ops};
use efa_fabric::{Caps, CompletionFlags, Hints, InfoBuf, PostFlags, Posted};

use crate::run::Fabric;
use crate::side::{Actor, Event, Pair, Side, entry, modes};

use super::ends::die;

/// Longer ones are announced only.
const LONG: usize = 100_000;

/// The entry with tagged messages.
pub(super) fn tagged() -> InfoBuf {
    let hints = Hints::rdm(Caps::MSG | Caps::RMA | Caps::TAGGED)
        .provider(c"efa")
        .mr_mode(modes());
    entry(&hints, Fabric::Rdm.name(), 0)
}

fn pair(actor: &Actor<'_>, bytes: usize) -> Option<Pair> {
    (!actor.is_direct()).then(|| actor.pair_of(Side::new(tagged()), bytes))
}

/// Sends bytes under a tag, once there is room; whether there was.
fn offers(pair: &Pair, len: usize, tag: u64) -> bool {
    let (source, to) = (pair.memory.source(len), pair.target.peer.as_raw());
    let (buf, desc) = (source.ptr.cast::<c_void>(), pair.memory.mr.desc().as_raw());
    let context = Side::context().cast();
    // SAFETY: fi_tagged(3): memory and context are never freed.
    let code = unsafe { ops::fi_tsend(pair.side.raw(), buf, len, desc, to, tag, context) };
    assert!(code == 0 || code == -(e::FI_EAGAIN as isize), "{code}");
    code == 0
}

fn sends(pair: &Pair, len: usize, tag: u64) {
    assert!(offers(pair, len, tag));
}

fn receives(pair: &Pair, (at, len): (usize, usize), tag: u64, ignore: u64) -> *mut c_void {
    let into = pair.memory.sink(at, len);
    let (buf, desc) = (into.ptr.cast::<c_void>(), pair.memory.mr.desc().as_raw());
    let context = Side::context().cast();
    let any = efa_fabric::PeerAddr::ANY.as_raw();
    // SAFETY: fi_tagged(3): memory and context are never freed.
    let code = unsafe { ops::fi_trecv(pair.side.raw(), buf, len, desc, any, tag, ignore, context) };
    assert_eq!(code, 0);
    context
}

/// A short one leaves with its bytes, and its buffer may be used again; a long one stays with its sender.
pub(crate) fn kept_or_announced(actor: &Actor<'_>) {
    let Some(pair) = pair(actor, 2 * LONG) else {
        return;
    };
    if actor.side == 0 {
        pair.memory.fill(7);
        sends(&pair, 1000, 1);
        let sent = pair.side.one().done();
        let flags = CompletionFlags::SEND | CompletionFlags::TAGGED;
        assert_eq!(sent.flags(), flags);
        pair.memory.fill(9);
        sends(&pair, LONG, 2);
        pair.side.silent();
        actor.link.meet();
        pair.side.one().done();
    } else {
        actor.link.meet();
        pair.side.silent();
        let first = receives(&pair, (0, 2000), 1, 0);
        let received = pair.side.one().done();
        assert_eq!((received.context().cast(), received.len()), (first, 1000));
        assert!(pair.memory.has(0..1000, 7));
        receives(&pair, (0, LONG), 2, 0);
        assert_eq!(pair.side.one().done().len(), LONG);
        assert!(pair.memory.has(0..LONG, 9));
    }
    actor.link.meet();
}

/// More than the queue holds wait for their receives, and others pass; each finds its own, in the order of
/// sending where several fit.
pub(crate) fn none_waits_for_another(actor: &Actor<'_>) {
    const EACH: u64 = 600;
    let Some(pair) = pair(actor, LONG) else {
        return;
    };
    if actor.side == 0 {
        let mut told = 0;
        for tag in 0..EACH {
            for len in [8 + usize::try_from(tag).expect("a length"), LONG] {
                while !offers(&pair, len, tag) {
                    told += pair.side.poll().len();
                }
            }
        }
        sends(&pair, LONG, EACH);
        actor.link.meet();
        let all = 2 * usize::try_from(EACH).expect("a number") + 1;
        pair.side.wait(all - told);
    } else {
        actor.link.meet();
        receives(&pair, (0, LONG), EACH, 0);
        assert_eq!(pair.side.one().done().len(), LONG);
        // The last ones first, and those for which the tag is the same in order.
        for tag in (EACH / 2..EACH).rev() {
            for expected in [8 + usize::try_from(tag).expect("a length"), LONG] {
                receives(&pair, (0, LONG), tag, 0);
                assert_eq!(pair.side.one().done().len(), expected);
            }
        }
        // Any tag: the oldest.
        for tag in 0..EACH / 2 {
            for expected in [8 + usize::try_from(tag).expect("a length"), LONG] {
                receives(&pair, (0, LONG), 0, u64::MAX);
                assert_eq!(pair.side.one().done().len(), expected);
            }
        }
    }
    actor.link.meet();
}

/// A long one is lost with its sender's endpoint: its receive is nobody's of that sender's, and what came
/// after it is for the next.
pub(crate) fn lost_with_its_endpoint(actor: &Actor<'_>) {
    let Some(pair) = pair(actor, LONG) else {
        return;
    };
    if actor.side == 1 {
        send_long_and_short(&pair);
        let Side { ep, .. } = pair.side;
        ep.close().expect("close");
        actor.link.meet();
    } else {
        actor.link.meet();
        find_the_short_one(&pair, receives(&pair, (0, LONG), 1, 0));
    }
    actor.link.meet();
}

/// And with its process.
pub(crate) fn lost_with_its_process(actor: &Actor<'_>) {
    let Some(pair) = pair(actor, LONG) else {
        return;
    };
    if actor.side == 1 {
        send_long_and_short(&pair);
        actor.link.meet();
        die();
    }
    actor.link.meet();
    actor.wait_until_it_is_gone();
    let_it_be_found_out(&pair);
    find_the_short_one(&pair, receives(&pair, (0, LONG), 1, 0));
}

/// And after it met its receive, where nobody makes progress for its sender.
pub(crate) fn lost_when_it_has_its_receive(actor: &Actor<'_>) {
    let Some(pair) = pair(actor, LONG) else {
        return;
    };
    if actor.side == 1 {
        send_long_and_short(&pair);
        actor.link.meet();
        actor.link.meet();
        die();
    }
    actor.link.meet();
    let first = receives(&pair, (0, LONG), 1, 0);
    actor.link.meet();
    actor.wait_until_it_is_gone();
    let_it_be_found_out(&pair);
    find_the_short_one(&pair, first);
}

fn send_long_and_short(pair: &Pair) {
    sends(pair, LONG, 1);
    sends(pair, 60, 1);
    // The short one leaves with its bytes.
    assert_eq!(
        pair.side.one().done().flags(),
        CompletionFlags::SEND | CompletionFlags::TAGGED
    );
}

/// An owner looks now and then whether those live who have something of its own.
fn let_it_be_found_out(pair: &Pair) {
    let start = std::time::Instant::now();
    while start.elapsed().as_millis() < 200 {
        pair.side.silent();
    }
}

/// The first receive of two is not for what its sender sent after the message that is lost, but for others.
fn find_the_short_one(pair: &Pair, first: *mut c_void) {
    let second = receives(pair, (0, LONG), 1, 0);
    let received = pair.side.one().done();
    assert_eq!((received.context().cast(), received.len()), (second, 60));
    pair.side.silent();
    let own = pair.side.ep.name().expect("name");
    let own = pair.side.av.insert(&own).expect("insert");
    let (buf, desc) = (
        pair.memory.source(7).ptr.cast(),
        pair.memory.mr.desc().as_raw(),
    );
    // SAFETY: fi_tagged(3): memory and context are never freed.
    let code = unsafe {
        let context = Side::context().cast();
        ops::fi_tsend(pair.side.raw(), buf, 7, desc, own.as_raw(), 1, context)
    };
    assert_eq!(code, 0);
    let mut ends = pair.side.wait(2).into_iter().map(Event::done);
    assert!(ends.any(|end| (end.context().cast(), end.len()) == (first, 7)));
}

/// One that does not fit in its receive ends it, with what fits; its sender does not learn of it.
pub(crate) fn kept_and_too_long(actor: &Actor<'_>) {
    let Some(pair) = pair(actor, 1000) else {
        return;
    };
    if actor.side == 0 {
        pair.memory.fill(6);
        sends(&pair, 1000, 5);
        pair.side.one().done();
        actor.link.meet();
    } else {
        actor.link.meet();
        receives(&pair, (0, 100), 5, 0);
        assert_eq!(pair.side.one().failed(), (e::FI_ETRUNC, 11));
        assert!(pair.memory.has(0..100, 6));
        assert_eq!(pair.memory.at(100), 0);
    }
    actor.link.meet();
}

/// What the receiver keeps has an end: then messages wait with their senders, and EAGAIN tells of it; all
/// arrive in the end.
pub(crate) fn kept_within_bounds(actor: &Actor<'_>) {
    let Some(pair) = pair(actor, 64) else {
        return;
    };
    if actor.side == 0 {
        let (mut sent, mut told, mut refused) = (0_usize, 0, 0);
        // A receiver keeps some thousands.
        while refused < 3000 {
            if offers(&pair, 8, 3) {
                (sent, refused) = (sent + 1, 0);
            } else {
                refused += 1;
            }
            told += pair.side.poll().len();
            assert!(sent < 20_000, "no end");
        }
        assert_eq!(sent, told + pair.side.info.tx_size());
        actor.link.tell(&sent.to_string());
        pair.side.wait(sent - told);
    } else {
        let sent: usize = actor.link.hear().parse().expect("a number");
        for _ in 0..sent {
            receives(&pair, (0, 64), 3, 0);
            assert!(pair.side.one().done().flags().bits() & c::FI_RECV != 0);
        }
    }
    actor.link.meet();
}

/// Where the sender wants to know that it is delivered (FI_DELIVERY_COMPLETE), a message of any length, by
/// value or not, completes with its receive and no sooner.
pub(crate) fn delivered(actor: &Actor<'_>) {
    let pair = actor.pair(LONG);
    let (done, value) = (PostFlags::DELIVERY_COMPLETE, PostFlags::INJECT);
    for (len, flags) in [(0, done), (64, done), (64, done | value), (8192, done)] {
        // The device of efa-direct has its own lengths.
        let len = if actor.is_direct() {
            len.min(4096)
        } else {
            len
        };
        let sizes = actor.is_direct() && flags.contains(value);
        let len = if sizes { len.min(32) } else { len };
        if actor.side == 0 {
            let (source, context) = (pair.memory.source(len), Side::context());
            let flags = flags | PostFlags::COMPLETION;
            // SAFETY: memory and context are never freed.
            let posted = unsafe {
                let to = pair.target.peer;
                pair.side.ep.post_sendmsg(source, 0, to, context, flags)
            };
            assert_eq!(posted, Ok(Posted::Accepted), "{len} {flags:?}");
            pair.side.silent();
            actor.link.meet();
            assert_eq!(pair.side.one().done().context(), context, "{len}");
        } else {
            actor.link.meet();
            pair.side.recv(pair.memory.sink(0, len));
            assert_eq!(pair.side.one().done().len(), len);
        }
        actor.link.meet();
    }
}
