//! Ends: of endpoints, of regions, of processes.

use efa_fabric::sys::errno as e;
use efa_fabric::{Errno, Target};

use crate::link::GOODBYE;
use crate::side::{Actor, Event, Memory, Side};

/// What is pending when an endpoint closes is flushed, if the queue is still there.
pub(crate) fn flushed(actor: &Actor<'_>) {
    let pair = actor.pair(20_000);
    actor.link.meet();
    if actor.side == 0 {
        let posted = pair.side.recv(pair.memory.sink(0, 64));
        // Nobody receives it, and `efa` keeps only shorter ones for the receiver.
        let len = if actor.is_direct() { 8 } else { 20_000 };
        let sent = pair.side.send(pair.memory.source(len), pair.target.peer);
        pair.side.silent();
        let Side { ep, cq, .. } = pair.side;
        ep.close().expect("close");
        let mut contexts = Vec::new();
        while let Ok(Some(error)) = cq.read_error() {
            assert_eq!((error.errno(), error.prov_errno()), (Errno::ECANCELED, 1));
            contexts.push(error.context());
        }
        contexts.sort();
        let mut expected = vec![posted, sent];
        expected.sort();
        assert_eq!(contexts, expected);
    }
    actor.link.meet();
}

/// An endpoint that closed is gone, and who comes after it is somebody else.
pub(crate) fn nobody_any_more(actor: &Actor<'_>) {
    let pair = actor.pair(64);
    if actor.side == 0 {
        pair.side.write(pair.memory.source(8), None, pair.target);
        pair.side.one().done();
        actor.link.meet();
        actor.link.meet();
        pair.side.write(pair.memory.source(8), None, pair.target);
        assert_eq!(pair.side.one().failed(), (e::FI_ENOTCONN, 9));
        pair.side.send(pair.memory.source(8), pair.target.peer);
        assert_eq!(pair.side.one().failed(), (e::FI_ENOTCONN, 9));
        actor.link.meet();
    } else {
        actor.link.meet();
        let Side { ep, .. } = pair.side;
        ep.close().expect("close");
        let successor = Side::new(actor.info());
        let memory = Memory::new(&successor.domain, 64);
        successor.recv(memory.sink(0, 64));
        actor.link.meet();
        actor.link.meet();
        successor.silent();
    }
}

/// After a region is closed no peer touches its memory.
pub(crate) fn deregistered_means_untouched(actor: &Actor<'_>) {
    let pair = actor.pair(1 << 20);
    pair.memory.fill(u8::try_from(actor.side).unwrap_or(0));
    for _ in 0..5 {
        if actor.side == 0 {
            let line = actor.link.hear();
            let (addr, key) = line.split_once(' ').expect("two numbers");
            let number = |text: &str| text.parse().expect("a number");
            let target = Target {
                addr: number(addr),
                key: number(key),
                ..pair.target
            };
            for _ in 0..8 {
                pair.side.write(pair.memory.source(1 << 20), None, target);
            }
            for event in pair.side.wait(8) {
                match event {
                    Event::Done(_) => {}
                    Event::Failed(error) => {
                        assert_eq!((error.errno(), error.prov_errno()), (Errno::EINVAL, 7));
                    }
                }
            }
        } else {
            let region = Memory::new(&pair.side.domain, 1 << 20);
            let Memory { mr, ptr, len } = region;
            let (addr, key) = (ptr.expose_provenance(), mr.key());
            actor.link.tell(&format!("{addr} {key}"));
            // Somewhere in the middle.
            let at = |i: usize| {
                assert!(i < len);
                // SAFETY: in bounds, never freed, volatile.
                unsafe { ptr.wrapping_add(i).read_volatile() }
            };
            let start = std::time::Instant::now();
            while at(len - 1) == 0 && start.elapsed().as_millis() < 50 {
                pair.side.poll();
            }
            mr.close().expect("close");
            for i in 0..len {
                // SAFETY: as above.
                unsafe { ptr.wrapping_add(i).write_volatile(0xee) };
            }
            for _ in 0..2000 {
                pair.side.poll();
            }
            assert!((0..len).all(|i| at(i) == 0xee), "written after its end");
        }
        actor.link.meet();
    }
}

/// What is used by others does not close before them.
pub(crate) fn closed_in_order(actor: &Actor<'_>) {
    let side = Side::new(actor.info());
    let memory = Memory::new(&side.domain, 64);
    let Side {
        ep, cq, av, domain, ..
    } = side;
    let cq = cq.close().expect_err("bound").object;
    let av = av.close().expect_err("bound").object;
    let domain = domain.close().expect_err("in use").object;
    ep.close().expect("close");
    cq.close().expect("close");
    av.close().expect("close");
    let domain = domain.close().expect_err("a region").object;
    memory.mr.close().expect("close");
    domain.close().expect("close");
}

/// Kills this process, as its rule says.
#[expect(
    clippy::print_stderr,
    reason = "who waits for this side must know that it is meant"
)]
pub(super) fn die() -> ! {
    eprintln!("{GOODBYE}");
    // SAFETY: raise(3): no memory is involved.
    unsafe { libc::raise(libc::SIGKILL) };
    unreachable!("the signal cannot be held off")
}

/// The device finds out, and every operation ends with an error.
pub(crate) fn dead_peer(actor: &Actor<'_>) {
    let pair = actor.pair(4096);
    if actor.side == 1 {
        actor.link.meet();
        die();
    }
    pair.side
        .write(pair.memory.source(4096), Some(1), pair.target);
    pair.side.one().done();
    actor.link.tell("here");
    actor.wait_until_it_is_gone();
    for _ in 0..3 {
        pair.side
            .write(pair.memory.source(4096), Some(1), pair.target);
        pair.side.send(pair.memory.source(8), pair.target.peer);
        pair.side.read(pair.memory.sink(0, 64), pair.target);
        for event in pair.side.wait(3) {
            assert_eq!(event.failed(), (e::FI_ECONNABORTED, 13));
        }
    }
}

/// A sender that dies while it sends leaves a receiver that works: nothing is locked or lost for good.
pub(crate) fn dies_in_the_middle(actor: &Actor<'_>) {
    let pair = actor.pair(1 << 20);
    if actor.side == 1 {
        let context = Side::context();
        let source = pair.memory.source(8);
        actor.link.meet();
        // The other thread dies anywhere in what this one does.
        std::thread::spawn(|| {
            let start = std::time::Instant::now();
            while start.elapsed().as_millis() < 30 {
                core::hint::spin_loop();
            }
            die();
        });
        loop {
            // SAFETY: memory and context are never freed.
            let posted = unsafe {
                pair.side
                    .ep
                    .post_senddata(source, 1, pair.target.peer, context)
            };
            assert!(posted.is_ok(), "{posted:?}");
            pair.side.poll();
        }
    }
    let room = Memory::new(&pair.side.domain, 64);
    for _ in 0..500 {
        pair.side.recv(room.sink(0, 64));
    }
    actor.link.tell("here");
    actor.wait_until_it_is_gone();
    // All receives are still good for somebody else, but for those that were used.
    let used = {
        let mut used = 0;
        for _ in 0..5000 {
            used += pair.side.poll().len();
        }
        used
    };
    let friend = Side::new(actor.info());
    let memory = Memory::new(&friend.domain, 64);
    let name = pair.side.ep.name().expect("name");
    let peer = friend.av.insert(&name).expect("insert");
    // One may have been claimed by the dead: it comes back when the receiver closes, or is idle.
    let left = 500 - used.min(500);
    for _ in 0..left.saturating_sub(1).min(100) {
        friend.send(memory.source(8), peer);
        friend.one().done();
        pair.side.one().done();
    }
    let Side { ep, .. } = pair.side;
    ep.close().expect("close");
}
