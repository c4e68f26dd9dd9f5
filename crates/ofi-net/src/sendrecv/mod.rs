//! The SENDRECV protocol over libfabric: the engine of `ofi-sendrecv`, one NIC and one endpoint a
//! device (protocol 2c.10, 2d.8, 2e.12).
//!
//! ```text
//! SendRecv
//!  +- Device 0 (one NIC)
//!  |   +- Domain: lock { Engine, Port, completion queue }
//!  |       +- fi_fabric, fi_domain, CQ with tags, one endpoint
//!  +- Device 1 ...
//! ```
//!
//! `device` (a NIC and its domain), `domain` (what is opened, the lock), `port` (one engine operation,
//! one libfabric call), `progress`; `connect`, `data`, `memory`: the calls of [`crate::Transport`].

use crate::config::Config;
use crate::error::{Code, NetError};
use crate::handle_words::{CommWord, MrWord, Parts, ReqWord};
use crate::log::Log;
use crate::properties::Properties;
use crate::trace::TraceFile;
use core::mem;
use device::Device;
use domain::Domain;
use efa_fabric::Library;
use ofi_pools::Key;
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

/// Devices that speak SENDRECV.
#[derive(Debug)]
pub(crate) struct SendRecv {
    devices: Vec<Device>,
    /// The wire trace, if there is one.
    trace: Option<Arc<TraceFile>>,
    log: Arc<dyn Log>,
}

impl SendRecv {
    /// Finds the NICs. Opens nothing yet.
    ///
    /// # Errors
    /// No provider fits.
    pub(crate) fn discover(
        config: &Config,
        library: &'static Library,
        log: &Arc<dyn Log>,
    ) -> Result<Self, NetError> {
        let devices = Device::discover(config, library, &**log)?;
        Ok(Self {
            devices,
            trace: None,
            log: Arc::clone(log),
        })
    }

    /// What goes over domains opened from now on is written down.
    pub(crate) fn trace_to(&mut self, file: Arc<TraceFile>) {
        self.trace = Some(file);
    }

    pub(crate) fn len(&self) -> usize {
        self.devices.len()
    }

    /// A line for the log for each device.
    pub(crate) fn describe(&self) -> impl Iterator<Item = String> {
        self.devices.iter().map(Device::describe)
    }

    pub(crate) fn properties(&self, dev: usize) -> Result<&Properties, NetError> {
        Ok(self.device(dev)?.properties())
    }

    pub(crate) fn domains(&self, dev: usize) -> Result<usize, NetError> {
        Ok(usize::from(self.device(dev)?.opened().is_some()))
    }

    pub(crate) fn counters(&self, dev: usize) -> Result<Counters, NetError> {
        match self.device(dev)?.opened() {
            Some(domain) => domain.enter(|core| Ok(*core.engine.counters())),
            None => Ok(Counters::default()),
        }
    }

    pub(crate) fn comm_info(&self, comm: CommWord) -> Result<CommInfo, NetError> {
        let (_, domain, key) = self.comm(comm)?;
        let info = domain.enter(|core| Ok(core.engine.comm_info(key)))?;
        info.ok_or_else(|| stale(Code::StaleComm, "communicator", comm.to_bits()))
    }

    /// Closes everything, within the bound in all.
    pub(crate) fn close(&mut self, bound_ms: u64) {
        for device in mem::take(&mut self.devices) {
            device.close(bound_ms);
        }
    }

    fn device(&self, dev: usize) -> Result<&Device, NetError> {
        self.devices.get(dev).ok_or_else(|| {
            let what = format!("device {dev}, and there are {}", self.devices.len());
            NetError::new(Code::UnknownDevice, what)
        })
    }

    /// The domain behind a word, and the key in its tables.
    #[inline]
    fn opened(&self, parts: Option<Parts>) -> Option<(&Device, &Domain, Key)> {
        let parts = parts?;
        let device = self.devices.get(parts.domain)?;
        Some((device, device.opened()?, device.key(parts)))
    }

    #[inline]
    fn comm(&self, word: CommWord) -> Result<(&Device, &Domain, CommKey), NetError> {
        match self.opened(word.parts()) {
            Some((device, domain, key)) => Ok((device, domain, CommKey::from_bits(key.to_bits()))),
            None => Err(stale(Code::StaleComm, "communicator", word.to_bits())),
        }
    }

    #[inline]
    fn request(&self, word: ReqWord) -> Result<(&Domain, ReqKey), NetError> {
        match self.opened(word.parts()) {
            Some((_, domain, key)) => Ok((domain, ReqKey::from_bits(key.to_bits()))),
            None => Err(stale(Code::StaleRequest, "request", word.to_bits())),
        }
    }

    /// The key of a region word, which must be of this device.
    #[inline]
    fn region_key(&self, device: &Device, word: MrWord) -> Result<Key, NetError> {
        match word.parts() {
            Some(parts) if parts.domain == device.index() => Ok(device.key(parts)),
            _ => Err(stale(Code::StaleRegion, "memory handle", word.to_bits())),
        }
    }
}

/// What the protocol has no operation for.
#[cold]
pub(crate) fn one_sided() -> NetError {
    let what = "this process speaks SENDRECV, which has none (OFI_NCCL_PROTOCOL=RDMA has)";
    NetError::new(Code::OneSided, what)
}

#[cold]
fn stale(code: Code, what: &str, word: u64) -> NetError {
    NetError::new(code, format!("{what} {word:#x}"))
}
