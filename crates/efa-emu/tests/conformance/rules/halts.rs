//! Processes that stop, or become something else, anywhere in what they were doing.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Instant;

use efa_fabric::sys::errno as e;
use efa_fabric::{CompletionFlags, PeerAddr, Target};

use crate::link::GOODBYE;
use crate::side::{Actor, DEADLINE, Event, Memory, Pair, Side};

/// Sends and writes to the other side, so many bytes, until it is enough.
fn be_busy((send, write): (usize, usize), pair: &Pair, enough: &AtomicBool) {
    let context = Side::context();
    while !enough.load(Ordering::Relaxed) {
        let (ep, peer) = (&pair.side.ep, pair.target.peer);
        // SAFETY: memory and context are never freed.
        let sent = unsafe { ep.post_senddata(pair.memory.source(send), 1, peer, context) };
        assert!(sent.is_ok(), "{sent:?}");
        let source = pair.memory.source(write);
        // SAFETY: as above.
        let wrote = unsafe { ep.post_writedata(source, 2, pair.target, context) };
        assert!(wrote.is_ok(), "{wrote:?}");
        pair.side.poll();
    }
}

/// Its process runs on under the same number, and what it was to its peers is gone: every operation ends
/// with the error of a dead peer, its announced messages are forgotten, and nothing that it held stays.
pub(crate) fn becomes_another_program(actor: &Actor<'_>) {
    let pair = actor.pair(1 << 20);
    if actor.side == 1 {
        // Announced, if it is not refused: nobody receives it.
        pair.side.send(pair.memory.source(8000), pair.target.peer);
        actor.link.meet();
        say_goodbye();
        std::thread::scope(|scope| {
            scope.spawn(|| be_busy((8, 64), &pair, &AtomicBool::new(false)));
            let start = Instant::now();
            while start.elapsed() < Duration::from_millis(20) {
                core::hint::spin_loop();
            }
            // From one thread, while the other is anywhere.
            let error = std::os::unix::process::CommandExt::exec(
                std::process::Command::new("sleep").arg("2"),
            );
            panic!("{error}");
        });
    }
    actor.link.meet();
    let gone = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| actor.link.hear()));
    assert!(gone.is_err(), "the other side is what it was");
    for _ in 0..3 {
        let source = pair.memory.source(4096);
        pair.side.write(source, Some(1), pair.target);
        pair.side.send(pair.memory.source(8), pair.target.peer);
        pair.side.read(pair.memory.sink(0, 64), pair.target);
        let mut failed = 0;
        let start = Instant::now();
        while failed < 3 {
            assert!(start.elapsed() < DEADLINE, "{failed} of 3");
            for event in pair.side.poll() {
                // What it did before it became something else arrives.
                if let Event::Failed(error) = event {
                    let pair = (error.errno().code(), error.prov_errno());
                    assert_eq!(pair, (e::FI_ECONNABORTED, 13));
                    failed += 1;
                }
            }
        }
    }
    let Pair { side, memory, .. } = pair;
    let start = Instant::now();
    // Deregistration waits for those who use a region, and only for them.
    memory.mr.close().expect("close");
    side.ep.close().expect("close");
    assert!(start.elapsed() < DEADLINE, "{:?}", start.elapsed());
}

/// A peer that is stopped in the middle of anything holds up nothing but itself: every call returns, and
/// others come through, or are done when it goes on.
pub(crate) fn stopped_anywhere(actor: &Actor<'_>) {
    let pair = actor.pair(1 << 16);
    if actor.side == 1 {
        actor.link.tell(&std::process::id().to_string());
        let enough = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| be_busy((8, 64), &pair, &enough));
            let heard =
                std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| actor.link.hear()));
            enough.store(true, Ordering::Relaxed);
            assert_eq!(heard.expect("the other side"), "enough");
        });
        return;
    }
    let pid: i32 = actor.link.hear().parse().expect("a process");
    let signal = |signal| {
        // SAFETY: kill(2): the other side, which lives until it is told.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
    };
    // Whatever happens here, it does not stay stopped: a call that waits for it returns, and is judged.
    let _watch = Watch::over(pid);
    let room = Memory::new(&pair.side.domain, 64);
    let friend = Side::new(actor.info());
    let name = friend.ep.name().expect("name");
    let memory = Memory::new(&friend.domain, 64);
    let target = Target {
        peer: friend.av.insert(&name).expect("insert"),
        addr: memory.addr(),
        key: memory.mr.key(),
    };
    let receive = || {
        let (sink, context) = (room.sink(0, 64), Side::context());
        // SAFETY: memory and context are never freed.
        let posted = unsafe { pair.side.ep.post_recv(sink, PeerAddr::ANY, context) };
        assert!(posted.is_ok(), "{posted:?}");
    };
    for round in 0..300 {
        // Fewer than are sent: some wait for them, at either side.
        (0..8).for_each(|_| receive());
        signal(libc::SIGSTOP);
        let start = Instant::now();
        for _ in 0..20 {
            pair.side.poll();
        }
        // Another endpoint of this process works as ever.
        friend.write(memory.source(8), None, target);
        friend.one().done();
        assert!(start.elapsed() < DEADLINE / 2, "round {round}");
        signal(libc::SIGCONT);
        let start = Instant::now();
        while pair.side.poll().is_empty() {
            receive();
            assert!(start.elapsed() < DEADLINE, "round {round}: nothing comes");
        }
    }
    actor.link.tell("enough");
}

/// Operations under way when the peer is stopped, and killed then.
pub(crate) fn stopped_under_way(actor: &Actor<'_>) {
    killed_while_stopped(actor, false);
}

/// Operations that are posted while it is stopped already, and killed then.
pub(crate) fn stopped_before(actor: &Actor<'_>) {
    killed_while_stopped(actor, true);
}

/// In the middle of copies that need each other's help, both ways: however many operations are under way,
/// all of them end as soon as one, and the receives that the dead one was filling are others' again.
fn killed_while_stopped(actor: &Actor<'_>, stopped_first: bool) {
    const EACH: usize = 50;
    let pair = actor.pair(1 << 20);
    // As long as the fabric takes.
    let long = if actor.is_direct() { 8000 } else { 1 << 20 };
    if actor.side == 1 {
        (0..EACH).for_each(|_| {
            pair.side.recv(pair.memory.sink(0, long));
        });
        say_goodbye();
        actor.link.tell(&std::process::id().to_string());
        be_busy((4096, 1 << 20), &pair, &AtomicBool::new(false));
    }
    let pid: i32 = actor.link.hear().parse().expect("a process");
    let room = Memory::new(&pair.side.domain, 4096 * RECEIVES);
    (0..RECEIVES).for_each(|i| {
        pair.side.recv(room.sink(4096 * i, 4096));
    });
    let signal = |signal| {
        // SAFETY: kill(2): the other side, which lives until it is killed here.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
    };
    if stopped_first {
        signal(libc::SIGSTOP);
    }
    for _ in 0..EACH {
        pair.side.send(pair.memory.source(long), pair.target.peer);
        pair.side
            .write(pair.memory.source(1 << 20), Some(1), pair.target);
        pair.side.read(pair.memory.sink(0, 1 << 20), pair.target);
    }
    let mut seen = Seen::default();
    (0..20).for_each(|_| seen.look(&pair));
    signal(libc::SIGSTOP);
    (0..200).for_each(|_| seen.look(&pair));
    signal(libc::SIGKILL);
    let start = Instant::now();
    while seen.ended < 3 * EACH {
        seen.look(&pair);
        assert!(start.elapsed() < DEADLINE, "{seen:?}");
    }
    find_receives(actor, &pair, seen);
    let Pair { side, memory, .. } = pair;
    memory.mr.close().expect("close");
    side.ep.close().expect("close");
}

/// Receives that the other side may be filling when it dies.
const RECEIVES: usize = 64;

/// What came of them, and of the operations that need it.
#[derive(Debug, Default)]
struct Seen {
    ended: usize,
    received: usize,
}

impl Seen {
    fn look(&mut self, pair: &Pair) {
        for event in pair.side.poll() {
            match event {
                Event::Done(entry) if entry.flags().contains(CompletionFlags::RECV) => {
                    self.received += 1;
                }
                Event::Done(entry) if entry.flags().contains(CompletionFlags::REMOTE_WRITE) => {}
                Event::Done(_) => self.ended += 1,
                Event::Failed(error) => {
                    let both = (error.errno().code(), error.prov_errno());
                    assert_eq!(both, (e::FI_ECONNABORTED, 13));
                    self.ended += 1;
                }
            }
        }
    }
}

/// Those that the dead one did not fill are there for somebody who lives.
fn find_receives(actor: &Actor<'_>, pair: &Pair, mut seen: Seen) {
    let friend = Side::new(actor.info());
    let name = pair.side.ep.name().expect("name");
    let peer = friend.av.insert(&name).expect("insert");
    let memory = Memory::new(&friend.domain, 64);
    let start = Instant::now();
    while seen.received < RECEIVES {
        seen.look(pair);
        // SAFETY: memory and context are never freed.
        let sent = unsafe { friend.ep.post_send(memory.source(8), peer, Side::context()) };
        assert!(sent.is_ok(), "{sent:?}");
        friend.poll();
        assert!(start.elapsed() < DEADLINE, "{seen:?}");
    }
}

/// Tells who waits for this side that its end is meant.
#[expect(
    clippy::print_stderr,
    reason = "who waits for this side must know that it is meant"
)]
fn say_goodbye() {
    eprintln!("{GOODBYE}");
}

/// Lets a process go on at the end, or when it takes too long.
struct Watch(mpsc::Sender<()>);

impl Watch {
    fn over(pid: i32) -> Self {
        let (end, ended) = mpsc::channel();
        std::thread::spawn(move || {
            let _ended = ended.recv_timeout(3 * DEADLINE / 4);
            loop {
                // SAFETY: kill(2): numbers only.
                unsafe { libc::kill(pid, libc::SIGCONT) };
                if ended.recv_timeout(Duration::from_millis(10)) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        });
        Self(end)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _gone = self.0.send(());
    }
}
