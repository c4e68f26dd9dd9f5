//! Limits that attributes speak of: they hold, and nothing beyond them is given.

use core::ffi::c_int;
use core::mem::ManuallyDrop;
use core::ptr::null_mut;

use efa_fabric::sys::{bindings as b, consts as c, errno as e, ops};
use efa_fabric::{Caps, Domain, Fabric, Hints, InfoBuf, Target};

use super::entries::edit;
use crate::side::{Actor, Memory, Side, entry, modes};

/// Opens objects until one is refused, sees that there is room again when one has closed, and closes all;
/// how many there were, and why there are no more.
fn most<T>(open: impl Fn(&mut *mut T) -> c_int) -> (usize, c_int) {
    const ENOUGH: usize = 10_000;
    let mut all = Vec::new();
    let refusal = loop {
        let mut object = null_mut();
        let code = open(&mut object);
        assert_eq!(code == 0, !object.is_null());
        if code != 0 || all.len() == ENOUGH {
            break code;
        }
        all.push(object);
    };
    // SAFETY: fi_close(3): opened above, and used by nobody; objects start with their fids.
    let close = |object: *mut T| unsafe { ops::fi_close(object.cast()) };
    let count = all.len();
    assert_eq!(all.pop().map(close), Some(0));
    let mut another = null_mut();
    assert_eq!(open(&mut another), 0, "there is room again");
    all.push(another);
    assert!(all.into_iter().map(close).all(|code| code == 0));
    (count, refusal)
}

/// As many of each kind as the domain says; the next one is an error of its own call and of nothing else.
pub(crate) fn as_many_as_said(actor: &Actor<'_>) {
    let info = actor.info();
    let mut said = [0; 4];
    edit(&info, |parts| {
        let domain = parts.domain;
        said = [
            domain.cq_cnt,
            domain.ep_cnt,
            domain.tx_ctx_cnt,
            domain.rx_ctx_cnt,
        ];
        let none = [
            domain.cntr_cnt,
            domain.max_ep_stx_ctx,
            domain.max_ep_srx_ctx,
        ];
        assert_eq!(none, [0; 3]);
        assert_eq!((domain.max_ep_tx_ctx, domain.max_ep_rx_ctx), (1, 1));
    });
    let fabric = Fabric::open(&info).expect("fabric");
    let domain = Domain::open(&fabric, &info).expect("domain");
    let raw = domain.as_raw();
    let queues = most(|cq| {
        // SAFETY: all zero is a valid fi_cq_attr.
        let mut attr: b::fi_cq_attr = unsafe { core::mem::zeroed() };
        attr.wait_obj = b::FI_WAIT_NONE;
        attr.size = 1;
        // SAFETY: fi_cq(3): an open domain, attributes, and where the object goes.
        unsafe { ops::fi_cq_open(raw, &raw mut attr, cq, null_mut()) }
    });
    let endpoints = most(|ep| {
        // SAFETY: fi_endpoint(3): an open domain, its entry, and where the object goes.
        unsafe { ops::fi_endpoint(raw, info.as_raw(), ep, null_mut()) }
    });
    let [cq_cnt, ep_cnt, tx_cnt, rx_cnt] = said;
    assert_eq!(queues, (cq_cnt, -e::FI_ENOMEM));
    assert_eq!(endpoints, (ep_cnt, -e::FI_ENOMEM));
    assert_eq!((tx_cnt, rx_cnt), (ep_cnt, ep_cnt), "one of each");
    what_there_is_none_of(&domain, &info);
    drop((domain, fabric));
    // Those of another domain are its own.
    Side::new(actor.info());
    actor.link.meet();
}

fn what_there_is_none_of(domain: &Domain, info: &InfoBuf) {
    let raw = domain.as_raw();
    // SAFETY: fi_domain(3): an open domain ..
    let tables = unsafe { *raw };
    // SAFETY: .. has its table.
    let table = unsafe { *tables.ops };
    let (mut counter, mut scalable) = (null_mut(), null_mut());
    // SAFETY: all zero is a valid fi_cntr_attr.
    let mut attr: b::fi_cntr_attr = unsafe { core::mem::zeroed() };
    let open = table.cntr_open.expect("an answer");
    // SAFETY: fi_cntr(3): an open domain, attributes, and where the object would go.
    let code = unsafe { open(raw, &raw mut attr, &raw mut counter, null_mut()) };
    assert_eq!((code, counter.is_null()), (-e::FI_ENOSYS, true));
    let open = table.scalable_ep.expect("an answer");
    // SAFETY: fi_endpoint(3): as above.
    let code = unsafe { open(raw, info.as_raw(), &raw mut scalable, null_mut()) };
    assert_eq!((code, scalable.is_null()), (-e::FI_ENOSYS, true));
    // Regions have one piece (mr_iov_limit).
    let bytes = [0_u8; 16];
    let piece = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: 8,
    };
    let pieces = [piece, piece];
    // SAFETY: fi_domain(3): and its table of registration.
    let table = unsafe { *tables.mr };
    let (register, fid) = (table.regv.expect("an answer"), raw.cast());
    let (at, access) = (pieces.as_ptr(), c::FI_SEND);
    let mut mr = null_mut();
    // SAFETY: fi_mr(3): an array of two, and where the object would go; it is refused.
    let code = unsafe { register(fid, at, 2, access, 0, 0, 0, &raw mut mr, null_mut()) };
    assert_eq!((code, mr.is_null()), (-e::FI_EINVAL, true));
}

/// One of each kind of object; who is side 0 leaves all of them open.
pub(crate) fn one_of_each(actor: &Actor<'_>) {
    let side = Side::new(actor.info());
    let memory = Memory::new(&side.domain, 64);
    let fabric = Fabric::open(&side.info).expect("fabric");
    // SAFETY: fi_eq(3): an open fabric ..
    let tables = unsafe { *fabric.as_raw() };
    // SAFETY: .. has its table.
    let open = unsafe { *tables.ops }.eq_open.expect("an answer");
    // SAFETY: all zero is a valid fi_eq_attr.
    let mut attr: b::fi_eq_attr = unsafe { core::mem::zeroed() };
    let mut eq = null_mut();
    // SAFETY: fi_eq(3): an open fabric, attributes, and where the object goes.
    let code = unsafe { open(fabric.as_raw(), &raw mut attr, &raw mut eq, null_mut()) };
    assert_eq!(code, 0);
    if actor.side == 0 {
        let _open = ManuallyDrop::new((side, memory, fabric));
        return;
    }
    // SAFETY: fi_close(3): an open queue that nobody uses.
    let code = unsafe { ops::fi_close(eq.cast()) };
    assert_eq!(code, 0);
}

/// Bytes that a peer moves: written in silence 900, with an immediate 80, read 300, sent 50.
pub(crate) fn moved_by_a_peer(actor: &Actor<'_>) {
    let pair = actor.pair(1000);
    let side = &pair.side;
    if actor.side == 0 {
        actor.link.meet();
        side.write(pair.memory.source(900), None, pair.target);
        side.one().done();
        side.write(pair.memory.source(80), Some(1), pair.target);
        side.one().done();
        side.read(pair.memory.sink(0, 300), pair.target);
        side.one().done();
        side.send(pair.memory.source(50), pair.target.peer);
        side.one().done();
        // What fails moves nothing.
        let beyond = Target {
            addr: pair.target.addr + 990,
            ..pair.target
        };
        side.write(pair.memory.source(20), None, beyond);
        side.one().failed();
    } else {
        // One for an immediate that needs one.
        side.recv(pair.memory.sink(0, 100));
        side.recv(pair.memory.sink(100, 100));
        actor.link.meet();
        side.wait(2);
        if !actor.is_direct() {
            let context = side.recv(pair.memory.sink(0, 100));
            assert_eq!(side.ep.cancel(context), Ok(true));
            assert_eq!(side.one().failed(), (e::FI_ECANCELED, 1));
        }
    }
    actor.link.meet();
}

/// What is asked for in an entry is what there is, be it less than there could be.
pub(crate) fn no_more_than_asked(actor: &Actor<'_>) {
    const LONGEST: usize = 100;
    let info = actor.info();
    edit(&info, |parts| {
        (parts.tx.iov_limit, parts.rx.iov_limit) = (1, 1);
        parts.tx.inject_size = 16;
        parts.ep.max_msg_size = LONGEST;
    });
    let pair = actor.pair_of(Side::new(info), 2 * LONGEST);
    let (ep, memory) = (&pair.side.ep, &pair.memory);
    let desc = memory.mr.desc().as_raw();
    let piece = libc::iovec {
        iov_base: memory.ptr.cast(),
        iov_len: 8,
    };
    let (iov, mut descs) = ([piece, piece], [desc, desc]);
    let of_pieces = descs.as_mut_ptr();
    let message = |iov_count| b::fi_msg {
        msg_iov: iov.as_ptr(),
        desc: of_pieces,
        iov_count,
        addr: pair.target.peer.as_raw(),
        context: Side::context().cast(),
        data: 0,
    };
    let refused = -(e::FI_EINVAL as isize);
    let raw = pair.side.raw();
    let receive = |count| {
        let message = message(count);
        // SAFETY: fi_msg(3): arrays of that many; memory and context are never freed.
        unsafe { ops::fi_recvmsg(raw, &raw const message, 0) }
    };
    assert_eq!((receive(2), receive(1)), (refused, 0));
    actor.link.meet();
    if actor.side == 0 {
        let send = |count| {
            let message = message(count);
            // SAFETY: as above.
            unsafe { ops::fi_sendmsg(raw, &raw const message, 0) }
        };
        assert_eq!((send(2), send(1)), (refused, 0));
        pair.side.one().done();
        let places = [b::fi_rma_iov {
            addr: pair.target.addr,
            len: 8,
            key: pair.target.key,
        }; 2];
        let access = b::fi_msg_rma {
            msg_iov: iov.as_ptr(),
            desc: of_pieces,
            iov_count: 1,
            addr: pair.target.peer.as_raw(),
            rma_iov: places.as_ptr(),
            rma_iov_count: 2,
            context: Side::context().cast(),
            data: 0,
        };
        // SAFETY: fi_rma(3): arrays of that many.
        let scattered = unsafe { ops::fi_writemsg(raw, &raw const access, 0) };
        assert_eq!(scattered, refused, "rma_iov_limit");
        let bytes = [1; 17];
        // SAFETY: fi_msg(3): the bytes are copied.
        unsafe { ep.post_inject(&bytes, pair.target.peer) }.expect_err("too long to inject");
        let longest = pair.side.info.max_msg_size();
        assert_eq!(longest, LONGEST);
        let long = memory.source(LONGEST + 1);
        // SAFETY: memory and context are never freed.
        let written = unsafe { ep.post_write(long, pair.target, Side::context()) };
        written.expect_err("too long to write");
        pair.side
            .write(memory.source(LONGEST), Some(1), pair.target);
        pair.side.one().done();
    } else {
        pair.side.wait(2);
    }
    actor.link.meet();
}

/// Primary capabilities are those that were asked for (fi_getinfo(3)).
pub(crate) fn only_what_was_asked(actor: &Actor<'_>) {
    let asked = |caps| {
        let hints = Hints::rdm(caps).provider(c"efa").mr_mode(modes());
        Side::new(entry(&hints, actor.fabric.name(), 0))
    };
    let refused = -(e::FI_EOPNOTSUPP as isize);
    let messages = asked(Caps::MSG);
    let memory = Memory::new(&messages.domain, 64);
    let own = |side: &Side, memory: &Memory| Target {
        peer: side
            .av
            .insert(&side.ep.name().expect("name"))
            .expect("insert"),
        addr: memory.addr(),
        key: memory.mr.key(),
    };
    let target = own(&messages, &memory);
    let context = Side::context();
    // SAFETY: memory and context are never freed.
    let written = unsafe { messages.ep.post_write(memory.source(8), target, context) };
    let error = written.expect_err("no FI_RMA");
    assert_eq!(error.errno().code(), e::FI_EOPNOTSUPP);
    let (to, raw) = (target.peer.as_raw(), messages.raw());
    let (buf, desc) = (memory.ptr.cast(), memory.mr.desc().as_raw());
    // SAFETY: fi_tagged(3): as above.
    let tagged = unsafe { ops::fi_tsend(raw, buf, 8, desc, to, 1, context.cast()) };
    let expected = match actor.is_direct() {
        true => -(e::FI_ENOSYS as isize),
        false => refused,
    };
    assert_eq!(tagged, expected);
    messages.recv(memory.sink(8, 8));
    messages.send(memory.source(8), target.peer);
    messages.wait(2);
    let access = asked(Caps::RMA);
    let memory = Memory::new(&access.domain, 64);
    let target = own(&access, &memory);
    // SAFETY: as above.
    let sent = unsafe { access.ep.post_send(memory.source(8), target.peer, context) };
    let error = sent.expect_err("no FI_MSG");
    assert_eq!(error.errno().code(), e::FI_EOPNOTSUPP);
    access.write(memory.source(8), None, target);
    access.one().done();
    actor.link.meet();
}
