//! The SENDRECV protocol over libfabric: the engine of `ofi-sendrecv`, one NIC and one endpoint a
//! device (protocol 2c.10, 2d.8, 2e.12).
//!
//! ```text
//! SendRecv
//!  +- Device 0 (one NIC)
//!  |   +- Domain, or one a thread or traffic class: lock { Engine, Port, completion queue }
//!  |       +- fi_fabric, fi_domain, CQ with tags, one endpoint
//!  +- Device 1 ...
//! ```
//!
//! `device` (a NIC and its domains), `domain` (what is opened, the lock), `port` (one engine operation,
//! one libfabric call), `progress`; `connect`, `data`, `memory`: the calls of [`crate::Transport`].

use crate::config::{Config, Protocol};
use crate::efa;
use crate::error::{Code, NetError};
use crate::gpu::{self, Answers};
use crate::handle_words::{CommWord, ReqWord};
use crate::log::Log;
use crate::properties::Properties;
use crate::registry::{Registry, stale};
use crate::startup::Startup;
use crate::stats::{StatsFile, Tally};
use crate::trace::Tracing;
use crate::traffic::{Said, TrafficClass};
use crate::watch::Watch;
use core::mem;
use device::{Device, Opening};
use domain::{Domain, Seat};
use efa_fabric::{EndpointSetup, InfoBuf, Library};
use ofi_rdma::{CommInfo, CommKey, Counters, ReqKey};
use std::sync::Arc;

mod connect;
mod data;
mod device;
mod domain;
mod memory;
mod port;
mod progress;
mod traced;

pub(crate) use data::Message;
pub(crate) use port::Port;
pub(crate) use progress::Core;

/// Devices that speak SENDRECV.
#[derive(Debug)]
pub(crate) struct SendRecv {
    devices: Vec<Device>,
    /// Their domains.
    registry: Registry<Domain>,
    /// Where what goes over their rails is written down, once that is known.
    tracing: Option<Tracing>,
    /// The file of counters, if there is one.
    stats: Option<Arc<StatsFile>>,
    log: Arc<dyn Log>,
    said: Said,
}

impl SendRecv {
    /// Finds the NICs. Opens nothing yet. `open`: RDMA was looked for before.
    ///
    /// # Errors
    /// No provider fits.
    pub(crate) fn discover(
        (config, open): (&Config, bool),
        library: &'static Library,
        startup: &mut Startup,
        log: &dyn Log,
    ) -> Result<Vec<Device>, NetError> {
        Device::discover((config, open), library, startup, log)
    }

    /// On these devices, with nothing open yet.
    pub(crate) fn new(devices: Vec<Device>, log: &Arc<dyn Log>, watch: &Arc<Watch>) -> Self {
        Self {
            devices,
            registry: Registry::new(watch),
            tracing: None,
            stats: None,
            log: Arc::clone(log),
            said: Said::default(),
        }
    }

    /// What goes over domains opened from now on is written down.
    pub(crate) fn trace_to(&mut self, tracing: Tracing) {
        self.tracing = Some(tracing);
    }

    /// What happens on domains opened from now on is counted there.
    pub(crate) fn count_into(&mut self, file: Arc<StatsFile>) {
        self.stats = Some(file);
    }

    /// Of all open domains: what was counted, error entries, and memory.
    pub(crate) fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for seat in (0..self.len()).flat_map(|dev| self.registry.of_device(dev)) {
            let memory = seat.domain.memory.counts();
            let taken = |core: &mut Core| tally.take(&core.engine, &core.port.seen(), memory);
            // A domain that is busy or out of order is left out.
            let _told = seat.domain.glance(taken);
        }
        tally
    }

    pub(crate) fn len(&self) -> usize {
        self.devices.len()
    }

    /// What is told of each device, and what it is opened from.
    pub(crate) fn each(&self) -> impl Iterator<Item = (&Properties, &InfoBuf)> {
        let devices = self.devices.iter();
        devices.map(|device| (device.found(), device.info()))
    }

    /// A line for the log for each device.
    pub(crate) fn describe(&self) -> impl Iterator<Item = String> {
        self.devices.iter().map(Device::describe)
    }

    /// Asks an endpoint of the first NIC what only an endpoint tells: that of all is the same. One that
    /// cannot be opened now has nothing to tell, and says why when it is needed.
    pub(crate) fn probe(&mut self, config: &Config) {
        let Some(first) = self.devices.first().map(Device::info) else {
            return;
        };
        if !gpu::has_to_ask(first, config) {
            return;
        }
        let ask = |setup: &EndpointSetup| {
            let protocol = Protocol::SendRecv;
            Ok(gpu::prepare(setup, (first, config), protocol))
        };
        let answers = efa::with_endpoint(first, ask);
        let answers = answers.unwrap_or(Answers {
            memory: Err("no endpoint can be opened"),
            in_order: false,
        });
        answers.tell((first, config), &*self.log);
        if answers.memory.is_err() {
            self.devices.iter_mut().for_each(Device::lose_device_memory);
        }
    }

    pub(crate) fn properties(&self, dev: usize) -> Result<Properties, NetError> {
        Ok(self.device(dev)?.properties())
    }

    pub(crate) fn info(&self, dev: usize) -> Result<&InfoBuf, NetError> {
        Ok(self.device(dev)?.info())
    }

    pub(crate) fn domains(&self, dev: usize) -> Result<usize, NetError> {
        self.device(dev)?;
        Ok(self.registry.of_device(dev).count())
    }

    pub(crate) fn counters(&self, dev: usize) -> Result<Counters, NetError> {
        self.device(dev)?;
        let mut sum = Counters::default();
        for seat in self.registry.of_device(dev) {
            sum += seat.domain.enter(|core| Ok(core.engine.counters()))?;
        }
        Ok(sum)
    }

    pub(crate) fn comm_info(&self, comm: CommWord) -> Result<CommInfo, NetError> {
        let (_, domain, key) = self.comm(comm)?;
        let info = domain.enter(|core| Ok(core.engine.comm_info(key)))?;
        info.ok_or_else(|| stale(Code::StaleComm, "communicator", comm.to_bits()))
    }

    /// Closes everything, within the bound in all.
    pub(crate) fn close(&mut self, bound_ms: u64) {
        self.registry.nudge();
        mem::replace(&mut self.registry, Registry::empty()).close(bound_ms);
    }

    fn device(&self, dev: usize) -> Result<&Device, NetError> {
        self.devices.get(dev).ok_or_else(|| {
            let what = format!("device {dev}, and there are {}", self.devices.len());
            NetError::new(Code::UnknownDevice, what)
        })
    }

    /// The domain that the calling thread uses on a device for a traffic class, opened if there is none.
    fn seat<'a>(
        &'a self,
        config: &'a Config,
        (dev, class): (usize, Option<TrafficClass>),
    ) -> Result<&'a Seat, NetError> {
        let opening = Opening {
            registry: &self.registry,
            config,
            log: &self.log,
            tracing: self.tracing.as_ref(),
            stats: self.stats.as_ref(),
            class,
            said: &self.said,
        };
        self.device(dev)?.domain(&opening)
    }

    /// The domain of a communicator, and its key there.
    #[inline]
    fn comm(&self, word: CommWord) -> Result<(&Seat, &Domain, CommKey), NetError> {
        self.registry.comm(word)
    }

    #[inline]
    fn request(&self, word: ReqWord) -> Result<(&Domain, ReqKey), NetError> {
        self.registry.request(word)
    }
}

/// What the protocol has no operation for.
#[cold]
pub(crate) fn one_sided() -> NetError {
    let what = "this process speaks SENDRECV, which has none (OFI_NCCL_PROTOCOL=RDMA has)";
    NetError::new(Code::OneSided, what)
}
