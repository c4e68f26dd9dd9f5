//! What the environment says, read once a process.

use core::hash::BuildHasher as _;
use core::time::Duration;
use std::env::VarError;
use std::hash::RandomState;
use std::path::PathBuf;

use ofi_sys::bindings as b;
use ofi_sys::consts as c;

use crate::generation::Generation;
use crate::mem::layout::RECEIVES;
use crate::plan::Plan;
use crate::shape::Shape;

/// NICs without a shape or a number.
const NICS_DEFAULT: usize = 4;
/// NICs that a process can have: each has a word in the shared segment.
pub(crate) const NICS_MAX: usize = 64;

/// Variables that number the processes of a job, in the order in which they are asked.
const RANKS: [&str; 6] = [
    "EFA_EMU_NAME",
    "OFI_PERF_RANK",
    "RANK",
    "OMPI_COMM_WORLD_RANK",
    "PMI_RANK",
    "SLURM_PROCID",
];

/// The name of a process that nobody numbered: the same each time, so that the same seed is the same run.
const UNNAMED: &str = "unnamed";

/// All of this crate's own.
const OWN: [&str; 12] = [
    "EFA_EMU_CMA",
    "EFA_EMU_DEAD_MS",
    "EFA_EMU_DIR",
    "EFA_EMU_GENERATION",
    "EFA_EMU_LACKS",
    "EFA_EMU_NAME",
    "EFA_EMU_NICS",
    "EFA_EMU_PLAN",
    "EFA_EMU_PROGRESS",
    "EFA_EMU_SEED",
    "EFA_EMU_SHAPE",
    "EFA_EMU_STATS",
];

/// Variables that are set and mean nothing, such as misspelt ones.
pub(crate) fn unknown(names: impl Iterator<Item = String>) -> Vec<String> {
    let is_unknown = |name: &String| name.starts_with("EFA_EMU_") && !OWN.contains(&name.as_str());
    names.filter(is_unknown).collect()
}

/// The settings.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) shape: Shape,
    pub(crate) plan: Plan,
    pub(crate) seed: u64,
    /// Whether it must be told: nobody chose it.
    pub(crate) says_seed: bool,
    /// Names the process for its random streams.
    pub(crate) process: String,
    pub(crate) stats: Option<PathBuf>,
    /// The libfabric whose EFA is played; `None`: the one that loaded us, but none that is out of use.
    pub(crate) generation: Option<Generation>,
    /// Where shared segments are.
    pub(crate) dir: PathBuf,
    /// Whether a thread makes progress when nobody calls, as a device does.
    pub(crate) device_thread: bool,
    /// Whether the system may be asked to copy between processes.
    pub(crate) direct_copies: bool,
    /// Whether incoming immediates need no posted receive.
    pub(crate) unsolicited: bool,
    /// Endpoints of `efa` leave reads and writes to the device unless told otherwise.
    pub(crate) device_rdma: bool,
    pub(crate) tx_size: usize,
    pub(crate) rx_size: usize,
    pub(crate) cq_size: usize,
    /// Only these NICs are shown, by name.
    pub(crate) interfaces: Option<Vec<String>>,
    /// What the NICs do without, as devices and hosts of some kinds do.
    pub(crate) lacks: Lacks,
    /// How long an operation to a dead peer takes to fail.
    pub(crate) dead_after: Duration,
}

/// What there is not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lacks {
    /// Capabilities.
    pub(crate) caps: u64,
    /// A kernel or driver that lends memory of devices to NICs by dma-buf.
    pub(crate) dmabuf: bool,
    /// GPUs with CUDA.
    pub(crate) cuda: bool,
    /// Neuron devices.
    pub(crate) neuron: bool,
    /// A device that writes: writes are made of messages, and the options say so.
    pub(crate) native_writes: bool,
}

impl Lacks {
    /// Whether the host has a kind of devices (`FI_HMEM_*`) whose memory NICs reach: of the others none.
    pub(crate) fn has_devices(&self, iface: b::fi_hmem_iface) -> bool {
        match iface {
            b::FI_HMEM_CUDA => !self.cuda,
            b::FI_HMEM_NEURON => !self.neuron,
            _ => false,
        }
    }

    /// Whether memory of devices is reached at all.
    pub(crate) const fn has_hmem(&self) -> bool {
        self.caps & c::FI_HMEM == 0
    }
}

/// Capabilities that can be lacking, by their names in `EFA_EMU_LACKS`.
const LACKING: [(&str, u64); 3] = [
    ("hmem", c::FI_HMEM),
    ("tagged", c::FI_TAGGED),
    (
        "rma",
        c::FI_RMA | c::FI_READ | c::FI_WRITE | c::FI_REMOTE_READ | c::FI_REMOTE_WRITE,
    ),
];

/// Looks a variable up; unset and empty are the same.
type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

impl Config {
    /// Of this process' environment.
    ///
    /// # Errors
    /// The variable and what is wrong with it.
    pub(crate) fn from_environment() -> Result<Self, String> {
        let lookup = |name: &str| match std::env::var(name) {
            Ok(text) if !text.is_empty() => Some(text),
            Ok(_) | Err(VarError::NotPresent) => None,
            Err(VarError::NotUnicode(text)) => Some(text.to_string_lossy().into_owned()),
        };
        Self::read(&lookup, any_seed())
    }

    fn read(lookup: Lookup<'_>, any_seed: u64) -> Result<Self, String> {
        let seed = parsed::<u64>(lookup, "EFA_EMU_SEED", "a number")?;
        let process = RANKS.iter().find_map(|name| lookup(name));
        let efa = |name, default| size(lookup, name, default);
        let (shape, plan) = (shape(lookup)?, plan(lookup)?);
        let checked = plan.check_nics(shape.nics().len());
        checked.map_err(|error| format!("EFA_EMU_PLAN: {error}"))?;
        let config = Self {
            shape,
            plan,
            seed: seed.unwrap_or(any_seed),
            says_seed: seed.is_none(),
            process: process.unwrap_or_else(|| UNNAMED.to_owned()),
            stats: lookup("EFA_EMU_STATS").map(PathBuf::from),
            generation: lookup("EFA_EMU_GENERATION")
                .map(|text| Generation::parse(&text))
                .transpose()
                .map_err(|error| format!("EFA_EMU_GENERATION={error}"))?,
            dir: PathBuf::from(lookup("EFA_EMU_DIR").unwrap_or_else(|| "/dev/shm".to_owned())),
            device_thread: choice(lookup, "EFA_EMU_PROGRESS", ("device", "calls"))?,
            direct_copies: choice(lookup, "EFA_EMU_CMA", ("1", "0"))?,
            unsolicited: choice(lookup, "FI_EFA_USE_UNSOLICITED_WRITE_RECV", ("1", "0"))?,
            device_rdma: choice(lookup, "FI_EFA_USE_DEVICE_RDMA", ("1", "0"))?,
            tx_size: efa("FI_EFA_TX_SIZE", 256)?,
            rx_size: efa("FI_EFA_RX_SIZE", 1024)?,
            cq_size: efa("FI_EFA_CQ_SIZE", 8192)?,
            interfaces: lookup("FI_EFA_IFACE")
                .filter(|list| list != "all")
                .map(|list| list.split(',').map(ToOwned::to_owned).collect()),
            lacks: lacks(lookup)?,
            dead_after: Duration::from_millis(
                parsed(lookup, "EFA_EMU_DEAD_MS", "milliseconds")?.unwrap_or(20),
            ),
        };
        Ok(config)
    }
}

fn lacks(lookup: Lookup<'_>) -> Result<Lacks, String> {
    let text = lookup("EFA_EMU_LACKS").unwrap_or_default();
    let mut lacks = Lacks::default();
    for word in text.split(',').filter(|word| !word.is_empty()) {
        match word {
            "dmabuf" => lacks.dmabuf = true,
            "cuda" => lacks.cuda = true,
            "neuron" => lacks.neuron = true,
            "write" => lacks.native_writes = true,
            _ => {
                let known = LACKING.iter().find(|(name, _)| *name == word);
                let expected = "hmem, tagged, rma, write, dmabuf, cuda or neuron";
                lacks.caps |= known
                    .ok_or_else(|| wrong("EFA_EMU_LACKS", word, expected))?
                    .1;
            }
        }
    }
    Ok(lacks)
}

fn wrong(name: &str, value: &str, expected: &str) -> String {
    format!("{name}={value}: expected {expected}")
}

fn parsed<T: core::str::FromStr>(
    lookup: Lookup<'_>,
    name: &str,
    expected: &str,
) -> Result<Option<T>, String> {
    let Some(text) = lookup(name) else {
        return Ok(None);
    };
    match text.trim().parse() {
        Ok(value) => Ok(Some(value)),
        Err(_) => Err(wrong(name, &text, expected)),
    }
}

/// One of two words; the first is the default.
fn choice(lookup: Lookup<'_>, name: &str, words: (&str, &str)) -> Result<bool, String> {
    match lookup(name) {
        None => Ok(true),
        Some(text) if text == words.0 => Ok(true),
        Some(text) if text == words.1 => Ok(false),
        Some(text) => Err(wrong(name, &text, &format!("{} or {}", words.0, words.1))),
    }
}

fn size(lookup: Lookup<'_>, name: &str, default: usize) -> Result<usize, String> {
    const MAX: usize = RECEIVES;
    match parsed(lookup, name, "a number")? {
        None => Ok(default),
        Some(size) if (1..=MAX).contains(&size) => Ok(size),
        Some(size) => Err(wrong(name, &size.to_string(), &format!("1 to {MAX}"))),
    }
}

fn shape(lookup: Lookup<'_>) -> Result<Shape, String> {
    let shape = match lookup("EFA_EMU_SHAPE") {
        Some(name) => Shape::by_name(&name).map_err(|error| format!("EFA_EMU_SHAPE: {error}"))?,
        None => {
            let nics = parsed(lookup, "EFA_EMU_NICS", "a number of NICs")?;
            match nics.unwrap_or(NICS_DEFAULT) {
                nics @ 1..=NICS_MAX => Shape::simple(nics),
                nics => return Err(wrong("EFA_EMU_NICS", &nics.to_string(), "1 to 64")),
            }
        }
    };
    match shape.nics().len() {
        1..=NICS_MAX => Ok(shape),
        count => Err(format!("{count} NICs: expected 1 to {NICS_MAX}")),
    }
}

/// A plan in the variable itself, or in a file that it names.
fn plan(lookup: Lookup<'_>) -> Result<Plan, String> {
    let Some(text) = lookup("EFA_EMU_PLAN") else {
        return Ok(Plan::default());
    };
    let script = match text.strip_prefix('@') {
        Some(path) => std::fs::read_to_string(path)
            .map_err(|error| format!("EFA_EMU_PLAN: {path}: {error}"))?,
        None => text,
    };
    Plan::parse(&script).map_err(|error| format!("EFA_EMU_PLAN: {error}"))
}

/// Another one each time, also where all are process 2 of their container.
fn any_seed() -> u64 {
    // Its keys are random (`std::hash::RandomState`).
    RandomState::new().hash_one(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Config, String> {
        let lookup = |name: &str| {
            let found = pairs.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        Config::read(&lookup, 77)
    }

    #[test]
    fn nothing_set() {
        let config = read(&[]).unwrap();
        assert_eq!(config.shape.nics().len(), NICS_DEFAULT);
        assert_eq!((config.seed, config.says_seed), (77, true));
        assert_eq!(config.process, UNNAMED);
        assert!(config.device_thread && config.direct_copies && config.unsolicited);
    }

    #[test]
    fn what_is_set_counts() {
        let config = read(&[
            ("EFA_EMU_NICS", "2"),
            ("EFA_EMU_SEED", "5"),
            ("RANK", "3"),
            ("EFA_EMU_CMA", "0"),
            ("FI_EFA_IFACE", "a,b"),
            ("FI_EFA_TX_SIZE", "5000"),
            ("FI_EFA_RX_SIZE", "8192"),
            ("EFA_EMU_LACKS", "hmem,tagged,dmabuf,cuda"),
        ])
        .unwrap();
        assert_eq!(config.shape.nics().len(), 2);
        assert_eq!((config.seed, config.says_seed), (5, false));
        assert_eq!(config.process, "3");
        assert!(!config.direct_copies);
        assert_eq!((config.tx_size, config.rx_size), (5000, 8192));
        let lacks = Lacks {
            caps: c::FI_HMEM | c::FI_TAGGED,
            dmabuf: true,
            cuda: true,
            neuron: false,
            native_writes: false,
        };
        assert_eq!(config.lacks, lacks);
        assert!(!lacks.has_hmem() && lacks.has_devices(b::FI_HMEM_NEURON));
        assert!(!lacks.has_devices(b::FI_HMEM_CUDA) && !lacks.has_devices(b::FI_HMEM_ZE));
        assert_eq!(config.interfaces.unwrap(), ["a", "b"]);
    }

    #[test]
    fn what_is_set_and_unknown_is_found() {
        let names = ["EFA_EMU_SEEDS", "PATH", "EFA_EMU_SEED", "EFA_EMU_"];
        let names = names.into_iter().map(str::to_owned);
        assert_eq!(unknown(names), ["EFA_EMU_SEEDS", "EFA_EMU_"]);
        // None that is read is taken for one.
        let asked = core::cell::RefCell::new(Vec::new());
        let lookup = |name: &str| {
            asked.borrow_mut().push(name.to_owned());
            None
        };
        Config::read(&lookup, 1).unwrap();
        let asked = asked.into_inner();
        assert!(asked.len() > OWN.len(), "{asked:?}");
        assert_eq!(unknown(asked.into_iter()), Vec::<String>::new());
    }

    #[test]
    fn a_plan_in_a_file_may_begin_as_some_editors_have_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "\u{feff}lose at=1\r\n").unwrap();
        let named = format!("@{}", file.path().display());
        let config = read(&[("EFA_EMU_PLAN", &named)]).unwrap();
        assert_eq!(config.plan.to_string(), "lose at=1");
    }

    #[test]
    fn mistakes_are_named() {
        for (name, value) in [
            ("EFA_EMU_SEED", "x"),
            ("EFA_EMU_NICS", "0"),
            ("EFA_EMU_NICS", "65"),
            ("EFA_EMU_CMA", "maybe"),
            ("EFA_EMU_GENERATION", "new"),
            ("EFA_EMU_GENERATION", "9.9"),
            ("EFA_EMU_LACKS", "hmem,money"),
            ("EFA_EMU_PLAN", "@/no/such/file"),
            ("EFA_EMU_PLAN", "lose nic=7"),
            ("FI_EFA_TX_SIZE", "0"),
            ("FI_EFA_RX_SIZE", "8193"),
        ] {
            let error = read(&[(name, value)]).unwrap_err();
            assert!(error.contains(name), "{name}={value}: {error}");
        }
    }
}
