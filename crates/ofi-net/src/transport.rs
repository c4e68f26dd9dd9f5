//! The API that the plugins are skins of.
//!
//! All calls take `&self` and may come from any thread; the calls on one communicator come from one
//! thread at a time, as collectives libraries promise (protocol 2a.1). Nothing blocks but
//! registration, and what says so; "not now" is `Ok(None)`, never an error (decision 10).
//!
//! # Memory
//!
//! [`Transport::isend`], [`Transport::irecv`], [`Transport::iflush`] and [`Transport::reg_mr`] are
//! unsafe: the network goes on using the memory after they return. Each states what the caller owes.

use crate::config::Config;
use crate::device::Device;
use crate::domain::Domain;
use crate::error::{Code, NetError};
use crate::fork::ForkGuard;
use crate::handle_state::random_u64;
use crate::handle_words::{CommWord, DOMAINS_MAX, MrWord, Parts, ReqWord};
use crate::log::{self, Log, Subsys};
use crate::properties::Properties;
use core::mem::ManuallyDrop;
use ofi_pools::Key;
use ofi_rdma::{CommInfo, CommKey, Counters, ReqKey};
use std::sync::Arc;

mod connect;
mod data;
mod memory;

pub(crate) use memory::round_bytes;

/// How long the end of a transport waits for operations of closed communicators, milliseconds.
const DRAIN_BOUND_MS: u64 = 2000;

/// One instance: devices found, domains opened as they are needed. Dropping it closes everything, in
/// order and within a bound; in a forked child it touches nothing.
#[derive(Debug)]
pub struct Transport {
    /// Not dropped in a forked child: the objects are the parent's (decision 22).
    devices: ManuallyDrop<Vec<Device>>,
    config: Config,
    log: Arc<dyn Log>,
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
        config.check()?;
        let devices = Device::discover(&config, &*log)?;
        if devices.len() > DOMAINS_MAX {
            let what = format!(
                "{} devices, and there is room for {DOMAINS_MAX}",
                devices.len()
            );
            return Err(NetError::new(Code::Grouping, what));
        }
        for device in &devices {
            log::info(&*log, Subsys::Init, || device.describe());
        }
        Ok(Self {
            devices: ManuallyDrop::new(devices),
            config,
            log,
            fork: ForkGuard::new(),
            nonce: random_u64(),
        })
    }

    /// How many devices there are.
    ///
    /// # Errors
    /// In the child of a fork.
    pub fn devices(&self) -> Result<usize, NetError> {
        self.alive()?;
        Ok(self.devices.len())
    }

    /// What there is to say about a device.
    ///
    /// # Errors
    /// An index beyond [`Transport::devices`]; in the child of a fork.
    pub fn properties(&self, dev: usize) -> Result<&Properties, NetError> {
        self.alive()?;
        Ok(self.device(dev)?.properties())
    }

    /// What happened on a device so far; all zero before its first listen or connect.
    ///
    /// # Errors
    /// An index beyond [`Transport::devices`]; a device that is out of order.
    pub fn counters(&self, dev: usize) -> Result<Counters, NetError> {
        self.alive()?;
        match self.device(dev)?.opened() {
            Some(domain) => domain.enter(|core| Ok(*core.engine.counters())),
            None => Ok(Counters::default()),
        }
    }

    /// Where a communicator stands: connected or not, what it waits for, its first failure.
    ///
    /// # Errors
    /// No such communicator; a device that is out of order.
    pub fn comm_info(&self, comm: CommWord) -> Result<CommInfo, NetError> {
        let (_, domain, key) = self.comm(comm)?;
        let info = domain.enter(|core| Ok(core.engine.comm_info(key)))?;
        info.ok_or_else(|| stale(Code::StaleComm, "communicator", comm.to_bits()))
    }

    /// The settings it runs with.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
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

    /// The opened domain behind a word.
    #[inline]
    fn opened(&self, parts: Option<Parts>) -> Option<(&Device, &Domain, Key)> {
        let parts = parts?;
        let device = self.devices.get(parts.domain)?;
        let domain = device.opened()?;
        Some((
            device,
            domain,
            Key::new(parts.slot, parts.salted ^ device.salt()),
        ))
    }

    #[inline]
    fn comm(&self, word: CommWord) -> Result<(&Device, &Domain, CommKey), NetError> {
        self.alive()?;
        match self.opened(word.parts()) {
            Some((device, domain, key)) => Ok((device, domain, CommKey::from_bits(key.to_bits()))),
            None => Err(stale(Code::StaleComm, "communicator", word.to_bits())),
        }
    }

    #[inline]
    fn request(&self, word: ReqWord) -> Result<(&Domain, ReqKey), NetError> {
        self.alive()?;
        match self.opened(word.parts()) {
            Some((_, domain, key)) => Ok((domain, ReqKey::from_bits(key.to_bits()))),
            None => Err(stale(Code::StaleRequest, "request", word.to_bits())),
        }
    }

    /// The key of a region word; it must be of the domain of the communicator it is used with.
    #[inline]
    fn region_key(&self, device: &Device, word: MrWord) -> Result<Key, NetError> {
        match word.parts() {
            Some(parts) if parts.domain == device.index() => {
                Ok(Key::new(parts.slot, parts.salted ^ device.salt()))
            }
            _ => Err(stale(Code::StaleRegion, "memory handle", word.to_bits())),
        }
    }
}

impl Drop for Transport {
    fn drop(&mut self) {
        if self.fork.is_child() {
            return;
        }
        let devices = core::mem::take(&mut *self.devices);
        for device in devices {
            device.close(DRAIN_BOUND_MS);
        }
    }
}

#[cold]
fn forked() -> NetError {
    let what = "a call in a forked child; the parent's connections are untouched";
    NetError::new(Code::Forked, what)
}

#[cold]
fn stale(code: Code, what: &str, word: u64) -> NetError {
    NetError::new(code, format!("{what} {word:#x}"))
}

/// Any thread may call, with a reference to the one transport.
const _: () = {
    const fn assert_shared<T: Send + Sync>() {}
    assert_shared::<Transport>();
};
