//! The files that the checks look at.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// Directories that hold nothing written by hand.
const SKIPPED_DIRS: [&str; 5] = ["target", ".git", ".deps", "corpus", "artifacts"];

/// Files that are looked at, by what follows the last dot of their names.
const EXTENSIONS: [&str; 12] = [
    "rs",
    "md",
    "toml",
    "c",
    "h",
    "sh",
    "py",
    "yml",
    "json",
    "svg",
    "csv",
    crate::traps::EXTENSION,
];

/// Files that are looked at though they have no such ending.
const NAMES: [&str; 1] = ["run"];

/// A file of text.
#[derive(Debug)]
pub(crate) struct TextFile {
    /// Relative to the root, with '/' between the parts.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl TextFile {
    /// The part of the name after the last dot.
    pub(crate) fn extension(&self) -> &str {
        self.path
            .rsplit_once('.')
            .map_or("", |(_, extension)| extension)
    }
}

/// All files of text under a root, in the order of their paths.
pub(crate) fn read_all(root: &Path) -> Result<Vec<TextFile>> {
    let mut files = Vec::new();
    walk(root, root, &mut files)?;
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn walk(root: &Path, dir: &Path, files: &mut Vec<TextFile>) -> Result<()> {
    let entries = fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))?;
    for entry in entries {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        let name = entry.file_name().to_string_lossy().into_owned();
        if kind.is_dir() && !SKIPPED_DIRS.contains(&name.as_str()) {
            walk(root, &path, files)?;
        } else if kind.is_file() && is_looked_at(&path, &name) {
            let bytes =
                fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let text = String::from_utf8_lossy(&bytes).into_owned();
            files.push(TextFile {
                path: relative(root, &path),
                text,
            });
        }
    }
    Ok(())
}

fn is_looked_at(path: &Path, name: &str) -> bool {
    let extension = path
        .extension()
        .and_then(|extension| extension.to_str())
        .unwrap_or("");
    EXTENSIONS.contains(&extension) || NAMES.contains(&name)
}

fn relative(root: &Path, path: &Path) -> String {
    let inside: PathBuf = path.strip_prefix(root).unwrap_or(path).to_owned();
    inside
        .components()
        .map(|part| part.as_os_str().to_string_lossy())
        .collect::<Vec<_>>()
        .join("/")
}
