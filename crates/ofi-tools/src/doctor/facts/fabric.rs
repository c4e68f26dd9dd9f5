//! What the file of a library says of libfabric: its version, by the versions of its symbols, and whether a
//! plugin is one of libfabric at all.

use std::io::Read as _;
use std::path::Path;

use super::elf::Elf;
use super::ldso::{Library, Loader, Paths};
use super::version::Version;

/// Versions of symbols, `FABRIC_1.N`, and the release that each came with: 1.6 measured of 1.17.0, which is the
/// first that is known to have it, the others from providers 5. A release never takes one back.
const SYMBOLS: [(u32, Version); 5] = [
    (6, Version::new(1, 17, 0)),
    (7, Version::new(1, 20, 0)),
    (8, Version::new(2, 0, 0)),
    (9, Version::new(2, 5, 0)),
    (10, Version::new(2, 7, 0)),
];
const PREFIX: &str = "FABRIC_1.";
/// What everything that uses libfabric has in its file: as a name in its own tables, or to load it by.
const MENTION: &[u8] = b"libfabric";
/// Bytes of a file that are looked at; plugins have a few MiB.
const FILE_MAX: u64 = 256 << 20;
const CHUNK: usize = 1 << 16;

/// Releases that a file can be of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// The newest version of its symbols, such as `FABRIC_1.7`.
    pub(crate) newest: String,
    /// Not older than this.
    pub(crate) from: Option<Version>,
    /// Older than this.
    pub(crate) until: Option<Version>,
}

impl Bounds {
    /// Of a libfabric; `None` where its symbols have no versions.
    pub(crate) fn of(elf: &Elf) -> Option<Self> {
        let numbers = elf.defines.iter();
        let numbers = numbers.filter_map(|name| name.strip_prefix(PREFIX)?.parse::<u32>().ok());
        let newest = numbers.max()?;
        // What 1.6 came with is not known, only what had it.
        let known = SYMBOLS[1..].iter().rev();
        Some(Self {
            newest: format!("{PREFIX}{newest}"),
            from: (known.clone())
                .find(|(symbol, _)| *symbol <= newest)
                .map(|(_, release)| *release),
            until: (SYMBOLS.iter())
                .find(|(symbol, _)| *symbol > newest)
                .map(|(_, release)| *release),
        })
    }

    /// For people: `FABRIC_1.7 and no newer: 1.20.0 or newer, older than 2.0.0`.
    pub(crate) fn show(&self) -> String {
        let from = self.from.map(|from| format!("{from} or newer"));
        let until = self.until.map(|until| format!("older than {until}"));
        let each: Vec<String> = from.into_iter().chain(until).collect();
        format!("{} and no newer: {}", self.newest, each.join(", "))
    }
}

/// Whether a plugin uses libfabric: linked with it, itself or through what it needs, or with its name in the
/// file, as one that loads it at run time or has it within. What cannot be read counts as one.
pub(crate) fn is_of_libfabric(loader: &Loader<'_>, plugin: &Library) -> bool {
    let starts = |name: &String| name.starts_with("libfabric");
    let is_linked = |library: &Library| {
        let needed = library.elf.as_ref().map(|elf| elf.needed.as_slice());
        needed.unwrap_or_default().iter().any(starts)
    };
    is_linked(plugin)
        || mentions(loader, &plugin.real).unwrap_or(true)
        || loader
            .needed(plugin, &Paths::default())
            .iter()
            .any(is_linked)
}

fn mentions(loader: &Loader<'_>, file: &Path) -> Option<bool> {
    let mut from = loader.root().open(file).ok()?.take(FILE_MAX);
    let mut bytes = vec![0; CHUNK];
    let mut kept = 0;
    loop {
        let read = from.read(&mut bytes[kept..]).ok()?;
        if read == 0 {
            return Some(false);
        }
        let filled = kept + read;
        if has(&bytes[..filled]) {
            return Some(true);
        }
        // It may lie across two chunks.
        kept = filled.min(MENTION.len() - 1);
        bytes.copy_within(filled - kept..filled, 0);
    }
}

/// By its first byte, which is rare enough for a file of megabytes.
fn has(bytes: &[u8]) -> bool {
    let starts = bytes
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == MENTION[0]);
    let mut starts = starts.map(|(at, _)| at);
    starts.any(|at| bytes[at..].starts_with(MENTION))
}

#[cfg(test)]
mod tests {
    use super::{Bounds, CHUNK, Elf, Loader, MENTION, Version, mentions};
    use crate::doctor::facts::root::Root;

    fn bounds(newest: &str) -> Bounds {
        let defines = ["FABRIC_1.0", newest, "OTHER_1.99", "FABRIC_1.x"];
        let elf = Elf {
            defines: defines.map(str::to_owned).to_vec(),
            ..Elf::default()
        };
        Bounds::of(&elf).unwrap()
    }

    #[test]
    fn symbols_say_which_releases_a_file_can_be_of() {
        let version = Version::new;
        for (newest, from, until) in [
            ("FABRIC_1.3", None, Some(version(1, 17, 0))),
            ("FABRIC_1.6", None, Some(version(1, 20, 0))),
            (
                "FABRIC_1.7",
                Some(version(1, 20, 0)),
                Some(version(2, 0, 0)),
            ),
            ("FABRIC_1.9", Some(version(2, 5, 0)), Some(version(2, 7, 0))),
            ("FABRIC_1.10", Some(version(2, 7, 0)), None),
            ("FABRIC_1.12", Some(version(2, 7, 0)), None),
        ] {
            let found = bounds(newest);
            assert_eq!((found.from, found.until), (from, until), "{newest}");
            assert_eq!(found.newest, newest);
        }
        assert_eq!(Bounds::of(&Elf::default()), None);
        let shown = bounds("FABRIC_1.7").show();
        assert_eq!(
            shown,
            "FABRIC_1.7 and no newer: 1.20.0 or newer, older than 2.0.0"
        );
    }

    #[test]
    fn a_mention_is_found_wherever_it_lies() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        let loader = Loader::new(&root, 62, "");
        let file = std::path::Path::new("/plugin.so");
        for at in [
            0,
            CHUNK - 4,
            CHUNK - MENTION.len(),
            CHUNK + 1,
            3 * CHUNK - 1,
        ] {
            let mut bytes = vec![b'l'; at];
            bytes.extend(MENTION);
            std::fs::write(dir.path().join("plugin.so"), &bytes).unwrap();
            assert_eq!(mentions(&loader, file), Some(true), "{at}");
            bytes.pop();
            std::fs::write(dir.path().join("plugin.so"), &bytes).unwrap();
            assert_eq!(mentions(&loader, file), Some(false), "{at}");
        }
        assert_eq!(mentions(&loader, std::path::Path::new("/none")), None);
    }
}
