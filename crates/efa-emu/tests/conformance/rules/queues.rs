//! Queues: how much they hold, and what they tell.

use efa_fabric::sys::{bindings as b, consts as c, errno as e, ops};
use efa_fabric::{
    Av, CompletionFlags, Cq, CqBind, CqEntry, CqPoll, Domain, Endpoint, Fabric, PeerAddr,
    PostFlags, Posted, Target,
};

use crate::side::{Actor, DEADLINE, Event, Memory, Side, strerror};

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
    // The last is more than waits in shared memory.
    for entries in [8, 1000, 9000] {
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

/// The bound is one of the queue (fi_cq(3): its size): of all endpoints that are bound to it, and of all that
/// it tells together.
pub(crate) fn bounded_as_one(actor: &Actor<'_>) {
    const ENTRIES: usize = 16;
    const OWN: usize = 6;
    const EACH: usize = 20;
    // One side has a small queue for two endpoints.
    let size = if actor.side == 0 { 4096 } else { ENTRIES };
    let sides = two_endpoints(actor, size);
    let memory = Memory::new(&sides[0].domain, 64);
    let targets = [0, 1].map(|i| actor.introduce(&sides[i], &memory));
    let [written, told] = &sides;
    if actor.side == 0 {
        actor.link.meet();
        for data in 0..EACH as u64 {
            written.write(memory.source(8), Some(data), targets[0]);
            told.send(memory.source(8), targets[1].peer);
        }
        // As many as there are places, but for those that the other side has for itself.
        let mut told = written.wait(ENTRIES - OWN).len();
        let mut quiet = 0;
        while quiet < 2000 {
            let events = written.poll();
            quiet = if events.is_empty() { quiet + 1 } else { 0 };
            told += events.into_iter().map(Event::done).count();
        }
        assert!(told <= ENTRIES, "{told}");
        actor.link.meet();
        written.wait(2 * EACH - told);
    } else {
        for _ in 0..EACH {
            told.recv(memory.sink(0, 8));
        }
        let room = Memory::new(&written.domain, 64);
        let own = Target {
            peer: written
                .av
                .insert(&written.ep.name().expect("name"))
                .expect("insert"),
            addr: room.addr(),
            key: room.mr.key(),
        };
        memory.fill(1);
        for i in 0..OWN {
            let addr = room.addr() + 8 * i as u64;
            written.write(memory.source(8), None, Target { addr, ..own });
        }
        // It happens though nobody reads.
        let start = std::time::Instant::now();
        while !(0..OWN).all(|i| room.has(8 * i..8 * i + 8, 1)) {
            assert!(start.elapsed() < DEADLINE, "nothing happens by itself");
            std::thread::yield_now();
        }
        actor.link.meet();
        actor.link.meet();
        let mut all = [CqEntry::EMPTY; 4 * ENTRIES];
        let first = written.cq.read_batch(&mut all).expect("a queue");
        assert_eq!(first, CqPoll::Entries(ENTRIES));
        let more = written.wait(OWN + 2 * EACH - ENTRIES);
        let more = more.into_iter().map(Event::done);
        let all = all[..ENTRIES].iter().copied().chain(more);
        assert_eq!(kinds(all), [OWN, EACH, EACH]);
    }
    actor.link.meet();
}

/// A queue of one entry tells of both ends of an operation to itself, one after the other.
pub(crate) fn one_place_for_both_ends(actor: &Actor<'_>) {
    let side = Side::with(actor.info(), 1, |_| {});
    let memory = Memory::new(&side.domain, 64);
    let own = Target {
        peer: side
            .av
            .insert(&side.ep.name().expect("name"))
            .expect("insert"),
        addr: memory.addr(),
        key: memory.mr.key(),
    };
    for _ in 0..20 {
        side.write(memory.source(8), Some(1), own);
    }
    let entries = side.wait(40).into_iter().map(Event::done);
    assert_eq!(kinds(entries), [20, 20, 0]);
    // What is over when its endpoint closes is told as it went, and nothing is lost.
    for _ in 0..4 {
        side.write(memory.source(8), None, own);
    }
    let Side { ep, cq, .. } = side;
    ep.close().expect("close");
    let mut all = [CqEntry::EMPTY; 8];
    let mut ended = 0;
    while ended < 4 {
        match cq.read_batch(&mut all).expect("a queue") {
            CqPoll::Entries(count) => ended += count,
            CqPoll::ErrorAvailable => ended += cq.read_error().expect("a queue").iter().count(),
            CqPoll::Empty => panic!("{ended} of 4"),
        }
    }
    actor.link.meet();
}

/// Endpoints that share a queue of so many entries, and a vector.
fn two_endpoints(actor: &Actor<'_>, entries: usize) -> [Side; 2] {
    let info = actor.info();
    let fabric = Fabric::open(&info).expect("fabric");
    let domain = Domain::open(&fabric, &info).expect("domain");
    let av = Av::open(&domain).expect("vector");
    let cq = Cq::open(&domain, entries).expect("queue");
    [(); 2].map(|()| {
        let mut setup = Endpoint::open(&domain, &info).expect("endpoint");
        let both = CqBind::TRANSMIT | CqBind::RECV;
        setup.bind_cq(&cq, both).expect("bind");
        setup.bind_av(&av).expect("bind");
        Side {
            ep: setup.enable().expect("enable"),
            cq: cq.clone(),
            av: av.clone(),
            domain: domain.clone(),
            info: actor.info(),
        }
    })
}

/// How many are own writes, writes of others, and messages.
fn kinds(entries: impl Iterator<Item = CqEntry>) -> [usize; 3] {
    let mut seen = [0; 3];
    for entry in entries {
        let kinds = [
            CompletionFlags::WRITE,
            CompletionFlags::REMOTE_WRITE,
            CompletionFlags::RECV,
        ];
        let kind = kinds.iter().position(|kind| entry.flags().contains(*kind));
        seen[kind.expect("one of these")] += 1;
    }
    seen
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
