//! The variables that a collectives library has: the environment, and for NCCL its files.
//!
//! NCCL reads `NCCL_CONF_FILE` (or else `.nccl.conf` of the user's home in the password file, whatever
//! `HOME` says), then `/etc/nccl.conf`; what is set already stays (NCCL user guide).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::root::{Absent, Root};

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
            let origin = "the environment".to_owned();
            // As getenv(3): the first of a name counts.
            all.entry(name).or_insert(Setting { value, origin });
        }
        Self { all, unread: None }
    }

    /// Adds what NCCL's files say.
    pub(crate) fn with_nccl_files(mut self, root: &Root, home: Option<&Path>) -> Self {
        let named = self.value("NCCL_CONF_FILE").map(PathBuf::from);
        let own = home.map(|home| home.join(".nccl.conf"));
        if let Some(file) = &named {
            if let Err(absent) = root.text(file) {
                self.unread = Some((file.clone(), absent));
            }
        }
        let first = named.or(own);
        for file in first.into_iter().chain([PathBuf::from("/etc/nccl.conf")]) {
            self.read(&file, &root.text(&file).unwrap_or_default());
        }
        self
    }

    fn read(&mut self, file: &Path, text: &str) {
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default();
            let Some((name, value)) = line.split_once('=') else {
                continue;
            };
            let setting = || Setting {
                value: value.trim().to_owned(),
                origin: format!("{}:{number}", file.display()),
            };
            self.all
                .entry(name.trim().to_owned())
                .or_insert_with(setting);
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Setting> {
        self.all.get(name)
    }

    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.get(name).map(|setting| setting.value.as_str())
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
                let value: String = value.chars().take(200).collect();
                format!("{name}={value} (from {origin})")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Root, Settings};
    use std::path::Path;

    #[test]
    fn the_first_place_that_sets_a_name_wins() {
        let dir = tempfile::tempdir().unwrap();
        for (file, text) in [
            ("etc/nccl.conf", "# all\nA=etc\nB=etc\nC=etc\n"),
            ("users/u/.nccl.conf", "B=home # mine\n"),
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
        let read = env().with_nccl_files(&root, home);
        assert_eq!(
            ["A", "B", "C"].map(|n| read.value(n).unwrap()),
            ["etc", "home", "env"]
        );
        assert_eq!(read.show("B"), "B=home (from /users/u/.nccl.conf:1)");
        let named = Settings::of_environment([pair("NCCL_CONF_FILE", "/x.conf")]);
        assert_eq!(named.with_nccl_files(&root, home).value("B"), Some("named"));
        let named = Settings::of_environment([pair("NCCL_CONF_FILE", "/y.conf")]);
        let read = named.with_nccl_files(&root, home);
        assert_eq!(
            (read.value("B"), read.unread.is_some()),
            (Some("etc"), true)
        );
    }
}
