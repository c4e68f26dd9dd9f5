//! The file of a process: made once a transport, written by every domain, never longer than it is made.

use super::hw;
use super::map::Words;
use crate::error::{Code, NetError};
use crate::trace::{create_new, host_name};
use core::sync::atomic::{Ordering, fence};
use ofi_trace::stats::{
    COMMS_MAX, CommAt, FILE_WORDS, HW_MAX, HeadAt, MAGIC, RAILS_MAX, RailAt, State, Total, VERSION,
    comm_word, hw_word, rail_word, text_words, total_word,
};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Field 22 of `/proc/self/stat`, counted behind the name in parentheses.
const START_TICKS_FIELD: usize = 19;

/// What the file says of its process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct About<'a> {
    /// Where to.
    pub(crate) dir: &'a str,
    /// What stands for `/` where facts are read.
    pub(crate) fs_root: &'a Path,
    /// 0: libnccom-net.so; 1: libnccl-net-ofi.so.
    pub(crate) flavour: u64,
    /// 0: RDMA; 1: SENDRECV.
    pub(crate) protocol: u64,
}

/// One file.
#[derive(Debug)]
pub(crate) struct StatsFile {
    words: Words,
    path: PathBuf,
    fs_root: PathBuf,
    slots: Mutex<Slots>,
}

/// Whose slots are.
#[derive(Debug)]
struct Slots {
    /// Device, rail and NIC of each rail.
    rails: Vec<(usize, usize, String)>,
    /// Those of communicators that are nobody's.
    free: Vec<usize>,
    /// Generations given so far.
    generation: u64,
}

impl StatsFile {
    /// Makes the file, readable by its owner alone, with all the room it will need; its directory too, if that is
    /// not there.
    ///
    /// # Errors
    /// [`Code::StatsFile`]: it cannot be made; nothing of it is left.
    pub(crate) fn create(about: &About<'_>) -> Result<Self, NetError> {
        let host = host_name(about.fs_root);
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() || c == '-' {
                c
            } else {
                '_'
            }
        };
        let in_name: String = host.chars().take(64).map(plain).collect();
        let pid = std::process::id();
        let wanted = Path::new(about.dir).join(format!("ofi-{in_name}-{pid}.stats"));
        let failed = |error: io::Error| {
            let what = format!("{}: {error}", wanted.display());
            let errno = error.raw_os_error().unwrap_or(0);
            NetError::new(Code::StatsFile, what).with_errno(errno)
        };
        std::fs::create_dir_all(about.dir).map_err(failed)?;
        let (file, path) = create_new(&wanted).map_err(failed)?;
        let words = Words::map(&file, FILE_WORDS).map_err(|error| {
            // Ours, and of no use. If it cannot be removed either, the first error says more.
            let _removed = std::fs::remove_file(&path).is_ok();
            failed(error)
        })?;
        let made = Self {
            words,
            path,
            fs_root: about.fs_root.to_owned(),
            slots: Mutex::new(Slots {
                rails: Vec::new(),
                free: (0..COMMS_MAX).rev().collect(),
                generation: 0,
            }),
        };
        made.write_head(about, &host);
        Ok(made)
    }

    fn write_head(&self, about: &About<'_>, host: &str) {
        let now_ms = unix_ms();
        for (at, value) in [
            (HeadAt::Version, VERSION),
            (HeadAt::Words, FILE_WORDS as u64),
            (HeadAt::Rails, RAILS_MAX as u64),
            (HeadAt::Comms, COMMS_MAX as u64),
            (HeadAt::Pid, u64::from(std::process::id())),
            (HeadAt::StartTicks, start_ticks()),
            (HeadAt::Boot, boot()),
            (HeadAt::PidNamespace, pid_namespace()),
            (HeadAt::Opened, now_ms),
            (HeadAt::Updated, now_ms),
            (HeadAt::State, State::Live as u64),
            (HeadAt::Flavour, about.flavour),
            (HeadAt::Protocol, about.protocol),
        ] {
            self.set(at as usize, value);
        }
        self.set_text::<8>(HeadAt::Host as usize, host);
        // Only now is it one.
        self.publish(HeadAt::Magic as usize, MAGIC);
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        // A panic inside leaves out a slot at worst.
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a word.
    pub(super) fn set(&self, at: usize, value: u64) {
        if let Some(word) = self.words.all().get(at) {
            word.store(value.to_le(), Ordering::Relaxed);
        }
    }

    /// Stores a word after all that was stored before it.
    fn publish(&self, at: usize, value: u64) {
        if let Some(word) = self.words.all().get(at) {
            word.store(value.to_le(), Ordering::Release);
        }
    }

    /// Adds to a word: others may do so too.
    pub(super) fn add(&self, at: usize, by: u64) {
        let Some(word) = self.words.all().get(at).filter(|_| by != 0) else {
            return;
        };
        let grown = |old| Some(u64::from_le(old).wrapping_add(by).to_le());
        let _always = word
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown)
            .is_ok();
    }

    pub(super) fn add_total(&self, total: Total, by: u64) {
        self.add(total_word(total), by);
    }

    pub(super) fn set_text<const N: usize>(&self, from: usize, text: &str) {
        for (at, word) in (from..).zip(text_words::<N>(text)) {
            self.set(at, word);
        }
    }

    /// Something was written.
    pub(super) fn updated(&self) {
        self.set(HeadAt::Updated as usize, unix_ms());
    }

    /// The slot of a rail, the same for every domain of its device; `None` when there is no room.
    pub(super) fn rail(&self, device: usize, rail: usize, nic: &str) -> Option<usize> {
        let mut slots = self.slots();
        let known = slots
            .rails
            .iter()
            .position(|(d, r, _)| (*d, *r) == (device, rail));
        if known.is_some() {
            return known;
        }
        let slot = slots.rails.len();
        if slot >= RAILS_MAX {
            self.add(HeadAt::RailsUnseen as usize, 1);
            return None;
        }
        self.set(rail_word(slot, RailAt::Device), device as u64);
        self.set(rail_word(slot, RailAt::Rail), rail as u64);
        self.set_text::<6>(rail_word(slot, RailAt::Nic), nic);
        for (counter, (name, value)) in hw::read(&self.fs_root, nic).into_iter().enumerate() {
            let at = hw_word(slot, counter);
            self.set_text::<4>(at, &name);
            self.set(at + 4, value);
            self.set(at + 5, value);
        }
        self.publish(rail_word(slot, RailAt::Used), 1);
        slots.rails.push((device, rail, nic.to_owned()));
        Some(slot)
    }

    /// A slot for a communicator, with its generation; `None` when all are in use.
    pub(super) fn take_comm(&self, fill: impl FnOnce(usize)) -> Option<usize> {
        self.add(HeadAt::CommsOpen as usize, 1);
        self.add(HeadAt::CommsEver as usize, 1);
        let mut slots = self.slots();
        let Some(slot) = slots.free.pop() else {
            self.add(HeadAt::CommsUnseen as usize, 1);
            return None;
        };
        slots.generation += 1;
        self.set(comm_word(slot, CommAt::Last), slots.generation);
        fence(Ordering::Release);
        fill(slot);
        self.publish(comm_word(slot, CommAt::First), slots.generation);
        Some(slot)
    }

    /// A communicator is closed.
    pub(super) fn give_comm(&self, slot: Option<usize>) {
        self.add(HeadAt::CommsOpen as usize, u64::MAX);
        let Some(slot) = slot else {
            return self.add(HeadAt::CommsUnseen as usize, u64::MAX);
        };
        let mut slots = self.slots();
        self.set(comm_word(slot, CommAt::First), 0);
        self.set(comm_word(slot, CommAt::Last), 0);
        fence(Ordering::Release);
        slots.free.push(slot);
    }

    /// The transport closes: the numbers are final.
    pub(crate) fn end(&self) {
        for (slot, (_, _, nic)) in self.slots().rails.iter().enumerate() {
            let counters = hw::read(&self.fs_root, nic);
            for counter in 0..HW_MAX {
                let at = hw_word(slot, counter);
                let is_it = |name: &str| {
                    (at..)
                        .zip(text_words::<4>(name))
                        .all(|(at, word)| self.get(at) == word)
                };
                if let Some((_, value)) = counters.iter().find(|(name, _)| is_it(name)) {
                    self.set(at + 5, *value);
                }
            }
        }
        self.updated();
        self.publish(HeadAt::State as usize, State::Ended as u64);
    }

    fn get(&self, at: usize) -> u64 {
        let word = self.words.all().get(at);
        word.map_or(0, |word| u64::from_le(word.load(Ordering::Relaxed)))
    }
}

pub(super) fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}

/// When this process started, as `proc_pid_stat(5)` says; 0: it does not.
fn start_ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let behind_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let field = behind_name.split_ascii_whitespace().nth(START_TICKS_FIELD);
    field.and_then(|field| field.parse().ok()).unwrap_or(0)
}

/// The namespace that our process id is of: `pid:[4026531836]`; 0: unknown.
fn pid_namespace() -> u64 {
    let link = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let digits: String = link
        .to_string_lossy()
        .chars()
        .filter(char::is_ascii_digit)
        .collect();
    digits.parse().unwrap_or(0)
}

/// The first 64 bits of the id of this boot; 0: unknown.
fn boot() -> u64 {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = id
        .chars()
        .filter(char::is_ascii_hexdigit)
        .take(16)
        .collect();
    u64::from_str_radix(&digits, 16).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn create(dir: &Path) -> Result<StatsFile, NetError> {
        StatsFile::create(&About {
            dir: dir.to_str().unwrap(),
            fs_root: Path::new("/"),
            flavour: 1,
            protocol: 0,
        })
    }

    #[test]
    fn a_directory_that_is_not_there_is_made() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("not/there");
        let made = [create(&missing).unwrap(), create(&missing).unwrap()];
        let paths = made.each_ref().map(StatsFile::path);
        assert_ne!(paths[0], paths[1]);
        for path in paths {
            assert_eq!(path.parent(), Some(missing.as_path()));
            let mode = std::fs::metadata(path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    #[test]
    fn one_that_cannot_be_made_is_named_and_nothing_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a_file");
        std::fs::write(&file, b"mine").unwrap();
        let error = create(&file.join("below")).unwrap_err();
        assert_eq!(
            (error.code(), error.errno()),
            (Code::StatsFile, -libc::ENOTDIR)
        );
        assert!(error.to_string().contains("a_file/below/ofi-"), "{error}");
        assert_eq!(std::fs::read(&file).unwrap(), b"mine");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
