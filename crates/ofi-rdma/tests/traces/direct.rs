//! `isend_to` is `isend` and `pump`: whatever the port says to each operation, the same operations in
//! the same order, and the same end of each request.

use ofi_rdma::{Admission, Cause, CommKey, Outcome, ReqKey, SendBuf, Test};
use proptest::prelude::*;

use crate::bench::{Bench, PEER, REGION, config, ctrl};

/// One step of a caller and its network.
#[derive(Clone, Debug)]
enum Step {
    /// The CTRL of the next message without one comes, with so much room, of either kind.
    Ctrl {
        room: u32,
        unseen: bool,
    },
    Send {
        len: u32,
    },
    /// The oldest operation at the port completes.
    Complete,
    Pump,
    /// The oldest request is looked at.
    Test,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Nothing, eager, one stripe, several.
    let sizes = || prop_oneof![Just(0), Just(100), Just(60_000), 1_u32..600_000];
    let step = prop_oneof![
        4 => (sizes(), prop::bool::weighted(0.1)).prop_map(|(room, unseen)| Step::Ctrl { room, unseen }),
        4 => sizes().prop_map(|len| Step::Send { len }),
        4 => Just(Step::Complete),
        1 => Just(Step::Pump),
        2 => Just(Step::Test),
    ];
    prop::collection::vec(step, 1..60)
}

fn answers() -> impl Strategy<Value = Vec<Outcome>> {
    let answer = prop_oneof![
        6 => Just(Outcome::Accepted),
        2 => Just(Outcome::Busy),
        1 => Just(Outcome::Completed),
        1 => Just(Outcome::Failed(Cause::errno(5))),
    ];
    prop::collection::vec(answer, 0..60)
}

/// One of the two that must be alike.
struct Side {
    bench: Bench,
    comm: CommKey,
    direct: bool,
    requests: Vec<ReqKey>,
    next_ctrl: u32,
    said: Vec<String>,
}

impl Side {
    fn new(rails: u8, answers: &[Outcome], direct: bool) -> Self {
        let mut bench = Bench::new(config(rails, rails));
        let comm = bench.sender(rails, rails);
        bench.port.answers.extend(answers);
        Self {
            bench,
            comm,
            direct,
            requests: Vec::new(),
            next_ctrl: 0,
            said: Vec::new(),
        }
    }

    fn take(&mut self, step: &Step, rails: u8) {
        let Bench { engine, port } = &mut self.bench;
        match *step {
            // A peer is at most 128 messages ahead; there are fewer steps.
            Step::Ctrl { room, unseen } => {
                let keys: Vec<u32> = (0..u32::from(rails)).collect();
                let kind = if unseen { 5 } else { 2 };
                engine.on_control(&ctrl(kind, self.next_ctrl, 0, room, 0x9000, &keys));
                self.next_ctrl += 1;
                engine.pump(port);
            }
            Step::Send { len } => {
                let buf = SendBuf {
                    addr: 0x1000,
                    len: len.into(),
                    region: REGION,
                };
                let admission = if self.direct {
                    engine.isend_to(self.comm, buf, port)
                } else {
                    let admission = engine.isend(self.comm, buf);
                    engine.pump(port);
                    admission
                };
                self.said.push(format!("{admission:?}"));
                if let Ok(Admission::Admitted(key)) = admission {
                    self.requests.push(key);
                }
            }
            Step::Complete => {
                if let Some(post) = port.posts.pop_front() {
                    self.said.push(format!("{post:?}"));
                    engine.on_local(post.token);
                    engine.pump(port);
                }
            }
            Step::Pump => engine.pump(port),
            Step::Test => {
                if let Some(&key) = self.requests.first() {
                    let test = engine.test(key);
                    self.said.push(format!("{test:?}"));
                    if !matches!(test, Ok(Test::Pending { .. })) {
                        self.requests.remove(0);
                    }
                }
            }
        }
    }

    fn end(mut self) -> (Vec<String>, String) {
        let left: Vec<_> = self.bench.port.posts.drain(..).collect();
        let info = self.bench.engine.comm_info(self.comm);
        let counters = self.bench.engine.counters();
        (self.said, format!("{left:?} {info:?} {counters:?} {PEER}"))
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn the_short_way_is_the_long_way(rails in 1_u8..=4, steps in steps(), answers in answers()) {
        let mut sides = [false, true].map(|direct| Side::new(rails, &answers, direct));
        for step in &steps {
            for side in &mut sides {
                side.take(step, rails);
            }
        }
        let [long, short] = sides.map(Side::end);
        prop_assert_eq!(long, short);
    }
}
