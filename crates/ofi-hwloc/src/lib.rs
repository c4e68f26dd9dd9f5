#![doc = include_str!("../README.md")]
//!
//! # Modules
//!
//! * `library`: `libhwloc.so.15`, its seven functions, and a topology that is destroyed when it is dropped

mod library;

use library::{Functions, Topology};
use ofi_topo::Tree;

/// What hwloc is to look at.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Source<'a> {
    /// This host. hwloc's own variables hold (`HWLOC_XMLFILE`, `HWLOC_FSROOT`, `HWLOC_COMPONENTS`).
    Host,
    /// A dump: what hwloc understands of it is written again.
    Dump(&'a str),
}

/// Why there is no dump.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HwlocError {
    /// There is no hwloc 2.x here.
    #[error(
        "hwloc is not here: {reason}; install it (Debian: apt-get install libhwloc15), or do without: sysfs \
         says the same"
    )]
    NotFound {
        /// What the loader said.
        reason: String,
    },
    /// The file is there and is no hwloc.
    #[error("{file} has no function {name}: it is not the library of hwloc 2.x")]
    MissingFunction {
        /// The function.
        name: &'static str,
        /// The library's file.
        file: &'static str,
    },
    /// hwloc refused.
    #[error(
        "{call} failed: {reason}; what it was given may be no dump of hwloc (see HWLOC_XML_VERBOSE=1)"
    )]
    Call {
        /// The function.
        call: &'static str,
        /// What errno says.
        reason: String,
    },
    /// What hwloc wrote is not what we read.
    #[error("hwloc's own dump: {reason}")]
    NotRead {
        /// Why not.
        reason: String,
    },
    /// A dump of 2 GiB or more.
    #[error("a dump of {bytes} bytes is too long for hwloc")]
    TooLong {
        /// Its bytes.
        bytes: usize,
    },
}

/// The PCI tree as hwloc has it, which tells nothing of links.
///
/// # Errors
/// As [`dump`]; [`HwlocError::NotRead`] for what hwloc says.
///
/// # Costs
/// As [`dump`].
pub fn tree(source: Source<'_>) -> Result<Tree, HwlocError> {
    Tree::from_hwloc_xml(&dump(source)?).map_err(|error| HwlocError::NotRead {
        reason: error.to_string(),
    })
}

/// All that hwloc says, with every PCI function (`lstopo --whole-io`).
///
/// # Errors
/// No hwloc, or one that refuses: see [`HwlocError`].
///
/// # Costs
/// Tens of milliseconds for a host.
pub fn dump(source: Source<'_>) -> Result<String, HwlocError> {
    let topology = Topology::new(Functions::load()?)?;
    if let Source::Dump(text) = source {
        topology.set_xml(text)?;
    }
    topology.keep_io()?;
    topology.load()?;
    topology.export()
}

#[cfg(test)]
mod tests {
    use super::{HwlocError, Source, dump};

    #[expect(clippy::print_stdout, reason = "what was skipped is said, by name")]
    #[test]
    fn what_is_no_dump_is_an_error() {
        for text in [
            "",
            "no xml",
            "<topology version=\"2.0\">",
            "<a/>\0<topology/>",
        ] {
            match dump(Source::Dump(text)) {
                Err(HwlocError::NotFound { reason }) => println!("skipped: {reason}"),
                Err(HwlocError::Call { .. }) => {}
                other => panic!("{text:?}: {other:?}"),
            }
        }
    }

    #[test]
    fn an_error_says_what_to_do() {
        let reason = "no such file".to_owned();
        let text = HwlocError::NotFound { reason }.to_string();
        assert!(text.contains("libhwloc15") && text.contains("no such file"));
    }
}
