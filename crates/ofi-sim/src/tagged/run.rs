//! The loop: time, arrivals, progress and callers in any order, until everything is closed and nothing left.

use super::host::{Host, STALL_FAIL_MS};
use super::link::Life;
use super::net::Net;
use super::setup::{Drawn, Fault, Setup};
use crate::rng::Rng;

/// Virtual time after the last close within which everything must be gone.
const DRAIN_MS_MAX: u64 = 10 * STALL_FAIL_MS;
/// Longest absence, milliseconds: well below the bound of a stall.
const ABSENCE_MS_MAX: u64 = 1_000;

/// What happened in a simulation that found nothing wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Messages that arrived, each compared.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Lives of links.
    pub lives: u64,
    /// Of them, those to which something happened.
    pub touched: u64,
    /// Faults made, in the order of [`Fault::ALL`].
    pub faults: [u64; Fault::ALL.len()],
    /// Steps of the loop.
    pub steps: u64,
}

impl Report {
    /// Adds another one.
    pub fn absorb(&mut self, other: &Self) {
        self.messages += other.messages;
        self.bytes += other.bytes;
        self.lives += other.lives;
        self.touched += other.touched;
        self.steps += other.steps;
        for (sum, more) in self.faults.iter_mut().zip(other.faults) {
            *sum += more;
        }
    }
}

/// What an oracle found; its text has what replays it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} (step {step}; replay: tagged \"{setup}\")")]
pub struct Failure {
    /// What was simulated.
    pub setup: Setup,
    /// The step at which it was found.
    pub step: u64,
    /// What is wrong.
    pub what: String,
}

struct World {
    net: Net,
    hosts: Vec<Host>,
    /// By link: hosts of sender and receiver, and the life it is in.
    links: Vec<([u8; 2], Option<Life>)>,
    messages_left: u64,
    report: Report,
}

/// Runs a simulation to its end.
///
/// # Errors
/// The first thing that is not as it has to be.
pub fn run(setup: &Setup) -> Result<Report, Failure> {
    let mut world = World::new(setup);
    let outcome = world.live().and_then(|()| world.drain());
    let World { net, report, .. } = world;
    outcome.map_err(|what| Failure {
        setup: *setup,
        step: report.steps,
        what,
    })?;
    Ok(Report {
        faults: net.hits,
        ..report
    })
}

/// Makes a simulation that fails smaller as long as it fails: fewer messages, and no fault that is not needed.
/// `None` when it does not fail.
#[must_use]
pub fn shrink(setup: &Setup) -> Option<Failure> {
    let mut smallest = run(setup).err()?;
    let mut messages = setup.messages;
    while messages > 1 {
        messages /= 2;
        let fewer = Setup {
            messages,
            ..smallest.setup
        };
        match run(&fewer) {
            Err(failure) => smallest = failure,
            Ok(_) => break,
        }
    }
    for fault in Fault::ALL {
        let without = smallest.setup.without | 1 << fault.at();
        let simpler = Setup {
            without,
            ..smallest.setup
        };
        if let Err(failure) = run(&simpler) {
            smallest = failure;
        }
    }
    Some(smallest)
}

impl World {
    fn new(setup: &Setup) -> Self {
        let mut rng = Rng::new(setup.seed);
        let drawn = Drawn::of(setup, &mut rng);
        let hosts = (0..drawn.hosts).map(|host| Host::new(host, drawn.max_bytes));
        let hosts = hosts.collect();
        let mut any = || u8::try_from(rng.below(drawn.hosts.into())).unwrap_or(0);
        let links = (0..drawn.links).map(|_| ([any(), any()], None)).collect();
        Self {
            net: Net::new(drawn, rng, setup.sabotage),
            hosts,
            links,
            messages_left: setup.messages,
            report: Report::default(),
        }
    }

    fn live(&mut self) -> Result<(), String> {
        while !self.links.is_empty() {
            self.step()?;
            let at = self.net.rng.below(self.links.len() as u64);
            let at = usize::try_from(at).unwrap_or(0);
            for _ in 0..4 {
                self.act(at)?;
            }
            let (hosts, life) = &self.links[at];
            let has_dead = hosts.map(|host| self.net.inboxes[usize::from(host)].is_dead);
            let is_last = self.messages_left == 0 || has_dead.contains(&true);
            if life.is_none() && is_last {
                self.links.swap_remove(at);
            }
        }
        Ok(())
    }

    /// Time goes on, something arrives, a host makes progress.
    fn step(&mut self) -> Result<(), String> {
        self.report.steps += 1;
        self.net.now_ms += self.net.rng.below(3);
        self.net.deliver();
        let host = self.net.rng.below(self.hosts.len() as u64);
        let host = usize::try_from(host).unwrap_or(0);
        if self.net.inboxes[host].is_dead || self.hosts[host].away_until_ms > self.net.now_ms {
            return Ok(());
        }
        if self.net.strikes(Fault::Absence) {
            let ms = self.net.rng.between(1, ABSENCE_MS_MAX);
            self.hosts[host].away_until_ms = self.net.now_ms + ms;
            self.hosts[host].engine.on_absence(ms);
            return Ok(());
        }
        let is_first_death = self.net.hits[Fault::Death.at()] == 0;
        if is_first_death && self.net.strikes(Fault::Death) {
            return self.kill(host);
        }
        self.hosts[host].turn(&mut self.net)
    }

    fn kill(&mut self, host: usize) -> Result<(), String> {
        let number = u8::try_from(host).unwrap_or(0);
        self.net.kill(number);
        for (_, life) in self
            .links
            .iter()
            .filter(|(hosts, _)| hosts.contains(&number))
        {
            if let Some(life) = life {
                life.touch(&mut self.net);
            }
        }
        Ok(())
    }

    fn act(&mut self, at: usize) -> Result<(), String> {
        let (hosts, life) = &mut self.links[at];
        let has_dead = hosts
            .iter()
            .any(|host| self.net.inboxes[usize::from(*host)].is_dead);
        match life {
            None if self.messages_left > 0 && !has_dead => {
                let count = self.net.drawn.per_life.min(self.messages_left);
                self.messages_left -= count;
                self.report.lives += 1;
                let number = self.report.lives;
                let new = Life::begin(number, *hosts, count, &mut self.hosts, &mut self.net)?;
                *life = Some(new);
            }
            None => {}
            Some(this) => {
                this.act(&mut self.hosts, &mut self.net)?;
                if this.is_over(&self.net) {
                    this.end(&mut self.net);
                    self.report.messages += this.verified.0;
                    self.report.bytes += this.verified.1;
                    self.report.touched += u64::from(this.is_touched(&self.net));
                    *life = None;
                }
            }
        }
        Ok(())
    }

    /// Everything is closed: the network ends what is under way, and nothing is left.
    fn drain(&mut self) -> Result<(), String> {
        let end_ms = self.net.now_ms + DRAIN_MS_MAX;
        loop {
            self.step()?;
            let living = self.hosts.iter();
            let living = living.filter(|host| !self.net.inboxes[usize::from(host.number)].is_dead);
            let Some(left) = living.filter_map(|host| host.left(&self.net)).next() else {
                return Ok(());
            };
            if self.net.now_ms > end_ms {
                return Err(format!("everything is closed, and left are: {left}"));
            }
        }
    }
}
