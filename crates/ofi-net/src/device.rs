//! A device: a group of NICs, what is told of it, and the domains over it once they are needed.
//!
//! Whose they are, the process's or each a thread's, and for which traffic class, stands in
//! [`crate::owners`].
//! With an endpoint for each communicator of a peer (`OFI_NCCL_ENDPOINT_PER_COMM`), that one domain
//! listens and sends, and receive communicators are on others (see [`crate::peer_sets`]).

use crate::config::Config;
use crate::dmabuf::Lesson;
use crate::domain::{Domain, Plan, Seat};
use crate::early::{self, Moves};
use crate::efa::{self, Probed};
use crate::error::{Code, NetError};
use crate::gpu;
use crate::log::Log;
use crate::owners::{Owner, Owners};
use crate::peer_sets::PeerSets;
use crate::properties::Properties;
use crate::registry::Registry;
use crate::select::{self, Nic};
use crate::startup::{Phase, Startup};
use crate::stats::{self, StatsFile};
use crate::topology::Topology;
use crate::trace::Tracing;
use crate::traffic::{Said, TrafficClass};
use efa_fabric::{Info, InfoBuf, Library};
use ofi_rdma::{CommKey, EpName};
use ofi_topo::DeviceGroup;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One device.
#[derive(Debug)]
pub(crate) struct Device {
    index: usize,
    rails: Vec<InfoBuf>,
    properties: Properties,
    /// What it learned of dma-bufs.
    lesson: Arc<Lesson>,
    /// The domains of its receive communicators, with an endpoint for each communicator of a peer.
    peer_sets: Mutex<PeerSets>,
    /// Its other domains.
    owners: Owners,
}

/// The devices of a host.
#[derive(Debug, Default)]
pub(crate) struct Devices {
    pub(crate) list: Vec<Device>,
    /// NCCL's topology file, where a device has several NICs.
    pub(crate) nccl_file: Option<String>,
}

impl Devices {
    /// Tries whether RDMA works on the first NIC, where that is not sure, and learns what only an endpoint
    /// tells. The NICs are of one provider and alike, so that one speaks for all.
    ///
    /// # Errors
    /// What keeps an endpoint from being opened, or RDMA from being used.
    pub(crate) fn probe(&mut self, config: &Config, log: &dyn Log) -> Result<(), NetError> {
        let first = self.list.first().and_then(|device| device.rails.first());
        let asked = |info: &&InfoBuf| efa::is_efa(info) || gpu::has_to_ask(info, config);
        let Some(first) = first.filter(asked) else {
            return Ok(());
        };
        let Probed { inline_max, gpu } = efa::probe(first, config)?;
        gpu.tell((first, config), log);
        for Device { properties, .. } in &mut self.list {
            properties.max_write_inline_bytes =
                inline_max.unwrap_or(properties.max_write_inline_bytes);
            properties.device_memory &= gpu.memory.is_ok();
        }
        Ok(())
    }
}

/// What a domain is opened with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening<'a> {
    /// Where it gets its number.
    pub(crate) registry: &'a Registry<Domain>,
    /// The settings.
    pub(crate) config: &'a Config,
    /// Where its lines go.
    pub(crate) log: &'a Arc<dyn Log>,
    /// Where what goes over its rails is written down.
    pub(crate) tracing: &'a Tracing,
    /// The file of counters, if there is one.
    pub(crate) stats: Option<&'a Arc<StatsFile>>,
    /// The traffic class of its endpoints.
    pub(crate) class: Option<TrafficClass>,
    /// What was said of classes.
    pub(crate) said: &'a Said,
}

impl Device {
    /// Selects NICs and groups them; `open`: SENDRECV may be looked for after.
    ///
    /// # Errors
    /// As [`crate::Transport::init`].
    pub(crate) fn discover(
        (config, open): (&Config, bool),
        library: &'static Library,
        startup: &mut Startup,
        log: &dyn Log,
    ) -> Result<Devices, NetError> {
        let nics = select::discover((config, open), library, startup, log)?;
        early::decide(config, nics.iter().map(|nic| Moves::of(&nic.info)))?;
        let topology = startup.time(Phase::Topology, || Topology::of(config, &nics, log))?;
        let members = (0..).zip(&topology.grouping.devices);
        let make = || {
            members
                .map(|(index, members)| Self::new(config, index, members, &nics))
                .collect::<Result<Vec<Self>, NetError>>()
        };
        Ok(Devices {
            list: startup.time(Phase::Devices, make)?,
            nccl_file: topology.nccl_file,
        })
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
        Ok(Self {
            index,
            rails,
            properties,
            lesson: Arc::default(),
            peer_sets: Mutex::default(),
            owners: Owners::new(index),
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

    /// What its rails are opened with.
    pub(crate) fn infos(&self) -> &[InfoBuf] {
        &self.rails
    }

    /// Rails that it has.
    pub(crate) fn rails(&self) -> usize {
        self.rails.len()
    }

    /// What there is to say of it now.
    pub(crate) fn properties(&self) -> Properties {
        self.properties.as_of(&self.lesson)
    }

    /// What was found of it, without what it learned since.
    pub(crate) const fn found(&self) -> &Properties {
        &self.properties
    }

    /// The domain that the calling thread listens and connects with, opened now if there is none.
    ///
    /// # Errors
    /// A rail could not be opened, or the transport has no room for more domains; nothing is left
    /// open, and the next call tries again.
    pub(crate) fn domain<'a>(&self, opening: &Opening<'a>) -> Result<&'a Seat, NetError> {
        let owner = Owner::of_call(opening.config);
        let open = |others, class| self.open(others, class, opening);
        let refused = |class, why: &NetError| {
            let label = self.label(0);
            opening.said.refused(&label, class, why, &**opening.log);
        };
        (self.owners).domain((owner, opening.class), opening.registry, open, refused)
    }

    /// The domains of receive communicators; held from choosing one to being on it.
    pub(crate) fn peer_sets(&self) -> MutexGuard<'_, PeerSets> {
        // A panic inside leaves out a communicator at worst.
        let sets = self.peer_sets.lock();
        sets.unwrap_or_else(PoisonError::into_inner)
    }

    /// A domain that no communicator of `peer` is on, opened now if all have one.
    ///
    /// # Errors
    /// As [`Device::domain`].
    pub(crate) fn set_for<'a>(
        &self,
        sets: &mut PeerSets,
        peer: &EpName,
        opening: &Opening<'a>,
    ) -> Result<&'a Seat, NetError> {
        if let Some(seat) = sets
            .find(peer)
            .and_then(|number| opening.registry.get(number))
        {
            return Ok(seat);
        }
        let others = opening.registry.of_device(self.index).count();
        let seat = opening
            .registry
            .add(self.index, || self.open(others, None, opening))?;
        sets.add(seat.number());
        Ok(seat)
    }

    /// A receive communicator of a domain is closed.
    pub(crate) fn release(&self, number: usize, comm: CommKey) {
        self.peer_sets().release(number, comm);
    }

    /// Opens one more domain over the rails, the first or one beside `others`.
    fn open(
        &self,
        others: usize,
        class: Option<TrafficClass>,
        opening: &Opening<'_>,
    ) -> Result<Domain, NetError> {
        let label = self.label(others);
        let classed = class.map(|class| self.classed(class)).transpose()?;
        let rails = classed.as_deref().unwrap_or(&self.rails);
        let rails: Vec<&Info> = rails.iter().map(|info| &**info).collect();
        let plan = Plan {
            rails: &rails,
            config: opening.config,
            label: &label,
            tracing: opening.tracing,
            watch: &opening.registry.watch(),
            lesson: &self.lesson,
        };
        let domain = Domain::open(&plan, Arc::clone(opening.log))?;
        if let Some(file) = opening.stats {
            let nics: Vec<&str> = rails.iter().map(|info| stats::nic_name(info)).collect();
            let open = stats::Open {
                device: self.index,
                number: others,
                nics: &nics,
            };
            domain.count_into(file, &open)?;
        }
        if let Some(class) = class {
            Said::granted(&label, class, &**opening.log);
            opening.registry.link();
        }
        Ok(domain)
    }

    /// What a domain is called in the log.
    fn label(&self, others: usize) -> String {
        let (index, name) = (self.index, &self.properties.name);
        match others {
            0 => format!("device {index} ({name})"),
            _ => format!("device {index} ({name}) domain {others}"),
        }
    }

    /// What the rails are opened from, with a traffic class.
    fn classed(&self, class: TrafficClass) -> Result<Vec<InfoBuf>, NetError> {
        let classed = self.rails.iter().map(|info| {
            let mut info = info.dup()?;
            info.set_traffic_class(class.value());
            Ok(info)
        });
        classed.collect()
    }
}
