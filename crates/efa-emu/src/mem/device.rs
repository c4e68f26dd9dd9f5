//! Memory of an emulated device. A NIC reaches it by a mapping of its own, as it reaches that of a GPU
//! by the bus: the addresses by which it is named need not be readable (`PROT_NONE`), so that a program
//! that touches by CPU what it should not is found out by the processor.

use core::ffi::c_int;
use core::ptr;

use super::room::page;

/// A NIC's own mapping of a region of device memory; unmapped when it is dropped.
#[derive(Debug)]
pub(crate) struct View {
    /// Page-aligned.
    start: *mut libc::c_void,
    bytes: usize,
    /// From the address by which a byte is named to the one in here, wrapping.
    shift: u64,
}

// SAFETY: a mapping is of the process and not of a thread; it is unmapped once, by the drop.
unsafe impl Send for View {}
// SAFETY: as above; nothing in it changes.
unsafe impl Sync for View {}

impl View {
    /// Of what a dma-buf holds from `offset` on, named by the addresses from `base` on: its descriptor is
    /// not needed afterwards, and the addresses may be of no memory at all.
    ///
    /// # Errors
    /// A positive errno: mmap(2)'s.
    pub(crate) fn of_dmabuf(fd: c_int, offset: u64, (base, len): (u64, u64)) -> Result<Self, i32> {
        let lead = offset % page() as u64;
        let at = libc::off_t::try_from(offset - lead).map_err(|_| libc::EINVAL)?;
        let bytes = lead.checked_add(len).and_then(|n| usize::try_from(n).ok());
        let bytes = bytes.ok_or(libc::EINVAL)?;
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: mmap(2): a new mapping, of the caller's file.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, rights, libc::MAP_SHARED, fd, at) };
        if start == libc::MAP_FAILED {
            return Err(errno());
        }
        Ok(Self::new(start, bytes, base.wrapping_sub(lead)))
    }

    /// Of pages that can be had twice, which are those that are shared (`MAP_SHARED`); `None` for others,
    /// which are reached by their addresses alone.
    pub(crate) fn of_pages((base, len): (u64, u64)) -> Option<Self> {
        let lead = base % page() as u64;
        let first = base - lead;
        let bytes = usize::try_from(lead.checked_add(len)?).ok()?;
        let named = ptr::with_exposed_provenance_mut(usize::try_from(first).ok()?);
        // SAFETY: mremap(2): with an old size of 0 nothing is moved; shared pages get a second mapping.
        let start = unsafe { libc::mremap(named, 0, bytes, libc::MREMAP_MAYMOVE) };
        if start == libc::MAP_FAILED {
            return None;
        }
        let view = Self::new(start, bytes, first);
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: mprotect(2): the new mapping, which is ours alone.
        let opened = unsafe { libc::mprotect(start, bytes, rights) } == 0;
        opened.then_some(view)
    }

    /// `named`: the address of the mapping's first byte.
    fn new(start: *mut libc::c_void, bytes: usize, named: u64) -> Self {
        let shift = (start.expose_provenance() as u64).wrapping_sub(named);
        Self {
            start,
            bytes,
            shift,
        }
    }

    /// What to add to an address, wrapping.
    pub(crate) fn shift(&self) -> u64 {
        self.shift
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: munmap(2): a mapping of ours; the region that used it is closed.
        let unmapped = unsafe { libc::munmap(self.start, self.bytes) };
        debug_assert_eq!(unmapped, 0);
    }
}

fn errno() -> i32 {
    std::io::Error::last_os_error()
        .raw_os_error()
        .unwrap_or(libc::EINVAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shared pages that nobody may touch by their own address.
    fn hidden(bytes: usize) -> u64 {
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        // SAFETY: mmap(2): a new mapping, kept for good.
        let at = unsafe { libc::mmap(ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        at.expose_provenance() as u64
    }

    #[test]
    fn what_the_processor_may_not_touch_the_nic_may() {
        let base = hidden(3 * page());
        let start = base + page() as u64 - 3;
        let view = View::of_pages((start, 10)).expect("shared pages");
        let at = usize::try_from(start.wrapping_add(view.shift())).expect("an address");
        let at: *mut u8 = ptr::with_exposed_provenance_mut(at);
        // SAFETY: within the view, whose bytes are nobody else's.
        unsafe { at.wrapping_add(9).write_volatile(7) };
        let again = View::of_pages((base, 3 * page() as u64)).expect("shared pages");
        let at = usize::try_from((start + 9).wrapping_add(again.shift())).expect("an address");
        let at: *mut u8 = ptr::with_exposed_provenance_mut(at);
        // SAFETY: as above.
        assert_eq!(unsafe { at.read_volatile() }, 7);
    }

    #[test]
    fn private_pages_and_none_have_no_second_mapping() {
        let own = Box::leak(vec![0_u8; 64].into_boxed_slice());
        let base = own.as_mut_ptr().expose_provenance() as u64;
        assert!(View::of_pages((base, 64)).is_none());
        assert!(View::of_pages((0x1000, 64)).is_none());
        assert!(View::of_pages((u64::MAX, 2)).is_none());
    }
}
