//! Every request ends, or is reported (decision 12).

use ofi_rdma::{Cause, Event, Outcome, RequestKind, Stage, Why};
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

/// Nobody can connect to a listener whose receive the provider does not take; one that nobody connects to is well.
#[test]
fn a_listener_that_cannot_hear_fails_and_one_that_hears_nothing_does_not() {
    for is_deaf in [false, true] {
        let mut settings = config();
        settings.stall_warn_ms = Some(1000);
        settings.stall_fail_ms = Some(5000);
        let mut b = Bench::new(settings);
        if is_deaf {
            b.port.answers.extend([Outcome::Busy; 100]);
        }
        let (listener, tag) = b.engine.listen().unwrap();
        let mut stages = Vec::new();
        let accepted = (0..8000).step_by(100).map(|now_ms| {
            b.posts();
            b.engine.tick(now_ms);
            let accepted = b.engine.poll_accept(listener, now_ms, &mut b.port);
            while let Some(event) = b.engine.poll_event() {
                if let Event::Stalled {
                    local_id, stage, ..
                } = event
                {
                    stages.push((local_id, stage));
                }
            }
            accepted
        });
        let failed = accepted.filter_map(Result::err).last();
        if is_deaf {
            assert_eq!(stages, [(tag, Stage::Posting)], "once");
            let stage = Stage::Posting;
            assert!(matches!(why(failed.unwrap()), Why::Stalled { stage: s, .. } if s == stage));
        } else {
            assert_eq!((stages, failed), (vec![(tag, Stage::AwaitConn)], None));
        }
        b.engine.close(listener, 8000).unwrap();
    }
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

/// The oldest request is the one that was started first, however its slot is numbered, and as old as it is itself.
#[test]
fn the_oldest_request_is_told_by_its_number_and_with_its_age() {
    let mut b = Bench::new(config());
    let (receiver, _, _) = b.receiver(b'P');
    let first = b.irecv(receiver, 0, 8);
    let second = b.irecv(receiver, 8, 16);
    let posts = b.posts();
    b.engine.on_local(posts[0].token, 8);
    b.done(first, 8);
    // In the slot of the first.
    let third = b.irecv(receiver, 16, 24);
    let last = b.post();
    for now_ms in (1000..6000).step_by(100) {
        b.engine.tick(now_ms);
    }
    b.engine.on_local(last.token, 24);
    b.done(third, 24);
    b.engine.tick(8000);
    let view = b.engine.views(8000).find(|view| view.comm == receiver);
    let oldest = view.and_then(|view| view.oldest).unwrap();
    assert_eq!((oldest.request, oldest.seq), (second, Some(1)));
    assert!((6900..=7000).contains(&oldest.age_ms), "{oldest:?}");
}

#[test]
fn a_failure_names_its_request() {
    let mut b = Bench::new(config());
    let (receiver, _, _) = b.receiver(b'P');
    let (first, second) = (b.irecv(receiver, 0, 8), b.irecv(receiver, 8, 16));
    let posts = b.posts();
    let cause = Cause {
        errno: 103,
        provider_errno: 13,
    };
    b.engine.on_failed(posts[1].token, cause);
    let Err(Error::Common(ofi_rdma::Error::Failed(failure))) = b.engine.test(first) else {
        panic!("its communicator has failed");
    };
    let request = failure.request.unwrap();
    assert_eq!(
        (failure.seq, request.key, request.len),
        (Some(1), second, 16)
    );
    assert_eq!(request.kind, RequestKind::Recv);
}
