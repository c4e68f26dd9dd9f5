//! Which thread calls, and whether one is gone: what domains of threads are keyed by.
//!
//! By the kernel's number of the thread, without thread-local destructors: those would keep a
//! library that is unloaded mapped until every thread that called it has ended. A number may come
//! back for a new thread after the old one ended; it then finds what the old one left, which is what
//! is done with that anyway.

/// Number of a thread of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ThreadId(libc::pid_t);

impl ThreadId {
    /// The thread that asks. One system call: for listen and connect, not for messages.
    pub(crate) fn current() -> Self {
        // SAFETY: gettid(2) takes nothing and always succeeds.
        Self(unsafe { libc::gettid() })
    }

    /// Whether the thread has ended. Without permission to know, it has not.
    pub(crate) fn is_gone(self) -> bool {
        let process = std::process::id();
        // SAFETY: tgkill(2) takes three numbers; signal 0 only checks that the thread is there.
        let sent = unsafe { libc::syscall(libc::SYS_tgkill, process, self.0, 0) };
        sent == -1 && std::io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_there_until_it_ends() {
        let own = ThreadId::current();
        assert!(!own.is_gone());
        let other = std::thread::spawn(ThreadId::current).join().unwrap();
        assert_ne!(own, other);
        // join(3) returns when the thread has cleared its number, which the kernel does before it
        // takes it out of the process: a moment may pass between the two.
        while !other.is_gone() {
            std::thread::yield_now();
        }
    }
}
