//! Remote memory access.

use core::ptr;

use efa_fabric::sys::bindings::fi_rma_iov;
use efa_fabric::sys::grown::fi_mr_attr;
use efa_fabric::sys::{bindings as b, consts as c, errno as e, ops};
use efa_fabric::{Access, CompletionFlags, Errno, PeerAddr, Posted, Sink, Source, Target};

use crate::side::{Actor, Event, Memory, Side, everything};

const BAD_RKEY: (i32, i32) = (e::FI_EINVAL, 7);
const BAD_LKEY: (i32, i32) = (e::FI_EINVAL, 5);

pub(crate) fn written_with_immediate(actor: &Actor<'_>) {
    let pair = actor.pair(9000);
    pair.memory
        .fill(0x10 + u8::try_from(actor.side).unwrap_or(0));
    actor.link.meet();
    if actor.side == 0 {
        // More than 4 bytes of data: the rest is lost.
        let data = Some(0xaaaa_bbbb_1234_5678);
        let context = pair.side.write(pair.memory.source(9000), data, pair.target);
        let done = pair.side.one().done();
        assert_eq!(done.context(), context);
        let (is, flags) = (done.flags(), CompletionFlags::RMA | CompletionFlags::WRITE);
        assert_eq!(is, flags);
        actor.link.meet();
    } else {
        // A receive that waits is left alone.
        let spare = Memory::new(&pair.side.domain, 64);
        pair.side.recv(spare.sink(0, 64));
        let event = pair.side.one().done();
        let flags =
            CompletionFlags::RMA | CompletionFlags::REMOTE_WRITE | CompletionFlags::REMOTE_CQ_DATA;
        assert_eq!(event.flags(), flags);
        assert!(
            event.context().is_null() && event.buf().is_null(),
            "{event:?}"
        );
        assert_eq!((event.data(), event.len()), (0x1234_5678, 9000));
        assert!(pair.memory.has(0..9000, 0x10));
        pair.side.silent();
        actor.link.meet();
    }
}

pub(crate) fn written_in_silence(actor: &Actor<'_>) {
    let pair = actor.pair(100);
    if actor.side == 0 {
        pair.memory.fill(3);
        pair.side.write(pair.memory.source(100), None, pair.target);
        pair.side.one().done();
        actor.link.meet();
    } else {
        actor.link.meet();
        pair.side.silent();
        assert!(pair.memory.has(0..100, 3));
    }
    actor.link.meet();
}

pub(crate) fn read_back(actor: &Actor<'_>) {
    let pair = actor.pair(5000);
    pair.memory.fill(if actor.side == 0 { 1 } else { 2 });
    actor.link.meet();
    if actor.side == 0 {
        let into = Memory::new(&pair.side.domain, 5000);
        let context = pair.side.read(into.sink(0, 4000), pair.target);
        let done = pair.side.one().done();
        assert_eq!(done.context(), context);
        assert_eq!(done.flags(), CompletionFlags::RMA | CompletionFlags::READ);
        assert!(into.has(0..4000, 2));
        assert_eq!(into.at(4000), 0);
    }
    actor.link.meet();
}

/// Operations without bytes.
pub(crate) fn nothing_at_all(actor: &Actor<'_>) {
    let pair = actor.pair(64);
    if actor.side == 0 {
        pair.side.write(pair.memory.source(0), Some(5), pair.target);
        pair.side.one().done();
        pair.side.read(pair.memory.sink(0, 0), pair.target);
        pair.side.one().done();
        pair.side.send(pair.memory.source(0), pair.target.peer);
        pair.side.one().done();
        // The key counts all the same.
        let nowhere = Target {
            key: pair.target.key ^ 1,
            ..pair.target
        };
        pair.side.write(pair.memory.source(0), Some(5), nowhere);
        assert_eq!(pair.side.one().failed(), BAD_RKEY);
    } else {
        let event = pair.side.one().done();
        assert_eq!((event.data(), event.len()), (5, 0));
        pair.side.recv(pair.memory.sink(0, 64));
        let received = pair.side.one().done();
        assert!(
            received.flags().contains(CompletionFlags::RECV),
            "{received:?}"
        );
        assert_eq!(received.len(), 0);
    }
    actor.link.meet();
}

/// Every way in which a key can be wrong.
pub(crate) fn bad_remote_keys(actor: &Actor<'_>) {
    let pair = actor.pair(1000);
    if actor.side == 1 {
        let domain = &pair.side.domain;
        let read_only = Memory::with_access(domain, 1000, Access::REMOTE_READ);
        let closed = Memory::new(domain, 1000);
        let other_domain = Side::new(actor.info());
        let foreign = Memory::new(&other_domain.domain, 1000);
        let (addr, key) = (closed.addr(), closed.mr.key());
        closed.mr.close().expect("close");
        // The slot is used again, with another key.
        let successor = Memory::of(domain, closed.ptr, closed.len, Access::REMOTE_WRITE);
        assert_ne!(successor.mr.key(), key);
        for (addr, key) in [
            (read_only.addr(), read_only.mr.key()),
            (addr, key),
            (foreign.addr(), foreign.mr.key()),
        ] {
            actor.link.tell(&format!("{addr} {key}"));
        }
        actor.link.meet();
        pair.side.silent();
        return;
    }
    let good = pair.target;
    let key = |key| Target { key, ..good };
    let addr = |addr| Target { addr, ..good };
    let mut bad = vec![
        key(good.key ^ 1),
        key(good.key | 1 << 40),
        addr(good.addr + 1),
        addr(good.addr - 1),
        addr(u64::MAX),
    ];
    for _ in 0..3 {
        let line = actor.link.hear();
        let (addr, key) = line.split_once(' ').expect("two numbers");
        let number = |text: &str| text.parse().expect("a number");
        bad.push(Target {
            addr: number(addr),
            key: number(key),
            ..good
        });
    }
    for target in bad {
        let context = pair.side.write(pair.memory.source(1000), Some(1), target);
        let Event::Failed(error) = pair.side.one() else {
            panic!("{target:?} is good");
        };
        assert_eq!(
            (error.errno().code(), error.prov_errno()),
            BAD_RKEY,
            "{target:?}"
        );
        assert_eq!(error.context(), context);
        assert!(error.flags().contains(CompletionFlags::WRITE), "{error}");
        pair.side
            .read(pair.memory.sink(0, 1000), Target { addr: 1, ..target });
        assert_eq!(pair.side.one().failed(), BAD_RKEY);
    }
    // The connection, if there is such a thing, is as good as before.
    pair.side.write(pair.memory.source(1000), None, good);
    pair.side.one().done();
    actor.link.meet();
}

pub(crate) fn bad_local_keys(actor: &Actor<'_>) {
    let pair = actor.pair(100);
    if actor.side == 0 {
        let closed = Memory::new(&pair.side.domain, 100);
        let stale = closed.source(100);
        closed.mr.close().expect("close");
        let outside = Source {
            ptr: closed.ptr,
            ..pair.memory.source(100)
        };
        for bad in [stale, outside] {
            pair.side.write(bad, Some(1), pair.target);
            assert_eq!(pair.side.one().failed(), BAD_LKEY);
        }
        let missing = Source {
            desc: efa_fabric::Desc::from_raw(ptr::null_mut()),
            ..pair.memory.source(100)
        };
        let context = Side::context();
        // SAFETY: memory and context are never freed.
        let posted = unsafe { pair.side.ep.post_write(missing, pair.target, context) };
        if actor.is_direct() {
            assert_eq!(posted.expect_err("FI_MR_LOCAL").errno(), Errno::EINVAL);
            let sink = Sink {
                ptr: pair.memory.ptr,
                len: 100,
                desc: efa_fabric::Desc::from_raw(ptr::null_mut()),
            };
            // SAFETY: as above.
            let posted = unsafe { pair.side.ep.post_recv(sink, PeerAddr::ANY, context) };
            assert_eq!(posted.expect_err("FI_MR_LOCAL").errno(), Errno::EINVAL);
        } else {
            assert_eq!(posted, Ok(Posted::Accepted));
            pair.side.one().done();
        }
    }
    actor.link.meet();
}

/// Memory that is unmapped, or read-only, behind the back of its region: an error of that operation.
pub(crate) fn gone_behind_its_region(actor: &Actor<'_>) {
    const LEN: usize = 1 << 16;
    let pair = actor.pair(LEN);
    let pages = |protection| {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: mmap(2): new memory.
        let at = unsafe { libc::mmap(ptr::null_mut(), LEN, libc::PROT_WRITE, flags, -1, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        let region = Memory::of(&pair.side.domain, at.cast(), LEN, everything());
        // SAFETY: mprotect(2): the memory above, which nobody uses; a place that is reserved is never
        // somebody else's.
        assert_eq!(unsafe { libc::mprotect(at, LEN, protection) }, 0);
        region
    };
    let (gone, fixed) = (pages(libc::PROT_NONE), pages(libc::PROT_READ));
    for region in [&gone, &fixed] {
        let (addr, key) = (region.addr(), region.mr.key());
        actor.link.tell(&format!("{addr} {key}"));
    }
    let theirs = [(); 2].map(|()| {
        let line = actor.link.hear();
        let (addr, key) = line.split_once(' ').expect("two numbers");
        let number = |text: &str| text.parse().expect("a number");
        Target {
            addr: number(addr),
            key: number(key),
            ..pair.target
        }
    });
    for target in theirs {
        pair.side.write(pair.memory.source(LEN), Some(1), target);
        assert_eq!(pair.side.one().failed(), BAD_RKEY);
    }
    pair.side.read(pair.memory.sink(0, LEN), theirs[0]);
    assert_eq!(pair.side.one().failed(), BAD_RKEY);
    pair.side.read(pair.memory.sink(0, LEN), theirs[1]);
    pair.side.one().done();
    // And memory of one's own; a message of it, which `efa` would keep for its receiver.
    pair.side.write(gone.source(LEN), None, pair.target);
    assert_eq!(pair.side.one().failed().0, e::FI_EINVAL);
    actor.link.meet();
    if actor.side == 0 && !actor.is_direct() {
        pair.side.send(gone.source(8), pair.target.peer);
        assert_eq!(pair.side.one().failed(), BAD_LKEY);
    }
    actor.link.meet();
    pair.side.silent();
    actor.link.meet();
}

/// What fi_mr(3) does not know, and memory that is not there.
pub(crate) fn no_regions(actor: &Actor<'_>) {
    let pair = actor.pair(64);
    let domain = pair.side.domain.as_raw();
    let register = |at: *const u8, access, flags| {
        let iov = libc::iovec {
            iov_base: at.cast_mut().cast(),
            iov_len: 64,
        };
        // SAFETY: all zero is a valid fi_mr_attr.
        let mut attr: fi_mr_attr = unsafe { core::mem::zeroed() };
        attr.mr_iov = (&raw const iov).cast();
        attr.iov_count = 1;
        attr.access = access;
        let mut mr = ptr::null_mut();
        // SAFETY: fi_mr(3): an open domain, attributes, and where the object would go; memory that is
        // not there is looked for only.
        let code = unsafe { ops::fi_mr_regattr(domain, &raw const attr, flags, &raw mut mr) };
        assert!(mr.is_null());
        code
    };
    let at: *const u8 = pair.memory.ptr;
    assert_eq!(register(at, c::FI_SEND | 1 << 50, 0), -e::FI_EINVAL);
    assert_eq!(register(at, c::FI_SEND, 1 << 60), -e::FI_EBADFLAGS);
    let nowhere = ptr::without_provenance(1 << 16);
    assert_eq!(register(nowhere, c::FI_SEND, 0), -e::FI_EFAULT);
    actor.link.meet();
}

/// On efa-direct the target must know the initiator before its memory is used; messages come from
/// anybody.
pub(crate) fn strangers(actor: &Actor<'_>) {
    let side = Side::new(actor.info());
    let memory = Memory::new(&side.domain, 100);
    let name = side.ep.name().expect("name");
    let name: String = name.iter().map(|byte| format!("{byte:02x}")).collect();
    actor
        .link
        .tell(&format!("{name} {} {}", memory.addr(), memory.mr.key()));
    let (theirs, addr, key) = crate::side::parse(&actor.link.hear());
    if actor.side == 0 {
        let peer = side.av.insert(&theirs).expect("insert");
        let target = Target { peer, addr, key };
        side.send(memory.source(10), peer);
        side.one().done();
        side.write(memory.source(100), Some(1), target);
        let event = side.one();
        if actor.is_direct() {
            assert_eq!(event.failed(), (e::FI_ENOTCONN, 14));
        } else {
            event.done();
        }
        actor.link.meet();
        actor.link.meet();
        side.write(memory.source(100), Some(2), target);
        side.one().done();
    } else {
        side.recv(memory.sink(0, 100));
        // Where strangers may write, that may have come as well by now.
        let count = if actor.is_direct() { 1 } else { 2 };
        let events = side.wait(count).into_iter().map(Event::done);
        let mut seen: Vec<(usize, u64)> = events.map(|e| (e.len(), e.data())).collect();
        seen.sort_unstable();
        assert_eq!(seen, [(10, 0), (100, 1)][..count]);
        actor.link.meet();
        side.av.insert(&theirs).expect("insert");
        actor.link.meet();
        assert_eq!(side.one().done().data(), 2);
    }
    actor.link.meet();
}

/// Writes of several pieces, by the general form.
pub(crate) fn scattered(actor: &Actor<'_>) {
    let pair = actor.pair(300);
    if actor.side == 0 {
        pair.memory.fill(9);
        let limit = pair.side.info.tx_iov_limit();
        let post = |pieces: usize| {
            let size = 300 / 5;
            let mut iov = Vec::new();
            let mut desc = Vec::new();
            for i in 0..pieces {
                iov.push(libc::iovec {
                    iov_base: pair.memory.ptr.wrapping_add(i * size).cast(),
                    iov_len: size,
                });
                desc.push(pair.memory.mr.desc().as_raw());
            }
            let rma = fi_rma_iov {
                addr: pair.target.addr,
                len: pieces * size,
                key: pair.target.key,
            };
            let message = b::fi_msg_rma {
                msg_iov: iov.as_ptr(),
                desc: desc.as_mut_ptr(),
                iov_count: pieces,
                addr: pair.target.peer.as_raw(),
                rma_iov: &raw const rma,
                rma_iov_count: 1,
                context: Side::context().cast(),
                data: 77,
            };
            // SAFETY: fi_rma(3): arrays of that many; memory and context are never freed.
            unsafe { ops::fi_writemsg(pair.side.raw(), &raw const message, c::FI_REMOTE_CQ_DATA) }
        };
        assert_eq!(post(limit), 0);
        pair.side.one().done();
        assert_eq!(post(limit + 1), -(e::FI_EINVAL as isize));
        actor.link.tell(&(limit * 60).to_string());
    } else {
        let event = pair.side.one().done();
        assert_eq!(event.data(), 77);
        let len: usize = actor.link.hear().parse().expect("a length");
        assert_eq!(event.len(), len);
        assert!(pair.memory.has(0..len, 9));
    }
    actor.link.meet();
}

pub(crate) fn large(actor: &Actor<'_>) {
    const BYTES: usize = (4 << 20) + 13;
    let pair = actor.pair(BYTES);
    pair.memory.fill(u8::try_from(actor.side).unwrap_or(0));
    actor.link.meet();
    if actor.side == 0 {
        pair.side
            .write(pair.memory.source(BYTES), Some(1), pair.target);
        pair.side.one().done();
        actor.link.meet();
        let into = Memory::new(&pair.side.domain, BYTES);
        pair.side.read(into.sink(0, BYTES), pair.target);
        pair.side.one().done();
        assert!(into.has(0..BYTES, 0));
    } else {
        assert_eq!(pair.side.one().done().len(), BYTES);
        assert!(pair.memory.has(0..BYTES, 0));
        actor.link.meet();
    }
    actor.link.meet();
}

/// An endpoint is its own peer as any other.
pub(crate) fn to_itself(actor: &Actor<'_>) {
    let side = Side::new(actor.info());
    let (from, into) = (
        Memory::new(&side.domain, 1000),
        Memory::new(&side.domain, 1000),
    );
    from.fill(8);
    let peer = side
        .av
        .insert(&side.ep.name().expect("name"))
        .expect("insert");
    let target = Target {
        peer,
        addr: into.addr(),
        key: into.mr.key(),
    };
    side.write(from.source(500), Some(3), target);
    let both = side.wait(2);
    let data: u64 = both.into_iter().map(|event| event.done().data()).sum();
    assert_eq!(data, 3);
    assert!(into.has(0..500, 8));
    side.recv(into.sink(500, 500));
    side.send(from.source(500), peer);
    side.wait(2).into_iter().for_each(|event| {
        event.done();
    });
    assert!(into.has(500..1000, 8));
}
