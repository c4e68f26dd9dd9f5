//! Copying within a process where the system forbids process_vm_writev(2), as a filter of seccomp(2)
//! may: through a pipe. write(2) and read(2) are refused with EFAULT where there is no memory (any
//! more), and where a copy of our own would be a signal.

use core::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::sync::{Mutex, PoisonError};

/// What a pipe holds (pipe(7)); it may be less, and then it takes more turns.
const CAPACITY: usize = 1 << 16;

/// Its two ends. Empty whenever nobody has it.
#[derive(Debug)]
struct Pipe {
    from: File,
    into: File,
}

static PIPE: Mutex<Option<Pipe>> = Mutex::new(None);

impl Pipe {
    fn new() -> io::Result<Self> {
        let mut ends = [0; 2];
        // SAFETY: pipe2(2): an array of two.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let [from, into] = ends;
        Ok(Self {
            // SAFETY: just opened, and nobody else's.
            from: unsafe { File::from_raw_fd(from) },
            // SAFETY: as above.
            into: unsafe { File::from_raw_fd(into) },
        })
    }
}

/// What a call that moves bytes returned; again if a signal came first.
fn moved(call: impl Fn() -> isize) -> io::Result<usize> {
    loop {
        if let Ok(count) = usize::try_from(call()) {
            return Ok(count);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Copies some of `len` bytes, more than 0 of them.
///
/// # Errors
/// EFAULT: one of the two is no memory that may be read or written. EMFILE, ENFILE: no pipe.
///
/// # Safety
/// Nobody else may use the memory behind `into` now; the kernel sees whether there is any.
pub(super) unsafe fn copy(from: *const c_void, into: *mut c_void, len: usize) -> io::Result<usize> {
    let mut shared = PIPE.lock().unwrap_or_else(PoisonError::into_inner);
    // What is left in it after an error goes with it.
    let pipe = shared.take().map_or_else(Pipe::new, Ok)?;
    let len = len.min(CAPACITY);
    let fd = pipe.into.as_raw_fd();
    // SAFETY: write(2): the kernel looks whether there is such memory.
    let all = moved(|| unsafe { libc::write(fd, from, len) })?;
    let fd = pipe.from.as_raw_fd();
    let mut done = 0;
    while done < all {
        let rest = into.wrapping_byte_add(done);
        // SAFETY: read(2): as above, and the caller's promise.
        match moved(|| unsafe { libc::read(fd, rest, all - done) }) {
            Ok(count) if count > 0 => done += count,
            // The next call finds nothing behind these.
            _ if done > 0 => return Ok(done),
            Ok(_) => return Err(io::Error::from_raw_os_error(libc::EFAULT)),
            Err(error) => return Err(error),
        }
    }
    *shared = Some(pipe);
    Ok(done)
}
