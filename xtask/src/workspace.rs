//! Where things are: the root of the repository, the target directory, the crates.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::process::Program;

/// The repository that this command was built from.
#[derive(Debug)]
pub(crate) struct Workspace {
    /// The directory with the workspace's `Cargo.toml`.
    pub(crate) root: PathBuf,
    /// Where cargo puts what it builds.
    pub(crate) target: PathBuf,
}

impl Workspace {
    /// The workspace around the `xtask` crate.
    pub(crate) fn locate() -> Result<Self> {
        let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = crate_dir
            .parent()
            .context("the xtask crate stands in the repository")?;
        let target = match std::env::var_os("CARGO_TARGET_DIR") {
            Some(dir) => root.join(dir),
            None => root.join("target"),
        };
        Ok(Self {
            root: root.to_owned(),
            target,
        })
    }

    /// A cargo command in the root: the cargo that runs us, or that of the toolchain named first,
    /// as `+nightly`, which rustup's stand-in for cargo finds.
    pub(crate) fn cargo(&self, args: &[&str]) -> Program {
        let names_toolchain = args.first().is_some_and(|arg| arg.starts_with('+'));
        let ours = std::env::var_os("CARGO").filter(|_| !names_toolchain);
        let cargo = ours.unwrap_or_else(|| "cargo".into());
        Program::new(cargo).args(args).dir(&self.root)
    }

    /// What `cargo metadata` says, with or without the dependencies of other people's.
    pub(crate) fn metadata(&self, scope: Scope) -> Result<Value> {
        let mut args = vec!["metadata", "--format-version", "1"];
        if scope == Scope::OwnCrates {
            args.push("--no-deps");
        }
        let text = self.cargo(&args).output()?;
        serde_json::from_str(&text).context("cargo metadata printed no JSON")
    }

    /// The crates of the workspace, in the order of their names.
    pub(crate) fn crates(&self) -> Result<Vec<Member>> {
        let metadata = self.metadata(Scope::OwnCrates)?;
        let packages = metadata["packages"]
            .as_array()
            .context("metadata has no packages")?;
        let mut members = packages
            .iter()
            .map(|package| self.member(package))
            .collect::<Result<Vec<_>>>()?;
        members.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(members)
    }

    /// The directories of the crates that cargo takes when none is named: the pure ones.
    pub(crate) fn pure_dirs(&self) -> Result<Vec<PathBuf>> {
        let metadata = self.metadata(Scope::OwnCrates)?;
        let ids = metadata["workspace_default_members"]
            .as_array()
            .context("metadata has no default members")?;
        // An id is the URL of a directory, and a version behind '#'.
        let ends: Vec<String> = ids
            .iter()
            .filter_map(|id| Some(id.as_str()?.split('#').next()?.to_owned()))
            .collect();
        let is_pure = |dir: &PathBuf| {
            let end = format!("/{}", dir.display());
            ends.iter().any(|id| id.ends_with(&end))
        };
        let dirs = self.crates()?.into_iter().map(|member| member.dir);
        Ok(dirs.filter(is_pure).collect())
    }

    fn member(&self, package: &Value) -> Result<Member> {
        let name = package["name"].as_str().context("a package has no name")?;
        let manifest = package["manifest_path"]
            .as_str()
            .context("a package has no path")?;
        let dir = Path::new(manifest)
            .parent()
            .context("a manifest is in a directory")?;
        let dir = dir.strip_prefix(&self.root).unwrap_or(dir).to_owned();
        // "publish = false" shows as an empty list of registries.
        let published = package["publish"]
            .as_array()
            .is_none_or(|registries| !registries.is_empty());
        Ok(Member {
            name: name.to_owned(),
            dir,
            published,
        })
    }
}

/// How much of the dependency graph [`Workspace::metadata`] covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    OwnCrates,
    Everything,
}

/// A crate of the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) name: String,
    /// Relative to the root.
    pub(crate) dir: PathBuf,
    /// Whether it may go to a registry.
    pub(crate) published: bool,
}
