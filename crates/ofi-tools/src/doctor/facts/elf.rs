//! What the dynamic loader looks at in a shared library (elf(5)), read from bytes that may be damaged.
//!
//! ```text
//! header -> program headers -> PT_LOAD: where addresses are in the file; must be there whole
//!                          \-> PT_DYNAMIC: needed libraries, search path, symbols, versions
//! ```

use std::fs::File;
use std::os::unix::fs::FileExt as _;

const MAGIC: &[u8] = b"\x7fELF";
/// Bytes of the header.
const HEAD: u64 = 64;

/// `EM_X86_64`.
pub(crate) const X86_64: u16 = 62;
/// `EM_AARCH64`.
pub(crate) const AARCH64: u16 = 183;

/// `e_type` of what can be shared, and what a program that looks like it has in `DT_FLAGS_1`.
const ET_DYN: u16 = 3;
const DT_FLAGS_1: u64 = 0x6fff_fffb;
const DF_1_PIE: u64 = 0x0800_0000;

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const DT_NEEDED: u64 = 1;
const DT_HASH: u64 = 4;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_STRSZ: u64 = 10;
const DT_SONAME: u64 = 14;
const DT_RPATH: u64 = 15;
const DT_RUNPATH: u64 = 29;
const DT_GNU_HASH: u64 = 0x6fff_fef5;
const DT_VERDEF: u64 = 0x6fff_fffc;
const DT_VERNEED: u64 = 0x6fff_fffe;

/// Bounds: no library that loads has more, and a damaged one costs no more.
const STRINGS_MAX: u64 = 64 << 20;
const ENTRIES_MAX: usize = 1 << 17;
const VERSIONS_MAX: usize = 1024;

/// A shared library.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Elf {
    /// `DT_NEEDED`, in its order.
    pub(crate) needed: Vec<String>,
    /// What it calls itself.
    pub(crate) soname: Option<String>,
    /// `DT_RPATH`: where its needed libraries are looked for, and what those need, first of all.
    pub(crate) rpath: Vec<String>,
    /// `DT_RUNPATH`: where its needed libraries alone are looked for, behind `LD_LIBRARY_PATH`. Where there is one
    /// `DT_RPATH` does not count.
    pub(crate) runpath: Option<Vec<String>>,
    /// Names of the symbols that it defines.
    pub(crate) exported: Vec<String>,
    /// Versions that it defines, such as `FABRIC_1.7`.
    pub(crate) defines: Vec<String>,
    /// Versions that it wants: of which library, which.
    pub(crate) wants: Vec<(String, String)>,
}

/// Why the loader would not take a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ElfFault {
    /// Something else: a script, a text, a file of zeros.
    NotElf,
    /// A program, which `dlopen(3)` refuses.
    Program,
    /// A library for another machine (`EM_*`; 0: not even 64 bits).
    Machine(u16),
    /// The file ends before the library does.
    Cut {
        /// Bytes that its headers tell of.
        wanted: u64,
        /// Bytes there are.
        has: u64,
    },
    /// Its tables make no sense; which.
    Damaged(&'static str),
}

/// Reads a library for `machine`.
pub(crate) fn read(file: &File, machine: u16) -> Result<Elf, ElfFault> {
    let size = file.metadata().map_or(0, |meta| meta.len());
    let image = Image { file, size };
    let magic = image.bytes(0, MAGIC.len().try_into().unwrap_or(u64::MAX));
    if magic.as_deref() != Some(MAGIC) {
        return Err(ElfFault::NotElf);
    }
    // What begins as a library and ends within its header was one.
    let cut = ElfFault::Cut {
        wanted: HEAD,
        has: size,
    };
    let head = image.bytes(0, HEAD).ok_or(cut)?;
    // 64 bits, little endian: all that collectives run on.
    if (head[4], head[5]) != (2, 1) {
        return Err(ElfFault::Machine(0));
    }
    let is = u16_at(&head, 18).ok_or(ElfFault::Damaged("header"))?;
    if is != machine {
        return Err(ElfFault::Machine(is));
    }
    let segments = image.segments(&head)?;
    let end = segments.iter().map(|s| s.at.saturating_add(s.len)).max();
    let wanted = end.unwrap_or(0);
    if wanted > size {
        return Err(ElfFault::Cut { wanted, has: size });
    }
    if u16_at(&head, 16) != Some(ET_DYN) {
        return Err(ElfFault::Program);
    }
    let damaged = ElfFault::Damaged("dynamic section");
    let dynamic = Dynamic::find(&image, &segments).ok_or_else(|| damaged.clone())?;
    if dynamic
        .tag(DT_FLAGS_1)
        .is_some_and(|flags| flags & DF_1_PIE != 0)
    {
        return Err(ElfFault::Program);
    }
    dynamic.library().ok_or(damaged)
}

/// Bytes of a file that is not trusted.
struct Image<'f> {
    file: &'f File,
    size: u64,
}

impl Image<'_> {
    fn bytes(&self, at: u64, len: u64) -> Option<Vec<u8>> {
        if at.checked_add(len)? > self.size {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(len).ok()?];
        self.file.read_exact_at(&mut bytes, at).ok()?;
        Some(bytes)
    }

    fn segments(&self, head: &[u8]) -> Result<Vec<Segment>, ElfFault> {
        const BYTES: u16 = 56;
        let damaged = || ElfFault::Damaged("program headers");
        let at = u64_at(head, 32).ok_or_else(damaged)?;
        let each = u16_at(head, 54).filter(|each| *each == BYTES);
        let (each, count) = each.zip(u16_at(head, 56)).ok_or_else(damaged)?;
        let len = u64::from(each) * u64::from(count);
        let Some(table) = self.bytes(at, len) else {
            let (wanted, has) = (at.saturating_add(len), self.size);
            return Err(ElfFault::Cut { wanted, has });
        };
        let read = |row: &[u8]| {
            Some(Segment {
                kind: u32_at(row, 0)?,
                at: u64_at(row, 8)?,
                address: u64_at(row, 16)?,
                len: u64_at(row, 32)?,
            })
        };
        let rows = table.chunks_exact(usize::from(each)).map(read);
        rows.collect::<Option<Vec<_>>>().ok_or_else(damaged)
    }
}

struct Segment {
    kind: u32,
    at: u64,
    address: u64,
    len: u64,
}

/// The dynamic section: pairs of a tag and a value.
struct Dynamic<'i> {
    image: &'i Image<'i>,
    segments: &'i [Segment],
    tags: Vec<(u64, u64)>,
    strings: Vec<u8>,
}

impl<'i> Dynamic<'i> {
    fn find(image: &'i Image<'i>, segments: &'i [Segment]) -> Option<Self> {
        let at = segments.iter().find(|s| s.kind == PT_DYNAMIC)?;
        let bytes = image.bytes(at.at, at.len.min(1 << 20))?;
        let pair = |row: &[u8]| Some((u64_at(row, 0)?, u64_at(row, 8)?));
        let tags = bytes.chunks_exact(16).filter_map(pair);
        let mut dynamic = Self {
            image,
            segments,
            tags: tags.take_while(|(tag, _)| *tag != 0).collect(),
            strings: Vec::new(),
        };
        let len = dynamic.tag(DT_STRSZ)?.min(STRINGS_MAX);
        dynamic.strings = dynamic.at_address(dynamic.tag(DT_STRTAB)?, len)?;
        Some(dynamic)
    }

    fn tag(&self, tag: u64) -> Option<u64> {
        let pair = self.tags.iter().find(|(is, _)| *is == tag);
        pair.map(|(_, value)| *value)
    }

    fn at_address(&self, address: u64, len: u64) -> Option<Vec<u8>> {
        self.image.bytes(self.offset(address)?, len)
    }

    fn offset(&self, address: u64) -> Option<u64> {
        let loaded = self.segments.iter().filter(|s| s.kind == PT_LOAD);
        let within = |s: &&Segment| address.checked_sub(s.address).is_some_and(|n| n < s.len);
        let segment = loaded.into_iter().find(within)?;
        segment.at.checked_add(address - segment.address)
    }

    fn string(&self, at: u64) -> Option<String> {
        let rest = self.strings.get(usize::try_from(at).ok()?..)?;
        let end = rest.iter().position(|byte| *byte == 0)?;
        Some(String::from_utf8_lossy(&rest[..end]).into_owned())
    }

    fn library(&self) -> Option<Elf> {
        let named = |tag| self.tags.iter().filter(move |(is, _)| *is == tag);
        let needed = named(DT_NEEDED).map(|(_, at)| self.string(*at));
        let path = |tag| match self.tag(tag) {
            None => Some(None),
            Some(at) => self.string(at).map(|path| Some(entries(&path))),
        };
        Some(Elf {
            needed: needed.collect::<Option<_>>()?,
            soname: self.tag(DT_SONAME).and_then(|at| self.string(at)),
            rpath: path(DT_RPATH)?.unwrap_or_default(),
            runpath: path(DT_RUNPATH)?,
            exported: self.exported()?,
            defines: self.defines().unwrap_or_default(),
            wants: self.wants().unwrap_or_default(),
        })
    }

    /// Names of defined symbols. How many there are only a hash table tells.
    fn exported(&self) -> Option<Vec<String>> {
        const BYTES: u64 = 24;
        let count = match self.tag(DT_HASH) {
            Some(at) => u64::from(u32_at(&self.at_address(at, 8)?, 4)?),
            None => match self.tag(DT_GNU_HASH) {
                Some(at) => self.counted_by_gnu_hash(at)?,
                None => 0,
            },
        };
        let count = count.min(u64::try_from(ENTRIES_MAX).ok()?);
        if count == 0 {
            return Some(Vec::new());
        }
        let table = self.at_address(self.tag(DT_SYMTAB)?, count.checked_mul(BYTES)?)?;
        let rows = table.chunks_exact(usize::try_from(BYTES).ok()?);
        let defined = rows.filter(|row| u16_at(row, 6).is_some_and(|section| section != 0));
        let names = defined.filter_map(|row| self.string(u32_at(row, 0)?.into()));
        Some(names.collect())
    }

    /// One more than the last symbol of the longest chain.
    fn counted_by_gnu_hash(&self, at: u64) -> Option<u64> {
        let head = self.at_address(at, 16)?;
        let [buckets, first, bloom] = [0, 4, 8].map(|i| u32_at(&head, i));
        let (buckets, first, bloom) = (buckets?, first?, bloom?);
        let table = at.checked_add(16)?.checked_add(u64::from(bloom) * 8)?;
        let bytes = u64::from(buckets).min(u64::try_from(ENTRIES_MAX).ok()?) * 4;
        let heads = self.at_address(table, bytes)?;
        let last = heads.chunks_exact(4).filter_map(|row| u32_at(row, 0)).max();
        let mut symbol = last.unwrap_or(0);
        if symbol < first {
            return Some(first.into());
        }
        let chains = table.checked_add(u64::from(buckets) * 4)?;
        for _ in 0..ENTRIES_MAX {
            let link = chains.checked_add(u64::from(symbol - first) * 4)?;
            let hash = u32_at(&self.at_address(link, 4)?, 0)?;
            symbol = symbol.checked_add(1)?;
            if hash & 1 == 1 {
                return Some(symbol.into());
            }
        }
        None
    }

    /// `Elf64_Verdef`, each with the name of its first `Elf64_Verdaux`.
    fn defines(&self) -> Option<Vec<String>> {
        let mut at = self.tag(DT_VERDEF)?;
        let mut names = Vec::new();
        for _ in 0..VERSIONS_MAX {
            let row = self.at_address(at, 20)?;
            let (aux, next) = (u32_at(&row, 12)?, u32_at(&row, 16)?);
            let name = self.at_address(at.checked_add(aux.into())?, 4)?;
            names.push(self.string(u32_at(&name, 0)?.into())?);
            if next == 0 {
                break;
            }
            at = at.checked_add(next.into())?;
        }
        Some(names)
    }

    /// `Elf64_Verneed` of each library, with its `Elf64_Vernaux`.
    fn wants(&self) -> Option<Vec<(String, String)>> {
        let mut at = self.tag(DT_VERNEED)?;
        let mut pairs = Vec::new();
        for _ in 0..VERSIONS_MAX {
            let row = self.at_address(at, 16)?;
            let count = u16_at(&row, 2)?;
            let file = self.string(u32_at(&row, 4)?.into())?;
            let mut aux = at.checked_add(u32_at(&row, 8)?.into())?;
            for _ in 0..usize::from(count).min(VERSIONS_MAX) {
                let row = self.at_address(aux, 16)?;
                pairs.push((file.clone(), self.string(u32_at(&row, 8)?.into())?));
                aux = aux.checked_add(u32_at(&row, 12)?.into())?;
            }
            let next = u32_at(&row, 12)?;
            if next == 0 {
                break;
            }
            at = at.checked_add(next.into())?;
        }
        Some(pairs)
    }
}

/// Of a search path: an empty entry counts, an empty path does not.
fn entries(path: &str) -> Vec<String> {
    let entries = path.split(':').filter(|_| !path.is_empty());
    entries.map(str::to_owned).collect()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let field = bytes.get(at..)?.first_chunk();
    field.map(|field| u16::from_le_bytes(*field))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let field = bytes.get(at..)?.first_chunk();
    field.map(|field| u32::from_le_bytes(*field))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let field = bytes.get(at..)?.first_chunk();
    field.map(|field| u64::from_le_bytes(*field))
}

#[cfg(test)]
mod tests {
    use super::{Elf, ElfFault, X86_64, read};
    use std::fs::File;
    use std::io::Write as _;
    use std::path::PathBuf;

    const NATIVE: u16 = if cfg!(target_arch = "aarch64") {
        super::AARCH64
    } else {
        X86_64
    };

    /// The C library of this process: a library with both kinds of everything.
    fn libc() -> (PathBuf, Vec<u8>) {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let path = maps.lines().find_map(|line| {
            let path = line.split_ascii_whitespace().nth(5)?;
            path.contains("libc.so").then(|| PathBuf::from(path))
        });
        let path = path.unwrap();
        let bytes = std::fs::read(&path).unwrap();
        (path, bytes)
    }

    fn of(bytes: &[u8]) -> Result<Elf, ElfFault> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        read(&file, NATIVE)
    }

    #[test]
    fn a_library_of_this_system_is_read() {
        let (path, bytes) = libc();
        let library = read(&File::open(path).unwrap(), NATIVE).unwrap();
        assert!(library.exported.iter().any(|name| name == "getaddrinfo"));
        assert!(library.defines.iter().any(|name| name == "GLIBC_2.17"));
        assert!(
            library
                .needed
                .iter()
                .any(|name| name.starts_with("ld-linux"))
        );
        let wants = |(file, _): &(String, String)| file.starts_with("ld-linux");
        assert!(library.wants.iter().any(wants));
        let other = NATIVE ^ 1;
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &bytes).unwrap();
        let refused = read(&File::open(file.path()).unwrap(), other);
        assert_eq!(refused, Err(ElfFault::Machine(NATIVE)));
    }

    #[test]
    fn a_cut_file_is_told_from_garbage() {
        let (_, bytes) = libc();
        let half = of(&bytes[..bytes.len() / 2]);
        assert!(matches!(half, Err(ElfFault::Cut { .. })), "{half:?}");
        for len in [4, 40, 63, 64, 70] {
            let head = of(&bytes[..len]);
            assert!(matches!(head, Err(ElfFault::Cut { .. })), "{len}: {head:?}");
        }
        assert_eq!(of(&bytes[..3]), Err(ElfFault::NotElf));
        assert_eq!(of(b"#!/bin/sh\n"), Err(ElfFault::NotElf));
        assert_eq!(of(&[]), Err(ElfFault::NotElf));
        assert_eq!(of(&[0; 4096]), Err(ElfFault::NotElf));
    }

    #[test]
    fn no_damage_is_more_than_an_answer() {
        let (_, mut bytes) = libc();
        bytes.truncate(1 << 16);
        for at in (0..1024).chain((1024..bytes.len()).step_by(97)) {
            let was = bytes[at];
            bytes[at] ^= 0xff;
            drop(of(&bytes));
            bytes[at] = was;
        }
        // A whole one, with its first pages damaged byte by byte.
        let (_, mut whole) = libc();
        for at in (64..700).step_by(3) {
            let was = whole[at];
            whole[at] = !was;
            let file = tempfile::tempfile().unwrap();
            file.set_len(0).unwrap();
            std::os::unix::fs::FileExt::write_all_at(&file, &whole[..4096], 0).unwrap();
            file.set_len(whole.len().try_into().unwrap()).unwrap();
            drop(read(&file, NATIVE));
            whole[at] = was;
        }
    }
}
