//! A domain: the opened rails of a device with one engine over them, behind one lock (decision 28).

use crate::clock;
use crate::config::Config;
use crate::contexts::Contexts;
use crate::dmabuf::{self, DmaBufs, Lesson};
use crate::domain_memory::Memory;
use crate::dump::{self, DomainFacts};
use crate::early::{self, Moves};
use crate::error::{Code, NetError};
use crate::locked::Locked;
use crate::log::Log;
use crate::lost::Lost;
use crate::open::{Opened, Rail, not_opened, open_rail};
use crate::pace::Pace;
use crate::pages::page_bytes;
use crate::progress::{BATCH_DEFAULT, BATCH_MAX, Core};
use crate::quirks;
use crate::rail::{LaneEnd, Port};
use crate::region::{Addressing, Registrar, USER_ACCESS};
use crate::regions::Regions;
use crate::registry::{self, Seated};
use crate::rx::{EAGER_BYTES_MIN, Limits, Receives};
use crate::slab::{FLUSH_PAGE, Slab};
use crate::stats::{self, Meter, SeenRails, StatsFile};
use crate::trace::{Tracing, host_name};
use crate::watch::Watch;
use core::mem;
use efa_fabric::{CqEntry, Info};
use ofi_pools::{Freelist, FreelistConfig};
use ofi_rdma::limits::{CONTROL_BUFFER_BYTES, MAX_RAILS};
use ofi_rdma::{Base, Dialect as _, Engine, EpName, HostName, KeyWidth, Lane};
use std::collections::HashMap;
use std::sync::Arc;

/// Control messages that can be at the provider before the pool of their slots grows, and by how
/// many it grows.
const SEND_SLOTS: u32 = 16;

/// Sequence numbers of messages that there are (protocol 2c.1).
const SEQS: u32 = 1 << Base::SEQ_BITS;

/// One domain with its number.
pub(crate) type Seat = registry::Seat<Domain>;

/// One domain.
pub(crate) type Domain = Locked<Core>;

/// What a domain is opened from.
#[derive(Debug)]
pub(crate) struct Plan<'a> {
    /// One entry a rail, in order.
    pub(crate) rails: &'a [&'a Info],
    /// The settings.
    pub(crate) config: &'a Config,
    /// What the device is called in the log.
    pub(crate) label: &'a str,
    /// Where what goes over its rails is written down.
    pub(crate) tracing: &'a Tracing,
    /// Who is told of stalls and errors.
    pub(crate) watch: &'a Arc<Watch>,
    /// What the device learned of dma-bufs.
    pub(crate) lesson: &'a Arc<Lesson>,
}

impl Domain {
    /// Opens every rail and makes the engine; on failure everything opened is closed again.
    ///
    /// # Errors
    /// The call that failed, with the rail.
    pub(crate) fn open(plan: &Plan<'_>, log: Arc<dyn Log>) -> Result<Self, NetError> {
        let Plan {
            rails,
            config,
            label,
            tracing,
            watch,
            lesson,
        } = *plan;
        let Some(&first) = rails.first() else {
            return Err(NetError::new(
                Code::Internal,
                format!("{label} has no rail"),
            ));
        };
        let mut opened = Vec::with_capacity(rails.len());
        for (rail, info) in rails.iter().enumerate() {
            let with_control = rail == 0 || config.rr_ctrl_msg;
            let rail_opened = open_rail(info, config, with_control);
            let failed = |error| not_opened(error).context(format!("{label} rail {rail}"));
            opened.push(rail_opened.map_err(failed)?);
        }
        let settings = engine_config(config, first, &opened)?;
        let engine = Engine::new(settings)?;
        let dmabufs = DmaBufs {
            lesson: Arc::clone(lesson),
            label: label.to_owned(),
            log: Arc::clone(&log),
        };
        let registrar = registrar((config, first), &opened, dmabufs)?;
        let mut core = assemble(engine, (config, first), opened, &registrar)?;
        core.watch = Arc::clone(watch);
        core.name_host(HostName::new(&host_name(&config.fs_root)));
        core.port.trace_to(tracing.of_domain());
        let memory = Memory::new(registrar, USER_ACCESS, config, first)?;
        Ok(Self::new(core, memory, label, log))
    }
}

impl Domain {
    /// What happens on it is written into `file` from now on.
    pub(crate) fn count_into(
        &self,
        file: &Arc<StatsFile>,
        open: &stats::Open<'_>,
    ) -> Result<(), NetError> {
        let meter = Meter::new(file, self.memory.counts(), open);
        self.enter(|core| {
            core.count_with(meter);
            Ok(())
        })
    }
}

impl Core {
    /// What peers of ours are told of this host, and what an error between two hosts calls it.
    fn name_host(&mut self, host: Option<HostName>) {
        self.engine.name_host(host);
        self.port.name_own_host(host);
    }
}

impl Seated for Domain {
    fn is_unused(&self) -> bool {
        Self::is_unused(self)
    }

    fn glance_at(&self) {
        let _progressed = self.glance(Core::progress);
    }

    fn state(&self) -> dump::Domain {
        Self::state(self, |core| core.state())
    }

    /// Ends the domain: see [`Core::shut_down`].
    fn shut_down(self, bound_ms: u64) {
        let (mut core, memory, says) = self.into_parts();
        core.drain_all(bound_ms);
        says.notes(&mem::take(&mut core.port.notes));
        says.close(&core.engine.counters());
        if let Err(error) = core.shut_down() {
            says.warn(error);
        }
        // Regions that the caller left registered, then the fi_domains.
        drop(memory);
    }
}

impl Core {
    /// For a dump.
    fn state(&self) -> dump::Domain {
        let endpoints = self.port.ends().map(|(lane, peers)| {
            let kind = if lane.is_control() { "ctl" } else { "data" };
            (format!("{kind}{}", lane.rail()), peers)
        });
        let facts = DomainFacts {
            seq_modulus: SEQS,
            counters: self.engine.counters(),
            posts_waiting: self.engine.posts_waiting(),
            poison: self.poison.as_ref(),
            endpoints: endpoints.collect(),
        };
        let control_0 = self.port.lane(Lane::control(0));
        let names = control_0.map(|end| end.peers.all_shown());
        let views = self.engine.views(clock::now_ms());
        let views = views.chain(self.lost.views());
        let (comms, comms_omitted) = dump::comms(views, &names.unwrap_or_default());
        let ends: Vec<_> = self.port.ends().collect();
        let trace = self.port.trace.as_ref();
        dump::Domain {
            comms,
            comms_omitted,
            trace: trace.and_then(|trace| trace.last(&ends)),
            ..facts.domain()
        }
    }
}

fn engine_config(
    config: &Config,
    info: &Info,
    rails: &[Rail],
) -> Result<ofi_rdma::Config, NetError> {
    let mut control_names = [EpName::EMPTY; MAX_RAILS];
    let mut data_names = [EpName::EMPTY; MAX_RAILS];
    for (rail, (control, data)) in rails
        .iter()
        .zip(control_names.iter_mut().zip(&mut data_names))
    {
        *data = rail.data.name;
        *control = rail
            .control
            .as_ref()
            .map_or(EpName::EMPTY, |opened| opened.name);
    }
    let control_rails = rails.iter().filter(|rail| rail.control.is_some()).count();
    let count = |rails: usize| {
        u8::try_from(rails).map_err(|_| NetError::new(Code::Grouping, format!("{rails} rails")))
    };
    let key_width = if info.mr_key_size() <= 4 {
        KeyWidth::Short
    } else {
        KeyWidth::Long
    };
    Ok(ofi_rdma::Config {
        data_rails: count(rails.len())?,
        control_rails: count(control_rails)?,
        control_names,
        data_names,
        key_width,
        lengths_told: !quirks::lengths_missing(info),
        cq_data_bytes: info.cq_data_size(),
        eager_max: eager_max(config, info),
        min_stripe_bytes: config.min_stripe_bytes,
        small_max_bytes: config.small_max_bytes,
        connect_timeout_ms: config.connect_timeout_ms,
        stall_warn_ms: config.stall_warn_ms,
        stall_fail_ms: config.stall_fail_ms,
        close_messages: config.close_messages,
        early_completion: early::decide(config, [Moves::of(info)])?,
    })
}

/// An eager message is one send: it is no longer than the provider's longest.
fn eager_max(config: &Config, info: &Info) -> Option<u32> {
    let longest = u32::try_from(info.max_msg_size()).unwrap_or(u32::MAX);
    config.eager_max.map(|wanted| wanted.min(longest))
}

fn registrar(
    (config, info): (&Config, &Info),
    rails: &[Rail],
    dmabufs: DmaBufs,
) -> Result<Arc<Registrar>, NetError> {
    let reach = rails.iter().map(|rail| rail.data.device_memory);
    let how = Addressing {
        virtual_addresses: info.uses_virtual_addresses(),
        provider_keys: info.provider_chooses_keys(),
        device_memory: reach.fold(Ok(()), Result::and),
        dmabuf: dmabuf::usable(config, info),
        dmabufs,
        key_bytes: config.mr_key_size,
    };
    let fi_domains = rails.iter().map(|rail| rail.fi_domain.clone()).collect();
    Ok(Arc::new(Registrar::new(fi_domains, how)?))
}

fn assemble(
    engine: Engine,
    (config, info): (&Config, &Info),
    rails: Vec<Rail>,
    registrar: &Arc<Registrar>,
) -> Result<Core, NetError> {
    let internal =
        |e: ofi_pools::freelist::ConfigError| NetError::new(Code::Internal, e.to_string());
    let (limits, page) = (limits(config, info, &engine), page_bytes());
    let receives = Receives::new(limits, page).map_err(|error| {
        let eager = limits.eager_bytes;
        let what = format!("OFI_NCCL_EAGER_MAX_SIZE: receive buffers of {eager} bytes: {error}");
        NetError::new(Code::Contradiction, what)
    })?;
    let sends = Freelist::new(FreelistConfig {
        entry_bytes: CONTROL_BUFFER_BYTES,
        align: 64,
        page,
        first: SEND_SLOTS,
        grow: SEND_SLOTS,
        max: None,
    })
    .map_err(internal)?;
    let contexts = Contexts::new().map_err(|errno| {
        NetError::new(Code::Internal, "no address space for operation contexts").with_errno(errno)
    })?;
    let flush_page = Slab::new(registrar, page, FLUSH_PAGE)?;
    let mut cqs = Vec::with_capacity(rails.len());
    let mut lanes = [const { None }; Lane::COUNT_MAX];
    for (index, rail) in (0..).zip(rails) {
        cqs.push(rail.cq);
        place(&mut lanes, Lane::data(index), Some(rail.data));
        place(&mut lanes, Lane::control(index), rail.control);
    }
    let regions = Regions::new(*flush_page.view());
    let port = Port {
        lanes,
        receives,
        sends,
        regions,
        contexts,
        flush_page,
        registrar: Arc::clone(registrar),
        notes: Vec::new(),
        trace: None,
        seen: SeenRails::default(),
    };
    let batch = config
        .cq_read_count
        .unwrap_or(BATCH_DEFAULT)
        .clamp(1, BATCH_MAX);
    Ok(Core {
        engine,
        port,
        cqs,
        batch: vec![CqEntry::EMPTY; batch].into_boxed_slice(),
        open: HashMap::new(),
        adopted: HashMap::new(),
        lengths_missing: quirks::lengths_missing(info),
        next_rail: 0,
        passes: 0,
        meter: None,
        pace: Pace::default(),
        watch: Arc::default(),
        lost: Lost::default(),
        is_bare_told: false,
        deaf: None,
        poison: None,
    })
}

fn place(lanes: &mut [Option<LaneEnd>; Lane::COUNT_MAX], lane: Lane, opened: Option<Opened>) {
    if let Some(slot) = lanes.get_mut(lane.index()) {
        *slot = opened.map(|opened| opened.end);
    }
}

fn limits(config: &Config, info: &Info, engine: &Engine) -> Limits {
    let narrow = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let settings = engine.config();
    let eager = settings.eager_max.map_or((0, 0), |_| config.posted_eager);
    let wanted = settings.eager_max.map_or(0, |bytes| bytes as usize);
    Limits {
        data_lanes: u32::from(settings.data_rails),
        control_lanes: u32::from(settings.control_rails),
        control_max: narrow(config.posted_control.1),
        eager_min: narrow(eager.0),
        eager_max: narrow(eager.1),
        eager_bytes: wanted.max(EAGER_BYTES_MIN),
        queue: narrow(info.rx_size()).max(1),
    }
}
