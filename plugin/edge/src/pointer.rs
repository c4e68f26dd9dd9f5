//! Pointers of a C caller, checked for NULL once and then safe to use.

use core::ffi::c_void;
use core::ptr::NonNull;

use crate::abi::{self, HANDLE_BYTES, NcclResult};
use crate::translate::Fail;

/// Somewhere to write a result to.
#[derive(Debug)]
pub struct Out<T>(NonNull<T>);

impl<T: Copy> Out<T> {
    /// Checks `pointer` for NULL; `result` and `name` are what the caller is told otherwise.
    ///
    /// # Safety
    /// A `pointer` that is not NULL must be valid for reads and writes of `T` while the value lives.
    ///
    /// # Errors
    /// NULL.
    pub unsafe fn new(pointer: *mut T, result: NcclResult, name: &str) -> Result<Self, Fail> {
        NonNull::new(pointer)
            .map(Self)
            .ok_or_else(|| Fail::null(result, name))
    }

    /// Writes the value.
    pub fn set(&self, value: T) {
        // SAFETY: valid for writes by the contract of `new`.
        unsafe { self.0.as_ptr().write(value) }
    }

    /// Reads what the caller left there.
    #[must_use]
    pub fn get(&self) -> T {
        // SAFETY: valid for reads by the contract of `new`.
        unsafe { self.0.as_ptr().read() }
    }
}

/// The 64-bit word in a pointer that a C caller carries for us: it never was an address.
pub(crate) fn word(pointer: *mut c_void) -> Option<u64> {
    let bits = pointer.addr() as u64;
    (bits != 0).then_some(bits)
}

/// A word as the pointer that a C caller carries.
pub(crate) fn carried(word: u64) -> Result<*mut c_void, Fail> {
    let what = "words have 64 bits, pointers fewer";
    usize::try_from(word)
        .map(core::ptr::without_provenance_mut)
        .map_err(|_| Fail::fixed(abi::INTERNAL_ERROR, ofi_net::error::Code::Internal, what))
}

/// A connection handle in the caller's memory. Only the bytes that mean something are touched: the
/// rest of a caller's buffer may be uninitialised or not there (protocol 2b, trap 8).
#[derive(Debug)]
pub(crate) struct CHandle {
    at: NonNull<u8>,
    bytes: usize,
}

impl CHandle {
    /// # Safety
    /// `pointer`, if not NULL, must be valid for reads and writes of `bytes` (at most 128) bytes
    /// while the value lives.
    pub(crate) unsafe fn new(pointer: *mut c_void, bytes: usize) -> Result<Self, Fail> {
        let bytes = bytes.min(HANDLE_BYTES);
        NonNull::new(pointer.cast())
            .map(|at| Self { at, bytes })
            .ok_or_else(|| Fail::null(abi::INVALID_ARGUMENT, "the handle"))
    }

    /// The bytes, zeros after them.
    pub(crate) fn read(&self) -> [u8; 128] {
        let mut copy = [0; 128];
        // SAFETY: readable by the contract of `new`; `copy` has more room and is elsewhere.
        unsafe {
            self.at
                .as_ptr()
                .copy_to_nonoverlapping(copy.as_mut_ptr(), self.bytes);
        };
        copy
    }

    /// Writes the bytes back.
    pub(crate) fn write(&self, copy: &[u8; 128]) {
        // SAFETY: writable by the contract of `new`; `copy` has at least as many bytes.
        unsafe {
            self.at
                .as_ptr()
                .copy_from_nonoverlapping(copy.as_ptr(), self.bytes);
        };
    }
}

#[cfg(test)]
mod tests {
    use super::{CHandle, Out, carried, word};

    #[test]
    fn null_is_an_error_and_nothing_else_is_touched() {
        // SAFETY: NULL is allowed.
        let null = unsafe { Out::<i32>::new(core::ptr::null_mut(), 4, "ndev") };
        let fail = null.unwrap_err();
        assert_eq!(fail.result(), 4);
        assert!(fail.error().what().contains("ndev is NULL"));
        // SAFETY: NULL is allowed.
        let null = unsafe { CHandle::new(core::ptr::null_mut(), 128) };
        assert_eq!(null.unwrap_err().result(), 4);
    }

    #[test]
    fn a_value_is_written_and_read() {
        let mut value = 3;
        // SAFETY: `value` outlives the Out.
        let out = unsafe { Out::new(&raw mut value, 3, "value") }.unwrap();
        assert_eq!(out.get(), 3);
        out.set(5);
        assert_eq!(out.get(), 5);
    }

    #[test]
    fn words_survive_the_journey() {
        for bits in [1 << 62, u64::MAX, 0x8000_0000_0000_0001] {
            assert_eq!(word(carried(bits).unwrap()), Some(bits));
        }
        assert_eq!(word(core::ptr::null_mut()), None);
    }

    #[test]
    fn a_handle_is_never_touched_beyond_its_meaning() {
        let mut memory = [0xAA_u8; 128];
        // SAFETY: `memory` has 128 bytes and outlives the handle.
        let handle = unsafe { CHandle::new(memory.as_mut_ptr().cast(), 128) }.unwrap();
        let mut copy = handle.read();
        assert!(copy[..88].iter().all(|&b| b == 0xAA) && copy[88..].iter().all(|&b| b == 0));
        copy.fill(0x11);
        handle.write(&copy);
        assert!(memory[..88].iter().all(|&b| b == 0x11) && memory[88..].iter().all(|&b| b == 0xAA));
    }
}
