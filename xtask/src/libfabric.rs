//! Which libfabrics there are on this machine.
//!
//! The tests run on the oldest one supported (Debian 12's), on the oldest one that EFA is used with
//! and on a 2.x. The newer two come inside the wheels of MPICH, self-contained and usable by
//! any user; nothing of MPICH itself is used.

use std::path::{Path, PathBuf};

use crate::process::Program;
use crate::workspace::Workspace;

/// A libfabric that comes in a wheel.
#[derive(Debug)]
pub(crate) struct Wheel {
    /// Version of libfabric.
    pub(crate) version: &'static str,
    /// The wheel, as pip names it.
    pub(crate) requirement: &'static str,
    /// What the wheel for x86-64 must hash to.
    pub(crate) sha256: &'static str,
}

/// The versions fetched for the matrix.
pub(crate) const WHEELS: [Wheel; 2] = [
    Wheel {
        version: "1.22.0",
        requirement: "mpich==4.3.2",
        sha256: "afb503104df7e3ba828d86e78f54427ef410e9fc4a2da113de529fc851128ed4",
    },
    Wheel {
        version: "2.5.1",
        requirement: "mpich==5.0.2",
        sha256: "8fed465ebff269ea2ebac179a25de02671ddf8df476e0f115be089015015cfd4",
    },
];

/// The variable by which `ofi-sys` is told which libfabric to load.
pub(crate) const PATH_VARIABLE: &str = "OFI_LIBFABRIC_PATH";

/// Where distributions and the EFA installer put it.
const SYSTEM_DIRS: [&str; 5] = [
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/opt/amazon/efa/lib64",
    "/opt/amazon/efa/lib",
];

/// A libfabric that can be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Libfabric {
    /// Its version, for example "1.17.0", or "system" when nothing says.
    pub(crate) version: String,
    /// The file.
    pub(crate) path: PathBuf,
}

impl Libfabric {
    /// Major and minor version; `None` when unknown.
    pub(crate) fn major_minor(&self) -> Option<(u32, u32)> {
        let mut numbers = self.version.split('.').map(|number| number.parse().ok());
        Some((numbers.next()??, numbers.next()??))
    }
}

/// The libfabric that a loader finds without being told, if it is in one of the usual places.
pub(crate) fn system() -> Option<Libfabric> {
    let files = SYSTEM_DIRS
        .iter()
        .map(|dir| Path::new(dir).join("libfabric.so.1"));
    let path = files.into_iter().find(|file| file.exists())?;
    let version = debian_version().unwrap_or_else(|| "system".to_owned());
    Some(Libfabric { version, path })
}

/// The version of Debian's package, without epoch and revision.
fn debian_version() -> Option<String> {
    let query = Program::new("dpkg-query").args(["-W", "-f=${Version}", "libfabric1"]);
    let text = query.output().ok()?;
    let upstream = text
        .rsplit_once('-')
        .map_or(text.as_str(), |(upstream, _)| upstream);
    let upstream = upstream
        .split_once(':')
        .map_or(upstream, |(_, version)| version);
    (!upstream.is_empty()).then(|| upstream.to_owned())
}

/// Where the wheel of this version is unpacked.
pub(crate) fn wheel_dir(here: &Workspace, wheel: &Wheel) -> PathBuf {
    // Not in CARGO_TARGET_DIR: the wheels serve every build of the same checkout.
    here.root.join("target/libfabric").join(wheel.version)
}

/// The library of an unpacked wheel, if it is there.
pub(crate) fn of_wheel(here: &Workspace, wheel: &Wheel) -> Option<Libfabric> {
    let package = wheel.requirement.replace("==", "-");
    let path = wheel_dir(here, wheel).join(format!("{package}.data/data/lib/mpich/libfabric.so.1"));
    path.exists().then(|| Libfabric {
        version: wheel.version.to_owned(),
        path,
    })
}

/// All there are: the system's first, then those of the matrix.
pub(crate) fn all(here: &Workspace) -> Vec<Libfabric> {
    system()
        .into_iter()
        .chain(WHEELS.iter().filter_map(|wheel| of_wheel(here, wheel)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::Libfabric;

    #[test]
    fn versions_are_compared_as_numbers() {
        let of = |version: &str| {
            Libfabric {
                version: version.to_owned(),
                path: "x".into(),
            }
            .major_minor()
        };
        assert_eq!(of("1.17.0"), Some((1, 17)));
        assert!(of("1.9.1") < of("1.17.0") && of("1.22.0") < of("2.5.1"));
        assert_eq!(of("system"), None);
    }
}
