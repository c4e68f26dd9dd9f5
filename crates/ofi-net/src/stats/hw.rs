//! The counters that a NIC keeps itself: `/sys/class/infiniband/NIC/ports/1/hw_counters`, where there are any.
//! EFA has them; their names differ from driver to driver, so whatever stands there is taken.

use ofi_trace::stats::HW_MAX;
use std::fs;
use std::io::Read as _;
use std::path::Path;

/// Longest name that is kept.
const NAME_BYTES_MAX: usize = 32;

/// Bytes read of a counter.
const TEXT_BYTES_MAX: u64 = 64;

/// The counters of a NIC, by name. Files that hold no number are left out; at most [`HW_MAX`]. A NIC without
/// any has none.
pub(crate) fn read(fs_root: &Path, nic: &str) -> Vec<(String, u64)> {
    if matches!(nic, "" | "." | "..") || nic.contains(['/', '\0']) {
        return Vec::new();
    }
    let dir = fs_root
        .join("sys/class/infiniband")
        .join(nic)
        .join("ports/1/hw_counters");
    let Ok(entries) = fs::read_dir(dir) else {
        return Vec::new();
    };
    let counter = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let fits = name.len() <= NAME_BYTES_MAX && name.bytes().all(|b| b.is_ascii_graphic());
        // How long they are kept by the kernel is a setting, no counter.
        let value = (fits && name != "lifespan").then(|| number(&entry.path()))??;
        Some((name, value))
    };
    let mut counters: Vec<_> = entries.flatten().filter_map(counter).collect();
    counters.sort_unstable();
    counters.truncate(HW_MAX);
    counters
}

fn number(path: &Path) -> Option<u64> {
    // Anything but a plain file could make us wait.
    let is_file = fs::metadata(path).ok()?.is_file();
    let file = is_file.then(|| fs::File::open(path))?.ok()?;
    let mut text = String::new();
    file.take(TEXT_BYTES_MAX).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_taken_and_garbage_is_not() {
        let root = tempfile::tempdir().unwrap();
        let dir = root
            .path()
            .join("sys/class/infiniband/rdmap0s6/ports/1/hw_counters");
        fs::create_dir_all(dir.join("a_directory")).unwrap();
        let long = "x".repeat(40);
        for (name, text) in [
            ("tx_bytes", "12\n"),
            ("retrans_bytes", "18446744073709551615\n"),
            ("lifespan", "10\n"),
            ("empty", ""),
            ("negative", "-1"),
            ("binary", "\u{1}\u{2}"),
            ("long_text", &"9".repeat(100)),
            (&long, "1"),
        ] {
            fs::write(dir.join(name), text).unwrap();
        }
        let found = read(root.path(), "rdmap0s6");
        assert_eq!(
            found,
            [
                ("retrans_bytes".to_owned(), u64::MAX),
                ("tx_bytes".to_owned(), 12)
            ]
        );
        for nic in ["none", "", "..", "../rdmap0s6", "a\0b"] {
            assert_eq!(read(root.path(), nic), [], "{nic}");
        }
        for more in 0..100 {
            fs::write(dir.join(format!("counter_{more}")), "5").unwrap();
        }
        assert_eq!(read(root.path(), "rdmap0s6").len(), HW_MAX);
    }
}
