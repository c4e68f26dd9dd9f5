//! Building the plugin and the `ofi` command.

use std::fs;
use std::path::PathBuf;

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
    pub(crate) plugin: PathBuf,
    /// The `ofi` command.
    pub(crate) ofi: PathBuf,
}

impl Built {
    /// Says where they are.
    pub(crate) fn print(&self) {
        println!("{}\n{}", self.plugin.display(), self.ofi.display());
    }
}

/// Builds the plugin, under the name by which it is loaded, and the `ofi` command.
pub(crate) fn build(here: &Workspace, profile: Profile) -> Result<Built> {
    let mut args = vec![
        "build",
        "--package",
        "ofi-plugin-neuron",
        "--package",
        "ofi-tools",
    ];
    let dir = match profile {
        Profile::Dev => here.target.join("debug"),
        Profile::Release => {
            args.push("--release");
            here.target.join("release")
        }
    };
    here.cargo(&args).run()?;
    // cargo allows no hyphen in the name of a library.
    let (built, plugin) = (dir.join("libnccom_net.so"), dir.join("libnccom-net.so"));
    // Replaced, not written into: a running process may have the old one mapped.
    let next = dir.join(".libnccom-net.so.next");
    fs::copy(&built, &next)
        .and_then(|_| fs::rename(&next, &plugin))
        .with_context(|| format!("cannot copy {} to {}", built.display(), plugin.display()))?;
    Ok(Built {
        plugin,
        ofi: dir.join("ofi"),
    })
}
