//! Every request ends, or is reported (decision 12): connect, the answer of accept, and stalls, all
//! on a clock that is an argument.

use crate::bench::{Bench, config, conn, ctrl, name};
use ofi_rdma::{Error, Event, Lane, Outcome, Stage, Target, Why};

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
