//! Every request ends, or is reported (decision 12).

use ofi_rdma::{Event, Outcome, Stage, Why};
use ofi_sendrecv::{Error, Target};

use crate::bench::{Bench, config, name, peer};

fn why(error: Error) -> Why {
    match error {
        Error::Common(ofi_rdma::Error::Failed(failure)) => failure.why,
        other => panic!("a failure was expected: {other:?}"),
    }
}

/// The provider answers EAGAIN for ever to an address where nobody listens (providers 1a).
#[test]
fn a_connect_message_that_cannot_go_out_ends_at_the_deadline() {
    let mut b = Bench::default();
    b.port.busy_peer = Some(peer(b'P'));
    let target = Target {
        name: name(b'P'),
        tag: 1,
    };
    let comm = b.engine.connect(500, &mut b.port, &target).unwrap();
    b.quiet();
    assert_eq!(b.engine.poll_connect(comm, 1500), Ok(false));
    let error = b.engine.poll_connect(comm, 1501).unwrap_err();
    let (waited_ms, stage) = (1001, Stage::SendConn);
    assert_eq!(why(error), Why::ConnectTimeout { waited_ms, stage });
    b.close(comm);
    b.baseline();
}

#[test]
fn a_connect_message_without_completion_ends_at_the_deadline() {
    let mut b = Bench::default();
    let target = Target {
        name: name(b'P'),
        tag: 1,
    };
    let comm = b.engine.connect(0, &mut b.port, &target).unwrap();
    let sent = b.post();
    let error = b.engine.poll_connect(comm, 1001).unwrap_err();
    let (waited_ms, stage) = (1001, Stage::Completions);
    assert_eq!(why(error), Why::ConnectTimeout { waited_ms, stage });
    b.engine.close(comm, 1001).unwrap();
    b.engine.on_local(sent.token, 0);
    b.baseline();
}

#[test]
fn a_stall_is_reported_once_and_fails_where_that_is_asked_for() {
    let mut settings = config();
    settings.stall_warn_ms = Some(1000);
    settings.stall_fail_ms = Some(5000);
    let mut b = Bench::new(settings);
    let (receiver, tag, _) = b.receiver(b'P');
    let recv = b.irecv(receiver, 0, 8);
    b.post();
    while b.engine.poll_event().is_some() {}
    for now_ms in (0..4900).step_by(100) {
        b.engine.tick(now_ms);
    }
    let Some(Event::Stalled {
        local_id,
        stage,
        outstanding,
        ..
    }) = b.engine.poll_event()
    else {
        panic!("a report");
    };
    assert_eq!((local_id, stage, outstanding), (tag, Stage::AwaitData, 1));
    assert_eq!(b.engine.poll_event(), None, "once");
    b.pending(recv);
    b.engine.tick(6000);
    let stalled = why(b.engine.test(recv).unwrap_err());
    assert!(matches!(
        stalled,
        Why::Stalled {
            stage: Stage::AwaitData,
            ..
        }
    ));
}

#[test]
fn what_moves_or_waits_for_its_caller_is_no_stall() {
    let mut settings = config();
    settings.stall_fail_ms = Some(1000);
    let mut b = Bench::new(settings);
    let sender = b.sender(b'P', 1);
    let done = b.isend(sender, 0, 8);
    let posted = b.post();
    b.engine.on_local(posted.token, 0);
    for now_ms in (0..5000).step_by(125) {
        b.engine.tick(now_ms);
    }
    b.done(done, 8);
    b.engine.tick(6000);
    b.port.answers.push_back(Outcome::Busy);
    b.isend(sender, 0, 8);
    assert!(b.engine.comm_info(sender).unwrap().stage == Some(Stage::Posting));
}
