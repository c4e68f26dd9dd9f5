//! Two engines over a model of tagged messaging: matching by tag, order within a sender's messages of
//! one tag, any order between tags, EAGAIN at any time. The model knows nothing of the protocol.

use std::collections::{BTreeMap, VecDeque};

use ofi_rdma::limits::EP_NAME_BYTES;
use ofi_rdma::{Admission, Cause, CommKey, EpName, Outcome, PeerAddr, ReqKey, Token};
use ofi_sendrecv::{Buffer, Engine, Error, Post, TagPort, Target, Wire};
use proptest::prelude::*;

use crate::bench::{REGION, config, done, name};

const SIDES: [u8; 2] = [0, 1];
const COMMS: u32 = 3;

/// What a tag of an endpoint holds: messages without a receive, or receives without a message.
#[derive(Debug, Default)]
struct Queue {
    messages: VecDeque<Vec<u8>>,
    receives: VecDeque<(Token, Buffer)>,
}

/// What becomes of an operation, in the order of its tag.
#[derive(Clone, Debug)]
enum Ready {
    Local(Token, u64),
    Connect(Token, Vec<u8>),
}

#[derive(Debug, Default)]
struct Net {
    /// By endpoint and tag.
    queues: BTreeMap<(u8, u64), Queue>,
    /// Completions to be handed out, by endpoint and tag: each FIFO on its own.
    ready: BTreeMap<(u8, u64), VecDeque<Ready>>,
    /// Which of the next posts are answered with EAGAIN.
    busy: VecDeque<bool>,
    /// Bytes at addresses.
    memory: BTreeMap<u64, Vec<u8>>,
}

struct PortOf<'a> {
    net: &'a mut Net,
    side: u8,
}

impl Net {
    fn match_up(&mut self, side: u8, tag: u64) {
        let queue = self.queues.entry((side, tag)).or_default();
        while !queue.messages.is_empty() && !queue.receives.is_empty() {
            let (Some(bytes), Some((token, buffer))) =
                (queue.messages.pop_front(), queue.receives.pop_front())
            else {
                return;
            };
            let ready = self.ready.entry((side, tag)).or_default();
            if tag >> 63 == 1 {
                ready.push_back(Ready::Connect(token, bytes));
            } else {
                assert!(bytes.len() as u64 <= buffer.len, "these messages fit");
                ready.push_back(Ready::Local(token, bytes.len() as u64));
                self.memory.insert(buffer.addr, bytes);
            }
        }
    }
}

impl TagPort for PortOf<'_> {
    fn post(&mut self, post: &Post) -> Outcome {
        if self.net.busy.pop_front().unwrap_or(false) {
            return Outcome::Busy;
        }
        let (token, none) = (
            post.token(),
            Buffer {
                addr: 0,
                len: 0,
                region: REGION,
            },
        );
        let (peer, tag, bytes) = match *post.wire() {
            Wire::Connect { peer, tag } => (peer, tag, post.connect_bytes().to_vec()),
            Wire::Send { peer, tag, buffer } => (
                peer,
                tag,
                self.net
                    .memory
                    .get(&buffer.addr)
                    .cloned()
                    .unwrap_or_default(),
            ),
            Wire::Await { tag } | Wire::Recv { tag, .. } => {
                let buffer = match *post.wire() {
                    Wire::Recv { buffer, .. } => buffer,
                    _ => none,
                };
                let queue = self.net.queues.entry((self.side, tag)).or_default();
                queue.receives.push_back((token, buffer));
                self.net.match_up(self.side, tag);
                return Outcome::Accepted;
            }
            Wire::FlushRead { .. } => return Outcome::Completed,
        };
        let to = u8::try_from(peer.0).unwrap_or(u8::MAX);
        self.net
            .queues
            .entry((to, tag))
            .or_default()
            .messages
            .push_back(bytes);
        self.net.match_up(to, tag);
        // The sender's completion is on a tag of its own: any time, in order.
        let sent = self
            .net
            .ready
            .entry((self.side, tag | 1 << 62))
            .or_default();
        sent.push_back(Ready::Local(token, 0));
        Outcome::Accepted
    }

    fn cancel(&mut self, _: Token) {}

    fn resolve(&mut self, name: &[u8; EP_NAME_BYTES]) -> Result<PeerAddr, Cause> {
        Ok(PeerAddr(u64::from(name[0])))
    }
}

#[derive(Debug)]
struct World {
    engines: [Engine; 2],
    net: Net,
}

impl World {
    fn new() -> Self {
        let engine = |side: u8| {
            let mut settings = config();
            settings.name = EpName {
                bytes: name(side),
                len: 16,
            };
            Engine::new(settings)
        };
        Self {
            engines: SIDES.map(engine),
            net: Net::default(),
        }
    }

    fn pump(&mut self) {
        for side in SIDES {
            let mut port = PortOf {
                net: &mut self.net,
                side,
            };
            self.engines[usize::from(side)].pump(&mut port);
        }
    }

    /// Hands out one completion: of the `pick`th tag that has one.
    fn complete(&mut self, pick: usize) -> bool {
        self.net.ready.retain(|_, queue| !queue.is_empty());
        let count = self.net.ready.len();
        if count == 0 {
            return false;
        }
        let Some((&(side, tag), _)) = self.net.ready.iter().nth(pick % count) else {
            return false;
        };
        let ready = self
            .net
            .ready
            .get_mut(&(side, tag))
            .and_then(VecDeque::pop_front);
        let engine = &mut self.engines[usize::from(side)];
        match ready {
            Some(Ready::Local(token, len)) => engine.on_local(token, len),
            Some(Ready::Connect(token, bytes)) => engine.on_connect(token, &bytes),
            None => {}
        }
        true
    }

    /// A communicator from side 0 to side 1.
    fn connect(&mut self) -> (CommKey, CommKey) {
        let (listener, tag) = self.engines[1].listen().unwrap();
        let mut port = PortOf {
            net: &mut self.net,
            side: 0,
        };
        let target = Target { name: name(1), tag };
        let sender = self.engines[0].connect(0, &mut port, &target).unwrap();
        for _ in 0..10_000 {
            self.pump();
            self.complete(0);
            let mut port = PortOf {
                net: &mut self.net,
                side: 1,
            };
            let accepted = self.engines[1].poll_accept(listener, 0, &mut port).unwrap();
            if let Some(receiver) = accepted {
                while self.engines[0].poll_connect(sender, 0) != Ok(true) {
                    self.pump();
                    assert!(self.complete(0), "the connect message completes");
                }
                self.engines[1].close(listener, 0).unwrap();
                return (sender, receiver);
            }
        }
        panic!("not connected");
    }
}

/// One step of a schedule.
#[derive(Clone, Debug)]
enum Step {
    Send(usize, u16),
    Recv(usize),
    Complete(usize),
    Pump,
    Busy,
}

fn step() -> impl Strategy<Value = Step> {
    let comm = || 0..COMMS as usize;
    prop_oneof![
        4 => (comm(), any::<u16>()).prop_map(|(comm, len)| Step::Send(comm, len)),
        4 => comm().prop_map(Step::Recv),
        6 => any::<usize>().prop_map(Step::Complete),
        3 => Just(Step::Pump),
        2 => Just(Step::Busy),
    ]
}

/// What a communicator sent and received, in order.
#[derive(Debug, Default)]
struct Flow {
    sent: Vec<(ReqKey, usize)>,
    received: Vec<(ReqKey, u64)>,
}

/// The bytes of message `number` of communicator `comm`.
fn payload(comm: usize, number: usize, len: u16) -> Vec<u8> {
    let seed = (comm * 31 + number * 7) % 251;
    (0..usize::from(len))
        .map(|i| u8::try_from((i + seed) % 251).unwrap())
        .collect()
}

fn admitted(answer: Result<Admission, Error>) -> Option<ReqKey> {
    match answer.unwrap() {
        Admission::Admitted(request) => Some(request),
        Admission::NotNow(_) => None,
    }
}

fn take(world: &mut World, comms: &[(CommKey, CommKey)], flows: &mut [Flow], step: &Step) {
    match *step {
        Step::Send(at, len) => {
            let flow = &mut flows[at];
            let number = flow.sent.len();
            let addr = (at as u64) << 32 | number as u64;
            let buffer = Buffer {
                addr,
                len: u64::from(len),
                region: REGION,
            };
            world.net.memory.insert(addr, payload(at, number, len));
            if let Some(request) = admitted(world.engines[0].isend(comms[at].0, buffer)) {
                flow.sent.push((request, usize::from(len)));
            }
        }
        Step::Recv(at) => {
            let addr = 1 << 63 | (at as u64) << 32 | flows[at].received.len() as u64;
            let buffer = Buffer {
                addr,
                len: 1 << 16,
                region: REGION,
            };
            if let Some(request) = admitted(world.engines[1].irecv(comms[at].1, buffer)) {
                flows[at].received.push((request, addr));
            }
        }
        Step::Complete(pick) => {
            world.complete(pick);
        }
        Step::Pump => world.pump(),
        Step::Busy => world.net.busy.extend([true, true]),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_schedule_keeps_the_messages(steps in proptest::collection::vec(step(), 0..400)) {
        let mut world = World::new();
        let comms: Vec<_> = (0..COMMS).map(|_| world.connect()).collect();
        let mut flows: Vec<Flow> = comms.iter().map(|_| Flow::default()).collect();
        for step in &steps {
            take(&mut world, &comms, &mut flows, step);
        }
        // A receive for every message; then everything has to end.
        for at in 0..flows.len() {
            for _ in 0..100_000 {
                if flows[at].received.len() >= flows[at].sent.len() {
                    break;
                }
                take(&mut world, &comms, &mut flows, &Step::Recv(at));
                world.pump();
                world.complete(0);
                prop_assume!(flows[at].received.len() < 128);
            }
        }
        for _ in 0..1000 {
            world.pump();
            while world.complete(0) {}
        }
        for (at, flow) in flows.iter().enumerate() {
            for (number, (request, len)) in flow.sent.iter().enumerate() {
                let bytes = *len as u64;
                prop_assert_eq!(world.engines[0].test(*request), Ok(done(bytes)));
                let Some((request, addr)) = flow.received.get(number) else {
                    continue;
                };
                prop_assert_eq!(world.engines[1].test(*request), Ok(done(bytes)));
                let expected = payload(at, number, u16::try_from(*len).unwrap());
                prop_assert_eq!(world.net.memory.get(addr), Some(&expected));
            }
        }
    }
}
