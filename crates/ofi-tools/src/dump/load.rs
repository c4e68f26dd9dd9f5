//! From files to the processes of a job: the newest dump of each, and who has not answered.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use ofi_net::dump::{
    Comm, Domain, Dump, FILE_PREFIX, Kind, Reason, SCHEMA, TOOL, TRIGGER, changed_ns, stem,
};
use ofi_net::shared;

use super::lives::{Life, last_run};
use super::rings::Rings;
use crate::trace::Recent;

/// Bytes of a dump, at most: a process writes no more than its communicators take.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Without a trigger, a dump that is so much older than the newest one is no answer, milliseconds.
const OLD_MS: u64 = 60_000;

const NS_PER_MS: u64 = 1_000_000;

/// Ranks of a job that are looked for by number, at most.
const WORLD_MAX: u32 = 1 << 20;

/// What is known of the process behind a dump, where this host is its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alive {
    /// It is on another host, or that cannot be said.
    Unknown,
    /// It is gone.
    Gone,
    /// It is stopped (SIGSTOP, a debugger).
    Stopped,
    /// It is there.
    Running,
}

/// One process.
#[derive(Debug)]
pub(super) struct Member {
    /// `rank 3`, or its host and number where no launcher said a rank.
    pub(super) name: String,
    /// Its newest dump; `None` for a rank that wrote none.
    pub(super) dump: Option<Dump>,
    /// The one before that.
    pub(super) before: Option<Dump>,
    /// It has not answered when others did, or when it was asked; or its answer cannot be read.
    pub(super) silent: bool,
    /// A newer dump of it is there, and cannot be read: that it is silent is not said.
    pub(super) unread: bool,
    /// That it is silent is no matter of time: it was asked, or has never written a dump.
    pub(super) was_asked: bool,
    pub(super) alive: Alive,
    /// What its domains did last, as far as somebody has asked.
    pub(super) rings: Rings,
}

impl Member {
    pub(super) fn domains(&self) -> &[Domain] {
        self.dump.as_ref().map_or(&[], |dump| &dump.domains)
    }

    /// Its communicators, with their domains.
    pub(super) fn comms(&self) -> impl Iterator<Item = (&Domain, &Comm)> {
        let domains = self.domains().iter();
        domains.flat_map(|domain| domain.comms.iter().map(move |comm| (domain, comm)))
    }

    /// What one of its domains did last; `None`: it keeps no records.
    pub(super) fn ring(&self, domain: &Domain) -> Option<&Recent> {
        self.rings.of(self.dump.as_ref()?, domain)
    }

    /// Communicators that send.
    pub(super) fn senders(&self) -> usize {
        self.comms()
            .filter(|(_, comm)| comm.kind == Kind::Send)
            .count()
    }
}

/// All processes, in the order of their ranks.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) members: Vec<Member>,
    /// Processes of earlier runs, which are left out.
    pub(super) earlier: usize,
    /// Files that cannot be read, of processes of which nothing else is there.
    pub(super) strays: Vec<String>,
    /// From the address of an endpoint to the members that have one of that address.
    ends: HashMap<String, Vec<usize>>,
}

/// Changes the trigger of each directory.
///
/// # Errors
/// A path that is no directory that can be written to.
pub(super) fn ask(paths: &[PathBuf]) -> Result<(), String> {
    for path in paths {
        let trigger = path.join(TRIGGER);
        let asked = shared::touch(&trigger, b"ofi dump\n");
        asked.map_err(|e| format!("{}: {e}", trigger.display()))?;
    }
    Ok(())
}

/// When each directory was asked last, by its inode: directories, and those of files.
pub(super) fn triggers(paths: &[PathBuf]) -> HashMap<u64, u64> {
    let of = |path: &PathBuf| {
        let dir = match path.is_dir() {
            true => path.as_path(),
            false => path.parent()?,
        };
        // A file that is named alone is in the directory that is worked in.
        let dir = if dir.as_os_str().is_empty() {
            Path::new(".")
        } else {
            dir
        };
        let inode = fs::metadata(dir).ok()?.ino();
        Some((inode, changed_ns(&dir.join(TRIGGER))?))
    };
    paths.iter().filter_map(of).collect()
}

/// A file that cannot be read, or is no dump.
#[derive(Debug)]
pub(crate) struct Refused {
    path: PathBuf,
    error: String,
}

impl core::fmt::Display for Refused {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.error)
    }
}

impl Refused {
    /// Whether it is a dump of the process with that beginning of its files' names.
    fn is_of(&self, stem: &str) -> bool {
        let name = self.path.file_name().and_then(|name| name.to_str());
        let number = name.and_then(|name| name.strip_prefix(stem)?.strip_prefix('-'));
        let number = number.and_then(|rest| rest.strip_suffix(".json"));
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    }

    /// When it was written, milliseconds since 1970: not before what is in it.
    fn written_ms(&self) -> Option<u64> {
        let written = fs::symlink_metadata(&self.path).ok()?.modified().ok()?;
        let since = written.duration_since(std::time::UNIX_EPOCH).ok()?;
        u64::try_from(since.as_millis()).ok()
    }
}

/// The dumps, and what is wrong with those that are none.
pub(crate) fn read(paths: &[PathBuf]) -> (Vec<Dump>, Vec<Refused>) {
    let (mut dumps, mut refused) = (Vec::new(), Vec::new());
    for path in paths {
        // What is found in a directory may be anybody's; what is named is the user's.
        let (files, open): (_, Open) = match path.is_dir() {
            true => (in_directory(path), shared::open),
            false => (Ok(vec![path.clone()]), shared::open_named),
        };
        for file in files.unwrap_or_else(|error| {
            refused.push(Refused {
                path: path.clone(),
                error: error.to_string(),
            });
            Vec::new()
        }) {
            match read_file(&file, open) {
                Ok(dump) => dumps.push(dump),
                Err(error) => refused.push(Refused { path: file, error }),
            }
        }
    }
    (dumps, refused)
}

fn in_directory(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files: Vec<PathBuf> = fs::read_dir(path)?.flatten().map(|e| e.path()).collect();
    files.retain(|file| is_dump_name(file));
    files.sort();
    Ok(files)
}

fn is_dump_name(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with(FILE_PREFIX) && name.ends_with(".json"))
}

/// How a file is opened.
type Open = fn(&Path) -> io::Result<fs::File>;

fn read_file(path: &Path, open: Open) -> Result<Dump, String> {
    let file = open(path).map_err(|e| e.to_string())?;
    let mut bytes = Vec::new();
    let read = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|e| e.to_string())?;
    parse(&bytes)
}

/// A dump, from bytes that anybody may have written.
pub(crate) fn parse(bytes: &[u8]) -> Result<Dump, String> {
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("no dump: more than {FILE_BYTES_MAX} bytes"));
    }
    let value: serde_json::Value =
        serde_json::from_slice(bytes).map_err(|e| format!("no dump: {e}"))?;
    let tool = value.get("tool").and_then(serde_json::Value::as_str);
    if tool != Some(TOOL) {
        return Err("no dump: JSON of something else".to_owned());
    }
    let schema = value.get("schema").and_then(serde_json::Value::as_u64);
    if schema != Some(SCHEMA.into()) {
        let found = schema.map_or_else(|| "none".to_owned(), |schema| schema.to_string());
        return Err(format!(
            "a dump of format {found}, this ofi reads {SCHEMA}: use the ofi of the plugin's version"
        ));
    }
    let dump: Dump = serde_json::from_value(value).map_err(|e| format!("a damaged dump: {e}"))?;
    // Of a domain that another thread was in nothing else is said.
    let empty = |d: &Domain| d.busy && d.comms.is_empty();
    let good = |d: &Domain| d.seq_modulus <= 1 << 16 && (empty(d) || d.seq_modulus > 1);
    if !dump.domains.iter().all(good) {
        return Err("a damaged dump: seq_modulus is not within 2..=65536".to_owned());
    }
    Ok(dump)
}

impl Job {
    /// The processes that wrote `dumps` and `refused`, to directories whose triggers these are.
    pub(super) fn of(dumps: Vec<Dump>, refused: &[Refused], triggers: HashMap<u64, u64>) -> Self {
        let host = own_host();
        let strays = strays(&dumps, refused);
        let (lives, earlier) = last_run(dumps, |dump| alive(dump, host.as_deref()));
        let asked = asked(triggers, &lives);
        let latest_ms = lives.iter().map(|life| life.dump.at_unix_ms).max();
        let latest_ms = latest_ms.unwrap_or(0);
        let mut members: Vec<Member> = lives
            .into_iter()
            .map(|life| Member {
                name: name_of(&life.dump),
                silent: is_unread(&life.dump, refused) || is_silent(&life.dump, &asked, latest_ms),
                unread: is_unread(&life.dump, refused),
                was_asked: asked.contains_key(&life.dump.dir_inode),
                alive: life.alive,
                rings: Rings::of_dump(&life.dump),
                dump: Some(life.dump),
                before: life.before,
            })
            .collect();
        members.extend(missing(&members));
        let rank = |member: &Member| {
            let process = member.dump.as_ref().map(|dump| &dump.process);
            process.map(|p| (p.rank, p.host.clone(), p.pid))
        };
        members.sort_by_key(rank);
        let mut ends: HashMap<String, Vec<usize>> = HashMap::new();
        for (at, member) in members.iter().enumerate() {
            for end in member.domains().iter().flat_map(|domain| &domain.endpoints) {
                let known = ends.entry(end.address.clone()).or_default();
                if !known.contains(&at) {
                    known.push(at);
                }
            }
        }
        Self {
            members,
            earlier,
            strays,
            ends,
        }
    }

    pub(super) fn name(&self, member: usize) -> &str {
        self.members.get(member).map_or("?", |member| &member.name)
    }

    /// Who has an endpoint of that address, as `from` sees it: names of shm mean something on one host
    /// alone.
    pub(super) fn at_address(&self, from: usize, address: &str) -> Option<usize> {
        let known = self.ends.get(address)?;
        let host = |at: usize| {
            let dump = self.members.get(at)?.dump.as_ref();
            dump.map(|dump| dump.process.host.as_str())
        };
        let here = known.iter().find(|&&at| host(at) == host(from));
        here.or_else(|| known.first()).copied()
    }
}

/// Whether a process wrote a file that cannot be read, after its newest dump that can.
fn is_unread(newest: &Dump, refused: &[Refused]) -> bool {
    let stem = stem(&newest.process.host, newest.process.pid);
    let mut of_it = refused.iter().filter(|file| file.is_of(&stem));
    of_it.any(|file| {
        let written_ms = file.written_ms();
        written_ms.is_none_or(|written_ms| written_ms >= newest.at_unix_ms)
    })
}

/// The files that are of no process whose dumps are there, by their names.
fn strays(dumps: &[Dump], refused: &[Refused]) -> Vec<String> {
    let processes = dumps.iter().map(|dump| &dump.process);
    let known: std::collections::BTreeSet<String> =
        processes.map(|p| stem(&p.host, p.pid)).collect();
    let is_stray =
        |file: &&Refused| is_dump_name(&file.path) && !known.iter().any(|stem| file.is_of(stem));
    let name = |file: &Refused| {
        let name = file.path.file_name()?.to_str()?;
        Some(name.escape_debug().to_string())
    };
    let names = refused.iter().filter(is_stray).filter_map(name);
    names.collect()
}

/// The newest trigger of each directory.
fn asked(triggers: HashMap<u64, u64>, lives: &[Life]) -> HashMap<u64, u64> {
    let mut asked = triggers;
    for Life { dump, .. } in lives {
        if let Some(answers) = dump.answers_ns {
            let newest = asked.entry(dump.dir_inode).or_insert(answers);
            *newest = answers.max(*newest);
        }
    }
    asked
}

fn is_silent(dump: &Dump, asked: &HashMap<u64, u64>, latest_ms: u64) -> bool {
    match asked.get(&dump.dir_inode) {
        // Who was started since then was not asked.
        Some(&trigger) if dump.reason == Reason::Start => dump.at_unix_ms <= trigger / NS_PER_MS,
        Some(&trigger) => dump.answers_ns.is_none_or(|answers| answers < trigger),
        None => dump.at_unix_ms.saturating_add(OLD_MS) < latest_ms,
    }
}

fn name_of(dump: &Dump) -> String {
    match dump.process.rank {
        Some(rank) => format!("rank {rank}"),
        None => format!("process {} on {}", dump.process.pid, dump.process.host),
    }
}

/// Ranks that a launcher counted and that wrote nothing.
fn missing(members: &[Member]) -> Vec<Member> {
    let processes = || {
        members
            .iter()
            .filter_map(|m| Some(&m.dump.as_ref()?.process))
    };
    let world = processes().filter_map(|process| process.world).max();
    let ranks: std::collections::BTreeSet<u32> = processes().filter_map(|p| p.rank).collect();
    let all = 0..world.unwrap_or(0).min(WORLD_MAX);
    let absent = all.filter(|rank| !ranks.contains(rank));
    absent
        .map(|rank| Member {
            name: format!("rank {rank}"),
            dump: None,
            before: None,
            silent: true,
            unread: false,
            was_asked: true,
            alive: Alive::Unknown,
            rings: Rings::default(),
        })
        .collect()
}

fn own_host() -> Option<String> {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned())
}

fn alive(dump: &Dump, host: Option<&str>) -> Alive {
    let process = &dump.process;
    if host != Some(&process.host) || process.start_ticks == 0 {
        return Alive::Unknown;
    }
    if ofi_net::start_ticks(process.pid) != Some(process.start_ticks) {
        return Alive::Gone;
    }
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.pid)).unwrap_or_default();
    let state = stat.rsplit_once(')').map(|(_, rest)| rest.trim_start());
    match state.and_then(|rest| rest.chars().next()) {
        Some('T' | 't') => Alive::Stopped,
        // Dead, and nobody has asked how.
        Some('Z' | 'X') => Alive::Gone,
        _ => Alive::Running,
    }
}
