//! Faults that a plan asks for: each does what its rule says, and nothing else.

use core::time::Duration;
use std::os::unix::fs::MetadataExt;
use std::time::Instant;

use efa_fabric::sys::errno as e;
use efa_fabric::{PeerAddr, PostFlags, Posted, Target};

use crate::link::GOODBYE;
use crate::side::{Actor, Event, Memory, Pair, Side, entry, hints};

/// Longer than what `efa` keeps for its receiver.
const LONG: usize = 20_000;

/// What the plan of the case is.
fn plan() -> String {
    std::env::var("EFA_EMU_PLAN").expect("a plan")
}

/// The contexts of so many good completions.
fn contexts(side: &Side, count: usize) -> Vec<*mut efa_fabric::Context2> {
    let events = side.wait(count).into_iter();
    events.map(|event| event.done().context()).collect()
}

/// Completions that show twice, at either side, are of one operation: receives are used once, and there is
/// room for as many as ever.
pub(crate) fn doubled(actor: &Actor<'_>) {
    let is_remote = plan().contains("side=remote");
    let (local, remote) = if is_remote { (1, 2) } else { (2, 1) };
    let solicited = std::env::var_os("FI_EFA_USE_UNSOLICITED_WRITE_RECV").is_some();
    let pair = actor.pair(LONG);
    let long = if actor.is_direct() { 4096 } else { LONG };
    let kinds = [("send", 8), ("send", long), ("imm", 8)];
    for (kind, len) in kinds.into_iter().cycle().take(6) {
        if actor.side == 0 {
            actor.link.meet();
            let source = pair.memory.source(len);
            let context = match kind {
                "send" => pair.side.send(source, pair.target.peer),
                _ => pair.side.write(source, Some(7), pair.target),
            };
            assert_eq!(contexts(&pair.side, local), vec![context; local], "{kind}");
            actor.link.meet();
        } else {
            let needs_receive = kind == "send" || (solicited && actor.is_direct());
            let sink = pair.memory.sink(0, len);
            let posted = needs_receive.then(|| pair.side.recv(sink));
            actor.link.meet();
            let posted = posted.unwrap_or(core::ptr::null_mut());
            assert_eq!(contexts(&pair.side, remote), vec![posted; remote], "{kind}");
            actor.link.meet();
        }
    }
    pair.side.silent();
    fill_with_receives(&pair);
    actor.link.meet();
}

/// As many as the queue was opened for, no more.
fn fill_with_receives(pair: &Pair) {
    let room = Memory::new(&pair.side.domain, 64);
    let post = || {
        let (sink, context) = (room.sink(0, 64), Side::context());
        // SAFETY: memory and context are never freed.
        unsafe { pair.side.ep.post_recv(sink, PeerAddr::ANY, context) }
    };
    for n in 0..pair.side.info.rx_size() {
        assert_eq!(post(), Ok(Posted::Accepted), "receive {n}");
    }
    assert_eq!(post(), Ok(Posted::Busy));
}

/// What is too long for its receive is an error that may show twice, and is one.
pub(crate) fn doubled_error(actor: &Actor<'_>) {
    let pair = actor.pair(64);
    if actor.side == 0 {
        actor.link.meet();
        pair.side.send(pair.memory.source(64), pair.target.peer);
        pair.side.one();
    } else {
        pair.side.recv(pair.memory.sink(0, 8));
        actor.link.meet();
        let told = pair.side.wait(2).into_iter().map(Event::failed);
        assert_eq!(told.collect::<Vec<_>>(), [(e::FI_ETRUNC, 11); 2]);
        fill_with_receives(&pair);
    }
    actor.link.meet();
}

/// A key is good for as many operations as the plan says, reads or writes, however many turns the bytes of
/// one take, and what fails before it gets there uses none.
pub(crate) fn revoked_after_uses(actor: &Actor<'_>) {
    let pair = actor.pair(1 << 20);
    if actor.side == 0 {
        let closed = Memory::new(&pair.side.domain, 64);
        let stale = closed.source(64);
        closed.mr.close().expect("close");
        pair.side.write(stale, None, pair.target);
        assert_eq!(pair.side.one().failed(), (e::FI_EINVAL, 5));
        let use_it = |n: usize| {
            if n % 2 == 0 {
                pair.side
                    .write(pair.memory.source(1 << 20), Some(1), pair.target);
            } else {
                pair.side.read(pair.memory.sink(0, 1 << 20), pair.target);
            }
            pair.side.one()
        };
        for n in 0..3 {
            use_it(n).done();
        }
        for n in 0..2 {
            assert_eq!(use_it(n).failed(), (e::FI_EINVAL, 7));
        }
    }
    actor.link.meet();
}

/// Who is to die at a post dies in that call: whatever the post is, and whatever else the plan says of it.
pub(crate) fn dies_at_the_post(actor: &Actor<'_>) {
    let pair = actor.pair(LONG);
    if actor.side == 1 {
        let hear = || {
            let hear = core::panic::AssertUnwindSafe(|| actor.link.hear());
            std::panic::catch_unwind(hear)
        };
        let mut last = String::new();
        while let Ok(line) = hear() {
            last = line;
        }
        assert_eq!(last, std::env::var("EFA_TEST_DIES").expect("where"));
        return;
    }
    say_goodbye();
    let (ep, source, context) = (&pair.side.ep, pair.memory.source(8), Side::context());
    actor.link.tell("recv");
    // SAFETY: memory and context are never freed.
    let _refused = unsafe { ep.post_recv(pair.memory.sink(0, 64), PeerAddr::ANY, context) };
    actor.link.tell("send");
    // SAFETY: as above.
    let _refused = unsafe { ep.post_send(source, pair.target.peer, context) };
    actor.link.tell("imm");
    // SAFETY: as above. No doorbell comes.
    let _refused = unsafe {
        let flags = PostFlags::REMOTE_CQ_DATA | PostFlags::MORE;
        ep.post_writemsg(source, 1, pair.target, context, flags)
    };
    actor.link.tell("read");
    // SAFETY: as above.
    let _refused = unsafe { ep.post_read(pair.memory.sink(0, 8), pair.target, context) };
    actor.link.tell("alive");
}

/// Tells who waits for this side that its end is meant.
#[expect(
    clippy::print_stderr,
    reason = "who waits for this side must know that it is meant"
)]
fn say_goodbye() {
    eprintln!("{GOODBYE}");
}

/// With the NIC everything ends that is pending on it, receives too, with the code of the plan.
pub(crate) fn all_ends_with_the_nic(actor: &Actor<'_>) {
    let pair = actor.pair(LONG);
    if actor.side == 0 {
        let mut pending = vec![
            pair.side.recv(pair.memory.sink(0, 64)),
            pair.side.recv(pair.memory.sink(64, 64)),
        ];
        pair.side.write(pair.memory.source(8), None, pair.target);
        pair.side.one().done();
        // Nobody receives it.
        let long = if actor.is_direct() { 8 } else { LONG };
        pending.push(pair.side.send(pair.memory.source(long), pair.target.peer));
        pair.side.silent();
        pending.push(pair.side.write(pair.memory.source(8), None, pair.target));
        let mut ended = Vec::new();
        for event in pair.side.wait(pending.len()) {
            let Event::Failed(error) = event else {
                panic!("{event:?}");
            };
            let both = (error.errno().code(), error.prov_errno());
            assert_eq!(both, (e::FI_ECONNABORTED, 8));
            ended.push(error.context());
        }
        ended.sort();
        pending.sort();
        assert_eq!(ended, pending);
        // SAFETY: memory and context are never freed.
        let posted = unsafe {
            let sink = pair.memory.sink(0, 64);
            pair.side.ep.post_recv(sink, PeerAddr::ANY, Side::context())
        };
        assert_eq!(posted.expect_err("lost").errno().code(), e::FI_EIO);
        pair.side.silent();
    }
    actor.link.meet();
}

/// Errors show as late as what is good: the plan's own, and those that come by themselves.
pub(crate) fn late_errors(actor: &Actor<'_>) {
    let by = Duration::from_millis(300);
    let pair = actor.pair(64);
    if actor.side == 0 {
        let key = u64::from(u32::MAX);
        let nowhere = Target { key, ..pair.target };
        for (data, target) in [(Some(1), pair.target), (None, nowhere)] {
            let start = Instant::now();
            pair.side.write(pair.memory.source(8), data, target);
            assert_eq!(pair.side.one().failed(), (e::FI_EINVAL, 7));
            assert!(start.elapsed() >= by, "{:?}", start.elapsed());
        }
    }
    actor.link.meet();
}

/// Bytes that the files of shared memory take.
fn taken() -> u64 {
    let dir = std::env::var("EFA_EMU_DIR").expect("a directory");
    let files = std::fs::read_dir(dir).expect("files");
    let sizes = files.map(|file| {
        let meta = file.expect("a file").metadata();
        meta.map_or(0, |meta| meta.blocks() * 512)
    });
    sizes.sum()
}

/// An endpoint that closes gives back the shared memory that it had, whatever was in it: that of many, one
/// after the other, is that of one.
pub(crate) fn given_back(actor: &Actor<'_>) {
    if actor.side == 1 {
        return actor.link.meet();
    }
    let mut least = u64::MAX;
    for _ in 0..40 {
        let side = Side::new(actor.info());
        let memory = Memory::new(&side.domain, 64);
        let name = side.ep.name().expect("name");
        let own = Target {
            peer: side.av.insert(&name).expect("insert"),
            addr: memory.addr(),
            key: memory.mr.key(),
        };
        if !actor.is_direct() {
            // Kept before its receive.
            side.send(memory.source(8), own.peer);
            side.one().done();
        }
        side.write(memory.source(8), Some(1), own);
        side.wait(2);
        side.recv(memory.sink(0, 64));
        let Side { ep, .. } = side;
        ep.close().expect("close");
        least = least.min(taken());
    }
    let now = taken();
    assert!(now < least + (1 << 20), "{now} bytes, and {least} before");
    actor.link.meet();
}

/// A NIC that hangs, or whose queues nobody reads, is one of several: the others go on.
pub(crate) fn one_of_several(actor: &Actor<'_>) {
    if actor.side == 0 {
        let write = |nic: usize| {
            let side = Side::new(entry(&hints(), actor.fabric.name(), nic));
            let memory = Memory::new(&side.domain, 64);
            let name = side.ep.name().expect("name");
            let own = Target {
                peer: side.av.insert(&name).expect("insert"),
                addr: memory.addr(),
                key: memory.mr.key(),
            };
            side.write(memory.source(8), None, own);
            (side, memory)
        };
        let (hangs, first) = (write(0), write(1));
        first.0.one().done();
        hangs.0.silent();
        write(1).0.one().done();
    }
    actor.link.meet();
}

/// Writes that hang with their NIC keep nothing that those of others need.
pub(crate) fn nothing_kept_by_a_hanging_nic(actor: &Actor<'_>) {
    const LONG: usize = 1 << 20;
    let [hangs, other] = [0, 1].map(|nic| {
        let side = Side::new(entry(&hints(), actor.fabric.name(), nic));
        actor.pair_of(side, LONG)
    });
    if actor.side == 0 {
        // They are under way when the last one's post has the NIC hang.
        for _ in 0..19 {
            hangs
                .side
                .write(hangs.memory.source(LONG), None, hangs.target);
        }
        hangs.side.poll();
        hangs.side.write(hangs.memory.source(8), None, hangs.target);
        for _ in 0..4 {
            other
                .side
                .write(other.memory.source(LONG), None, other.target);
        }
        for done in other.side.wait(4) {
            done.done();
        }
    }
    actor.link.meet();
}
