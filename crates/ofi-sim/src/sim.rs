//! The simulation itself: hosts take turns, events happen in their order, and at the end everything
//! has to be as it was.

use std::collections::VecDeque;

use ofi_rdma::limits::MAX_RAILS;
use ofi_rdma::{Base, Config, Dialect, Engine, EpName, KeyWidth, Lane};

use crate::caller::Caller;
use crate::config::SimConfig;
use crate::harvest::{drain, progress};
use crate::ledger::{RECV, SEND};
use crate::link::{Link, Phase};
use crate::memory::index;
use crate::ops::endpoint_name;
use crate::report::{Failure, Report, What};
use crate::spec::SpecError;
use crate::timeline::Happening;
use crate::world::{Node, World};

/// Shortest time between two turns of a host, nanoseconds.
const TURN_NS: u64 = 1_000;

/// Longest: an idle host looks this often.
const IDLE_NS: u64 = 1_000_000;

/// A link that achieves nothing for so long hangs: more than all of the engine's own bounds.
const LIVENESS_NS: u64 = 20_000_000_000;

/// The engine's bounds, in virtual milliseconds.
const CONNECT_MS: u64 = 2_000;
const STALL_WARN_MS: u64 = 200;
const STALL_FAIL_MS: u64 = 3_000;

/// Events between two looks for links that hang.
const LOOK_EVERY: u64 = 4_096;

/// When a host has its next turn.
#[derive(Clone, Copy, Debug)]
struct Turn {
    number: u32,
    at: u64,
    gap: u64,
}

/// Hosts that run the real engine over a virtual network.
///
/// # Examples
/// ```
/// use ofi_sim::{Sim, SimConfig};
///
/// let config = SimConfig { seed: 7, messages: 200, ..SimConfig::default() };
/// let report = Sim::new(config)?.run().expect("nothing goes wrong without faults");
/// assert_eq!(report.messages, 200);
/// # Ok::<(), ofi_sim::SpecError>(())
/// ```
#[derive(Debug)]
pub struct Sim<D: Dialect = Base> {
    world: World,
    engines: Vec<Engine<D>>,
    links: Vec<Link>,
    turns: Vec<Turn>,
    /// Sides of links by host.
    sides: Vec<Vec<(usize, usize)>>,
    /// Links that have lives left.
    active: usize,
    /// When the last link ended.
    settled_at: u64,
}

impl Sim<Base> {
    /// A simulation in the dialect of the wire.
    ///
    /// # Errors
    /// A configuration out of its ranges.
    pub fn new(config: SimConfig) -> Result<Self, SpecError> {
        Self::with_dialect(config)
    }
}

impl<D: Dialect> Sim<D> {
    /// A simulation in a dialect of choice: [`ofi_rdma::Tiny`] wraps its sequence numbers every
    /// eight messages.
    ///
    /// # Errors
    /// A configuration out of its ranges.
    pub fn with_dialect(config: SimConfig) -> Result<Self, SpecError> {
        config.check()?;
        let engines = (0..config.hosts).map(|host| Engine::new(engine_config(&config, host)));
        let engines = engines
            .collect::<Result<_, _>>()
            .map_err(SpecError::Engine)?;
        let hosts = usize::from(config.hosts);
        let turn = Turn {
            number: 0,
            at: 0,
            gap: TURN_NS,
        };
        let mut sim = Self {
            world: World::new(config, D::SEQ_BITS, D::INFLIGHT_MAX.into()),
            engines,
            links: Vec::new(),
            turns: vec![turn; hosts],
            sides: vec![Vec::new(); hosts],
            active: 0,
            settled_at: 0,
        };
        sim.add_links();
        Ok(sim)
    }

    fn add_links(&mut self) {
        let (count, messages) = (self.world.config.links, self.world.config.messages);
        let hosts = u64::from(self.world.config.hosts);
        for number in 0..count {
            // The first links go both ways between the first two hosts.
            let drawn = [self.world.rng.below(hosts), self.world.rng.below(hosts)];
            let ends = match number {
                0 => [0, 1 % hosts],
                1 => [1 % hosts, 0],
                _ => drawn,
            };
            let ends = ends.map(|host| u8::try_from(host).unwrap_or(0));
            let share = messages / u64::from(count);
            let rest = u64::from(u64::from(number) < messages % u64::from(count));
            let link = Link::new(&mut self.world, number, ends, share + rest);
            self.links.push(link);
            for side in [SEND, RECV] {
                self.sides[usize::from(ends[side])].push((usize::from(number), side));
            }
        }
        for at in 0..self.links.len() {
            self.active += usize::from(self.links[at].begin_life(&mut self.world));
        }
    }

    /// Runs to the end: all messages carried (or lost to a fault that may lose them), everything
    /// closed, everything given back.
    ///
    /// # Errors
    /// The first thing that an oracle found.
    pub fn run(mut self) -> Result<Report, Failure> {
        for host in 0..self.world.config.hosts {
            self.schedule(host, TURN_NS);
        }
        let death = u64::from(self.world.config.faults.death_us);
        if death > 0 {
            let victim = self.world.config.hosts - 1;
            self.world
                .timeline
                .plan(death * 1_000, Happening::Kill(victim));
        }
        while self.active > 0 || !self.is_settled() {
            self.step()?;
        }
        self.end()?;
        self.world.report.virtual_ns = self.world.now;
        Ok(self.world.report)
    }

    /// Nothing is under way, waiting, or unread.
    fn is_settled(&self) -> bool {
        let alive = |(node, _): &(&Node, &Engine<D>)| !node.dead;
        let mut hosts = self.world.nodes.iter().zip(&self.engines).filter(alive);
        self.world.ops.live() == 0
            && hosts.all(|(node, engine)| {
                // What a dead host left at its provider holds communicators until the end.
                let closed = engine.live_comms() == 0 || !self.world.vanished.is_empty();
                closed && engine.posts_waiting() == 0 && node.cq.iter().all(VecDeque::is_empty)
            })
    }

    fn step(&mut self) -> Result<(), Failure> {
        let Some((at, what)) = self.world.timeline.pop() else {
            self.world
                .violation("nothing will ever happen again".into());
            return self.check();
        };
        self.world.now = at;
        self.world.report.events += 1;
        match what {
            Happening::Deliver(op) => {
                let host = self.world.ops.get(op).dst;
                self.world.land(op);
                self.world.maybe_stray(host);
                self.wake(host);
            }
            Happening::Local(op) => {
                let host = self.world.ops.get(op).src;
                self.world.local(op);
                self.wake(host);
            }
            Happening::Step { host, turn } if turn == self.turns[usize::from(host)].number => {
                self.turn(host);
            }
            Happening::Step { .. } => {}
            Happening::Kill(host) => self.kill(host),
        }
        if self.active > 0 {
            self.settled_at = at;
        }
        if self.world.report.events % LOOK_EVERY == 0 {
            self.look_for_hangs();
        }
        self.check()
    }

    fn check(&mut self) -> Result<(), Failure> {
        let Some(what) = self.world.wrong.take() else {
            return Ok(());
        };
        Err(Failure {
            spec: self.world.config.to_string(),
            seed: self.world.config.seed,
            step: self.world.report.events,
            at_ns: self.world.now,
            what,
            recent: self.world.recent.iter().copied().collect(),
        })
    }

    /// A host that idles has its turn soon when something came for it.
    fn wake(&mut self, host: u8) {
        let soon = self.world.now + TURN_NS;
        if self.world.node(host).woken && self.turns[usize::from(host)].at > soon {
            self.schedule(host, TURN_NS);
        }
    }

    fn schedule(&mut self, host: u8, gap: u64) {
        let jitter = self.world.rng.below(TURN_NS);
        let turn = &mut self.turns[usize::from(host)];
        turn.number = turn.number.wrapping_add(1);
        turn.at = self.world.now + gap + jitter;
        turn.gap = gap;
        let (at, number) = (turn.at, turn.number);
        self.world
            .timeline
            .plan(at, Happening::Step { host, turn: number });
    }

    /// A host has the processor: a progress pass, then each caller in turn.
    fn turn(&mut self, host: u8) {
        if self.world.node(host).dead {
            return;
        }
        let Self {
            world,
            engines,
            links,
            ..
        } = self;
        let engine = &mut engines[usize::from(host)];
        let mut moved = progress(world, engine, host);
        engine.tick(world.now_ms());
        let mut polled = false;
        for &(link, side) in &self.sides[usize::from(host)] {
            let link = &mut links[link];
            let mut caller = Caller {
                world,
                engine,
                link,
                side,
                polled,
            };
            moved |= caller.turn();
            polled = caller.polled;
            if link.is_over() {
                self.active -= usize::from(!link.begin_life(world));
            }
        }
        drain(world, engine, host);
        let waiting = engine.posts_waiting() > 0 || world.node(host).woken;
        let gap = self.turns[usize::from(host)].gap;
        let gap = if moved {
            TURN_NS
        } else {
            (gap * 2).min(if waiting { 16 * TURN_NS } else { IDLE_NS })
        };
        self.schedule(host, gap);
    }

    fn kill(&mut self, victim: u8) {
        let Self { world, links, .. } = self;
        world.note(victim, What::Death, 0, 0);
        world.bury(victim);
        for link in links.iter_mut().filter(|link| link.hosts.contains(&victim)) {
            world.ledger.link_mut(link.index).tainted = true;
            for side in [SEND, RECV] {
                if link.hosts[side] == victim {
                    world.ledger.link_mut(link.index).closed[side] = true;
                    link.sides[side].phase = Phase::Over;
                } else {
                    link.hears_of_death(side, world.now, &world.config);
                }
            }
            if link.is_over() {
                self.active -= usize::from(!link.begin_life(world));
            }
        }
    }

    fn look_for_hangs(&mut self) {
        let Self { world, links, .. } = self;
        if self.active == 0 && world.now - self.settled_at > LIVENESS_NS {
            let live = world.ops.live();
            return world.violation(format!("{live} operations never end"));
        }
        for link in links.iter().filter(|link| !link.retired) {
            if world.now - link.moved_at > LIVENESS_NS {
                let phases = [link.sides[SEND].phase, link.sides[RECV].phase];
                let pending = [
                    link.sides[SEND].pending.len(),
                    link.sides[RECV].pending.len(),
                ];
                let truth = world.ledger.link(link.index);
                let tainted = truth.tainted;
                world.violation(format!(
                    "link {} hangs in {phases:?} with {pending:?} requests (hit by a fault: {tainted})",
                    link.index
                ));
                return;
            }
        }
    }

    /// Endpoints close: operations that vanished are given back, what that leads to is done, and
    /// nothing may be left.
    fn end(&mut self) -> Result<(), Failure> {
        while !self.world.vanished.is_empty() || !self.is_settled() {
            self.world.give_back_vanished();
            self.step()?;
        }
        for host in 0..self.world.config.hosts {
            if !self.world.node(host).dead {
                self.judge_baseline(host);
            }
        }
        self.check()
    }

    /// Resources are back where they began (performance and safety, 4).
    fn judge_baseline(&mut self, host: u8) {
        let engine = &self.engines[usize::from(host)];
        let node = self.world.node(host);
        let held: usize = node.bounce.iter().map(crate::bounce::Bounce::held).sum();
        let refs: u32 = (0..self.world.ledger.region_count(host))
            .map(|region| engine.region_refs(ofi_rdma::RegionId(region)))
            .sum();
        let left = [
            ("communicators", engine.live_comms()),
            ("requests", engine.live_requests()),
            ("posts waiting", engine.posts_waiting()),
            ("messages kept", engine.early_messages()),
            ("receive buffers held", held),
            ("references to regions", index(refs.into())),
        ];
        for (what, count) in left {
            if count != 0 {
                self.world
                    .violation(format!("host {host}: {count} {what} left at the end"));
            }
        }
    }
}

fn engine_config(config: &SimConfig, host: u8) -> Config {
    let names = |lane: fn(u8) -> Lane| {
        let mut names = [EpName::EMPTY; MAX_RAILS];
        for (rail, name) in (0..config.rails).zip(&mut names) {
            *name = EpName::new(&endpoint_name(host, lane(rail))).unwrap_or(EpName::EMPTY);
        }
        names
    };
    Config {
        data_rails: config.rails,
        control_rails: if config.control_rr { config.rails } else { 1 },
        control_names: names(Lane::control),
        data_names: names(Lane::data),
        key_width: if config.long_keys {
            KeyWidth::Long
        } else {
            KeyWidth::Short
        },
        lengths_told: config.report_len,
        cq_data_bytes: if config.wide_data { 8 } else { 4 },
        eager_max: u32::try_from(config.eager_max).ok(),
        min_stripe_bytes: config.stripe.into(),
        small_max_bytes: config.small_max.into(),
        connect_timeout_ms: CONNECT_MS,
        stall_warn_ms: Some(STALL_WARN_MS),
        stall_fail_ms: Some(STALL_FAIL_MS),
        close_messages: config.close_messages,
        early_completion: config.optional_ppm > 0,
    }
}
