//! The finaliser of tables without a fini (Neuron v4 and v5, NCCL up to v10; protocol 2a.1).
//!
//! It is registered with the `atexit` of this shared object, not of the process: the C library's
//! static half ties the registration to the object that makes it, so the handler runs at exit(3), or
//! when the object is unloaded by dlclose(3), whichever comes first, and is forgotten then. Nothing
//! is left that points into an unloaded library. At exit it runs before the destructors of libfabric,
//! because it was registered after the dynamic linker's own handler.
//!
//! Neuron's v6 has fini and NCCL's v11 finalize; they register nothing, as in the reference.

use core::sync::atomic::{AtomicBool, Ordering};

use crate::instance;

/// Registers the finaliser, once for each time the object is loaded. A failure of atexit(3) (no
/// memory) only means that the system cleans up instead.
pub(crate) fn finalise_at_exit() {
    static DONE: AtomicBool = AtomicBool::new(false);
    if !DONE.swap(true, Ordering::AcqRel) {
        // SAFETY: `finalise` is a function without captures that may run at any time; it is part of
        // the object that the registration is tied to.
        let refused = unsafe { libc::atexit(finalise) };
        DONE.store(refused == 0, Ordering::Release);
    }
}

extern "C" fn finalise() {
    // A forked child runs the handlers of its parent at exit, and must not touch its objects.
    if instance::is_owner() {
        // An error has nobody to go to any more; a panic must not leave.
        drop(std::panic::catch_unwind(|| instance::fini().is_ok()));
    }
}
