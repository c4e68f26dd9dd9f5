//! A device: one NIC, what is told of it, and the domains over it once they are needed: one, or one for
//! each thread or traffic class ([`crate::owners`]), each with an endpoint and tags of its own.

use super::domain::{Domain, Seat};
use crate::config::Config;
use crate::dmabuf::{DmaBufs, Lesson};
use crate::error::{Code, NetError};
use crate::gpu;
use crate::handle_words::DOMAINS_MAX;
use crate::log::Log;
use crate::owners::{Owner, Owners};
use crate::properties::Properties;
use crate::registry::Registry;
use crate::select::{self, Nic};
use crate::startup::{Phase, Startup};
use crate::stats::{self, StatsFile};
use crate::trace::Tracing;
use crate::traffic::{Said, TrafficClass};
use efa_fabric::{InfoBuf, Library};
use ofi_sendrecv::TagSpace;
use std::sync::Arc;

/// One device.
#[derive(Debug)]
pub(crate) struct Device {
    index: usize,
    info: InfoBuf,
    properties: Properties,
    lesson: Arc<Lesson>,
    owners: Owners,
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
    pub(crate) tracing: Option<&'a Tracing>,
    /// The file of counters, if there is one.
    pub(crate) stats: Option<&'a Arc<StatsFile>>,
    /// The traffic class of its endpoint.
    pub(crate) class: Option<TrafficClass>,
    /// What was said of classes.
    pub(crate) said: &'a Said,
}

impl Device {
    /// One device a NIC, in the provider's order; all of them over again where the user wants NICs
    /// several times (protocol 2h.3).
    ///
    /// `open`: RDMA was looked for before.
    ///
    /// # Errors
    /// No provider fits; more devices than there can be domains.
    pub(crate) fn discover(
        (config, open): (&Config, bool),
        library: &'static Library,
        startup: &mut Startup,
        log: &dyn Log,
    ) -> Result<Vec<Self>, NetError> {
        let nics = select::discover_tagged((config, open), library, startup, log)?;
        let on_efa = nics.iter().all(|nic| nic.is_aws);
        let count = nics.len() * config.duplicates(on_efa);
        if count > DOMAINS_MAX {
            let what = format!("{count} devices, and there is room for {DOMAINS_MAX}");
            return Err(NetError::new(Code::Grouping, what));
        }
        let devices = (0..count).zip(nics.iter().cycle());
        startup.time(Phase::Devices, || {
            devices
                .map(|(index, nic)| Self::new(config, index, nic))
                .collect()
        })
    }

    fn new(config: &Config, index: usize, nic: &Nic) -> Result<Self, NetError> {
        let tags = TagSpace::of(nic.info.mem_tag_format())?;
        let Some(mut properties) = Properties::of(config, index, &[nic]) else {
            return Err(NetError::new(Code::Grouping, format!("device {index}")));
        };
        // Protocol 2a.4, SENDRECV.
        properties.reg_is_global = false;
        properties.device_memory = gpu::promised(&nic.info).is_ok();
        properties.rma_supported = false;
        properties.max_comms = tags.max().min(i32::MAX.unsigned_abs());
        properties.max_write_inline_bytes = nic.info.inject_size();
        Ok(Self {
            index,
            info: nic.info.dup()?,
            properties,
            lesson: Arc::default(),
            owners: Owners::new(index),
        })
    }

    /// A line for the log.
    pub(crate) fn describe(&self) -> String {
        let (name, speed) = (self.info.domain_name(), self.properties.speed_mbps);
        format!("device {}: {name}, {speed} Mb/s", self.index)
    }

    pub(crate) const fn info(&self) -> &InfoBuf {
        &self.info
    }

    /// What there is to say of it now.
    pub(crate) fn properties(&self) -> Properties {
        self.properties.as_of(&self.lesson)
    }

    /// What was found of it, without what it learned since.
    pub(crate) const fn found(&self) -> &Properties {
        &self.properties
    }

    /// An endpoint said that it does not reach memory of devices.
    pub(crate) fn lose_device_memory(&mut self) {
        self.properties.device_memory = false;
    }

    /// The domain that the calling thread listens and connects with, opened now if there is none.
    ///
    /// # Errors
    /// It could not be opened, or the transport has no room for more domains; nothing is left open, and
    /// the next call tries again.
    pub(crate) fn domain<'a>(&self, opening: &Opening<'a>) -> Result<&'a Seat, NetError> {
        let owner = Owner::of_call(opening.config);
        let open = |others, class| self.open(others, class, opening);
        let refused = |class, why: &NetError| {
            let label = self.label(0);
            opening.said.refused(&label, class, why, &**opening.log);
        };
        (self.owners).domain((owner, opening.class), opening.registry, open, refused)
    }

    /// Opens one more domain over the NIC, the first or one beside `others`.
    fn open(
        &self,
        others: usize,
        class: Option<TrafficClass>,
        opening: &Opening<'_>,
    ) -> Result<Domain, NetError> {
        let label = self.label(others);
        let mut info = self.info.dup()?;
        if let Some(class) = class {
            info.set_traffic_class(class.value());
        }
        let dmabufs = DmaBufs {
            lesson: Arc::clone(&self.lesson),
            label: label.clone(),
            log: Arc::clone(opening.log),
        };
        let watch = opening.registry.watch();
        let domain = Domain::open(&info, opening.config, (dmabufs, &watch))?;
        if let Some(class) = class {
            Said::granted(&label, class, &**opening.log);
            opening.registry.link();
        }
        if let Some(trace) = opening.tracing.and_then(Tracing::of_domain) {
            domain.trace_to(trace)?;
        }
        if let Some(file) = opening.stats {
            let open = stats::Open {
                device: self.index,
                number: others,
                nics: &[stats::nic_name(&self.info)],
            };
            domain.count_into(file, &open)?;
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
}
