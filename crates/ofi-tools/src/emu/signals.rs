//! Signals that ask for an end go on to the command: who stops `ofi emu` stops what it runs, and sees
//! the summary.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicI32, Ordering};
use std::io;
use std::process::{Child, ExitStatus};

/// Those that are passed on.
const PASSED_ON: [c_int; 3] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP];

/// The command; 0 while there is none.
static COMMAND: AtomicI32 = AtomicI32::new(0);
/// A signal that came while there was none.
static EARLY: AtomicI32 = AtomicI32::new(0);

/// From now on these signals end the command, not this process.
///
/// # Errors
/// Those of sigaction(2).
pub(super) fn pass_on() -> io::Result<()> {
    for signal in PASSED_ON {
        // SAFETY: all zero is a valid sigaction.
        let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
        // SAFETY: sigaction(2): reads what is set into a struct of ours.
        let code = unsafe { libc::sigaction(signal, core::ptr::null(), &raw mut action) };
        if code != 0 {
            return Err(io::Error::last_os_error());
        }
        // As by nohup(1): the command inherits that.
        if action.sa_sigaction == libc::SIG_IGN {
            continue;
        }
        let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = handle;
        action.sa_sigaction = handler as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        // SAFETY: sigaction(2): a handler of that type, which calls nothing but kill(2).
        let code = unsafe { libc::sigaction(signal, &raw const action, core::ptr::null_mut()) };
        if code != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Waits for the command.
///
/// # Errors
/// Those of waiting.
pub(super) fn wait(command: &mut Child) -> io::Result<ExitStatus> {
    let pid = i32::try_from(command.id()).unwrap_or(0);
    COMMAND.store(pid, Ordering::SeqCst);
    let early = EARLY.swap(0, Ordering::SeqCst);
    if early != 0 {
        send(early);
    }
    let status = command.wait();
    COMMAND.store(0, Ordering::SeqCst);
    status
}

extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, _context: *mut c_void) {
    // SAFETY: sigaction(2), SA_SIGINFO: valid during the call.
    let code = unsafe { (*info).si_code };
    // From a terminal the command has it already, as one of the same group.
    if code > 0 {
        return;
    }
    EARLY.store(signal, Ordering::SeqCst);
    if COMMAND.load(Ordering::SeqCst) != 0 {
        EARLY.store(0, Ordering::SeqCst);
        send(signal);
    }
}

fn send(signal: c_int) {
    let command = COMMAND.load(Ordering::SeqCst);
    if command > 0 {
        // SAFETY: kill(2): no memory is involved.
        unsafe { libc::kill(command, signal) };
    }
}
