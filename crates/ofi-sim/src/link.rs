//! One link: a caller on the sending host and one on the receiving host, which connect, carry
//! messages, close, and begin again.

use std::collections::VecDeque;

use ofi_rdma::{CommKey, RegionId, ReqKey};

use crate::config::SimConfig;
use crate::ledger::{RECV, SEND};
use crate::memory::index;
use crate::one_sided;
use crate::ops::{NAME_BYTES, endpoint_name};
use crate::pattern::{GUARD_BYTES, Plan};
use crate::rng::{Rng, mix};
use crate::world::World;

/// Where one side of a link stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// This life has not begun here.
    Idle,
    /// Receiver: listens and accepts. Sender: connects.
    Opening,
    /// Messages flow.
    Open,
    /// Closed; the region waits for the last operation that refers to it.
    Draining,
    /// Nothing left of this life.
    Over,
}

/// A request that is not done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    pub(crate) req: ReqKey,
    pub(crate) k: u64,
    pub(crate) slot: u16,
}

/// One side.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) phase: Phase,
    /// The communicator; while a receiver opens, its listener.
    pub(crate) comm: Option<CommKey>,
    pub(crate) region: RegionId,
    pub(crate) pending: VecDeque<Pending>,
    pub(crate) flushes: Vec<ReqKey>,
    /// One-sided operations: request and number.
    pub(crate) one_sided: Vec<(ReqKey, u64)>,
    /// Memory of this side: slots of [`Link::stride`] bytes, one a message in flight.
    pub(crate) memory: u64,
    pub(crate) free: Vec<u16>,
    /// Optional receives that are done and whose data has not all come: message and slot.
    pub(crate) awaited: Vec<(u64, u16)>,
    /// When this side closes although it is not done.
    pub(crate) abort_at: Option<u64>,
}

/// One link.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) index: u16,
    /// Host of the sender and of the receiver.
    pub(crate) hosts: [u8; 2],
    pub(crate) sides: [Side; 2],
    pub(crate) rng: Rng,
    /// Messages of this life, and of lives to come.
    pub(crate) total: u64,
    pub(crate) remaining: u64,
    pub(crate) window: usize,
    /// Requests are tested in any order instead of oldest first.
    pub(crate) any_order: bool,
    /// Name and listener id, once there is a listener.
    pub(crate) handle: Option<u32>,
    /// No life is left.
    pub(crate) retired: bool,
    /// When anything was last achieved.
    pub(crate) moved_at: u64,
}

impl Side {
    const fn new(memory: u64) -> Self {
        Self {
            phase: Phase::Over,
            comm: None,
            region: RegionId(0),
            pending: VecDeque::new(),
            flushes: Vec::new(),
            one_sided: Vec::new(),
            awaited: Vec::new(),
            memory,
            free: Vec::new(),
            abort_at: None,
        }
    }
}

impl Link {
    /// A link between two hosts, with memory at both, that has `remaining` messages to carry.
    pub(crate) fn new(world: &mut World, number: u16, hosts: [u8; 2], remaining: u64) -> Self {
        let bytes = Self::memory_bytes(&world.config);
        let side = |world: &mut World, host| Side::new(world.node_mut(host).memory.allocate(bytes));
        let sides = [side(world, hosts[SEND]), side(world, hosts[RECV])];
        world.ledger.add_link();
        Self {
            index: number,
            hosts,
            sides,
            rng: Rng::new(mix(world.config.seed) ^ u64::from(number)),
            total: 0,
            remaining,
            window: 1,
            any_order: false,
            handle: None,
            retired: false,
            moved_at: 0,
        }
    }

    /// Bytes of one slot: the longest message between guards.
    pub(crate) fn stride(config: &SimConfig) -> u64 {
        (u64::from(config.max_bytes) + 2 * GUARD_BYTES).next_multiple_of(64)
    }

    /// Bytes of memory of one side: a slot for each message in flight, then those of `one_sided`.
    fn memory_bytes(config: &SimConfig) -> u64 {
        Self::stride(config) * u64::from(config.window) + one_sided::AREA_BYTES
    }

    /// Memory that a host needs at most for its links, about: buffers for eager messages come on top.
    pub(crate) fn expected_bytes(config: &SimConfig) -> u64 {
        let link = (Self::memory_bytes(config) + 64) * u64::from(config.links);
        2 * link + (1 << 17)
    }

    /// Where the buffer of a slot begins.
    pub(crate) fn buffer(&self, side: usize, slot: u16, config: &SimConfig) -> u64 {
        self.sides[side].memory + u64::from(slot) * Self::stride(config) + GUARD_BYTES
    }

    /// Whether both sides are through with the present life, and the next has to be decided.
    pub(crate) fn is_over(&self) -> bool {
        !self.retired && self.sides.iter().all(|side| side.phase == Phase::Over)
    }

    /// Begins the next life, if messages remain. False: this link is done for good.
    pub(crate) fn begin_life(&mut self, world: &mut World) -> bool {
        let dead = self.hosts.iter().any(|&host| world.node(host).dead);
        if self.remaining == 0 || dead {
            self.retired = true;
            return false;
        }
        let config = world.config.clone();
        self.total = self.rng.between(1, config.per_life).min(self.remaining);
        if config.per_life >= self.remaining.saturating_mul(2) {
            self.total = self.remaining;
        }
        self.remaining -= self.total;
        self.window = index(self.rng.between(1, config.window.into()));
        self.any_order = self.rng.chance(300_000);
        self.handle = None;
        self.moved_at = world.now;
        world.ledger.begin_life(
            self.index,
            Plan {
                seed: self.rng.next_u64(),
            },
        );
        world.report.lives += 1;
        let bytes = Self::memory_bytes(&config);
        for side in [SEND, RECV] {
            let memory = self.sides[side].memory;
            let link = Some(self.index);
            let region = world.register(self.hosts[side], memory, bytes, link);
            let free = (0..u16::try_from(self.window).unwrap_or(1)).collect();
            self.sides[side] = Side {
                phase: Phase::Idle,
                region,
                free,
                ..Side::new(memory)
            };
            one_sided::prepare(self, world, side);
        }
        if self.rng.chance(config.faults.abrupt_ppm) {
            self.plan_abrupt_end(world);
        }
        true
    }

    /// One side, at any moment of this life, closes with whatever is in flight.
    fn plan_abrupt_end(&mut self, world: &mut World) {
        world.report.faults.abrupt += 1;
        let side = index(self.rng.below(2));
        let soon = self.rng.magnitude(3_000_000);
        self.sides[side].abort_at = Some(world.now + soon);
    }

    /// The host of the other side died. Who waits without a bound (for a handle, in accept for a CONN,
    /// or for data that it has to see for itself) hears of it by other means; everybody else has to
    /// notice.
    pub(crate) fn hears_of_death(&mut self, side: usize, now: u64, config: &SimConfig) {
        let phase = self.sides[side].phase;
        let looks = config.optional_ppm > 0 || phase == Phase::Opening;
        let unbound = phase == Phase::Idle || (looks && side == RECV);
        if unbound && self.sides[side].abort_at.is_none() {
            self.sides[side].abort_at = Some(now + self.rng.below(100_000_000));
        }
    }

    /// The connection handle that the receiver gave away.
    pub(crate) fn target(&self) -> Option<ofi_rdma::Target> {
        let listener_id = self.handle?;
        let name = endpoint_name(self.hosts[RECV], ofi_rdma::Lane::control(0));
        let mut control_name = [0; ofi_rdma::limits::EP_NAME_BYTES];
        control_name[..NAME_BYTES].copy_from_slice(&name);
        Some(ofi_rdma::Target {
            control_name,
            listener_id,
        })
    }
}
