//! Why libfabric could not be loaded, in words that help.

use core::fmt;
use std::path::PathBuf;

/// One file that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// What was given to `dlopen`: a path, or a name looked up in the usual places.
    pub path: PathBuf,
    /// What `dlerror` said.
    pub reason: String,
}

impl Attempt {
    /// Whether the file is there, and something else than that kept it from being opened: what it needs, or
    /// that it is no library. In whatever language the reason is: the loader begins it with a name, which is
    /// that of the attempt where a name that it looked for was not found.
    #[must_use]
    pub fn is_there(&self) -> bool {
        let name = self.path.display().to_string();
        match name.contains('/') {
            true => self.path.exists(),
            false => !self.reason.starts_with(&format!("{name}: ")),
        }
    }
}

/// Why [`Library::load`](crate::Library::load) gave no library.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadError {
    /// No candidate could be opened.
    NotFound {
        /// All candidates, in the order in which they were tried; one if a path was given.
        tried: Vec<Attempt>,
    },
    /// A file was opened, but it is not a usable libfabric.
    MissingSymbol {
        /// The file.
        path: PathBuf,
        /// The function that it lacks.
        symbol: &'static str,
    },
    /// Another file was loaded in this process before; it cannot be replaced.
    AlreadyLoaded {
        /// What is loaded.
        loaded: PathBuf,
        /// What was asked for now.
        asked: PathBuf,
    },
    /// The path contains a NUL byte.
    BadPath {
        /// The path as given.
        path: PathBuf,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound { tried } => {
                f.write_str("libfabric could not be loaded; tried ")?;
                for (index, attempt) in tried.iter().enumerate() {
                    let separator = if index == 0 { "" } else { "; " };
                    write!(
                        f,
                        "{separator}{} ({})",
                        attempt.path.display(),
                        attempt.reason
                    )?;
                }
                f.write_str(
                    ". Install it (Debian, Ubuntu: apt-get install libfabric1; AWS: the EFA \
                     installer), or name the file to load",
                )
            }
            Self::MissingSymbol { path, symbol } => write!(
                f,
                "{} is not a usable libfabric: it has no function {symbol}. Name another file, or \
                 install libfabric 1.17 or later",
                path.display()
            ),
            Self::AlreadyLoaded { loaded, asked } => write!(
                f,
                "libfabric is already loaded from {} and cannot be replaced by {} in this process. \
                 Name one file only, before the first use",
                loaded.display(),
                asked.display()
            ),
            Self::BadPath { path } => {
                write!(
                    f,
                    "the path of libfabric contains a NUL byte: {}",
                    path.display()
                )
            }
        }
    }
}

impl core::error::Error for LoadError {}
