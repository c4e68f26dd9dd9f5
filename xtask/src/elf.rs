//! As much of the ELF format as the check of a shared library takes: what it needs, what it
//! exports, and which versions of the C library's symbols it asks for. 64-bit little-endian only.
//!
//! Layouts from elf(5). Every offset comes from the file and is checked against its length.

use anyhow::{Context as _, Result, bail, ensure};

/// What a shared library says of itself.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SharedLibrary {
    /// Libraries that the loader must find (`DT_NEEDED`).
    pub(crate) needed: Vec<String>,
    /// Symbols that others can see: defined, global or weak, not hidden. Sorted.
    pub(crate) exported: Vec<String>,
    /// Versions of symbols it asks for, as `GLIBC_2.34`. Sorted, without repeats.
    pub(crate) versions: Vec<String>,
}

const SECTION_DYNAMIC: u32 = 6;
const SECTION_DYNSYM: u32 = 11;
const SECTION_VERNEED: u32 = 0x6fff_fffe;
/// More versions than any library asks for.
const VERSIONS_MAX: usize = 4096;
const DT_NEEDED: u64 = 1;
const BIND_GLOBAL: u8 = 1;
const BIND_WEAK: u8 = 2;
const VISIBILITY_DEFAULT: u8 = 0;
const VISIBILITY_PROTECTED: u8 = 3;

/// Reads a shared library.
pub(crate) fn parse(bytes: &[u8]) -> Result<SharedLibrary> {
    let file = File { bytes };
    ensure!(
        bytes.starts_with(b"\x7fELF\x02\x01"),
        "not a 64-bit little-endian ELF file"
    );
    let sections = file
        .sections()
        .context("the table of sections is damaged")?;
    let mut library = SharedLibrary::default();
    for section in &sections {
        match section.kind {
            SECTION_DYNAMIC => file.needed(section, &sections, &mut library.needed),
            SECTION_DYNSYM => file.exported(section, &sections, &mut library.exported),
            SECTION_VERNEED => file.versions(section, &sections, &mut library.versions),
            _ => Some(()),
        }
        .with_context(|| format!("a section of type {:#x} is damaged", section.kind))?;
    }
    if !sections
        .iter()
        .any(|section| section.kind == SECTION_DYNAMIC)
    {
        bail!("not a dynamic object");
    }
    library.exported.sort();
    library.versions.sort();
    library.versions.dedup();
    Ok(library)
}

struct File<'a> {
    bytes: &'a [u8],
}

struct Section {
    kind: u32,
    offset: usize,
    size: usize,
    /// Index of the section with the names.
    link: usize,
    /// For `SHT_GNU_verneed`: how many records.
    info: usize,
}

impl File<'_> {
    fn array<const N: usize>(&self, offset: usize) -> Option<[u8; N]> {
        self.bytes
            .get(offset..offset.checked_add(N)?)?
            .try_into()
            .ok()
    }

    fn half(&self, offset: usize) -> Option<usize> {
        Some(usize::from(u16::from_le_bytes(self.array(offset)?)))
    }

    fn word(&self, offset: usize) -> Option<u32> {
        Some(u32::from_le_bytes(self.array(offset)?))
    }

    /// A 32-bit field that is an offset or a count.
    fn small(&self, offset: usize) -> Option<usize> {
        usize::try_from(self.word(offset)?).ok()
    }

    fn long(&self, offset: usize) -> Option<u64> {
        Some(u64::from_le_bytes(self.array(offset)?))
    }

    /// A 64-bit field that is an offset or a size.
    fn large(&self, offset: usize) -> Option<usize> {
        usize::try_from(self.long(offset)?).ok()
    }

    fn sections(&self) -> Option<Vec<Section>> {
        let (table, entry, count) = (self.large(0x28)?, self.half(0x3a)?, self.half(0x3c)?);
        let section = |index: usize| {
            let at = table.checked_add(index.checked_mul(entry)?)?;
            Some(Section {
                kind: self.word(at.checked_add(4)?)?,
                offset: self.large(at.checked_add(0x18)?)?,
                size: self.large(at.checked_add(0x20)?)?,
                link: self.small(at.checked_add(0x28)?)?,
                info: self.small(at.checked_add(0x2c)?)?,
            })
        };
        (0..count).map(section).collect()
    }

    /// The text at `index` of the string table that `section` names.
    fn name(&self, section: &Section, sections: &[Section], index: usize) -> Option<String> {
        let strings = sections.get(section.link)?;
        let end = strings.offset.checked_add(strings.size)?;
        let text = self.bytes.get(strings.offset.checked_add(index)?..end)?;
        let length = text.iter().position(|byte| *byte == 0)?;
        Some(String::from_utf8_lossy(&text[..length]).into_owned())
    }

    /// Offsets of the fixed-size entries of a section.
    fn entries(section: &Section, size: usize) -> Option<impl Iterator<Item = usize> + use<>> {
        section.offset.checked_add(section.size)?;
        let offset = section.offset;
        Some((0..section.size / size).map(move |index| offset + index * size))
    }

    fn needed(&self, section: &Section, all: &[Section], into: &mut Vec<String>) -> Option<()> {
        for at in Self::entries(section, 16)? {
            if self.long(at)? == DT_NEEDED {
                into.push(self.name(section, all, self.large(at.checked_add(8)?)?)?);
            }
        }
        Some(())
    }

    fn exported(&self, section: &Section, all: &[Section], into: &mut Vec<String>) -> Option<()> {
        for at in Self::entries(section, 24)? {
            let [info, other] = self.array(at.checked_add(4)?)?;
            let is_defined = self.half(at.checked_add(6)?)? != 0;
            let is_bound = matches!(info >> 4, BIND_GLOBAL | BIND_WEAK);
            let is_visible = matches!(other & 3, VISIBILITY_DEFAULT | VISIBILITY_PROTECTED);
            if is_defined && is_bound && is_visible {
                into.push(self.name(section, all, self.small(at)?)?);
            }
        }
        Some(())
    }

    /// A chain of libraries, each with a chain of versions; links are relative, 0 ends. The
    /// number of names is bounded, since the links of a damaged file may go in circles.
    fn versions(&self, section: &Section, all: &[Section], into: &mut Vec<String>) -> Option<()> {
        let mut library = section.offset;
        for _ in 0..section.info {
            let mut version = library.checked_add(self.small(library.checked_add(8)?)?)?;
            for _ in 0..self.half(library.checked_add(2)?)? {
                if into.len() == VERSIONS_MAX {
                    return None;
                }
                let name = self.small(version.checked_add(8)?)?;
                into.push(self.name(section, all, name)?);
                version = version.checked_add(self.small(version.checked_add(12)?)?)?;
            }
            match self.small(library.checked_add(12)?)? {
                0 => break,
                link => library = library.checked_add(link)?,
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    fn own_binary() -> Vec<u8> {
        std::fs::read(std::env::current_exe().unwrap()).unwrap()
    }

    #[test]
    fn reads_a_real_binary() {
        let library = parse(&own_binary()).unwrap();
        assert!(
            library.needed.iter().any(|name| name == "libc.so.6"),
            "{:?}",
            library.needed
        );
        assert!(library.versions.iter().any(|v| v.starts_with("GLIBC_2.")));
    }

    #[test]
    fn refuses_what_is_no_library() {
        for bytes in [&b""[..], b"\x7fELF", b"#!/bin/sh\n", b"\x7fELF\x01\x01\x01"] {
            assert!(
                parse(bytes)
                    .unwrap_err()
                    .to_string()
                    .contains("not a 64-bit")
            );
        }
    }

    /// Damage of the header and of the section table: an answer or an error, never a panic.
    #[test]
    fn damage_is_an_error_or_harmless() {
        let whole = own_binary();
        let table = usize::try_from(u64::from_le_bytes(whole[0x28..0x30].try_into().unwrap()));
        let table = table.unwrap();
        let mut bytes = whole.clone();
        let mut refused = 0;
        for at in (0..64).chain(table..whole.len()) {
            for value in [0x00, 0x7f, 0xff] {
                bytes[at] = value;
                refused += u32::from(parse(&bytes).is_err());
            }
            bytes[at] = whole[at];
        }
        for length in (0..whole.len()).step_by(whole.len() / 50) {
            refused += u32::from(parse(&whole[..length]).is_err());
        }
        assert!(refused > 100, "only {refused} refused");
    }
}
