//! Queues: how much they hold, and what they tell.

use efa_fabric::sys::{bindings as b, consts as c, errno as e, ops};
use efa_fabric::{Av, Cq, CqBind, Domain, Endpoint, Fabric, PeerAddr, PostFlags, Posted, Target};

use crate::side::{Actor, Event, Memory, Side, strerror};

/// EAGAIN at the depths that the entry tells, and no sooner.
pub(crate) fn full_at_its_depth(actor: &Actor<'_>) {
    let pair = actor.pair(64);
    let (tx, rx) = (pair.side.info.tx_size(), pair.side.info.rx_size());
    assert_eq!((tx, rx), (256, 1024));
    let room = Memory::new(&pair.side.domain, 64);
    for _ in 0..rx {
        pair.side.recv(room.sink(0, 64));
    }
    let context = Side::context();
    // SAFETY: memory and context are never freed.
    let more = unsafe {
        pair.side
            .ep
            .post_recv(room.sink(0, 64), PeerAddr::ANY, context)
    };
    assert_eq!(more, Ok(Posted::Busy));
    actor.link.meet();
    if actor.side == 0 {
        let send = || {
            let (source, context) = (pair.memory.source(8), Side::context());
            // SAFETY: as above.
            unsafe { pair.side.ep.post_send(source, pair.target.peer, context) }
        };
        for _ in 0..tx {
            assert_eq!(send(), Ok(Posted::Accepted));
        }
        // The device may have begun meanwhile, so there may be room again, but not for ever.
        let mut more = 0;
        while send() == Ok(Posted::Accepted) {
            more += 1;
            assert!(more <= 10 * tx, "no end");
        }
        pair.side.wait(tx + more);
        actor.link.tell(&(tx + more).to_string());
    } else {
        let sent = actor.link.hear().parse().expect("a number");
        pair.side.wait(sent);
        // A receive that was used makes room for one.
        pair.side.recv(room.sink(0, 64));
    }
    actor.link.meet();
}

/// A queue holds what it was opened for, and loses none of what is more: who fills it waits.
pub(crate) fn bounded(actor: &Actor<'_>) {
    for entries in [8, 1000, 8192] {
        bounded_by(actor, entries);
    }
}

fn bounded_by(actor: &Actor<'_>, entries: usize) {
    const MORE: usize = 50;
    let side = Side::with(actor.info(), entries, |_| {});
    let pair = actor.pair_of(side, 64);
    let all = entries + MORE;
    if actor.side == 0 {
        let (mut posted, mut done) = (0, 0);
        while done < entries {
            while posted < all && posted - done < 2 * MORE {
                let data = u64::try_from(posted).expect("a number");
                pair.side
                    .write(pair.memory.source(8), Some(data), pair.target);
                posted += 1;
            }
            let events = pair.side.poll();
            if events.is_empty() {
                std::thread::yield_now();
            }
            done += events.into_iter().map(Event::done).count();
        }
        assert_eq!((posted, done), (all, entries));
        pair.side.silent();
        actor.link.meet();
        pair.side.wait(MORE);
    } else {
        actor.link.meet();
        let events = pair.side.wait(all);
        let data = events.into_iter().map(|event| event.done().data());
        let mut data: Vec<u64> = data.collect();
        data.sort_unstable();
        assert!(data.into_iter().eq(0..all as u64));
    }
    actor.link.meet();
}

/// Bound for completions on demand, only those that are asked for are told, and errors.
pub(crate) fn completions_on_demand(actor: &Actor<'_>) {
    let info = actor.info();
    let fabric = Fabric::open(&info).expect("fabric");
    let domain = Domain::open(&fabric, &info).expect("domain");
    let (cq, av) = (
        Cq::open(&domain, 64).expect("queue"),
        Av::open(&domain).expect("vector"),
    );
    let mut setup = Endpoint::open(&domain, &info).expect("endpoint");
    setup
        .bind_cq(&cq, CqBind::TRANSMIT | CqBind::SELECTIVE)
        .expect("bind");
    setup.bind_cq(&cq, CqBind::RECV).expect("bind");
    setup.bind_av(&av).expect("bind");
    let ep = setup.enable().expect("enable");
    let side = Side {
        ep,
        cq,
        av,
        domain,
        info,
    };
    let pair = actor.pair_of(side, 64);
    if actor.side == 0 {
        pair.side.write(pair.memory.source(8), None, pair.target);
        let (source, context) = (pair.memory.source(8), Side::context());
        let flags = PostFlags::COMPLETION;
        // SAFETY: memory and context are never freed.
        let posted = unsafe {
            pair.side
                .ep
                .post_writemsg(source, 0, pair.target, context, flags)
        };
        assert_eq!(posted, Ok(Posted::Accepted));
        assert_eq!(pair.side.one().done().context(), context);
        pair.side.silent();
        let bad = Target {
            key: pair.target.key ^ 1,
            ..pair.target
        };
        pair.side.write(pair.memory.source(8), None, bad);
        assert_eq!(pair.side.one().failed(), (e::FI_EINVAL, 7));
    }
    actor.link.meet();
}

pub(crate) fn errors_have_words(actor: &Actor<'_>) {
    let pair = actor.pair(64);
    if actor.side == 0 {
        let bad = Target {
            key: pair.target.key ^ 1,
            ..pair.target
        };
        pair.side.write(pair.memory.source(8), None, bad);
        let Event::Failed(error) = pair.side.one() else {
            panic!("no error");
        };
        assert!(error.text().contains("Invalid remote key"), "{error}");
        let words: Vec<String> = [1, 5, 7, 8, 9, 10, 11, 13, 14, 15]
            .into_iter()
            .map(|number| strerror(&pair.side.cq, number))
            .collect();
        let mut unique = words.clone();
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), words.len(), "{words:?}");
        assert_eq!(strerror(&pair.side.cq, 999), "Unknown error");
    }
    actor.link.meet();
}

/// What EFA has and is not played says so, and nothing is half made.
pub(crate) fn what_is_refused(actor: &Actor<'_>) {
    let pair = actor.pair(64);
    let (domain, mut cq) = (pair.side.domain.as_raw(), core::ptr::null_mut());
    // SAFETY: all zero is a valid fi_cq_attr.
    let mut attr: b::fi_cq_attr = unsafe { core::mem::zeroed() };
    attr.wait_obj = b::FI_WAIT_FD;
    // SAFETY: fi_cq(3): an open domain, attributes, and where the object would go.
    let code =
        unsafe { ops::fi_cq_open(domain, &raw mut attr, &raw mut cq, core::ptr::null_mut()) };
    assert_eq!((code, cq.is_null()), (-e::FI_ENOSYS, true));
    let receive = b::fi_msg {
        msg_iov: core::ptr::null(),
        desc: core::ptr::null_mut(),
        iov_count: 0,
        addr: PeerAddr::ANY.as_raw(),
        context: core::ptr::null_mut(),
        data: 0,
    };
    // SAFETY: fi_msg(3): no pieces; it is refused for its flag.
    let code = unsafe { ops::fi_recvmsg(pair.side.raw(), &raw const receive, c::FI_MULTI_RECV) };
    assert!(code < 0 && code != -(e::FI_EAGAIN as isize), "{code}");
    actor.link.meet();
}
