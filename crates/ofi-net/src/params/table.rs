//! The table. One row a parameter, in the order of [`Id`].

use super::Flavour;

/// What a parameter takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// 0 or 1, false or true.
    Flag,
    /// A whole number of a range.
    Number {
        /// Smallest value taken.
        min: i64,
        /// Largest value taken.
        max: i64,
    },
    /// Any text, also an empty one.
    Text,
    /// One of some words, in any case.
    Choice(&'static [&'static str]),
}

/// What this version does with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It has its meaning.
    Honoured,
    /// It is parsed and never has an effect here; the text says why.
    NoEffect(&'static str),
    /// Any value but the default fails init, as in the reference.
    Withdrawn,
}

/// One row.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// Its place.
    pub id: Id,
    /// Name of the environment variable.
    pub name: &'static str,
    /// Another name that is taken too.
    pub alias: Option<&'static str>,
    /// What it takes.
    pub kind: Kind,
    /// What this version does with it.
    pub status: Status,
    /// What it means, with the unit.
    pub meaning: &'static str,
    number: i64,
    neuron: Option<i64>,
    text: Option<&'static str>,
}

impl Param {
    /// The default of a flag or number; 0 for texts.
    #[must_use]
    pub fn default_number(&self, flavour: Flavour) -> i64 {
        match (flavour, self.neuron) {
            (Flavour::Neuron, Some(number)) => number,
            _ => self.number,
        }
    }

    /// The default of a text or choice; `None`: unset.
    #[must_use]
    pub const fn default_text(&self) -> Option<&'static str> {
        self.text
    }

    /// The default as text, for messages.
    #[must_use]
    pub fn default_display(&self, flavour: Flavour) -> String {
        match (self.kind, self.text) {
            (Kind::Flag | Kind::Number { .. }, _) => self.default_number(flavour).to_string(),
            (_, Some(text)) => format!("\"{text}\""),
            (_, None) => "unset".to_owned(),
        }
    }

    const fn neuron(mut self, number: i64) -> Self {
        self.neuron = Some(number);
        self
    }

    const fn alias(mut self, name: &'static str) -> Self {
        self.alias = Some(name);
        self
    }

    const fn is(mut self, status: Status) -> Self {
        self.status = status;
        self
    }

    const fn row(name: &'static str, kind: Kind, meaning: &'static str) -> Self {
        let (alias, status) = (None, Status::Honoured);
        let id = Id::FIRST; // the table puts the right one
        Self {
            id,
            name,
            alias,
            kind,
            status,
            meaning,
            number: 0,
            neuron: None,
            text: None,
        }
    }
}

const fn flag(name: &'static str, default: bool, meaning: &'static str) -> Param {
    let row = Param::row(name, Kind::Flag, meaning);
    Param {
        number: if default { 1 } else { 0 },
        ..row
    }
}

const fn number(
    name: &'static str,
    default: i64,
    (min, max): (i64, i64),
    meaning: &'static str,
) -> Param {
    Param {
        number: default,
        ..Param::row(name, Kind::Number { min, max }, meaning)
    }
}

const fn text(name: &'static str, default: Option<&'static str>, meaning: &'static str) -> Param {
    Param {
        text: default,
        ..Param::row(name, Kind::Text, meaning)
    }
}

const fn choice(
    name: &'static str,
    words: &'static [&'static str],
    default: Option<&'static str>,
    meaning: &'static str,
) -> Param {
    Param {
        text: default,
        ..Param::row(name, Kind::Choice(words), meaning)
    }
}

const TUNER: Status = Status::NoEffect("there is no tuner here");
const LATER: Status = Status::NoEffect("it belongs to a later generation of the plugin");
const NO_MUTEX: Status = Status::NoEffect("there are no pthread mutexes to check");
const NO_CUDA: Status = Status::NoEffect("flushes are local reads, never CUDA calls");

/// What fits the `int` of the plugin tables.
const INT: i64 = i32::MAX as i64;
const DAY_S: i64 = 86_400;

macro_rules! table {
    ($($id:ident = $row:expr;)*) => {
        /// Names the rows.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[expect(missing_docs, reason = "each row of the table says what it means")]
        pub enum Id {
            $($id,)*
        }

        /// Every parameter. Order and defaults are those of protocol 2i, ours follow.
        pub static TABLE: &[Param] = &[$(Param { id: Id::$id, ..$row }),*];
    };
}

impl Id {
    const FIRST: Self = Self::UseIpv6Tcp;

    /// Its place in the table.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Its row.
    #[must_use]
    pub fn param(self) -> &'static Param {
        // The table has one row an id, in order: `every_row_is_in_its_place`.
        TABLE.get(self.index()).unwrap_or(&TABLE[0])
    }
}

/// The row of an environment variable, by its name or its alias.
pub(super) fn find(name: &str) -> Option<&'static Param> {
    TABLE
        .iter()
        .find(|param| param.name == name || param.alias == Some(name))
}

table! {
    UseIpv6Tcp = flag("OFI_NCCL_USE_IPV6_TCP", false, "use IP interfaces by their IPv6 address too");
    ExcludeTcpIf = text("OFI_NCCL_EXCLUDE_TCP_IF", Some("lo,docker0"), "IP interfaces not to use, by exact name, separated by commas; empty: none");
    GdrFlushDisable = flag("OFI_NCCL_GDR_FLUSH_DISABLE", false, "iflush does nothing");
    NicDupConns = number("OFI_NCCL_NIC_DUP_CONNS", 0, (0, 64), "SENDRECV: show each NIC so many times; 0: as the instance type needs (4 on p3dn.24xlarge in libnccl-net-ofi.so), else once");
    CudaFlushEnable = flag("OFI_NCCL_CUDA_FLUSH_ENABLE", false, "flush with a CUDA call").is(NO_CUDA);
    MrKeySize = number("OFI_NCCL_MR_KEY_SIZE", 2, (1, 4), "bytes of the memory keys that we choose where the provider does not; 2^(8n) keys at most");
    MrCacheDisable = flag("OFI_NCCL_MR_CACHE_DISABLE", false, "register a buffer anew each time").neuron(1);
    CqReadCount = number("OFI_NCCL_CQ_READ_COUNT", 4, (1, 256), "completions taken from a queue at a time");
    CqSize = number("OFI_NCCL_CQ_SIZE", 12_288, (1, INT), "depth of the completion queue of a rail; more are used where its posted receives need them");
    Protocol = choice("OFI_NCCL_PROTOCOL", &["SENDRECV", "RDMA"], None, "the protocol; must match the peer's; unset: SENDRECV for the v4 table, else that of the instance type on EFA, else RDMA where a device has several rails and SENDRECV where it has one");
    DomainPerThread = number("OFI_NCCL_DOMAIN_PER_THREAD", -1, (-1, INT), "-1: as the platform needs (one a thread on trn and inf in libnccom-net.so); 0: one domain a process; more: one a thread");
    DisableNativeRdmaCheck = flag("OFI_NCCL_DISABLE_NATIVE_RDMA_CHECK", false, "use EFA also where it emulates writes");
    DisableGdrRequiredCheck = flag("OFI_NCCL_DISABLE_GDR_REQUIRED_CHECK", false, "use EFA also without device memory where the instance type has it");
    DisableDmabuf = flag("OFI_NCCL_DISABLE_DMABUF", false, "never use dma-buf");
    MinStripeSize = number("OFI_NCCL_MIN_STRIPE_SIZE", 65_536, (1, INT), "bytes a stripe: longer messages use more rails");
    SchedMaxSmallRrSize = number("OFI_NCCL_SCHED_MAX_SMALL_RR_SIZE", 64, (0, INT), "messages of fewer bytes take rails in turn by a counter of their own").alias("OFI_NCCL_SCHED_MAX_SMALL_MSG_SIZE");
    MinPostedBounce = number("OFI_NCCL_RDMA_MIN_POSTED_BOUNCE_BUFFERS", -1, (-1, INT), "withdrawn: set OFI_NCCL_RDMA_MIN_POSTED_EAGER_BUFFERS and OFI_NCCL_RDMA_MIN_POSTED_CONTROL_BUFFERS").is(Status::Withdrawn);
    MaxPostedBounce = number("OFI_NCCL_RDMA_MAX_POSTED_BOUNCE_BUFFERS", -1, (-1, INT), "withdrawn: set OFI_NCCL_RDMA_MAX_POSTED_EAGER_BUFFERS and OFI_NCCL_RDMA_MAX_POSTED_CONTROL_BUFFERS").is(Status::Withdrawn);
    MinPostedEager = number("OFI_NCCL_RDMA_MIN_POSTED_EAGER_BUFFERS", 64, (1, 65_536), "eager receive buffers of a device below which it posts more");
    MaxPostedEager = number("OFI_NCCL_RDMA_MAX_POSTED_EAGER_BUFFERS", 128, (1, 65_536), "eager receive buffers that a device posts");
    MinPostedControl = number("OFI_NCCL_RDMA_MIN_POSTED_CONTROL_BUFFERS", 1920, (1, 65_536), "control receive buffers of a device below which it posts more");
    MaxPostedControl = number("OFI_NCCL_RDMA_MAX_POSTED_CONTROL_BUFFERS", 2048, (1, 65_536), "control receive buffers that a device posts at most");
    RrCtrlMsg = flag("OFI_NCCL_RR_CTRL_MSG", true, "a control endpoint on each rail, used in turn; must match the peer's");
    NetLatency = number("OFI_NCCL_NET_LATENCY", -1, (-1, 65_535), "latency to report, microseconds; -1: the platform's");
    EagerMaxSize = number("OFI_NCCL_EAGER_MAX_SIZE", 8192, (-1, 1 << 30), "messages of so many bytes may go eagerly; 0: empty ones only; -1: none; at most OFI_NCCL_MIN_STRIPE_SIZE, and alike on all ranks");
    ErrorcheckMutex = flag("OFI_NCCL_ERRORCHECK_MUTEX", false, "mutexes that find misuse").is(NO_MUTEX);
    EndpointPerComm = flag("OFI_NCCL_ENDPOINT_PER_COMM", false, "receive communicators of one peer are on endpoints of their own; not with a domain a thread");
    AbortOnError = flag("OFI_NCCL_ABORT_ON_ERROR", false, "abort the process at the first error that a call returns");
    TunerType = choice("OFI_NCCL_TUNER_TYPE", &["INTERNAL", "REGION", "MODEL"], None, "which tuner").is(TUNER);
    TunerNumChannels = number("OFI_NCCL_TUNER_NUM_CHANNELS", 8, (1, INT), "channels the tuner assumes").is(TUNER);
    TunerNetLatency = number("OFI_NCCL_TUNER_NET_LATENCY", 20, (0, INT), "latency the tuner assumes, microseconds").is(TUNER);
    TunerNetCompOverhead = number("OFI_NCCL_TUNER_NET_COMP_OVERHEAD", 3, (0, INT), "completion cost the tuner assumes, microseconds").is(TUNER);
    UseLowLatencyTc = flag("OFI_NCCL_USE_LOW_LATENCY_TC", true, "low-latency traffic class for control endpoints");
    ForceNumRails = number("OFI_NCCL_FORCE_NUM_RAILS", 0, (0, 4), "rails of each device; 0: as found; NICs without a PCI place and of one speed are joined to devices of so many, others are repeated; must match the peer's");
    EarlyCompletion = number("OFI_NCCL_EARLY_COMPLETION", -1, (-1, 1), "complete a receive that the caller does not wait for before its data: -1 where possible (needs OFI_NCCL_EAGER_MAX_SIZE=-1 on all ranks and a provider with automatic progress; TCP only says that it has it), 0 never, 1 always or fail");
    DisableCloseMessage = number("OFI_NCCL_DISABLE_CLOSE_MESSAGE", 1, (0, 1), "1: close without telling the peer; 0 for jobs with v1.15.0 senders, which wait for it");
    ForceProductName = text("OFI_NCCL_FORCE_PRODUCT_NAME", None, "instance type, instead of what the firmware says");
    SkipNicsWithoutAccel = flag("OFI_NCCL_SKIP_NICS_WITHOUT_ACCEL_AT_SAME_PCI_LEVEL", false, "pass over NICs that have no accelerator near them").is(LATER);
    CmNumRxBuffers = number("OFI_NCCL_CM_NUM_RX_BUFFERS", 32, (1, INT), "receive buffers of the connection endpoint").is(LATER);
    ProgressModel = choice("OFI_NCCL_PROGRESS_MODEL", &["UNSPEC", "AUTO", "MANUAL"], None, "progress model to ask for").is(LATER);
    Platform = text("OFI_NCCL_PLATFORM", None, "platform, instead of what is found").is(LATER);
    GinCqProcessMaxIter = number("OFI_NCCL_GIN_CQ_PROCESS_MAX_ITER", 4, (1, INT), "progress passes of device-initiated traffic").is(LATER);
    NvtxTraceDimension = text("OFI_NCCL_NVTX_TRACE_DIMENSION", None, "what traces are grouped by").is(LATER);
    GdakiEfaHwCounter = text("OFI_NCCL_GDAKI_EFA_HW_COUNTER", None, "hardware counters of device-initiated traffic").is(LATER);
    FiProvider = text("FI_PROVIDER", None, "libfabric's own filter of providers; where it is unset EFA is preferred, and on a host for EFA nothing else is taken");
    FiEfaIface = text("FI_EFA_IFACE", None, "libfabric's own list of EFAs to use, with commas, or all; what it leaves out is no NIC here, and the warnings of missing NICs name it");
    ConnectTimeout = number("OFI_NCCL_CONNECT_TIMEOUT", 120, (1, DAY_S), "bound of connect and of v4 accept, seconds");
    StallWarn = number("OFI_NCCL_STALL_WARN", 60, (0, DAY_S), "report a communicator with requests and no progress after so many seconds; 0: never");
    StallFail = number("OFI_NCCL_STALL_FAIL", 0, (0, DAY_S), "fail a communicator with requests and no progress after so many seconds; 0: never");
    TraceFile = text("OFI_NCCL_TRACE_FILE", None, "write a wire trace here, for `ofi trace`; %p is the process id (appended if it is not there), %h the host; a name that is taken gets .1, .2 and so on; unset or empty: none");
    TraceMax = number("OFI_NCCL_TRACE_MAX", 1024, (1, 1 << 20), "MiB that a wire trace takes at most");
    TraceRing = number("OFI_NCCL_TRACE_RING", 0, (0, 4096), "records of what went over the rails of each domain, the last ones, that state dumps have (OFI_NCCL_DUMP_DIR), for `ofi trace`; 0: none");
    StatsDir = text("OFI_NCCL_STATS_DIR", None, "directory for a file of counters of this process, for `ofi top` and `ofi stats`, made if it is not there; unset, empty or not writable: none");
    DumpDir = text("OFI_NCCL_DUMP_DIR", None, "directory for state dumps, for `ofi dump` (docs/hangs.md): written when something stalls, at the first error, and when the file `trigger` in it changes; best one that all hosts share; unset or empty: none");
    LibfabricPath = text("OFI_NCCL_LIBFABRIC_PATH", None, "the libfabric.so.1 to load, or the directory that holds it").alias("OFI_LIBFABRIC_PATH");
    NicGroups = text("OFI_NCCL_NIC_GROUPS", None, "devices made by hand: NICs separated by commas, devices by semicolons");
    GroupBy = choice("OFI_NCCL_GROUP_BY", &["NVIDIA", "AMD", "NEURON", "ANY", "NONE"], Some("NVIDIA"), "accelerators that NICs are grouped by, the nearest NICs of each to a device (NVIDIA is what the reference does; NONE: each NIC is a device); must match the peer's");
    FsRoot = text("OFI_NCCL_FS_ROOT", None, "directory that stands for / where facts about the host are read (its sys and proc), as `ofi emu` makes one for an emulated host; unset or empty: /");
    DisableEfaVersionCheck = flag("OFI_NCCL_DISABLE_EFA_VERSION_CHECK", false, "use the EFA provider of libfabric before 1.22 too (tests)");
}

#[cfg(test)]
mod tests {
    use super::{Flavour, Kind, Status, TABLE};
    use std::collections::HashSet;

    #[test]
    fn every_row_is_in_its_place() {
        for (index, param) in TABLE.iter().enumerate() {
            assert_eq!(param.id.index(), index, "{}", param.name);
        }
    }

    #[test]
    fn names_are_unique_and_meanings_are_lines() {
        let mut names = HashSet::new();
        for param in TABLE {
            assert!(
                [Some(param.name), param.alias]
                    .into_iter()
                    .flatten()
                    .all(|n| names.insert(n))
            );
            assert!(
                param.meaning.is_ascii() && !param.meaning.is_empty(),
                "{}",
                param.name
            );
        }
    }

    #[test]
    fn defaults_are_within_their_own_range() {
        for param in TABLE {
            match param.kind {
                Kind::Number { min, max } => {
                    let numbers = [Flavour::Neuron, Flavour::Nccl].map(|f| param.default_number(f));
                    assert!(
                        numbers.iter().all(|n| (min..=max).contains(n)),
                        "{}",
                        param.name
                    );
                }
                Kind::Choice(words) => {
                    assert!(
                        param.default_text().is_none_or(|w| words.contains(&w)),
                        "{}",
                        param.name
                    );
                }
                Kind::Flag | Kind::Text => {}
            }
        }
    }

    #[test]
    fn base_has_all_its_names() {
        // Protocol 2i, column BASE: what the reference reads at this generation.
        let base = TABLE
            .iter()
            .take_while(|param| param.status != super::LATER);
        assert_eq!(base.count(), 37);
        let withdrawn = TABLE
            .iter()
            .filter(|param| param.status == Status::Withdrawn);
        assert_eq!(withdrawn.count(), 2);
    }
}
