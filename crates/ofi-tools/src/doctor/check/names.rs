//! Names of variables that are almost one of libfabric's, NCCL's or ours, and are none: rows of `data/names.csv`, and
//! the table that the plugin itself reads.

use ofi_net::params::{TABLE, distance};

use crate::doctor::code::Code;
use crate::doctor::facts::Host;
use crate::doctor::finding::Finding;
use crate::doctor::rows::rows;

const NAMES: &str = include_str!("../data/names.csv");
/// How names begin that anybody here reads.
const STARTS: [&str; 3] = ["FI", "NCCL", "OFI"];
/// How those begin that the plugin itself tells of, near another or not.
const TOLD: [&str; 2] = ["OFI_NCCL_", "NCCL_OFI_"];
/// From so many letters on two may be wrong.
const LONG: usize = 14;

pub(super) fn check(host: &Host) -> Option<Finding> {
    let names = host.settings.pairs().map(|(name, _)| name);
    let lines = names.filter_map(|name| {
        let near = misspelt(name)?;
        Some(format!(
            "{}; did you mean {near}?",
            host.settings.show(name)
        ))
    });
    let lines: Vec<String> = lines.collect();
    (!lines.is_empty()).then(|| Finding::new(Code::Misspelt, lines))
}

fn known() -> impl Iterator<Item = &'static str> {
    let ours = TABLE
        .iter()
        .flat_map(|param| [Some(param.name), param.alias]);
    rows(NAMES).map(|[name, _]| name).chain(ours.flatten())
}

/// The name that is meant, where this one is none and near one.
fn misspelt(name: &str) -> Option<&'static str> {
    let start = name.split('_').next().unwrap_or_default();
    let is_candidate = STARTS.iter().any(|known| distance(start, known) <= 1);
    let is_told = TOLD.iter().any(|told| name.starts_with(told));
    if !is_candidate || is_told || known().any(|known| known == name) {
        return None;
    }
    let near = known().map(|known| (distance(name, known), known)).min()?;
    is_near(name, near).then_some(near.1)
}

/// One letter wrong, two of a long name, or two that changed places. Numbers are not misspelt: `PSM3` is no `PSM2`.
fn is_near(name: &str, (edits, known): (usize, &str)) -> bool {
    let digits = |name: &str| {
        name.chars()
            .filter(char::is_ascii_digit)
            .collect::<String>()
    };
    let letters = |name: &str| {
        let mut letters: Vec<u8> = name.to_ascii_uppercase().into_bytes();
        letters.sort_unstable();
        letters
    };
    let most = match (letters(name) == letters(known), name.len() >= LONG) {
        (true, _) | (_, true) => 2,
        (false, false) => 1,
    };
    edits <= most && digits(name) == digits(known)
}

#[cfg(test)]
mod tests {
    use super::{NAMES, known, misspelt};
    use crate::doctor::rows::{lines, rows};
    use std::collections::HashSet;

    #[test]
    fn every_line_is_a_name_with_a_source() {
        let all: Vec<[&str; 2]> = rows(NAMES).collect();
        assert_eq!(lines(NAMES).count(), all.len());
        let names: HashSet<&str> = all.iter().map(|[name, _]| *name).collect();
        assert_eq!(names.len(), all.len());
        for [name, source] in &all {
            let is_name = name
                .bytes()
                .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == b'_');
            assert!(is_name && !source.is_empty(), "{name}");
        }
        assert!(sorted(&all), "in their order");
    }

    fn sorted(all: &[[&str; 2]]) -> bool {
        all.windows(2).all(|pair| pair[0][0] < pair[1][0])
    }

    #[test]
    fn no_known_name_is_misspelt() {
        assert!(known().all(|name| misspelt(name).is_none()));
    }

    #[test]
    fn near_names_are_and_others_are_not() {
        for (name, meant) in [
            ("FI_PROVDER", Some("FI_PROVIDER")),
            ("fi_provider", Some("FI_PROVIDER")),
            ("FI_EFA_FORKSAFE", Some("FI_EFA_FORK_SAFE")),
            ("FI_EFA_USE_DEVICE_RMDA", Some("FI_EFA_USE_DEVICE_RDMA")),
            ("NCCL_DEUBG", Some("NCCL_DEBUG")),
            ("NCCL_SOCKET_IFNAMES", Some("NCCL_SOCKET_IFNAME")),
            ("NCLL_DEBUG", Some("NCCL_DEBUG")),
            ("NCCL_NET_PLUGINS", Some("NCCL_NET_PLUGIN")),
            ("OFI_LIBFABRC_PATH", Some("OFI_LIBFABRIC_PATH")),
            ("OFI_NCLL_PROTOCOL", Some("OFI_NCCL_PROTOCOL")),
            // The plugin tells of these.
            ("OFI_NCCL_PROTOCOLL", None),
            // Of other providers, of newer versions, of other programs.
            ("FI_PSM3_UUID", None),
            ("FI_CXI_DEFAULT_CQ_SIZE", None),
            ("NCCL_SOME_NEW_THING", None),
            ("NCCL_IB_XY", None),
            ("FILES", None),
            ("FOO", None),
            ("PATH", None),
            ("", None),
        ] {
            assert_eq!(misspelt(name), meant, "{name}");
        }
    }
}
