//! A rank of `ofi raw`: opens its rails, meets its peer, measures as `ofi perf` does.

use std::sync::Arc;
use std::time::Instant;

use efa_fabric::FabricError;
use ofi_net::log::NoLog;
use ofi_net::params::{Flavour, parse};
use ofi_net::{Config, Transport};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::plan::{EAGER_MAX, Wire};
use super::wires::{Wires, stride};
use crate::bench::Fail;
use crate::bench::bandwidth::{MOST, scaled};
use crate::bench::measure::{Measure, Total};
use crate::bench::plan::{Mode, Plan, Yield};
use crate::bench::rank::{hostname, peak_memory_kib};
use crate::coord::{ControlError, Link};
use crate::report::row::{Row, Summary};

/// Runs the modes of `plan` with `wire`.
///
/// # Errors
/// What failed.
pub(crate) fn work(link: &Link, plan: &Plan, wire: Wire) -> Result<Summary, Fail> {
    link.board.stage("finding NICs");
    let start = Instant::now();
    let (values, _) = parse(Flavour::Neuron, std::env::vars());
    let config = Config::from_values(&values, &mut Vec::new())?;
    let transport = Transport::init(config, Arc::new(NoLog))?;
    let init_ms = start.elapsed().as_secs_f64() * 1e3;
    let device = plan.devices.first().copied().unwrap_or(0);
    let start = Instant::now();
    let mut rank = Rank {
        wires: Wires::open(&transport, device, wire)?,
        link,
        plan,
        wire,
    };
    rank.meet()?;
    let connect_ms = start.elapsed().as_secs_f64() * 1e3;
    for mode in &plan.modes {
        rank.mode(*mode)?;
    }
    link.board.stage("waiting for the others before closing");
    link.barrier()?;
    Ok(Summary {
        host: hostname(),
        plugin: format!("raw {}", wire.name()),
        init_ms,
        connections: 1,
        connect_ms,
        memory_kib: peak_memory_kib(),
        ..Summary::default()
    })
}

/// Sizes and windows of a mode.
fn points(plan: &Plan, mode: Mode) -> Vec<(usize, usize)> {
    let sizes = plan.sizes_of(mode);
    let windows = match mode {
        Mode::Lat => vec![AHEAD],
        _ => plan.windows_of(mode),
    };
    let fit = |size: usize, window: usize| (plan.pool / stride(size)).clamp(1, window);
    let all = windows
        .iter()
        .flat_map(|&window| sizes.iter().map(move |&size| (size, window)));
    all.map(|(size, window)| (size, fit(size, window)))
        .collect()
}

/// Receives told of beforehand in a ping-pong, as in `ofi perf`.
const AHEAD: usize = 2;

struct Rank<'r> {
    wires: Wires,
    link: &'r Link,
    plan: &'r Plan,
    wire: Wire,
}

impl Rank<'_> {
    fn meet(&mut self) -> Result<(), Fail> {
        self.link.board.stage("meeting the peer");
        let cards = self.swap(&self.wires.cards()?)?;
        self.wires.meet(&cards)
    }

    /// What the peer says of each rail, for what this side says.
    fn swap<T: Serialize + DeserializeOwned>(&self, mine: &[T]) -> Result<Vec<T>, Fail> {
        let broken = |e: serde_json::Error| ControlError::Broken(e.into());
        let all = self
            .link
            .gather(serde_json::to_vec(mine).map_err(broken)?)?;
        let theirs = all.get(1 - self.link.rank).map_or(&[][..], Vec::as_slice);
        Ok(serde_json::from_slice(theirs).map_err(broken)?)
    }

    /// Memory for a point, on both sides.
    fn lay(&mut self, mode: Mode, (size, window): (usize, usize)) -> Result<(), Fail> {
        let both = matches!(mode, Mode::Lat | Mode::Bidir);
        let ways = (both || self.link.rank == 0, both || self.link.rank == 1);
        let places = self.wires.lay(stride(size) * window, ways)?;
        let places = self.swap(&places)?;
        self.wires.aim(&places);
        Ok(())
    }

    fn mode(&mut self, mode: Mode) -> Result<(), Fail> {
        for (size, window) in points(self.plan, mode) {
            if self.wire == Wire::Eager && size > EAGER_MAX {
                continue;
            }
            let stage = format!("raw {} {size} B", mode.name());
            self.link.board.stage(stage);
            self.lay(mode, (size, window))?;
            let iterations = match self.plan.iters {
                Some(n) => n,
                None => self.calibrate(mode, (size, window))?,
            };
            let total = self.timed(mode, (size, window), iterations)?;
            if self.link.rank == 0 {
                self.link
                    .row(row(mode, (size, window), iterations, &total))?;
            }
        }
        Ok(())
    }

    /// How many messages take the time asked for, as the slowest rank sees it.
    fn calibrate(&mut self, mode: Mode, point: (usize, usize)) -> Result<u64, Fail> {
        let mut n = 20;
        loop {
            let total = self.timed(mode, point, n)?;
            let wanted = scaled(n, self.plan.seconds / total.seconds.max(1e-7));
            if total.seconds >= self.plan.seconds / 8.0 || n >= MOST {
                return Ok(wanted.clamp(20, MOST));
            }
            n = wanted.clamp(n + 1, n * 8).min(MOST);
        }
    }

    fn timed(&mut self, mode: Mode, point: (usize, usize), n: u64) -> Result<Total, Fail> {
        let first = self.link.rank == 0;
        let totals = match (mode, first) {
            (Mode::Lat | Mode::Bidir, _) => (n, n),
            (_, true) => (n, 0),
            (_, false) => (0, n),
        };
        self.wires.begin(totals, point);
        self.wires.grant(point.1 as u64)?;
        self.link.barrier()?;
        let start = Instant::now();
        let samples = match (mode, first) {
            (Mode::Lat, true) => self.ping(n)?,
            (Mode::Lat, false) => self.pong(n)?,
            _ => self.stream(point.1 as u64)?,
        };
        let seconds = start.elapsed().as_secs_f64();
        // What is still on its way, such as control messages of an eager run.
        while !self.wires.is_through() {
            self.wires.grant(n)?;
            self.turn()?;
        }
        let messages = totals.1;
        let measure = Measure {
            seconds,
            bytes: messages * point.0 as u64,
            messages,
            samples,
        };
        self.link.barrier()?;
        measure.combine(self.link)
    }

    /// Half round trips in microseconds.
    fn ping(&mut self, rounds: u64) -> Result<Vec<f64>, Fail> {
        let mut samples = Vec::new();
        for round in 1..=rounds {
            let start = Instant::now();
            self.until(round, round)?;
            samples.push(start.elapsed().as_secs_f64() * 0.5e6);
            self.wires.grant(round + AHEAD as u64)?;
        }
        Ok(samples)
    }

    fn pong(&mut self, rounds: u64) -> Result<Vec<f64>, Fail> {
        for round in 1..=rounds {
            self.until(round - 1, round)?;
            self.wires.grant(round + AHEAD as u64)?;
            self.wires.post(round)?;
        }
        self.until(rounds, rounds)?;
        Ok(Vec::new())
    }

    /// Until so many messages are sent and received; posts what is to be sent.
    #[inline]
    fn until(&mut self, sends: u64, recvs: u64) -> Result<(), Fail> {
        let ahead = (recvs + AHEAD as u64).saturating_sub(1);
        while self.wires.send.done() < sends || self.wires.recv.done() < recvs {
            self.wires.post(sends)?;
            self.wires.grant(ahead)?;
            self.turn()?;
        }
        Ok(())
    }

    /// All messages, a window at a time.
    fn stream(&mut self, window: u64) -> Result<Vec<f64>, Fail> {
        while !self.wires.is_done() {
            self.wires.post(self.wires.send.done() + window)?;
            self.wires.grant(self.wires.recv.done() + window)?;
            self.turn()?;
        }
        Ok(Vec::new())
    }

    #[inline]
    fn turn(&mut self) -> Result<(), Fail> {
        if self.link.board.is_ending() {
            return Err(Fail::Over);
        }
        if !self.wires.poll()? && self.plan.yielding == Yield::Always {
            std::thread::yield_now();
        }
        Ok(())
    }
}

fn row(mode: Mode, (size, window): (usize, usize), iterations: u64, total: &Total) -> Row {
    let one = |l: crate::report::row::Latency| size as f64 / l.median.max(1e-3) / 1e3;
    let gbps = match mode {
        Mode::Lat => total.latency.map_or(0.0, one),
        _ => total.gbps(),
    };
    Row {
        mode,
        size,
        window: if mode == Mode::Lat { 1 } else { window },
        window_asked: window,
        comms: 1,
        iterations,
        messages: total.messages,
        latency_us: total.latency,
        algorithm_gbps: gbps,
        bus_gbps: gbps,
        messages_per_s: total.rate(),
        verified: false,
    }
}

impl From<FabricError> for Fail {
    fn from(error: FabricError) -> Self {
        Self::Raw(error.to_string())
    }
}

impl From<ofi_net::NetError> for Fail {
    fn from(error: ofi_net::NetError) -> Self {
        Self::Raw(error.to_string())
    }
}
