//! What happened, for tests to read: operations, bytes and errors of each NIC, and what is open.
//!
//! ```text
//! provider --(relaxed additions)--> NicStats, in a mapped file --> Snapshot of a test or of `ofi emu`
//! ```
//! The file is always up to date, also after the process was killed.

mod counts;
mod file;
mod map;

use core::sync::atomic::{AtomicU64, Ordering};
use std::fs::File;
use std::io;
use std::path::Path;

pub use counts::{NAMES, NicCounts, NicStats, STATUSES};
pub use file::Snapshot;
use map::Mapping;

/// The statistics of this process.
#[derive(Debug)]
pub struct Stats {
    place: Place,
}

/// What is open and of no NIC.
#[derive(Debug, Default)]
#[repr(C)]
pub struct ProcessStats {
    /// Fabrics open now.
    pub fabrics: AtomicU64,
    /// Event queues open now.
    pub eqs: AtomicU64,
}

#[derive(Debug)]
enum Place {
    Heap(Box<[NicStats]>, Box<[AtomicU64]>, ProcessStats),
    File { file: File, nics: Mapping },
}

impl Stats {
    /// Statistics of so many NICs, and of so many rules of a plan, all 0.
    ///
    /// They show in the file `path` (`%p` in its name is the process id), or in a file of their own
    /// in the directory `path`; without a path only this process can read them. `process` and `seed`
    /// are written down with them.
    ///
    /// # Errors
    /// What making or mapping the file gave, with its name.
    pub fn create(
        path: Option<&Path>,
        process: &str,
        seed: u64,
        (nics, rules): (usize, usize),
    ) -> io::Result<Self> {
        let place = match path {
            // Nothing to map for nothing.
            Some(path) if nics > 0 => {
                let file = file::create(path, process, seed, (nics, rules))?;
                let nics = Mapping::new(&file, nics, rules)?;
                Place::File { file, nics }
            }
            _ => Place::Heap(
                (0..nics).map(|_| NicStats::default()).collect(),
                (0..rules).map(|_| AtomicU64::new(0)).collect(),
                ProcessStats::default(),
            ),
        };
        Ok(Self { place })
    }

    /// The numbers of NIC `index`.
    ///
    /// # Panics
    /// When there is no such NIC.
    #[must_use]
    pub fn nic(&self, index: usize) -> &NicStats {
        &self.nics()[index]
    }

    /// The numbers of all NICs.
    #[must_use]
    pub fn nics(&self) -> &[NicStats] {
        match &self.place {
            Place::Heap(nics, ..) => nics,
            Place::File { nics, .. } => nics.nics(),
        }
    }

    /// What is of no NIC.
    #[must_use]
    pub fn process(&self) -> &ProcessStats {
        match &self.place {
            Place::Heap(.., process) => process,
            Place::File { nics, .. } => nics.process(),
        }
    }

    /// Counts that a rule of the plan struck, by its number from 0.
    pub fn strike(&self, rule: usize) {
        let rules = match &self.place {
            Place::Heap(_, rules, _) => rules,
            Place::File { nics, .. } => nics.rules(),
        };
        if let Some(count) = rules.get(rule) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes down that the plan kills this process, so that what it leaves open is no leak.
    ///
    /// # Errors
    /// What writing to the file gave.
    pub fn mark_killed(&self) -> io::Result<()> {
        match &self.place {
            Place::Heap(..) => Ok(()),
            Place::File { file, .. } => file::mark_killed(file),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Snapshot, Stats};
    use core::sync::atomic::Ordering::Relaxed;
    use std::io::ErrorKind;

    #[test]
    fn what_is_counted_can_be_read_by_others() {
        let dir = tempfile::tempdir().unwrap();
        let stats = Stats::create(Some(dir.path()), "rank/3 x", 7, (2, 2)).unwrap();
        stats.nic(1).sends.fetch_add(5, Relaxed);
        stats.nic(1).regions.fetch_add(2, Relaxed);
        stats.nic(0).count_error(13);
        [1, 1, 2].into_iter().for_each(|rule| stats.strike(rule));
        stats.process().fabrics.fetch_add(3, Relaxed);
        stats.process().eqs.fetch_add(4, Relaxed);
        let all = Snapshot::read_dir(dir.path()).unwrap();
        let [seen] = all.as_slice() else {
            panic!("{all:?}");
        };
        assert_eq!((seen.process.as_str(), seen.seed), ("rank_3_x", 7));
        assert_eq!(seen.pid, std::process::id());
        assert_eq!(seen.nics[1], stats.nic(1).counts());
        assert_eq!(seen.total().sends, 5);
        assert_eq!(seen.rules, [0, 2]);
        let left = [
            (None, "fabrics", 3),
            (None, "event queues", 4),
            (Some(1), "regions", 2),
        ];
        assert_eq!(seen.leaks().collect::<Vec<_>>(), left);
        let text = seen.to_string();
        assert!(text.contains("NIC 0: errors 1, status 13: 1"), "{text}");
        assert!(text.contains("NIC 1: sends 5, regions 2"), "{text}");
        stats.mark_killed().unwrap();
        let [killed] = <[Snapshot; 1]>::try_from(Snapshot::read_dir(dir.path()).unwrap()).unwrap();
        assert!(killed.was_killed && killed.leaks().next().is_none());
        assert!(killed.to_string().contains("killed by its plan"));
    }

    #[test]
    fn a_file_can_be_named_after_the_process() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s-%p");
        let stats = Stats::create(Some(&path), "a", u64::MAX, (1, 0)).unwrap();
        stats.nic(0).bytes_in.fetch_add(u64::MAX, Relaxed);
        drop(stats);
        let file = dir.path().join(format!("s-{}", std::process::id()));
        let seen = Snapshot::read(&file).unwrap();
        assert_eq!((seen.seed, seen.nics[0].bytes_in), (u64::MAX, u64::MAX));
        assert!(Snapshot::read_dir(dir.path()).unwrap().is_empty());
    }

    #[test]
    fn without_a_file_they_are_kept_all_the_same() {
        let stats = Stats::create(None, "a", 0, (3, 1)).unwrap();
        stats.nic(2).again.fetch_add(1, Relaxed);
        assert_eq!(stats.nics().len(), 3);
        assert_eq!(stats.nic(2).counts().again, 1);
        assert_eq!(stats.process().eqs.fetch_add(1, Relaxed), 0);
    }

    #[test]
    fn what_is_no_file_of_statistics_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let whole = {
            drop(Stats::create(Some(&path), "a", 0, (2, 1)).unwrap());
            std::fs::read(&path).unwrap()
        };
        assert_eq!(Snapshot::read(&path).unwrap().nics.len(), 2);
        let mut other = whole.clone();
        other[0] = b'E';
        for bytes in [&[], &whole[..100], &whole[..whole.len() - 1], &other] {
            std::fs::write(&path, bytes).unwrap();
            let error = Snapshot::read(&path).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidData);
            assert!(error.to_string().contains("/x"), "{error}");
        }
        let error = Stats::create(Some(&dir.path().join("no/x")), "a", 0, (1, 0)).unwrap_err();
        assert!(error.to_string().contains("no/x"), "{error}");
        let error = Stats::create(Some(&path), "a", 0, (5000, 0)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
}
