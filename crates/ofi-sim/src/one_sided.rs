//! One-sided operations beside the messages: the sender writes into the receiver's memory, the
//! receiver reads the sender's; with the oracles of both.
//!
//! ```text
//!   memory of a side: [slots of messages] [local slots] [slots that the peer reads or writes]
//! ```

use ofi_rdma::{Admission, Dialect, Error, NotNow, OneSided, PutSource, Wire};

use crate::caller::Caller;
use crate::harvest::drain;
use crate::judge::Route;
use crate::ledger::{Owner, Part, RECV, SEND};
use crate::link::{Link, Phase};
use crate::pattern::{GUARD, GUARD_BYTES, Plan, fill, first_difference};
use crate::post::Port;
use crate::report::What;
use crate::rng::Rng;
use crate::world::World;

/// Operations of one side in flight.
const SLOTS: u64 = 8;

/// Longest operation.
const BYTES_MAX: u64 = 256;

/// Bytes of a slot: the longest operation between guards.
const STRIDE: u64 = BYTES_MAX + 2 * GUARD_BYTES;

/// Bytes of the slots of one side.
pub(crate) const AREA_BYTES: u64 = 2 * SLOTS * STRIDE;

/// Longest write that goes inline.
const INLINE_MAX: u64 = 64;

/// Which half of the area a slot is in.
#[derive(Clone, Copy, Debug)]
enum Half {
    Local = 0,
    Exposed = 1,
}

/// Where the bytes of slot `k` begin.
fn slot(link: &Link, side: usize, half: Half, k: u64, world: &World) -> u64 {
    let first =
        link.sides[side].memory + Link::stride(&world.config) * u64::from(world.config.window);
    first + (half as u64 * SLOTS + k % SLOTS) * STRIDE + GUARD_BYTES
}

/// The seed of the bytes of operation `k` of a side; of an exposed slot of the sender, `k < SLOTS`.
fn content(plan: Plan, side: usize, k: u64) -> u64 {
    plan.content(k ^ (1 + side as u64) << 60)
}

fn length(plan: Plan, side: usize, k: u64) -> u64 {
    Rng::new(content(plan, side, k) ^ 0x1E17).magnitude(BYTES_MAX)
}

/// A life begins: what the sender exposes is full of bytes to be read, the rest of guards.
pub(crate) fn prepare(link: &Link, world: &mut World, side: usize) {
    let plan = world.ledger.link(link.index).plan;
    let first = slot(link, side, Half::Local, 0, world) - GUARD_BYTES;
    let exposed: Vec<u64> = (0..SLOTS)
        .map(|k| slot(link, side, Half::Exposed, k, world))
        .collect();
    let memory = &mut world.node_mut(link.hosts[side]).memory;
    memory.at_mut(first, AREA_BYTES).fill(GUARD);
    if side == SEND {
        for (k, &at) in (0..).zip(&exposed) {
            fill(
                memory.at_mut(at, BYTES_MAX),
                content(plan, SEND, u64::MAX - k),
            );
        }
    }
}

impl<D: Dialect> Caller<'_, D> {
    /// Starts one now and then; one that is refused is not tried again.
    pub(crate) fn maybe_one_sided(&mut self) {
        let k = self.world.ledger.link(self.link.index).one_sided[self.side].next;
        let busy = |&(_, other): &(_, u64)| other % SLOTS == k % SLOTS;
        if !self.link.rng.chance(self.world.config.one_sided_ppm)
            || self.link.sides[self.side].one_sided.iter().any(busy)
        {
            return;
        }
        let Some(comm) = self.link.sides[self.side].comm else {
            return;
        };
        let what = self.prepare_one_sided(k);
        let inline = self.side == SEND && what.len <= INLINE_MAX && self.link.rng.chance(500_000);
        // The oracle of the post needs the record; a refusal takes it back.
        let region = self.link.sides[self.side].region;
        let truth = self.world.ledger.link_mut(self.link.index);
        truth.one_sided[self.side].admit(what.addr, what.len, region, inline);
        let host = self.host();
        let admission = if inline {
            let world = &mut *self.world;
            self.engine
                .iwrite_inline(comm, &what, &mut Port { world, host })
        } else if self.side == SEND {
            self.engine.iwrite(comm, &what)
        } else {
            self.engine.iread(comm, &what)
        };
        if inline {
            // The bytes were taken, or nothing was.
            let memory = &mut self.world.node_mut(host).memory;
            memory.at_mut(what.addr, what.len).fill(0xEE);
        }
        match admission {
            Ok(Admission::Admitted(req)) => {
                self.link.sides[self.side].one_sided.push((req, k));
                self.note(What::OneSided, k);
                drain(self.world, self.engine, host);
            }
            Ok(Admission::NotNow(why)) => self.refused(why, inline),
            // The next test of a message finds the same.
            Err(Error::Failed(_)) => self.take_back(),
            Err(error) => self.violation(format!("one-sided: {error}")),
        }
    }

    fn take_back(&mut self) {
        let truth = self.world.ledger.link_mut(self.link.index);
        truth.one_sided[self.side].take_back();
    }

    fn refused(&mut self, why: NotNow, inline: bool) {
        self.take_back();
        let truth = self.world.ledger.link(self.link.index);
        let pending = &self.link.sides[self.side].pending;
        let next = truth.rings[self.side].next;
        let oldest = pending.iter().map(|p| p.k).min().unwrap_or(next);
        let in_flight = next - oldest + self.link.sides[self.side].one_sided.len() as u64;
        let (legal, reason) = match why {
            NotNow::Connecting => (false, 0),
            NotNow::InFlightCap => (in_flight >= self.world.ledger.inflight_max, 1),
            NotNow::PostsWaiting => (self.engine.posts_waiting() > 0, 2),
            NotNow::ProviderBusy => (inline, 3),
        };
        self.world.report.not_now[reason] += 1;
        if !legal {
            self.violation(format!("one-sided: {why:?} with {in_flight} in flight"));
        }
    }

    fn prepare_one_sided(&mut self, k: u64) -> OneSided {
        let plan = self.world.ledger.link(self.link.index).plan;
        let (side, other, host) = (self.side, 1 - self.side, self.host());
        let addr = slot(self.link, side, Half::Local, k, self.world);
        let remote_addr = slot(self.link, other, Half::Exposed, k, self.world);
        let peer = &self.world.node(self.link.hosts[other]).memory;
        let remote_key = peer.keys(self.link.sides[other].region)[0];
        let (len, region) = (length(plan, side, k), self.link.sides[side].region);
        let memory = &mut self.world.node_mut(host).memory;
        if side == SEND {
            fill(memory.at_mut(addr, len), content(plan, SEND, k));
        } else {
            let around = BYTES_MAX + 2 * GUARD_BYTES;
            memory.at_mut(addr - GUARD_BYTES, around).fill(GUARD);
        }
        OneSided {
            addr,
            len,
            region,
            remote_addr,
            remote_key,
        }
    }

    pub(crate) fn test_one_sided(&mut self) -> bool {
        let mut moved = false;
        let mut at = 0;
        while let Some(&(req, k)) = self.link.sides[self.side].one_sided.get(at) {
            match self.ask(req) {
                Ok(None) => at += 1,
                Ok(Some(bytes)) => {
                    self.link.sides[self.side].one_sided.swap_remove(at);
                    self.judge_one_sided_done(k, bytes);
                    moved = true;
                }
                Err(error) => return self.failed(&error),
            }
        }
        moved
    }

    /// Done: the bytes of a read are here, those of a write may be changed.
    fn judge_one_sided_done(&mut self, k: u64, bytes: u64) {
        self.note(What::Done, k);
        self.world.report.one_sided += 1;
        let (side, host) = (self.side, self.host());
        let local = slot(self.link, side, Half::Local, k, self.world);
        let truth = self.world.ledger.link_mut(self.link.index);
        let (plan, tainted) = (truth.plan, truth.tainted);
        let len = length(plan, side, k);
        let flying = truth.one_sided[side].get_mut(k).map(|record| {
            record.live = false;
            record.flying
        });
        let memory = &mut self.world.node_mut(host).memory;
        let good = if side == SEND {
            memory.at_mut(local, len).fill(0xEE);
            true
        } else {
            let seed = content(plan, SEND, u64::MAX - k % SLOTS);
            let around = memory.at(local + len, BYTES_MAX - len + GUARD_BYTES);
            first_difference(memory.at(local, len), seed).is_none()
                && around.iter().all(|&byte| byte == GUARD)
        };
        if bytes != len || flying != Some(0) || !(good || tainted) {
            self.violation(format!(
                "one-sided operation {k} of {len} bytes says {bytes}, {flying:?} at the provider, bytes right: {good}"
            ));
        }
    }

    /// Whether the other side has started and ended all that uses this side's memory. Sides that met a
    /// fault do not wait for each other.
    pub(crate) fn peer_needs_nothing(&self) -> bool {
        let (truth, other) = (self.world.ledger.link(self.link.index), 1 - self.side);
        let peer = &self.link.sides[other];
        let started = truth.rings[other].next >= self.link.total;
        let over = matches!(peer.phase, Phase::Draining | Phase::Over);
        self.world.config.one_sided_ppm == 0
            || truth.tainted
            || over
            || (started && peer.one_sided.is_empty())
    }
}

impl World {
    /// The bytes of an inline write are taken when it is posted.
    pub(crate) fn take_inline(&mut self, number: u32) {
        let op = self.ops.get(number);
        if let Wire::Put {
            addr,
            len,
            source: PutSource::Inline,
            ..
        } = op.wire
        {
            let taken = self.nodes[usize::from(op.src)].memory.at(addr, len.into());
            let taken = taken.to_vec();
            self.ops.get_mut(number).bytes = taken;
        }
    }

    /// Posted as asked for: on data rail 0, with the caller's addresses and key, from a region that is
    /// there, once.
    pub(crate) fn judge_one_sided(&mut self, route: Route, wire: &Wire) -> Result<Owner, String> {
        let (target, addr, len, side) = match *wire {
            Wire::Put {
                target, addr, len, ..
            } => (target, addr, len, SEND),
            Wire::Get {
                target, addr, len, ..
            } => (target, addr, len, RECV),
            _ => return Err(format!("{wire:?} is no one-sided operation")),
        };
        if let Wire::Get { region, .. }
        | Wire::Put {
            source: PutSource::Region(region),
            ..
        } = *wire
        {
            self.judge_source(route.src, region, addr, len.into())?;
        }
        let inline = matches!(
            *wire,
            Wire::Put {
                source: PutSource::Inline,
                ..
            }
        );
        let peer = &self.node(route.dst).memory;
        let region = peer.region_of_key(route.lane.rail(), target.key);
        let link = region.and_then(|region| self.ledger.by_region(route.dst, region));
        let link = link.ok_or_else(|| format!("{wire:?}: a key that nobody gave out"))?;
        let truth = self.ledger.link_mut(link);
        let (life, plan, closed) = (truth.life, truth.plan, truth.closed[side]);
        let ring = &mut truth.one_sided[side];
        let first = ring.next.saturating_sub(SLOTS);
        let found = (first..ring.next)
            .find(|&k| ring.get(k).is_some_and(|r| r.addr == addr && r.segs == 0));
        let record = found.and_then(|k| ring.get_mut(k));
        let record = record.ok_or_else(|| format!("{wire:?}: nobody asked for it"))?;
        record.segs += 1;
        let k = record.k;
        if closed || inline != record.chosen || u64::from(len) != length(plan, side, k) {
            return Err(format!("{wire:?} for {record:?}, closed: {closed}"));
        }
        let part = if side == SEND { Part::Put } else { Part::Get };
        Ok(Owner {
            link,
            life,
            k,
            part,
        })
    }

    /// A one-sided operation reaches its target's memory.
    pub(crate) fn land_one_sided(&mut self, number: u32) {
        let op = self.ops.get(number);
        let (src, dst, wire, owner) = (op.src, op.dst, op.wire, op.owner);
        let (Wire::Put { target, len, .. } | Wire::Get { target, len, .. }) = wire else {
            return;
        };
        let (put, len) = (matches!(wire, Wire::Put { .. }), u64::from(len));
        let reached = self
            .node(dst)
            .memory
            .remote_access(0, target.key, target.addr, len);
        let Some(there) = reached else {
            return self.miss(number, if put { RECV } else { SEND });
        };
        if put {
            self.carry(number, there, len);
            self.judge_put(dst, there, len, owner);
        } else if let Wire::Get { addr, region, .. } = wire {
            if self.node(src).dead {
                return;
            }
            self.still_there(src, region, addr, len);
            let bytes = self.node(dst).memory.at(there, len).to_vec();
            let local = &mut self.node_mut(src).memory;
            local.at_mut(addr, len).copy_from_slice(&bytes);
        }
    }

    /// The bytes of a write, and what lies around its slot.
    fn judge_put(&mut self, host: u8, at: u64, len: u64, owner: Option<Owner>) {
        let Some(owner) = owner else { return };
        let truth = self.ledger.link(owner.link);
        if truth.life != owner.life {
            return;
        }
        let seed = content(truth.plan, SEND, owner.k);
        let memory = &self.node(host).memory;
        let before = memory.at(at - GUARD_BYTES, GUARD_BYTES);
        let after = memory.at(at + BYTES_MAX, GUARD_BYTES);
        let guarded = before.iter().chain(after).all(|&byte| byte == GUARD);
        let wrong = first_difference(memory.at(at, len), seed);
        if wrong.is_some() || !guarded {
            let k = owner.k;
            self.violation(format!(
                "one-sided write {k} of {len} bytes has a wrong byte at {wrong:?}, guards: {guarded}"
            ));
        }
    }
}
