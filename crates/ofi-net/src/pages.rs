//! Whole pages from the kernel, for everything of ours that the provider reads or writes: message
//! buffers, operation contexts, the flush page.
//!
//! Pages of their own, zeroed, at stable addresses, so that registering them (page granular on real
//! hardware) never covers a neighbour's memory, and so that unused parts cost nothing until touched.

use core::ptr::NonNull;

/// The page size assumed where none can be asked for.
const PAGE_BYTES_FALLBACK: usize = 4096;

/// The system's page size in bytes.
pub(crate) fn page_bytes() -> usize {
    // SAFETY: sysconf(3) has no memory effects for any argument.
    let asked = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(asked)
        .ok()
        .filter(|bytes| bytes.is_power_of_two())
        .unwrap_or(PAGE_BYTES_FALLBACK)
}

/// An anonymous private mapping; unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Pages {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and is reached only through raw
// pointers whose users synchronise (the domain's lock).
unsafe impl Send for Pages {}
// SAFETY: as above: a shared `Pages` gives out addresses and bounds-checked copies only.
unsafe impl Sync for Pages {}

impl Pages {
    /// Maps at least `bytes` zeroed bytes (rounded up to whole pages, at least one).
    ///
    /// # Errors
    /// The errno of mmap(2).
    pub(crate) fn map(bytes: usize) -> Result<Self, i32> {
        let page = page_bytes();
        let bytes = bytes
            .max(1)
            .checked_next_multiple_of(page)
            .ok_or(libc::ENOMEM)?;
        let (protection, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no memory
        // that exists (mmap(2)).
        let start = unsafe { libc::mmap(core::ptr::null_mut(), bytes, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error()
                .raw_os_error()
                .unwrap_or(libc::ENOMEM));
        }
        let start = NonNull::new(start.cast::<u8>()).ok_or(libc::ENOMEM)?;
        Ok(Self { start, bytes })
    }

    /// First byte.
    pub(crate) const fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Bytes mapped.
    pub(crate) const fn len(&self) -> usize {
        self.bytes
    }

    /// First byte as a number.
    pub(crate) fn addr(&self) -> u64 {
        self.start.addr().get() as u64
    }

    /// Asks that a forked child sees zeros here; `false` where the kernel cannot.
    pub(crate) fn wipe_on_fork(&self) -> bool {
        self.advise(libc::MADV_WIPEONFORK)
    }

    /// Asks for small pages, so that touching one byte does not make 2 MiB resident.
    pub(crate) fn small_pages(&self) -> bool {
        self.advise(libc::MADV_NOHUGEPAGE)
    }

    /// Keeps these pages out of forked children: pages that a device writes to must not become
    /// copy-on-write in the parent (fork(2), madvise(2)).
    pub(crate) fn not_in_children(&self) -> bool {
        self.advise(libc::MADV_DONTFORK)
    }

    fn advise(&self, advice: i32) -> bool {
        // SAFETY: the range is exactly this mapping; the advices used keep its contents in this
        // process (madvise(2)).
        unsafe { libc::madvise(self.start().cast(), self.bytes, advice) == 0 }
    }

    /// Runs `read` over `len` bytes at `offset`.
    ///
    /// # Safety
    /// Nobody writes the range until `read` returns: in particular no receive is posted on it.
    pub(crate) unsafe fn with_bytes<R>(
        &self,
        offset: usize,
        len: usize,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Option<R> {
        let end = offset.checked_add(len)?;
        if end > self.bytes {
            return None;
        }
        let first = self.start().wrapping_add(offset);
        // SAFETY: the range lies inside the mapping (checked above), which is initialised memory
        // (zeroed by the kernel), and the caller keeps writers away until `read` has returned.
        let bytes = unsafe { core::slice::from_raw_parts(first, len) };
        Some(read(bytes))
    }

    /// Copies `bytes` to `offset`; `false` when they do not fit.
    ///
    /// # Safety
    /// Nobody else reads or writes the range meanwhile: in particular nothing posted uses it.
    pub(crate) unsafe fn write(&self, offset: usize, bytes: &[u8]) -> bool {
        let fits = offset
            .checked_add(bytes.len())
            .is_some_and(|end| end <= self.bytes);
        if fits {
            let first = self.start().wrapping_add(offset);
            // SAFETY: the range lies inside the mapping (checked above) and the caller owns it; the
            // source is a borrow of other memory, so the two do not overlap.
            unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), first, bytes.len()) };
        }
        fits
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `map` got from mmap(2), unmapped once. Owners drop it only
        // after the endpoints that could still write here are closed.
        let unmapped = unsafe { libc::munmap(self.start().cast(), self.bytes) };
        debug_assert_eq!(unmapped, 0, "munmap of our own mapping");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_whole_zeroed_and_bounded() {
        let pages = Pages::map(5000).unwrap();
        assert_eq!(pages.len() % page_bytes(), 0);
        assert_eq!(pages.addr() % page_bytes() as u64, 0);
        // SAFETY: nobody else knows these pages.
        assert!(unsafe { pages.write(4990, b"hello") });
        // SAFETY: as above.
        let read = unsafe { pages.with_bytes(4988, 8, <[u8]>::to_vec) };
        assert_eq!(read.unwrap(), b"\0\0hello\0");
        // SAFETY: as above.
        assert!(!unsafe { pages.write(pages.len() - 2, b"abc") });
        // SAFETY: as above.
        assert!(unsafe { pages.with_bytes(pages.len(), 1, <[u8]>::to_vec) }.is_none());
        // SAFETY: as above.
        assert!(unsafe { pages.with_bytes(usize::MAX, 2, <[u8]>::to_vec) }.is_none());
    }

    #[test]
    fn more_than_there_is_is_an_errno() {
        assert_eq!(Pages::map(usize::MAX).err(), Some(libc::ENOMEM));
    }
}
