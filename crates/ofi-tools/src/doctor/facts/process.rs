//! The process that a job would be: user, limits, capabilities, container (proc(5)).

use std::path::{Path, PathBuf};

use super::root::Root;

/// `CAP_IPC_LOCK`: no limit of locked memory (capabilities(7)).
const IPC_LOCK: u32 = 14;
/// `CAP_DAC_OVERRIDE`: permissions of files do not count.
const DAC_OVERRIDE: u32 = 1;

/// What `/proc/<pid>` says of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Process {
    pub(crate) user: u32,
    pub(crate) groups: Vec<u32>,
    capabilities: u64,
    /// Bytes that it may lock; `None`: as many as there are, or nobody says.
    pub(crate) memlock: Option<u64>,
    /// What shows that it is in a container.
    pub(crate) container: Option<&'static str>,
    /// Home of the user in the password file.
    pub(crate) home: Option<PathBuf>,
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
        let user = numbers("Uid").get(1).copied().unwrap_or(0);
        let mut groups = numbers("Groups");
        groups.extend(numbers("Gid").get(1));
        let capabilities = field("CapEff").and_then(|hex| u64::from_str_radix(hex, 16).ok());
        Self {
            user,
            groups,
            capabilities: capabilities.unwrap_or(0),
            memlock: memlock(&root.text(dir.join("limits")).unwrap_or_default()),
            container: container(root),
            home: home(&root.text("/etc/passwd").unwrap_or_default(), user),
            libfabrics: pid.map_or_else(Vec::new, |_| libfabrics(root, &dir)),
        }
    }

    /// Whether the limit of locked memory counts for it.
    pub(crate) const fn is_lock_bounded(&self) -> bool {
        self.capabilities >> IPC_LOCK & 1 == 0
    }

    /// Whether it may read and write a file with these owners and mode bits.
    pub(crate) fn may_use(&self, owner: u32, group: u32, mode: u32) -> bool {
        const BOTH: u32 = 0o6;
        if self.capabilities >> DAC_OVERRIDE & 1 == 1 {
            return true;
        }
        let shift = if owner == self.user {
            6
        } else if self.groups.contains(&group) {
            3
        } else {
            0
        };
        mode >> shift & BOTH == BOTH
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

/// Where NCCL looks for `.nccl.conf`: getpwuid(3), not `HOME`.
fn home(passwd: &str, user: u32) -> Option<PathBuf> {
    let is_users = |fields: &Vec<&str>| fields.get(2).is_some_and(|id| *id == user.to_string());
    let mut lines = passwd
        .lines()
        .map(|line| line.split(':').collect::<Vec<_>>());
    let fields = lines.find(is_users)?;
    fields
        .get(5)
        .filter(|home| !home.is_empty())
        .map(PathBuf::from)
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
    use super::{Process, Root, home, mapped, memlock};

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
    fn permissions_are_those_of_unix() {
        let plain = Process {
            user: 1000,
            groups: vec![7],
            ..Process::default()
        };
        assert!(plain.may_use(1000, 0, 0o600) && !plain.may_use(0, 0, 0o660));
        assert!(plain.may_use(0, 7, 0o660) && plain.may_use(0, 0, 0o666));
        // The owner's bits count for the owner, also when others have more.
        assert!(!plain.may_use(1000, 7, 0o066));
        let root = Process {
            capabilities: 1 << super::DAC_OVERRIDE,
            ..plain
        };
        assert!(root.may_use(0, 0, 0) && root.is_lock_bounded());
    }

    #[test]
    fn this_process_is_read() {
        let here = Process::read(&Root::new("/"), None);
        let other = Process::read(&Root::new("/"), Some(std::process::id()));
        assert_eq!((here.user, here.memlock), (other.user, other.memlock));
        let text = "root:x:0:0:root:/r:/bin/sh\nu:x:12:12::/h/u:/bin/sh\n";
        assert_eq!(home(text, 12).unwrap().to_str(), Some("/h/u"));
        assert_eq!(home(text, 13), None);
    }
}
