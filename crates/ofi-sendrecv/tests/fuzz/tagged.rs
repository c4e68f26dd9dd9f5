//! Any sequence of calls and completions on one engine that talks to itself over a network that matches
//! tags: EAGAIN, failures, messages that are too long, forged connect messages, closes at any moment. No
//! panic; sizes and order are those of what was sent; once everything is closed nothing is left.

use std::collections::{BTreeMap, VecDeque};

use ofi_rdma::limits::EP_NAME_BYTES;
use ofi_rdma::{
    Admission, Cause, CommKey, EpName, Outcome, PeerAddr, RegionId, ReqKey, Test, Token,
};
use ofi_sendrecv::{Buffer, Config, Engine, Error, Post, Rest, TagPort, TagSpace, Target, Wire};

const STEPS_MAX: usize = 400;
const REGION: RegionId = RegionId(3);
const NAME_LEN: u8 = 16;
const BAD_NAME: u8 = 0xBA;
const EINVAL: i32 = 22;

/// The bytes of the input, taken one after the other; zeros once there are none.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn below(&mut self, bound: usize) -> Option<usize> {
        usize::from(self.byte()).checked_rem(bound)
    }
}

/// A message on its way, with its bytes if it connects.
struct Message {
    len: u64,
    bytes: Vec<u8>,
}

/// What a tag holds.
#[derive(Default)]
struct Queue {
    messages: VecDeque<Message>,
    receives: VecDeque<(Token, Buffer)>,
}

/// A completion that has not been given.
enum Ready {
    Sent(Token),
    Got(Token, u64),
    Cut(Token),
    Connect(Token, Vec<u8>),
    Cancelled(Token),
}

#[derive(Default)]
struct Net {
    queues: BTreeMap<u64, Queue>,
    ready: Vec<Ready>,
    /// By address of a receive: bytes of the message that it met, as far as they fit.
    met: BTreeMap<u64, u64>,
    /// By tag, for sends and for receives: the newest address. They go up: what is asked first is posted first.
    newest: BTreeMap<(u64, bool), u64>,
    room: BTreeMap<u64, u64>,
    busy: bool,
    refuse: bool,
    inject: bool,
}

impl Net {
    fn send(&mut self, tag: u64, message: Message) {
        self.queues
            .entry(tag)
            .or_default()
            .messages
            .push_back(message);
        self.match_up(tag);
    }

    fn receive(&mut self, tag: u64, receive: (Token, Buffer)) -> Outcome {
        let queue = self.queues.entry(tag).or_default();
        queue.receives.push_back(receive);
        self.match_up(tag);
        Outcome::Accepted
    }

    fn match_up(&mut self, tag: u64) {
        let queue = self.queues.entry(tag).or_default();
        while let (Some(_), Some(&(token, buffer))) =
            (queue.messages.front(), queue.receives.front())
        {
            let Some(message) = queue.messages.pop_front() else {
                return;
            };
            queue.receives.pop_front();
            let ready = if tag >> 63 == 1 {
                Ready::Connect(token, message.bytes)
            } else if message.len > buffer.len {
                Ready::Cut(token)
            } else {
                Ready::Got(token, message.len)
            };
            self.met.insert(buffer.addr, message.len.min(buffer.len));
            self.ready.push(ready);
        }
    }

    fn in_order(&mut self, line: (u64, bool), addr: u64) {
        let before = self.newest.insert(line, addr);
        // Several senders of one tag are several lines.
        assert!(before < Some(addr) || line.1, "{addr:#x} after {before:x?}");
    }

    fn within(&self, buffer: Buffer) {
        let room = self.room.get(&buffer.addr).copied();
        let room = room.expect("a buffer that somebody gave");
        assert!(buffer.len <= room, "{buffer:?} of {room}");
    }
}

impl TagPort for Net {
    fn post(&mut self, post: &Post) -> Outcome {
        if self.busy {
            return Outcome::Busy;
        }
        if self.refuse {
            return Outcome::Failed(Cause::errno(EINVAL));
        }
        let token = post.token();
        match *post.wire() {
            Wire::Connect { tag, .. } => {
                let bytes = post.connect_bytes().to_vec();
                self.send(tag, Message { len: 80, bytes });
            }
            Wire::Send { tag, buffer, .. } => {
                self.within(buffer);
                self.in_order((tag, true), buffer.addr);
                let (len, bytes) = (buffer.len, Vec::new());
                self.send(tag, Message { len, bytes });
            }
            Wire::Await { tag } => {
                let (addr, len, region) = (0, 256, REGION);
                let buffer = Buffer { addr, len, region };
                return self.receive(tag, (token, buffer));
            }
            Wire::Recv { tag, buffer } => {
                self.within(buffer);
                self.in_order((tag, false), buffer.addr);
                return self.receive(tag, (token, buffer));
            }
            Wire::FlushRead { .. } => {}
        }
        if self.inject {
            return Outcome::Completed;
        }
        self.ready.push(Ready::Sent(token));
        Outcome::Accepted
    }

    fn cancel(&mut self, token: Token) {
        for queue in self.queues.values_mut() {
            let before = queue.receives.len();
            queue.receives.retain(|(other, _)| *other != token);
            if queue.receives.len() < before {
                self.ready.push(Ready::Cancelled(token));
            }
        }
    }

    fn resolve(&mut self, name: &[u8; EP_NAME_BYTES]) -> Result<PeerAddr, Cause> {
        if name[0] == BAD_NAME {
            Err(Cause::errno(EINVAL))
        } else {
            Ok(PeerAddr(1))
        }
    }
}

/// A request that is not done: its buffer, and whether it receives.
#[derive(Clone, Copy)]
struct Asked {
    req: ReqKey,
    addr: u64,
    is_recv: bool,
}

struct Machine {
    engine: Engine,
    net: Net,
    comms: Vec<CommKey>,
    tags: Vec<u32>,
    requests: Vec<Asked>,
    old: Vec<Token>,
    now_ms: u64,
    buffers: u64,
}

fn name() -> [u8; EP_NAME_BYTES] {
    let mut name = [0; EP_NAME_BYTES];
    name[..usize::from(NAME_LEN)].fill(9);
    name
}

fn config() -> Config {
    Config {
        name: EpName {
            bytes: name(),
            len: NAME_LEN,
        },
        tags: TagSpace::of(u64::MAX).expect("64 bits are enough"),
        message_bytes_max: 1_000,
        connect_timeout_ms: 1_000,
        stall_warn_ms: Some(300),
        stall_fail_ms: Some(1_000),
    }
}

impl Machine {
    fn drain(&mut self) {
        self.engine.pump(&mut self.net);
        while self.engine.poll_event().is_some() {}
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.byte() % 16 {
            0 => {
                if let Ok((comm, tag)) = self.engine.listen() {
                    self.comms.push(comm);
                    self.tags.push(tag);
                }
            }
            1 => self.connect(input),
            2 => self.poll(input),
            3 | 4 => self.ask(input, false),
            5 | 6 => self.ask(input, true),
            7 => self.flush(input),
            8 | 9 => self.test(input),
            10 => self.close(input),
            11 | 12 => self.complete(input),
            13 => self.forge(input),
            14 => {
                self.now_ms += u64::from(input.byte()) * 10;
                self.engine.tick(self.now_ms);
            }
            _ => {
                let bits = input.byte();
                self.net.busy = bits & 1 == 1;
                self.net.refuse = bits & 14 == 14;
                self.net.inject = bits & 16 == 16;
                let at = input.below(self.old.len());
                if let Some(&token) = at.and_then(|at| self.old.get(at)) {
                    self.engine.on_local(token, 7);
                }
            }
        }
        self.drain();
    }

    fn connect(&mut self, input: &mut Input<'_>) {
        let choice = input.byte();
        let at = input.below(self.tags.len());
        let tag = at.and_then(|at| self.tags.get(at)).copied();
        let mut name = name();
        if choice & 7 == 7 {
            name[0] = BAD_NAME;
        }
        let tag = tag.unwrap_or_else(|| choice.into());
        let made = self
            .engine
            .connect(self.now_ms, &mut self.net, &Target { name, tag });
        self.comms.extend(made);
    }

    fn any_comm(&self, input: &mut Input<'_>) -> Option<CommKey> {
        match input.byte() {
            255 => Some(CommKey::from_bits(u64::from(input.byte()))),
            at => self
                .comms
                .get(usize::from(at).checked_rem(self.comms.len())?)
                .copied(),
        }
    }

    fn poll(&mut self, input: &mut Input<'_>) {
        let Some(comm) = self.any_comm(input) else {
            return;
        };
        if input.byte() & 1 == 0 {
            let _up = self.engine.poll_connect(comm, self.now_ms);
        } else if let Ok(Some(child)) = self.engine.poll_accept(comm, self.now_ms, &mut self.net) {
            self.comms.push(child);
        }
    }

    fn ask(&mut self, input: &mut Input<'_>, is_recv: bool) {
        let Some(comm) = self.any_comm(input) else {
            return;
        };
        let len = u64::from(input.byte()) * if is_recv { 2 } else { 1 };
        self.buffers += 1;
        let (addr, region) = (self.buffers << 32, REGION);
        self.net.room.insert(addr, len);
        let buffer = Buffer { addr, len, region };
        let admission = if is_recv {
            self.engine.irecv(comm, buffer)
        } else {
            self.engine.isend(comm, buffer)
        };
        if let Ok(Admission::Admitted(req)) = admission {
            self.requests.push(Asked { req, addr, is_recv });
        }
    }

    fn flush(&mut self, input: &mut Input<'_>) {
        if let Some(comm) = self.any_comm(input) {
            let _request = self.engine.flush(comm, 1 << 32, REGION);
        }
    }

    fn test(&mut self, input: &mut Input<'_>) {
        let Some(at) = input.below(self.requests.len()) else {
            return;
        };
        let Asked { req, addr, is_recv } = self.requests[at];
        let answer = self.engine.test(req);
        if let Ok(Test::Done(done)) = answer {
            let met = self.net.met.get(&addr).copied();
            let room = self.net.room.get(&addr).copied().unwrap_or(0);
            match met.filter(|_| is_recv) {
                // A message that did not fit is done with what there is room for.
                Some(len) => assert_eq!(done.bytes, len, "of {room}"),
                None => assert_eq!(done.bytes, room, "a send says what it sent"),
            }
        }
        if let Ok(Test::Done(_)) | Err(Error::Common(ofi_rdma::Error::NoSuchRequest)) = answer {
            self.requests.swap_remove(at);
            assert!(self.engine.test(req).is_err(), "done twice");
        }
    }

    fn close(&mut self, input: &mut Input<'_>) {
        let Some(comm) = self.any_comm(input) else {
            return;
        };
        if self.engine.close(comm, self.now_ms).is_ok() {
            assert!(
                self.engine.close(comm, self.now_ms).is_err(),
                "closed twice"
            );
        }
    }

    fn complete(&mut self, input: &mut Input<'_>) {
        let Some(at) = input.below(self.net.ready.len()) else {
            return;
        };
        let fails = input.byte() % 16 == 15;
        let ready = self.net.ready.swap_remove(at);
        self.give(ready, fails);
    }

    fn give(&mut self, ready: Ready, fails: bool) {
        let (Ready::Sent(token)
        | Ready::Got(token, _)
        | Ready::Cut(token)
        | Ready::Connect(token, _)
        | Ready::Cancelled(token)) = ready;
        // A listener awaits again under the same token: a completion of that cannot be told from an old one.
        if !matches!(ready, Ready::Connect(..)) {
            self.old.push(token);
        }
        match ready {
            _ if fails => self.engine.on_failed(token, Cause::errno(5)),
            Ready::Sent(token) => self.engine.on_local(token, 0),
            Ready::Got(token, len) => self.engine.on_local(token, len),
            Ready::Cut(token) => {
                let rest = if self.now_ms % 20 == 0 {
                    Rest::Dropped
                } else {
                    Rest::Unknown
                };
                self.engine.on_truncated(token, rest);
            }
            Ready::Connect(token, bytes) => self.engine.on_connect(token, &bytes),
            Ready::Cancelled(token) => self.engine.on_failed(token, Cause::errno(Cause::CANCELED)),
        }
    }

    /// A message that nobody here sent, to a tag that somebody has.
    fn forge(&mut self, input: &mut Input<'_>) {
        let Some(at) = input.below(self.tags.len()) else {
            return;
        };
        let tag = 1 << 63 | u64::from(self.tags[at]);
        let len = [0, 1, 80, 79, 160, 256][usize::from(input.byte()) % 6];
        let bytes: Vec<u8> = (0..len).map(|_| input.byte()).collect();
        let len = u64::try_from(len).unwrap_or(0);
        self.net.send(tag, Message { len, bytes });
    }

    fn end(&mut self) {
        (self.net.busy, self.net.refuse) = (false, false);
        for comm in core::mem::take(&mut self.comms) {
            let _closed = self.engine.close(comm, self.now_ms);
            self.drain();
        }
        while let Some(ready) = self.net.ready.pop() {
            self.give(ready, false);
            self.drain();
        }
        self.now_ms += 10_000;
        self.engine.tick(self.now_ms);
        self.drain();
        let left = [
            self.engine.live_comms(),
            self.engine.live_requests(),
            self.engine.posts_waiting(),
            usize::try_from(self.engine.region_refs(REGION)).expect("few"),
            self.net
                .queues
                .values()
                .map(|queue| queue.receives.len())
                .sum(),
        ];
        assert_eq!(
            left, [0; 5],
            "communicators, requests, posts, references, receives"
        );
    }
}

/// One sequence.
pub(crate) fn check(bytes: &[u8]) {
    let mut machine = Machine {
        engine: Engine::new(config()),
        net: Net::default(),
        comms: Vec::new(),
        tags: Vec::new(),
        requests: Vec::new(),
        old: Vec::new(),
        now_ms: 0,
        buffers: 0,
    };
    let mut input = Input(bytes);
    for _ in 0..STEPS_MAX {
        if input.0.is_empty() {
            break;
        }
        machine.step(&mut input);
    }
    machine.end();
}
