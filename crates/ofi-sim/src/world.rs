//! Everything but the engines: hosts with memory and completion queues, the network between them,
//! the clock, the seed, and the truth that the oracles compare with.

use core::fmt;
use std::collections::VecDeque;

use ofi_rdma::limits::MAX_RAILS;
use ofi_rdma::{Cause, Lane, RegionId, RxId, Token};

use crate::bounce::Bounce;
use crate::config::SimConfig;
use crate::ledger::{Ledger, Owner};
use crate::link::Link;
use crate::memory::{Addressing, Memory};
use crate::ops::Ops;
use crate::report::{Record, Report, What};
use crate::rng::{Rng, mix};
use crate::timeline::Timeline;

/// Control receive buffers posted on each control lane.
const CONTROL_BUFFERS: u32 = 64;

/// Bytes of a host's flush page, the source and target of empty messages.
const PAGE_BYTES: u64 = 4096;

/// Events remembered for the report of a failure.
const RECENT: usize = 48;

/// One entry of a completion queue.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CqEntry {
    /// A posted operation completed.
    Local { token: Token, owner: Option<Owner> },
    /// A posted operation failed.
    Failed {
        token: Token,
        cause: Cause,
        owner: Option<Owner>,
    },
    /// A peer wrote with an immediate.
    RemoteWrite { data: u64, len: Option<u64> },
    /// A control message lies in the buffer of an operation.
    Control { op: u32 },
    /// An eager message lies in a bounce buffer.
    Eager { imm: u32, len: u32, rx: RxId },
}

/// Posted control buffers of one lane.
#[derive(Debug)]
pub(crate) struct ControlLane {
    pub(crate) posted: u32,
    pub(crate) waiting: VecDeque<u32>,
}

/// One host, without its engine.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) memory: Memory,
    pub(crate) page: RegionId,
    pub(crate) page_addr: u64,
    /// One completion queue a rail.
    pub(crate) cq: [VecDeque<CqEntry>; MAX_RAILS],
    pub(crate) control: [ControlLane; MAX_RAILS],
    pub(crate) bounce: [Bounce; MAX_RAILS],
    /// Posts left of a storm of EAGAIN, each lane.
    pub(crate) storm: [u32; Lane::COUNT_MAX],
    /// When the last operation on a lane to a host lands, for ordered networks.
    pub(crate) last: Vec<[u64; Lane::COUNT_MAX]>,
    pub(crate) dead: bool,
    /// Something came since the host last had the processor.
    pub(crate) woken: bool,
    /// A token whose completion was already given: stale completions repeat it.
    pub(crate) old_token: Option<(u8, Token)>,
}

/// The world between the engines.
pub(crate) struct World {
    pub(crate) config: SimConfig,
    pub(crate) now: u64,
    pub(crate) rng: Rng,
    pub(crate) timeline: Timeline,
    pub(crate) ops: Ops,
    pub(crate) nodes: Vec<Node>,
    pub(crate) ledger: Ledger,
    pub(crate) report: Report,
    /// Operations that vanished with a dead peer: given back when the endpoints close.
    pub(crate) vanished: Vec<(u8, Lane, Token, Option<Owner>)>,
    /// The first thing an oracle found.
    pub(crate) wrong: Option<String>,
    pub(crate) recent: VecDeque<Record>,
    /// The kind of the last event of each host.
    before: Vec<u8>,
    /// Operations counted for the sabotage.
    pub(crate) sabotaged: u32,
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World")
            .field("now", &self.now)
            .field("wrong", &self.wrong)
            .finish_non_exhaustive()
    }
}

impl World {
    pub(crate) fn new(config: SimConfig, seq_bits: u32, inflight_max: u64) -> Self {
        let mut rng = Rng::new(config.seed);
        let mut ledger = Ledger::new(config.hosts.into(), seq_bits, inflight_max);
        let nodes = (0..config.hosts).map(|host| Node::new(host, &config, &mut rng, &mut ledger));
        let nodes = nodes.collect();
        Self {
            now: 0,
            rng,
            timeline: Timeline::default(),
            ops: Ops::default(),
            nodes,
            ledger,
            report: Report::default(),
            vanished: Vec::new(),
            wrong: None,
            recent: VecDeque::with_capacity(RECENT),
            before: vec![0; config.hosts.into()],
            sabotaged: 0,
            config,
        }
    }

    pub(crate) fn node(&self, host: u8) -> &Node {
        &self.nodes[usize::from(host)]
    }

    pub(crate) fn node_mut(&mut self, host: u8) -> &mut Node {
        &mut self.nodes[usize::from(host)]
    }

    /// Virtual milliseconds.
    pub(crate) const fn now_ms(&self) -> u64 {
        self.now / 1_000_000
    }

    /// An oracle found something; the first finding stays.
    #[cold]
    pub(crate) fn violation(&mut self, what: String) {
        self.wrong.get_or_insert(what);
    }

    /// Takes the outcome of an oracle.
    pub(crate) fn expect(&mut self, outcome: Result<(), String>) {
        if let Err(what) = outcome {
            self.violation(what);
        }
    }

    /// Remembers what happened, and folds it into the fingerprint of the run.
    pub(crate) fn note(&mut self, host: u8, what: What, a: u64, b: u64) {
        let mixed = mix(self.now ^ a.rotate_left(17) ^ b.rotate_left(40) ^ what as u64);
        self.report.fingerprint = mix(self.report.fingerprint ^ mixed).rotate_left(1);
        let before = &mut self.before[usize::from(host)];
        *before = self.report.coverage.step(*before, what, a);
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(Record {
            at_ns: self.now,
            host,
            what,
            a,
            b,
        });
    }

    /// Puts an entry into a completion queue, unless its host is dead.
    pub(crate) fn complete(&mut self, host: u8, rail: u8, entry: CqEntry) {
        let node = self.node_mut(host);
        node.cq[usize::from(rail)].push_back(entry);
        node.woken = true;
    }

    /// Endpoints close: operations that vanished come back as cancelled.
    pub(crate) fn give_back_vanished(&mut self) {
        while let Some((host, lane, token, owner)) = self.vanished.pop() {
            let cause = Cause::errno(Cause::CANCELED);
            self.complete(
                host,
                lane.rail(),
                CqEntry::Failed {
                    token,
                    cause,
                    owner,
                },
            );
        }
    }

    /// A host dies, and what waited for it ends.
    pub(crate) fn bury(&mut self, host: u8) {
        let Self { ops, nodes, .. } = self;
        let node = &mut nodes[usize::from(host)];
        node.dead = true;
        for entry in node.cq.iter_mut().flat_map(|cq| cq.drain(..)) {
            if let CqEntry::Control { op } = entry {
                ops.release(op);
            }
        }
        let control = node
            .control
            .iter_mut()
            .flat_map(|lane| lane.waiting.drain(..));
        let eager = node
            .bounce
            .iter_mut()
            .flat_map(|lane| lane.waiting.drain(..));
        control.chain(eager).for_each(|op| ops.release(op));
    }

    /// A registered region of a link (or of the host).
    pub(crate) fn register(
        &mut self,
        host: u8,
        addr: u64,
        len: u64,
        link: Option<u16>,
    ) -> RegionId {
        self.ledger.add_region(host, link);
        self.node_mut(host).memory.register(addr, len)
    }
}

impl Node {
    fn new(host: u8, config: &SimConfig, rng: &mut Rng, ledger: &mut Ledger) -> Self {
        let salts = if config.long_keys {
            [0, 0x5A17_0000_0000_0000]
        } else {
            [0, 0x5A17_0000]
        };
        let key_salt = salts[usize::from(rng.chance(500_000))];
        let addressing = Addressing {
            virt: config.virt_addr,
            key_salt,
        };
        let base = 0x7000_0000_0000 + (u64::from(host) << 36);
        let mut memory = Memory::new(base, Link::expected_bytes(config), addressing);
        let page_addr = memory.allocate(PAGE_BYTES);
        let page = memory.register(page_addr, PAGE_BYTES);
        ledger.add_region(host, None);
        let bounce_bytes = u64::try_from(config.eager_max).unwrap_or(0).max(1);
        let on = config.eager_max >= 0;
        Self {
            page,
            page_addr,
            cq: Default::default(),
            control: core::array::from_fn(|_| ControlLane {
                posted: CONTROL_BUFFERS,
                waiting: VecDeque::new(),
            }),
            bounce: core::array::from_fn(|_| Bounce::new(&mut memory, bounce_bytes, on)),
            memory,
            storm: [0; Lane::COUNT_MAX],
            last: vec![[0; Lane::COUNT_MAX]; config.hosts.into()],
            dead: false,
            woken: false,
            old_token: None,
        }
    }
}
