//! What NICs counted themselves since the process started, as a dump has it: a network that loses or repeats packets
//! shows there, and nowhere else.

use crate::stats::hardware;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A NIC with counters of its own (`hw_counters` of sysfs), of which some grew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NicCounters {
    /// Its name in sysfs.
    pub nic: String,
    /// What grew since the process started, by how much, by the driver's own names.
    pub grown: BTreeMap<String, u64>,
}

/// What the NICs of a process had counted when it started.
#[derive(Clone, Debug, Default)]
pub(crate) struct NicsAtStart {
    fs_root: PathBuf,
    nics: Vec<(String, Vec<(String, u64)>)>,
}

impl NicsAtStart {
    /// Reads the counters of these NICs: some dozen small files each.
    pub(crate) fn read(fs_root: &Path, names: &[&str]) -> Self {
        let names: BTreeSet<&str> = names.iter().copied().collect();
        let nics = names
            .into_iter()
            .map(|nic| (nic.to_owned(), hardware(fs_root, nic)));
        Self {
            fs_root: fs_root.to_owned(),
            nics: nics.filter(|(_, counters)| !counters.is_empty()).collect(),
        }
    }

    /// By how much they have grown.
    pub(crate) fn grown(&self) -> Vec<NicCounters> {
        let one = |(nic, before): &(String, Vec<(String, u64)>)| {
            let before: BTreeMap<&str, u64> = before
                .iter()
                .map(|(name, value)| (name.as_str(), *value))
                .collect();
            let grown = hardware(&self.fs_root, nic)
                .into_iter()
                .filter_map(|(name, now)| {
                    let by = now.checked_sub(*before.get(name.as_str())?)?;
                    (by > 0).then_some((name, by))
                });
            let grown: BTreeMap<String, u64> = grown.collect();
            (!grown.is_empty()).then(|| NicCounters {
                nic: nic.clone(),
                grown,
            })
        };
        self.nics.iter().filter_map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_grew_is_told_and_what_is_new_or_went_back_is_not() {
        let root = tempfile::tempdir().unwrap();
        let write = |nic: &str, name: &str, text: &str| {
            let dir = root.path().join("sys/class/infiniband").join(nic);
            let dir = dir.join("ports/1/hw_counters");
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join(name), text).unwrap();
        };
        write("rdmap0s4", "retrans_timeout_events", "5");
        write("rdmap0s4", "tx_bytes", "100");
        write("rdmap0s4", "rx_drops", "7");
        write("rdmap0s5", "tx_bytes", "1");
        let names = ["rdmap0s5", "rdmap0s4", "rdmap0s4", "eth0", ""];
        let start = NicsAtStart::read(root.path(), &names);
        assert_eq!(start.grown(), [], "nothing has happened");
        write("rdmap0s4", "retrans_timeout_events", "17");
        // A driver that was loaded anew, and one that has another name for something.
        write("rdmap0s4", "rx_drops", "0");
        write("rdmap0s4", "new_events", "3");
        write("rdmap0s5", "tx_bytes", "garbage");
        let grown = start.grown();
        assert_eq!(grown.len(), 1, "{grown:?}");
        assert_eq!(grown[0].nic, "rdmap0s4");
        let wanted = [("retrans_timeout_events".to_owned(), 12)];
        assert_eq!(grown[0].grown, BTreeMap::from(wanted));
    }
}
