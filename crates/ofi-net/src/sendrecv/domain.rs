//! What a device opens: one endpoint with its queue and address vector, and the engine over it, behind
//! a lock that is never waited for on the data path (decision 25).

use super::port::Port;
use super::progress::Core;
use crate::clock::{self, Deadline};
use crate::config::{Config, Protocol};
use crate::dmabuf::{self, DmaBufs};
use crate::domain_memory::Memory;
use crate::dump::{self, DomainFacts};
use crate::error::{Code, NetError};
use crate::gpu::Reach;
use crate::locked::Locked;
use crate::lost::Lost;
use crate::open::{not_opened, own_address, queue_refused};
use crate::pace::Pace;
use crate::pages::page_bytes;
use crate::peers::Peers;
use crate::progress::{BATCH_DEFAULT, BATCH_MAX};
use crate::quirks;
use crate::region::{Addressing, Registrar};
use crate::regions::Regions;
use crate::registry::{self, Seated};
use crate::slab::{FLUSH_PAGE, Slab};
use crate::stats::{self, Meter, SeenRails, StatsFile};
use crate::trace::Trace;
use crate::watch::Watch;
use crate::{contexts::Contexts, efa, gpu};
use core::mem;
use core::mem::ManuallyDrop;
use efa_fabric::{
    Access, Av, Caps, Cq, CqBind, Domain as FiDomain, Endpoint, Fabric, Info, MrMode, TaggedEntry,
};
use ofi_pools::{Freelist, FreelistConfig};
use ofi_rdma::EpName;
use ofi_sendrecv::limits::CONNECT_BUFFER_BYTES;
use ofi_sendrecv::{Engine, TagSpace};
use std::collections::HashMap;
use std::sync::Arc;

/// Connect messages at the provider before the pool of their slots grows, and by how many.
const SLOTS: u32 = 16;

/// Passes without a completion before the endpoint is closed.
const SETTLING_PASSES: u32 = 64;

/// The caller's memory is sent from and received into.
const MESSAGE_ACCESS: Access = Access::SEND.union(Access::RECV);

/// Messages are counted modulo this.
const SEQS: u32 = 1 << 16;

/// Names tried for an endpoint: shm says `FI_EBUSY` to that of a process that was killed.
const NAMES_MAX: usize = 16;

/// One domain with its number.
pub(crate) type Seat = registry::Seat<Domain>;

/// One domain.
pub(crate) type Domain = Locked<Core>;

impl Domain {
    /// Opens the endpoint and makes the engine; on failure everything opened is closed again. What the
    /// domain is called in the log, and its log, are those of `dmabufs`.
    ///
    /// # Errors
    /// The call that failed.
    pub(crate) fn open(
        info: &Info,
        config: &Config,
        (dmabufs, watch): (DmaBufs, &Arc<Watch>),
    ) -> Result<Self, NetError> {
        let (label, log) = (dmabufs.label.clone(), Arc::clone(&dmabufs.log));
        let opened = open_core(info, config, dmabufs);
        let (mut core, registrar) =
            opened.map_err(|error| not_opened(error).context(label.clone()))?;
        core.watch = Arc::clone(watch);
        // Flushes read it through our own address.
        let access = match core.reads {
            true => MESSAGE_ACCESS | Access::REMOTE_READ,
            false => MESSAGE_ACCESS,
        };
        let memory = Memory::new(registrar, access, config, info)?;
        Ok(Self::new(core, memory, &label, log))
    }

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

    /// What goes over it is written down from now on.
    pub(crate) fn trace_to(&self, trace: Box<Trace>) -> Result<(), NetError> {
        self.enter(|core| {
            core.port.trace_to(trace);
            Ok(())
        })
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

    /// Ends the domain: closes all communicators, gives their operations a moment, then closes the
    /// endpoint before the memory that it uses.
    fn shut_down(self, bound_ms: u64) {
        let (mut core, memory, says) = self.into_parts();
        drain_all(&mut core, bound_ms);
        says.notes(&mem::take(&mut core.port.notes));
        says.close(&core.engine.counters());
        let Core { port, cq, .. } = core;
        let Port {
            endpoint,
            peers,
            slots,
            regions,
            contexts,
            flush_page,
            ..
        } = port;
        match endpoint.close() {
            Ok(()) => drop((peers, slots, regions, contexts, flush_page, cq)),
            Err(failed) => {
                says.warn(NetError::fabric(Code::EndpointOpen, &failed.error));
                // The provider may still write there.
                let kept = (failed.object, slots, regions, contexts, flush_page);
                let _kept = ManuallyDrop::new((kept, peers, cq));
            }
        }
        // Regions that the caller left registered, then the fi_domain.
        drop(memory);
    }
}

impl Core {
    /// For a dump.
    fn state(&self) -> dump::Domain {
        let facts = DomainFacts {
            seq_modulus: SEQS,
            counters: self.engine.counters(),
            posts_waiting: self.engine.posts_waiting(),
            poison: self.poison.as_ref(),
            endpoints: vec![("data0".to_owned(), &self.port.peers)],
        };
        let views = self.engine.views(clock::now_ms());
        let views = views.chain(self.lost.views());
        let (comms, comms_omitted) = dump::comms(views, &self.port.peers.all_shown());
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

fn drain_all(core: &mut Core, bound_ms: u64) {
    let now_ms = clock::now_ms();
    let open: Vec<_> = core.open.drain().map(|(comm, _)| comm).collect();
    for comm in open {
        // An error says that it is closed already.
        let _closed = core.close_in_engine(comm, now_ms).is_ok();
    }
    core.drain();
    let deadline = Deadline::after(bound_ms);
    let mut quiet = 0;
    while (quiet < SETTLING_PASSES || core.engine.live_comms() > 0) && !deadline.is_over() {
        quiet = if core.progress() == 0 { quiet + 1 } else { 0 };
        if quiet > SETTLING_PASSES {
            std::thread::yield_now();
        }
    }
    core.publish();
}

struct Opened {
    fi_domain: FiDomain,
    cq: Cq<TaggedEntry>,
    endpoint: Endpoint,
    peers: Peers,
    own: efa_fabric::PeerAddr,
    name: EpName,
    device_memory: Reach,
}

fn open_core(
    info: &Info,
    config: &Config,
    dmabufs: DmaBufs,
) -> Result<(Core, Arc<Registrar>), NetError> {
    let fabric = Fabric::open(info)?;
    let fi_domain = FiDomain::open(&fabric, info)?;
    let depth = config.cq_entries;
    let cq = Cq::open_tagged(&fi_domain, depth).map_err(|error| queue_refused(error, depth))?;
    let opened = open_endpoint(fi_domain, cq, (info, config))?;
    let engine = Engine::new(ofi_sendrecv::Config {
        name: opened.name,
        tags: TagSpace::of(info.mem_tag_format())?,
        message_bytes_max: info.max_msg_size() as u64,
        connect_timeout_ms: config.connect_timeout_ms,
        stall_warn_ms: config.stall_warn_ms,
        stall_fail_ms: config.stall_fail_ms,
    });
    assemble(engine, (config, info), opened, dmabufs)
}

fn open_endpoint(
    fi_domain: FiDomain,
    cq: Cq<TaggedEntry>,
    (info, config): (&Info, &Config),
) -> Result<Opened, NetError> {
    let mut tries = 1;
    let (endpoint, av, device_memory) = loop {
        match try_endpoint(&fi_domain, &cq, (info, config)) {
            Err(error) if error.errno() == -libc::EBUSY && tries < NAMES_MAX => tries += 1,
            opened => break opened?,
        }
    };
    let (own, shape) = own_address(&endpoint, &av, info)?;
    Ok(Opened {
        fi_domain,
        cq,
        endpoint,
        peers: Peers::new(av, shape),
        own,
        name: shape.own,
        device_memory,
    })
}

fn try_endpoint(
    fi_domain: &FiDomain,
    cq: &Cq<TaggedEntry>,
    (info, config): (&Info, &Config),
) -> Result<(Endpoint, Av, Reach), NetError> {
    let mut setup = Endpoint::open(fi_domain, info)?;
    let av = Av::open(fi_domain)?;
    setup.bind_cq(cq, CqBind::TRANSMIT | CqBind::RECV)?;
    setup.bind_av(&av)?;
    efa::avoid_shared_memory(&setup, info)?;
    let answers = gpu::prepare(&setup, (info, config), Protocol::SendRecv);
    efa::require_memory(info, config, answers.memory)?;
    let enabled = setup.enable();
    let endpoint = enabled.map_err(|failed| NetError::from(failed.error))?;
    Ok((endpoint, av, answers.memory))
}

fn assemble(
    engine: Engine,
    (config, info): (&Config, &Info),
    opened: Opened,
    dmabufs: DmaBufs,
) -> Result<(Core, Arc<Registrar>), NetError> {
    let how = Addressing {
        virtual_addresses: info.uses_virtual_addresses(),
        provider_keys: info.provider_chooses_keys(),
        device_memory: opened.device_memory,
        dmabuf: dmabuf::usable(config, info),
        dmabufs,
        key_bytes: config.mr_key_size,
    };
    let binds_regions = opened.fi_domain.info().mr_mode().contains(MrMode::ENDPOINT);
    let registrar = Arc::new(Registrar::new(vec![opened.fi_domain], how)?);
    let internal = |what: String| NetError::new(Code::Internal, what);
    let slots = Freelist::new(FreelistConfig {
        entry_bytes: CONNECT_BUFFER_BYTES,
        align: 64,
        page: page_bytes(),
        first: SLOTS,
        grow: SLOTS,
        max: None,
    })
    .map_err(|error| internal(error.to_string()))?;
    let contexts = Contexts::new().map_err(|errno| {
        internal("no address space for operation contexts".to_owned()).with_errno(errno)
    })?;
    let flush_page = Slab::new(&registrar, page_bytes(), FLUSH_PAGE)?;
    let port = Port {
        endpoint: opened.endpoint,
        peers: opened.peers,
        own: opened.own,
        slots,
        regions: Regions::new(*flush_page.view()),
        contexts,
        flush_page,
        registrar: Arc::clone(&registrar),
        binds_regions,
        drops_rest: quirks::drops_rest_of_truncated(info),
        notes: Vec::new(),
        trace: None,
        seen: SeenRails::default(),
    };
    if let Some(endpoint) = port.binds_to() {
        port.flush_page.bind(endpoint)?;
    }
    let wanted = config.cq_read_count.unwrap_or(BATCH_DEFAULT);
    let core = Core {
        engine,
        port,
        cq: opened.cq,
        batch: vec![TaggedEntry::EMPTY; wanted.clamp(1, BATCH_MAX)].into_boxed_slice(),
        open: HashMap::new(),
        passes: 0,
        meter: None,
        pace: Pace::default(),
        watch: Arc::default(),
        lost: Lost::default(),
        reads: info.caps().contains(Caps::RMA),
        poison: None,
    };
    Ok((core, registrar))
}
