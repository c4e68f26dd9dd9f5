//! What the plugin and libfabric need of other libraries and do not get.

use std::collections::BTreeSet;
use std::path::Path;

use super::plugin::{fault_words, passed_words};
use crate::doctor::code::Code;
use crate::doctor::facts::Host;
use crate::doctor::facts::ldneeds::Unmet;
use crate::doctor::facts::libraries::LIBFABRIC;
use crate::doctor::finding::Finding;

/// What to do where a file is there and may not be read.
pub(super) const READABLE: &str = "chmod a+r the file, and a+rx the directories above it";

/// Codes for a library that is not there, one that is too old, and one that is damaged.
struct Codes {
    missing: Code,
    version: Code,
    damaged: Code,
}

pub(super) fn of_plugin(host: &Host) -> Vec<Finding> {
    let codes = Codes {
        missing: Code::NeededMissing,
        version: Code::VersionMissing,
        damaged: Code::NeededDamaged,
    };
    findings(host, &host.libraries.plugin_unmet, &codes)
}

pub(super) fn of_libfabric(host: &Host) -> Vec<Finding> {
    let codes = Codes {
        missing: Code::LibfabricNeeds,
        version: Code::LibfabricVersionMissing,
        damaged: Code::LibfabricNeedsDamaged,
    };
    findings(host, &host.libraries.libfabric_unmet, &codes)
}

fn findings(host: &Host, unmet: &[Unmet], codes: &Codes) -> Vec<Finding> {
    let lines = |of: fn(&Unmet) -> Option<Vec<String>>| {
        let lines: Vec<String> = unmet.iter().filter_map(of).flatten().collect();
        Some(lines).filter(|lines| !lines.is_empty())
    };
    let missing = lines(missing).map(|lines| {
        let finding = Finding::new(codes.missing, lines);
        match remedy(host, unmet) {
            Some(fix) => finding.with_fix(fix),
            None => finding,
        }
    });
    let owned = |mut lines: Vec<String>, is_one: fn(&&Unmet) -> bool| {
        let files: BTreeSet<&Path> = unmet.iter().filter(is_one).filter_map(Unmet::at).collect();
        lines.extend(files.into_iter().filter_map(|file| owner(host, file)));
        lines
    };
    let is_version = |unmet: &&Unmet| matches!(unmet, Unmet::Version { .. });
    let is_damaged = |unmet: &&Unmet| matches!(unmet, Unmet::Damaged { .. });
    let old = lines(version).map(|lines| Finding::new(codes.version, owned(lines, is_version)));
    let damaged = lines(damaged).map(|lines| Finding::new(codes.damaged, owned(lines, is_damaged)));
    missing.into_iter().chain(old).chain(damaged).collect()
}

/// A line that says which package a file is of, where that is known.
pub(super) fn owner(host: &Host, file: &Path) -> Option<String> {
    let package = host.packages.owner(file)?;
    Some(format!("{} is of the package {package}", file.display()))
}

fn missing(unmet: &Unmet) -> Option<Vec<String>> {
    let Unmet::Library {
        name,
        by,
        passed,
        places,
    } = unmet
    else {
        return None;
    };
    let mut lines = vec![format!("{name}, needed by {}", by.display())];
    let passed = passed.iter();
    lines.extend(passed.map(|(path, why)| format!("{}: {}", path.display(), passed_words(why))));
    if name == LIBFABRIC && lines.len() == 1 {
        lines.push(format!("{name} is in none of: {}", places.join(", ")));
    }
    Some(lines)
}

fn version(unmet: &Unmet) -> Option<Vec<String>> {
    let Unmet::Version { version, at, by } = unmet else {
        return None;
    };
    let (at, by) = (at.display(), by.display());
    Some(vec![format!(
        "version `{version}' not found in {at}, needed by {by}"
    )])
}

fn damaged(unmet: &Unmet) -> Option<Vec<String>> {
    let Unmet::Damaged { at, fault, by } = unmet else {
        return None;
    };
    let (at, by) = (at.display(), by.display());
    Some(vec![format!(
        "{at}: {}, needed by {by}",
        fault_words(fault)
    )])
}

/// What to do about libraries that are not there, where more is known than that they are to be installed.
fn remedy(host: &Host, unmet: &[Unmet]) -> Option<String> {
    let passed = unmet.iter().flat_map(Unmet::passed);
    if passed.into_iter().any(|(_, why)| why.is_denied()) {
        return Some(READABLE.to_owned());
    }
    if unmet.iter().all(|unmet| unmet.library() != Some(LIBFABRIC)) {
        return None;
    }
    Some(match &host.libraries.libfabric_elsewhere {
        Some(file) => format!(
            "{} is there: put its directory on the search path, LD_LIBRARY_PATH={}:$LD_LIBRARY_PATH (for all ranks: mpirun -x, srun --export)",
            file.display(),
            file.parent().unwrap_or(file).display()
        ),
        None => "install libfabric (AWS: the EFA installer, /opt/amazon/efa; Debian, Ubuntu: apt-get install libfabric1; RHEL, Fedora: dnf install libfabric) and have its directory in LD_LIBRARY_PATH; \
            this project's plugin also takes the file that OFI_NCCL_LIBFABRIC_PATH or OFI_LIBFABRIC_PATH names"
            .to_owned(),
    })
}
