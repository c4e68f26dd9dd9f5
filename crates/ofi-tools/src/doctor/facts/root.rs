//! A directory that stands for `/`: nothing outside of it is read, wherever symbolic links lead. A relative path
//! is one of the directory that the job works in; where nobody says which that is, nothing is there.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use super::user::{Access, User, has_acl};

/// As many as Linux follows (`path_resolution(7)`).
const LINKS_MAX: usize = 40;
/// Text files of `/proc`, `/sys` and `/etc` are read up to here.
const TEXT_MAX: u64 = 1 << 20;
/// Entries of a directory that are looked at.
const ENTRIES_MAX: usize = 4096;

/// Why a file cannot be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Absent {
    /// Nothing of that name is there.
    Missing,
    /// A symbolic link to something that is not there.
    Dangling {
        /// What the link says.
        target: PathBuf,
    },
    /// It is there and may not be read.
    Denied {
        /// What of the way does not let the user, where it is known.
        by: Option<String>,
    },
    /// Who looks may not read it, and another user, for whom it is looked at, may be able to: an NFS takes root for
    /// nobody, or it has an access control list.
    Unseen,
    /// Anything else, in the system's words.
    Other(String),
}

impl From<io::Error> for Absent {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::Missing,
            io::ErrorKind::PermissionDenied => Self::Denied { by: None },
            _ => Self::Other(error.to_string()),
        }
    }
}

/// The directory.
#[derive(Clone, Debug)]
pub(crate) struct Root {
    dir: PathBuf,
    /// The directory that the job works in, as the host names it.
    working: Option<PathBuf>,
    /// Whose permissions count, where that is not whoever looks.
    user: Option<User>,
}

impl Root {
    /// `/` itself, or a copy of another host.
    pub(crate) fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            working: None,
            user: None,
        }
    }

    /// The same, as this user would have it: what it may not read is denied, though who looks may.
    pub(crate) fn as_user(&self, user: &User) -> Self {
        Self {
            user: Some(user.clone()),
            ..self.clone()
        }
    }

    /// Whether the user is let at what is there, by its mode bits.
    fn lets(&self, real: &Path, access: Access) -> Result<(), Absent> {
        let Some(user) = &self.user else {
            return Ok(());
        };
        let meta = fs::metadata(self.outside(real))?;
        let (owner, group, mode) = (meta.uid(), meta.gid(), meta.mode() & 0o7777);
        if user.may(access, (owner, group, mode)) {
            return Ok(());
        }
        if has_acl(&self.outside(real)) {
            return Err(Absent::Unseen);
        }
        let (real, user) = (real.display(), user.show());
        let by =
            format!("{real} has mode {mode:o}, owner {owner}, group {group}; the user is {user}");
        Err(Absent::Denied { by: Some(by) })
    }

    /// The same, with the directory that this process works in (`/proc/<pid>`): relative paths begin there.
    pub(crate) fn working_as(mut self, process: &Path) -> Self {
        let link = self.real(process).map(|process| process.join("cwd"));
        let target = link.ok().map(|link| fs::read_link(self.outside(&link)));
        self.working = target.and_then(Result::ok);
        self
    }

    /// Where relative paths begin, where that is known.
    pub(crate) fn working(&self) -> Option<&Path> {
        self.working.as_deref()
    }

    /// As it was given.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// What is known where the system refuses who looks: of another user nothing.
    fn refused(&self, absent: Absent) -> Absent {
        match absent {
            Absent::Denied { by: None } if self.user.is_some() => Absent::Unseen,
            other => other,
        }
    }

    /// Where `path` really is, as the host itself would name it: all links followed.
    pub(crate) fn real(&self, path: &Path) -> Result<PathBuf, Absent> {
        self.followed(path).map_err(|absent| self.refused(absent))
    }

    fn followed(&self, path: &Path) -> Result<PathBuf, Absent> {
        let from = match (path.is_absolute(), &self.working) {
            (true, _) => Path::new("/"),
            (false, Some(working)) => working,
            (false, None) => return Err(Absent::Missing),
        };
        let mut todo: VecDeque<OsString> = parts(from).chain(parts(path)).collect();
        let mut at = PathBuf::from("/");
        // The target of the last link, if nothing of the path comes behind it.
        let mut followed = None;
        let mut links = 0;
        while let Some(part) = todo.pop_front() {
            if part == ".." {
                at.pop();
                continue;
            }
            self.lets(&at, Access::Search)?;
            let next = at.join(&part);
            let found = fs::symlink_metadata(self.outside(&next));
            let found = found.map_err(|error| match (Absent::from(error), &followed) {
                (Absent::Missing, Some(target)) => Absent::Dangling {
                    target: PathBuf::clone(target),
                },
                (other, _) => other,
            })?;
            if !found.file_type().is_symlink() {
                at = next;
                continue;
            }
            links += 1;
            if links > LINKS_MAX {
                return Err(Absent::Other("too many symbolic links".to_owned()));
            }
            let target = fs::read_link(self.outside(&next))?;
            if target.is_absolute() {
                at = PathBuf::from("/");
            }
            if todo.is_empty() {
                followed = Some(target.clone());
            }
            for part in parts(&target).collect::<Vec<_>>().into_iter().rev() {
                todo.push_front(part);
            }
        }
        Ok(at)
    }

    /// Opens a file for reading.
    pub(crate) fn open(&self, path: &Path) -> Result<File, Absent> {
        let real = self.real(path)?;
        let outside = self.outside(&real);
        // A FIFO or a device would block, or do something.
        if !fs::metadata(&outside)?.is_file() {
            return Err(Absent::Other("it is no regular file".to_owned()));
        }
        self.lets(&real, Access::Read)?;
        File::open(outside).map_err(|error| self.refused(error.into()))
    }

    /// A text file, up to a bound; bytes that are no text are replaced.
    pub(crate) fn text(&self, path: impl AsRef<Path>) -> Result<String, Absent> {
        let mut bytes = Vec::new();
        let file = self.open(path.as_ref())?;
        file.take(TEXT_MAX).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The first line of a text file, or nothing.
    pub(crate) fn line(&self, path: impl AsRef<Path>) -> Option<String> {
        let text = self.text(path).ok()?;
        let line = text.lines().next().unwrap_or_default().trim();
        Some(line.to_owned()).filter(|line| !line.is_empty())
    }

    /// The names in a directory, sorted; nothing where there is none.
    pub(crate) fn names(&self, dir: impl AsRef<Path>) -> Vec<String> {
        let real = self.real(dir.as_ref());
        let real = real.and_then(|real| self.lets(&real, Access::Read).map(|()| real));
        let listed = real.map(|real| self.outside(&real));
        let Some(entries) = listed.ok().and_then(|dir| fs::read_dir(dir).ok()) else {
            return Vec::new();
        };
        let names = entries.take(ENTRIES_MAX).filter_map(Result::ok);
        let mut names: Vec<String> = names
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    /// What keeps the user from the files in a directory, where something does.
    pub(crate) fn shut(&self, dir: &Path) -> Option<String> {
        let real = self.real(dir);
        match real.and_then(|real| self.lets(&real, Access::Search)) {
            Err(Absent::Denied { by }) => by,
            _ => None,
        }
    }

    /// Whether something is there, after links.
    pub(crate) fn has(&self, path: impl AsRef<Path>) -> bool {
        self.real(path.as_ref()).is_ok()
    }

    /// The name of a real path outside of this directory.
    pub(crate) fn outside(&self, real: &Path) -> PathBuf {
        self.dir.join(real.strip_prefix("/").unwrap_or(real))
    }
}

fn parts(path: &Path) -> impl Iterator<Item = OsString> + '_ {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::{Absent, Root, User};
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::path::{Path, PathBuf};

    #[test]
    fn links_stay_inside() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        std::fs::create_dir_all(dir.path().join("opt/lib")).unwrap();
        std::fs::write(dir.path().join("opt/lib/a.so"), "x\ny").unwrap();
        symlink("/opt/lib", dir.path().join("lib")).unwrap();
        symlink("../../../opt/lib/a.so", dir.path().join("opt/b.so")).unwrap();
        symlink("/nowhere/c", dir.path().join("c.so")).unwrap();
        symlink("loop", dir.path().join("loop")).unwrap();
        let real = |path: &str| root.real(Path::new(path));
        assert_eq!(real("/lib/a.so"), Ok(PathBuf::from("/opt/lib/a.so")));
        assert_eq!(real("/opt/b.so"), Ok(PathBuf::from("/opt/lib/a.so")));
        assert_eq!(real("/etc/passwd"), Err(Absent::Missing));
        assert_eq!(real("/lib/no.so"), Err(Absent::Missing));
        let target = PathBuf::from("/nowhere/c");
        assert_eq!(real("/c.so"), Err(Absent::Dangling { target }));
        assert!(matches!(real("/loop"), Err(Absent::Other(_))));
        assert_eq!(root.line("/lib/a.so").as_deref(), Some("x"));
        assert_eq!(root.names("/lib"), ["a.so"]);
        assert!(matches!(root.text("/opt"), Err(Absent::Other(_))));
    }

    #[test]
    fn what_a_user_may_not_is_denied_though_who_looks_may() {
        let dir = tempfile::tempdir().unwrap();
        let inside = |path: &str| dir.path().join(path);
        let mode =
            |path: &str, mode| set_permissions(inside(path), Permissions::from_mode(mode)).unwrap();
        for path in ["open", "shut", "unlisted"] {
            std::fs::create_dir(inside(path)).unwrap();
            std::fs::write(inside(&format!("{path}/a.so")), "x").unwrap();
        }
        std::fs::write(inside("open/own.so"), "x").unwrap();
        symlink("shut/a.so", inside("link.so")).unwrap();
        mode("", 0o755);
        mode("open", 0o755);
        mode("open/a.so", 0o644);
        mode("open/own.so", 0o600);
        mode("shut", 0o700);
        mode("unlisted", 0o711);
        let stranger = User {
            id: u32::MAX - 1,
            groups: Some(Vec::new()),
            ..User::default()
        };
        let root = Root::new(dir.path()).as_user(&stranger);
        let denied = |path: &str| match root.text(path) {
            Err(Absent::Denied { by: Some(by) }) => by,
            other => panic!("{path}: {other:?}"),
        };
        assert_eq!(root.text("/open/a.so"), Ok("x".to_owned()));
        assert!(denied("/open/own.so").starts_with("/open/own.so has mode 600"));
        for path in ["/shut/a.so", "/link.so", "/shut/none.so"] {
            assert!(denied(path).starts_with("/shut has mode 700"), "{path}");
        }
        assert!(root.has("/unlisted/a.so") && root.names("/unlisted").is_empty());
        assert_eq!(root.names("/open"), ["a.so", "own.so"]);
        // The system's refusal says nothing of another user.
        let refusal = || Absent::Denied { by: None };
        assert_eq!(root.refused(refusal()), Absent::Unseen);
        assert_eq!(root.refused(Absent::Missing), Absent::Missing);
        assert_eq!(Root::new(dir.path()).refused(refusal()), refusal());
        // Nobody's permissions are in question where nobody is named.
        assert_eq!(Root::new(dir.path()).text("/open/own.so").unwrap(), "x");
    }

    #[test]
    fn relative_paths_begin_where_the_process_works() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("jobs/lib")).unwrap();
        std::fs::create_dir_all(dir.path().join("proc/7")).unwrap();
        std::fs::write(dir.path().join("jobs/lib/a.so"), "x").unwrap();
        std::fs::write(dir.path().join("b.so"), "x").unwrap();
        symlink("/jobs/lib", dir.path().join("proc/7/cwd")).unwrap();
        let root = Root::new(dir.path()).working_as(Path::new("/proc/7"));
        let real = |path: &str| root.real(Path::new(path));
        for (path, found) in [
            ("a.so", "/jobs/lib/a.so"),
            ("./a.so", "/jobs/lib/a.so"),
            ("../lib/a.so", "/jobs/lib/a.so"),
            ("../../b.so", "/b.so"),
            ("/b.so", "/b.so"),
        ] {
            assert_eq!(real(path), Ok(PathBuf::from(found)), "{path}");
        }
        assert_eq!(real("b.so"), Err(Absent::Missing));
        let nobody_says = Root::new(dir.path()).working_as(Path::new("/proc/8"));
        assert_eq!(nobody_says.real(Path::new("b.so")), Err(Absent::Missing));
    }
}
