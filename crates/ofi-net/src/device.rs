//! A device: a group of NICs, what is told of it, and the domain over it once one is needed.

use crate::config::Config;
use crate::domain::{Domain, Plan};
use crate::error::{Code, NetError};
use crate::handle_state::random_u64;
use crate::handle_words::{CommWord, MrWord, Parts, ReqWord};
use crate::log::Log;
use crate::properties::Properties;
use crate::select::{self, Nic};
use efa_fabric::{Info, InfoBuf, Library};
use ofi_pools::Key;
use ofi_rdma::{CommKey, ReqKey};
use ofi_topo::{DeviceGroup, Grouping, Rule, UserGroups, group};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// One device.
#[derive(Debug)]
pub(crate) struct Device {
    index: usize,
    /// On the generations in words, so that words of an earlier instance are stale in this one.
    salt: u32,
    rails: Vec<InfoBuf>,
    properties: Properties,
    /// Opened once, by the first listen or connect; closed with the transport.
    domain: OnceLock<Domain>,
    /// Held while opening, so that one thread opens and the others wait for it.
    opening: Mutex<()>,
}

impl Device {
    /// Loads libfabric, selects NICs, groups them.
    ///
    /// # Errors
    /// As [`crate::Transport::init`].
    pub(crate) fn discover(config: &Config, log: &dyn Log) -> Result<Vec<Self>, NetError> {
        let library = Library::load(config.libfabric_path.as_deref())?;
        let nics = select::discover(config, library, log)?;
        let grouping = grouping(config, &nics)?;
        let devices = (0..).zip(&grouping.devices);
        devices
            .map(|(index, members)| Self::new(config, index, members, &nics))
            .collect()
    }

    fn new(
        config: &Config,
        index: usize,
        members: &DeviceGroup,
        nics: &[Nic],
    ) -> Result<Self, NetError> {
        let members: Vec<&Nic> = members
            .rails
            .iter()
            .filter_map(|&nic| nics.get(nic))
            .collect();
        let Some(properties) = Properties::of(config, index, &members) else {
            return Err(NetError::new(
                Code::Grouping,
                format!("device {index} has no NIC"),
            ));
        };
        let rails = members
            .iter()
            .map(|nic| nic.info.dup())
            .collect::<Result<_, _>>()?;
        let [a, b, c, d, ..] = random_u64().to_le_bytes();
        Ok(Self {
            index,
            salt: u32::from_le_bytes([a, b, c, d]),
            rails,
            properties,
            domain: OnceLock::new(),
            opening: Mutex::new(()),
        })
    }

    /// A line for the log.
    pub(crate) fn describe(&self) -> String {
        let names: Vec<&str> = self.rails.iter().map(|info| info.domain_name()).collect();
        let speed = self.properties.speed_mbps;
        format!(
            "device {}: rails {}, {speed} Mb/s",
            self.index,
            names.join(", ")
        )
    }

    pub(crate) const fn index(&self) -> usize {
        self.index
    }

    pub(crate) const fn salt(&self) -> u32 {
        self.salt
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
    /// A rail could not be opened; nothing is left open, and the next call tries again.
    pub(crate) fn open(&self, config: &Config, log: &Arc<dyn Log>) -> Result<&Domain, NetError> {
        if let Some(domain) = self.domain.get() {
            return Ok(domain);
        }
        // Nothing is left half done by a panic inside: the cell is set at the end.
        let _one_opens = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(domain) = self.domain.get() {
            return Ok(domain);
        }
        let rails: Vec<&Info> = self.rails.iter().map(|info| &**info).collect();
        let label = format!("device {} ({})", self.index, self.properties.name);
        let plan = Plan {
            rails: &rails,
            config,
            label: &label,
        };
        let domain = Domain::open(&plan, Arc::clone(log))?;
        Ok(self.domain.get_or_init(|| domain))
    }

    /// Closes the domain, within the bound and its own order.
    pub(crate) fn close(mut self, bound_ms: u64) {
        if let Some(domain) = self.domain.take() {
            domain.shut_down(bound_ms);
        }
    }

    /// The word of a communicator of this device.
    ///
    /// # Errors
    /// More communicators than a word can name.
    pub(crate) fn comm_word(&self, comm: CommKey) -> Result<CommWord, NetError> {
        CommWord::pack(self.parts(comm.index(), comm.generation())).ok_or_else(no_room)
    }

    /// The word of a request of this device.
    ///
    /// # Errors
    /// More requests than a word can name.
    #[inline]
    pub(crate) fn request_word(&self, request: ReqKey) -> Result<ReqWord, NetError> {
        ReqWord::pack(self.parts(request.index(), request.generation())).ok_or_else(no_room)
    }

    /// The word of a region of this device.
    ///
    /// # Errors
    /// More regions than a word can name.
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
    NetError::new(
        Code::OutOfIds,
        "more than 4194304 objects of one kind on a device",
    )
}

/// Which NICs make a device (decision 39, protocol 2h.3).
fn grouping(config: &Config, nics: &[Nic]) -> Result<Grouping, NetError> {
    let described: Vec<ofi_topo::Nic> = nics.iter().enumerate().map(describe).collect();
    let rule = match &config.nic_groups {
        Some(text) => Rule::UserGroups(text.parse::<UserGroups>().map_err(refused)?),
        None => Rule::OnePerNic,
    };
    let forced = config.force_num_rails.map_or(0, usize::from);
    let grouping = group(&described, &rule).and_then(|grouping| grouping.force_rails(forced));
    grouping.map_err(refused)
}

fn describe((index, nic): (usize, &Nic)) -> ofi_topo::Nic {
    let described = ofi_topo::Nic::new(index, nic.name.clone()).with_speed_bps(nic.speed_bps);
    match nic.pci {
        Some(pci) => described.with_pci(pci),
        None => described,
    }
}

fn refused(error: ofi_topo::TopoError) -> NetError {
    NetError::new(Code::Grouping, error.to_string())
}
