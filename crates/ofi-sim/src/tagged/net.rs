//! A network of tagged messages, as providers promise it: what one host sends another arrives in order, a
//! message goes to the oldest receive of its tag, and each accepted operation completes once, at any time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use ofi_rdma::limits::EP_NAME_BYTES;
use ofi_rdma::{Cause, Outcome, PeerAddr, RegionId, Token};
use ofi_sendrecv::{Buffer, Op, Post, TagPort, Wire};

use super::setup::{Drawn, Fault, Sabotage};
use crate::rng::Rng;

const EIO: i32 = 5;
const ECANCELED: i32 = 125;
/// First byte of names that no provider takes; of others it is the host's number and one.
pub(super) const BAD_NAME: u8 = 0xBA;
/// The number of a host that is none of those simulated.
const STRANGER: u8 = u8::MAX;
/// The bit of connect messages.
const CONTROL: u64 = 1 << 63;

/// What a message is.
#[derive(Clone, Debug)]
pub(super) enum Body {
    /// Number of its life, and of the message in that.
    Data(u64, u64),
    Connect(Vec<u8>),
}

#[derive(Clone, Debug)]
struct Message {
    from: u8,
    tag: u64,
    len: u64,
    body: Body,
    /// Whose send completes when it is received.
    waits: Option<Token>,
}

#[derive(Debug)]
struct Receive {
    token: Token,
    tag: u64,
    buffer: Option<Buffer>,
}

/// How an operation ended.
#[derive(Clone, Debug)]
pub(super) enum End {
    Done,
    Got(u64),
    Cut,
    Connect(Vec<u8>),
    Failed(i32),
}

/// A completion, and when it shows.
#[derive(Clone, Debug)]
pub(super) struct Completion {
    pub(super) at_ms: u64,
    pub(super) token: Token,
    pub(super) end: End,
}

/// What the provider of one host has.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    receives: Vec<Receive>,
    /// Messages before their receives.
    early: Vec<Message>,
    pub(super) completions: Vec<Completion>,
    /// Operations that have not completed, with the region that they touch.
    pub(super) under_way: BTreeMap<u64, (Op, Option<RegionId>)>,
    storm_until_ms: u64,
    pub(super) is_dead: bool,
}

impl Inbox {
    /// Receives that messages can still find.
    pub(super) fn posted(&self) -> impl Iterator<Item = u64> + '_ {
        self.receives.iter().map(|receive| receive.tag & !CONTROL)
    }
}

/// Messages from one host to another, in order, each with when it arrives.
type Line = VecDeque<(u64, Message)>;

#[derive(Debug)]
pub(super) struct Net {
    pub(super) rng: Rng,
    pub(super) drawn: Drawn,
    pub(super) now_ms: u64,
    pub(super) inboxes: Vec<Inbox>,
    lines: BTreeMap<(u8, u8), Line>,
    /// Lives of links by host and tag of their listener.
    pub(super) lives: BTreeMap<(u8, u64), u64>,
    /// Lives to which something happened for which they may fail.
    pub(super) touched: BTreeSet<u64>,
    /// By address of a receive's buffer: which message is there, and of how many bytes it was.
    pub(super) landed: BTreeMap<u64, (u64, u64, u64)>,
    pub(super) hits: [u64; Fault::ALL.len()],
    /// Sender and receiver, and a tag, of which a message is lost: what is sent after it fails too. A provider that
    /// would deliver it in its place breaks the order that it promises, and nobody could tell.
    broken: BTreeSet<(u8, u8, u64)>,
    sabotage: Sabotage,
    /// Chances that the sabotage lets pass.
    passes: u64,
}

impl Net {
    pub(super) fn new(drawn: Drawn, mut rng: Rng, sabotage: Sabotage) -> Self {
        let passes = rng.below(30);
        Self {
            inboxes: (0..drawn.hosts).map(|_| Inbox::default()).collect(),
            rng,
            drawn,
            now_ms: 0,
            lines: BTreeMap::new(),
            lives: BTreeMap::new(),
            touched: BTreeSet::new(),
            landed: BTreeMap::new(),
            hits: [0; Fault::ALL.len()],
            broken: BTreeSet::new(),
            sabotage,
            passes,
        }
    }

    /// Whether a fault happens now.
    pub(super) fn strikes(&mut self, fault: Fault) -> bool {
        let strikes = self.rng.chance(self.drawn.rates[fault.at()]);
        self.hits[fault.at()] += u64::from(strikes);
        strikes
    }

    /// Whether the sabotage happens now: once.
    fn is_sabotaged(&mut self, sabotage: Sabotage) -> bool {
        if self.sabotage != sabotage {
            return false;
        }
        let Some(left) = self.passes.checked_sub(1) else {
            self.sabotage = Sabotage::Nothing;
            return true;
        };
        self.passes = left;
        false
    }

    fn inbox(&mut self, host: u8) -> &mut Inbox {
        &mut self.inboxes[usize::from(host)]
    }

    fn later(&mut self) -> u64 {
        self.now_ms + self.rng.below(self.drawn.delay_max_ms + 1)
    }

    fn complete(&mut self, host: u8, token: Token, end: End) {
        if self.is_sabotaged(Sabotage::Lose) {
            return;
        }
        let at_ms = self.later();
        self.inbox(host)
            .completions
            .push(Completion { at_ms, token, end });
    }

    /// Something happened to the life of this tag at this host.
    fn touch(&mut self, host: u8, tag: u64) {
        if let Some(life) = self.lives.get(&(host, tag & !CONTROL)) {
            self.touched.insert(*life);
        }
    }

    /// A host is gone. What it sent and has arrived stays where it is; who waits for it learns that some time.
    pub(super) fn kill(&mut self, host: u8) {
        self.inbox(host).is_dead = true;
        let lines = core::mem::take(&mut self.lines);
        let (gone, kept) = lines
            .into_iter()
            .partition(|((from, to), _)| *from == host || *to == host);
        self.lines = kept;
        let gone: BTreeMap<(u8, u8), Line> = gone;
        let early = core::mem::take(&mut self.inbox(host).early);
        let under_way = gone.into_values().flatten().map(|(_, message)| message);
        for message in under_way.chain(early) {
            self.bounce(message);
        }
    }

    fn send(&mut self, host: u8, to: u8, message: Message) {
        if self.inbox(to).is_dead {
            return self.bounce(message);
        }
        let at_ms = self.later();
        let line = self.lines.entry((host, to)).or_default();
        // In order: not before the one in front of it.
        let at_ms = line.back().map_or(at_ms, |(before, _)| at_ms.max(*before));
        line.push_back((at_ms, message));
        let last = line.len() - 1;
        let is_pair = |line: &Line| {
            let data = |at: usize| line.get(at).filter(|(_, m)| m.tag & CONTROL == 0);
            let (a, b) = (last.checked_sub(1).and_then(data), data(last));
            a.zip(b).is_some_and(|(a, b)| a.1.tag == b.1.tag)
        };
        if is_pair(line) && self.is_sabotaged(Sabotage::Swap) {
            if let Some(line) = self.lines.get_mut(&(host, to)) {
                line.swap(last - 1, last);
            }
        }
    }

    /// Lets arrive what is due.
    pub(super) fn deliver(&mut self) {
        let now_ms = self.now_ms;
        let pairs: Vec<(u8, u8)> = self.lines.keys().copied().collect();
        for pair in pairs {
            let is_due = |line: &&mut Line| line.front().is_some_and(|(at_ms, _)| *at_ms <= now_ms);
            while let Some(line) = self.lines.get_mut(&pair).filter(is_due) {
                if let Some((_, message)) = line.pop_front() {
                    self.arrive(pair.1, message);
                }
            }
        }
    }

    fn arrive(&mut self, host: u8, message: Message) {
        let mut tag = message.tag;
        if !self.lives.contains_key(&(host, tag & !CONTROL)) {
            return self.bounce(message);
        }
        if tag & CONTROL == 0 && self.is_sabotaged(Sabotage::Misdeliver) {
            let others = self.inbox(host).posted();
            tag = others.filter(|other| *other != tag).last().unwrap_or(tag);
        }
        let inbox = self.inbox(host);
        match inbox.receives.iter().position(|receive| receive.tag == tag) {
            Some(at) => {
                let receive = inbox.receives.remove(at);
                self.meet(host, &receive, message);
            }
            None => inbox.early.push(message),
        }
    }

    /// A message is in its receive.
    fn meet(&mut self, host: u8, receive: &Receive, message: Message) {
        if let Some(token) = message.waits {
            self.complete(message.from, token, End::Done);
        }
        if message.from != STRANGER && self.strikes(Fault::Error) {
            self.touch(host, receive.tag);
            return self.complete(host, receive.token, End::Failed(EIO));
        }
        let end = match (message.body, receive.buffer) {
            (Body::Data(life, number), Some(buffer)) => {
                self.landed.insert(buffer.addr, (life, number, message.len));
                if message.len > buffer.len {
                    if !self.drawn.drops_rest {
                        self.touch(host, receive.tag);
                    }
                    End::Cut
                } else {
                    let less = message.len > 0 && self.is_sabotaged(Sabotage::Short);
                    End::Got(message.len - u64::from(less))
                }
            }
            (Body::Connect(bytes), _) => End::Connect(bytes),
            (Body::Data(..), None) => End::Failed(EIO),
        };
        self.complete(host, receive.token, end);
    }

    /// A life of a link is over: nobody receives under its tag any more, and who still sends is told.
    pub(super) fn forget(&mut self, host: u8, tag: u32) {
        self.lives.remove(&(host, tag.into()));
        let is_of = |message: &Message| message.tag & !CONTROL == u64::from(tag);
        let (gone, kept) = core::mem::take(&mut self.inbox(host).early)
            .into_iter()
            .partition(is_of);
        self.inbox(host).early = kept;
        let gone: Vec<Message> = gone;
        gone.into_iter().for_each(|message| self.bounce(message));
    }

    /// A message for nobody: who sent it is told, if it waits.
    fn bounce(&mut self, message: Message) {
        if let Some(token) = message.waits {
            self.complete(message.from, token, End::Failed(EIO));
        }
    }

    fn receive(&mut self, host: u8, receive: Receive) -> Outcome {
        let early = &mut self.inbox(host).early;
        match early.iter().position(|message| message.tag == receive.tag) {
            Some(at) => {
                let message = early.remove(at);
                self.meet(host, &receive, message);
            }
            None => self.inbox(host).receives.push(receive),
        }
        Outcome::Accepted
    }

    /// A message of nobody that is simulated, to who awaits a connect message.
    pub(super) fn forge(&mut self, host: u8, tag: u32, bytes: Vec<u8>) {
        let message = Message {
            from: STRANGER,
            tag: CONTROL | u64::from(tag),
            len: bytes.len() as u64,
            body: Body::Connect(bytes),
            waits: None,
        };
        self.arrive(host, message);
    }

    /// A message of a second sender.
    pub(super) fn second_sender(&mut self, host: u8, tag: u32, bytes: Vec<u8>) {
        self.touch(host, tag.into());
        self.forge(host, tag, bytes);
    }
}

/// What one host sees of the network.
pub(super) struct Port<'a> {
    pub(super) net: &'a mut Net,
    pub(super) host: u8,
    /// By address of a buffer: life and number of the message that its caller sends from there.
    pub(super) contents: &'a BTreeMap<u64, (u64, u64)>,
}

impl Port<'_> {
    /// The host of a listener, as far as an operation says.
    fn listener(&self, wire: &Wire) -> (u8, u64) {
        match *wire {
            Wire::Connect { peer, tag } | Wire::Send { peer, tag, .. } => {
                (u8::try_from(peer.0).unwrap_or(STRANGER), tag)
            }
            Wire::Await { tag } | Wire::Recv { tag, .. } => (self.host, tag),
            Wire::FlushRead { .. } => (self.host, 0),
        }
    }

    fn is_busy(&mut self) -> bool {
        let now_ms = self.net.now_ms;
        if self.net.strikes(Fault::Storm) {
            // Shorter than the bound of a stall: nobody fails of it.
            let length = self.net.rng.between(1, 300);
            self.net.inbox(self.host).storm_until_ms = now_ms + length;
        }
        self.net.inbox(self.host).storm_until_ms > now_ms || self.net.strikes(Fault::Busy)
    }

    /// Sends a message; whether its completion is taken care of.
    fn send(&mut self, post: &Post, len: u64, body: Body) -> Outcome {
        let (to, tag) = self.listener(post.wire());
        let net = &mut *self.net;
        let line = (self.host, to, tag);
        let is_broken = net.broken.contains(&line);
        let fails = is_broken || net.strikes(Fault::Error);
        let is_injected = len <= net.drawn.inject_bytes && !fails && net.rng.chance(300_000);
        let waits = len > net.drawn.rendezvous_bytes && !fails && !is_injected;
        let message = Message {
            from: self.host,
            tag,
            len,
            body,
            waits: waits.then_some(post.token()),
        };
        if fails {
            net.touch(to, tag);
            net.complete(self.host, post.token(), End::Failed(EIO));
            if is_broken || net.rng.chance(500_000) {
                net.broken.insert(line);
                return Outcome::Accepted;
            }
        }
        net.send(self.host, to, message);
        if is_injected {
            return Outcome::Completed;
        }
        if !waits && !fails {
            net.complete(self.host, post.token(), End::Done);
        }
        Outcome::Accepted
    }
}

impl TagPort for Port<'_> {
    fn post(&mut self, post: &Post) -> Outcome {
        if self.is_busy() {
            return Outcome::Busy;
        }
        let (host, tag) = self.listener(post.wire());
        let is_flush = matches!(post.wire(), Wire::FlushRead { .. });
        // A read has no tag by which the simulation could tell whose it is.
        if !is_flush && self.net.strikes(Fault::Refused) {
            self.net.touch(host, tag);
            return Outcome::Failed(Cause::errno(EIO));
        }
        if !is_flush && self.net.is_sabotaged(Sabotage::Fail) {
            return Outcome::Failed(Cause::errno(EIO));
        }
        let (outcome, region) = match *post.wire() {
            Wire::Connect { .. } => {
                let bytes = post.connect_bytes().to_vec();
                (self.send(post, 80, Body::Connect(bytes)), None)
            }
            Wire::Send { buffer, .. } => {
                let (life, number) = self.contents.get(&buffer.addr).copied().unwrap_or_default();
                let body = Body::Data(life, number);
                (self.send(post, buffer.len, body), Some(buffer.region))
            }
            Wire::Await { tag } | Wire::Recv { tag, .. } => {
                let buffer = match *post.wire() {
                    Wire::Recv { buffer, .. } => Some(buffer),
                    _ => None,
                };
                let token = post.token();
                let region = buffer.map(|buffer| buffer.region);
                let receive = Receive { token, tag, buffer };
                (self.net.receive(self.host, receive), region)
            }
            Wire::FlushRead { region, .. } => {
                self.net.complete(self.host, post.token(), End::Done);
                (Outcome::Accepted, Some(region))
            }
        };
        if outcome == Outcome::Accepted {
            let under_way = &mut self.net.inbox(self.host).under_way;
            under_way.insert(post.token().0, (post.op(), region));
        }
        outcome
    }

    fn cancel(&mut self, token: Token) {
        let receives = &mut self.net.inbox(self.host).receives;
        let Some(at) = receives.iter().position(|receive| receive.token == token) else {
            return;
        };
        if self.net.is_sabotaged(Sabotage::KeepCancelled) {
            return;
        }
        self.net.inbox(self.host).receives.remove(at);
        self.net.complete(self.host, token, End::Failed(ECANCELED));
    }

    fn resolve(&mut self, name: &[u8; EP_NAME_BYTES]) -> Result<PeerAddr, Cause> {
        match name[0] {
            BAD_NAME => Err(Cause::errno(EIO)),
            first => Ok(PeerAddr(u64::from(first) - 1)),
        }
    }
}
