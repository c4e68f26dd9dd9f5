//! Knowing that we are in a forked child (decision 22), at the price of one load a call.
//!
//! A page with one mark on it is given `MADV_WIPEONFORK`: in a child the kernel shows it as zeros
//! (madvise(2), Linux 4.14). Nothing of ours runs in the child, and nothing is left behind when the
//! library is unloaded. Where the kernel knows no such advice, the process id is compared instead.

use crate::pages::Pages;
use core::sync::atomic::{AtomicU8, Ordering};

const MARK: u8 = 0xA5;

/// Tells parent from child.
#[derive(Debug)]
pub(crate) struct ForkGuard {
    page: Option<Pages>,
    pid: u32,
}

impl ForkGuard {
    /// A guard whose parent is this process.
    pub(crate) fn new() -> Self {
        let page = Pages::map(1).ok().filter(Pages::wipe_on_fork);
        let guard = Self {
            page,
            pid: std::process::id(),
        };
        if let Some(mark) = guard.mark() {
            mark.store(MARK, Ordering::Relaxed);
        }
        guard
    }

    /// Whether this process is a fork of the one that made the guard.
    pub(crate) fn is_child(&self) -> bool {
        match self.mark() {
            Some(mark) => mark.load(Ordering::Relaxed) != MARK,
            None => std::process::id() != self.pid,
        }
    }

    fn mark(&self) -> Option<&AtomicU8> {
        let page = self.page.as_ref()?;
        // SAFETY: the page is mapped, readable and writable for as long as `page` lives, which the
        // returned borrow does not outlive, and is only ever accessed through this atomic.
        Some(unsafe { AtomicU8::from_ptr(page.start()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_is_no_child() {
        let guard = ForkGuard::new();
        assert!(!guard.is_child());
    }

    #[test]
    fn a_forked_child_knows_it_and_the_parent_does_not_notice() {
        let guard = ForkGuard::new();
        // SAFETY: the child calls nothing but one load and _exit, both async-signal-safe (fork(2)).
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0, "fork failed");
        if pid == 0 {
            let code = if guard.is_child() { 7 } else { 8 };
            // SAFETY: _exit(2) takes any status and does not return.
            unsafe { libc::_exit(code) };
        }
        let mut status = 0;
        // SAFETY: waitpid(2) writes one int.
        let waited = unsafe { libc::waitpid(pid, &raw mut status, 0) };
        assert_eq!(waited, pid);
        assert_eq!(libc::WEXITSTATUS(status), 7);
        assert!(!guard.is_child());
    }
}
