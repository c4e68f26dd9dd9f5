//! iwrite, iwriteInline and iread (protocol 2c.8, 2e.8): one operation on data rail 0, one completion,
//! no sequence number, and the cap of the messages.

use crate::bench::{Bench, REGION, config, ctrl, peer};
use ofi_rdma::{
    Admission, Cause, CommKey, Error, Lane, NotNow, OneSided, OpKind, Outcome, PutSource, Remote,
    ReqKey, Why, Wire,
};

const WHAT: OneSided = OneSided {
    addr: 0x1000,
    len: 4096,
    region: REGION,
    remote_addr: 0x7E00_0000_0000,
    remote_key: 0x1_0000_0001,
};

fn target() -> Remote {
    Remote {
        peer: peer(Lane::data(0)),
        addr: WHAT.remote_addr,
        key: WHAT.remote_key,
    }
}

fn admitted(answer: Result<Admission, Error>) -> ReqKey {
    match answer {
        Ok(Admission::Admitted(req)) => req,
        other => panic!("{other:?}"),
    }
}

fn iwrite(b: &mut Bench, comm: CommKey) -> ReqKey {
    admitted(b.engine.iwrite(comm, &WHAT))
}

#[test]
fn a_write_is_one_operation_on_data_rail_0() {
    let mut a = Bench::new(config(4, 4));
    let comm = a.sender(4, 4);
    // Whatever rails messages went over before.
    for _ in 0..3 {
        let req = iwrite(&mut a, comm);
        let put = a.post();
        let expected = Wire::Put {
            target: target(),
            addr: WHAT.addr,
            len: 4096,
            source: PutSource::Region(REGION),
        };
        assert_eq!((put.lane, put.wire), (Lane::data(0), expected));
        a.pending(req);
        a.engine.on_local(put.token);
        a.done(req, 4096);
    }
    // No sequence number was used.
    let req = a.isend(comm, 0x1000, 64);
    let eager = a.post();
    let Wire::Eager { imm, .. } = eager.wire else {
        panic!("{eager:?}")
    };
    assert_eq!(imm, 0x1000_0400, "the first message");
    a.engine.on_local(eager.token);
    a.engine
        .on_control(&ctrl(2, 0, 0, 64, 0x9000, &[1, 2, 3, 4]));
    a.done(req, 64);
    a.engine.close(comm, 0).expect("close");
    a.baseline();
}

#[test]
fn a_read_is_for_a_receive_communicator() {
    let mut b = Bench::new(config(2, 1));
    let comm = b.receiver(2, 1);
    assert_eq!(b.engine.iwrite(comm, &WHAT), Err(Error::NoSuchComm));
    let req = admitted(b.engine.iread(comm, &WHAT));
    let get = b.post();
    let expected = Wire::Get {
        target: target(),
        addr: WHAT.addr,
        len: 4096,
        region: REGION,
    };
    assert_eq!((get.lane, get.wire), (Lane::data(0), expected));
    b.engine.on_local(get.token);
    b.done(req, 4096);

    let mut a = Bench::new(config(1, 1));
    let comm = a.sender(1, 1);
    assert_eq!(a.engine.iread(comm, &WHAT), Err(Error::NoSuchComm));
}

#[test]
fn an_inline_write_is_offered_at_the_call_or_not_now() {
    let mut a = Bench::new(config(1, 1));
    let comm = a.sender(1, 1);
    let inline = OneSided { len: 16, ..WHAT };
    a.port.answers.push_back(Outcome::Busy);
    let answer = a.engine.iwrite_inline(comm, &inline, &mut a.port);
    assert_eq!(answer, Ok(Admission::NotNow(NotNow::ProviderBusy)));
    assert_eq!((a.engine.live_requests(), a.engine.posts_waiting()), (0, 0));
    a.quiet();

    // Behind an operation that waits it is not offered at all.
    a.port.answers.push_back(Outcome::Busy);
    let waiting = iwrite(&mut a, comm);
    a.quiet();
    let answer = a.engine.iwrite_inline(comm, &inline, &mut a.port);
    assert_eq!(answer, Ok(Admission::NotNow(NotNow::PostsWaiting)));
    let put = a.post();
    a.engine.on_local(put.token);
    a.done(waiting, 4096);

    let req = admitted(a.engine.iwrite_inline(comm, &inline, &mut a.port));
    let posted = a.port.posts.pop_front().expect("offered inside the call");
    let expected = Wire::Put {
        target: target(),
        addr: WHAT.addr,
        len: 16,
        source: PutSource::Inline,
    };
    assert_eq!(posted.wire, expected);
    a.pending(req);
    a.engine.on_local(posted.token);
    a.done(req, 16);
    a.engine.close(comm, 0).expect("close");
    a.baseline();
}

#[test]
fn they_share_the_cap_of_128_with_messages() {
    let mut a = Bench::new(config(1, 1));
    let comm = a.sender(1, 1);
    let writes: Vec<_> = (0..64)
        .map(|_| {
            let req = iwrite(&mut a, comm);
            (req, a.post().token)
        })
        .collect();
    for _ in 0..64 {
        a.isend(comm, 0x1000, 1 << 20);
    }
    let full = Ok(Admission::NotNow(NotNow::InFlightCap));
    assert_eq!(a.engine.iwrite(comm, &WHAT), full);
    assert_eq!(a.engine.iwrite_inline(comm, &WHAT, &mut a.port), full);
    let buf = ofi_rdma::SendBuf {
        addr: 0x1000,
        len: 64,
        region: REGION,
    };
    assert_eq!(a.engine.isend(comm, buf), full);
    assert_eq!(a.engine.comm_info(comm).expect("open").outstanding, 128);
    let (req, token) = writes[17];
    a.engine.on_local(token);
    assert_eq!(a.engine.iwrite(comm, &WHAT), full, "done is not taken");
    a.done(req, 4096);
    iwrite(&mut a, comm);
    assert_eq!(a.engine.iwrite(comm, &WHAT), full);
}

#[test]
fn one_sided_writes_do_not_close_the_gate_for_eager_messages() {
    let mut a = Bench::new(config(1, 1));
    let comm = a.sender(1, 1);
    iwrite(&mut a, comm);
    a.post();
    a.isend(comm, 0x1000, 64);
    let sent = a.post();
    assert!(matches!(sent.wire, Wire::Eager { .. }), "{sent:?}");
}

#[test]
fn a_failed_write_fails_its_communicator() {
    let mut a = Bench::new(config(1, 1));
    let comm = a.sender(1, 1);
    let mut start = || (iwrite(&mut a, comm), a.post());
    let ((first, one), (second, two)) = (start(), start());
    let cause = Cause::errno(13);
    a.engine.on_failed(one.token, cause);
    let Err(Error::Failed(failure)) = a.engine.test(first) else {
        panic!("it failed")
    };
    let (op, lane) = (OpKind::Put, Lane::data(0));
    assert_eq!(failure.why, Why::Operation { op, lane, cause });
    assert_eq!(failure.seq, None, "no message has that number");
    assert_eq!(a.engine.iwrite(comm, &WHAT), Err(Error::Failed(failure)));
    assert_eq!(a.engine.test(second), Err(Error::Failed(failure)));
    assert_eq!(a.engine.region_refs(REGION), 1, "the second is still there");
    a.engine.on_local(two.token);
    a.engine.close(comm, 0).expect("close");
    a.baseline();
}

#[test]
fn close_with_one_sided_operations_in_flight() {
    let mut a = Bench::new(config(1, 1));
    let comm = a.sender(1, 1);
    let req = iwrite(&mut a, comm);
    let put = a.post();
    a.port.answers.push_back(Outcome::Busy);
    let waiting = iwrite(&mut a, comm);
    a.quiet();
    a.engine.close(comm, 0).expect("close");
    a.quiet();
    assert_eq!(a.engine.test(req), Err(Error::NoSuchRequest));
    assert_eq!(a.engine.test(waiting), Err(Error::NoSuchRequest));
    assert_eq!(
        (a.engine.region_refs(REGION), a.engine.live_comms()),
        (1, 1)
    );
    a.engine.on_local(put.token);
    a.baseline();
}

#[test]
fn a_stalled_write_is_failed_at_the_limit() {
    let mut settings = config(1, 1);
    settings.stall_fail_ms = Some(1000);
    let mut a = Bench::new(settings);
    let comm = a.sender(1, 1);
    let req = iwrite(&mut a, comm);
    a.post();
    for now_ms in [0, 500, 1000, 1600] {
        a.engine.tick(now_ms);
    }
    let Err(Error::Failed(failure)) = a.engine.test(req) else {
        panic!("it failed")
    };
    assert!(matches!(failure.why, Why::Stalled { .. }), "{failure:?}");
}

#[test]
fn a_length_beyond_the_limit_is_refused() {
    let mut a = Bench::new(config(1, 1));
    let comm = a.sender(1, 1);
    let long = OneSided {
        len: 1 << 31,
        ..WHAT
    };
    let answer = a.engine.iwrite(comm, &long);
    assert!(matches!(answer, Err(Error::TooLong { .. })), "{answer:?}");
}
