//! A device: one NIC, what is told of it, and the domain over it once one is needed.

use super::domain::Domain;
use crate::config::Config;
use crate::error::{Code, NetError};
use crate::handle_state::random_u64;
use crate::handle_words::{CommWord, DOMAINS_MAX, MrWord, Parts, ReqWord};
use crate::log::Log;
use crate::properties::Properties;
use crate::select::{self, Nic};
use crate::trace::TraceFile;
use efa_fabric::{InfoBuf, Library};
use ofi_pools::Key;
use ofi_rdma::{CommKey, ReqKey};
use ofi_sendrecv::TagSpace;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// One device.
#[derive(Debug)]
pub(crate) struct Device {
    index: usize,
    /// On the generations in words, so that words of an earlier instance are stale in this one.
    salt: u32,
    info: InfoBuf,
    properties: Properties,
    /// Opened once, by the first listen or connect; closed with the transport.
    domain: OnceLock<Domain>,
    /// Held while opening, so that one thread opens and the others wait for it.
    opening: Mutex<()>,
}

impl Device {
    /// One device a NIC, in the provider's order; all of them over again where the user wants NICs
    /// several times (protocol 2h.3).
    ///
    /// # Errors
    /// No provider fits; more devices than words can name.
    pub(crate) fn discover(
        config: &Config,
        library: &'static Library,
        log: &dyn Log,
    ) -> Result<Vec<Self>, NetError> {
        let nics = select::discover_tagged(config, library, log)?;
        let count = nics.len() * config.nic_dup_conns.max(1);
        if count > DOMAINS_MAX {
            let what = format!("{count} devices, and there is room for {DOMAINS_MAX}");
            return Err(NetError::new(Code::Grouping, what));
        }
        let devices = (0..count).zip(nics.iter().cycle());
        devices
            .map(|(index, nic)| Self::new(config, index, nic))
            .collect()
    }

    fn new(config: &Config, index: usize, nic: &Nic) -> Result<Self, NetError> {
        let tags = TagSpace::of(nic.info.mem_tag_format())?;
        let Some(mut properties) = Properties::of(config, index, &[nic]) else {
            return Err(NetError::new(Code::Grouping, format!("device {index}")));
        };
        // Protocol 2a.4, SENDRECV.
        properties.reg_is_global = false;
        properties.rma_supported = false;
        properties.max_comms = tags.max().min(i32::MAX.unsigned_abs());
        properties.max_write_inline_bytes = nic.info.inject_size();
        let [a, b, c, d, ..] = random_u64().to_le_bytes();
        Ok(Self {
            index,
            salt: u32::from_le_bytes([a, b, c, d]),
            info: nic.info.dup()?,
            properties,
            domain: OnceLock::new(),
            opening: Mutex::new(()),
        })
    }

    /// A line for the log.
    pub(crate) fn describe(&self) -> String {
        let (name, speed) = (self.info.domain_name(), self.properties.speed_mbps);
        format!("device {}: {name}, {speed} Mb/s", self.index)
    }

    pub(crate) const fn index(&self) -> usize {
        self.index
    }

    pub(crate) const fn properties(&self) -> &Properties {
        &self.properties
    }

    /// The domain, if it was opened.
    #[inline]
    pub(crate) fn opened(&self) -> Option<&Domain> {
        self.domain.get()
    }

    /// The domain, opened now if it was not.
    ///
    /// # Errors
    /// It could not be opened; nothing is left open, and the next call tries again.
    pub(crate) fn open(
        &self,
        config: &Config,
        log: &Arc<dyn Log>,
        trace: Option<&Arc<TraceFile>>,
    ) -> Result<&Domain, NetError> {
        if let Some(domain) = self.domain.get() {
            return Ok(domain);
        }
        // Nothing is left half done by a panic inside: the cell is set at the end.
        let _one_opens = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(domain) = self.domain.get() {
            return Ok(domain);
        }
        let label = format!("device {} ({})", self.index, self.properties.name);
        let domain = Domain::open(&self.info, config, &label, Arc::clone(log))?;
        if let Some(file) = trace {
            domain.trace_to(file)?;
        }
        Ok(self.domain.get_or_init(|| domain))
    }

    /// Closes the domain, within the bound and its own order.
    pub(crate) fn close(mut self, bound_ms: u64) {
        if let Some(domain) = self.domain.take() {
            domain.shut_down(bound_ms);
        }
    }

    /// The key of a word's slot in the tables of this domain.
    #[inline]
    pub(crate) const fn key(&self, parts: Parts) -> Key {
        Key::new(parts.slot, parts.salted ^ self.salt)
    }

    pub(crate) fn comm_word(&self, comm: CommKey) -> Result<CommWord, NetError> {
        CommWord::pack(self.parts(comm.index(), comm.generation())).ok_or_else(no_room)
    }

    #[inline]
    pub(crate) fn request_word(&self, request: ReqKey) -> Result<ReqWord, NetError> {
        ReqWord::pack(self.parts(request.index(), request.generation())).ok_or_else(no_room)
    }

    pub(crate) fn region_word(&self, region: Key) -> Result<MrWord, NetError> {
        MrWord::pack(self.parts(region.index(), region.generation())).ok_or_else(no_room)
    }

    const fn parts(&self, slot: u32, generation: u32) -> Parts {
        Parts {
            domain: self.index,
            slot,
            salted: generation ^ self.salt,
        }
    }
}

#[cold]
fn no_room() -> NetError {
    let what = "more than 4194304 objects of one kind on a device";
    NetError::new(Code::OutOfIds, what)
}
