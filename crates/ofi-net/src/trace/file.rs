//! The file of a trace: made once a process, appended to by every domain, bounded.

use super::Clock;
use crate::error::{Code, NetError};
use crate::log::{self, Log, Subsys};
use core::sync::atomic::{AtomicU16, Ordering};
use ofi_topo::Sysfs;
use ofi_trace::{Header, Lane, Record, Stamped};
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a trace file in a MiB of `OFI_NCCL_TRACE_MAX`.
pub(crate) const MIB: u64 = 1 << 20;

/// Names tried for a file.
const NAMES_MAX: u32 = 1000;

/// What a trace is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceConfig {
    /// Where to; `%p` is the process id, `%h` the host name; without `%p` the process id is appended, so
    /// that the ranks of a host do not write to one file. A name that is taken gets `.1`, `.2` and so on
    /// (`TRACE_FILE`).
    pub file: String,
    /// Bytes after which nothing more is kept (`TRACE_MAX`, MiB).
    pub bytes_max: u64,
}

/// One open trace.
#[derive(Debug)]
pub(crate) struct TraceFile {
    out: Mutex<Out>,
    path: PathBuf,
    clock: Clock,
    domains: AtomicU16,
    log: Arc<dyn Log>,
}

#[derive(Debug)]
struct Out {
    /// `None` once it is full or could not be written to.
    file: Option<File>,
    left: u64,
}

impl TraceFile {
    /// Makes the file, readable by its owner alone: remote keys are in it.
    ///
    /// # Errors
    /// [`Code::TraceFile`]: it cannot be made.
    pub(crate) fn create(
        config: &TraceConfig,
        fs_root: &Path,
        clock: Clock,
        log: Arc<dyn Log>,
    ) -> Result<Arc<Self>, NetError> {
        let host = host_name(fs_root);
        let wanted = PathBuf::from(expand(&config.file, &host));
        let failed = |error: io::Error| {
            let what = format!("{}: {error}", wanted.display());
            let errno = error.raw_os_error().unwrap_or(0);
            NetError::new(Code::TraceFile, what).with_errno(errno)
        };
        let (mut file, path) = create_new(&wanted).map_err(failed)?;
        let header = Header {
            pid: std::process::id(),
            started_unix_ns: clock.started_unix_ns(),
            host,
        };
        let mut bytes = Vec::new();
        header.encode(&mut bytes);
        file.write_all(&bytes).map_err(failed)?;
        log::info(&*log, Subsys::Init, || {
            format!("wire trace in {}; read it with `ofi trace`", path.display())
        });
        Ok(Arc::new(Self {
            out: Mutex::new(Out {
                file: Some(file),
                left: config.bytes_max,
            }),
            path,
            clock,
            domains: AtomicU16::new(0),
            log,
        }))
    }

    /// A number for a domain that begins to write.
    pub(super) fn next_domain(&self) -> u16 {
        self.domains.fetch_add(1, Ordering::Relaxed)
    }

    /// Appends whole records. Written at once: a process that is killed leaves what it did.
    pub(super) fn append(&self, records: &[u8]) {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        let needed = records.len() as u64;
        if needed > out.left {
            return self.stop(&mut out);
        }
        out.left -= needed;
        let Some(file) = &mut out.file else { return };
        if let Err(error) = file.write_all(records) {
            out.file = None;
            log::warn(&*self.log, Subsys::Net, || {
                let what = format!("{} ends here: {error}", self.path.display());
                NetError::new(Code::TraceFile, what)
            });
        }
    }

    #[cold]
    fn stop(&self, out: &mut Out) {
        let Some(mut file) = out.file.take() else {
            return;
        };
        let mut last = Vec::new();
        let full = Stamped {
            at_ns: self.clock.now_ns(),
            domain: 0,
            lane: Lane::data(0),
            record: Record::Full,
        };
        full.encode(&mut last);
        let written = file.write_all(&last);
        log::warn(&*self.log, Subsys::Net, || {
            let bound = "it has OFI_NCCL_TRACE_MAX MiB";
            let path = self.path.display();
            let what = match written {
                Ok(()) => format!("{path} ends here: {bound}"),
                Err(error) => format!("{path} ends here: {bound}; {error}"),
            };
            NetError::new(Code::TraceFull, what)
        });
    }
}

/// A file that was not there before: nothing is overwritten, whatever stands under the name (the trace of
/// an earlier life, that of another plugin in this process, a pipe, somebody's link). `.1`, `.2` and so on
/// are put behind a name that is taken.
pub(crate) fn create_new(wanted: &Path) -> io::Result<(File, PathBuf)> {
    let mut path = wanted.to_owned();
    for n in 1..=NAMES_MAX {
        let made = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path);
        match made {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && n < NAMES_MAX => {
                let mut next = wanted.as_os_str().to_owned();
                next.push(format!(".{n}"));
                path = next.into();
            }
            other => return other.map(|file| (file, path)),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

pub(crate) fn host_name(fs_root: &Path) -> String {
    let name = Sysfs::new(fs_root).line("proc/sys/kernel/hostname");
    name.unwrap_or_else(|| "unknown".to_owned())
}

/// `%p`, `%h` and `%%`; anything else behind a `%` stays as it is.
fn expand(pattern: &str, host: &str) -> String {
    let pid = std::process::id().to_string();
    let mut path = String::new();
    let mut has_pid = false;
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        let with = match (c, chars.peek()) {
            ('%', Some('p')) => {
                has_pid = true;
                pid.as_str()
            }
            ('%', Some('h')) => host,
            ('%', Some('%')) => "%",
            _ => {
                path.push(c);
                continue;
            }
        };
        path.push_str(with);
        chars.next();
    }
    if !has_pid {
        path.push('.');
        path.push_str(&pid);
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::NoLog;
    use ofi_trace::Reader;

    #[test]
    fn processes_of_a_host_have_files_of_their_own() {
        let pid = std::process::id();
        assert_eq!(expand("/tmp/t", "n1"), format!("/tmp/t.{pid}"));
        assert_eq!(
            expand("/tmp/%h-%p.trace", "n1"),
            format!("/tmp/n1-{pid}.trace")
        );
        assert_eq!(expand("100%%%x%", "n1"), format!("100%%x%.{pid}"));
    }

    #[test]
    fn a_full_file_says_so_and_takes_no_more() {
        let dir = tempfile::tempdir().unwrap();
        let config = TraceConfig {
            file: dir.path().join("t-%p").display().to_string(),
            bytes_max: 100,
        };
        let file = TraceFile::create(&config, dir.path(), Clock::start(), Arc::new(NoLog)).unwrap();
        let mut record = Vec::new();
        let done = Stamped {
            at_ns: 1,
            domain: file.next_domain(),
            lane: Lane::data(0),
            record: Record::Done { token: 1 },
        };
        done.encode(&mut record);
        for _ in 0..100 {
            file.append(&record);
        }
        let bytes = std::fs::read(&file.path).unwrap();
        let (header, reader) = Reader::open(&bytes).unwrap();
        assert_eq!((header.pid, &*header.host), (std::process::id(), "unknown"));
        let records: Vec<_> = reader.map(|r| r.unwrap().record).collect();
        let mut wanted = vec![Record::Done { token: 1 }; 100 / record.len()];
        wanted.push(Record::Full);
        assert_eq!(records, wanted);
    }

    /// Whatever stands under the name stays as it is, and nothing hangs.
    #[test]
    fn nothing_is_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let name = dir.path().join("t-%p").display().to_string();
        let expanded = dir.path().join(format!("t-{}", std::process::id()));
        std::fs::write(&expanded, b"mine").unwrap();
        let link = expanded.with_extension("1");
        std::os::unix::fs::symlink(dir.path().join("elsewhere"), &link).unwrap();
        let config = TraceConfig {
            file: name,
            bytes_max: 100,
        };
        let open =
            || TraceFile::create(&config, dir.path(), Clock::start(), Arc::new(NoLog)).unwrap();
        let paths = [open(), open()].map(|file| file.path.clone());
        assert_eq!(
            paths,
            [expanded.with_extension("2"), expanded.with_extension("3")]
        );
        assert_eq!(std::fs::read(&expanded).unwrap(), b"mine");
        assert!(!dir.path().join("elsewhere").exists());
        for path in paths {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = std::fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    #[test]
    fn a_file_that_cannot_be_made_is_a_coded_error() {
        let config = TraceConfig {
            file: "/nonexistent/trace".to_owned(),
            bytes_max: 1,
        };
        let error = TraceFile::create(&config, Path::new("/"), Clock::start(), Arc::new(NoLog))
            .unwrap_err();
        assert_eq!(
            (error.code(), error.errno()),
            (Code::TraceFile, -libc::ENOENT)
        );
        assert!(error.to_string().contains("/nonexistent/trace"), "{error}");
    }
}
