//! Who is there: each process holds a lock of the kernel's as long as the program that it is runs, and
//! others ask for it.
//!
//! A process id says too little: a process that calls exec(2) keeps it, and all that it was doing is
//! gone. A lock of an open file (fcntl(2), F_OFD_SETLK) ends with the descriptor, which exec(2) and every
//! kind of death close. All processes lock the directory of segments, each a byte of its own: nothing is
//! left behind.
//!
//! ```text
//! bit 31        22 21        0
//!     |  program  |    pid   |   a user of shared memory; also the number of its byte
//! ```

use core::ffi::c_int;
use core::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::OnceLock;

use crate::alive;

/// Process ids are below 2^22 (proc(5), pid_max).
const PID_BITS: u32 = 22;
/// Programs that one process can be told apart as: 1 and on; 0 is one that holds no lock. The number of
/// all ones is nobody's.
const PROGRAMS: u64 = (1 << (32 - PID_BITS)) - 2;

/// No user: one that is never there.
pub(crate) const NOBODY: u32 = 0;

/// The directory whose bytes are locked.
static DIRECTORY: OnceLock<File> = OnceLock::new();
/// This process: the kernel tells nobody of a lock of its own.
static OWN: AtomicU32 = AtomicU32::new(NOBODY);
/// The descriptor of the directory, for the child of a fork.
static INHERITED: AtomicI32 = AtomicI32::new(-1);

/// A lock on one byte.
fn byte(user: u32, kind: c_int) -> libc::flock {
    libc::flock {
        l_type: libc::c_short::try_from(kind).unwrap_or(0),
        l_whence: 0,
        l_start: i64::from(user),
        l_len: 1,
        l_pid: 0,
    }
}

/// Whether somebody holds the lock of a user.
fn is_held(directory: &File, user: u32) -> bool {
    let mut lock = byte(user, libc::F_WRLCK);
    // SAFETY: fcntl(2): an open file, and a lock to be described.
    let code = unsafe { libc::fcntl(directory.as_raw_fd(), libc::F_OFD_GETLK, &raw mut lock) };
    // Who cannot ask takes others for alive.
    code != 0 || c_int::from(lock.l_type) != libc::F_UNLCK
}

/// Says that this process is there until it ends, or becomes another program. Gives its number; the same
/// one for every later call.
///
/// # Errors
/// The directory cannot be opened, or its file system has no locks.
pub(crate) fn enter(path: &Path, random: u64) -> io::Result<u32> {
    let directory = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECTORY)
        .open(path)?;
    let program = u32::try_from(1 + random % PROGRAMS).unwrap_or(1);
    let user = (program << PID_BITS) | std::process::id();
    let lock = byte(user, libc::F_RDLCK);
    // SAFETY: fcntl(2): an open file, and a lock.
    if unsafe { libc::fcntl(directory.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // A child of fork(2) shares the descriptor, and would keep the lock when this process is gone.
    OWN.store(user, Ordering::Relaxed);
    INHERITED.store(directory.as_raw_fd(), Ordering::Relaxed);
    // SAFETY: pthread_atfork(3): a function that closes a descriptor, which a child may do.
    unsafe { libc::pthread_atfork(None, None, Some(leave_to_the_parent)) };
    let _first = DIRECTORY.set(directory);
    Ok(user)
}

unsafe extern "C" fn leave_to_the_parent() {
    let descriptor = INHERITED.swap(-1, Ordering::Relaxed);
    if descriptor >= 0 {
        // SAFETY: close(2): a descriptor of the child's, which nothing of this crate uses there.
        unsafe { libc::close(descriptor) };
    }
}

fn pid(user: u32) -> u32 {
    user & ((1 << PID_BITS) - 1)
}

/// Whether a user is there in a directory. One that holds no lock is judged by its process.
fn is_there_in(directory: Option<&File>, user: u32) -> bool {
    match directory {
        _ if user == NOBODY => false,
        _ if user == OWN.load(Ordering::Relaxed) => true,
        Some(directory) if user >> PID_BITS != 0 => is_held(directory, user),
        _ => alive::is_running(pid(user)),
    }
}

/// Whether a user of shared memory is (still) there. Costs some 1 us.
pub(crate) fn is_there(user: u32) -> bool {
    is_there_in(DIRECTORY.get(), user)
}

/// Whether it is, and not stopped, as by SIGSTOP. Costs some 10 us.
pub(crate) fn is_at_work(user: u32) -> bool {
    is_there(user) && alive::is_at_work(pid(user))
}

/// Whether a user is there, for who looks into a directory without being in it.
pub(crate) fn is_in(path: &Path, user: u32) -> bool {
    let directory = File::open(path).ok();
    is_there_in(directory.as_ref(), user)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt as _;
    use std::process::{Child, Command};

    /// A process that takes a user's lock, and then becomes another program, which keeps the lock or not.
    fn other(dir: &Path, user: u32, flags: c_int) -> Child {
        let directory = File::open(dir).expect("a directory");
        let lock = byte(user, libc::F_RDLCK);
        let mut command = Command::new("sleep");
        command.arg("60");
        let take = move || {
            let fd = directory.as_raw_fd();
            // SAFETY: openat(2): an open directory, and a text that ends.
            let own = unsafe { libc::openat(fd, c".".as_ptr(), libc::O_RDONLY | flags) };
            // SAFETY: fcntl(2): an open file, and a lock.
            match unsafe { libc::fcntl(own, libc::F_OFD_SETLK, &raw const lock) } {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        };
        // SAFETY: between fork and exec: system calls only.
        unsafe { command.pre_exec(take) };
        command.spawn().expect("sleep")
    }

    fn end(mut child: Child) {
        child.kill().expect("kill");
        child.wait().expect("wait");
    }

    #[test]
    fn who_holds_its_lock_is_there() {
        let dir = tempfile::tempdir().expect("a directory");
        let user = (7 << PID_BITS) | 1234;
        assert!(!is_in(dir.path(), user));
        let child = other(dir.path(), user, 0);
        assert!(is_in(dir.path(), user) && !is_in(dir.path(), user + 1));
        end(child);
        assert!(!is_in(dir.path(), user));
    }

    #[test]
    fn who_became_another_program_is_not() {
        let dir = tempfile::tempdir().expect("a directory");
        let user = (7 << PID_BITS) | 1234;
        let child = other(dir.path(), user, libc::O_CLOEXEC);
        // The parent goes on a moment before the last descriptors are closed.
        while is_in(dir.path(), user) {
            std::thread::yield_now();
        }
        assert!(alive::is_running(child.id()));
        end(child);
    }

    #[test]
    fn who_has_no_lock_is_judged_by_its_process() {
        let dir = tempfile::tempdir().expect("a directory");
        assert!(is_in(dir.path(), std::process::id()));
        assert!(is_there(std::process::id()));
        assert!(is_at_work(std::process::id()));
    }
}
