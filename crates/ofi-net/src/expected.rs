//! What a start would make of EFAs that somebody describes: for tools that look at a host without libfabric.

use ofi_topo::{Grouping, Nic, Tree};

use crate::config::{Config, Protocol};
use crate::error::NetError;
use crate::protocol;
use crate::topology;

/// The devices that there would be.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Expected {
    /// What they speak.
    pub protocol: Protocol,
    /// How many.
    pub devices: usize,
    /// NICs of the one that has most.
    pub rails: usize,
    /// Which NICs make which device; SENDRECV groups none.
    pub grouping: Option<Grouping>,
}

impl Expected {
    /// By the functions that [`Transport::init`](crate::Transport::init) uses, of EFAs and the tree that they
    /// are in. The product name has to be in `config`; nothing is read from the host.
    ///
    /// # Errors
    /// [`Code::Grouping`](crate::Code::Grouping): the settings do not fit the NICs.
    pub fn of(config: &Config, nics: &[Nic], tree: &Tree) -> Result<Self, NetError> {
        let decided = protocol::decided(config).map(|(protocol, _)| protocol);
        if decided == Some(Protocol::SendRecv) {
            return Ok(Self::sendrecv(config, nics.len()));
        }
        let grouping = topology::grouped(config, (nics, tree), |_| None)?;
        let rails = grouping.rails_max();
        if decided.is_none() && rails <= 1 {
            return Ok(Self::sendrecv(config, nics.len()));
        }
        Ok(Self {
            protocol: Protocol::Rdma,
            devices: grouping.devices.len(),
            rails,
            grouping: Some(grouping),
        })
    }

    fn sendrecv(config: &Config, nics: usize) -> Self {
        Self {
            protocol: Protocol::SendRecv,
            devices: nics * config.duplicates(true),
            rails: nics.min(1),
            grouping: None,
        }
    }
}
