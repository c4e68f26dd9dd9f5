//! `isend_to` is `isend` and `pump`, `irecv_to` is `irecv` and `pump`: whatever the port says to each operation, the same
//! operations in the same order, and the same end of each request.

use ofi_rdma::{Admission, Cause, CommKey, Config, Outcome, RecvBuf, ReqKey, RxId, SendBuf, Test};
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
    Recv {
        room: u32,
        optional: bool,
    },
    /// The peer writes the next message, whether there is a receive or not.
    Write {
        len: u32,
    },
    /// The next message comes eagerly.
    Eager {
        len: u32,
    },
    /// The oldest operation at the port completes.
    Complete,
    Pump,
    /// The oldest request is looked at.
    Test,
}

fn receiver_steps() -> impl Strategy<Value = Vec<Step>> {
    let sizes = || prop_oneof![Just(0), Just(100), 1_u32..600_000];
    let step = prop_oneof![
        6 => (sizes(), prop::bool::weighted(0.2)).prop_map(|(room, optional)| Step::Recv { room, optional }),
        3 => sizes().prop_map(|len| Step::Write { len }),
        2 => (0_u32..5000).prop_map(|len| Step::Eager { len }),
        4 => Just(Step::Complete),
        1 => Just(Step::Pump),
        2 => Just(Step::Test),
    ];
    prop::collection::vec(step, 1..60)
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
    /// Of the CTRL or the data that comes next.
    next_seq: u32,
    said: Vec<String>,
}

impl Side {
    fn new(mut bench: Bench, comm: CommKey, answers: &[Outcome], direct: bool) -> Self {
        bench.port.answers.extend(answers);
        Self {
            bench,
            comm,
            direct,
            requests: Vec::new(),
            next_seq: 0,
            said: Vec::new(),
        }
    }

    fn sender(rails: u8, answers: &[Outcome], direct: bool) -> Self {
        let mut bench = Bench::new(config(rails, rails));
        let comm = bench.sender(rails, rails);
        Self::new(bench, comm, answers, direct)
    }

    fn receiver(rails: u8, early: bool, answers: &[Outcome], direct: bool) -> Self {
        let mut bench = Bench::new(Config {
            early_completion: early,
            eager_max: (!early).then_some(8192),
            ..config(rails, rails)
        });
        let comm = bench.receiver(rails, rails);
        Self::new(bench, comm, answers, direct)
    }

    /// The immediate of the next message, in one piece, to communicator 1 (protocol 2c.5).
    fn immediate(&mut self) -> u32 {
        let imm = 0x1000_0400 | self.next_seq;
        self.next_seq += 1;
        imm
    }

    fn admitted(&mut self, admission: Result<Admission, ofi_rdma::Error>) {
        self.said.push(format!("{admission:?}"));
        if let Ok(Admission::Admitted(key)) = admission {
            self.requests.push(key);
        }
    }

    fn send(&mut self, len: u32) {
        let Bench { engine, port } = &mut self.bench;
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
        self.admitted(admission);
    }

    fn recv(&mut self, room: u32, optional: bool) {
        let Bench { engine, port } = &mut self.bench;
        let buf = RecvBuf {
            addr: 0x1000,
            len: room.into(),
            region: REGION,
            wire_addr: 0x1000,
            keys: [7; 4],
            optional,
        };
        let admission = if self.direct {
            engine.irecv_to(self.comm, &buf, port)
        } else {
            let admission = engine.irecv(self.comm, &buf);
            engine.pump(port);
            admission
        };
        self.admitted(admission);
    }

    fn take(&mut self, step: &Step, rails: u8) {
        let Bench { engine, port } = &mut self.bench;
        match *step {
            // A peer is at most 128 messages ahead; there are fewer steps.
            Step::Ctrl { room, unseen } => {
                let keys: Vec<u32> = (0..u32::from(rails)).collect();
                let kind = if unseen { 5 } else { 2 };
                engine.on_control(&ctrl(kind, self.next_seq, 0, room, 0x9000, &keys));
                self.next_seq += 1;
                engine.pump(port);
            }
            Step::Send { len } => self.send(len),
            Step::Recv { room, optional } => self.recv(room, optional),
            Step::Write { len } => {
                let imm = self.immediate();
                let engine = &mut self.bench.engine;
                engine.on_remote_write(0, imm.into(), Some(len.into()));
                engine.pump(&mut self.bench.port);
            }
            Step::Eager { len } => {
                let (rx, imm) = (RxId { rail: 0, index: 3 }, self.immediate());
                let fate = self.bench.engine.on_eager(imm, len, rx);
                self.said.push(format!("{fate:?}"));
                self.bench.engine.pump(&mut self.bench.port);
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
    fn the_short_way_of_a_send_is_the_long_way(rails in 1_u8..=4, steps in steps(), answers in answers()) {
        let mut sides = [false, true].map(|direct| Side::sender(rails, &answers, direct));
        for step in &steps {
            for side in &mut sides {
                side.take(step, rails);
            }
        }
        let [long, short] = sides.map(Side::end);
        prop_assert_eq!(long, short);
    }

    #[test]
    fn the_short_way_of_a_receive_is_the_long_way(
        (rails, early) in (1_u8..=4, any::<bool>()), steps in receiver_steps(), answers in answers()
    ) {
        let mut sides = [false, true].map(|direct| Side::receiver(rails, early, &answers, direct));
        for step in &steps {
            for side in &mut sides {
                side.take(step, rails);
            }
        }
        let [long, short] = sides.map(Side::end);
        prop_assert_eq!(long, short);
    }
}
