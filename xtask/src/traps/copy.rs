//! A copy of the repository, in which traps are built in: never in the tree that somebody works in.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::edit::Trap;
use crate::process::Program;
use crate::workspace::Workspace;

/// The copy.
#[derive(Debug)]
pub(super) struct Copy {
    pub(super) root: PathBuf,
    /// Where cargo builds it. It stays from run to run, as the copy does.
    pub(super) target: PathBuf,
}

impl Copy {
    /// Makes the copy equal to the tree: the files that git knows, and new ones that it does not ignore.
    /// What is equal is left alone, so that cargo builds only what changed since the last run.
    pub(super) fn of(here: &Workspace) -> Result<Self> {
        let dir = here.target.join("traps");
        let (root, target) = (dir.join("tree"), dir.join("build"));
        let args = [
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ];
        let listed = Program::new("git").args(args).dir(&here.root).output()?;
        let wanted: Vec<&str> = listed
            .split('\0')
            .filter(|path| !path.is_empty() && here.root.join(path).is_file())
            .collect();
        for path in &wanted {
            let bytes = fs::read(here.root.join(path)).with_context(|| (*path).to_owned())?;
            put(&root.join(path), &bytes)?;
        }
        remove_others(&root, &root, &wanted)?;
        Ok(Self { root, target })
    }

    /// Builds a trap in; gives what [`Copy::restore`] needs.
    pub(super) fn build_in(&self, trap: &Trap) -> Result<Vec<(PathBuf, String)>> {
        let mut before = Vec::new();
        for edit in &trap.edits {
            let path = self.root.join(&edit.file);
            let text = fs::read_to_string(&path).with_context(|| edit.file.clone())?;
            put(&path, edit.apply(&text)?.as_bytes())?;
            before.push((path, text));
        }
        Ok(before)
    }

    /// Puts back what a trap changed, last change first.
    pub(super) fn restore(before: &[(PathBuf, String)]) -> Result<()> {
        let mut changes = before.iter().rev();
        changes.try_for_each(|(path, text)| put(path, text.as_bytes()))
    }
}

/// Writes a file that is not there or differs.
fn put(path: &Path, bytes: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    let dir = path.parent().context("a file is in a directory")?;
    fs::create_dir_all(dir)?;
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

fn remove_others(root: &Path, dir: &Path, wanted: &[&str]) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let inside = path.strip_prefix(root)?;
        if path.is_dir() {
            remove_others(root, &path, wanted)?;
        } else if !wanted.iter().any(|wanted| Path::new(wanted) == inside) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{put, remove_others};
    use std::fs;

    #[test]
    fn what_is_equal_is_not_written_and_what_is_gone_goes() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        for path in ["a/b", "a/c/d", "e"] {
            put(&root.join(path), path.as_bytes()).unwrap();
        }
        let written = || fs::metadata(root.join("a/b")).unwrap().modified().unwrap();
        let before = written();
        put(&root.join("a/b"), b"a/b").unwrap();
        assert_eq!(written(), before);
        remove_others(root, root, &["a/b", "e"]).unwrap();
        assert!(root.join("a/b").exists() && root.join("e").exists());
        assert!(!root.join("a/c/d").exists());
    }
}
