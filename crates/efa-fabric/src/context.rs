//! The 64 bytes that an operation lends to the provider.

use core::cell::UnsafeCell;
use core::fmt;

/// `struct fi_context2`: memory that belongs to the provider from the post until the completion of
/// one operation, and whose address names the operation in its completion. Good for FI_CONTEXT and
/// FI_CONTEXT2 alike. What the provider keeps there is not looked at.
///
/// Posts take a pointer to one. It must not move or be freed while the operation is in flight, and
/// serves one operation at a time.
#[repr(C)]
pub struct Context2 {
    _provider: UnsafeCell<[u64; 8]>,
}

impl Context2 {
    /// One that is not in use.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            _provider: UnsafeCell::new([0; 8]),
        }
    }
}

// SAFETY: no method reads or writes the bytes; only the provider does, between post and completion.
unsafe impl Sync for Context2 {}

impl Default for Context2 {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Context2 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Context2")
    }
}

const _: () = {
    assert!(size_of::<Context2>() == size_of::<ofi_sys::bindings::fi_context2>());
    assert!(align_of::<Context2>() == align_of::<ofi_sys::bindings::fi_context2>());
    assert!(size_of::<Context2>() == 64);
};
