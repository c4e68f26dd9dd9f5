//! Files in directories that others can write to as well: the trigger, dumps, counters.
//!
//! Whoever may write there can put a link, a pipe or a directory under any name. Followed blindly, a link
//! overwrites what it leads to, and a pipe blocks the process that opens it for ever, inside a call of the
//! plugin. So what is made anew is made with `O_EXCL` (dumps, counters and traces: `open(2)` then follows no
//! link), and what may be there already is opened here: without following a link, without waiting, and only
//! if it is a file.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::SystemTime;

/// Opens a file for reading that was found in such a directory.
///
/// # Errors
/// Those of `open(2)`; it is a link, or no file.
pub fn open(path: &Path) -> io::Result<File> {
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path);
    regular(opened.map_err(of_link)?)
}

/// Opens a file for reading that the user named: a link is followed then, and nothing is waited for.
///
/// # Errors
/// Those of `open(2)`; it is no file.
pub fn open_named(path: &Path) -> io::Result<File> {
    let mut how = OpenOptions::new();
    regular(how.read(true).custom_flags(libc::O_NONBLOCK).open(path)?)
}

/// Gives a file the time of now on the clock of its file system, by writing `text` (a few bytes) at its
/// beginning; made if it is not there, readable by all.
///
/// # Errors
/// Those of `open(2)` and `write(2)`; it is a link, no file, or has another name too (`link(2)`): nothing is
/// written then.
pub fn touch(path: &Path, text: &[u8]) -> io::Result<()> {
    // Not O_CREAT first: with fs.protected_regular (`proc_sys_fs(5)`) that is refused for a file of somebody
    // else in a sticky directory, which root may well write to.
    let mut file = match open_to_write(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            match OpenOptions::new().write(true).create_new(true).open(path) {
                // Somebody else was faster.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => open_to_write(path)?,
                made => made?,
            }
        }
        opened => opened?,
    };
    if file.metadata()?.nlink() > 1 {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is a file that has another name too (a hard link): nothing is written to it; remove it",
        ));
    }
    file.write_all(text)?;
    file.set_len(text.len() as u64)
}

/// When a file changed last; `None`: nothing is there, or something that is no file.
#[must_use]
pub fn changed(path: &Path) -> Option<SystemTime> {
    let meta = fs::symlink_metadata(path).ok().filter(Metadata::is_file);
    meta?.modified().ok()
}

fn open_to_write(path: &Path) -> io::Result<File> {
    let opened = OpenOptions::new()
        .write(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path);
    let opened = opened.map_err(|error| match error.raw_os_error() {
        // A pipe that nobody reads, a socket; a directory.
        Some(libc::ENXIO | libc::EISDIR) => no_file(),
        _ => of_link(error),
    });
    regular(opened?)
}

fn regular(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(no_file())
    }
}

fn no_file() -> io::Error {
    let what = "it is no file (a pipe, a directory, a device)";
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

fn of_link(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::ELOOP) => io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is a symbolic link, which is not followed here; remove it",
        ),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    /// A directory with a precious file, and what somebody else may put beside it.
    fn tampered() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("precious"), "mine").unwrap();
        symlink(at("precious"), at("link")).unwrap();
        symlink(at("nothing"), at("dangling")).unwrap();
        fs::hard_link(at("precious"), at("hard")).unwrap();
        fs::create_dir(at("directory")).unwrap();
        drop(UnixListener::bind(at("socket")).unwrap());
        let made = std::process::Command::new("mkfifo")
            .arg(at("pipe"))
            .status();
        assert!(made.unwrap().success());
        dir
    }

    #[test]
    fn nothing_that_others_put_there_is_written_to_or_waited_for() {
        let dir = tampered();
        for (name, said) in [
            ("link", "symbolic link"),
            ("dangling", "symbolic link"),
            ("hard", "hard link"),
            ("directory", "no file"),
            ("socket", "no file"),
            ("pipe", "no file"),
        ] {
            let error = touch(&dir.path().join(name), b"x").unwrap_err();
            assert!(error.to_string().contains(said), "{name}: {error}");
        }
        // With somebody at its other end a pipe can be opened: it is no file all the same.
        let pipe = dir.path().join("pipe");
        let how = OpenOptions::new().read(true).write(true).open(&pipe);
        let reader = how.unwrap();
        assert!(touch(&pipe, b"x").is_err());
        drop(reader);
        assert_eq!(fs::read(dir.path().join("precious")).unwrap(), b"mine");
        assert!(!dir.path().join("nothing").exists());
    }

    #[test]
    fn what_is_no_file_is_not_read() {
        let dir = tampered();
        for name in ["link", "dangling", "directory", "socket", "pipe"] {
            assert!(open(&dir.path().join(name)).is_err(), "{name}");
        }
        for name in ["dangling", "directory", "socket", "pipe"] {
            assert!(open_named(&dir.path().join(name)).is_err(), "{name}");
        }
        drop(open(&dir.path().join("precious")).unwrap());
        drop(open_named(&dir.path().join("link")).unwrap());
    }

    #[test]
    fn a_file_is_touched_and_what_is_none_has_no_time() {
        let dir = tampered();
        let path = dir.path().join("new");
        assert_eq!(changed(&path), None);
        touch(&path, b"first\n").unwrap();
        let made = changed(&path).unwrap();
        touch(&path, b"2\n").unwrap();
        assert!(changed(&path).unwrap() >= made);
        assert_eq!(fs::read(&path).unwrap(), b"2\n");
        for name in ["link", "directory", "pipe", "nothing"] {
            assert_eq!(changed(&dir.path().join(name)), None, "{name}");
        }
    }

    /// `exec(2)` of a child leaves none of these open.
    #[test]
    fn files_are_closed_on_exec() {
        use std::os::fd::AsRawFd as _;
        let dir = tampered();
        let file = open(&dir.path().join("precious")).unwrap();
        let link = format!("/proc/self/fdinfo/{}", file.as_raw_fd());
        let info = fs::read_to_string(link).unwrap();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = i32::from_str_radix(flags.unwrap().trim(), 8).unwrap();
        assert_ne!(flags & libc::O_CLOEXEC, 0, "{info}");
    }
}
