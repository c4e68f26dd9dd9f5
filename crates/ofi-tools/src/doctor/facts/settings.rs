//! The variables that a collectives library has: the environment, and for NCCL its files.
//!
//! NCCL reads `NCCL_CONF_FILE` (or else `.nccl.conf` of the user's home in the password file, whatever
//! `HOME` says), then `/etc/nccl.conf`; what is set already stays (NCCL user guide). It takes a line as it is: blanks are
//! part of names and values, and `#` means something at the beginning alone (seen with 2.23.4 to 2.32.3).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::root::{Absent, Root};
use super::version::Version;

/// The first NCCL that has `NCCL_CONF_FILE`: seen with 2.23.4, and not with 2.22.3.
const CONF_FILE_FROM: Version = Version::new(2, 23, 0);
/// The first NCCL that takes no return for a part of a line: seen with 2.32.3, and not with 2.28.9.
const NO_RETURN_FROM: Version = Version::new(2, 32, 0);

/// Where a value is from that no file sets.
pub(crate) const ENVIRONMENT: &str = "the environment";

/// A value, and where it is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) value: String,
    /// "the environment", or a file with the number of the line.
    pub(crate) origin: String,
}

/// All of them, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    all: BTreeMap<String, Setting>,
    /// A file that was named and cannot be read.
    pub(crate) unread: Option<(PathBuf, Absent)>,
}

impl Settings {
    /// The environment alone.
    pub(crate) fn of_environment(pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut all = BTreeMap::new();
        for (name, value) in pairs {
            let origin = ENVIRONMENT.to_owned();
            // As getenv(3): the first of a name counts.
            all.entry(name).or_insert(Setting { value, origin });
        }
        Self { all, unread: None }
    }

    /// Adds what the files of NCCL, of that version, say.
    pub(crate) fn with_nccl_files(
        mut self,
        root: &Root,
        home: Option<&Path>,
        nccl: Option<Version>,
    ) -> Self {
        let knows = nccl.is_none_or(|version| version >= CONF_FILE_FROM);
        let keeps_returns = nccl.is_some_and(|version| version < NO_RETURN_FROM);
        let named = self.value("NCCL_CONF_FILE").filter(|_| knows);
        let named = named.map(PathBuf::from);
        let own = home.map(|home| home.join(".nccl.conf"));
        if let Some(file) = &named {
            if let Err(absent) = root.text(file) {
                self.unread = Some((file.clone(), absent));
            }
        }
        let first = named.or(own);
        for file in first.into_iter().chain([PathBuf::from("/etc/nccl.conf")]) {
            let text = root.text(&file).unwrap_or_default();
            self.read(&file, &text, keeps_returns);
        }
        self
    }

    fn read(&mut self, file: &Path, text: &str, keeps_returns: bool) {
        for (number, line) in (1..).zip(text.split('\n')) {
            let without = line.strip_suffix('\r').filter(|_| !keeps_returns);
            let line = without.unwrap_or(line);
            let Some((name, value)) = line.split_once('=').filter(|_| !line.starts_with('#'))
            else {
                continue;
            };
            let setting = || Setting {
                value: value.to_owned(),
                origin: format!("{}:{number}", file.display()),
            };
            self.all.entry(name.to_owned()).or_insert_with(setting);
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Setting> {
        self.all.get(name)
    }

    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.get(name).map(|setting| setting.value.as_str())
    }

    /// What the process was started with: the loader has read it before NCCL reads its files.
    pub(crate) fn exported(&self, name: &str) -> &str {
        let setting = self.get(name);
        let own = setting.filter(|setting| setting.origin == ENVIRONMENT);
        own.map_or("", |setting| &setting.value)
    }

    /// A value that is there and not empty.
    pub(crate) fn filled(&self, name: &str) -> Option<&str> {
        self.value(name).filter(|value| !value.trim().is_empty())
    }

    /// Whether a switch is on.
    pub(crate) fn is_on(&self, name: &str) -> bool {
        let value = self
            .value(name)
            .unwrap_or_default()
            .trim()
            .to_ascii_lowercase();
        matches!(value.as_str(), "1" | "true" | "yes" | "on" | "y")
    }

    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.all
            .iter()
            .map(|(name, setting)| (name.as_str(), setting.value.as_str()))
    }

    /// `NAME=value (where it is from)`, for evidence.
    pub(crate) fn show(&self, name: &str) -> String {
        match self.get(name) {
            None => format!("{name} is not set"),
            Some(Setting { value, origin }) => {
                let unseen = unseen(value);
                let value: String = value.chars().take(200).collect();
                format!("{name}={value} (from {origin}{unseen})")
            }
        }
    }
}

/// What of a value does not show, and counts.
fn unseen(value: &str) -> &'static str {
    if value.ends_with('\r') {
        "; it ends in a carriage return: the file that sets it has line ends of Windows"
    } else if !value.is_empty() && value != value.trim() {
        "; it has blanks around it"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::{Root, Settings, Version};
    use std::path::Path;

    #[test]
    fn what_does_not_show_is_said() {
        for (value, says) in [
            ("efa\r", "carriage return"),
            (" efa", "blanks around"),
            ("efa\t", "blanks around"),
            ("efa", ""),
            ("", ""),
        ] {
            let said = super::unseen(value);
            assert!(
                said.contains(says) && said.is_empty() == says.is_empty(),
                "{value:?}"
            );
        }
    }

    #[test]
    fn the_first_place_that_sets_a_name_wins() {
        let dir = tempfile::tempdir().unwrap();
        for (file, text) in [
            ("etc/nccl.conf", "# all\nA=etc\nB=etc\nC=etc\n"),
            ("users/u/.nccl.conf", "B=home # mine\n#D=1\n E=1\n"),
            ("x.conf", "B=named\n"),
        ] {
            let file = dir.path().join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        let root = Root::new(dir.path());
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let home = Some(Path::new("/users/u"));
        let env = || Settings::of_environment([pair("C", "env")]);
        let read = env().with_nccl_files(&root, home, None);
        assert_eq!(
            ["A", "B", "C"].map(|n| read.value(n).unwrap()),
            ["etc", "home # mine", "env"]
        );
        assert_eq!(read.show("B"), "B=home # mine (from /users/u/.nccl.conf:1)");
        assert_eq!((read.value("D"), read.value("E")), (None, None));
        let named = Settings::of_environment([pair("NCCL_CONF_FILE", "/x.conf")]);
        let of = |minor| Some(Version::new(2, minor, 3));
        let old = named.clone().with_nccl_files(&root, home, of(22));
        assert_eq!(old.value("B"), Some("home # mine"));
        let read = named.with_nccl_files(&root, home, of(23));
        assert_eq!(read.value("B"), Some("named"));
        let named = Settings::of_environment([pair("NCCL_CONF_FILE", "/y.conf")]);
        let read = named.with_nccl_files(&root, home, None);
        assert_eq!(
            (read.value("B"), read.unread.is_some()),
            (Some("etc"), true)
        );
    }
}
