//! Messages.

use efa_fabric::sys::{bindings as b, consts as c, errno as e, ops};
use efa_fabric::{CompletionFlags, Errno, PostFlags, Posted};

use crate::side::{Actor, Event, Memory, Side, accepted};

pub(crate) fn received(actor: &Actor<'_>) {
    let pair = actor.pair(4096);
    if actor.side == 0 {
        pair.memory.fill(4);
        actor.link.meet();
        let context = Side::context();
        accepted(&pair.side, || {
            let source = pair.memory.source(1000);
            // SAFETY: memory and context are never freed.
            unsafe {
                pair.side
                    .ep
                    .post_senddata(source, 42, pair.target.peer, context)
            }
        });
        let done = pair.side.one().done();
        assert_eq!(done.context(), context);
        assert!(done.flags().contains(CompletionFlags::SEND), "{done:?}");
    } else {
        let context = pair.side.recv(pair.memory.sink(0, 4096));
        actor.link.meet();
        let received = pair.side.one().done();
        assert_eq!(received.context(), context);
        let flags = CompletionFlags::RECV | CompletionFlags::MSG | CompletionFlags::REMOTE_CQ_DATA;
        assert_eq!(received.flags(), flags);
        assert_eq!((received.len(), received.data()), (1000, 42));
        assert!(pair.memory.has(0..1000, 4));
        assert_eq!(pair.memory.at(1000), 0);
    }
    actor.link.meet();
}

/// On efa-direct a message waits at its sender while there is no receive, for ever if nothing else is
/// asked for.
pub(crate) fn not_ready(actor: &Actor<'_>) {
    if !actor.is_direct() {
        return;
    }
    let pair = actor.pair(64);
    if actor.side == 0 {
        pair.side.send(pair.memory.source(64), pair.target.peer);
        pair.side.silent();
        actor.link.meet();
        pair.side.one().done();
        // With an end of patience it is an error.
        let impatient = Side::with(actor.info(), 64, |setup| {
            let option = efa_fabric::SizeOption::EfaRnrRetry;
            assert_eq!(setup.set_size(option, 8), Ok(None), "more than 7");
            assert_eq!(setup.set_size(option, 2), Ok(Some(())));
            assert_eq!(setup.get_size(option), Ok(Some(2)));
        });
        let name = actor.link.hear();
        let (name, ..) = crate::side::parse(&name);
        let peer = impatient.av.insert(&name).expect("insert");
        let memory = Memory::new(&impatient.domain, 64);
        impatient.send(memory.source(64), peer);
        assert_eq!(impatient.one().failed(), (e::FI_ENORX, 10));
    } else {
        actor.link.meet();
        pair.side.silent();
        pair.side.recv(pair.memory.sink(0, 64));
        pair.side.one().done();
        let name = pair.side.ep.name().expect("name");
        let name: String = name.iter().map(|byte| format!("{byte:02x}")).collect();
        actor.link.tell(&format!("{name} 0 0"));
    }
    actor.link.meet();
}

pub(crate) fn too_long_for_the_receive(actor: &Actor<'_>) {
    let pair = actor.pair(1000);
    if actor.side == 0 {
        pair.memory.fill(6);
        actor.link.meet();
        pair.side.send(pair.memory.source(1000), pair.target.peer);
        let event = pair.side.one();
        if actor.is_direct() {
            assert_eq!(event.failed(), (e::FI_EMSGSIZE, 11));
        } else {
            event.done();
        }
    } else {
        let context = pair.side.recv(pair.memory.sink(0, 100));
        actor.link.meet();
        let Event::Failed(error) = pair.side.one() else {
            panic!("it fits");
        };
        assert_eq!((error.errno(), error.prov_errno()), (Errno::ETRUNC, 11));
        assert_eq!((error.context(), error.overflow()), (context, 900));
        assert!(pair.memory.has(0..100, 6));
        assert_eq!(pair.memory.at(100), 0);
    }
    actor.link.meet();
}

/// The device of efa-direct takes no more than a packet; the software of efa any length.
pub(crate) fn too_long_for_the_device(actor: &Actor<'_>) {
    let pair = actor.pair(20_000);
    pair.side.recv(pair.memory.sink(10_000, 10_000));
    actor.link.meet();
    if actor.side == 0 {
        pair.side.send(pair.memory.source(8928), pair.target.peer);
        pair.side.one().done();
        pair.side.send(pair.memory.source(8929), pair.target.peer);
        let event = pair.side.one();
        if actor.is_direct() {
            assert_eq!(event.failed(), (e::FI_EMSGSIZE, 11));
        } else {
            event.done();
        }
    } else {
        assert_eq!(pair.side.one().done().len(), 8928);
        if !actor.is_direct() {
            pair.side.recv(pair.memory.sink(10_000, 10_000));
            assert_eq!(pair.side.one().done().len(), 8929);
        }
    }
    actor.link.meet();
}

pub(crate) fn injected_within_limits(actor: &Actor<'_>) {
    let pair = actor.pair(8192);
    let (messages, writes) = if actor.is_direct() {
        (32, 32)
    } else {
        (4096, 32)
    };
    if actor.side == 0 {
        let bytes = vec![5_u8; 5000];
        actor.link.meet();
        let peer = pair.target.peer;
        accepted(&pair.side, || {
            // SAFETY: fi_msg(3): the bytes are copied.
            unsafe { pair.side.ep.post_inject(&bytes[..messages], peer) }
        });
        // SAFETY: as above.
        let long = unsafe { pair.side.ep.post_inject(&bytes[..=messages], peer) };
        long.expect_err("too long");
        accepted(&pair.side, || {
            let bytes = &bytes[..writes];
            // SAFETY: fi_rma(3): the bytes are copied.
            unsafe { pair.side.ep.post_inject_writedata(bytes, 9, pair.target) }
        });
        // SAFETY: as above.
        let long = unsafe {
            pair.side
                .ep
                .post_inject_write(&bytes[..=writes], pair.target)
        };
        long.expect_err("too long");
        // There is no completion.
        pair.side.silent();
        // By flag there is one.
        actor.link.meet();
        let (source, context) = (pair.memory.source(8), Side::context());
        let flags = PostFlags::INJECT | PostFlags::REMOTE_CQ_DATA;
        accepted(&pair.side, || {
            // SAFETY: memory and context are never freed.
            unsafe {
                pair.side
                    .ep
                    .post_writemsg(source, 10, pair.target, context, flags)
            }
        });
        drop(bytes);
        assert_eq!(pair.side.one().done().context(), context);
    } else {
        pair.side.recv(pair.memory.sink(4096, 4096));
        actor.link.meet();
        for event in pair.side.wait(2) {
            let event = event.done();
            let expected = if event.data() == 9 { writes } else { messages };
            assert_eq!(event.len(), expected);
        }
        assert!((0..writes).all(|i| pair.memory.at(i) == 5));
        assert!((0..messages).all(|i| pair.memory.at(4096 + i) == 5));
        actor.link.meet();
        assert_eq!(pair.side.one().done().data(), 10);
    }
    actor.link.meet();
}

/// Pieces on both sides need not match.
pub(crate) fn pieces_of_a_message(actor: &Actor<'_>) {
    let pair = actor.pair(4000);
    let limit = pair.side.info.tx_iov_limit();
    let message = |sizes: &[usize], context| {
        let mut iov = Vec::new();
        let mut desc = Vec::new();
        let mut offset = 0;
        for size in sizes {
            iov.push(libc::iovec {
                iov_base: pair.memory.ptr.wrapping_add(offset).cast(),
                iov_len: *size,
            });
            desc.push(pair.memory.mr.desc().as_raw());
            // Holes between the pieces.
            offset += size + 10;
        }
        b::fi_msg {
            msg_iov: Vec::leak(iov).as_ptr(),
            desc: Vec::leak(desc).as_mut_ptr(),
            iov_count: sizes.len(),
            addr: pair.target.peer.as_raw(),
            context,
            data: 0,
        }
    };
    let context = Side::context().cast();
    if actor.side == 0 {
        pair.memory.fill(0);
        actor.link.meet();
        let sizes: &[usize] = if limit == 2 {
            &[300, 700]
        } else {
            &[100, 0, 250, 650]
        };
        let message = message(sizes, context);
        // SAFETY: fi_msg(3): arrays of that many; memory and context are never freed.
        let code = unsafe { ops::fi_sendmsg(pair.side.raw(), &raw const message, 0) };
        assert_eq!(code, 0);
        pair.side.one().done();
        // What arrived, piece by piece.
        let mut expected = Vec::new();
        let mut offset = 0;
        for size in sizes {
            expected.extend((offset..offset + size).map(|i| pair.memory.at(i)));
            offset += size + 10;
        }
        let text: String = expected.iter().map(|byte| format!("{byte:02x}")).collect();
        actor.link.tell(&text);
    } else {
        let sizes = [400, 600];
        let message = message(&sizes, context);
        // SAFETY: as above.
        let code = unsafe { ops::fi_recvmsg(pair.side.raw(), &raw const message, 0) };
        assert_eq!(code, 0);
        actor.link.meet();
        let received = pair.side.one().done();
        assert_eq!(received.len(), 1000);
        let got = (0..400).chain(410..1010).map(|i| pair.memory.at(i));
        let text: String = got.map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(actor.link.hear(), text);
        let many = b::fi_msg {
            iov_count: limit + 1,
            ..message
        };
        // SAFETY: fi_msg(3): the arrays are not looked at, for there are too many.
        let code = unsafe { ops::fi_recvmsg(pair.side.raw(), &raw const many, 0) };
        assert_eq!(code, -(e::FI_EINVAL as isize));
    }
    actor.link.meet();
}

/// Lengths whose sum no message can have are refused, whatever they are for.
pub(crate) fn lengths_without_end(actor: &Actor<'_>) {
    let pair = actor.pair(100);
    let piece = |len| libc::iovec {
        iov_base: pair.memory.ptr.cast(),
        iov_len: len,
    };
    let desc = pair.memory.mr.desc().as_raw();
    let (iov, mut descs) = ([piece(usize::MAX), piece(2)], [desc, desc]);
    let message = b::fi_msg {
        msg_iov: iov.as_ptr(),
        desc: descs.as_mut_ptr(),
        iov_count: 2,
        addr: pair.target.peer.as_raw(),
        context: Side::context().cast(),
        data: 0,
    };
    // What the sum would be if it went round.
    let rma = b::fi_rma_iov {
        addr: pair.target.addr,
        len: 1,
        key: pair.target.key,
    };
    let access = b::fi_msg_rma {
        msg_iov: iov.as_ptr(),
        desc: descs.as_mut_ptr(),
        iov_count: 2,
        addr: message.addr,
        rma_iov: &raw const rma,
        rma_iov_count: 1,
        context: message.context,
        data: 0,
    };
    let ep = pair.side.raw();
    // No bytes are looked at, for there are too many.
    let codes = [
        // SAFETY: fi_msg(3): arrays of that many.
        unsafe { ops::fi_sendmsg(ep, &raw const message, 0) },
        // SAFETY: as above.
        unsafe { ops::fi_recvmsg(ep, &raw const message, 0) },
        // SAFETY: fi_rma(3): as above, and an array of one.
        unsafe { ops::fi_writemsg(ep, &raw const access, 0) },
        // SAFETY: as above.
        unsafe { ops::fi_readmsg(ep, &raw const access, 0) },
    ];
    assert_eq!(codes, [-(e::FI_EMSGSIZE as isize); 4]);
    pair.side.silent();
    actor.link.meet();
}

pub(crate) fn cancelled(actor: &Actor<'_>) {
    let pair = actor.pair(100);
    let context = pair.side.recv(pair.memory.sink(0, 100));
    let answer = pair.side.ep.cancel(context);
    if actor.is_direct() {
        answer.expect_err("efa-direct cannot");
    } else {
        assert_eq!(answer, Ok(true));
        let Event::Failed(error) = pair.side.one() else {
            panic!("not cancelled");
        };
        assert!(
            error.is_cancelled() && error.context() == context,
            "{error}"
        );
        // No message finds it any more: it is kept for the next one.
        actor.link.meet();
        pair.side.send(pair.memory.source(1), pair.target.peer);
        assert!(
            pair.side
                .one()
                .done()
                .flags()
                .contains(CompletionFlags::SEND)
        );
        pair.side.silent();
    }
    let flags = PostFlags::from_bits_retain(c::FI_FENCE);
    // SAFETY: memory and context are never freed.
    let fenced = unsafe {
        let source = pair.memory.source(1);
        pair.side
            .ep
            .post_sendmsg(source, 0, pair.target.peer, Side::context(), flags)
    };
    assert_ne!(fenced, Ok(Posted::Accepted), "EFA has no fences");
    actor.link.meet();
}
