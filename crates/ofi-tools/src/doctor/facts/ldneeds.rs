//! All that a library needs, in the order in which the loader gets it: what it needs itself, then what those need.
//! A name that was loaded before, for whomever, is taken again.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::elf::ElfFault;
use super::ldso::{Library, Loader, Passed, Paths, Search};

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

    /// The file that is at fault.
    pub(crate) fn at(&self) -> Option<&Path> {
        match self {
            Self::Library { .. } => None,
            Self::Version { at, .. } | Self::Damaged { at, .. } => Some(at),
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

/// A library that is loaded, with the names that it is known by.
struct Loaded {
    library: Library,
    paths: Paths,
    names: Vec<String>,
}

impl Loaded {
    fn new(library: Library, paths: Paths, name: &str) -> Self {
        let soname = library.elf.as_ref().ok().and_then(|elf| elf.soname.clone());
        Self {
            names: soname.into_iter().chain([name.to_owned()]).collect(),
            library,
            paths,
        }
    }
}

/// Who needs what, by its place among all that are loaded, and what came of it.
struct Need {
    by: usize,
    name: String,
    at: Result<usize, Box<Search>>,
}

impl Loader<'_> {
    /// All that is loaded for `library`, itself the first, and who needs what of it; `above` are the search paths of
    /// who has it loaded.
    fn walk(&self, library: &Library, above: &Paths) -> (Vec<Loaded>, Vec<Need>) {
        let paths = self.paths(library, above);
        let mut loaded = vec![Loaded::new(library.clone(), paths, "")];
        let mut needs = Vec::new();
        let mut by = 0;
        while let Some(Loaded { library, paths, .. }) = loaded.get(by) {
            let (library, paths) = (library.clone(), paths.clone());
            let needed = library.elf.as_ref().map(|elf| elf.needed.as_slice());
            for needed in needed.unwrap_or_default() {
                let name = self.expand(needed, &library);
                let at = self.get(&mut loaded, &name, &paths);
                needs.push(Need { by, name, at });
            }
            by += 1;
        }
        (loaded, needs)
    }

    /// The place of what is loaded under a name, loaded now if it was not.
    fn get(
        &self,
        loaded: &mut Vec<Loaded>,
        name: &str,
        paths: &Paths,
    ) -> Result<usize, Box<Search>> {
        let known = |loaded: &Loaded| loaded.names.iter().any(|known| known == name);
        if let Some(at) = loaded.iter().position(known) {
            return Ok(at);
        }
        let mut search = self.search(name, paths);
        let Some(found) = search.found.take().filter(|_| loaded.len() < LIBRARIES_MAX) else {
            return Err(Box::new(search));
        };
        // One file is one library, by whatever name.
        if let Some(at) = loaded
            .iter()
            .position(|other| other.library.real == found.real)
        {
            loaded[at].names.push(name.to_owned());
            return Ok(at);
        }
        let own = self.paths(&found, paths);
        loaded.push(Loaded::new(found, own, name));
        Ok(loaded.len() - 1)
    }

    /// All that `library` needs and gets, with what those need.
    pub(crate) fn needed(&self, library: &Library, above: &Paths) -> Vec<Library> {
        let (loaded, _) = self.walk(library, above);
        loaded
            .into_iter()
            .skip(1)
            .map(|loaded| loaded.library)
            .collect()
    }

    /// What `library` and all that it needs do not find.
    pub(crate) fn unmet(&self, library: &Library, above: &Paths) -> Vec<Unmet> {
        let (loaded, needs) = self.walk(library, above);
        let mut told = BTreeSet::new();
        let mut unmet = Vec::new();
        for Need { by, name, at } in needs {
            let by = &loaded[by].library;
            let is_system = SYSTEM.iter().any(|start| name.starts_with(start));
            match at.map(|at| &loaded[at].library) {
                // What cannot be seen may be there.
                Err(search) if !is_system && !search.is_unseen() && told.insert(name.clone()) => {
                    unmet.push(Unmet::Library {
                        name,
                        by: by.path.clone(),
                        passed: search.passed,
                        places: search.places,
                    });
                }
                Err(_) => {}
                Ok(found) => match &found.elf {
                    Err(fault) if told.insert(name.clone()) => unmet.push(Unmet::Damaged {
                        at: found.path.clone(),
                        fault: fault.clone(),
                        by: by.path.clone(),
                    }),
                    Err(_) => {}
                    Ok(_) => unmet.extend(unmet_versions(by, &name, found)),
                },
            }
        }
        unmet
    }
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
