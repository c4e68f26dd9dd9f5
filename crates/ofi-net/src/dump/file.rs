//! The files of one process in the directory of dumps: bounded in number, each whole or not there.

use super::{Dump, FILE_PREFIX, TRIGGER};
use crate::shared;
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
    /// The file that asks: looked for every second, so that its name is made once.
    trigger: PathBuf,
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
        Ok(Self {
            dir: dir.to_owned(),
            trigger: dir.join(TRIGGER),
            stem: stem(host, std::process::id()),
            next: 1,
        })
    }

    /// When the trigger last changed, nanoseconds since 1970 on the clock of the file system.
    pub(crate) fn triggered_ns(&self) -> Option<u64> {
        changed_ns(&self.trigger)
    }

    /// Asks the other processes for a dump, unless somebody did so within `within`.
    ///
    /// # Errors
    /// Nobody can be asked: something else is under that name.
    pub(crate) fn trigger(&self, within: Duration) -> io::Result<()> {
        let changed = shared::changed(&self.trigger);
        let age = changed.map(|at| SystemTime::now().duration_since(at).unwrap_or_default());
        if age.is_some_and(|age| age < within) {
            return Ok(());
        }
        let asked = shared::touch(&self.trigger, format!("{}\n", self.stem).as_bytes());
        asked.map_err(|error| io::Error::new(error.kind(), format!("{TRIGGER}: {error}")))
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

/// Beginning of the names of a process's dumps; `-`, a number and `.json` follow.
#[must_use]
pub fn stem(host: &str, pid: u32) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || c == '.' {
            c
        } else {
            '_'
        }
    };
    let host: String = host.chars().take(64).map(plain).collect();
    format!("{FILE_PREFIX}{host}-{pid}")
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

/// When a trigger last changed, nanoseconds since 1970 on the clock of its file system; `None`: it is not there,
/// or is no file.
#[must_use]
pub fn changed_ns(trigger: &Path) -> Option<u64> {
    let since = shared::changed(trigger)?.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since.as_nanos()).ok()
}
