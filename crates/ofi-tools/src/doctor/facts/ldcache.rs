//! What the host tells its loader: the cache of ldconfig(8), its configuration, and what the processor can.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::elf::AARCH64;
use super::root::Root;

pub(super) const CACHE: &str = "/etc/ld.so.cache";
const CACHE_MAX: u64 = 16 << 20;
const CACHE_MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
const CACHE_HEAD: usize = 48;
const CACHE_ENTRY: usize = 24;

/// Directories for what only newer processors run, below each that is searched; the best first. Each with the flags of
/// `/proc/cpuinfo` that it takes beside those of the one behind it (x86-64 psABI).
const LEVELS: [(&str, &[&str]); 3] = [
    (
        "glibc-hwcaps/x86-64-v4",
        &["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"],
    ),
    (
        "glibc-hwcaps/x86-64-v3",
        &[
            "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave",
        ],
    ),
    (
        "glibc-hwcaps/x86-64-v2",
        &[
            "cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3",
        ],
    ),
];

/// Those that this processor takes, the best first; none where nobody says.
pub(super) fn levels(root: &Root) -> Vec<&'static str> {
    let text = root.text("/proc/cpuinfo").unwrap_or_default();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags"));
    let flags: Vec<&str> = flags.unwrap_or_default().split_ascii_whitespace().collect();
    let has =
        |(_, wanted): &&(&'static str, &[&str])| wanted.iter().all(|flag| flags.contains(flag));
    let mut levels: Vec<&'static str> = (LEVELS.iter().rev().take_while(has))
        .map(|(dir, _)| *dir)
        .collect();
    levels.reverse();
    levels
}

/// The cache: a header, entries, strings; offsets are from the header. Of several entries of a name the best that the
/// processor takes counts; those of another machine do not.
pub(super) fn read(
    root: &Root,
    machine: u16,
    levels: &[&str],
) -> Option<BTreeMap<String, PathBuf>> {
    let mut bytes = Vec::new();
    let file = root.open(Path::new(CACHE)).ok()?;
    file.take(CACHE_MAX).read_to_end(&mut bytes).ok()?;
    // An older format may stand before it.
    let at = bytes
        .windows(CACHE_MAGIC.len())
        .position(|w| w == CACHE_MAGIC)?;
    let cache = bytes.get(at..)?;
    let word = |at: usize| {
        let field = cache.get(at..)?.first_chunk()?;
        usize::try_from(u32::from_le_bytes(*field)).ok()
    };
    let text = |at: usize| {
        let rest = cache.get(at..)?;
        let end = rest.iter().position(|byte| *byte == 0)?;
        Some(String::from_utf8_lossy(&rest[..end]).into_owned())
    };
    let count = word(CACHE_MAGIC.len())?.min(bytes.len() / CACHE_ENTRY);
    let mut libraries: BTreeMap<String, (usize, PathBuf)> = BTreeMap::new();
    for entry in 0..count {
        let at = CACHE_HEAD + entry * CACHE_ENTRY;
        let (flags, name, path) = (word(at)?, text(word(at + 4)?)?, text(word(at + 8)?)?);
        let Some(rank) = rank(&path, levels).filter(|_| is_for(flags, machine)) else {
            continue;
        };
        let path = PathBuf::from(path);
        let best = libraries
            .entry(name)
            .or_insert_with(|| (rank, path.clone()));
        if rank < best.0 {
            *best = (rank, path);
        }
    }
    Some(
        libraries
            .into_iter()
            .map(|(name, (_, path))| (name, path))
            .collect(),
    )
}

/// How good an entry is, 0 the best; `None`: the processor does not take it.
fn rank(path: &str, levels: &[&str]) -> Option<usize> {
    if !path.contains("/glibc-hwcaps/") {
        return Some(levels.len());
    }
    levels
        .iter()
        .position(|level| path.contains(&format!("/{level}/")))
}

/// Flags of an entry: a library of glibc (3 in the first byte), and of which machine.
const fn is_for(flags: usize, machine: u16) -> bool {
    match machine {
        AARCH64 => flags == 0x0a03,
        _ => flags == 0x0303,
    }
}

/// Directories of `/etc/ld.so.conf` and of the files that it includes.
pub(super) fn configured(root: &Root) -> Vec<String> {
    let mut dirs = Vec::new();
    let included = root.names("/etc/ld.so.conf.d");
    let included = included.iter().filter(|name| name.ends_with(".conf"));
    let included = included.map(|name| Path::new("/etc/ld.so.conf.d").join(name));
    for file in included.chain([PathBuf::from("/etc/ld.so.conf")]) {
        let text = root.text(&file).unwrap_or_default();
        let lines = text
            .lines()
            .map(|line| line.split('#').next().unwrap_or("").trim());
        dirs.extend(
            lines
                .filter(|line| line.starts_with('/'))
                .map(str::to_owned),
        );
    }
    dirs
}

#[cfg(test)]
mod tests {
    use super::{LEVELS, Root, levels, rank, read};
    use crate::doctor::facts::elf::{AARCH64, X86_64};
    use std::path::Path;

    fn cache(entries: &[(u32, &str, &str)]) -> Vec<u8> {
        let mut strings = Vec::new();
        let first = 48 + 24 * entries.len();
        let mut rows = Vec::new();
        for (flags, name, path) in entries {
            let mut place = |text: &str| {
                let at = u32::try_from(first + strings.len()).unwrap();
                strings.extend(text.as_bytes());
                strings.push(0);
                at
            };
            let words = [*flags, place(name), place(path), 0, 0, 0];
            rows.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        }
        let mut bytes = b"glibc-ld.so.cache1.1".to_vec();
        bytes.extend(u32::try_from(entries.len()).unwrap().to_le_bytes());
        bytes.resize(48, 0);
        bytes.extend(rows);
        bytes.extend(strings);
        bytes
    }

    #[test]
    fn the_best_entry_of_this_machine_counts() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("etc")).unwrap();
        let root = Root::new(dir.path());
        let write =
            |bytes: &[u8]| std::fs::write(dir.path().join("etc/ld.so.cache"), bytes).unwrap();
        assert!(read(&root, X86_64, &[]).is_none());
        write(&cache(&[
            (0x0003, "a", "/i386/a"),
            (0x0303, "a", "/lib/glibc-hwcaps/x86-64-v4/a"),
            (0x0303, "a", "/lib/glibc-hwcaps/x86-64-v2/a"),
            (0x0303, "a", "/lib/glibc-hwcaps/x86-64-v3/a"),
            (0x0303, "a", "/lib/a"),
            (0x0a03, "a", "/arm/a"),
        ]));
        let taken =
            |machine, levels: &[&str]| read(&root, machine, levels).unwrap().remove("a").unwrap();
        let [v4, v3, v2] = LEVELS.map(|(dir, _)| dir);
        for (machine, levels, path) in [
            (X86_64, &[v3, v2][..], "/lib/glibc-hwcaps/x86-64-v3/a"),
            (X86_64, &[v4, v3, v2], "/lib/glibc-hwcaps/x86-64-v4/a"),
            (X86_64, &[], "/lib/a"),
            (AARCH64, &[], "/arm/a"),
        ] {
            assert_eq!(taken(machine, levels), Path::new(path));
        }
        let mut damaged = b"glibc-ld.so.cache1.1".to_vec();
        damaged.extend([0xff; 60]);
        write(&damaged);
        assert!(read(&root, X86_64, &[]).is_none());
        assert_eq!(rank("/lib/glibc-hwcaps/x86-64-v5/a", &[v4]), None);
    }

    #[test]
    fn a_level_takes_all_below_it() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("proc")).unwrap();
        let root = Root::new(dir.path());
        assert!(levels(&root).is_empty());
        let of = |flags: &[&[&str]]| {
            let text = format!(
                "processor\t: 0\nflags\t\t: fpu {}\n",
                flags.concat().join(" ")
            );
            std::fs::write(dir.path().join("proc/cpuinfo"), text).unwrap();
            levels(&root).len()
        };
        let [v4, v3, v2] = LEVELS.map(|(_, flags)| flags);
        assert_eq!([of(&[v2]), of(&[v2, v3]), of(&[v4, v3, v2])], [1, 2, 3]);
        assert_eq!([of(&[v3]), of(&[v4, v2]), of(&[&v2[1..]])], [0, 1, 0]);
    }
}
