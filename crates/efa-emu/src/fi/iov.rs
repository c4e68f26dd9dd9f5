//! Pieces of memory and their descriptors, read from C.

use core::ffi::{c_int, c_void};

use ofi_sys::errno::{FI_EINVAL, FI_EMSGSIZE};

use super::mr::local;
use crate::engine::op::IOV;
use crate::mem::copy::{Piece, total};

/// Local memory of a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Memory {
    pieces: [Piece; IOV],
    keys: [Option<u32>; IOV],
    count: usize,
}

impl Memory {
    /// One buffer.
    pub(super) fn one(buf: *const c_void, len: usize, desc: *mut c_void) -> Self {
        let mut memory = Self {
            pieces: [(0, 0); IOV],
            keys: [None; IOV],
            count: 1,
        };
        let (addr, key) = local(buf.expose_provenance() as u64, desc);
        memory.pieces[0] = (addr, len as u64);
        memory.keys[0] = key;
        memory
    }

    /// Several.
    ///
    /// # Errors
    /// More than any of EFA's endpoints takes: pieces (EINVAL), or bytes (EMSGSIZE).
    ///
    /// # Safety
    /// Arrays of `count`; the descriptors may be NULL.
    pub(super) unsafe fn many(
        iov: *const libc::iovec,
        desc: *const *mut c_void,
        count: usize,
    ) -> Result<Self, c_int> {
        if count > IOV || (count > 0 && iov.is_null()) {
            return Err(FI_EINVAL);
        }
        let mut memory = Self::one(core::ptr::null(), 0, core::ptr::null_mut());
        memory.count = count;
        for i in 0..count {
            // SAFETY: the caller's promise.
            let piece = unsafe { iov.wrapping_add(i).read() };
            let desc = match desc.is_null() {
                true => core::ptr::null_mut(),
                // SAFETY: the caller's promise.
                false => unsafe { desc.wrapping_add(i).read() },
            };
            let (addr, key) = local(piece.iov_base.expose_provenance() as u64, desc);
            memory.pieces[i] = (addr, piece.iov_len as u64);
            memory.keys[i] = key;
        }
        total(memory.pieces()).ok_or(FI_EMSGSIZE)?;
        Ok(memory)
    }

    pub(super) fn pieces(&self) -> &[Piece] {
        &self.pieces[..self.count]
    }

    pub(super) fn keys(&self) -> &[Option<u32>] {
        &self.keys[..self.count]
    }
}
