//! What a run does: made from the command line once, by the first process, and sent to every rank.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::abi::Flavor;
use crate::raw::plan::Wire;

/// What is measured or checked.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mode {
    /// Ping-pong: half the round trip of one message between two ranks
    Lat,
    /// One-way bandwidth with a window of messages in flight
    Bw,
    /// Bandwidth both ways at once
    Bidir,
    /// Small messages a second, one way
    Rate,
    /// Random sizes, offsets, order and pauses around a ring; every byte verified
    Check,
    /// Ring all-reduce (sum) of 32-bit numbers
    Allreduce,
    /// Ring all-gather
    Allgather,
    /// Every rank to every rank
    Alltoall,
    /// All of the above
    All,
}

impl Mode {
    pub(crate) const EACH: [Self; 8] = [
        Self::Lat,
        Self::Bw,
        Self::Bidir,
        Self::Rate,
        Self::Check,
        Self::Allreduce,
        Self::Allgather,
        Self::Alltoall,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Lat => "lat",
            Self::Bw => "bw",
            Self::Bidir => "bidir",
            Self::Rate => "rate",
            Self::Check => "check",
            Self::Allreduce => "allreduce",
            Self::Allgather => "allgather",
            Self::Alltoall => "alltoall",
            Self::All => "all",
        }
    }

    /// The sizes of a mode when the user gives none.
    pub(crate) fn default_sizes(self) -> Vec<usize> {
        const K: usize = 1 << 10;
        const M: usize = 1 << 20;
        match self {
            Self::Lat => vec![1, 8, 64, 512, 4 * K, 32 * K, 256 * K, 2 * M],
            Self::Bw | Self::Bidir => {
                vec![1, 8, 64, 512, 4 * K, 32 * K, 256 * K, 2 * M, 16 * M, 64 * M]
            }
            Self::Rate => vec![1, 8, 64, 512, 4 * K],
            Self::Check | Self::All => Vec::new(),
            Self::Allreduce | Self::Allgather | Self::Alltoall => {
                vec![4 * K, 64 * K, M, 8 * M]
            }
        }
    }

    /// Messages in flight when the user gives none.
    pub(crate) const fn default_window(self) -> usize {
        match self {
            Self::Lat => 1,
            Self::Rate => 64,
            Self::Check => 32,
            _ => 8,
        }
    }
}

/// Element type of all-reduce.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Element {
    /// 32-bit floating point
    F32,
    /// 32-bit unsigned, wrapping
    U32,
}

/// Which ranks take part in the modes between two ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Pairs {
    /// Ranks 0 and 1
    First,
    /// 0 and 1, 2 and 3, ...
    All,
}

/// What a rank does between polls that found nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Yield {
    /// Gives the core away if there are more local ranks than cores
    Auto,
    /// Always gives the core away
    Always,
    /// Spins
    Never,
}

/// What the plugin's log shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Log {
    Off,
    Warn,
    Info,
    Trace,
}

impl Log {
    /// The highest `ncclDebugLogLevel` that is shown.
    pub(crate) const fn level(self) -> i32 {
        match self {
            Self::Off => 0,
            Self::Warn => 2,
            Self::Info => 3,
            Self::Trace => 5,
        }
    }
}

/// A variable set for one rank or all of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Override {
    pub(crate) rank: Option<usize>,
    pub(crate) name: String,
    pub(crate) value: String,
}

/// How the bytes of `check` are chosen.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct CheckPlan {
    /// Messages of each flow.
    pub(crate) messages: u64,
    /// Bytes, at most.
    pub(crate) max_size: usize,
    /// Some receives are posted too short.
    pub(crate) truncate: bool,
    /// The size that a receive reports may be anything that covers the message.
    pub(crate) lax_sizes: bool,
    /// Ranks pause now and then.
    pub(crate) pauses: bool,
}

/// Everything that the ranks must agree about.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) ranks: usize,
    /// Rank r loads number r modulo the length.
    pub(crate) plugins: Vec<PathBuf>,
    pub(crate) symbols: Vec<String>,
    pub(crate) flavors: Vec<Flavor>,
    /// Empty: all.
    pub(crate) devices: Vec<usize>,
    /// Communicators per device and connected pair of ranks.
    pub(crate) comms: usize,
    pub(crate) modes: Vec<Mode>,
    /// Empty: those of the mode.
    pub(crate) sizes: Vec<usize>,
    pub(crate) windows: Vec<usize>,
    /// Draw a random size up to each size for every message.
    pub(crate) random_sizes: bool,
    /// None: as many as fit in `seconds`.
    pub(crate) iters: Option<u64>,
    pub(crate) seconds: f64,
    pub(crate) check: bool,
    pub(crate) check_plan: CheckPlan,
    pub(crate) flush: bool,
    pub(crate) element: Element,
    /// Bytes of the pieces that collectives cut their chunks into.
    pub(crate) slice: usize,
    /// Bytes of buffer for each direction of a communicator.
    pub(crate) pool: usize,
    pub(crate) pairs: Pairs,
    #[serde(rename = "yield")]
    pub(crate) yielding: Yield,
    pub(crate) seed: u64,
    pub(crate) log: Log,
    pub(crate) timeout: f64,
    pub(crate) stall: f64,
    pub(crate) env: Vec<Override>,
    /// No plugin: these operations, straight on libfabric.
    pub(crate) raw: Option<Wire>,
}

impl Plan {
    /// Two ranks, no plugin yet, and what `ofi perf` does when nothing is said.
    pub(crate) fn of_two() -> Self {
        Self {
            ranks: 2,
            plugins: Vec::new(),
            symbols: Vec::new(),
            flavors: Vec::new(),
            devices: vec![0],
            comms: 1,
            modes: Vec::new(),
            sizes: Vec::new(),
            windows: Vec::new(),
            random_sizes: false,
            iters: None,
            seconds: 0.25,
            check: false,
            check_plan: CheckPlan {
                messages: 0,
                max_size: 0,
                truncate: false,
                lax_sizes: false,
                pauses: false,
            },
            flush: false,
            element: Element::F32,
            slice: 256 << 10,
            pool: 32 << 20,
            pairs: Pairs::First,
            yielding: Yield::Auto,
            seed: 1,
            log: Log::Warn,
            timeout: 120.0,
            stall: 30.0,
            env: Vec::new(),
            raw: None,
        }
    }

    pub(crate) fn sizes_of(&self, mode: Mode) -> Vec<usize> {
        if self.sizes.is_empty() {
            mode.default_sizes()
        } else {
            self.sizes.clone()
        }
    }

    pub(crate) fn windows_of(&self, mode: Mode) -> Vec<usize> {
        if self.windows.is_empty() {
            vec![mode.default_window()]
        } else {
            self.windows.clone()
        }
    }

    /// Whether anything of the run verifies bytes.
    pub(crate) fn verifies(&self) -> bool {
        self.check
            || self
                .modes
                .iter()
                .any(|m| matches!(m, Mode::Check | Mode::All))
    }

    /// Plugin, symbol and family of a rank.
    pub(crate) fn plugin_of(&self, rank: usize) -> Option<(&PathBuf, &str, Flavor)> {
        let pick = |n: usize| rank % n.max(1);
        Some((
            self.plugins.get(pick(self.plugins.len()))?,
            self.symbols.get(pick(self.symbols.len()))?,
            *self.flavors.get(pick(self.flavors.len()))?,
        ))
    }
}
