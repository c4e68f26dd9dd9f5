//! A CONN taken by one engine and answered by another (protocol 2d.1, `ENDPOINT_PER_COMM`).

use crate::bench::{Bench, config, conn};
use ofi_rdma::{Adoption, Error, Lane, Mismatch, Why};

#[test]
fn another_engine_answers_a_conn_with_its_own_ids() {
    let (mut l, mut r) = (Bench::new(config(2, 2)), Bench::new(config(2, 2)));
    let (listener, id) = l.engine.listen().expect("listen");
    // Ids of the two engines are their own: this one's first is taken by something else.
    let other = r.engine.listen().expect("listen");
    assert_eq!(l.engine.waiting_conn(listener), Ok(None));
    l.engine.on_control(&conn(0, 2, 2, 5, id));
    let found = *l
        .engine
        .waiting_conn(listener)
        .expect("it listens")
        .expect("a CONN");
    // It stays the listener's until it is settled: a second one finds nobody.
    l.engine.on_control(&conn(0, 2, 2, 6, id));
    assert_eq!(l.engine.counters().strays, 1);
    let comm = r
        .engine
        .adopt(&found, 0, &mut r.port)
        .expect("an id")
        .expect("addresses");
    assert_eq!(r.engine.poll_adopted(comm, 0), Ok(false));
    let sent = r.post();
    assert_eq!(sent.lane, Lane::control(0));
    assert_eq!(
        sent.bytes[..16],
        [1, 0, 2, 0, 2, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0]
    );
    r.engine.on_local(sent.token);
    assert_eq!(r.engine.poll_adopted(comm, 1), Ok(true));
    l.engine.settle(listener, Adoption::Taken);
    assert_eq!(l.engine.waiting_conn(listener), Err(Error::AlreadyAccepted));
    assert_eq!(
        l.engine.poll_accept(listener, 1, &mut l.port),
        Err(Error::AlreadyAccepted)
    );
    l.quiet();
    l.engine.close(listener, 2).expect("close");
    r.engine.close(comm, 2).expect("close");
    r.engine.close(other.0, 2).expect("close");
    l.baseline();
    r.baseline();
}

#[test]
fn a_listener_whose_conn_was_lost_takes_another() {
    let (mut l, mut r) = (Bench::new(config(2, 2)), Bench::new(config(2, 2)));
    let (listener, id) = l.engine.listen().expect("listen");
    // Other rails: refused from the adopting engine, with its true counts (decision 19).
    l.engine.on_control(&conn(0, 1, 1, 5, id));
    let found = *l
        .engine
        .waiting_conn(listener)
        .expect("it listens")
        .expect("a CONN");
    let comm = r
        .engine
        .adopt(&found, 0, &mut r.port)
        .expect("an id")
        .expect("an address");
    let sent = r.post();
    assert_eq!(sent.bytes[2..6], [2, 0, 2, 0]);
    r.engine.on_local(sent.token);
    let failed = r.engine.poll_adopted(comm, 1);
    let Err(Error::Failed(failure)) = failed else {
        panic!("{failed:?}");
    };
    assert!(matches!(
        failure.why,
        Why::Mismatch {
            what: Mismatch::Rails,
            ..
        }
    ));
    r.baseline();
    l.engine.settle(listener, Adoption::Lost);
    l.engine.on_control(&conn(0, 2, 2, 6, id));
    let next = l.engine.waiting_conn(listener).expect("it listens");
    assert_eq!(next.map(|conn| conn.local_id), Some(6));
    // An answer that does not go out ends at the deadline.
    let next = *next.expect("a CONN");
    let comm = r
        .engine
        .adopt(&next, 10, &mut r.port)
        .expect("an id")
        .expect("addresses");
    let sent = r.post();
    let failed = r.engine.poll_adopted(comm, 1011);
    assert!(matches!(failed, Err(Error::Failed(f)) if matches!(f.why, Why::ConnectTimeout { .. })));
    r.engine.on_local(sent.token);
    r.baseline();
}
