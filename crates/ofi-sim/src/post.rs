//! The engine's port into the virtual network: what the provider answers to a post, and when its
//! events happen.

use ofi_rdma::limits::EP_NAME_BYTES;
use ofi_rdma::{Cause, Lane, Outcome, PeerAddr, Post, RailPort, Wire};

use crate::config::{Death, Sabotage};
use crate::ledger::{Owner, Part};
use crate::ops::{Fate, NAME_BYTES, address, endpoint_name, host_of};
use crate::report::What;
use crate::timeline::Happening;
use crate::world::World;

/// EINVAL: the provider does not take this name.
const EINVAL: i32 = 22;

/// EIO: an operation refused or failed by a fault.
const EIO: i32 = 5;

/// Longest storm of EAGAIN on one lane, posts.
const STORM_MAX: u64 = 200;

/// Control messages up to this length may go out by inject.
const INJECT_BYTES: u16 = 64;

/// The port of one host.
#[derive(Debug)]
pub(crate) struct Port<'a> {
    pub(crate) world: &'a mut World,
    pub(crate) host: u8,
}

impl RailPort for Port<'_> {
    fn post(&mut self, post: &Post) -> Outcome {
        let Self { world, host } = self;
        let (lane, wire) = (post.lane(), *post.wire());
        let Some(target) = target_of(*host, lane, &wire) else {
            world.violation(format!(
                "host {host} posts {wire:?} to an address not of {lane:?}"
            ));
            return Outcome::Failed(Cause::errno(EINVAL));
        };
        if world.is_busy(*host, target, lane) {
            world.report.faults.busy += 1;
            world.note(*host, What::Busy, post.op() as u64, lane.index() as u64);
            return Outcome::Busy;
        }
        let number = world.ops.add(*host, target, lane, wire);
        if let Wire::Control { len, .. } = wire {
            let bytes = &mut world.ops.get_mut(number).bytes;
            bytes.resize(len.into(), 0);
            let written = post.encode(bytes);
            if written != usize::from(len) {
                world.violation(format!("{wire:?} of {len} bytes encodes {written} bytes"));
            }
        }
        let owner = world.judge_post(number);
        world.note(
            *host,
            What::Post,
            post.op() as u64,
            owner.map_or(u64::MAX, |o| o.k),
        );
        if world.rng.chance(world.config.faults.refuse_ppm) {
            world.report.faults.refused += 1;
            world.taint(owner);
            world.ops.release(number);
            return Outcome::Failed(Cause::errno(EIO));
        }
        world.commit_post(owner);
        world.ops.get_mut(number).owner = owner;
        world.take_inline(number);
        world.launch(number, post)
    }

    fn resolve(&mut self, lane: Lane, name: &[u8; EP_NAME_BYTES]) -> Result<PeerAddr, Cause> {
        let hosts = self.world.config.hosts;
        let host = name[3];
        let known = host < hosts && name[..NAME_BYTES] == endpoint_name(host, lane);
        if known {
            Ok(address(host, lane))
        } else {
            Err(Cause::errno(EINVAL))
        }
    }
}

/// The host an operation goes to; reads of our own memory go to ourselves.
fn target_of(host: u8, lane: Lane, wire: &Wire) -> Option<u8> {
    match *wire {
        Wire::Control { peer, .. } => host_of(peer, lane).filter(|_| lane.is_control()),
        Wire::Eager { peer, .. } | Wire::Write { peer, .. } => {
            host_of(peer, lane).filter(|_| !lane.is_control())
        }
        Wire::Put { target, .. } | Wire::Get { target, .. } => {
            host_of(target.peer, lane).filter(|_| lane == Lane::data(0))
        }
        Wire::EagerCopy { .. } | Wire::FlushRead { .. } => {
            Some(host).filter(|_| !lane.is_control())
        }
    }
}

impl World {
    /// Whether the provider says EAGAIN to this post.
    fn is_busy(&mut self, host: u8, target: u8, lane: Lane) -> bool {
        let (busy, storm) = (self.config.faults.busy_ppm, self.config.faults.storm_ppm);
        if self.config.faults.death == Death::Busy && self.node(target).dead {
            return true;
        }
        let left = self.node(host).storm[lane.index()];
        if left > 0 {
            self.node_mut(host).storm[lane.index()] = left - 1;
            return true;
        }
        if self.rng.chance(storm) {
            self.report.faults.storms += 1;
            let posts = u32::try_from(self.rng.below(STORM_MAX)).unwrap_or(0);
            self.node_mut(host).storm[lane.index()] = posts;
            return true;
        }
        self.rng.chance(busy)
    }

    /// A fault hits this link: from now on it may fail.
    pub(crate) fn taint(&mut self, owner: Option<Owner>) {
        if let Some(owner) = owner {
            let truth = self.ledger.link_mut(owner.link);
            if truth.life == owner.life {
                truth.tainted = true;
            }
        }
    }

    /// Plans the events of an accepted operation.
    fn launch(&mut self, number: u32, post: &Post) -> Outcome {
        let op = self.ops.get(number);
        let (src, dst, lane, wire, owner) = (op.src, op.dst, op.lane, op.wire, op.owner);
        let lands = self.landing(src, dst, lane, owner);
        if self.sabotage_completion(&wire) {
            self.timeline.plan(lands, Happening::Deliver(number));
            return Outcome::Accepted;
        }
        self.maybe_repeat(number, lands);
        // Into memory of the host: the processor copies, in the call.
        if self.config.copies_at_once && matches!(wire, Wire::EagerCopy { .. }) {
            self.settle(owner);
            self.land(number);
            return Outcome::Completed;
        }
        let small = matches!(wire, Wire::Control { len, .. } if len <= INJECT_BYTES);
        if small && self.rng.chance(self.config.faults.inject_ppm) {
            self.report.faults.injected += 1;
            self.settle(owner);
            self.timeline.plan(lands, Happening::Deliver(number));
            return Outcome::Completed;
        }
        if self.rng.chance(self.config.faults.error_ppm) {
            self.report.faults.errors += 1;
            self.taint(owner);
            let lands = self.rng.chance(500_000);
            self.ops.get_mut(number).fate = Fate::Bad {
                cause: Cause::errno(EIO),
                lands,
            };
        }
        let completes = self.completion(&wire, lands);
        let op = self.ops.get_mut(number);
        op.token = Some(post.token());
        op.refs += 1;
        self.timeline.plan(lands, Happening::Deliver(number));
        self.timeline.plan(completes, Happening::Local(number));
        Outcome::Accepted
    }

    fn delay(&mut self) -> u64 {
        let faults = &self.config.faults;
        let (min, max) = (u64::from(faults.delay_min), u64::from(faults.delay_max));
        let delay = self.rng.between(min, max);
        if self.rng.chance(self.config.faults.straggler_ppm) {
            delay * 50
        } else {
            delay
        }
    }

    /// When an operation takes effect at its target.
    fn landing(&mut self, src: u8, dst: u8, lane: Lane, owner: Option<Owner>) -> u64 {
        let mut at = self.now + self.delay();
        let setup = owner.is_some_and(|o| o.part == Part::Setup);
        if setup && self.rng.chance(self.config.faults.slow_resp_ppm) {
            at += 10 * self.delay();
        }
        if self.config.faults.ordered {
            let last = &mut self.node_mut(src).last[usize::from(dst)][lane.index()];
            at = at.max(*last + 1);
            *last = at;
        }
        at
    }

    /// When an operation that lands at `lands` completes at its source.
    fn completion(&mut self, wire: &Wire, lands: u64) -> u64 {
        let reads = matches!(
            wire,
            Wire::EagerCopy { .. } | Wire::FlushRead { .. } | Wire::Get { .. }
        );
        if !reads && self.rng.chance(self.config.faults.early_local_ppm) {
            self.report.faults.early_locals += 1;
            return self.rng.between(self.now + 1, lands);
        }
        lands + self.delay()
    }

    /// Now and then the network repeats a control message.
    fn maybe_repeat(&mut self, number: u32, lands: u64) {
        let op = self.ops.get(number);
        if !matches!(op.wire, Wire::Control { .. }) || !self.rng.chance(self.config.faults.dup_ppm)
        {
            return;
        }
        let (src, dst, lane, wire, owner) = (op.src, op.dst, op.lane, op.wire, op.owner);
        let copy = self.ops.add(src, dst, lane, wire);
        let bytes = core::mem::take(&mut self.ops.get_mut(number).bytes);
        let twin = self.ops.get_mut(copy);
        twin.bytes.extend_from_slice(&bytes);
        twin.owner = owner;
        twin.repeated = true;
        self.ops.get_mut(number).bytes = bytes;
        let at = lands + 1 + self.delay();
        self.timeline.plan(at, Happening::Deliver(copy));
    }

    /// Whether this is the operation whose completion the sabotage loses.
    fn sabotage_completion(&mut self, wire: &Wire) -> bool {
        self.config.faults.sabotage == Sabotage::DropCompletion
            && matches!(wire, Wire::Write { .. } | Wire::Eager { .. })
            && self.sabotage_now()
    }

    /// Counts the operations a sabotage could hit; true for the one it hits.
    pub(crate) fn sabotage_now(&mut self) -> bool {
        let hit = self.sabotaged == self.config.faults.sabotage_at;
        self.sabotaged = self.sabotaged.saturating_add(1);
        hit
    }
}
