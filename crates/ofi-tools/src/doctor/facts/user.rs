//! For whom a host is judged: the user of a job, who need not be the one that runs `ofi doctor` (a prolog of
//! Slurm and an init container are root).

use std::path::{Path, PathBuf};
use std::process::Command;

use super::root::Root;
use super::settings::Settings;

/// `CAP_DAC_OVERRIDE`: permissions of files do not count (capabilities(7)).
pub(super) const DAC_OVERRIDE: u32 = 1;

/// Variables that say whose job it is, the first first: an id or a name.
const OF_JOB: [&str; 3] = ["SLURM_JOB_UID", "SLURM_JOB_USER", "SUDO_UID"];

/// What permissions of files are judged by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) id: u32,
    /// Where the password file has one.
    pub(crate) name: Option<String>,
    /// `None`: nobody says, and membership of any counts.
    pub(crate) groups: Option<Vec<u32>>,
    pub(super) capabilities: u64,
    /// Home of the user in the password file.
    pub(crate) home: Option<PathBuf>,
}

/// What is done with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    ReadWrite,
    /// Of a directory: going through it.
    Search,
}

impl User {
    /// The one of an id or a name, as the password file and the group file have it; on the live host also as the
    /// name service has it, which knows users of a directory service.
    pub(crate) fn find(root: &Root, word: &str, is_live: bool) -> Option<Self> {
        let of_file = || line_of(&root.text("/etc/passwd").unwrap_or_default(), word);
        let line =
            of_file().or_else(|| line_of(&asked(is_live, &["getent", "passwd", word])?, word));
        let Some(line) = line else {
            // An id may have no name, and nobody says what groups it has.
            let id = word.parse().ok()?;
            return Some(Self {
                id,
                ..Self::default()
            });
        };
        let fields: Vec<&str> = line.split(':').collect();
        let name = (*fields.first()?).to_owned();
        let number = |at: usize| fields.get(at)?.parse::<u32>().ok();
        let listed = asked(is_live, &["id", "-G", &name]);
        let listed = listed
            .map(|text| numbers(&text))
            .filter(|groups| !groups.is_empty());
        let of_files = || {
            let text = root.text("/etc/group").unwrap_or_default();
            groups_of(&text, &name).chain(number(3)).collect()
        };
        Some(Self {
            id: number(2)?,
            groups: Some(listed.unwrap_or_else(of_files)),
            capabilities: 0,
            home: fields
                .get(5)
                .filter(|home| !home.is_empty())
                .map(PathBuf::from),
            name: Some(name),
        })
    }

    /// Who the environment of a prolog or of sudo(8) says that the job is of: the variable, and its value.
    pub(crate) fn of_job(environment: &Settings) -> Option<(&'static str, &str)> {
        OF_JOB
            .iter()
            .find_map(|name| Some((*name, environment.filled(name)?.trim())))
    }

    /// Whether a file with these owners and mode bits lets it.
    pub(crate) fn may(&self, access: Access, (owner, group, mode): (u32, u32, u32)) -> bool {
        if self.capabilities >> DAC_OVERRIDE & 1 == 1 {
            return true;
        }
        let wanted = match access {
            Access::Read => 4,
            Access::ReadWrite => 6,
            Access::Search => 1,
        };
        let lets = |shift: u32| mode >> shift & wanted == wanted;
        if owner == self.id {
            return lets(6);
        }
        match &self.groups {
            Some(groups) if groups.contains(&group) => lets(3),
            Some(_) => lets(0),
            None => lets(3) || lets(0),
        }
    }

    /// For people: `alice (1000)`.
    pub(crate) fn show(&self) -> String {
        match &self.name {
            Some(name) => format!("{name} ({})", self.id),
            None => self.id.to_string(),
        }
    }
}

/// Of a text such as the password file the line of an id or of a name.
fn line_of(passwd: &str, word: &str) -> Option<String> {
    let is_ones = |line: &&str| {
        let mut fields = line.split(':');
        fields.next() == Some(word) || fields.nth(1) == Some(word)
    };
    passwd.lines().find(is_ones).map(str::to_owned)
}

/// Ids of the groups that list a user: `name:password:id:users`.
fn groups_of<'t>(groups: &'t str, user: &'t str) -> impl Iterator<Item = u32> + 't {
    groups.lines().filter_map(move |line| {
        let fields: Vec<&str> = line.split(':').collect();
        let is_member = fields.get(3)?.split(',').any(|name| name.trim() == user);
        fields.get(2)?.parse().ok().filter(|_| is_member)
    })
}

fn numbers(text: &str) -> Vec<u32> {
    let words = text.split_ascii_whitespace();
    words.filter_map(|word| word.parse().ok()).collect()
}

/// What a command of the live host prints, where it ends well.
fn asked(is_live: bool, words: &[&str]) -> Option<String> {
    let (program, words) = words.split_first().filter(|_| is_live)?;
    // A name that looks like an option is no name.
    if words.last().is_none_or(|word| word.starts_with('-')) {
        return None;
    }
    let ran = Command::new(program).args(words).output().ok()?;
    ran.status
        .success()
        .then(|| String::from_utf8_lossy(&ran.stdout).into_owned())
}

/// Whether a file has an access control list (acl(5)), which may let in whom the mode bits keep out; `ls -l` marks it.
pub(super) fn has_acl(file: &Path) -> bool {
    let ran = Command::new("ls").arg("-ldn").arg(file).output();
    ran.is_ok_and(|ran| marks_acl(&String::from_utf8_lossy(&ran.stdout)))
}

fn marks_acl(line: &str) -> bool {
    let mode = line.split_ascii_whitespace().next();
    mode.is_some_and(|mode| mode.ends_with('+'))
}

/// What `pam_limits(8)` gives a session of a user to lock: the number of bytes, `None` for all there are, and the
/// line that says so.
pub(crate) fn locked(root: &Root, user: &User) -> Option<(Option<u64>, String)> {
    const DIR: &str = "/etc/security/limits.d";
    let more = root.names(DIR).into_iter();
    let more = more.filter(|name| name.ends_with(".conf"));
    let more = more.map(|name| Path::new(DIR).join(name));
    let group_file = root.text("/etc/group").unwrap_or_default();
    let mut best: Option<(u8, Option<u64>, String)> = None;
    for file in core::iter::once(PathBuf::from("/etc/security/limits.conf")).chain(more) {
        let text = root.text(&file).unwrap_or_default();
        for (number, line) in (1..).zip(text.lines()) {
            let Some((rank, bytes)) = limit(line, user, &group_file) else {
                continue;
            };
            // Of two of one kind the later counts.
            if best.as_ref().is_none_or(|(has, ..)| rank >= *has) {
                best = Some((rank, bytes, format!("{}:{number}", file.display())));
            }
        }
    }
    best.map(|(_, bytes, at)| (bytes, at))
}

/// A line of limits.conf(5): how near it names the user, and the soft limit of locked memory that it gives.
fn limit(line: &str, user: &User, groups: &str) -> Option<(u8, Option<u64>)> {
    let line = line.split('#').next()?;
    let mut words = line.split_ascii_whitespace();
    let (domain, kind, item, value) = (words.next()?, words.next()?, words.next()?, words.next()?);
    if item != "memlock" || !matches!(kind, "soft" | "-") {
        return None;
    }
    let named = |name: &str| {
        let mut lines = groups.lines().map(|line| line.split(':'));
        let mut fields =
            lines.find_map(|mut fields| (fields.next() == Some(name)).then_some(fields))?;
        fields.nth(1)?.parse::<u32>().ok()
    };
    let rank = if user.name.as_deref() == Some(domain) {
        2
    } else if let Some(group) = domain.strip_prefix('@') {
        let has = |id: u32| user.groups.as_ref().is_some_and(|all| all.contains(&id));
        named(group).is_some_and(has).then_some(1)?
    } else if domain == "*" {
        // It is nothing for root.
        (user.id != 0).then_some(0)?
    } else {
        return None;
    };
    match value {
        "unlimited" | "infinity" | "-1" => Some((rank, None)),
        kib => Some((rank, Some(kib.parse::<u64>().ok()?.saturating_mul(1024)))),
    }
}

#[cfg(test)]
mod tests {
    use super::{Access, Command, DAC_OVERRIDE, Root, User, has_acl, locked, marks_acl};

    fn root() -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("etc/security/limits.d")).unwrap();
        let write = |file: &str, text: &str| std::fs::write(dir.path().join(file), text).unwrap();
        write(
            "etc/passwd",
            "root:x:0:0::/r:/bin/sh\nu:x:12:30::/h/u:/bin/sh\nv:x:13:31:::\n",
        );
        write("etc/group", "u:x:30:\nrdma:x:7:w,u\nwheel:x:8:uu\n");
        write(
            "etc/security/limits.conf",
            "* soft memlock 64\nu hard memlock 1\n@rdma - memlock 1024 # why\n#u - memlock 3\nv - memlock unlimited\n",
        );
        write(
            "etc/security/limits.d/9.conf",
            "* - memlock 128\n* - nofile 3\n@wheel - memlock 5\n",
        );
        let root = Root::new(dir.path());
        (dir, root)
    }

    #[test]
    fn users_are_found_by_name_and_by_id() {
        let (_dir, root) = root();
        let user = User::find(&root, "u", false).unwrap();
        assert_eq!((user.id, user.groups.clone()), (12, Some(vec![7, 30])));
        assert_eq!(user.home.as_ref().unwrap().to_str(), Some("/h/u"));
        assert_eq!(User::find(&root, "12", false), Some(user));
        assert_eq!(User::find(&root, "v", false).unwrap().home, None);
        assert_eq!(User::find(&root, "nobody-has-it", false), None);
        let unknown = User::find(&root, "99", false).unwrap();
        assert_eq!((unknown.id, &unknown.groups), (99, &None));
        assert_eq!(unknown.show(), "99");
        // Of a copy nothing is asked of the live host, which has one.
        assert_eq!(User::find(&Root::new("/nowhere"), "root", false), None);
        assert_eq!(
            User::find(&Root::new("/nowhere"), "root", true).map(|user| user.id),
            Some(0)
        );
    }

    #[test]
    fn permissions_are_those_of_unix() {
        let plain = User {
            id: 1000,
            groups: Some(vec![7]),
            ..User::default()
        };
        let uses =
            |user: &User, owner, group, mode| user.may(Access::ReadWrite, (owner, group, mode));
        assert!(uses(&plain, 1000, 0, 0o600) && !uses(&plain, 0, 0, 0o660));
        assert!(uses(&plain, 0, 7, 0o660) && uses(&plain, 0, 0, 0o666));
        // The owner's bits count for the owner, also when others have more.
        assert!(!uses(&plain, 1000, 7, 0o066));
        assert!(plain.may(Access::Read, (0, 0, 0o604)) && !plain.may(Access::Read, (0, 7, 0o604)));
        assert!(
            plain.may(Access::Search, (0, 0, 0o701)) && !plain.may(Access::Search, (0, 0, 0o776))
        );
        let any = User {
            groups: None,
            ..plain.clone()
        };
        assert!(uses(&any, 0, 5, 0o660) && uses(&any, 0, 5, 0o606) && !uses(&any, 0, 5, 0o600));
        let root = User {
            capabilities: 1 << DAC_OVERRIDE,
            ..plain
        };
        assert!(uses(&root, 0, 0, 0));
    }

    #[test]
    fn lists_are_seen_by_their_mark() {
        assert!(marks_acl("-rw-r-----+ 1 0 0 0 Dec  1 06:29 /x/a b+\n"));
        for line in [
            "-rw-r----- 1 0 0 0 Dec  1 06:29 /x/a+",
            "-rw-r-----. 1 0 0 0 Dec 1 06:29 /x",
            "",
        ] {
            assert!(!marks_acl(line), "{line}");
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(!has_acl(file.path()));
        let set = Command::new("setfacl")
            .args(["-m", "u:4242:r"])
            .arg(file.path())
            .status();
        if set.is_ok_and(|status| status.success()) {
            assert!(has_acl(file.path()));
        }
    }

    #[test]
    fn the_nearest_line_of_limits_counts() {
        let (_dir, root) = root();
        let of = |word: &str| locked(&root, &User::find(&root, word, false).unwrap());
        let conf = "/etc/security/limits.conf";
        assert_eq!(of("u"), Some((Some(1 << 20), format!("{conf}:3"))));
        assert_eq!(of("v"), Some((None, format!("{conf}:5"))));
        let last = "/etc/security/limits.d/9.conf:1".to_owned();
        assert_eq!(of("99"), Some((Some(128 << 10), last)));
        assert_eq!(of("root"), None);
    }
}
