//! Building the plugins, the `ofi` command and the emulated EFA.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::workspace::Workspace;

/// How cargo builds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    Dev,
    Release,
}

/// The files that were built.
#[derive(Debug)]
pub(crate) struct Built {
    /// `libnccom-net.so`.
    pub(crate) neuron: PathBuf,
    /// `libnccl-net-ofi.so`.
    pub(crate) nccl: PathBuf,
    /// The `ofi` command.
    pub(crate) ofi: PathBuf,
}

/// What cargo calls a plugin, for it allows no hyphen in the name of a library; what it is loaded by;
/// and other names by which NCCL looks for it.
const PLUGINS: [(&str, &str, &[&str]); 2] = [
    ("libnccom_net.so", NEURON, &[]),
    (
        "libnccl_net_ofi.so",
        NCCL,
        // Nothing set; NCCL_NET_PLUGIN=aws-ofi.
        &["libnccl-net.so", "libnccl-net-aws-ofi.so"],
    ),
];
const NEURON: &str = "libnccom-net.so";
const NCCL: &str = "libnccl-net-ofi.so";

impl Built {
    /// Where the files are in a directory of cargo's.
    pub(crate) fn in_dir(dir: &Path) -> Self {
        Self {
            neuron: dir.join(NEURON),
            nccl: dir.join(NCCL),
            ofi: dir.join("ofi"),
        }
    }

    /// Says where they are.
    pub(crate) fn print(&self) {
        for path in self.files() {
            println!("{}", path.display());
        }
    }

    /// Whether all of them are there.
    pub(crate) fn is_complete(&self) -> bool {
        self.files().iter().all(|path| path.exists())
    }

    const fn files(&self) -> [&PathBuf; 3] {
        [&self.neuron, &self.nccl, &self.ofi]
    }
}

/// Builds the plugins, under the names by which they are loaded, the `ofi` command and the emulated
/// EFA.
pub(crate) fn build(here: &Workspace, profile: Profile) -> Result<Built> {
    let mut args = vec![
        "build",
        "--package",
        "ofi-plugin-neuron",
        "--package",
        "ofi-plugin-nccl",
        "--package",
        "ofi-tools",
        // Where `ofi emu` looks for it: beside the command.
        "--package",
        "efa-emu",
    ];
    let dir = match profile {
        Profile::Dev => here.target.join("debug"),
        Profile::Release => {
            args.push("--release");
            here.target.join("release")
        }
    };
    here.cargo(&args).run()?;
    for (built, plugin, others) in PLUGINS {
        let (built, plugin) = (dir.join(built), dir.join(plugin));
        replace(&plugin, |next| fs::copy(&built, next).map(drop))
            .with_context(|| format!("cannot copy {} to {}", built.display(), plugin.display()))?;
        for other in others {
            let file_name = plugin.file_name().unwrap_or_default();
            replace(&dir.join(other), |next| symlink(file_name, next))
                .with_context(|| format!("cannot link {other} to {}", plugin.display()))?;
        }
    }
    Ok(Built::in_dir(&dir))
}

/// Puts what `make` makes in the place of a file. Replaced, not written into: a running process may
/// have the old one mapped.
fn replace(path: &Path, make: impl FnOnce(&Path) -> std::io::Result<()>) -> std::io::Result<()> {
    let mut next = path.as_os_str().to_owned();
    next.push(".next");
    let next = PathBuf::from(next);
    // What a run left that was interrupted here.
    match fs::remove_file(&next) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    make(&next)?;
    fs::rename(&next, path)
}

#[cfg(test)]
mod tests {
    use super::replace;
    use std::fs;

    #[test]
    fn a_file_is_replaced_and_what_was_left_is_no_obstacle() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.so");
        fs::write(&path, "old").unwrap();
        let old = fs::File::open(&path).unwrap();
        fs::write(dir.path().join("x.so.next"), "left").unwrap();
        replace(&path, |next| fs::write(next, "new")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(std::io::read_to_string(old).unwrap(), "old");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
