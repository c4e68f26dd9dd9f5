//! Every request ends, or is reported (decision 12): connect, the answer of accept, and stalls, all
//! on a clock that is an argument.

use crate::bench::{Bench, REGION, config, conn, ctrl, name};
use ofi_rdma::{Cause, CommKind, Error, Event, Lane, Outcome, RequestKind, Stage, Target, Why};

const ADDR: u64 = 0x1000;
const KEYS: [u64; 4] = [1, 2, 3, 4];

fn target() -> Target {
    Target {
        control_name: name(b'P', Lane::control(0)),
        listener_id: 0,
    }
}

fn why<T: core::fmt::Debug>(result: Result<T, Error>) -> Why {
    match result {
        Err(Error::Failed(failure)) => failure.why,
        other => panic!("a failure expected: {other:?}"),
    }
}

fn stalls(b: &mut Bench) -> Vec<(Stage, u64)> {
    core::iter::from_fn(|| b.engine.poll_event())
        .filter_map(|event| match event {
            Event::Stalled { stage, idle_ms, .. } => Some((stage, idle_ms)),
            _ => None,
        })
        .collect()
}

#[test]
fn connect_says_what_it_waited_for() {
    // CONN was sent, nobody answered.
    let mut b = Bench::new(config(1, 1));
    let comm = b
        .engine
        .connect(100, &mut b.port, &target())
        .expect("connect");
    let sent = b.post();
    b.engine.on_local(sent.token);
    assert_eq!(
        b.engine.poll_connect(comm, 1100, &mut b.port),
        Ok(false),
        "not before the limit"
    );
    let stage = Stage::AwaitConnResp;
    let timeout = Why::ConnectTimeout {
        waited_ms: 1001,
        stage,
    };
    assert_eq!(why(b.engine.poll_connect(comm, 1101, &mut b.port)), timeout);
    b.engine.close(comm, 1101).expect("close");
    b.baseline();

    // The provider never took CONN: EAGAIN for ever.
    let mut b = Bench::new(config(1, 1));
    let comm = b
        .engine
        .connect(0, &mut b.port, &target())
        .expect("connect");
    b.port.answers.extend([Outcome::Busy; 3]);
    (0..3).for_each(|_| b.quiet());
    let stage = Stage::SendConn;
    let timeout = Why::ConnectTimeout {
        waited_ms: 1001,
        stage,
    };
    assert_eq!(why(b.engine.poll_connect(comm, 1001, &mut b.port)), timeout);
    b.quiet();
    b.engine.close(comm, 1001).expect("close");
    b.baseline();
}

#[test]
fn an_answer_that_cannot_be_sent_ends_the_accept_and_not_the_listener() {
    let mut b = Bench::new(config(1, 1));
    let (listener, _) = b.engine.listen().expect("listen");
    assert_eq!(
        b.engine.poll_accept(listener, 1 << 40, &mut b.port),
        Ok(None),
        "waits for ever"
    );
    b.engine.on_control(&conn(0, 1, 1, 0, 0));
    b.port.answers.push_back(Outcome::Busy);
    assert_eq!(b.engine.poll_accept(listener, 0, &mut b.port), Ok(None));
    b.quiet();
    let stage = Stage::SendConnResp;
    let timeout = Why::ConnectTimeout {
        waited_ms: 1001,
        stage,
    };
    assert_eq!(
        why(b.engine.poll_accept(listener, 1001, &mut b.port)),
        timeout
    );
    b.quiet();
    // The next peer is served.
    b.engine.on_control(&conn(0, 1, 1, 5, 0));
    assert_eq!(b.engine.poll_accept(listener, 1001, &mut b.port), Ok(None));
    let sent = b.post();
    b.engine.on_local(sent.token);
    let comm = b
        .engine
        .poll_accept(listener, 1002, &mut b.port)
        .expect("accept")
        .expect("one");
    b.engine.close(comm, 0).expect("close");
    b.engine.close(listener, 0).expect("close");
    b.baseline();
}

/// Ticks every 10 ms from `from` to `to`.
fn ticks(b: &mut Bench, from: u64, to: u64) {
    (from..to).step_by(10).for_each(|now| b.engine.tick(now));
}

#[test]
fn a_stall_is_reported_once_and_fails_at_its_own_limit() {
    let mut settings = config(1, 1);
    (settings.stall_warn_ms, settings.stall_fail_ms) = (Some(1000), Some(3000));
    let mut b = Bench::new(settings);
    let comm = b.sender(1, 1);
    ticks(&mut b, 0, 100_000);
    assert_eq!(stalls(&mut b), [], "an idle communicator is not stalled");
    let req = b.isend(comm, ADDR, 100_000);
    ticks(&mut b, 100_000, 101_000);
    assert_eq!(stalls(&mut b), [], "not before the limit");
    ticks(&mut b, 101_000, 102_500);
    match *stalls(&mut b) {
        [(Stage::AwaitCtrl, idle)] => assert!((1000..1300).contains(&idle), "{idle}"),
        ref other => panic!("one report: {other:?}"),
    }
    b.pending(req);
    ticks(&mut b, 102_500, 103_500);
    match why(b.engine.test(req)) {
        Why::Stalled {
            idle_ms,
            stage: Stage::AwaitCtrl,
        } => {
            assert!((3000..3300).contains(&idle_ms), "{idle_ms}");
        }
        other => panic!("{other:?}"),
    }
    b.engine.close(comm, 0).expect("close");
    b.baseline();
}

#[test]
fn progress_of_any_kind_is_no_stall() {
    let mut settings = config(1, 1);
    settings.stall_fail_ms = Some(1000);
    let mut b = Bench::new(settings);
    let comm = b.receiver(1, 1);
    let first = b.irecv(comm, ADDR, 8, KEYS);
    let mut ctrls = b.posts();
    let second = b.irecv(comm, ADDR, 8, KEYS);
    ctrls.extend(b.posts());
    // Something happens every 900 ms: a completion, data, a completion, data.
    b.engine.tick(0);
    b.engine.on_local(ctrls[0].token);
    ticks(&mut b, 0, 900);
    b.engine.on_remote_write(0, 0x1000_0400, Some(8));
    ticks(&mut b, 900, 1800);
    b.engine.on_local(ctrls[1].token);
    ticks(&mut b, 1800, 2700);
    b.pending(second);
    // Done and not tested: the caller's turn, not a stall.
    b.engine.on_remote_write(0, 0x1000_0401, Some(8));
    ticks(&mut b, 2700, 50_000);
    b.done(first, 8);
    b.done(second, 8);
}

#[test]
fn each_stage_is_named() {
    let mut settings = config(1, 1);
    settings.stall_warn_ms = Some(100);
    let mut b = Bench::new(settings);
    let comm = b.sender(1, 1);
    b.engine.on_control(&ctrl(2, 0, 0, 100_000, 0x9000, &[1]));
    b.port.answers.push_back(Outcome::Busy);
    let _req = b.isend(comm, ADDR, 100_000);
    ticks(&mut b, 0, 300);
    assert_eq!(stalls(&mut b).first().map(|s| s.0), Some(Stage::Posting));
    let _wrote = b.post();
    ticks(&mut b, 300, 600);
    assert_eq!(
        stalls(&mut b).first().map(|s| s.0),
        Some(Stage::Completions)
    );
}

/// What a stall says of its request, as the line for people is made of it.
#[test]
fn a_stall_has_the_oldest_request_and_its_rails() {
    let mut settings = config(2, 1);
    settings.stall_warn_ms = Some(100);
    let mut b = Bench::new(settings);
    let comm = b.sender(2, 1);
    b.engine
        .on_control(&ctrl(2, 0, 0, 1_000_000, 0x9000, &[1, 2]));
    let _req = b.isend(comm, ADDR, 1_000_000);
    let posts = b.posts();
    assert_eq!(posts.len(), 2, "a segment a rail");
    b.engine.on_local(posts[0].token);
    ticks(&mut b, 0, 300);
    let found = core::iter::from_fn(|| b.engine.poll_event()).find_map(|event| match event {
        Event::Stalled { oldest, kind, .. } => Some((oldest, kind)),
        _ => None,
    });
    let (oldest, kind) = found.expect("a stall");
    let oldest = oldest.expect("a request");
    assert_eq!(kind, CommKind::Send);
    assert_eq!((oldest.kind, oldest.seq), (RequestKind::Send, Some(0)));
    assert_eq!((oldest.have, oldest.need, oldest.len), (1, 2, 1_000_000));
    let left = posts[1].lane.index();
    assert_eq!(oldest.flying, 1 << left);
    assert!(oldest.ctrl_seen);
}

/// Before the first request, and between them, nothing is waited for: however long that takes.
#[test]
fn no_alarm_before_the_first_post_and_none_when_idle() {
    let mut settings = config(1, 1);
    (settings.stall_warn_ms, settings.stall_fail_ms) = (Some(100), Some(200));
    let mut b = Bench::new(settings);
    let comm = b.receiver(1, 1);
    let (_listener, _) = b.engine.listen().expect("listen");
    ticks(&mut b, 0, 100_000);
    assert_eq!(stalls(&mut b), []);
    let req = b.irecv(comm, ADDR, 8, KEYS);
    let ctrl = b.post();
    b.engine.on_local(ctrl.token);
    b.engine.on_remote_write(0, 0x1000_0400, Some(8));
    ticks(&mut b, 100_000, 200_000);
    b.done(req, 8);
    ticks(&mut b, 200_000, 300_000);
    assert_eq!(stalls(&mut b), []);
    let view = b.engine.views(300_000).find(|view| view.comm == comm);
    let view = view.expect("it is there");
    assert_eq!((view.stage, view.oldest, view.outstanding), (None, None, 0));
}

/// A caller that was away comes back: the network had no time in which it could have moved.
#[test]
fn time_in_which_nobody_called_is_no_stall() {
    let mut settings = config(1, 1);
    (settings.stall_warn_ms, settings.stall_fail_ms) = (Some(1000), Some(3000));
    let mut b = Bench::new(settings);
    let comm = b.sender(1, 1);
    ticks(&mut b, 0, 1000);
    let req = b.isend(comm, ADDR, 100_000);
    ticks(&mut b, 1000, 1500);
    b.engine.on_absence(600_000);
    ticks(&mut b, 601_500, 601_900);
    assert_eq!(stalls(&mut b), [], "half a second was looked at");
    b.pending(req);
    ticks(&mut b, 601_900, 602_500);
    match *stalls(&mut b) {
        [(Stage::AwaitCtrl, idle)] => assert!((1000..1300).contains(&idle), "{idle}"),
        ref other => panic!("one report: {other:?}"),
    }
    let view = b.engine.views(602_500).find(|view| view.comm == comm);
    assert_eq!(view.expect("it is there").away_ms, 600_000);
}

#[test]
fn connections_that_make_no_progress_are_told_of_once() {
    let mut settings = config(1, 1);
    settings.stall_warn_ms = Some(100);
    let mut b = Bench::new(settings);
    let _comm = b
        .engine
        .connect(1000, &mut b.port, &target())
        .expect("connect");
    let sent = b.post();
    b.engine.on_local(sent.token);
    let (listener, _) = b.engine.listen().expect("listen");
    for now in (1000..1600).step_by(10) {
        assert_eq!(b.engine.poll_accept(listener, now, &mut b.port), Ok(None));
        b.engine.tick(now);
    }
    let mut stages: Vec<_> = stalls(&mut b).iter().map(|stall| stall.0).collect();
    stages.sort_by_key(Stage::to_string);
    assert_eq!(stages, [Stage::AwaitConn, Stage::AwaitConnResp]);
    let view = b.engine.views(1600).find(|view| view.comm == listener);
    assert!(view.expect("it is there").asked);
    // Nobody asks it any more: it waits for nobody.
    ticks(&mut b, 1600, 3000);
    let view = b.engine.views(3000).find(|view| view.comm == listener);
    let view = view.expect("it is there");
    assert_eq!((view.asked, view.stage), (false, None));
    assert_eq!(stalls(&mut b), []);
}

#[test]
fn a_close_that_waits_for_the_provider_is_told_of() {
    let mut settings = config(1, 1);
    settings.stall_warn_ms = Some(100);
    let mut b = Bench::new(settings);
    let comm = b.sender(1, 1);
    b.engine.on_control(&ctrl(2, 0, 0, 100_000, 0x9000, &[1]));
    let _req = b.isend(comm, ADDR, 100_000);
    let wrote = b.post();
    b.engine.close(comm, 0).expect("close");
    ticks(&mut b, 0, 500);
    assert_eq!(
        stalls(&mut b).first().map(|s| s.0),
        Some(Stage::Completions)
    );
    b.engine.on_local(wrote.token);
    b.baseline();
}

/// The oldest request is older than the standstill of its communicator, on which others went on; how old it is
/// is known without a look at the clock where it was started.
#[test]
fn the_age_of_a_request_is_its_own_and_eagain_that_of_its_communicator() {
    let mut settings = config(1, 1);
    settings.stall_warn_ms = Some(1000);
    let mut b = Bench::new(settings);
    let stuck = b.receiver(1, 1);
    b.port.answers.push_back(Outcome::Busy);
    let first = b.irecv(stuck, ADDR, 8, KEYS);
    b.quiet();
    let mut ctrls = vec![b.post()];
    let second = b.irecv(stuck, ADDR, 8, KEYS);
    ctrls.extend(b.posts());
    ctrls.iter().for_each(|ctrl| b.engine.on_local(ctrl.token));
    ticks(&mut b, 10_000, 15_000);
    // The second message comes, the first does not.
    b.engine.on_remote_write(0, 0x1000_0401, Some(8));
    b.done(second, 8);
    ticks(&mut b, 15_000, 17_000);
    let view = b.engine.views(17_000).find(|view| view.comm == stuck);
    let view = view.expect("it is there");
    let oldest = view.oldest.expect("the first message");
    assert_eq!((oldest.request, oldest.seq), (first, Some(0)));
    assert!((6500..=7000).contains(&oldest.age_ms), "{oldest:?}");
    assert!((1500..=2000).contains(&view.idle_ms), "{view:?}");
    assert_eq!(view.busy, 1, "its own");
    let others = b.sender_with(2);
    let view = b.engine.views(17_000).find(|view| view.comm == others);
    assert_eq!(view.expect("it is there").busy, 0);
    let fresh = b.isend(others, ADDR, 100_000);
    let view = b.engine.views(90_000).find(|view| view.comm == others);
    let oldest = view.and_then(|view| view.oldest).expect("a request");
    assert_eq!((oldest.request, oldest.age_ms), (fresh, 0), "never too old");
}

/// Whatever a request waits for, the failure names it.
#[test]
fn a_failure_names_its_request() {
    let cause = Cause {
        errno: 103,
        provider_errno: 13,
    };
    let mut b = Bench::new(config(1, 1));
    let comm = b.sender(1, 1);
    b.engine.on_control(&ctrl(2, 0, 0, 100_000, 0x9000, &[1]));
    let write = b.isend(comm, ADDR, 100_000);
    let posted = b.post();
    b.engine.on_failed(posted.token, cause);
    let named = |error: Error| match error {
        Error::Failed(failure) => (failure.seq, failure.request.expect("a request")),
        other => panic!("{other:?}"),
    };
    let (seq, request) = named(b.engine.test(write).expect_err("it failed"));
    assert_eq!((seq, request.key), (Some(0), write));
    assert_eq!((request.kind, request.len), (RequestKind::Send, 100_000));

    let mut b = Bench::new(config(1, 1));
    let receiver = b.receiver(1, 1);
    let flush = b.engine.flush(receiver, ADDR, REGION).expect("a flush");
    let read = b.post();
    b.engine.on_failed(read.token, cause);
    let (seq, request) = named(b.engine.test(flush).expect_err("it failed"));
    assert_eq!(
        (seq, request.key),
        (None, flush),
        "no message has that number"
    );
    assert_eq!((request.kind, request.len), (RequestKind::Flush, 4));

    // What a peer does wrong with a message is about its receive.
    let mut b = Bench::new(config(1, 1));
    let receiver = b.receiver(1, 1);
    let received = b.irecv(receiver, ADDR, 8, KEYS);
    let sent = b.post();
    b.engine.on_local(sent.token);
    b.engine.on_remote_write(0, 0x1000_0400, Some(9));
    let (seq, request) = named(b.engine.test(received).expect_err("it failed"));
    assert_eq!((seq, request.key), (Some(0), received));
    assert_eq!((request.kind, request.len), (RequestKind::Recv, 8));
}
