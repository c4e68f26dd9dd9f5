//! The configuration of a transport: typed, checked once, never read again from anywhere.
//!
//! Made from parameters ([`Config::from_values`]) or, by programs that embed the transport, from
//! [`Config::new`] and changed field by field.

use std::path::{Path, PathBuf};

use ofi_rdma::ConfigError;
use ofi_topo::Accelerators;

use crate::error::{Code, NetError};
use crate::pages::page_bytes;
use crate::params::{self, Flavour, Id, Note, Status, TABLE, Values};
use crate::platform::{self, Platform};
use crate::trace::{MIB, TraceConfig};

mod interfaces;

/// Completions of sends and writes that a queue has room for at least.
const CQ_SENDS: usize = 4096;

/// What two hosts speak with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Writes into the receiver's memory, over several NICs (docs/protocol.md 2 to 5).
    Rdma,
    /// Tagged messages over one NIC (docs/protocol.md 9).
    SendRecv,
}

impl core::fmt::Display for Protocol {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Rdma => "RDMA",
            Self::SendRecv => "SENDRECV",
        })
    }
}

/// Where state dumps go, and who they are of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DumpConfig {
    /// The directory, best one that all hosts share: a rank that hangs then asks all the others
    /// (`DUMP_DIR`).
    pub dir: PathBuf,
    /// Rank of this process in its job, where its launcher says so.
    pub rank: Option<u32>,
    /// Ranks of the job.
    pub world: Option<u32>,
}

/// Settings of one [`crate::Transport`]. Names in brackets are the parameters they come from.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Whose defaults these are.
    pub flavour: Flavour,
    /// The protocol to speak; `None`: chosen by instance type and NICs (`PROTOCOL`).
    pub protocol: Option<Protocol>,
    /// SENDRECV: show each NIC so many times; 0 is as the instance type needs, else once
    /// (`NIC_DUP_CONNS`).
    pub nic_dup_conns: usize,
    /// libfabric.so.1 to load instead of the system's, or its directory (`LIBFABRIC_PATH`).
    pub libfabric_path: Option<PathBuf>,
    /// Value of `FI_PROVIDER`, libfabric's own filter, which lets nothing in where it is empty; `None` when unset.
    pub fi_provider: Option<String>,
    /// Value of `FI_EFA_IFACE`, libfabric's own list of EFAs, for what is said of missing NICs; `None`: all of them.
    pub efa_iface: Option<String>,
    /// IP interfaces not to use (`EXCLUDE_TCP_IF`).
    pub exclude_tcp_if: Vec<String>,
    /// Use IP interfaces by their IPv6 address too (`USE_IPV6_TCP`).
    pub use_ipv6_tcp: bool,
    /// Refuse the EFA provider of libfabric before 1.22 (`DISABLE_EFA_VERSION_CHECK` turns it off).
    pub efa_version_check: bool,
    /// Low-latency traffic class for control endpoints (`USE_LOW_LATENCY_TC`).
    pub low_latency_tc: bool,
    /// Devices made by hand (`NIC_GROUPS`): `eth0,eth1;eth2,eth3`.
    pub nic_groups: Option<String>,
    /// Accelerators that NICs are grouped by, where devices are not made by hand (`GROUP_BY`).
    pub group_by: Accelerators,
    /// Rails of each device, 1..=4; `None`: as found (`FORCE_NUM_RAILS`).
    pub force_num_rails: Option<u8>,
    /// A control endpoint on each rail (`RR_CTRL_MSG`).
    pub rr_ctrl_msg: bool,
    /// Largest eager message, bytes; `None`: no eager messages (`EAGER_MAX_SIZE`).
    pub eager_max: Option<u32>,
    /// Bytes a stripe (`MIN_STRIPE_SIZE`).
    pub min_stripe_bytes: u64,
    /// Messages below use the small round robin (`SCHED_MAX_SMALL_RR_SIZE`).
    pub small_max_bytes: u64,
    /// Send CLOSE when a receive communicator closes (`DISABLE_CLOSE_MESSAGE=0`).
    pub close_messages: bool,
    /// Complete a receive that says it is optional before its data is here; `None`: where possible
    /// (`EARLY_COMPLETION`).
    pub early_completion: Option<bool>,
    /// Bound of connect and of v4 accept, milliseconds (`CONNECT_TIMEOUT`).
    pub connect_timeout_ms: u64,
    /// Report a stall after so many milliseconds (`STALL_WARN`).
    pub stall_warn_ms: Option<u64>,
    /// Fail a stalled communicator after so many milliseconds (`STALL_FAIL`).
    pub stall_fail_ms: Option<u64>,
    /// Entries of the completion queue of a rail, or more where its receives need them (`CQ_SIZE`).
    pub cq_entries: usize,
    /// Completions taken at a time, as the user asked; `None`: ours to choose (`CQ_READ_COUNT`).
    pub cq_read_count: Option<usize>,
    /// Eager receive buffers of a device: refill below `.0`, post up to `.1`
    /// (`RDMA_{MIN,MAX}_POSTED_EAGER_BUFFERS`).
    pub posted_eager: (usize, usize),
    /// Control receive buffers of a device: refill below `.0`, post at most `.1`
    /// (`RDMA_{MIN,MAX}_POSTED_CONTROL_BUFFERS`).
    pub posted_control: (usize, usize),
    /// Bytes of the keys that we choose where the provider does not, 1..=4 (`MR_KEY_SIZE`).
    pub mr_key_size: u8,
    /// A domain for each thread that listens or connects; `None`: as the platform needs
    /// (`DOMAIN_PER_THREAD`).
    pub domain_per_thread: Option<bool>,
    /// Receive communicators of one peer are on endpoints of their own (`ENDPOINT_PER_COMM`).
    pub endpoint_per_comm: bool,
    /// Instance type, instead of what the firmware says (`FORCE_PRODUCT_NAME`).
    pub product_name: Option<String>,
    /// Keep registrations of equal ranges (`MR_CACHE_DISABLE=0`).
    pub mr_cache: bool,
    /// Memory may be registered by dma-buf (`DISABLE_DMABUF=0`).
    pub dmabuf: bool,
    /// Use EFA only where it writes natively (`DISABLE_NATIVE_RDMA_CHECK` turns it off).
    pub native_rdma_check: bool,
    /// Use EFA only with device memory where the instance type has it (`DISABLE_GDR_REQUIRED_CHECK`
    /// turns it off).
    pub gdr_required_check: bool,
    /// iflush reads back (`GDR_FLUSH_DISABLE=0`); off: it gives no request.
    pub flush: bool,
    /// Latency to report, microseconds; `None`: the platform's (`NET_LATENCY`).
    pub net_latency_us: Option<u16>,
    /// Take the addressing that the provider offers first, instead of asking it for virtual addresses:
    /// offsets and our own keys on TCP. A matter of tests; no parameter sets it.
    pub provider_addressing: bool,
    /// Write a wire trace (`TRACE_FILE`, `TRACE_MAX`).
    pub trace: Option<TraceConfig>,
    /// Records of what went over the rails of each domain that state dumps have, the last ones; 0: none
    /// (`TRACE_RING`).
    pub trace_ring: usize,
    /// Directory for a file of counters (`STATS_DIR`).
    pub stats_dir: Option<String>,
    /// Write state dumps (`DUMP_DIR`).
    pub dump: Option<DumpConfig>,
    /// Bytes of a page of memory; `None`: the system's. A matter of tests; no parameter sets it.
    pub page_bytes: Option<usize>,
    /// What stands for `/` where facts about the host are read, `sys/` and `proc/` (`FS_ROOT`).
    pub fs_root: PathBuf,
}

impl Config {
    /// The defaults of `flavour`.
    #[must_use]
    pub fn new(flavour: Flavour) -> Self {
        Self::build(&Values::defaults(flavour), &mut Vec::new())
    }

    /// What the parameters say. Notes are things to tell the user that stop nothing.
    ///
    /// # Errors
    /// A withdrawn parameter is set, or parameters contradict each other.
    pub fn from_values(values: &Values, notes: &mut Vec<Note>) -> Result<Self, NetError> {
        refuse_withdrawn(values)?;
        let config = Self::build(values, notes);
        if config.cq_depth() > config.cq_entries {
            let (asked, depth) = (config.cq_entries, config.cq_depth());
            notes.push(Note::Info(format!(
                "OFI_NCCL_CQ_SIZE is {asked}: {depth} are used, for the receives that a rail can have \
                 posted (OFI_NCCL_RDMA_MAX_POSTED_*) and {CQ_SENDS} sends"
            )));
        }
        if config.trace_ring > 0 && config.dump.is_none() {
            let why = "only state dumps show what it keeps";
            notes.push(Note::Info(format!(
                "OFI_NCCL_TRACE_RING has no effect without OFI_NCCL_DUMP_DIR: {why}"
            )));
        }
        config.check()?;
        Ok(config)
    }

    /// Checks the relations between settings that do not depend on the devices found.
    ///
    /// # Errors
    /// [`Code::Contradiction`]: eager messages longer than a stripe (protocol 2g.6); domains for
    /// threads and for communicators at once (protocol 2d.1).
    pub fn check(&self) -> Result<(), NetError> {
        if self.endpoint_per_comm && self.is_domain_per_thread() {
            let what = "OFI_NCCL_ENDPOINT_PER_COMM=1 with a domain for each thread \
                        (OFI_NCCL_DOMAIN_PER_THREAD above 0, or -1 on an instance that has one): \
                        set one of the two to 0";
            return Err(NetError::new(Code::Contradiction, what));
        }
        match self.eager_max {
            // SENDRECV has neither.
            _ if self.protocol == Some(Protocol::SendRecv) => Ok(()),
            Some(eager) if u64::from(eager) > self.min_stripe_bytes => {
                let stripe = self.min_stripe_bytes;
                Err(ConfigError::EagerAboveStripe { eager, stripe }.into())
            }
            _ => Ok(()),
        }
    }

    /// Fills in what depends on the machine: its product name, and whether each thread has a domain of
    /// its own, which is for the Neuron plugin on Neuron instances alone (protocol 2h.5).
    pub(crate) fn settle_platform(&mut self) {
        if self.product_name.is_none() {
            self.product_name = Some(platform::product_name(&self.fs_root));
        }
        let needed = self.flavour == Flavour::Neuron
            && self
                .platform()
                .is_some_and(|platform| platform.domain_per_thread);
        self.domain_per_thread.get_or_insert(needed);
    }

    /// Bytes of a page.
    pub(crate) fn page(&self) -> usize {
        self.page_bytes.unwrap_or_else(page_bytes)
    }

    /// Entries of a completion queue: as asked, and no fewer than the receives that can be posted on its
    /// rail and some sends need. A queue that overruns loses completions for good (trap 34, `fi_cq(3)`).
    #[must_use]
    pub fn cq_depth(&self) -> usize {
        let eager = self.eager_max.map_or(0, |_| self.posted_eager.1);
        let floor = self.posted_control.1 + eager + CQ_SENDS;
        self.cq_entries.max(floor)
    }

    /// What is known of the instance type.
    pub(crate) fn platform(&self) -> Option<&'static Platform> {
        platform::find(self.product_name.as_deref()?)
    }

    /// How often SENDRECV shows each NIC. `on_efa`: the NICs are those that the instance type is about.
    pub(crate) fn duplicates(&self, on_efa: bool) -> usize {
        let platform = self.platform().filter(|_| on_efa);
        let wanted = match (self.nic_dup_conns, platform, self.flavour) {
            (0, Some(platform), Flavour::Nccl) => platform.duplicates,
            (asked, ..) => asked,
        };
        wanted.max(1)
    }

    /// A line for the log, of an instance type that a row of the table has, and of one that was `forced` and none
    /// has: a name that somebody mistyped.
    pub(crate) fn describe_platform(&self, forced: bool) -> Option<String> {
        let product = self.product_name.as_deref().unwrap_or_default();
        let Some(platform) = self.platform() else {
            let is_named = forced && !product.is_empty();
            let product = params::shorten(product);
            let line = format!(
                "instance type {product} (OFI_NCCL_FORCE_PRODUCT_NAME): in no row of the table, so what is \
                 measured holds"
            );
            return is_named.then_some(line);
        };
        let each = if self.is_domain_per_thread() {
            "thread"
        } else {
            "process"
        };
        Some(format!(
            "instance type {product:?}, known as {}: latency {} us, a domain for each {each}",
            platform.family, platform.latency_us
        ))
    }

    /// Whether each thread has a domain of its own.
    pub(crate) fn is_domain_per_thread(&self) -> bool {
        self.domain_per_thread.unwrap_or(false)
    }

    fn build(values: &Values, notes: &mut Vec<Note>) -> Self {
        let seconds = |id| non_negative(values, id) * 1000;
        let optional_seconds = |id| Some(seconds(id)).filter(|&ms| ms > 0);
        Self {
            flavour: values.flavour(),
            protocol: match values.text(Id::Protocol) {
                Some("SENDRECV") => Some(Protocol::SendRecv),
                Some("RDMA") => Some(Protocol::Rdma),
                _ => None,
            },
            nic_dup_conns: count(values, Id::NicDupConns),
            libfabric_path: non_empty(values, Id::LibfabricPath).map(PathBuf::from),
            fi_provider: values.text(Id::FiProvider).map(str::to_owned),
            efa_iface: non_empty(values, Id::FiEfaIface).filter(|list| list != "all"),
            exclude_tcp_if: interfaces::excluded(values, notes),
            use_ipv6_tcp: values.flag(Id::UseIpv6Tcp),
            efa_version_check: !values.flag(Id::DisableEfaVersionCheck),
            low_latency_tc: values.flag(Id::UseLowLatencyTc),
            nic_groups: non_empty(values, Id::NicGroups),
            group_by: match values.text(Id::GroupBy) {
                Some("AMD") => Accelerators::AMD,
                Some("NEURON") => Accelerators::NEURON,
                Some("ANY") => Accelerators::ANY,
                Some("NONE") => Accelerators::NONE,
                _ => Accelerators::NVIDIA,
            },
            force_num_rails: u8::try_from(values.number(Id::ForceNumRails))
                .ok()
                .filter(|&k| k > 0),
            rr_ctrl_msg: values.flag(Id::RrCtrlMsg),
            // Negative is off.
            eager_max: u32::try_from(values.number(Id::EagerMaxSize)).ok(),
            min_stripe_bytes: non_negative(values, Id::MinStripeSize),
            small_max_bytes: non_negative(values, Id::SchedMaxSmallRrSize),
            close_messages: values.number(Id::DisableCloseMessage) == 0,
            early_completion: match values.number(Id::EarlyCompletion) {
                0 => Some(false),
                1 => Some(true),
                _ => None,
            },
            connect_timeout_ms: seconds(Id::ConnectTimeout),
            stall_warn_ms: optional_seconds(Id::StallWarn),
            stall_fail_ms: optional_seconds(Id::StallFail),
            cq_entries: count(values, Id::CqSize),
            cq_read_count: values
                .is_set(Id::CqReadCount)
                .then(|| count(values, Id::CqReadCount)),
            posted_eager: posted(values, notes, Id::MinPostedEager, Id::MaxPostedEager),
            posted_control: posted(values, notes, Id::MinPostedControl, Id::MaxPostedControl),
            mr_key_size: u8::try_from(values.number(Id::MrKeySize)).unwrap_or(2),
            domain_per_thread: u32::try_from(values.number(Id::DomainPerThread))
                .ok()
                .map(|threads| threads > 0),
            endpoint_per_comm: values.flag(Id::EndpointPerComm),
            product_name: non_empty(values, Id::ForceProductName)
                .map(|name| name.trim().to_owned()),
            mr_cache: !values.flag(Id::MrCacheDisable),
            dmabuf: !values.flag(Id::DisableDmabuf),
            native_rdma_check: !values.flag(Id::DisableNativeRdmaCheck),
            gdr_required_check: !values.flag(Id::DisableGdrRequiredCheck),
            flush: !values.flag(Id::GdrFlushDisable),
            net_latency_us: u16::try_from(values.number(Id::NetLatency)).ok(),
            provider_addressing: false,
            trace: trace(values),
            trace_ring: count(values, Id::TraceRing),
            stats_dir: non_empty(values, Id::StatsDir),
            dump: dump(values),
            page_bytes: None,
            fs_root: non_empty(values, Id::FsRoot)
                .map_or_else(|| Path::new("/").to_owned(), PathBuf::from),
        }
    }
}

fn dump(values: &Values) -> Option<DumpConfig> {
    Some(DumpConfig {
        dir: PathBuf::from(non_empty(values, Id::DumpDir)?),
        rank: None,
        world: None,
    })
}

fn trace(values: &Values) -> Option<TraceConfig> {
    Some(TraceConfig {
        file: non_empty(values, Id::TraceFile)?,
        bytes_max: MIB * non_negative(values, Id::TraceMax),
    })
}

/// The range of the parameter starts at 0 or above.
fn non_negative(values: &Values, id: Id) -> u64 {
    u64::try_from(values.number(id)).unwrap_or(0)
}

fn count(values: &Values, id: Id) -> usize {
    usize::try_from(values.number(id)).unwrap_or(0)
}

fn non_empty(values: &Values, id: Id) -> Option<String> {
    values
        .text(id)
        .filter(|text| !text.trim().is_empty())
        .map(str::to_owned)
}

fn split_list(list: &str) -> Vec<String> {
    list.split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

/// The pair (refill below, post up to); a minimum above the maximum is told and lowered to it.
fn posted(values: &Values, notes: &mut Vec<Note>, min: Id, max: Id) -> (usize, usize) {
    let (low, high) = (count(values, min), count(values, max));
    if low <= high {
        return (low, high);
    }
    let (min, max) = (min.param().name, max.param().name);
    // Raising one default above the other is not a contradiction of the user's.
    if values.is_set(Id::MinPostedEager) || values.is_set(Id::MinPostedControl) {
        let text = format!("{min} is {low}, above {max}, {high}; using {high} for both");
        notes.push(Note::coded(Code::PostedBounds, text));
    }
    (high, high)
}

fn refuse_withdrawn(values: &Values) -> Result<(), NetError> {
    for param in TABLE
        .iter()
        .filter(|param| param.status == Status::Withdrawn)
    {
        let value = values.number(param.id);
        if value != param.default_number(values.flavour()) {
            let what = format!("{}={value}: {}", param.name, param.meaning);
            return Err(NetError::new(Code::DeprecatedParameter, what));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
