//! Panics stop here.

use core::ffi::c_int;
use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;

use ofi_sys::errno::FI_EOTHER;

/// Runs a call that gives nothing: 0, or a negative errno.
pub(crate) fn guarded(call: impl FnOnce() -> Result<(), c_int>) -> c_int {
    match catch(call) {
        Ok(()) => 0,
        Err(errno) => -errno,
    }
}

/// Runs a call that gives a count: it, or a negative errno.
pub(crate) fn counted(call: impl FnOnce() -> Result<usize, c_int>) -> isize {
    match catch(call) {
        Ok(count) => isize::try_from(count).unwrap_or(isize::MAX),
        Err(errno) => -isize::try_from(errno).unwrap_or(0),
    }
}

/// Runs a post: 0, or a negative errno.
pub(crate) fn posted(call: impl FnOnce() -> Result<(), c_int>) -> isize {
    counted(|| call().map(|()| 0))
}

/// What is shared is behind locks that outlive a panic, or atomic.
fn catch<T>(call: impl FnOnce() -> Result<T, c_int>) -> Result<T, c_int> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or(Err(FI_EOTHER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_errno() {
        assert_eq!(guarded(|| panic!("on purpose")), -FI_EOTHER);
        assert_eq!(counted(|| Ok(3)), 3);
        assert_eq!(counted(|| Err(11)), -11);
        assert_eq!(guarded(|| Ok(())), 0);
    }
}
