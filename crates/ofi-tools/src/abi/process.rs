//! Two calls about the process itself.

use core::ffi::c_int;

/// Asks the kernel to kill this process when the thread that started it ends (prctl(2)).
pub(crate) fn die_with_parent() {
    // SAFETY: PR_SET_PDEATHSIG takes a signal number and changes only what happens at the parent's
    // death; it cannot fail for a valid signal (prctl(2)).
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
}

/// Ends the process at once, running no exit handlers: those of a stuck plugin could wait forever.
pub(crate) fn exit_now(code: c_int) -> ! {
    // SAFETY: _exit(2) takes any status and does not return; nothing is left to clean up that the
    // kernel does not.
    unsafe { libc::_exit(code) }
}

/// The number of the current user, for names that must not clash between users.
pub(crate) fn user_id() -> u32 {
    // SAFETY: getuid(2) has no arguments and always succeeds.
    unsafe { libc::getuid() }
}
