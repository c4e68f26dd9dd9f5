//! Which file the dynamic loader would take for a name (dlopen(3), ld.so(8)), without loading anything.
//!
//! ```text
//! name with a slash: that file
//! else: what is preloaded -> LD_LIBRARY_PATH -> DT_RUNPATH of who asks -> /etc/ld.so.cache -> the system's directories
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::elf::{self, Elf, ElfFault};
use super::root::{Absent, Root};

const CACHE: &str = "/etc/ld.so.cache";
const CACHE_MAX: u64 = 16 << 20;
const CACHE_MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
const CACHE_HEAD: usize = 48;
const CACHE_ENTRY: usize = 24;
/// Libraries that are looked at for one that is asked for.
const LIBRARIES_MAX: usize = 256;

/// Parts of the C library and its loader: where a program runs at all they are there.
const SYSTEM: [&str; 6] = [
    "libc.so.",
    "libm.so.",
    "libdl.so.",
    "librt.so.",
    "libpthread.so.",
    "ld-linux",
];

/// A file that the loader takes.
#[derive(Clone, Debug)]
pub(crate) struct Library {
    /// As it was found.
    pub(crate) path: PathBuf,
    /// After all links.
    pub(crate) real: PathBuf,
    /// What led there.
    pub(crate) via: String,
    /// What is in it.
    pub(crate) elf: Result<Elf, ElfFault>,
}

/// A file of the right name that the loader passes over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Passed {
    /// It cannot be had.
    Absent(Absent),
    /// It is for another machine.
    Machine(u16),
}

impl Passed {
    /// It is there, and may not be read.
    pub(crate) const fn is_denied(&self) -> bool {
        matches!(self, Self::Absent(Absent::Denied { .. }))
    }
}

/// The answer for one name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Search {
    /// What was asked for.
    pub(crate) name: String,
    /// What it found.
    pub(crate) found: Option<Library>,
    /// Files of that name that it passed over.
    pub(crate) passed: Vec<(PathBuf, Passed)>,
    /// Where it looked, in this order.
    pub(crate) places: Vec<String>,
}

/// Something that a library needs and does not get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unmet {
    /// A library that is not there.
    Library {
        /// Its name.
        name: String,
        /// Who needs it.
        by: PathBuf,
        /// Files of that name that the loader passed over.
        passed: Vec<(PathBuf, Passed)>,
        /// Where it looked.
        places: Vec<String>,
    },
    /// A file that ends the search and is no library that loads.
    Damaged {
        /// The file found.
        at: PathBuf,
        /// What is wrong with it.
        fault: ElfFault,
        /// Who needs it.
        by: PathBuf,
    },
    /// A version that the library found does not define.
    Version {
        /// Such as `FABRIC_1.7`.
        version: String,
        /// The library found.
        at: PathBuf,
        /// Who needs it.
        by: PathBuf,
    },
}

impl Unmet {
    /// The library that is not there.
    pub(crate) fn library(&self) -> Option<&str> {
        match self {
            Self::Library { name, .. } => Some(name),
            Self::Version { .. } | Self::Damaged { .. } => None,
        }
    }

    /// Files of its name that the loader passed over.
    pub(crate) fn passed(&self) -> &[(PathBuf, Passed)] {
        match self {
            Self::Library { passed, .. } => passed,
            Self::Version { .. } | Self::Damaged { .. } => &[],
        }
    }
}

/// The loader of one host with one environment.
#[derive(Debug)]
pub(crate) struct Loader<'r> {
    root: &'r Root,
    machine: u16,
    /// Files that are loaded before anybody asks.
    preload: Vec<PathBuf>,
    /// `LD_LIBRARY_PATH`; empty: the directory that the job works in.
    env: Vec<String>,
    cache: BTreeMap<String, PathBuf>,
    /// Directories that ldconfig(8) makes the cache of.
    pub(crate) configured: Vec<String>,
    system: Vec<&'static str>,
}

impl<'r> Loader<'r> {
    /// Reads the cache and the configuration.
    pub(crate) fn new(root: &'r Root, machine: u16, library_path: &str) -> Self {
        // Of a variable that is empty the loader takes nothing, and an empty entry of another for ".".
        let env = library_path.split([':', ';']);
        let env = env.filter(|_| !library_path.is_empty());
        let multiarch: &[&str] = if machine == elf::AARCH64 {
            &["/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu"]
        } else {
            &["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu"]
        };
        let plain = ["/lib64", "/usr/lib64", "/lib", "/usr/lib"];
        Self {
            root,
            machine,
            preload: Vec::new(),
            env: env.map(str::to_owned).collect(),
            cache: read_cache(root).unwrap_or_default(),
            configured: configured(root),
            system: multiarch.iter().copied().chain(plain).collect(),
        }
    }

    /// The same, with what `LD_PRELOAD` and `/etc/ld.so.preload` name.
    pub(crate) fn with_preload(mut self, named: &str) -> Self {
        let of_system = self.root.text("/etc/ld.so.preload").unwrap_or_default();
        let files = named.split([' ', ':']);
        let files = files.chain(of_system.split([' ', ':', '\n', '\t']));
        // A name without a slash is found as it would be without.
        let files = files.filter(|file| file.contains('/'));
        self.preload = files.map(PathBuf::from).collect();
        self
    }

    /// What is preloaded under that name: whoever asks for it gets that.
    fn preloaded(&self, name: &str) -> impl Iterator<Item = &PathBuf> {
        let is_it = move |file: &&PathBuf| {
            let file = file.file_name().unwrap_or_default().to_string_lossy();
            let rest = file.strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.preload.iter().filter(is_it)
    }

    pub(crate) const fn root(&self) -> &'r Root {
        self.root
    }

    /// The directories of `LD_LIBRARY_PATH`, in their order.
    pub(crate) fn library_path(&self) -> impl Iterator<Item = &Path> {
        self.env.iter().map(|dir| entry(dir))
    }

    /// A directory, for people: where a relative one begins is not in its name.
    fn place(&self, dir: &str, via: &str) -> String {
        let shown = entry(dir).display();
        match (Path::new(dir).is_absolute(), self.root.working()) {
            (true, _) => format!("{shown} ({via})"),
            (false, Some(working)) => format!("{shown} in {} ({via})", working.display()),
            (false, None) => {
                format!("{shown} of the directory that a job works in, which nobody says ({via})")
            }
        }
    }

    /// Whether there is a cache at all.
    #[cfg(test)]
    pub(crate) fn has_cache(&self) -> bool {
        !self.cache.is_empty()
    }

    /// Looks for `name`, asked for by a library with this search path (empty: the program).
    pub(crate) fn search(&self, name: &str, runpath: &[String]) -> Search {
        let mut search = Search {
            name: name.to_owned(),
            ..Search::default()
        };
        if name.contains('/') {
            let _ = self.consider(&mut search, Path::new(name), name);
            return search;
        }
        for file in self.preloaded(name) {
            if self.consider(&mut search, file, "LD_PRELOAD") {
                return search;
            }
        }
        let env = self.env.iter().map(|dir| (dir.as_str(), "LD_LIBRARY_PATH"));
        let own = runpath.iter().map(|dir| (dir.as_str(), "DT_RUNPATH"));
        for (dir, via) in env.chain(own) {
            search.places.push(self.place(dir, via));
            if self.consider(&mut search, &entry(dir).join(name), via) {
                return search;
            }
        }
        search.places.push(CACHE.to_owned());
        if let Some(path) = self.cache.get(name) {
            if self.consider(&mut search, path, CACHE) {
                return search;
            }
        }
        for dir in &self.system {
            search.places.push((*dir).to_owned());
            if self.consider(
                &mut search,
                &Path::new(dir).join(name),
                "a system directory",
            ) {
                return search;
            }
        }
        search
    }

    /// Whether the loader stops at this file; a bad one too ends its search (ld.so(8)).
    fn consider(&self, search: &mut Search, path: &Path, via: &str) -> bool {
        match self.library(path, via) {
            Ok(library) => {
                if let Err(ElfFault::Machine(machine)) = library.elf {
                    let passed = (path.to_owned(), Passed::Machine(machine));
                    search.passed.push(passed);
                    return false;
                }
                search.found = Some(library);
                true
            }
            Err(Absent::Missing) => false,
            Err(absent) => {
                search
                    .passed
                    .push((path.to_owned(), Passed::Absent(absent)));
                false
            }
        }
    }

    /// Reads a file as a library.
    pub(crate) fn library(&self, path: &Path, via: &str) -> Result<Library, Absent> {
        let real = self.root.real(path)?;
        let file = self.root.open(path)?;
        Ok(Library {
            path: path.to_owned(),
            real,
            via: via.to_owned(),
            elf: elf::read(&file, self.machine),
        })
    }

    /// The search path that a library has for what it needs.
    pub(crate) fn runpath(library: &Library) -> Vec<String> {
        let origin = library.real.parent().unwrap_or_else(|| Path::new("/"));
        let origin = origin.to_string_lossy();
        let dirs = library.elf.as_ref().map_or(&[][..], |elf| &elf.runpath);
        let expand = |dir: &String| {
            dir.replace("${ORIGIN}", &origin)
                .replace("$ORIGIN", &origin)
        };
        dirs.iter().map(expand).collect()
    }

    /// All that `library` needs and gets, with what those need.
    pub(crate) fn needed(&self, library: &Library) -> Vec<Library> {
        let mut all = vec![library.clone()];
        let mut seen = BTreeSet::new();
        let mut at = 0;
        while let Some(library) = all.get(at).cloned() {
            at += 1;
            let Ok(elf) = &library.elf else { continue };
            let runpath = Self::runpath(&library);
            for name in &elf.needed {
                if seen.len() < LIBRARIES_MAX && seen.insert(name.clone()) {
                    all.extend(self.search(name, &runpath).found);
                }
            }
        }
        all.split_off(1)
    }

    /// What `library` and all that it needs do not find.
    pub(crate) fn unmet(&self, library: &Library) -> Vec<Unmet> {
        let mut todo = VecDeque::from([library.clone()]);
        let mut seen = BTreeSet::new();
        let mut unmet = Vec::new();
        while let Some(library) = todo.pop_front() {
            let Ok(elf) = &library.elf else { continue };
            let runpath = Self::runpath(&library);
            for name in &elf.needed {
                let is_system = SYSTEM.iter().any(|start| name.starts_with(start));
                let search = self.search(name, &runpath);
                let Some(found) = search.found else {
                    if !is_system && seen.insert(name.clone()) {
                        unmet.push(Unmet::Library {
                            name: name.clone(),
                            by: library.path.clone(),
                            passed: search.passed,
                            places: search.places,
                        });
                    }
                    continue;
                };
                if let Err(fault) = &found.elf {
                    if seen.insert(name.clone()) {
                        let (at, by) = (found.path.clone(), library.path.clone());
                        let fault = fault.clone();
                        unmet.push(Unmet::Damaged { at, fault, by });
                    }
                    continue;
                }
                unmet.extend(unmet_versions(&library, name, &found));
                if seen.len() < LIBRARIES_MAX && seen.insert(name.clone()) {
                    todo.push_back(found);
                }
            }
        }
        unmet
    }
}

/// An empty entry of a search path is the directory that is worked in (ld.so(8)).
fn entry(dir: &str) -> &Path {
    Path::new(if dir.is_empty() { "." } else { dir })
}

/// Versions that `library` wants of `name` and `found` does not define.
fn unmet_versions(library: &Library, name: &str, found: &Library) -> Vec<Unmet> {
    let (Ok(wants), Ok(has)) = (&library.elf, &found.elf) else {
        return Vec::new();
    };
    let wanted = wants.wants.iter().filter(|(file, _)| file == name);
    let unmet = wanted.filter(|(_, version)| !has.defines.contains(version));
    let told = unmet.map(|(_, version)| Unmet::Version {
        version: version.clone(),
        at: found.path.clone(),
        by: library.path.clone(),
    });
    told.collect()
}

/// The cache that ldconfig(8) writes: a header, entries, strings; offsets are from the header.
fn read_cache(root: &Root) -> Option<BTreeMap<String, PathBuf>> {
    let mut bytes = Vec::new();
    let file = root.open(Path::new(CACHE)).ok()?;
    file.take(CACHE_MAX).read_to_end(&mut bytes).ok()?;
    // An older format may stand before it.
    let at = bytes
        .windows(CACHE_MAGIC.len())
        .position(|w| w == CACHE_MAGIC)?;
    let cache = bytes.get(at..)?;
    let word = |at: usize| {
        let field = cache.get(at..)?.first_chunk()?;
        usize::try_from(u32::from_le_bytes(*field)).ok()
    };
    let text = |at: usize| {
        let rest = cache.get(at..)?;
        let end = rest.iter().position(|byte| *byte == 0)?;
        Some(String::from_utf8_lossy(&rest[..end]).into_owned())
    };
    let count = word(CACHE_MAGIC.len())?.min(bytes.len() / CACHE_ENTRY);
    let mut libraries = BTreeMap::new();
    for entry in 0..count {
        let at = CACHE_HEAD + entry * CACHE_ENTRY;
        let (name, path) = (text(word(at + 4)?)?, text(word(at + 8)?)?);
        libraries.entry(name).or_insert_with(|| PathBuf::from(path));
    }
    Some(libraries)
}

/// Directories of `/etc/ld.so.conf` and of the files that it includes.
fn configured(root: &Root) -> Vec<String> {
    let mut dirs = Vec::new();
    let included = root.names("/etc/ld.so.conf.d");
    let included = included.iter().filter(|name| name.ends_with(".conf"));
    let included = included.map(|name| Path::new("/etc/ld.so.conf.d").join(name));
    for file in included.chain([PathBuf::from("/etc/ld.so.conf")]) {
        let text = root.text(&file).unwrap_or_default();
        let lines = text
            .lines()
            .map(|line| line.split('#').next().unwrap_or("").trim());
        dirs.extend(
            lines
                .filter(|line| line.starts_with('/'))
                .map(str::to_owned),
        );
    }
    dirs
}

#[cfg(test)]
mod tests {
    use super::{Loader, Root};
    use crate::doctor::facts::elf::{AARCH64, X86_64};

    #[test]
    fn this_system_finds_its_c_library() {
        let root = Root::new("/");
        let machine = if cfg!(target_arch = "aarch64") {
            AARCH64
        } else {
            X86_64
        };
        let loader = Loader::new(&root, machine, "/nowhere");
        let search = loader.search("libc.so.6", &[]);
        let found = search.found.unwrap();
        assert!(found.elf.is_ok() && loader.has_cache(), "{found:?}");
        assert_eq!(search.places[0], "/nowhere (LD_LIBRARY_PATH)");
        assert_eq!(loader.unmet(&found), []);
        assert!(loader.search("libno-such.so", &[]).found.is_none());
    }

    #[test]
    fn a_damaged_cache_is_no_cache() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("etc")).unwrap();
        let mut bytes = b"glibc-ld.so.cache1.1".to_vec();
        bytes.extend([0xff; 60]);
        std::fs::write(dir.path().join("etc/ld.so.cache"), bytes).unwrap();
        let root = Root::new(dir.path());
        assert!(!Loader::new(&root, X86_64, "").has_cache());
    }
}
