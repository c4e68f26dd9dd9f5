//! A new file, mapped as atomic words.

use core::ptr::NonNull;
use core::sync::atomic::AtomicU64;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;

/// Whole words of a file, shared with whoever reads it.
#[derive(Debug)]
pub(super) struct Words {
    start: NonNull<AtomicU64>,
    count: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and is reached through atomics alone.
unsafe impl Send for Words {}
// SAFETY: as above.
unsafe impl Sync for Words {}

impl Words {
    /// Gives an empty file room for `count` words, all zero, and maps it. The room is taken from the file system
    /// now: a disk that is full is an error here, and no SIGBUS at the first write to a page.
    ///
    /// # Errors
    /// Those of `posix_fallocate(3)` and `mmap(2)`.
    pub(super) fn map(file: &File, count: usize) -> io::Result<Self> {
        let bytes = count * size_of::<AtomicU64>();
        let size = libc::off_t::try_from(bytes).map_err(io::Error::other)?;
        loop {
            // SAFETY: posix_fallocate(3) has no memory effects; the descriptor is open while `file` is borrowed.
            match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, size) } {
                0 => break,
                libc::EINTR => {}
                errno => return Err(io::Error::from_raw_os_error(errno)),
            }
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let (flags, fd) = (libc::MAP_SHARED, file.as_raw_fd());
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory that exists (mmap(2)).
        let start = unsafe { libc::mmap(core::ptr::null_mut(), bytes, protection, flags, fd, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, count })
    }

    /// The words.
    pub(super) fn all(&self) -> &[AtomicU64] {
        // SAFETY: the range is mapped, readable and writable, from `map` until the drop that this borrow does not
        // outlive; page aligned; initialised (zeroed by the kernel); and reached through atomics alone. The file
        // is ours (mode 0600, made anew): if somebody of the same user cuts it off, that is a SIGBUS, not a
        // wrong value.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.count) }
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        let bytes = self.count * size_of::<AtomicU64>();
        // SAFETY: exactly the range that `map` got from mmap(2), unmapped once.
        let unmapped = unsafe { libc::munmap(self.start.as_ptr().cast(), bytes) };
        debug_assert_eq!(unmapped, 0, "munmap of our own mapping");
    }
}
