//! A host from a text file: a line a fact.
//!
//! ```text
//! base p5                      the facts of hosts/p5.host first
//! args --for nccl              words for ofi doctor, besides those of the base (none: without those)
//! expect OFI-D304 [..]         codes, first to last (`healthy` for none)
//! says TEXT                    the page has this
//! env NAME=VALUE | unset NAME  its environment
//! shape p5 [without N]         sysfs of an instance, without its first N NICs
//! no-accelerator               one NVIDIA accelerator less in sysfs
//! verbs [N]                    device files of the NICs, or of the first N
//! file PATH TEXT | fill PATH KIB | link PATH TARGET | dir PATH | rm PATH | mode PATH OCTAL
//! elf PATH [needs=a,b] [exports=a,b] [defines=a,b] [wants=file:version] [opens=name] [rpath=..] [runpath=..] [machine=183] [cut=100] [program=pie]
//! cache NAME=PATH              an entry of /etc/ld.so.cache
//! ```
//! In a TEXT `\n` is a new line, and `\r` a return.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use ofi_topo::shape::Shape;

use super::elf::{Made, Program};

#[derive(Debug)]
pub(super) struct Fixture {
    dir: tempfile::TempDir,
    pub(super) expect: Vec<String>,
    pub(super) says: Vec<String>,
    pub(super) args: Vec<String>,
    env: BTreeMap<String, String>,
    cache: Vec<(String, String)>,
}

/// In memory where there is room: a host is thousands of files, and a disk takes half a second for them.
fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap())
}

pub(super) fn hosts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/doctor/hosts")
}

impl Fixture {
    /// The codes that a file expects, without making its host.
    pub(super) fn expected(file: &Path) -> Vec<String> {
        let text = fs::read_to_string(file).unwrap();
        let mut lines = text.lines().filter_map(|line| line.strip_prefix("expect "));
        let last = lines.next_back().unwrap_or("healthy");
        let codes = last.split(' ').filter(|code| *code != "healthy");
        codes.map(str::to_owned).collect()
    }

    /// Makes the host of a file.
    pub(super) fn make(file: &Path) -> Self {
        let mut host = Self {
            dir: directory(),
            expect: Vec::new(),
            says: Vec::new(),
            args: Vec::new(),
            env: BTreeMap::new(),
            cache: Vec::new(),
        };
        host.apply(file);
        host.write_cache();
        let lines = host
            .env
            .iter()
            .map(|(name, value)| format!("{name}={value}\n"));
        let text: String = lines.collect();
        fs::write(host.env_file(), text).unwrap();
        host
    }

    pub(super) fn root(&self) -> PathBuf {
        self.dir.path().join("root")
    }

    pub(super) fn env_file(&self) -> PathBuf {
        self.dir.path().join("env")
    }

    fn apply(&mut self, file: &Path) {
        let text = fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        for line in text.lines().map(str::trim) {
            if !line.is_empty() && !line.starts_with('#') {
                self.line(line);
            }
        }
    }

    fn line(&mut self, line: &str) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (first, second) = rest.split_once(' ').unwrap_or((rest, ""));
        match word {
            "base" => {
                self.apply(&hosts().join(format!("{rest}.host")));
                // What a base says is about the base.
                self.says.clear();
            }
            "args" if rest.is_empty() => self.args.clear(),
            "args" => self.args.extend(rest.split(' ').map(str::to_owned)),
            "expect" if rest == "healthy" => self.expect.clear(),
            "expect" => self.expect = rest.split(' ').map(str::to_owned).collect(),
            "says" => self.says.push(rest.to_owned()),
            "env" => {
                let (name, value) = rest.split_once('=').unwrap();
                self.env.insert(name.to_owned(), value.to_owned());
            }
            "unset" => drop(self.env.remove(rest)),
            "cache" => {
                let (name, path) = rest.split_once('=').unwrap();
                self.cache.push((name.to_owned(), path.to_owned()));
            }
            "shape" => self.shape(first, second),
            "verbs" => self.verbs(rest.parse().unwrap_or(usize::MAX)),
            "file" => fs::write(
                self.new_file(first),
                second.replace("\\n", "\n").replace("\\r", "\r"),
            )
            .unwrap(),
            "fill" => {
                let kib: usize = second.parse().unwrap();
                fs::write(self.new_file(first), vec![1; kib << 10]).unwrap();
            }
            "link" => symlink(second, self.new_file(first)).unwrap(),
            "dir" => fs::create_dir_all(self.new_file(first)).unwrap(),
            "rm" => self.remove(first),
            "no-accelerator" => self.one_accelerator_less(),
            "mode" => {
                let mode = u32::from_str_radix(second, 8).unwrap();
                fs::set_permissions(self.outside(first), fs::Permissions::from_mode(mode)).unwrap();
            }
            "elf" => self.library(first, second),
            _ => panic!("what is {line:?}?"),
        }
    }

    fn outside(&self, path: &str) -> PathBuf {
        self.root().join(path.trim_start_matches('/'))
    }

    /// A path whose directory is there and whose file is not.
    fn new_file(&self, path: &str) -> PathBuf {
        let outside = self.outside(path);
        fs::create_dir_all(outside.parent().unwrap()).unwrap();
        if outside.is_symlink() || outside.is_file() {
            fs::remove_file(&outside).unwrap();
        }
        outside
    }

    fn one_accelerator_less(&self) {
        let entries = fs::read_dir(self.outside("sys/bus/pci/devices")).unwrap();
        let mut paths = entries.map(|entry| entry.unwrap().path());
        let is_gpu = |path: &PathBuf| {
            fs::read_to_string(path.join("vendor")).is_ok_and(|text| text.trim() == "0x10de")
        };
        fs::remove_file(paths.find(is_gpu).unwrap()).unwrap();
    }

    fn remove(&self, path: &str) {
        let outside = self.outside(path);
        if outside.is_dir() && !outside.is_symlink() {
            fs::remove_dir_all(outside).unwrap();
        } else {
            fs::remove_file(outside).unwrap();
        }
    }

    fn shape(&self, name: &str, without: &str) {
        let shape = Shape::by_name(name).unwrap();
        let gone = without
            .strip_prefix("without ")
            .map_or(0, |n| n.parse().unwrap());
        let gone: Vec<_> = shape
            .nics
            .iter()
            .take(gone)
            .map(|nic| nic.address)
            .collect();
        let shape = shape.without(|function| gone.contains(&function.address));
        drop(fs::remove_dir_all(self.outside("sys/class/infiniband")));
        drop(fs::remove_dir_all(self.outside("sys/bus/pci/devices")));
        shape.write_sysfs(&self.root()).unwrap();
    }

    fn verbs(&self, count: usize) {
        let mut names: Vec<_> = fs::read_dir(self.outside("sys/class/infiniband"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        drop(fs::remove_dir_all(self.outside("dev/infiniband")));
        for (i, name) in names.iter().enumerate() {
            let class = format!("sys/class/infiniband_verbs/uverbs{i}/ibdev");
            fs::write(self.new_file(&class), format!("{name}\n")).unwrap();
            if i < count {
                let node = self.new_file(&format!("dev/infiniband/uverbs{i}"));
                fs::write(&node, "").unwrap();
                fs::set_permissions(&node, fs::Permissions::from_mode(0o666)).unwrap();
            }
        }
    }

    fn library(&self, path: &str, words: &str) {
        let list = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        let mut made = Made {
            machine: 62,
            ..Made::default()
        };
        let mut cut = None;
        for word in words.split(' ').filter(|word| !word.is_empty()) {
            let (name, value) = word.split_once('=').unwrap();
            match name {
                "needs" => made.needs = list(value),
                "exports" => made.exports = list(value),
                "defines" => made.defines = list(value),
                "wants" => {
                    let (file, version) = value.split_once(':').unwrap();
                    made.wants.push((file.to_owned(), version.to_owned()));
                }
                "opens" => made.opens = Some(value.to_owned()),
                "rpath" => made.rpath = Some(value.to_owned()),
                "runpath" => made.runpath = Some(value.to_owned()),
                "machine" => made.machine = value.parse().unwrap(),
                "program" => {
                    made.program = Some(match value {
                        "fixed" => Program::Fixed,
                        "pie" => Program::Pie,
                        _ => panic!("what is {word:?}?"),
                    });
                }
                "cut" => cut = Some(value.parse().unwrap()),
                _ => panic!("what is {word:?}?"),
            }
        }
        let mut bytes = made.bytes();
        bytes.truncate(cut.unwrap_or(bytes.len()));
        fs::write(self.new_file(path), bytes).unwrap();
    }

    /// As ldconfig(8) writes it.
    fn write_cache(&self) {
        if self.cache.is_empty() {
            return;
        }
        let mut strings = Vec::new();
        let first = 48 + 24 * self.cache.len();
        let mut entries = Vec::new();
        for (name, path) in &self.cache {
            let mut place = |text: &str| {
                let at = u32::try_from(first + strings.len()).unwrap();
                strings.extend(text.as_bytes());
                strings.push(0);
                at
            };
            let words = [0x0303, place(name), place(path), 0, 0, 0];
            entries.extend(words.iter().flat_map(|word: &u32| word.to_le_bytes()));
        }
        let mut bytes = b"glibc-ld.so.cache1.1".to_vec();
        for word in [self.cache.len(), strings.len()] {
            bytes.extend(u32::try_from(word).unwrap().to_le_bytes());
        }
        bytes.resize(48, 0);
        bytes.extend(entries);
        bytes.extend(strings);
        fs::write(self.new_file("etc/ld.so.cache"), bytes).unwrap();
    }
}
