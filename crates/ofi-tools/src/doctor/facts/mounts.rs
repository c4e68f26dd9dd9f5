//! What is mounted where, and how: `/proc/mounts` (proc(5)).

use std::path::{Path, PathBuf};

use super::root::Root;

/// One that is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    pub(crate) point: PathBuf,
    /// `tmpfs` and the like.
    pub(crate) kind: String,
    options: Vec<String>,
}

impl Mount {
    pub(crate) fn has(&self, option: &str) -> bool {
        self.options.iter().any(|is| is == option)
    }
}

/// All of them; empty: nobody says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mounts(Vec<Mount>);

impl Mounts {
    pub(crate) fn read(root: &Root) -> Self {
        Self::parse(&root.text("/proc/mounts").unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        let lines = text.lines().filter_map(|line| {
            let mut words = line.split_ascii_whitespace().skip(1);
            Some(Mount {
                point: PathBuf::from(plain(words.next()?)),
                kind: words.next()?.to_owned(),
                options: words.next()?.split(',').map(str::to_owned).collect(),
            })
        });
        Self(lines.collect())
    }

    pub(crate) fn is_told(&self) -> bool {
        !self.0.is_empty()
    }

    /// Where a path (links followed) lies: the deepest, and of several at one place the last.
    pub(crate) fn of(&self, path: &Path) -> Option<&Mount> {
        let above = self.0.iter().filter(|mount| path.starts_with(&mount.point));
        above.max_by_key(|mount| mount.point.components().count())
    }

    /// What is mounted just there.
    pub(crate) fn at(&self, point: &Path) -> Option<&Mount> {
        self.of(point).filter(|mount| mount.point == point)
    }
}

/// Blanks and the like are three octal digits behind a `\`.
fn plain(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = part
            .get(..3)
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) => {
                out.push(code.into());
                out += &part[3..];
            }
            None => {
                out.push('\\');
                out += part;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{Mounts, plain};
    use std::path::Path;

    #[test]
    fn the_deepest_and_last_counts() {
        let text = "/dev/a / ext4 rw 0 0\ntmpfs /dev tmpfs rw 0 0\nshm /dev/shm tmpfs rw,size=1k 0 0\n\
                    shm /dev/shm tmpfs ro,noexec 0 0\nx /opt\\040a nfs rw,noexec 0 0\nshort\n";
        let mounts = Mounts::parse(text);
        let point = |path: &str| {
            mounts
                .of(Path::new(path))
                .map(|mount| mount.point.to_str().unwrap())
        };
        assert_eq!(point("/dev/shm/x"), Some("/dev/shm"));
        assert_eq!(point("/dev/shmx"), Some("/dev"));
        assert_eq!(point("/opt a/lib/x.so"), Some("/opt a"));
        assert_eq!(point("/opt/x.so"), Some("/"));
        let last = mounts.at(Path::new("/dev/shm")).unwrap();
        assert!(last.has("ro") && !last.has("rw") && last.kind == "tmpfs");
        assert!(mounts.at(Path::new("/dev/shm/x")).is_none());
        assert!(mounts.is_told() && !Mounts::parse("").is_told());
        assert_eq!(plain("a\\040b\\134c\\9"), "a b\\c\\9");
    }
}
