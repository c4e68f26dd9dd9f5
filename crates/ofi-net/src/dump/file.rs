//! The files of one process in the directory of dumps: bounded in number, each whole or not there.

use super::{Dump, FILE_PREFIX, TRIGGER};
use core::time::Duration;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Files of a process: the one of its start, and those that follow; then the last is replaced by each
/// newer one.
const NUMBERS_MAX: u32 = 8;

/// The directory, as one process uses it.
#[derive(Debug)]
pub(crate) struct Files {
    dir: PathBuf,
    /// Beginning of the names of its dumps.
    stem: String,
    next: u32,
}

impl Files {
    /// Makes the directory if it is not there.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) fn open(dir: &Path, host: &str) -> io::Result<Self> {
        fs::create_dir_all(dir)?;
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() || c == '.' {
                c
            } else {
                '_'
            }
        };
        let host: String = host.chars().take(64).map(plain).collect();
        Ok(Self {
            dir: dir.to_owned(),
            stem: format!("{FILE_PREFIX}{host}-{}", std::process::id()),
            next: 1,
        })
    }

    /// When the trigger last changed, nanoseconds since 1970 on the clock of the file system.
    pub(crate) fn triggered_ns(&self) -> Option<u64> {
        changed_ns(&fs::metadata(self.dir.join(TRIGGER)).ok()?)
    }

    /// Asks the other processes for a dump, unless somebody did so within `within`.
    pub(crate) fn trigger(&self, within: Duration) {
        let path = self.dir.join(TRIGGER);
        let changed = fs::metadata(&path).and_then(|meta| meta.modified());
        let age = changed.map(|at| SystemTime::now().duration_since(at).unwrap_or_default());
        if age.is_ok_and(|age| age < within) {
            return;
        }
        // Written to, so that its time is the file system's. Best effort: who cannot ask still tells of
        // itself.
        let _asked = fs::write(path, format!("{}\n", self.stem)).is_ok();
    }

    /// The inode of the directory; 0 if that cannot be said.
    pub(crate) fn inode(&self) -> u64 {
        fs::metadata(&self.dir).map_or(0, |meta| meta.ino())
    }

    /// Writes a dump; `first`: it is that of the start, which has a place of its own.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn write(&mut self, dump: &Dump, first: bool) -> io::Result<PathBuf> {
        let number = if first { 0 } else { self.next };
        let path = self.dir.join(format!("{}-{number}.json", self.stem));
        let mut bytes = serde_json::to_vec_pretty(dump)?;
        bytes.push(b'\n');
        replace(&path, &bytes)?;
        if !first {
            self.next = (self.next + 1).min(NUMBERS_MAX - 1);
        }
        Ok(path)
    }
}

/// Puts `bytes` under a name in one step: who reads finds all of them, or what was there before.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(".new");
    let fresh = PathBuf::from(fresh);
    // Left by somebody with our process id who is gone; a link is not followed.
    let _removed = fs::remove_file(&fresh).is_ok();
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&fresh);
    let written = made.and_then(|mut file: File| file.write_all(bytes));
    let renamed = written.and_then(|()| fs::rename(&fresh, path));
    if renamed.is_err() {
        let _removed = fs::remove_file(&fresh).is_ok();
    }
    renamed
}

fn changed_ns(meta: &fs::Metadata) -> Option<u64> {
    let since = meta.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since.as_nanos()).ok()
}
