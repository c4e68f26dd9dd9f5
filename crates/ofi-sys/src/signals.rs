//! Signal handlers kept as they are across a call into foreign code.
//!
//! Debian's libfabric pulls in libraries for InfiniPath adapters whose constructors take over
//! SIGSEGV, SIGBUS, SIGILL, SIGABRT, SIGINT and SIGTERM while they are loaded. A library in somebody
//! else's process must not do that, so the handlers in force before are put back. (Changing the
//! environment would also work, but the environment belongs to the process.)
//!
//! Cost: two system calls a signal, 62 signals: some tens of microseconds, at load only. If another
//! thread installs a handler during the guarded call, that one is undone too: load early.

use core::ffi::c_int;
use core::mem::MaybeUninit;
use core::ptr;

/// Highest signal number of Linux.
const SIGNAL_LAST: c_int = 64;

/// The action of one signal at the time it was looked at.
struct Saved {
    signal: c_int,
    action: libc::sigaction,
}

/// Runs `call` and puts back every signal handler that it replaced.
pub fn preserving_handlers<R>(call: impl FnOnce() -> R) -> R {
    let saved: Vec<Saved> = (1..=SIGNAL_LAST).filter_map(current).collect();
    let result = call();
    for before in &saved {
        restore_if_changed(before);
    }
    result
}

/// The action in force; `None` for the signals that have none to look at (reserved by libc).
fn current(signal: c_int) -> Option<Saved> {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: sigaction(2) with a null `act` changes nothing and writes one struct to `oldact`.
    let code = unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) };
    if code != 0 {
        return None;
    }
    // SAFETY: sigaction returned 0, so it filled the struct (which was zeroed, all valid, before).
    let action = unsafe { action.assume_init() };
    Some(Saved { signal, action })
}

/// Puts `before` back where another handler is in force now.
fn restore_if_changed(before: &Saved) {
    let Some(now) = current(before.signal) else {
        return;
    };
    if now.action.sa_sigaction == before.action.sa_sigaction
        && now.action.sa_flags == before.action.sa_flags
    {
        return;
    }
    // SAFETY: the action was in force when it was read from the kernel, so it is a valid one;
    // sigaction(2) with a null `oldact` returns nothing.
    unsafe { libc::sigaction(before.signal, &raw const before.action, ptr::null_mut()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    extern "C" fn mine(_signal: c_int) {}
    extern "C" fn theirs(_signal: c_int) {}

    fn install(handler: extern "C" fn(c_int)) {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: all-zero bytes are a valid sigaction (integers, a mask, a null restorer).
        let action = unsafe { action.assume_init_mut() };
        action.sa_sigaction = handler as *const () as usize;
        // SAFETY: a valid action with a handler of the right type; SIGUSR2 is used by no other test.
        let code = unsafe { libc::sigaction(libc::SIGUSR2, action, ptr::null_mut()) };
        assert_eq!(code, 0);
    }

    fn handler_now() -> usize {
        current(libc::SIGUSR2).map_or(0, |saved| saved.action.sa_sigaction)
    }

    #[test]
    fn a_replaced_handler_is_put_back() {
        install(mine);
        let during = preserving_handlers(|| {
            install(theirs);
            handler_now()
        });
        assert_eq!(during, theirs as *const () as usize);
        assert_eq!(handler_now(), mine as *const () as usize);
    }
}
