//! The engine and the peer over a network that keeps no order at all: what is under way arrives, and
//! completes, in an order that the seed draws.

use std::collections::BTreeMap;

use ofi_rdma::limits::{EP_NAME_BYTES, MAX_RAILS};
use ofi_rdma::{
    Admission, CommKey, Config, Engine, EpName, KeyWidth, PeerAddr, RecvBuf, RegionId, ReqKey,
    RxFate, RxId, SendBuf, Target, Test, Wire,
};

use crate::bytes::{NAME_LEN, Rng};
use crate::peer::Peer;
use crate::plan::{Out, Setup, Way, content, key, name, sizes};
use crate::provider::{Flying, Provider, SOURCE};

mod ends;

const REGION: RegionId = RegionId(7);

/// Where our buffer of receive 0 lies.
const SINK: u64 = 0x2000_0000_0000;

/// Virtual milliseconds after which a wait of the engine is over.
const BOUND_MS: u64 = 1000;

const GUARD: u8 = 0x5A;
const GUARDS: usize = 64;

struct OurRecv {
    req: ReqKey,
    memory: Vec<u8>,
    placed: usize,
    optional: bool,
    /// What test said.
    told: Option<u64>,
}

/// Both hosts and what is between them.
pub(crate) struct World {
    setup: Setup,
    rng: Rng,
    engine: Engine,
    provider: Provider,
    pub(crate) peer: Peer,
    now_ms: u64,
    bounce: BTreeMap<u32, Vec<u8>>,
    next_bounce: u32,
    listener: Option<CommKey>,
    send: Option<CommKey>,
    send_up: bool,
    recv: Option<CommKey>,
    sends: BTreeMap<u64, ReqKey>,
    recvs: BTreeMap<u64, OurRecv>,
    next: [u64; 2],
    done: [u64; 2],
}

fn config(setup: &Setup) -> Config {
    let names = |count: usize, control: bool| {
        let mut names = [EpName::EMPTY; MAX_RAILS];
        for (rail, slot) in (0..).zip(&mut names).take(count) {
            let mut bytes = [0; EP_NAME_BYTES];
            bytes[..NAME_LEN].fill(8);
            (bytes[0], bytes[1], bytes[2]) = (b'U', u8::from(control), rail);
            *slot = EpName { bytes, len: 32 };
        }
        names
    };
    let count = |n: usize| u8::try_from(n).unwrap_or(0);
    Config {
        data_rails: count(setup.rails),
        control_rails: count(setup.control_rails),
        control_names: names(setup.control_rails, true),
        data_names: names(setup.rails, false),
        key_width: if setup.long_keys {
            KeyWidth::Long
        } else {
            KeyWidth::Short
        },
        lengths_told: true,
        cq_data_bytes: 4,
        eager_max: u32::try_from(setup.our_eager).ok(),
        min_stripe_bytes: 1024,
        small_max_bytes: 64,
        connect_timeout_ms: BOUND_MS,
        stall_warn_ms: None,
        stall_fail_ms: None,
        close_messages: setup.close_messages,
        early_completion: setup.early,
    }
}

impl World {
    pub(crate) fn new(seed: u64, setup: Setup) -> Self {
        let mut rng = Rng(seed);
        let provider = Provider {
            rng: Rng(rng.word()),
            flying: Vec::new(),
            busy: rng.below(40),
        };
        Self {
            setup,
            engine: Engine::new(config(&setup)).expect("a good configuration"),
            provider,
            peer: Peer::new(setup),
            rng,
            now_ms: 0,
            bounce: BTreeMap::new(),
            next_bounce: 0,
            listener: None,
            send: None,
            send_up: false,
            recv: None,
            sends: BTreeMap::new(),
            recvs: BTreeMap::new(),
            next: [0; 2],
            done: [0; 2],
        }
    }

    /// One life of a communicator each way. `abrupt`: our side closes with work in flight.
    pub(crate) fn live(&mut self, abrupt: bool) {
        self.peer.begin(self.setup);
        (self.next, self.done, self.send_up) = ([0; 2], [0; 2], false);
        let (listener, id) = self.engine.listen().expect("listen");
        self.listener = Some(listener);
        let mut rng = self.rng.clone();
        self.peer.connect(&mut rng, id);
        self.rng = rng;
        let target = Target {
            control_name: self.target(),
            listener_id: self.peer.listener.expect("listens"),
        };
        self.send = Some(
            self.engine
                .connect(self.now_ms, &mut self.provider, &target)
                .expect("connect"),
        );
        let total = self.setup.messages;
        let end_at = if abrupt { total / 2 } else { total };
        self.until("all messages", |world| world.progress_of() >= end_at);
        if abrupt {
            self.end_abruptly();
        } else {
            self.end();
        }
    }

    /// The handle's 56 bytes, zero padded (2b).
    fn target(&self) -> [u8; EP_NAME_BYTES] {
        let mut bytes = [0; EP_NAME_BYTES];
        bytes[..NAME_LEN].copy_from_slice(&name(true, 0));
        bytes
    }

    /// Messages that are over on both sides, of the slower way.
    fn progress_of(&self) -> u64 {
        let ways = [
            self.done[0].min(self.peer.done[1]),
            self.done[1].min(self.peer.done[0]),
        ];
        ways[0].min(ways[1])
    }

    fn until(&mut self, what: &str, over: impl Fn(&Self) -> bool) {
        for _ in 0..4_000_000 {
            if over(self) {
                return;
            }
            self.step();
        }
        panic!(
            "{what}: never; {:?} {:?} {:?}",
            self.setup, self.done, self.peer.done
        );
    }

    /// One thing happens.
    fn step(&mut self) {
        let mut rng = self.rng.clone();
        match rng.below(8) {
            0 => self.ours(&mut rng),
            1 => self.theirs(&mut rng),
            2 | 3 => self.deliver(&mut rng),
            4..=6 => self.network(&mut rng),
            _ => self.engine.pump(&mut self.provider),
        }
        self.rng = rng;
        while let Some(rx) = self.engine.take_released() {
            assert!(
                self.bounce.remove(&rx.index).is_some(),
                "{rx:?} was not held"
            );
        }
    }

    /// Our application: connects, starts, tests.
    fn ours(&mut self, rng: &mut Rng) {
        if let (Some(comm), false) = (self.send, self.send_up) {
            let up = self
                .engine
                .poll_connect(comm, self.now_ms, &mut self.provider);
            self.send_up = up.expect("connect");
        }
        if let Some(listener) = self.listener {
            let accepted = self
                .engine
                .poll_accept(listener, self.now_ms, &mut self.provider);
            if let Some(comm) = accepted.expect("accept") {
                self.recv = Some(comm);
                self.listener = None;
                self.engine
                    .close(listener, self.now_ms)
                    .expect("close the listener");
            }
        }
        if rng.percent(60) {
            self.isend();
            self.irecv(rng);
        }
        self.test();
    }

    fn isend(&mut self) {
        let (k, full) = (self.next[0], self.sends.len() >= self.setup.window);
        let Some(comm) = self
            .send
            .filter(|_| self.send_up && !full && k < self.setup.messages)
        else {
            return;
        };
        let len = sizes(Way::ToPeer, k).0 as u64;
        let buf = SendBuf {
            addr: SOURCE + (k << 16),
            len,
            region: REGION,
        };
        if let Admission::Admitted(req) = self.engine.isend(comm, buf).expect("isend") {
            self.next[0] += 1;
            self.sends.insert(k, req);
        }
    }

    fn irecv(&mut self, rng: &mut Rng) {
        let (k, full) = (self.next[1], self.recvs.len() >= self.setup.window);
        let Some(comm) = self.recv.filter(|_| !full && k < self.setup.messages) else {
            return;
        };
        let room = sizes(Way::ToUs, k).1;
        let mut keys = [0; MAX_RAILS];
        for (rail, slot) in keys.iter_mut().enumerate().take(self.setup.rails) {
            *slot = key(&self.setup, Way::ToUs, k, rail);
        }
        let addr = SINK + (k << 16) + GUARDS as u64;
        let optional = rng.percent(50);
        let buf = RecvBuf {
            addr,
            len: room as u64,
            region: REGION,
            wire_addr: addr,
            keys,
            optional,
        };
        if let Admission::Admitted(req) = self.engine.irecv(comm, &buf).expect("irecv") {
            self.next[1] += 1;
            let memory = vec![GUARD; room + 2 * GUARDS];
            let optional = optional && self.setup.early;
            self.recvs.insert(
                k,
                OurRecv {
                    req,
                    memory,
                    placed: 0,
                    optional,
                    told: None,
                },
            );
        }
    }

    fn test(&mut self) {
        let engine = &mut self.engine;
        let mut done = |req| match engine.test(req).expect("test") {
            Test::Done(done) => Some(done.bytes),
            Test::Pending { .. } => None,
        };
        let mut over = Vec::new();
        for (&k, &req) in &self.sends {
            if let Some(bytes) = done(req) {
                let (sent, room) = sizes(Way::ToPeer, k);
                assert_eq!(bytes, sent.min(room) as u64, "the size of send {k}");
                over.push(k);
            }
        }
        for k in over {
            self.sends.remove(&k);
            self.done[0] += 1;
        }
        for recv in self.recvs.values_mut().filter(|recv| recv.told.is_none()) {
            recv.told = done(recv.req);
        }
        let finished = |k: u64, recv: &OurRecv| {
            let (sent, room) = sizes(Way::ToUs, k);
            recv.told.is_some() && (!recv.optional || recv.placed == sent.min(room))
        };
        let over: Vec<u64> = self
            .recvs
            .iter()
            .filter(|(k, r)| finished(**k, r))
            .map(|(k, _)| *k)
            .collect();
        for k in over {
            let recv = self.recvs.remove(&k).expect("there");
            judge(k, &recv);
            self.done[1] += 1;
        }
    }

    /// The peer's application.
    fn theirs(&mut self, rng: &mut Rng) {
        let [sends, recvs] = self.peer.in_flight();
        let (window, total) = (self.setup.window, self.setup.messages);
        if self.peer.connected() && sends < window && self.peer.next_send < total {
            self.peer.isend(rng);
        }
        if self.peer.accepted && recvs < window && self.peer.next_recv < total {
            self.peer.irecv(rng);
        }
        self.peer.test();
    }

    /// Something that the peer sent arrives here; its local completion comes before or after.
    fn deliver(&mut self, rng: &mut Rng) {
        if self.peer.out.is_empty() {
            return;
        }
        let at = rng.below(self.peer.out.len());
        let (out, whose) = self.peer.out.swap_remove(at);
        let first = rng.percent(50);
        if first {
            self.peer.completed(whose);
        }
        match out {
            Out::Control { rail, bytes } => {
                assert!(rail < self.setup.control_rails);
                self.engine.on_control(&bytes);
            }
            Out::Eager { rail, imm, bytes } => {
                let rx = RxId {
                    rail: u8::try_from(rail).unwrap_or(0),
                    index: self.next_bounce,
                };
                let len = u32::try_from(bytes.len()).unwrap_or(0);
                assert!(
                    self.setup.our_eager < 0 || i64::from(len) <= self.setup.our_eager.max(1024)
                );
                self.next_bounce += 1;
                self.bounce.insert(rx.index, bytes);
                if self.engine.on_eager(imm, len, rx) == RxFate::Repost {
                    self.bounce.remove(&rx.index);
                }
            }
            Out::Write {
                rail,
                imm,
                addr,
                key: opened,
                bytes,
            } => self.land(rail, imm, (addr, opened), &bytes),
        }
        if !first {
            self.peer.completed(whose);
        }
    }

    fn land(&mut self, rail: usize, imm: Option<u32>, to: (u64, u64), bytes: &[u8]) {
        let (addr, opened) = to;
        let (k, offset) = (
            (addr - SINK) >> 16,
            usize::try_from(addr & 0xFFFF).unwrap_or(0),
        );
        assert_eq!(
            opened,
            key(&self.setup, Way::ToUs, k, rail),
            "the key of rail {rail}"
        );
        if let Some(recv) = self.recvs.get_mut(&k) {
            recv.memory[offset..offset + bytes.len()].copy_from_slice(bytes);
            recv.placed += bytes.len();
        }
        if let Some(imm) = imm {
            let rail = u8::try_from(rail).unwrap_or(0);
            self.engine
                .on_remote_write(rail, imm.into(), Some(bytes.len() as u64));
        }
    }

    /// An operation of ours lands or completes.
    fn network(&mut self, rng: &mut Rng) {
        if self.provider.flying.is_empty() {
            return;
        }
        let at = rng.below(self.provider.flying.len());
        let reads = matches!(self.provider.flying[at].wire, Wire::EagerCopy { .. });
        let land = !self.provider.flying[at].landed && (reads || rng.percent(60));
        if land {
            self.provider.flying[at].landed = true;
            self.arrive(rng, at);
        } else if !self.provider.flying[at].completed {
            self.provider.flying[at].completed = true;
            self.engine.on_local(self.provider.flying[at].token);
        }
        let flying = &self.provider.flying[at];
        if flying.landed && flying.completed {
            self.provider.flying.swap_remove(at);
        }
    }

    fn arrive(&mut self, rng: &mut Rng, at: usize) {
        let Flying {
            lane,
            wire,
            ref bytes,
            ..
        } = self.provider.flying[at];
        let (rail, bytes) = (usize::from(lane.rail()), bytes.clone());
        let here = |peer: PeerAddr| assert_eq!(peer, PeerAddr(0xAD00 | lane.index() as u64));
        match wire {
            Wire::Control { peer, .. } => {
                here(peer);
                assert!(lane.is_control());
                self.peer.control(rng, rail, &bytes);
            }
            Wire::Eager { peer, imm, .. } => {
                here(peer);
                self.peer.eager(imm, &bytes);
            }
            Wire::Write {
                peer,
                remote_addr,
                remote_key,
                data,
                ..
            } => {
                here(peer);
                // 32 bits: nothing stands above the immediate for a peer of this generation.
                let word = data.map(|data| u32::try_from(data).expect("32 bits of CQ data"));
                self.peer
                    .land(rail, word, (remote_addr, remote_key), &bytes);
            }
            Wire::EagerCopy { rx, len, addr, .. } => {
                assert_eq!(
                    rx.rail,
                    lane.rail(),
                    "the copy goes over the rail of the payload"
                );
                let k = (addr - SINK) >> 16;
                let from = &self.bounce[&rx.index][..len as usize];
                let recv = self
                    .recvs
                    .get_mut(&k)
                    .expect("a copy into a receive that is over");
                recv.memory[GUARDS..GUARDS + from.len()].copy_from_slice(from);
            }
            other => panic!("{other:?}"),
        }
    }
}

/// A receive of ours that is over.
fn judge(k: u64, recv: &OurRecv) {
    let (sent, room) = sizes(Way::ToUs, k);
    let moved = sent.min(room);
    let said = if recv.optional { 0 } else { moved as u64 };
    assert_eq!(recv.told, Some(said), "the size of receive {k}");
    let want = content(Way::ToUs, k);
    for (at, got) in recv.memory.iter().enumerate() {
        let inside = at.checked_sub(GUARDS).filter(|at| *at < moved);
        assert_eq!(
            *got,
            inside.map_or(GUARD, |at| want[at]),
            "receive {k}, byte {at}"
        );
    }
}
