//! Creating a segment, finding that of a peer, and removing those of processes that died.

use core::ffi::c_void;
use core::ops::Deref;
use core::ptr::NonNull;
use core::sync::atomic::Ordering;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt as _, MetadataExt, OpenOptionsExt};
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

/// Removes segments of this user whose processes are gone, those of other versions of this crate too.
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
        let of_another_version = || owner_by_head(&entry.path()).map(Incarnation::is_alive);
        // What says of nobody whose it is is not ours to judge.
        let is_alive = unfinished.or_else(finished).or_else(of_another_version);
        if is_alive == Some(false) {
            drop(fs::remove_file(entry.path()));
        }
    }
}

/// What the magic of every layout starts with; two digits follow.
const MAGIC_NAME: &[u8] = b"efaemu";

/// Who owns a segment of whatever layout: the first words of all of them are the same ([`Segment`]). `None`
/// if the file is not this user's, or no segment.
fn owner_by_head(path: &Path) -> Option<Incarnation> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)
        .ok()?;
    let metadata = file.metadata().ok()?;
    // SAFETY: geteuid(2) always succeeds.
    let own = unsafe { libc::geteuid() };
    if metadata.uid() != own || !metadata.is_file() {
        return None;
    }
    let mut head = [0_u8; 24];
    file.read_exact_at(&mut head, 0).ok()?;
    let digits = head[..8].strip_prefix(MAGIC_NAME)?;
    let is_magic = digits.iter().all(u8::is_ascii_digit);
    let pid = u32::from_ne_bytes(*head[8..].first_chunk()?);
    let started = u64::from_ne_bytes(*head[16..].first_chunk()?);
    is_magic.then_some(Incarnation { pid, started })
}

const _: () = {
    assert!(core::mem::offset_of!(Segment, magic) == 0);
    assert!(core::mem::offset_of!(Segment, pid) == 8);
    assert!(core::mem::offset_of!(Segment, started) == 16);
};

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

    /// Of any version, as long or short as it may be; what is not known to be of the dead stays.
    #[test]
    fn what_the_dead_of_other_versions_left_is_removed() {
        let dir = tempfile::tempdir().expect("a directory");
        let own = Incarnation::own();
        let dead = Incarnation { started: 1, ..own };
        let make = |id, magic: &[u8; 8], owner: Incarnation, len: u64| {
            let path = path_of(dir.path(), id);
            let mut head = magic.to_vec();
            head.extend(owner.pid.to_ne_bytes());
            head.extend(0_u32.to_ne_bytes());
            head.extend(owner.started.to_ne_bytes());
            fs::write(&path, head).expect("a file");
            let file = OpenOptions::new().write(true).open(&path).expect("it");
            file.set_len(len).expect("its length");
            path
        };
        let whole = size_of::<Segment>() as u64;
        let swept = [
            make(1, b"efaemu01", dead, 5000),
            make(2, b"efaemu08", dead, whole),
            make(3, b"efaemu77", dead, 3 * whole),
        ];
        let kept = [
            make(4, b"efaemu08", own, 5000),
            make(5, b"efaemu77", own, whole),
            make(6, b"efaemuxx", dead, 5000),
            make(7, b"somebody", dead, whole),
            make(8, b"efaemu08", dead, 20),
            make(9, &[0; 8], dead, whole),
        ];
        let link = path_of(dir.path(), 10);
        let elsewhere = dir.path().join("elsewhere");
        fs::copy(&swept[0], &elsewhere).expect("a copy");
        std::os::unix::fs::symlink(&elsewhere, &link).expect("a link");
        fs::create_dir(path_of(dir.path(), 11)).expect("a directory");
        crate::sweep(dir.path());
        assert!(!swept.iter().any(|path| path.exists()), "{swept:?}");
        assert!(kept.iter().all(|path| path.exists()), "{kept:?}");
        assert!(elsewhere.exists() && link.exists());
    }

    #[test]
    fn files_that_are_no_segments_are_nobody() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::write(path_of(dir.path(), 9), vec![0; 4096]).expect("a file");
        assert!(open(dir.path(), 9).is_none());
    }
}
