//! NCCL's topology file (protocol 2h.4): a file in memory that the variable `NCCL_TOPO_FILE` names, for
//! NCCL to read after init. The one thing that this plugin writes to the environment (decision 21): only
//! inside init, only where a device has several NICs, and never over what is set already.

use core::ffi::{CStr, c_int};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use ofi_net::log::{Log, Subsys, info};

/// Where NCCL looks.
const VARIABLE: &str = "NCCL_TOPO_FILE";
/// What the file is called in /proc, as in the reference.
const NAME: &CStr = c"ofi_nccl_topo";

/// The file of this process: kept open as long as the variable names it, which is for good.
static PUBLISHED: Mutex<Option<File>> = Mutex::new(None);

/// Lets NCCL find `text`, once for each init of the process. What keeps it from it is a line of the log:
/// a job runs without the file, if not as fast.
pub(crate) fn publish(text: &str, log: &dyn Log) {
    let mut published = PUBLISHED.lock().unwrap_or_else(PoisonError::into_inner);
    let set = std::env::var_os(VARIABLE);
    let is_theirs = |value: &OsString| !is_ours(value, published.as_ref()) && !is_stale(value);
    if let Some(theirs) = set.filter(is_theirs) {
        info(log, Subsys::Init, || {
            let theirs = theirs.to_string_lossy();
            format!("{VARIABLE} is set to {theirs:?} and left so: NCCL gets no file of ours")
        });
        return;
    }
    let written = match published.take() {
        Some(file) => rewrite(file, text),
        None => in_memory().and_then(|file| rewrite(file, text)),
    };
    match written {
        Ok(file) => {
            let path = path_of(&file);
            info(log, Subsys::Init, || {
                format!(
                    "{VARIABLE} set to {path}: devices have several NICs, and NCCL sees the first"
                )
            });
            // SAFETY: setenv(3) is safe unless another thread uses the environment at this moment by
            // other means than Rust's. NCCL calls init from one thread, reads the variable after, and
            // offers no other way to tell it; the reference does the same.
            unsafe { std::env::set_var(VARIABLE, path) };
            *published = Some(file);
        }
        Err(error) => info(log, Subsys::Init, || {
            format!("no topology file for NCCL ({error}): it takes a device for its first NIC")
        }),
    }
}

fn is_ours(value: &OsStr, published: Option<&File>) -> bool {
    published.is_some_and(|file| *value == *path_of(file))
}

/// The variable of a parent that closed its files when it started this program, which has none or another
/// one of that number now. What is a topology all the same may be its user's.
fn is_stale(value: &OsStr) -> bool {
    let path = Path::new(value);
    path.starts_with("/proc/self/fd") && !is_markup(path).unwrap_or(false)
}

/// Whether it is a file that begins as XML does. A pipe is not waited for.
fn is_markup(path: &Path) -> std::io::Result<bool> {
    if !path.metadata()?.is_file() {
        return Ok(false);
    }
    let mut start = [0; 1];
    File::open(path)?.read_exact(&mut start)?;
    Ok(start == *b"<")
}

fn path_of(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Open also in programs that this one becomes: they inherit the variable.
fn in_memory() -> std::io::Result<File> {
    // SAFETY: memfd_create(2) with a text that ends.
    let fd: c_int = unsafe { libc::memfd_create(NAME.as_ptr(), 0) };
    if fd < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: a descriptor that was just made, and nobody else's.
    let owned = unsafe { OwnedFd::from_raw_fd(fd) };
    Ok(owned.into())
}

fn rewrite(mut file: File, text: &str) -> std::io::Result<File> {
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(text.as_bytes())?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::{VARIABLE, in_memory, publish, rewrite};
    use ofi_net::log::NoLog;
    use std::os::fd::AsRawFd as _;

    fn value() -> Option<String> {
        std::env::var(VARIABLE).ok()
    }

    /// One test: the environment is one for all.
    #[test]
    fn the_variable_names_the_text_and_a_users_own_is_kept() {
        assert_eq!(value(), None, "the tests run without it");
        publish("<system version=\"1\">\n</system>\n", &NoLog);
        let path = value().unwrap();
        assert!(path.starts_with("/proc/self/fd/"), "{path}");
        // As NCCL reads it, and reads it again.
        for _ in 0..2 {
            let text = std::fs::read_to_string(&path).unwrap();
            assert_eq!(text, "<system version=\"1\">\n</system>\n");
        }
        let link = std::fs::read_link(&path).unwrap();
        assert!(link.to_string_lossy().contains("memfd:ofi_nccl_topo"));
        // The next init of the process writes the same file.
        publish("<system/>", &NoLog);
        assert_eq!(value().as_ref(), Some(&path));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "<system/>");

        // SAFETY: no other test of this program looks at this variable.
        unsafe { std::env::set_var(VARIABLE, "/etc/topo.xml") };
        publish("<system>", &NoLog);
        assert_eq!(value().as_deref(), Some("/etc/topo.xml"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "<system/>");

        // What a parent set, and closed before this program started.
        // SAFETY: as above.
        unsafe { std::env::set_var(VARIABLE, "/proc/self/fd/987654") };
        publish("<system>\n", &NoLog);
        assert_eq!(value().as_ref(), Some(&path));

        // The number is that of another file of this program: one of no topology, a pipe, and one of a user's.
        let read = |name: &str| std::fs::File::open(name).unwrap();
        let (pipe, _writer) = std::io::pipe().unwrap();
        let theirs = rewrite(in_memory().unwrap(), "<system version=\"1\"/>").unwrap();
        for (fd, is_kept) in [
            (read("/proc/self/status").as_raw_fd(), false),
            (pipe.as_raw_fd(), false),
            (theirs.as_raw_fd(), true),
        ] {
            let set = format!("/proc/self/fd/{fd}");
            // SAFETY: as above.
            unsafe { std::env::set_var(VARIABLE, &set) };
            publish("<system>\n", &NoLog);
            assert_eq!(value(), Some(if is_kept { set } else { path.clone() }));
        }
    }
}
