//! What runs that were killed left behind: their directories, and the segments of their processes.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use efa_emu::alive::{Incarnation, is_running};
use efa_emu::stats::Snapshot;

const PREFIX: &str = "ofi-emu-";

/// The name of a run's directory: whose it is stands in it, so there is no moment at which nobody knows.
pub(super) fn name(owner: Incarnation, seed: u64) -> String {
    format!("{PREFIX}{}-{}-{seed}", owner.pid, owner.started)
}

fn owner(name: &str) -> Option<Incarnation> {
    let mut parts = name.strip_prefix(PREFIX)?.split('-');
    let pid = parts.next()?.parse().ok()?;
    let started = parts.next()?.parse().ok()?;
    // Without a third part it is of an earlier version, which had no time of start: not ours to judge.
    parts.next()?;
    Some(Incarnation { pid, started })
}

/// Removes the directories of this user's runs that are over, and segments of dead processes.
pub(super) fn sweep(temporary: &Path, segments: &Path) {
    efa_emu::sweep(segments);
    let Ok(entries) = fs::read_dir(temporary) else {
        return;
    };
    let stale = entries.flatten().filter(|entry| {
        let name = entry.file_name();
        let owner = name.to_str().and_then(owner);
        owner.is_some_and(|owner| !owner.is_alive()) && is_ours(&entry.path())
    });
    for entry in stale {
        if !is_in_use(&entry.path().join("stats")) {
            // Somebody else may be removing it too.
            drop(fs::remove_dir_all(entry.path()));
        }
    }
}

/// A directory of this user, and no link to one.
fn is_ours(path: &Path) -> bool {
    let own = fs::metadata("/proc/self").map(|own| own.uid());
    let found = fs::symlink_metadata(path);
    found.is_ok_and(|found| found.is_dir() && own.is_ok_and(|own| own == found.uid()))
}

/// Whether processes of the run outlived it.
fn is_in_use(stats: &Path) -> bool {
    let processes = Snapshot::read_dir(stats).unwrap_or_default();
    processes.iter().any(|process| is_running(process.pid))
}

/// Where segments are, as the provider sees it.
pub(super) fn segments() -> PathBuf {
    std::env::var_os("EFA_EMU_DIR")
        .filter(|dir| !dir.is_empty())
        .map_or_else(|| PathBuf::from("/dev/shm"), PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::{PREFIX, name, owner, sweep};
    use efa_emu::alive::Incarnation;
    use efa_emu::stats::Stats;
    use std::fs;

    #[test]
    fn only_what_is_over_is_removed() {
        let (home, shared) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let own = Incarnation::own();
        let gone = Incarnation { started: 1, ..own };
        assert_eq!(owner(&name(gone, 7)), Some(gone));
        let make = |name: &str| {
            let dir = home.path().join(name);
            fs::create_dir_all(dir.join("stats")).unwrap();
            fs::write(dir.join("file"), "x").unwrap();
            dir
        };
        let (over, running) = (make(&name(gone, 1)), make(&name(own, 2)));
        // A process of this one outlived it: this test.
        let outlived = make(&name(gone, 3));
        let stats = Stats::create(Some(&outlived.join("stats")), "0", 1, (1, 0)).unwrap();
        let others = [
            make(&format!("{PREFIX}mine")),
            make(&format!("{PREFIX}1-2")),
            make("something"),
        ];
        let link = home.path().join(name(gone, 4));
        std::os::unix::fs::symlink(home.path().join("something"), &link).unwrap();
        sweep(home.path(), shared.path());
        assert!(!over.exists());
        assert!(running.exists() && outlived.exists());
        assert!(others.iter().all(|dir| dir.join("file").exists()));
        assert!(link.is_symlink());
        drop(stats);
    }
}
