//! Which file the dynamic loader would take for a name (dlopen(3), ld.so(8)), without loading anything.
//!
//! ```text
//! name with a slash: that file
//! else: what is preloaded
//!       -> where who asks has no DT_RUNPATH: DT_RPATH of who asks, of who had that loaded, and so on
//!       -> LD_LIBRARY_PATH -> DT_RUNPATH of who asks -> /etc/ld.so.cache -> the system's directories
//! ```
//!
//! In each directory `glibc-hwcaps/LEVEL` comes first, for the levels of the processor. What was loaded before under
//! that name is taken again (`ldneeds`). Not looked at: the program's own paths, and the directories of processors
//! that the C library had before 2.37 (`tls`, `x86_64`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::elf::{self, Elf, ElfFault};
use super::ldcache::{self, CACHE};
use super::ldtoken::Tokens;
use super::root::{Absent, Root};

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

    /// Whether it is there is not known.
    pub(crate) const fn is_unseen(&self) -> bool {
        matches!(self, Self::Absent(Absent::Unseen))
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

impl Search {
    /// Where it finds nothing: who looks may not see a place where the job's user may find it.
    pub(crate) fn is_unseen(&self) -> bool {
        self.found.is_none() && self.passed.iter().any(|(_, why)| why.is_unseen())
    }
}

/// Where a library's needed ones are looked for besides `LD_LIBRARY_PATH`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Paths {
    /// `DT_RPATH` of the library, then of whoever had it loaded, and so on: before the variable.
    rpath: Vec<String>,
    /// `DT_RUNPATH`: behind the variable, and `DT_RPATH` of nobody counts.
    runpath: Option<Vec<String>>,
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
    /// Subdirectories that are looked at first.
    levels: Vec<&'static str>,
    tokens: Tokens,
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
        let levels = ldcache::levels(root);
        let tokens = Tokens::of(root, machine);
        let plain = ["/lib64", "/usr/lib64", "/lib", "/usr/lib"];
        Self {
            root,
            machine,
            preload: Vec::new(),
            // What directory the program is in nobody knows.
            env: env.map(|dir| tokens.expand(dir, None)).collect(),
            cache: ldcache::read(root, machine, &levels).unwrap_or_default(),
            configured: ldcache::configured(root),
            levels,
            tokens,
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

    /// Looks for `name`, asked for by a library with these search paths (none: the program).
    pub(crate) fn search(&self, name: &str, paths: &Paths) -> Search {
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
        let rpath = paths.rpath.iter().filter(|_| paths.runpath.is_none());
        let rpath = rpath.map(|dir| (dir.as_str(), "DT_RPATH"));
        let env = self.env.iter().map(|dir| (dir.as_str(), "LD_LIBRARY_PATH"));
        let own = paths.runpath.iter().flatten();
        let own = own.map(|dir| (dir.as_str(), "DT_RUNPATH"));
        for (dir, via) in rpath.chain(env).chain(own) {
            search.places.push(self.place(dir, via));
            if self.consider_in(&mut search, entry(dir), via) {
                return search;
            }
        }
        search.places.push(match self.cache.is_empty() {
            true => format!("{CACHE} (which is not there, or not to be read)"),
            false => CACHE.to_owned(),
        });
        if let Some(path) = self.cache.get(name) {
            if self.consider(&mut search, path, CACHE) {
                return search;
            }
        }
        for dir in &self.system {
            search.places.push((*dir).to_owned());
            if self.consider_in(&mut search, Path::new(dir), "a system directory") {
                return search;
            }
        }
        search
    }

    /// The file of that name in a directory, the one for newer processors first.
    fn consider_in(&self, search: &mut Search, dir: &Path, via: &str) -> bool {
        let name = search.name.clone();
        let files = self.levels.iter().map(|level| dir.join(level).join(&name));
        let mut files = files.chain([dir.join(&name)]);
        files.any(|file| self.consider(search, &file, via))
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

    /// The search paths that a library has for what it needs, with those of who had it loaded.
    pub(crate) fn paths(&self, library: &Library, above: &Paths) -> Paths {
        // Where it was found; links to it do not count.
        let absolute = self.root.working().map(|dir| dir.join(&library.path));
        let origin = absolute.as_ref().and_then(|file| file.parent());
        let origin = match library.path.is_absolute() {
            true => library.path.parent(),
            false => origin,
        };
        let expand = |dirs: &[String]| {
            let dirs = dirs.iter().map(|dir| self.tokens.expand(dir, origin));
            dirs.collect::<Vec<_>>()
        };
        let Ok(elf) = &library.elf else {
            return above.clone();
        };
        match &elf.runpath {
            Some(runpath) => Paths {
                rpath: above.rpath.clone(),
                runpath: Some(expand(runpath)),
            },
            None => {
                let mut rpath = expand(&elf.rpath);
                rpath.extend(above.rpath.iter().cloned());
                Paths {
                    rpath,
                    runpath: None,
                }
            }
        }
    }

    /// What a library needs, as the loader reads the name: one with a slash may have tokens.
    pub(super) fn expand(&self, name: &str, by: &Library) -> String {
        self.tokens.expand(name, by.path.parent())
    }
}

/// An empty entry of a search path is the directory that is worked in (ld.so(8)).
fn entry(dir: &str) -> &Path {
    Path::new(if dir.is_empty() { "." } else { dir })
}

#[cfg(test)]
mod tests {
    use super::{Loader, Paths, Root};
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
        let search = loader.search("libc.so.6", &Paths::default());
        let found = search.found.unwrap();
        assert!(found.elf.is_ok() && loader.has_cache(), "{found:?}");
        assert_eq!(search.places[0], "/nowhere (LD_LIBRARY_PATH)");
        assert_eq!(loader.unmet(&found, &Paths::default()), []);
        assert!(
            loader
                .search("libno-such.so", &Paths::default())
                .found
                .is_none()
        );
    }
}
