//! What every measurement of a rank needs.

use super::fail::{Fail, Place};
use super::mesh::Mesh;
use super::payload::Source;
use super::plan::{Mode, Pairs, Plan, Yield};
use crate::abi::{AbiError, Plugin, RecvComm, Region, Regions, SendComm};
use crate::coord::Link;

/// What a rank has counted.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Tally {
    pub(crate) verified_messages: u64,
    pub(crate) verified_bytes: u64,
    pub(crate) retries: u64,
}

/// A rank at work.
#[derive(Debug)]
pub(crate) struct Context<'r> {
    pub(crate) link: &'r Link,
    pub(crate) plan: &'r Plan,
    pub(crate) plugin: &'r Plugin,
    pub(crate) mesh: Mesh,
    pub(crate) tally: Tally,
    /// Ranks on this host.
    pub(crate) local_ranks: usize,
    /// Number of the measurement; the same in every rank, since all go through the same plan.
    pub(crate) epoch: u64,
    regions: Regions,
}

impl<'r> Context<'r> {
    pub(crate) fn new(
        link: &'r Link,
        plan: &'r Plan,
        plugin: &'r Plugin,
        devices: Vec<usize>,
        local_ranks: usize,
    ) -> Self {
        Self {
            link,
            plan,
            plugin,
            mesh: Mesh::new(devices, plan.comms),
            tally: Tally::default(),
            local_ranks,
            epoch: 0,
            regions: Regions::default(),
        }
    }

    /// The partner in the modes between two ranks.
    pub(crate) fn partner(&self) -> Option<usize> {
        let (rank, world) = (self.link.rank, self.link.world);
        let partner = rank ^ 1;
        let in_play = match self.plan.pairs {
            Pairs::First => rank < 2,
            Pairs::All => true,
        };
        (in_play && partner < world).then_some(partner)
    }

    /// The neighbours in the ring.
    pub(crate) fn next(&self) -> usize {
        (self.link.rank + 1) % self.link.world
    }

    pub(crate) fn previous(&self) -> usize {
        (self.link.rank + self.link.world - 1) % self.link.world
    }

    /// Connects to these peers, both ways, as far as not done yet.
    pub(crate) fn connect(&mut self, to: &[usize], from: &[usize]) -> Result<(), Fail> {
        self.mesh.ensure(self.link, self.plugin, (to, from))
    }

    pub(crate) fn sender(&self, peer: usize, comm: usize) -> Result<(&SendComm, Place), Fail> {
        let missing = Fail::NoHandle {
            from: peer,
            to: self.link.rank,
        };
        self.mesh.sender(peer, comm).ok_or(missing)
    }

    pub(crate) fn receiver(&self, peer: usize, comm: usize) -> Result<(&RecvComm, Place), Fail> {
        let missing = Fail::NoHandle {
            from: peer,
            to: self.link.rank,
        };
        self.mesh.receiver(peer, comm).ok_or(missing)
    }

    /// What the messages from `from` to `to` hold.
    pub(crate) fn source(&self, (from, to): (usize, usize), comm: usize) -> Source {
        Source {
            seed: self.plan.seed,
            epoch: self.epoch,
            from,
            to,
            comm,
        }
    }

    /// Memory of at least `len` bytes: memory given back, or new.
    pub(crate) fn region(&mut self, len: usize) -> Result<Region, Fail> {
        let region = self.regions.take(len);
        region.map_err(|error| Fail::Memory { bytes: len, error })
    }

    /// Gives memory back for later measurements.
    pub(crate) fn recycle(&mut self, region: Region) {
        self.regions.give(region);
    }

    /// Names a failed registration.
    pub(crate) fn registering(place: Place, bytes: usize) -> impl FnOnce() -> String {
        move || format!("register {bytes} bytes ({place})")
    }

    /// What a rank does between polls that found nothing, when `active` of the local ranks poll.
    pub(crate) fn idle(&self, active: usize) -> fn() {
        let crowded = std::thread::available_parallelism().map_or(1, usize::from)
            < active.min(self.local_ranks);
        match self.plan.yielding {
            Yield::Always => std::thread::yield_now,
            Yield::Auto if crowded => std::thread::yield_now,
            Yield::Auto | Yield::Never => core::hint::spin_loop,
        }
    }

    /// Begins a measurement: all ranks call this in step.
    pub(crate) fn begin(&mut self, mode: Mode, what: &str) {
        self.epoch += 1;
        self.link.board.stage(format!("{} {what}", mode.name()));
    }

    /// Ranks that are busy in the modes between two ranks.
    pub(crate) fn busy_in_pairs(&self) -> usize {
        match self.plan.pairs {
            Pairs::First => 2,
            Pairs::All => self.link.world,
        }
    }

    /// Turns a failed call of the plugin into a failure at `stage`.
    pub(crate) fn at(stage: &str, error: impl Into<AbiError>) -> Fail {
        Fail::Setup {
            stage: stage.to_owned(),
            error: error.into(),
        }
    }
}
