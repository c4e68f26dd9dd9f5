//! The API that the plugins are skins of.
//!
//! All calls take `&self` and may come from any thread; the calls on one communicator come from one
//! thread at a time, as collectives libraries promise (protocol 2a.1). Nothing blocks but
//! registration, and what says so; "not now" is `Ok(None)`, never an error (decision 10).
//!
//! # Memory
//!
//! [`Transport::isend`], [`Transport::irecv`], [`Transport::iflush`], the one-sided calls and
//! [`Transport::reg_mr`] are unsafe: the network goes on using the memory after they return. Each states what the caller owes.

use crate::config::{Config, Protocol};
use crate::device::{Device, Devices, Opening};
use crate::domain::{Domain, Seat};
use crate::dump::{self, NicsAtStart};
use crate::error::{Code, NetError};
use crate::fork::ForkGuard;
use crate::handle_state::random_u64;
use crate::handle_words::{CommWord, ReqWord};
use crate::log::{self, Log, Subsys};
use crate::params::Flavour;
use crate::progress::Core;
use crate::properties::Properties;
use crate::protocol::{self, Found};
use crate::registry::{Registry, stale};
use crate::sendrecv::SendRecv;
use crate::startup::Startup;
use crate::stats::{self, About, StatsFile, Tally};
use crate::trace::Tracing;
use crate::traffic::{Said, TrafficClass};
use crate::twins::Twins;
use crate::watch::{Facts, Watch};
use core::mem::ManuallyDrop;
use efa_fabric::{InfoBuf, Library, Version};
use ofi_rdma::{CommInfo, CommKey, Counters, ReqKey};
use std::sync::Arc;

mod adopt;
mod connect;
mod data;
mod memory;
mod one_sided;

pub(crate) use memory::round_bytes;
pub use one_sided::{LocalMemory, RemoteMemory};

/// How long the end of a transport waits for operations of closed communicators, milliseconds.
const DRAIN_BOUND_MS: u64 = 2000;

/// One instance: devices found, domains opened as they are needed. Dropping it closes everything, in
/// order and within a bound; in a forked child it touches nothing.
#[derive(Debug)]
pub struct Transport {
    /// Not dropped in a forked child: the objects are the parent's (decision 22).
    registry: ManuallyDrop<Registry<Domain>>,
    devices: ManuallyDrop<Vec<Device>>,
    /// The devices of the other protocol, where that was chosen; there are no others then.
    sendrecv: ManuallyDrop<Option<Box<SendRecv>>>,
    config: Config,
    startup: Startup,
    nccl_file: Option<String>,
    tracing: Tracing,
    stats: Option<Arc<StatsFile>>,
    log: Arc<dyn Log>,
    said: Said,
    twins: Twins,
    fork: ForkGuard,
    /// Tells our state in connection handles from anybody else's (decision 30).
    nonce: u64,
}

impl Transport {
    /// Loads libfabric, finds the NICs and makes devices of them. Opens nothing yet.
    ///
    /// # Errors
    /// libfabric is missing or too old, no provider fits, the NICs cannot be grouped as asked.
    pub fn init(config: Config, log: Arc<dyn Log>) -> Result<Self, NetError> {
        let mut config = config;
        let forced = config.product_name.is_some();
        config.settle_platform();
        config.check()?;
        let mut startup = Startup::default();
        let watch = Watch::new(&config, &log);
        let discovered = protocol::discover(&config, &mut startup, (&log, &watch))?;
        let (found, registry, mut sendrecv) = match discovered {
            Found::Rdma(devices) => (devices, Registry::new(&watch), None),
            Found::SendRecv(other) => {
                (Devices::default(), Registry::empty(), Some(Box::new(other)))
            }
        };
        let Devices {
            list: devices,
            nccl_file,
        } = found;
        if let Some(line) = config.describe_platform(forced) {
            log::info(&*log, Subsys::Init, || line);
        }
        for device in &devices {
            log::info(&*log, Subsys::Init, || device.describe());
        }
        for line in sendrecv.iter().flat_map(|other| other.describe()) {
            log::info(&*log, Subsys::Init, || line);
        }
        log::info(&*log, Subsys::Init, || startup.to_string());
        if config.endpoint_per_comm {
            registry.link();
        }
        let tracing = Tracing::open(&config, &log);
        if let Some(other) = &mut sendrecv {
            other.trace_to(tracing.clone());
        }
        let stats = open_stats(&config, sendrecv.is_some(), &*log);
        if let (Some(other), Some(file)) = (&mut sendrecv, &stats) {
            other.count_into(Arc::clone(file));
        }
        let transport = Self {
            registry: ManuallyDrop::new(registry),
            devices: ManuallyDrop::new(devices),
            sendrecv: ManuallyDrop::new(sendrecv),
            config,
            startup,
            nccl_file,
            tracing,
            stats,
            log,
            said: Said::default(),
            twins: Twins::default(),
            fork: ForkGuard::new(),
            nonce: random_u64(),
        };
        watch.settle(transport.facts());
        Ok(transport)
    }

    /// What every state dump says.
    fn facts(&self) -> Facts {
        let found: Vec<(String, Vec<&InfoBuf>)> = match &*self.sendrecv {
            Some(other) => other
                .each()
                .map(|(properties, info)| (properties.name.clone(), vec![info]))
                .collect(),
            None => self
                .devices
                .iter()
                .map(|device| (device.found().name.clone(), device.infos().iter().collect()))
                .collect(),
        };
        let infos = found.iter().flat_map(|(_, infos)| infos);
        let nics: Vec<&str> = infos.map(|info| stats::nic_name(info)).collect();
        // For dumps alone.
        let nics = match self.config.dump {
            Some(_) => NicsAtStart::read(&self.config.fs_root, &nics),
            None => NicsAtStart::default(),
        };
        let name = |info: &&InfoBuf| format!("{}/{}", info.provider_name(), info.domain_name());
        let device = |(index, (name_of, infos)): (usize, &(String, Vec<&InfoBuf>))| dump::Device {
            index,
            name: name_of.clone(),
            rails: infos.iter().map(name).collect(),
        };
        let library = Library::get();
        let shown =
            |library: &Library| format!("{} {}", Version::of(library), library.path().display());
        Facts {
            libfabric: library.map(shown).unwrap_or_default(),
            protocol: self.protocol().to_string(),
            devices: found.iter().enumerate().map(device).collect(),
            nics,
        }
    }

    /// How many devices there are.
    ///
    /// # Errors
    /// In the child of a fork.
    pub fn devices(&self) -> Result<usize, NetError> {
        self.alive()?;
        Ok(match &*self.sendrecv {
            Some(other) => other.len(),
            None => self.devices.len(),
        })
    }

    /// What there is to say about a device.
    ///
    /// # Errors
    /// An index beyond [`Transport::devices`]; in the child of a fork.
    pub fn properties(&self, dev: usize) -> Result<Properties, NetError> {
        self.alive()?;
        match &*self.sendrecv {
            Some(other) => other.properties(dev),
            None => Ok(self.device(dev)?.properties()),
        }
    }

    /// The NICs of a device, one a rail: libfabric's names of provider and domain. A NIC that comes
    /// twice is two rails.
    ///
    /// # Errors
    /// As [`Transport::properties`].
    pub fn rail_names(&self, dev: usize) -> Result<Vec<(String, String)>, NetError> {
        self.alive()?;
        let names = |info: &InfoBuf| {
            (
                info.provider_name().to_owned(),
                info.domain_name().to_owned(),
            )
        };
        match &*self.sendrecv {
            Some(other) => Ok(vec![names(other.info(dev)?)]),
            None => Ok(self.device(dev)?.infos().iter().map(names).collect()),
        }
    }

    /// The version that the provider of a device says it has, as providers pack it: `major << 16 | minor`.
    ///
    /// # Errors
    /// An index beyond [`Transport::devices`].
    pub fn provider_version(&self, dev: usize) -> Result<u32, NetError> {
        self.alive()?;
        match &*self.sendrecv {
            Some(other) => Ok(other.info(dev)?.provider_version()),
            None => {
                let first = self.device(dev)?.infos().first();
                Ok(first.map_or(0, |info| info.provider_version()))
            }
        }
    }

    /// What happened on a device so far, on all its domains; all zero before its first listen or
    /// connect.
    ///
    /// # Errors
    /// An index beyond [`Transport::devices`]; a device that is out of order.
    pub fn counters(&self, dev: usize) -> Result<Counters, NetError> {
        self.alive()?;
        if let Some(other) = &*self.sendrecv {
            return other.counters(dev);
        }
        self.device(dev)?;
        let mut sum = Counters::default();
        for seat in self.registry.of_device(dev) {
            sum += seat.domain.enter(|core| Ok(core.engine.counters()))?;
        }
        Ok(sum)
    }

    /// Domains that are open on a device: one at most, but with `OFI_NCCL_DOMAIN_PER_THREAD`,
    /// `OFI_NCCL_ENDPOINT_PER_COMM` or traffic classes.
    /// # Errors
    /// An index beyond [`Transport::devices`].
    pub fn domains(&self, dev: usize) -> Result<usize, NetError> {
        self.alive()?;
        if let Some(other) = &*self.sendrecv {
            return other.domains(dev);
        }
        self.device(dev)?;
        Ok(self.registry.of_device(dev).count())
    }

    /// Where a communicator stands: connected or not, what it waits for, its first failure.
    ///
    /// # Errors
    /// No such communicator; a device that is out of order.
    pub fn comm_info(&self, comm: CommWord) -> Result<CommInfo, NetError> {
        if let Some(other) = &*self.sendrecv {
            self.alive()?;
            return other.comm_info(comm);
        }
        let (_, domain, key) = self.comm(comm)?;
        let info = domain.enter(|core| Ok(core.engine.comm_info(key)))?;
        info.ok_or_else(|| stale(Code::StaleComm, "communicator", comm.to_bits()))
    }

    /// The traffic class that a number of NCCL's users means (see [`TrafficClass::new`]), for
    /// [`Transport::listen_classed`] and [`Transport::connect_classed`]; a number that means none is one warning in the life of a transport, and no class.
    #[must_use]
    pub fn traffic_class(&self, number: Option<u32>) -> Option<TrafficClass> {
        self.said.class(number, &*self.log)
    }

    /// libfabric's entries of the rails of a device, in order: what a tool opens the same endpoints
    /// with. Empty under SENDRECV.
    ///
    /// # Errors
    /// An index beyond [`Transport::devices`]; in the child of a fork.
    pub fn rails(&self, dev: usize) -> Result<&[InfoBuf], NetError> {
        self.alive()?;
        match &*self.sendrecv {
            Some(_) => Ok(&[]),
            None => Ok(self.device(dev)?.infos()),
        }
    }

    /// What its devices speak.
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        match &*self.sendrecv {
            Some(_) => Protocol::SendRecv,
            None => Protocol::Rdma,
        }
    }

    /// The settings it runs with.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// What init cost.
    #[must_use]
    pub const fn startup(&self) -> Startup {
        self.startup
    }

    /// The topology file that NCCL needs where a device has several NICs (protocol 2h.4): otherwise it
    /// takes the first one's link for the whole.
    #[must_use]
    pub fn nccl_topology(&self) -> Option<&str> {
        self.nccl_file.as_deref()
    }

    /// One line for the log, for the end; `None` when nothing happened.
    fn what_was_done(&self) -> Option<String> {
        let mut tally = Tally::default();
        for seat in (0..self.devices.len()).flat_map(|dev| self.registry.of_device(dev)) {
            let memory = seat.domain.memory.counts();
            let taken = |core: &mut Core| tally.take(&core.engine, &core.port.seen(), memory);
            // A domain that is busy or out of order is left out.
            let _told = seat.domain.glance(taken);
        }
        if let Some(other) = &*self.sendrecv {
            tally = other.tally();
        }
        tally.line()
    }

    fn device(&self, dev: usize) -> Result<&Device, NetError> {
        self.devices.get(dev).ok_or_else(|| {
            let what = format!("device {dev}, and there are {}", self.devices.len());
            NetError::new(Code::UnknownDevice, what)
        })
    }

    /// Every call but the above starts here: a forked child gets no further.
    #[inline]
    fn alive(&self) -> Result<(), NetError> {
        if self.fork.is_child() {
            Err(forked())
        } else {
            Ok(())
        }
    }

    /// The domain that the calling thread uses on a device for a traffic class, opened if there is none.
    fn seat(&self, device: &Device, class: Option<TrafficClass>) -> Result<&Seat, NetError> {
        device.domain(&self.opening(class))
    }

    /// SENDRECV has no one-sided operations.
    #[inline]
    fn refuse_one_sided(&self) -> Result<(), NetError> {
        match &*self.sendrecv {
            None => Ok(()),
            Some(_) => {
                self.alive()?;
                Err(crate::sendrecv::one_sided())
            }
        }
    }

    fn opening(&self, class: Option<TrafficClass>) -> Opening<'_> {
        Opening {
            registry: &self.registry,
            config: &self.config,
            log: &self.log,
            tracing: &self.tracing,
            stats: self.stats.as_ref(),
            class,
            said: &self.said,
        }
    }

    /// The domain of a communicator, and its key there.
    #[inline]
    fn comm(&self, word: CommWord) -> Result<(&Seat, &Domain, CommKey), NetError> {
        self.alive()?;
        self.registry.comm(word)
    }

    #[inline]
    fn request(&self, word: ReqWord) -> Result<(&Domain, ReqKey), NetError> {
        self.alive()?;
        self.registry.request(word)
    }
}

/// The file of counters that was asked for. A job is not lost for want of one.
fn open_stats(config: &Config, is_sendrecv: bool, log: &dyn Log) -> Option<Arc<StatsFile>> {
    let about = About {
        dir: config.stats_dir.as_deref()?,
        fs_root: &config.fs_root,
        flavour: u64::from(config.flavour == Flavour::Nccl),
        protocol: u64::from(is_sendrecv),
    };
    match StatsFile::create(&about) {
        Ok(file) => {
            log::info(log, Subsys::Init, || {
                let path = file.path().display();
                format!("counters in {path}; see them with `ofi top` and `ofi stats`")
            });
            Some(Arc::new(file))
        }
        Err(error) => {
            log::warn(log, Subsys::Init, || error);
            None
        }
    }
}

impl Drop for Transport {
    fn drop(&mut self) {
        if self.fork.is_child() {
            return;
        }
        let done = self.what_was_done();
        // A dump that no call came to since it was due.
        self.registry.nudge();
        let registry = core::mem::replace(&mut *self.registry, Registry::empty());
        registry.close(DRAIN_BOUND_MS);
        if let Some(mut other) = self.sendrecv.take() {
            other.close(DRAIN_BOUND_MS);
        }
        drop(core::mem::take(&mut *self.devices));
        if let Some(file) = &self.stats {
            file.end();
        }
        if let Some(line) = done {
            log::info(&*self.log, Subsys::Net, || line);
        }
    }
}

#[cold]
fn forked() -> NetError {
    let what = "a call in a forked child; the parent's connections are untouched";
    NetError::new(Code::Forked, what)
}

/// Any thread may call, with a reference to the one transport.
const _: () = {
    const fn assert_shared<T: Send + Sync>() {}
    assert_shared::<Transport>();
};
