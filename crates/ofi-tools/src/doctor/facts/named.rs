//! Files that variables name besides the plugin and libfabric: the tuner, and directories of providers.

use std::path::{Path, PathBuf};

use super::ldso::{Loader, Paths, Search};
use super::root::Root;
use super::settings::Settings;
use super::version::Version;

/// The first NCCL that has `NCCL_TUNER_PLUGIN`, and the first that makes a file name of a name.
const TUNER_FROM: Version = Version::new(2, 19, 0);
const TUNER_NAMES_FROM: Version = Version::new(2, 21, 0);
/// Values that name no file.
const NO_FILE: [&str; 2] = ["none", "STATIC_PLUGIN"];

/// Searches for the tuner that is named, where none of them finds it.
pub(super) fn tuner(
    loader: &Loader<'_>,
    settings: &Settings,
    (nccl, asker): (Option<Version>, &Paths),
) -> Vec<Search> {
    let is = |from: Version| nccl.is_none_or(|version| version >= from);
    let named = settings
        .filled("NCCL_TUNER_PLUGIN")
        .filter(|_| is(TUNER_FROM));
    let is_file = |named: &&str| NO_FILE.iter().all(|none| !none.eq_ignore_ascii_case(named));
    let Some(named) = named.filter(is_file) else {
        return Vec::new();
    };
    let of_name = format!("libnccl-tuner-{named}.so");
    let of_name = Some(of_name).filter(|_| is(TUNER_NAMES_FROM) && !named.contains('/'));
    let names = core::iter::once(named.to_owned()).chain(of_name);
    let searches: Vec<Search> = names.map(|name| loader.search(&name, asker)).collect();
    match searches.iter().all(|search| search.found.is_none()) {
        true => searches,
        false => Vec::new(),
    }
}

/// Entries of `FI_PROVIDER_PATH` that give libfabric no provider, and why.
pub(super) fn without_providers(root: &Root, settings: &Settings) -> Vec<(PathBuf, &'static str)> {
    let paths = settings.filled("FI_PROVIDER_PATH").unwrap_or_default();
    let entries = paths
        .split(':')
        .map(|entry| entry.trim_start_matches(['@', '+']));
    let entries = entries.filter(|entry| !entry.is_empty());
    let bad = entries.filter_map(|entry| {
        let path = Path::new(entry);
        Some((path.to_owned(), fault(root, path)?))
    });
    bad.collect()
}

fn fault(root: &Root, path: &Path) -> Option<&'static str> {
    let is_provider = |name: &str| name.ends_with("-fi.so");
    let Ok(real) = root.real(path) else {
        return Some("it is not there, or not to be read");
    };
    if root.outside(&real).is_dir() {
        let has = root.names(path).iter().any(|name| is_provider(name));
        return (!has).then_some("no file in it is called ..-fi.so");
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    (!is_provider(&name)).then_some("it is neither a directory nor a file called ..-fi.so")
}
