//! What an instance type is known to need (protocol 2h.5), by its product name.
//!
//! One row a family, the first that matches wins. Only what this version acts on stands here.

use crate::config::Protocol;
use std::path::Path;

/// Where the firmware's name of the machine stands.
const PRODUCT_NAME: &str = "sys/devices/virtual/dmi/id/product_name";

/// One instance family.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Platform {
    /// What it is called here.
    pub(crate) family: &'static str,
    /// Latency that the reference reports, microseconds.
    pub(crate) latency_us: u16,
    /// A domain for each thread, unless the user says otherwise.
    pub(crate) domain_per_thread: bool,
    /// What it speaks, unless the user says otherwise.
    pub(crate) protocol: Protocol,
    /// Device memory has to work, or the endpoint is refused.
    pub(crate) gdr_required: bool,
    matches: fn(&str) -> bool,
}

const fn row(family: &'static str, latency_us: u16, matches: fn(&str) -> bool) -> Platform {
    Platform {
        family,
        latency_us,
        domain_per_thread: false,
        protocol: Protocol::SendRecv,
        gdr_required: true,
        matches,
    }
}

impl Platform {
    const fn per_thread(mut self) -> Self {
        self.domain_per_thread = true;
        self
    }

    const fn rdma(mut self) -> Self {
        self.protocol = Protocol::Rdma;
        self
    }

    const fn without_gdr(mut self) -> Self {
        self.gdr_required = false;
        self
    }
}

/// Protocol 2h.5, BASE.
const TABLE: &[Platform] = &[
    row("p4d.24xlarge", 75, |name| name == "p4d.24xlarge"),
    row("p4de.24xlarge", 75, |name| name == "p4de.24xlarge"),
    row("p3dn.24xlarge", 150, |name| name == "p3dn.24xlarge").without_gdr(),
    row("p-series", 35, is_late_p).rdma(),
    row("p5/p5e", 75, |name| {
        name.starts_with("p5.") || name.starts_with("p5e.")
    })
    .rdma(),
    row("g5.48xlarge", 75, |name| name == "g5.48xlarge").without_gdr(),
    row("trn1", 75, |name| name.starts_with("trn1")).per_thread(),
    row("trn2", 75, |name| name.starts_with("trn2"))
        .per_thread()
        .rdma(),
    row("inf", 75, |name| name.starts_with("inf")).per_thread(),
];

/// `^(p5en\.48xlarge)|(^p([6-9]|[0-9]{2,}).*)`
fn is_late_p(name: &str) -> bool {
    let Some(rest) = name.strip_prefix('p') else {
        return false;
    };
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    name.starts_with("p5en.48xlarge")
        || digits >= 2
        || rest.starts_with(|first| matches!(first, '6'..='9'))
}

/// The row of a product name.
pub(crate) fn find(product: &str) -> Option<&'static Platform> {
    TABLE.iter().find(|platform| (platform.matches)(product))
}

/// What the firmware calls this machine; empty where it says nothing.
pub(crate) fn product_name(root: &Path) -> String {
    let text = std::fs::read_to_string(root.join(PRODUCT_NAME)).unwrap_or_default();
    text.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let threaded: Vec<_> = TABLE.iter().filter(|p| p.domain_per_thread).collect();
        assert!(
            threaded
                .iter()
                .all(|p| p.family.starts_with("trn") || p.family == "inf")
        );
        assert_eq!(threaded.len(), 3);
    }
}
