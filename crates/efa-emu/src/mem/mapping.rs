//! Creating a segment, finding that of a peer, and removing those of processes that died.

use core::ffi::c_void;
use core::ops::Deref;
use core::ptr::NonNull;
use core::sync::atomic::Ordering;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::layout::{MAGIC, Segment};
use super::{presence, room};
use crate::alive::Incarnation;

/// A mapped segment.
#[derive(Debug)]
pub(crate) struct Mapping {
    segment: NonNull<Segment>,
}

// SAFETY: the mapping is shared memory whose every field is an atomic.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Deref for Mapping {
    type Target = Segment;

    fn deref(&self) -> &Segment {
        // SAFETY: mapped with the size of a segment until drop; all bytes are valid atomics.
        unsafe { self.segment.as_ref() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mmap gave this address and length; nothing borrows the segment any more.
        unsafe { libc::munmap(self.segment.as_ptr().cast(), size_of::<Segment>()) };
    }
}

/// The name of a segment's file.
fn path_of(dir: &Path, id: u64) -> PathBuf {
    dir.join(format!("{}{id:016x}", prefix()))
}

/// Names start with whom they belong to: nobody else's are looked at.
fn prefix() -> String {
    // SAFETY: geteuid(2) always succeeds.
    let uid = unsafe { libc::geteuid() };
    format!("efa-emu-{uid}-")
}

/// 64 bits that no other process has.
///
/// # Errors
/// The system has no randomness to give.
pub(crate) fn random() -> io::Result<u64> {
    let mut bytes = [0_u8; 8];
    // SAFETY: getrandom(2): the buffer has that many bytes.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if got == 8 {
        Ok(u64::from_ne_bytes(bytes))
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Creates the segment of this process, which is such a user ([`presence`]), and removes those of the dead.
///
/// # Errors
/// The directory cannot be written, or has no room.
pub(crate) fn create(dir: &Path, user: u32) -> io::Result<(u64, PathBuf, Mapping)> {
    remove_stale(dir);
    let (id, own) = (random()?, Incarnation::own());
    // Whole before it has its name: a peer, or who removes stale ones, never sees half of it.
    let unfinished = dir.join(format!("{}{}", prefix(), unfinished(own)));
    let path = path_of(dir, id);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&unfinished)?;
    let made = file
        .set_len(size_of::<Segment>() as u64)
        .and_then(|()| map(&file))
        .and_then(|mapping| room::of_process(&mapping).map(|()| mapping))
        .inspect(|mapping| {
            mapping.pid.store(own.pid, Ordering::Relaxed);
            mapping.started.store(own.started, Ordering::Relaxed);
            mapping.user.store(user, Ordering::Relaxed);
            mapping.magic.store(MAGIC, Ordering::Release);
        })
        .and_then(|mapping| fs::rename(&unfinished, &path).map(|()| mapping));
    let mapping = made.inspect_err(|_| drop(fs::remove_file(&unfinished)))?;
    Ok((id, path, mapping))
}

/// What the name of a segment ends with until it is whole.
fn unfinished(owner: Incarnation) -> String {
    format!("new-{}-{}", owner.pid, owner.started)
}

/// The reverse.
fn owner_of_unfinished(name: &str) -> Option<Incarnation> {
    let (pid, started) = name.strip_prefix("new-")?.split_once('-')?;
    Some(Incarnation {
        pid: pid.parse().ok()?,
        started: started.parse().ok()?,
    })
}

/// Maps the segment of a peer. `None` if there is none, or nobody's whom we may trust.
pub(crate) fn open(dir: &Path, id: u64) -> Option<Mapping> {
    open_file(&path_of(dir, id))
}

fn open_file(path: &Path) -> Option<Mapping> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)
        .ok()?;
    let metadata = file.metadata().ok()?;
    // SAFETY: geteuid(2) always succeeds.
    let own = unsafe { libc::geteuid() };
    // A shorter file would be a signal at the first touch beyond its end.
    if metadata.uid() != own || metadata.len() != size_of::<Segment>() as u64 {
        return None;
    }
    let mapping = map(&file).ok()?;
    (mapping.magic.load(Ordering::Acquire) == MAGIC).then_some(mapping)
}

/// Who owns a segment.
pub(crate) fn owner(segment: &Segment) -> Incarnation {
    Incarnation {
        pid: segment.pid.load(Ordering::Relaxed),
        started: segment.started.load(Ordering::Relaxed),
    }
}

fn map(file: &File) -> io::Result<Mapping> {
    let len = size_of::<Segment>();
    // SAFETY: a new shared mapping of a file of that length, at an address of the kernel's choice.
    let address = unsafe {
        libc::mmap(
            core::ptr::null_mut(),
            len,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_NORESERVE,
            file.as_raw_fd(),
            0,
        )
    };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    not_dumped(address, len);
    let segment = NonNull::new(address.cast::<Segment>());
    segment
        .map(|segment| Mapping { segment })
        .ok_or_else(|| io::Error::other("mapped at address 0"))
}

/// Gigabytes of nothing do not belong into a core dump.
fn not_dumped(address: *mut c_void, len: usize) {
    // SAFETY: the mapping just made; the advice changes no contents.
    unsafe { libc::madvise(address, len, libc::MADV_DONTDUMP) };
}

/// Removes segments of this user whose processes are gone.
pub(crate) fn remove_stale(dir: &Path) {
    let prefix = prefix();
    let Ok(entries) = fs::read_dir(dir) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str().and_then(|name| name.strip_prefix(&prefix)) else {
            continue;
        };
        let unfinished = owner_of_unfinished(name).map(Incarnation::is_alive);
        let finished = || {
            let segment = open_file(&entry.path())?;
            let user = segment.user.load(Ordering::Relaxed);
            Some(owner(&segment).is_alive() && presence::is_in(dir, user))
        };
        // One that cannot be opened is of another layout, or not ours to judge.
        let is_stale = unfinished.or_else(finished) == Some(false);
        if is_stale {
            drop(fs::remove_file(entry.path()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_sees_what_the_owner_wrote() {
        let dir = tempfile::tempdir().expect("a directory");
        let (id, path, own) = create(dir.path(), std::process::id()).expect("a segment");
        own.known[3].store(7, Ordering::Relaxed);
        let peer = open(dir.path(), id).expect("the segment");
        assert_eq!(peer.known[3].load(Ordering::Relaxed), 7);
        assert!(owner(&peer).is_alive());
        assert!(open(dir.path(), id ^ 1).is_none());
        assert!(path.exists());
    }

    #[test]
    fn what_the_dead_left_is_removed() {
        let dir = tempfile::tempdir().expect("a directory");
        let (_, stale, mapping) = create(dir.path(), std::process::id()).expect("a segment");
        mapping.started.store(1, Ordering::Relaxed);
        let foreign = dir.path().join("efa-emu-of-somebody-else");
        fs::write(&foreign, "x").expect("a file");
        // One that died before its segment was whole, and one that is about to make its own.
        let own = Incarnation::own();
        let half = |owner| {
            dir.path()
                .join(format!("{}{}", prefix(), unfinished(owner)))
        };
        let (dead, living) = (half(Incarnation { started: 1, ..own }), half(own));
        fs::write(&dead, "x").expect("a file");
        crate::sweep(dir.path());
        assert!(!stale.exists() && !dead.exists());
        let (_, path, _mapping) = create(dir.path(), std::process::id()).expect("a segment");
        assert!(!living.exists() && path.exists() && foreign.exists());
        fs::write(&living, "x").expect("a file");
        remove_stale(dir.path());
        assert!(living.exists() && path.exists());
    }

    #[test]
    fn files_that_are_no_segments_are_nobody() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::write(path_of(dir.path(), 9), vec![0; 4096]).expect("a file");
        assert!(open(dir.path(), 9).is_none());
    }
}
