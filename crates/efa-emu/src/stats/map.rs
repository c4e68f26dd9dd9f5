//! The numbers in memory that a file shows.

use core::ptr::{NonNull, null_mut};
use core::sync::atomic::AtomicU64;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;

use super::ProcessStats;
use super::counts::NicStats;
use super::file::HEADER;

/// A file's numbers, mapped until this is dropped.
#[derive(Debug)]
pub(super) struct Mapping {
    nics: NonNull<NicStats>,
    count: usize,
    rules: usize,
}

// SAFETY: the memory is shared by design, all of it is atomics, and unmapping is not tied to a
// thread.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the numbers of `count` NICs and `rules` rules of a file made by [`super::file::create`].
    pub(super) fn new(file: &File, count: usize, rules: usize) -> io::Result<Self> {
        let bytes = bytes(count, rules);
        let offset = i64::try_from(HEADER).map_err(io::Error::other)?;
        // SAFETY: mmap(2) with no address of ours chooses a place where nothing is; file and
        // length are such that the file holds all of it.
        let place = unsafe {
            libc::mmap(
                null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                offset,
            )
        };
        if place == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let nics = NonNull::new(place.cast()).ok_or_else(|| io::Error::other("mapped at 0"))?;
        Ok(Self { nics, count, rules })
    }

    /// The numbers of each NIC.
    pub(super) fn nics(&self) -> &[NicStats] {
        // SAFETY: the mapping is page-aligned (NicStats asks for 64), has room for `count`, lives as
        // long as self, and any bytes are valid atomics. mmap(2): access beyond the end of the file
        // is SIGBUS; the file has this length, and is this process's own.
        unsafe { core::slice::from_raw_parts(self.nics.as_ptr(), self.count) }
    }

    /// How often each rule struck: behind the NICs.
    pub(super) fn rules(&self) -> &[AtomicU64] {
        let behind = self.nics.as_ptr().wrapping_add(self.count).cast();
        // SAFETY: as above; the numbers behind the NICs are as many as the mapping was made for, and
        // what is aligned for NicStats is for them.
        unsafe { core::slice::from_raw_parts(behind, self.rules) }
    }

    /// What is of the process: behind the rules.
    pub(super) fn process(&self) -> &ProcessStats {
        let behind: *const AtomicU64 = self.rules().as_ptr_range().end;
        // SAFETY: as above; it is of the same words, and there is room for one.
        unsafe { &*behind.cast() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let bytes = bytes(self.count, self.rules);
        // SAFETY: what `new` mapped, and no reference to it outlives self.
        let status = unsafe { libc::munmap(self.nics.as_ptr().cast(), bytes) };
        debug_assert_eq!(status, 0, "munmap of what was mapped");
    }
}

fn bytes(nics: usize, rules: usize) -> usize {
    nics * size_of::<NicStats>() + rules * size_of::<AtomicU64>() + size_of::<ProcessStats>()
}
