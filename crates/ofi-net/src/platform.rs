//! What an instance type is known to need (protocol 2h.5), by its product name.
//!
//! The facts stand in `platform/table.rs`, each row with its source; machines that are in no row go by what
//! the provider says.

use crate::config::Protocol;
use ofi_topo::Sysfs;
use std::path::Path;

mod table;

/// One instance family.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Platform {
    /// What it is called here.
    pub(crate) family: &'static str,
    /// Latency that the reference reports, microseconds.
    pub(crate) latency_us: u16,
    /// What it speaks, unless the user says otherwise.
    pub(crate) protocol: Protocol,
    /// Device memory has to work, or the endpoint is refused.
    pub(crate) gdr_required: bool,
    /// A domain for each thread, unless the user says otherwise.
    pub(crate) domain_per_thread: bool,
    /// SENDRECV of the NCCL plugin shows each NIC so many times, unless the user says otherwise; 0: once.
    pub(crate) duplicates: usize,
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
struct Row {
    platform: Platform,
    matches: Match,
    /// Where its facts are from.
    source: &'static str,
}

/// Which product names a row is for.
#[derive(Clone, Copy, Debug)]
enum Match {
    /// This one.
    Exact(&'static str),
    /// Those that begin so.
    Prefixes(&'static [&'static str]),
    /// Those that begin so, and a letter's generations from a number of one digit on.
    Generation(&'static str, char, u32),
}

impl Match {
    fn takes(self, product: &str) -> bool {
        match self {
            Self::Exact(name) => product == name,
            Self::Prefixes(list) => list.iter().any(|start| product.starts_with(start)),
            Self::Generation(also, letter, least) => {
                let Some(rest) = product.strip_prefix(letter) else {
                    return false;
                };
                let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
                let first = rest.chars().next().and_then(|digit| digit.to_digit(10));
                product.starts_with(also) || digits >= 2 || first.is_some_and(|n| n >= least)
            }
        }
    }
}

/// The row of a product name.
pub(crate) fn find(product: &str) -> Option<&'static Platform> {
    let mut rows = table::TABLE.iter();
    let row = rows.find(|row| row.matches.takes(product))?;
    debug_assert!(!row.source.is_empty(), "a fact without a source");
    Some(&row.platform)
}

/// NICs for collectives that an instance of this product name has when it is launched with all of them;
/// `None` where that is not known.
///
/// ```
/// assert_eq!(ofi_net::instance_nics("p5.48xlarge"), Some(32));
/// ```
#[must_use]
pub fn nics(product: &str) -> Option<usize> {
    let mut rows = table::NICS.iter();
    rows.find(|(name, ..)| *name == product)
        .map(|(_, count, _)| *count)
}

/// NVIDIA accelerators that every instance of this product name has; `None` where that is not known.
///
/// ```
/// assert_eq!(ofi_net::instance_accelerators("p5.48xlarge"), Some(8));
/// ```
#[must_use]
pub fn accelerators(product: &str) -> Option<usize> {
    let mut rows = table::ACCELERATORS.iter();
    rows.find(|(name, ..)| *name == product)
        .map(|(_, count, _)| *count)
}

/// What the firmware calls this machine; empty where it says nothing, or nothing that can be read.
pub(crate) fn product_name(root: &Path) -> String {
    let name = Sysfs::new(root).product_name();
    name.ok().flatten().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> impl Iterator<Item = &'static Platform> {
        table::TABLE.iter().map(|row| &row.platform)
    }

    #[test]
    fn every_fact_has_its_source() {
        assert!(table::TABLE.iter().all(|row| !row.source.is_empty()));
        assert!(table::NICS.iter().all(|(.., source)| !source.is_empty()));
        for (name, count, source) in table::ACCELERATORS {
            assert!(nics(name).is_some() && *count > 0 && !source.is_empty());
        }
        // A count is of a product that has a row, and a row of its own.
        for (index, (name, count, _)) in table::NICS.iter().enumerate() {
            assert!(find(name).is_some() && *count > 0, "{name}");
            assert!(table::NICS[..index].iter().all(|(other, ..)| other != name));
        }
        assert_eq!((nics("p5.48xlarge"), nics("p5.4xlarge")), (Some(32), None));
    }

    #[test]
    fn flags_are_those_of_the_reference() {
        let families = |flag: fn(&Platform) -> bool| -> Vec<_> {
            rows().filter(|p| flag(p)).map(|p| p.family).collect()
        };
        assert_eq!(
            families(|p| !p.gdr_required),
            ["p3dn.24xlarge", "g5.48xlarge"]
        );
        assert_eq!(families(|p| p.duplicates > 0), ["p3dn.24xlarge"]);
        let rdma = families(|p| p.protocol == Protocol::Rdma);
        assert_eq!(rdma, ["p-series", "p5/p5e", "trn2"]);
    }

    fn family(product: &str) -> Option<&'static str> {
        find(product).map(|platform| platform.family)
    }

    #[test]
    fn families_are_found_as_the_reference_finds_them() {
        let known = [
            ("p4d.24xlarge", "p4d.24xlarge"),
            ("p4de.24xlarge", "p4de.24xlarge"),
            ("p3dn.24xlarge", "p3dn.24xlarge"),
            ("p5.48xlarge", "p5/p5e"),
            ("p5e.48xlarge", "p5/p5e"),
            ("p5en.48xlarge", "p-series"),
            ("p6-b200.48xlarge", "p-series"),
            ("p10.large", "p-series"),
            ("g5.48xlarge", "g5.48xlarge"),
            ("trn1.32xlarge", "trn1"),
            ("trn1n.32xlarge", "trn1"),
            ("trn2.48xlarge", "trn2"),
            ("inf2.48xlarge", "inf"),
        ];
        for (product, expected) in known {
            assert_eq!(family(product), Some(expected), "{product}");
        }
        for unknown in [
            "",
            "p",
            "p3.16xlarge",
            "c5n.18xlarge",
            "g5.xlarge",
            "KVM",
            "xtrn1",
        ] {
            assert_eq!(family(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn only_neuron_families_have_a_domain_a_thread() {
        let threaded: Vec<_> = rows().filter(|p| p.domain_per_thread).collect();
        assert!(
            threaded
                .iter()
                .all(|p| p.family.starts_with("trn") || p.family == "inf")
        );
        assert_eq!(threaded.len(), 3);
    }
}
