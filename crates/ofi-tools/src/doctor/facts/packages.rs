//! Versions of what is installed, from what installers leave behind.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::fabric::Bounds;
use super::ldso::Library;
use super::root::Root;
use super::version::Version;

const INSTALLED: &str = "/opt/amazon/efa_installed_packages";

/// What is known; nothing is guessed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Packages {
    /// The EFA installer.
    pub(crate) installer: Option<Version>,
    /// The libfabric that would be loaded, as its package says.
    pub(crate) libfabric: Option<Version>,
    /// And as its file does.
    pub(crate) libfabric_bounds: Option<Bounds>,
    /// A plugin of the reference, installed with the EFA installer.
    pub(crate) plugin: Option<Version>,
    /// NCCL.
    pub(crate) nccl: Option<Version>,
    /// Of files that are at fault, the packages that have them.
    owners: BTreeMap<PathBuf, String>,
}

impl Packages {
    /// Takes what libfabric itself says, which has two numbers: it counts where the package says another.
    pub(crate) fn learn(&mut self, libfabric: Version) {
        let known = self.libfabric.map(|known| [known.0[0], known.0[1]]);
        if known != Some([libfabric.0[0], libfabric.0[1]]) {
            self.libfabric = Some(libfabric);
        }
    }

    /// Looks up which packages of Debian have these files.
    pub(crate) fn look_up(&mut self, root: &Root, files: &[&Path]) {
        for file in files {
            if let Some(owner) = owner(root, file) {
                self.owners.insert(file.to_path_buf(), owner);
            }
        }
    }

    /// The package of a file that was looked up.
    pub(crate) fn owner(&self, file: &Path) -> Option<&str> {
        self.owners.get(file).map(String::as_str)
    }

    /// Reads what the EFA installer wrote.
    pub(crate) fn of_installer(root: &Root) -> Self {
        let text = root.text(INSTALLED).unwrap_or_default();
        let installer = text.lines().find_map(|line| {
            let (_, version) = line.split_once("EFA installer version:")?;
            Version::parse(version)
        });
        Self {
            installer,
            plugin: package(&text, &["libnccl-ofi", "aws-ofi-nccl"]),
            ..Self::default()
        }
    }
}

/// `name_1.2.3_arch` or `name-1.2.3-1.arch`.
fn package(text: &str, names: &[&str]) -> Option<Version> {
    let words = text.split_ascii_whitespace();
    let mut versions = words.filter_map(|word| {
        let rest = names.iter().find_map(|name| word.strip_prefix(name))?;
        Version::parse(rest.strip_prefix(['_', '-'])?)
    });
    versions.next()
}

/// Version of a libfabric: of the `.pc` file beside it, of the package that owns it, or of the
/// installer; `None` when they do not say.
pub(crate) fn libfabric(root: &Root, library: &Library) -> Option<Version> {
    let dir = library.real.parent().unwrap_or_else(|| Path::new("/"));
    let described = root
        .text(dir.join("pkgconfig/libfabric.pc"))
        .unwrap_or_default();
    let described = described
        .lines()
        .find_map(|line| line.strip_prefix("Version:"));
    if let Some(version) = described.and_then(Version::parse) {
        return Some(version);
    }
    if dir.starts_with("/opt/amazon/efa") {
        let text = root.text(INSTALLED).unwrap_or_default();
        return package(&text, &["libfabric1-aws", "libfabric-aws"]);
    }
    if dir.starts_with("/usr/lib") || dir.starts_with("/lib") {
        return debian(
            &root.text("/var/lib/dpkg/status").unwrap_or_default(),
            "libfabric1",
        );
    }
    None
}

/// By the lists of dpkg(1), which have a file as it was packed: with /usr before it or, on what has one tree of
/// libraries now, without.
fn owner(root: &Root, file: &Path) -> Option<String> {
    const LISTS: &str = "/var/lib/dpkg/info";
    let real = root.real(file).ok()?;
    let names = [file, &real].map(|name| name.to_string_lossy().into_owned());
    let others = names.iter().map(|name| match name.strip_prefix("/usr/") {
        Some(rest) => format!("/{rest}"),
        None => format!("/usr{name}"),
    });
    let spelled: Vec<String> = others.chain(names.iter().cloned()).collect();
    let has = |list: &str| {
        let text = root.text(Path::new(LISTS).join(list)).unwrap_or_default();
        text.lines()
            .any(|line| spelled.iter().any(|name| name == line))
    };
    let lists = root.names(LISTS).into_iter();
    let mut lists = lists.filter(|list| list.ends_with(".list"));
    let list = lists.find(|list| has(list))?;
    let name = list.strip_suffix(".list")?.split(':').next()?;
    Some(name.to_owned())
}

fn debian(status: &str, package: &str) -> Option<Version> {
    let mut paragraphs = status.split("\n\n");
    let own = paragraphs.find(|text| text.lines().any(|l| l == format!("Package: {package}")))?;
    let version = own.lines().find_map(|line| line.strip_prefix("Version:"))?;
    Version::parse(version)
}

/// Version of NCCL from the name of its file, `libnccl.so.2.21.5`, or of the wheel that it is in.
pub(crate) fn nccl(root: &Root, library: &Library) -> Option<Version> {
    let name = library.real.file_name()?.to_string_lossy().into_owned();
    let version = name
        .strip_prefix("libnccl.so.")
        .filter(|rest| rest.contains('.'));
    if let Some(version) = version.and_then(Version::parse) {
        return Some(version);
    }
    // site-packages/nvidia/nccl/lib/libnccl.so.2 beside site-packages/nvidia_nccl_cu12-2.21.5.dist-info.
    let packages = library.real.ancestors().nth(4)?;
    let names = root.names(packages);
    let mut wheels = names.iter().filter_map(|name| {
        let rest = name
            .strip_prefix("nvidia_nccl_cu")?
            .strip_suffix(".dist-info")?;
        Version::parse(rest.split_once('-')?.1)
    });
    wheels.next()
}

#[cfg(test)]
mod tests {
    use super::{Version, debian, package};

    #[test]
    fn packages_are_found_in_either_spelling() {
        let text = "# EFA installer version: 1.38.0\nefa-config-1.17-1.noarch libfabric-aws-1.22.0amzn4.0-1.x86_64\nlibfabric1-aws_1.22.0_amd64 libnccl-ofi_1.13.2_amd64";
        let found = |names: &[&str]| package(text, names);
        assert_eq!(found(&["libfabric-aws"]), Some(Version::new(1, 22, 0)));
        assert_eq!(found(&["libnccl-ofi"]), Some(Version::new(1, 13, 2)));
        assert_eq!(found(&["libnccl"]), None);
        let status = "Package: libfabric-dev\nVersion: 9.9\n\nPackage: libfabric1\nStatus: ok\nVersion: 1.17.0-3\n";
        assert_eq!(debian(status, "libfabric1"), Some(Version::new(1, 17, 0)));
    }
}
