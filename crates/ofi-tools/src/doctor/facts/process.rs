//! The process that a job would be: user, limits, capabilities, container (proc(5)).

use std::path::{Path, PathBuf};

use super::root::Root;
use super::user::{self, User};

/// `CAP_IPC_LOCK`: no limit of locked memory (capabilities(7)).
const IPC_LOCK: u32 = 14;

/// What `/proc/<pid>` says of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Process {
    pub(crate) user: User,
    /// Nobody says which user it has.
    pub(crate) is_untold: bool,
    /// What says that the user is that of a job, and not the one that the process has.
    pub(crate) by: Option<String>,
    /// Bytes that it may lock; `None`: as many as there are, or nobody says.
    pub(crate) memlock: Option<u64>,
    /// What a session of the user may lock, in place of what the process may, and the line that says so.
    pub(crate) session: Option<(Option<u64>, String)>,
    /// What shows that it is in a container.
    pub(crate) container: Option<&'static str>,
    /// Copies of libfabric that it has mapped, where a running one is looked at.
    pub(crate) libfabrics: Vec<String>,
}

impl Process {
    /// Reads process `pid`, or this one.
    pub(crate) fn read(root: &Root, pid: Option<u32>) -> Self {
        let dir = pid.map_or_else(|| "self".to_owned(), |pid| pid.to_string());
        let dir = Path::new("/proc").join(dir);
        let status = root.text(dir.join("status")).unwrap_or_default();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.map(|rest| rest.trim_start_matches(':').trim())
        };
        let numbers = |name| {
            let words = field(name).unwrap_or_default().split_ascii_whitespace();
            words
                .filter_map(|word| word.parse().ok())
                .collect::<Vec<u32>>()
        };
        // Real, effective, saved, file system: the effective one opens devices.
        let told = numbers("Uid").get(1).copied();
        let id = told.unwrap_or(0);
        let mut groups = numbers("Groups");
        groups.extend(numbers("Gid").get(1));
        let capabilities = field("CapEff").and_then(|hex| u64::from_str_radix(hex, 16).ok());
        let entry = entry(&root.text("/etc/passwd").unwrap_or_default(), id);
        let (name, home) = entry.unzip();
        Self {
            user: User {
                id,
                name,
                groups: Some(groups),
                capabilities: capabilities.unwrap_or(0),
                home: home.flatten(),
            },
            is_untold: told.is_none(),
            by: None,
            session: None,
            memlock: memlock(&root.text(dir.join("limits")).unwrap_or_default()),
            container: container(root),
            libfabrics: pid.map_or_else(Vec::new, |_| libfabrics(root, &dir)),
        }
    }

    /// Whether the limit of locked memory counts for it.
    pub(crate) const fn is_lock_bounded(&self) -> bool {
        self.user.capabilities >> IPC_LOCK & 1 == 0
    }

    /// The same for another user: limits are inherited, unless a session of its own has others.
    pub(crate) fn of_user(mut self, root: &Root, user: User, by: impl Into<String>) -> Self {
        self.by = Some(by.into());
        if user.id != self.user.id {
            self.session = user::locked(root, &user);
            self.user = user;
        }
        self
    }

    /// What the user may lock, as far as that is known: bytes, or all there are.
    pub(crate) fn locked(&self) -> Option<u64> {
        let bytes = self
            .session
            .as_ref()
            .map_or(self.memlock, |(bytes, _)| *bytes);
        bytes.filter(|_| self.is_lock_bounded())
    }
}

/// `Max locked memory  65536  65536  bytes`, of which the first is in force.
fn memlock(limits: &str) -> Option<u64> {
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max locked memory"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

fn container(root: &Root) -> Option<&'static str> {
    let files = [
        ("/.dockerenv", "/.dockerenv is there"),
        ("/run/.containerenv", "/run/.containerenv is there"),
        ("/var/run/secrets/kubernetes.io", "it is a Kubernetes pod"),
    ];
    files
        .into_iter()
        .find(|(file, _)| root.has(file))
        .map(|(_, why)| why)
}

/// Name and home of a user, where NCCL looks for `.nccl.conf`: getpwuid(3), not `HOME`.
fn entry(passwd: &str, user: u32) -> Option<(String, Option<PathBuf>)> {
    let is_users = |fields: &Vec<&str>| fields.get(2).is_some_and(|id| *id == user.to_string());
    let mut lines = passwd
        .lines()
        .map(|line| line.split(':').collect::<Vec<_>>());
    let fields = lines.find(is_users)?;
    let home = fields.get(5).filter(|home| !home.is_empty());
    Some(((*fields.first()?).to_owned(), home.map(PathBuf::from)))
}

/// Files of libfabric that a process has mapped; `dir` is its directory below /proc.
pub(crate) fn libfabrics(root: &Root, dir: &Path) -> Vec<String> {
    let maps = root.text(dir.join("maps")).unwrap_or_default();
    let paths = maps.lines().filter_map(mapped);
    let of_library = paths.filter(|path| {
        let name = path.rsplit('/').next().unwrap_or_default();
        name.starts_with("libfabric") && name.contains(".so")
    });
    let mut found: Vec<String> = of_library.map(str::to_owned).collect();
    found.sort();
    found.dedup();
    found
}

/// The file of a line of maps, which may have spaces (proc(5)): all that follows five fields.
fn mapped(line: &str) -> Option<&str> {
    let mut rest = line;
    for _ in 0..5 {
        let (_, after) = rest.split_once(' ')?;
        rest = after.trim_start_matches(' ');
    }
    let file = rest.strip_suffix(" (deleted)").unwrap_or(rest);
    Some(file).filter(|file| file.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::{Process, Root, entry, mapped, memlock};

    #[test]
    fn files_of_maps_are_whole() {
        for (line, file) in [
            (
                "7f00-7f01 r-xp 00000000 08:01 42      /usr/lib/a.so",
                Some("/usr/lib/a.so"),
            ),
            (
                "7f00-7f01 r-xp 00000000 08:01 42 /my envs/a  b.so",
                Some("/my envs/a  b.so"),
            ),
            (
                "7f00-7f01 r-xp 00000000 08:01 42 /x y/a.so (deleted)",
                Some("/x y/a.so"),
            ),
            ("7f00-7f01 rw-p 00000000 00:00 0 ", None),
            ("7f00-7f01 rw-p 00000000 00:00 0    [heap]", None),
            ("7f00-7f01", None),
        ] {
            assert_eq!(mapped(line), file, "{line}");
        }
    }

    #[test]
    fn limits_are_read_as_the_kernel_writes_them() {
        let text = "Limit  Soft Limit  Hard Limit  Units\nMax locked memory         65536                8388608              bytes\n";
        assert_eq!(memlock(text), Some(65536));
        assert_eq!(
            memlock("Max locked memory  unlimited  unlimited  bytes"),
            None
        );
        assert_eq!(memlock(""), None);
    }

    #[test]
    fn this_process_is_read() {
        let here = Process::read(&Root::new("/"), None);
        let other = Process::read(&Root::new("/"), Some(std::process::id()));
        assert_eq!((&here.user, here.memlock), (&other.user, other.memlock));
        let text = "root:x:0:0:root:/r:/bin/sh\nu:x:12:12::/h/u:/bin/sh\n";
        let (name, home) = entry(text, 12).unwrap();
        assert_eq!((name.as_str(), home.unwrap().to_str()), ("u", Some("/h/u")));
        assert_eq!(entry(text, 13), None);
    }
}
