//! Memory that a plugin may read and write at any time.
//!
//! A region is mapped once and never unmapped while the process lives, so whatever a plugin still
//! does to it after a request, a deregistration or an error can at worst spoil bytes, which the
//! checks find. Rust code never holds a reference into it: bytes are copied in and out.

use core::ptr::NonNull;
use std::io;

/// Bytes of a huge page, on most systems.
const HUGE: usize = 2 << 20;

/// A page-aligned mapping, zeroed at first. A copy names the same memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Region {
    base: NonNull<u8>,
    len: usize,
}

impl Region {
    /// Maps `len` bytes, rounded up to whole pages; to huge ones where they fit in and the system has any,
    /// for who pins or copies page by page is slow over small ones (`process_vm_writev(2)`, by which
    /// the emulated EFA moves bytes, moves less than half of what memcpy does).
    pub(crate) fn map(len: usize) -> io::Result<Self> {
        let len = len.max(1).next_multiple_of(4096);
        if len < HUGE {
            return Self::anonymous(len);
        }
        let around = Self::anonymous(len + HUGE)?;
        let at = around.base.as_ptr().align_offset(HUGE);
        let base = around.address(at, len);
        // SAFETY: madvise(2): within the mapping just made; contents do not change, and who has no huge
        // pages leaves it as it is.
        let _none = unsafe { libc::madvise(base.cast(), len, libc::MADV_HUGEPAGE) };
        NonNull::new(base)
            .map(|base| Self { base, len })
            .ok_or_else(|| io::Error::other("mmap gave NULL"))
    }

    fn anonymous(len: usize) -> io::Result<Self> {
        // SAFETY: mmap(2) with a NULL hint, private and anonymous: it cannot touch any existing
        // mapping; the arguments are in range and the result is checked.
        let base = unsafe {
            libc::mmap(
                core::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mmap gave NULL"))?;
        Ok(Self { base, len })
    }

    /// Has the system put memory behind every page. A page that was only read is the one of zeros, which
    /// no cache has to fetch: what is sent from it is faster than any message can be.
    fn touch(&self) {
        for page in (0..self.len).step_by(4096) {
            self.write(page, &[0]);
        }
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// The address of byte `at`, for the plugin. `at + len` lies within the region.
    pub(crate) fn address(&self, at: usize, len: usize) -> *mut u8 {
        self.bounds(at, len);
        self.base.as_ptr().wrapping_add(at)
    }

    /// Copies bytes `at..at + into.len()` out.
    pub(crate) fn read(&self, at: usize, into: &mut [u8]) {
        let from = self.address(at, into.len());
        // SAFETY: `address` has checked that the source lies within the mapping, which is never
        // unmapped; the destination is a live slice of Rust's own memory, so they do not overlap.
        unsafe { core::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) };
    }

    /// Copies `from` to bytes `at..`.
    pub(crate) fn write(&self, at: usize, from: &[u8]) {
        let to = self.address(at, from.len());
        // SAFETY: as in `read`, with the directions exchanged; no Rust reference into the mapping
        // exists anywhere, so writing through a shared handle aliases nothing.
        unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
    }

    fn bounds(&self, at: usize, len: usize) {
        assert!(
            at <= self.len && len <= self.len - at,
            "bytes {at}+{len} of a region of {} were asked for",
            self.len
        );
    }
}

/// Memory for one measurement after the other.
#[derive(Debug, Default)]
pub(crate) struct Regions(Vec<Region>);

impl Regions {
    /// Memory of at least `len` bytes: what was given back, or new with every page there.
    pub(crate) fn take(&mut self, len: usize) -> io::Result<Region> {
        let fits = |r: &Region| r.len >= len && r.len <= len.saturating_mul(2).max(1 << 16);
        if let Some(at) = self.0.iter().position(fits) {
            return Ok(self.0.swap_remove(at));
        }
        Region::map(len).inspect(Region::touch)
    }

    pub(crate) fn give(&mut self, region: Region) {
        self.0.push(region);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_given_back_is_taken_again_where_it_is_not_much_too_large() {
        let mut regions = Regions::default();
        let long = regions.take(1 << 20).unwrap();
        regions.give(long);
        assert_ne!(regions.take(4096).unwrap().base, long.base);
        assert_eq!(regions.take((1 << 20) - 5).unwrap().base, long.base);
        assert_ne!(regions.take(1 << 20).unwrap().base, long.base);
    }

    #[test]
    fn what_is_written_is_read_back_and_the_rest_is_zero() {
        let r = Region::map(5000).unwrap();
        assert_eq!(r.len(), 8192);
        r.write(4090, &[1, 2, 3, 4, 5, 6, 7, 8, 9]);
        let mut b = [9_u8; 12];
        r.read(4089, &mut b);
        assert_eq!(b, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 0]);
    }

    #[test]
    fn long_ones_start_where_a_huge_page_does() {
        let r = Region::map(HUGE + 1).unwrap();
        assert_eq!(r.len(), HUGE + 4096);
        assert_eq!(r.address(0, r.len()).align_offset(HUGE), 0);
        r.write(HUGE, &[7]);
        let mut b = [0_u8; 2];
        r.read(HUGE, &mut b);
        assert_eq!(b, [7, 0]);
    }

    #[test]
    #[should_panic(expected = "were asked for")]
    fn a_span_beyond_the_end_is_refused() {
        Region::map(4096).unwrap().read(4095, &mut [0; 2]);
    }
}
