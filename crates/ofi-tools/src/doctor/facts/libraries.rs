//! The libraries of a job on a host: plugin, libfabric, NCCL, as the loader would find them.

use std::path::{Path, PathBuf};

use super::elf::{AARCH64, ElfFault, X86_64};
use super::fabric::{Bounds, is_of_libfabric};
use super::ldneeds::Unmet;
use super::ldso::{Library, Loader, Passed, Paths, Search};
use super::packages::{self, Packages};
use super::root::Root;
use super::settings::Settings;
use super::version::Version;
use super::{Side, named, nccl};

/// Where installers put plugins, and libfabric.
const PLUGIN_DIRS: [&str; 9] = [
    "/opt/amazon/ofi-nccl/lib",
    "/opt/amazon/ofi-nccl/lib64",
    "/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu",
    "/opt/amazon/ofi-nccl/lib/aarch64-linux-gnu",
    "/opt/amazon/aws-ofi-nccl/lib",
    "/opt/amazon/aws-ofi-nccl/lib64",
    "/opt/aws-ofi-nccl/lib",
    "/opt/aws/neuron/lib",
    "/usr/local/lib",
];
const LIBFABRIC_DIRS: [&str; 2] = ["/opt/amazon/efa/lib64", "/opt/amazon/efa/lib"];
/// The file that plugins look for.
pub(crate) const LIBFABRIC: &str = "libfabric.so.1";
/// Variables of this project's plugins that name a libfabric, the first first.
pub(crate) const LIBFABRIC_PATH: [&str; 2] = ["OFI_NCCL_LIBFABRIC_PATH", "OFI_LIBFABRIC_PATH"];
/// The EFA provider as a file of its own.
const EFA_PROVIDER: &str = "libefa-fi.so";

/// All of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Libraries {
    /// A search for each name that is asked for, up to the first that finds what can be loaded.
    pub(crate) plugin: Vec<Search>,
    /// Which of them found it.
    taken: Option<usize>,
    /// What the plugin needs and does not get.
    pub(crate) plugin_unmet: Vec<Unmet>,
    /// Plugins where nobody looks for them.
    pub(crate) elsewhere: Vec<PathBuf>,
    /// Plugins on the path whose names NCCL asks for only with `NCCL_NET_PLUGIN`: what is to be set, and the file.
    pub(crate) unasked: Vec<(String, PathBuf)>,
    /// Where nothing is found: what would be, were `NCCL_NET_PLUGIN` not set.
    pub(crate) unset: Option<PathBuf>,
    /// The plugin found is linked with libfabric: the loader chooses which, and no variable of ours.
    pub(crate) is_linked: bool,
    /// The plugin found uses no libfabric.
    pub(crate) is_foreign: bool,
    /// Other plugins that do: of `unasked`, `others` and `elsewhere`.
    pub(crate) of_libfabric: Vec<PathBuf>,
    /// Other plugins that would be found if the first were not there.
    pub(crate) others: Vec<PathBuf>,
    /// Of `elsewhere`, those that ldconfig(8) would bring into the cache.
    pub(crate) uncached: Vec<PathBuf>,
    /// libfabric, by the settings or the loader's rules.
    pub(crate) libfabric: Search,
    pub(crate) libfabric_unmet: Vec<Unmet>,
    /// One of an installer's, where none is found.
    pub(crate) libfabric_elsewhere: Option<PathBuf>,
    /// Searches for the tuner that is named, where it is not found.
    pub(crate) tuner: Vec<Search>,
    /// Entries of `FI_PROVIDER_PATH` that have no provider, and why.
    pub(crate) without_providers: Vec<(PathBuf, &'static str)>,
    /// Whether that libfabric has EFA's provider, built in or beside it.
    pub(crate) has_efa_provider: bool,
}

impl Libraries {
    /// Looks for all of them; versions go to `packages`.
    pub(crate) fn find(
        root: &Root,
        settings: &Settings,
        (side, nccl_version): (Side, Option<Version>),
        packages: &mut Packages,
    ) -> Self {
        let loader = loader(root, settings);
        let nccl = loader.search("libnccl.so.2", &Paths::default()).found;
        packages.nccl = nccl_version.or_else(|| packages::nccl(root, nccl.as_ref()?));
        // The path in the library that asks counts, and for plugins that is NCCL.
        let nobody = Paths::default();
        let asker = nccl.as_ref().map(|nccl| loader.paths(nccl, &nobody));
        let asker = asker.unwrap_or_default();
        let names = match side {
            Side::Nccl => nccl::files(packages.nccl, settings.value("NCCL_NET_PLUGIN")),
            Side::Neuron => vec![nccl::NEURON_FILE.to_owned()],
        };
        let (plugin, taken) = plugin(&loader, &names, &asker);
        let found = loaded(&plugin, taken);
        let is_linked = found.is_some_and(is_linked);
        let linked = found
            .filter(|_| is_linked)
            .map(|at| loader.paths(at, &asker));
        let libfabric = libfabric(&loader, settings, linked.as_ref());
        packages.libfabric =
            (libfabric.found.as_ref()).and_then(|at| packages::libfabric(root, at));
        let file = libfabric.found.as_ref().and_then(|at| at.elf.as_ref().ok());
        packages.libfabric_bounds = file.and_then(Bounds::of);
        let elsewhere = elsewhere(&loader, side, found);
        let others: Vec<PathBuf> = found.map(|at| others(&loader, at)).unwrap_or_default();
        let unasked = match side {
            Side::Nccl => unasked(&loader, packages.nccl),
            Side::Neuron => Vec::new(),
        };
        let tuner = match side {
            Side::Nccl => named::tuner(&loader, settings, (packages.nccl, &asker)),
            Side::Neuron => Vec::new(),
        };
        let named = unasked.iter().map(|(_, file)| file.clone()).collect();
        let is_set = side == Side::Nccl && settings.filled("NCCL_NET_PLUGIN").is_some();
        let is_foreign = found.is_some_and(|at| at.elf.is_ok() && !is_of_libfabric(&loader, at));
        let unmet = unmet(&loader, (found, libfabric.found.as_ref()), &asker);
        let at_fault = unmet.0.iter().chain(&unmet.1).filter_map(Unmet::at);
        let at_fault: Vec<&Path> = at_fault.chain(damaged(&libfabric)).collect();
        packages.look_up(root, &at_fault);
        Self {
            plugin_unmet: unmet.0,
            libfabric_unmet: unmet.1,
            libfabric_elsewhere: (libfabric.found.is_none())
                .then(|| installed(root))
                .flatten(),
            unset: (is_set && found.is_none())
                .then(|| without_name(&loader, packages.nccl, &asker))
                .flatten(),
            of_libfabric: match is_foreign {
                true => of_libfabric(&loader, [&named, &others, &elsewhere]),
                false => Vec::new(),
            },
            tuner,
            without_providers: named::without_providers(root, settings),
            is_linked,
            is_foreign,
            others,
            uncached: uncached(&loader, &elsewhere),
            unasked,
            has_efa_provider: (libfabric.found.as_ref())
                .is_some_and(|at| has_efa_provider(root, settings, at)),
            elsewhere,
            taken,
            plugin,
            libfabric,
        }
    }

    /// The plugin that would be loaded; where none would, the first that was tried.
    pub(crate) fn loaded(&self) -> Option<&Library> {
        loaded(&self.plugin, self.taken)
    }

    /// Files of the right name that the loader passed over.
    pub(crate) fn passed(&self) -> impl Iterator<Item = &(PathBuf, Passed)> {
        self.plugin.iter().flat_map(|search| &search.passed)
    }
}

/// A search for each name, up to the first that finds what ends it, and the place of that one.
fn plugin(loader: &Loader<'_>, names: &[String], asker: &Paths) -> (Vec<Search>, Option<usize>) {
    let mut searches: Vec<Search> = Vec::new();
    for name in names {
        let search = loader.search(name, asker);
        let found = search.found.as_ref();
        let is_taken = found.is_some_and(|at| ends_search(loader, at, asker));
        searches.push(search);
        if is_taken {
            let taken = searches.len() - 1;
            return (searches, Some(taken));
        }
    }
    (searches, None)
}

fn loaded(plugin: &[Search], taken: Option<usize>) -> Option<&Library> {
    let taken = taken.and_then(|index| plugin.get(index)?.found.as_ref());
    taken.or_else(|| plugin.iter().find_map(|search| search.found.as_ref()))
}

/// Of a process with these settings.
fn loader<'r>(root: &'r Root, settings: &Settings) -> Loader<'r> {
    let path = settings.exported("LD_LIBRARY_PATH");
    let preload = settings.exported("LD_PRELOAD");
    Loader::new(root, machine(root), path).with_preload(preload)
}

/// The version of the NCCL that a process with this environment loads, by its file.
pub(crate) fn nccl_version(root: &Root, environment: &Settings) -> Option<Version> {
    packages::nccl(
        root,
        loader(root, environment)
            .search("libnccl.so.2", &Paths::default())
            .found
            .as_ref()?,
    )
}

/// Whether the loader takes a file, or dies of it: else whoever asks goes on with its next name.
fn ends_search(loader: &Loader<'_>, library: &Library, asker: &Paths) -> bool {
    match &library.elf {
        Ok(_) => loader.unmet(library, asker).is_empty(),
        Err(ElfFault::Cut { .. }) => true,
        Err(ElfFault::NotElf | ElfFault::Program | ElfFault::Machine(_) | ElfFault::Damaged(_)) => {
            false
        }
    }
}

/// By which loader the host has.
fn machine(root: &Root) -> u16 {
    let has = |file: &str| root.has(file);
    if has("/lib64/ld-linux-x86-64.so.2") {
        X86_64
    } else if has("/lib/ld-linux-aarch64.so.1") || cfg!(target_arch = "aarch64") {
        AARCH64
    } else {
        X86_64
    }
}

/// What the plugin lacks, and what libfabric does.
fn unmet(
    loader: &Loader<'_>,
    (plugin, libfabric): (Option<&Library>, Option<&Library>),
    asker: &Paths,
) -> (Vec<Unmet>, Vec<Unmet>) {
    let of = |at: Option<&Library>| at.map(|at| loader.unmet(at, asker)).unwrap_or_default();
    let mut unmet = apart(of(plugin), of(libfabric));
    // What is wrong with libfabric's own file is told of libfabric.
    let own = libfabric.map(|at| at.path.as_path());
    (unmet.0).retain(|unmet| !matches!(unmet, Unmet::Damaged { at, .. } if own == Some(at)));
    unmet
}

/// The file that was found, where it is no library that loads.
fn damaged(search: &Search) -> Option<&Path> {
    let found = search.found.as_ref().filter(|found| found.elf.is_err());
    found.map(|found| found.path.as_path())
}

/// What the plugin does not get, and what libfabric does not: each is told of one of them, which is libfabric
/// for all that a plugin lacks through it.
fn apart(mut plugin: Vec<Unmet>, mut libfabric: Vec<Unmet>) -> (Vec<Unmet>, Vec<Unmet>) {
    plugin.retain(|unmet| !libfabric.contains(unmet));
    libfabric.retain(|unmet| {
        let name = unmet.library();
        name.is_none() || plugin.iter().all(|other| other.library() != name)
    });
    (plugin, libfabric)
}

/// What is loaded when no plugin is named.
fn without_name(loader: &Loader<'_>, nccl: Option<Version>, asker: &Paths) -> Option<PathBuf> {
    let names = nccl::files(nccl, None);
    let found = names
        .iter()
        .find_map(|name| loader.search(name, asker).found)?;
    ends_search(loader, &found, asker).then_some(found.path)
}

fn is_linked(plugin: &Library) -> bool {
    let needed = plugin.elf.as_ref().map(|elf| elf.needed.as_slice());
    let needed = needed.unwrap_or_default();
    needed.iter().any(|name| name == LIBFABRIC)
}

/// Those that use libfabric, each once.
fn of_libfabric(loader: &Loader<'_>, lists: [&Vec<PathBuf>; 3]) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = Vec::new();
    for file in lists.into_iter().flatten() {
        let library = loader.library(file, "");
        let is_one = |library: &Library| library.elf.is_ok() && is_of_libfabric(loader, library);
        if !files.contains(file) && library.is_ok_and(|library| is_one(&library)) {
            files.push(file.clone());
        }
    }
    files
}

/// As our plugin does it, or as the loader does it for a plugin that is `linked` with libfabric: it reads none
/// of our variables.
fn libfabric(loader: &Loader<'_>, settings: &Settings, linked: Option<&Paths>) -> Search {
    let named = LIBFABRIC_PATH.iter().find_map(|name| settings.filled(name));
    if let Some(named) = named.filter(|_| linked.is_none()) {
        let inside = Path::new(named).join(LIBFABRIC);
        let inside = loader.search(&inside.to_string_lossy(), &Paths::default());
        if inside.found.is_some() {
            return inside;
        }
        // As dlopen(3): a name without a slash is looked for.
        return loader.search(named, &Paths::default());
    }
    let nobody = Paths::default();
    let mut search = loader.search(LIBFABRIC, linked.unwrap_or(&nobody));
    if linked.is_none() {
        for dir in LIBFABRIC_DIRS {
            if search.found.is_some() {
                break;
            }
            let file = format!("{dir}/{LIBFABRIC}");
            search.places.push(dir.to_owned());
            search.found = loader.search(&file, &Paths::default()).found;
        }
    }
    search
}

/// libfabric where its installer puts it.
fn installed(root: &Root) -> Option<PathBuf> {
    let files = LIBFABRIC_DIRS.iter();
    let mut files = files.map(|dir| Path::new(dir).join(LIBFABRIC));
    files.find(|file| root.has(file))
}

fn has_efa_provider(root: &Root, settings: &Settings, libfabric: &Library) -> bool {
    let needed = libfabric.elf.as_ref().map(|elf| elf.needed.as_slice());
    if needed.is_ok_and(|needed| needed.iter().any(|name| name.starts_with("libefa.so"))) {
        return true;
    }
    let beside = libfabric.real.parent().map(|dir| dir.join("libfabric"));
    let paths = settings.filled("FI_PROVIDER_PATH").unwrap_or_default();
    let paths = paths
        .split(':')
        .map(|dir| PathBuf::from(dir.trim_start_matches(['@', '+'])));
    let mut dirs = paths.chain(beside);
    dirs.any(|dir| {
        root.has(dir.join(EFA_PROVIDER)) || dir.ends_with(EFA_PROVIDER) && root.has(&dir)
    })
}

fn is_plugin(name: &str, side: Side) -> bool {
    match side {
        Side::Nccl => name.starts_with("libnccl-net") && name.ends_with(".so"),
        Side::Neuron => name == nccl::NEURON_FILE,
    }
}

/// Plugins in the places of installers, other than the one found.
fn elsewhere(loader: &Loader<'_>, side: Side, found: Option<&Library>) -> Vec<PathBuf> {
    let dirs = PLUGIN_DIRS.iter().map(|dir| (*dir).to_owned());
    let mut dirs: Vec<String> = dirs.chain(loader.configured.iter().cloned()).collect();
    dirs.sort();
    dirs.dedup();
    let files = dirs.iter().flat_map(|dir| {
        let names = loader.root().names(dir).into_iter();
        let own = names.filter(|name| is_plugin(name, side));
        own.map(move |name| Path::new(dir).join(name))
            .collect::<Vec<_>>()
    });
    let is_other = |file: &PathBuf| match (found, loader.root().real(file)) {
        (Some(found), Ok(real)) => found.real != real,
        (_, real) => real.is_ok(),
    };
    files.filter(is_other).collect()
}

/// Files of the same name further down the search.
fn others(loader: &Loader<'_>, found: &Library) -> Vec<PathBuf> {
    let Some(name) = found.path.file_name() else {
        return Vec::new();
    };
    let files = loader.library_path().map(|dir| dir.join(name));
    let mut seen = vec![found.real.clone()];
    let mut others = Vec::new();
    for file in files {
        match loader.root().real(&file) {
            Ok(real) if !seen.contains(&real) => {
                seen.push(real);
                others.push(file);
            }
            _ => {}
        }
    }
    others
}

/// `libnccl-net-ofi.so` and the like, where this NCCL has the variable.
fn unasked(loader: &Loader<'_>, nccl: Option<Version>) -> Vec<(String, PathBuf)> {
    let files = loader.library_path().flat_map(|dir| {
        let names = loader.root().names(dir).into_iter();
        names.map(move |name| (name.clone(), dir.join(name)))
    });
    let named = files.filter_map(|(file, at)| {
        let name = file.strip_prefix("libnccl-net-")?.strip_suffix(".so")?;
        let asked = nccl::files(nccl, Some(name)).contains(&file);
        (asked && loader.root().real(&at).is_ok()).then(|| (name.to_owned(), at))
    });
    named.collect()
}

fn uncached(loader: &Loader<'_>, elsewhere: &[PathBuf]) -> Vec<PathBuf> {
    let is_configured = |file: &&PathBuf| {
        let dir = file.parent().map(|dir| dir.to_string_lossy().into_owned());
        dir.is_some_and(|dir| loader.configured.contains(&dir))
    };
    elsewhere.iter().filter(is_configured).cloned().collect()
}
