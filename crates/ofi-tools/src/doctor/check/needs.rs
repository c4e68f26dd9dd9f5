//! What the plugin and libfabric need of other libraries and do not get.

use std::collections::BTreeSet;
use std::path::Path;

use super::plugin::{fault_words, passed_words};
use crate::doctor::code::Code;
use crate::doctor::facts::Host;
use crate::doctor::facts::ldneeds::Unmet;
use crate::doctor::facts::libraries::LIBFABRIC;
use crate::doctor::finding::Finding;
use crate::doctor::rows::rows;

/// What to do where a file is there and may not be read.
pub(super) const READABLE: &str = "chmod a+r the file, and a+rx the directories above it";

const PACKAGES: &str = include_str!("../data/packages.csv");
/// What a plugin that is linked with libfabric does not have.
const OURS: &str = "this project's plugin also takes the file that OFI_NCCL_LIBFABRIC_PATH or OFI_LIBFABRIC_PATH names";
/// What ours does not need.
const LESS: &str = "use a plugin without it (ours needs the C library and libgcc_s alone)";
const LIBGCC: &str = "libgcc_s.so.1";

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
        match remedy(host, unmet, codes.missing == Code::NeededMissing) {
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

/// What to do about libraries that are not there.
fn remedy(host: &Host, unmet: &[Unmet], is_plugins: bool) -> Option<String> {
    let mut passed = unmet.iter().flat_map(Unmet::passed);
    if passed.any(|(_, why)| why.is_denied()) {
        return Some(READABLE.to_owned());
    }
    let names: Vec<&str> = unmet.iter().filter_map(Unmet::library).collect();
    let has_libfabric = names.contains(&LIBFABRIC);
    if let Some(file) = host
        .libraries
        .libfabric_elsewhere
        .as_ref()
        .filter(|_| has_libfabric)
    {
        return Some(format!(
            "{} is there: put its directory on the search path, LD_LIBRARY_PATH={}:$LD_LIBRARY_PATH (for all ranks: mpirun -x, srun --export)",
            file.display(),
            file.parent().unwrap_or(file).display()
        ));
    }
    let each: Vec<String> = names.iter().filter_map(|name| install(name)).collect();
    // A library that no row has leaves the words of the code's own row.
    let all = (each.len() == names.len()).then(|| each.join("; "))?;
    Some(match has_libfabric {
        true => format!("{all}, and have its directory in LD_LIBRARY_PATH; {OURS}"),
        false if is_plugins && !names.contains(&LIBGCC) => format!("{all}, or {LESS}"),
        false => all,
    })
}

/// How a library is installed, where a row says so.
fn install(library: &str) -> Option<String> {
    let mut rows = rows(PACKAGES);
    let [_, debian, rpm, aws] = rows.find(|[name, _, _, _]| *name == library)?;
    let aws = match aws {
        "-" => String::new(),
        aws => format!("AWS: {aws}; "),
    };
    Some(format!(
        "install {library} ({aws}Debian, Ubuntu: apt-get install {debian}; RHEL, Fedora, Amazon Linux: dnf install {rpm})"
    ))
}

#[cfg(test)]
mod tests {
    use super::{LIBFABRIC, PACKAGES, install};
    use crate::doctor::rows::{lines, rows};
    use std::collections::HashSet;

    #[test]
    fn every_line_is_a_library_with_its_packages() {
        let names: HashSet<&str> = rows(PACKAGES).map(|[name, _, _, _]| name).collect();
        assert_eq!(names.len(), lines(PACKAGES).count());
        assert!(
            names
                .iter()
                .all(|name| name.starts_with("lib") && name.contains(".so."))
        );
        assert!(rows::<4>(PACKAGES).all(|row| row.iter().all(|column| !column.is_empty())));
    }

    #[test]
    fn what_is_known_is_named_and_nothing_else() {
        let libfabric = install(LIBFABRIC).unwrap();
        assert!(
            libfabric.contains("AWS: the EFA installer, /opt/amazon/efa; Debian"),
            "{libfabric}"
        );
        let hwloc = install("libhwloc.so.15").unwrap();
        assert!(
            hwloc.contains("apt-get install libhwloc15;") && !hwloc.contains("AWS"),
            "{hwloc}"
        );
        assert_eq!(install("libhwloc.so.5"), None);
    }
}
