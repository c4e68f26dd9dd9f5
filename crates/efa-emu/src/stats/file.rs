//! The file of one process: a page of text that says whose it is, then the numbers of each NIC.
//!
//! ```text
//! 0     "efa-emu statistics 3\nprocess 0\npid 4711\nseed 7\nnics 2\nwords 40\nrules 3\n", zeros up to
//! 4088  u64: 1 if the plan killed the process
//! 4096  words u64 of NIC 0 in the order of [`super::NAMES`], then the statuses; NIC 1; ..
//!       then how often each rule of the plan struck, u64, and fabrics and event queues that are open, u64
//! ```
//! Numbers are little-endian.

use core::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use super::ProcessStats;
use super::counts::{NicCounts, WORDS};

/// Where the numbers start: a page, so that they can be mapped.
pub(super) const HEADER: usize = 4096;
const KILLED_AT: usize = HEADER - 8;
const FIRST_LINE: &str = "efa-emu statistics 3";
/// What the names of the files in a directory of statistics end with.
const SUFFIX: &str = ".efastat";
/// Words about the process itself.
const OBJECTS: usize = size_of::<ProcessStats>() / 8;
/// More NICs than any machine has.
const NICS_MAX: usize = 4096;

/// What one process counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Its name: its rank, if it has one.
    pub process: String,
    /// Its process id.
    pub pid: u32,
    /// The seed of its plan.
    pub seed: u64,
    /// Whether it was killed by its plan: then nothing was closed.
    pub was_killed: bool,
    /// Its NICs, by number.
    pub nics: Vec<NicCounts>,
    /// How often each rule of its plan struck, on all NICs.
    pub rules: Vec<u64>,
    /// Fabrics open now.
    pub fabrics: u64,
    /// Event queues open now.
    pub eqs: u64,
}

impl Snapshot {
    /// Reads the file of one process, which may still run.
    ///
    /// # Errors
    /// What reading it gave; `InvalidData` when it is no file of statistics.
    pub fn read(path: &Path) -> io::Result<Self> {
        Self::decode(&std::fs::read(path)?).ok_or_else(|| {
            let text = format!("{}: no statistics of efa-emu, or cut off", path.display());
            io::Error::new(io::ErrorKind::InvalidData, text)
        })
    }

    /// Reads the files of a directory, in the order of their names.
    ///
    /// # Errors
    /// Those of [`Self::read`].
    pub fn read_dir(dir: &Path) -> io::Result<Vec<Self>> {
        Self::read_each(dir)?.collect()
    }

    /// As [`Self::read_dir`], for who wants those that can be read though others cannot.
    ///
    /// # Errors
    /// Of the directory; those of [`Self::read`] are of its files.
    pub fn read_each(dir: &Path) -> io::Result<impl Iterator<Item = io::Result<Self>>> {
        let mut paths = std::fs::read_dir(dir)?
            .map(|entry| Ok(entry?.path()))
            .collect::<io::Result<Vec<PathBuf>>>()?;
        paths.retain(|path| path.to_string_lossy().ends_with(SUFFIX));
        paths.sort();
        Ok(paths.into_iter().map(|path| Self::read(&path)))
    }

    /// All NICs together.
    #[must_use]
    pub fn total(&self) -> NicCounts {
        let mut total = NicCounts::default();
        self.nics.iter().for_each(|nic| total.add(nic));
        total
    }

    /// What the process left open: number of the NIC, what, how many; fabrics and event queues are of no
    /// NIC. Nothing for one that its plan killed.
    pub fn leaks(&self) -> impl Iterator<Item = (Option<usize>, &'static str, u64)> {
        let own = [("fabrics", self.fabrics), ("event queues", self.eqs)];
        let own = own.into_iter().filter(|(_, n)| *n > 0);
        let nics = self.nics.iter().enumerate();
        let of_nics =
            nics.flat_map(|(i, nic)| nic.leaks().map(move |(what, n)| (Some(i), what, n)));
        let all = own.map(|(what, n)| (None, what, n)).chain(of_nics);
        all.filter(|_| !self.was_killed)
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (header, numbers) = bytes.split_at_checked(HEADER)?;
        let end = header.iter().position(|byte| *byte == 0)?;
        let mut lines = core::str::from_utf8(&header[..end]).ok()?.lines();
        if lines.next()? != FIRST_LINE {
            return None;
        }
        let mut value = |name: &str| {
            let line = lines.next()?;
            line.strip_prefix(name)?.strip_prefix(' ')
        };
        let process = value("process")?.to_owned();
        let pid = value("pid")?.parse().ok()?;
        let seed = value("seed")?.parse().ok()?;
        let nics: usize = value("nics")?.parse().ok()?;
        let words: usize = value("words")?.parse().ok()?;
        let each = words.checked_mul(8).filter(|each| *each > 0)?;
        let rules: usize = value("rules")?.parse().ok()?;
        let (numbers, rest) = numbers.split_at_checked(nics.checked_mul(each)?)?;
        let (rules, rest) = rest.split_at_checked(rules.checked_mul(8)?)?;
        let mut objects = rest.get(..OBJECTS * 8)?.chunks_exact(8).map(word);
        Some(Self {
            process,
            pid,
            seed,
            was_killed: word(&header[KILLED_AT..]) != 0,
            nics: numbers
                .chunks_exact(each)
                .map(|nic| NicCounts::decode(nic.chunks_exact(8).map(word)))
                .collect(),
            rules: rules.chunks_exact(8).map(word).collect(),
            fabrics: objects.next()?,
            eqs: objects.next()?,
        })
    }
}

/// One line a NIC that did anything, with the numbers that are not 0.
impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            process, pid, seed, ..
        } = self;
        write!(f, "process {process} (pid {pid}, seed {seed})")?;
        if self.was_killed {
            f.write_str(", killed by its plan")?;
        }
        for (name, n) in [("fabrics", self.fabrics), ("eqs", self.eqs)] {
            if n > 0 {
                write!(f, ", {name} {n}")?;
            }
        }
        for (i, nic) in self.nics.iter().enumerate() {
            let mut numbers: Vec<String> = nic
                .named()
                .filter(|(_, n)| *n > 0)
                .map(|(name, n)| format!("{name} {n}"))
                .collect();
            let statuses = nic.statuses.iter().enumerate().filter(|(_, n)| **n > 0);
            numbers.extend(statuses.map(|(status, n)| format!("status {status}: {n}")));
            if !numbers.is_empty() {
                write!(f, "\n  NIC {i}: {}", numbers.join(", "))?;
            }
        }
        Ok(())
    }
}

fn word(bytes: &[u8]) -> u64 {
    bytes
        .first_chunk()
        .map_or(0, |eight| u64::from_le_bytes(*eight))
}

/// Makes the file, with zeros for all numbers.
///
/// `path` is a directory, in which the file gets a name of its own, or a file, in whose name `%p`
/// stands for the process id.
pub(super) fn create(
    path: &Path,
    process: &str,
    seed: u64,
    (nics, rules): (usize, usize),
) -> io::Result<File> {
    if nics > NICS_MAX {
        let text = format!("{nics} NICs are more than {NICS_MAX}");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let pid = std::process::id();
    let name: String = process
        .chars()
        .map(|c| {
            if c.is_ascii_graphic() && c != '/' {
                c
            } else {
                '_'
            }
        })
        .take(64)
        .collect();
    let file = if path.is_dir() {
        path.join(format!("{name}.{pid}{SUFFIX}"))
    } else {
        PathBuf::from(path.to_string_lossy().replace("%p", &pid.to_string()))
    };
    let header = format!(
        "{FIRST_LINE}\nprocess {name}\npid {pid}\nseed {seed}\nnics {nics}\nwords {WORDS}\nrules {rules}\n"
    );
    let open = || {
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&file)?;
        // Written, not only made as long: without room for it a touch of the mapping would be a signal.
        file.write_all_at(&vec![0; HEADER + (nics * WORDS + rules + OBJECTS) * 8], 0)?;
        file.write_all_at(header.as_bytes(), 0)?;
        Ok(file)
    };
    open().map_err(|e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", file.display())))
}

/// Writes that the plan kills the process.
pub(super) fn mark_killed(file: &File) -> io::Result<()> {
    file.write_all_at(&1_u64.to_le_bytes(), to_u64(KILLED_AT))
}

fn to_u64(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}
