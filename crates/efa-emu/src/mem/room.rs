//! Pages of shared memory get their room in the file system before they are touched: without any left
//! a touch is a signal (SIGBUS), and asking for it an error that can be told.

use core::ffi::c_void;
use core::slice::from_ref;
use core::sync::atomic::{AtomicU32, Ordering};
use std::io;
use std::sync::OnceLock;

use super::layout::{Event, Message, Receive, Segment};

/// Bytes of a page.
pub(crate) fn page() -> usize {
    // SAFETY: sysconf(3): no memory is involved.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4096)
}

/// Sees to it that a list in shared memory can be touched. Costs a system call.
///
/// Before Linux 5.14 there is no such call (`MADV_POPULATE_WRITE`, madvise(2)): a touch may be a signal.
///
/// # Errors
/// ENOSPC, which is also told, once: the directory has no room, or the process may not have more.
pub(crate) fn reserve<T>(list: &[T]) -> io::Result<()> {
    let start: *const c_void = list.as_ptr().cast();
    let behind = start.addr() % page();
    let start = start.wrapping_byte_sub(behind).cast_mut();
    let len = size_of_val(list) + behind;
    // SAFETY: madvise(2): whole pages of a mapping, around memory that is borrowed; no contents change.
    let code = unsafe { libc::madvise(start, len, libc::MADV_POPULATE_WRITE) };
    if code == 0 || io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL) {
        return Ok(());
    }
    tell();
    Err(io::Error::from_raw_os_error(libc::ENOSPC))
}

/// Gives a list's whole pages back to the file system: they are zeros, and want [`reserve`] before they are
/// touched again. Costs a system call. Where the file system cannot (madvise(2), `MADV_REMOVE`), they stay.
pub(crate) fn give_back<T: Shared>(list: &[T]) {
    let whole = page();
    let start: *const c_void = list.as_ptr().cast();
    let lead = start.addr().next_multiple_of(whole) - start.addr();
    let len = size_of_val(list).saturating_sub(lead) / whole * whole;
    if len == 0 {
        return;
    }
    let start = start.wrapping_byte_add(lead).cast_mut();
    // SAFETY: madvise(2): whole pages of a shared mapping, all of them within what is borrowed, which is
    // atomics (`Shared`): zeros are values like those that others write.
    unsafe { libc::madvise(start, len, libc::MADV_REMOVE) };
}

/// What is of atomics alone, so that it may be zeros at any time.
pub(crate) trait Shared {}

impl Shared for AtomicU32 {}
impl Shared for Receive {}
impl Shared for Message {}
impl Shared for Event {}

#[expect(
    clippy::print_stderr,
    reason = "a provider has no other way to say what is to be done"
)]
fn tell() {
    static TOLD: OnceLock<()> = OnceLock::new();
    let dir = std::env::var_os("EFA_EMU_DIR").filter(|dir| !dir.is_empty());
    let dir = dir.unwrap_or_else(|| "/dev/shm".into());
    let dir = dir.to_string_lossy();
    TOLD.get_or_init(|| {
        eprintln!(
            "efa-emu: no room in {dir} for shared memory: a process needs 1.1 MiB there, each endpoint 0.4 MiB \
             and 0.3 MiB more for tagged receives\n  try: another directory in EFA_EMU_DIR, or more room \
             (docker: --shm-size)"
        );
    });
}

/// What every process needs.
///
/// # Errors
/// Those of [`reserve`].
pub(crate) fn of_process(segment: &Segment) -> io::Result<()> {
    reserve(from_ref(&segment.magic))?;
    reserve(&segment.nics)?;
    reserve(&segment.hazards)?;
    // Peers look into all of it.
    reserve(&segment.known)
}

/// The first ones of a list, which have room; how many is counted in shared memory too.
pub(crate) fn ready<'a, T>(list: &'a [T], count: &AtomicU32) -> &'a [T] {
    let count = usize::try_from(count.load(Ordering::Acquire)).unwrap_or(usize::MAX);
    list.get(..count).unwrap_or(list)
}

/// Makes one more ready. `false` if there is none, or no room for it.
pub(crate) fn one_more<T>(list: &[T], count: &AtomicU32) -> bool {
    let now = count.load(Ordering::Acquire);
    let next = usize::try_from(now).ok().and_then(|now| list.get(now));
    if next.is_none_or(|next| reserve(from_ref(next)).is_err()) {
        return false;
    }
    // If somebody else was at the same one, it is ready all the same.
    let _was = count.compare_exchange(now, now + 1, Ordering::Release, Ordering::Relaxed);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mem::mapping;
    use std::fs::OpenOptions;

    #[test]
    fn pages_that_are_given_back_are_zeros_and_take_nothing() {
        use std::os::unix::fs::MetadataExt;
        let dir = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let (_, path, segment) =
            mapping::create(dir.path(), std::process::id()).expect("a segment");
        let taken = || std::fs::metadata(&path).expect("its file").blocks() * 512;
        let before = taken();
        let list = &segment.queues[3].all[..1000];
        for _ in 0..3 {
            reserve(list).expect("room");
            let full = taken();
            assert!(full >= before + size_of_val(list) as u64, "{full}");
            list.iter()
                .for_each(|event| event.len.store(7, Ordering::Relaxed));
            give_back(list);
            // But for the pages at its ends, which are others' too.
            let now = taken();
            assert!(now <= before + 2 * page() as u64, "{now}, {before} before");
            assert_eq!(list[500].len.load(Ordering::Relaxed), 0);
            give_back(list);
        }
        give_back(&list[..1]);
        give_back(&list[..0]);
    }

    /// A file that is cut off is as good as a directory that is full: SIGBUS for who touches it.
    #[test]
    fn what_cannot_be_touched_is_an_error() {
        let dir = tempfile::tempdir().expect("a directory");
        let (_, path, segment) =
            mapping::create(dir.path(), std::process::id()).expect("a segment");
        reserve(&segment.blocks[..2]).expect("room");
        let count = AtomicU32::new(0);
        assert!(ready(&segment.blocks, &count).is_empty());
        assert!(one_more(&segment.blocks, &count));
        assert_eq!(ready(&segment.blocks, &count).len(), 1);
        let file = OpenOptions::new().write(true).open(path).expect("its file");
        file.set_len(page() as u64).expect("cut");
        let error = reserve(&segment.blocks[..2]).expect_err("no room");
        assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
        assert!(!one_more(&segment.blocks, &count));
        assert!(of_process(&segment).is_err());
        assert_eq!(ready(&segment.blocks, &count).len(), 1);
        assert_eq!(ready(&[1, 2], &AtomicU32::new(3)), [1, 2]);
    }
}
