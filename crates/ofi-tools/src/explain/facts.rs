//! What a log says of its run: which network, which versions. By the words of NCCL, of the reference, and of
//! this project's plugins.

use std::collections::BTreeMap;

use crate::doctor::facts::version::Version;

/// Networks and versions of a log that are kept; a hostile one does not grow beyond.
const KEPT: usize = 64;

/// Words before a version, in small letters, and whose it is.
const VERSIONS: [(&str, &str); 10] = [
    ("nccl version ", "NCCL"),
    ("ofi-collectives ", "ofi-collectives"),
    ("initializing aws-ofi-nccl ", "aws-ofi-nccl"),
    ("using aws-ofi-nccl ", "aws-ofi-nccl"),
    ("using libfabric version ", "libfabric"),
    ("libfabric version ", "libfabric"),
    ("efa installer version: ", "EFA installer"),
    ("neuron runtime version ", "Neuron runtime"),
    ("nrt version ", "Neuron runtime"),
    ("cudadriverversion ", "CUDA driver"),
];

/// Words before the name of the network that is used.
const NETWORK: [&str; 3] = ["using network ", "via net/", "nccom using network "];
/// Words before the name of a provider.
const PROVIDER: [&str; 2] = ["selected provider is ", "provider chosen: "];

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// Network to how many lines say so.
    pub(super) networks: BTreeMap<String, u64>,
    /// Component and version, each once.
    pub(super) versions: Vec<(&'static str, String)>,
    pub(super) providers: Vec<String>,
    /// Lines that are of NCCL, of Neuron, or of such a plugin.
    pub(super) known_lines: u64,
}

impl Facts {
    /// Takes a line: as it is, and in small letters.
    pub(super) fn take(&mut self, line: &str, small: &str) {
        let is_known = ["nccl", "net/", "neuron", "nccom", "ofi-e0"];
        self.known_lines += u64::from(is_known.iter().any(|word| small.contains(word)));
        for word in NETWORK {
            let name = after(line, small, word).map(network_name);
            if let Some(name) = name.filter(|name| !name.is_empty()) {
                if self.networks.len() < KEPT || self.networks.contains_key(&name) {
                    *self.networks.entry(name).or_insert(0) += 1;
                }
                break;
            }
        }
        for word in PROVIDER {
            if let Some(rest) = after(line, small, word) {
                let name = rest
                    .split([' ', ',', '('])
                    .next()
                    .unwrap_or_default()
                    .to_owned();
                if !self.providers.contains(&name) && self.providers.len() < KEPT {
                    self.providers.push(name);
                }
            }
        }
        for (word, whose) in VERSIONS {
            let Some(rest) = after(line, small, word) else {
                continue;
            };
            let text = rest.split([' ', ',', ';']).next().unwrap_or_default();
            let known = (whose, text.chars().take(40).collect::<String>());
            let is_version = Version::parse(text).is_some();
            if is_version && !self.versions.contains(&known) && self.versions.len() < KEPT {
                self.versions.push(known);
            }
        }
    }

    /// Whether sockets were used, and by nobody's wish that the log shows.
    pub(super) fn fell_back(&self) -> bool {
        let is_socket = |name: &String| name.eq_ignore_ascii_case("socket");
        self.networks.keys().any(is_socket)
    }

    /// Whether libfabric was used.
    pub(super) fn has_libfabric(&self) -> bool {
        let is_ours = |name: &String| {
            let name = name.to_ascii_lowercase();
            name.contains("libfabric") || name == "ofi"
        };
        self.networks.keys().any(is_ours)
    }
}

fn after<'l>(line: &'l str, small: &str, word: &str) -> Option<&'l str> {
    // Both have the same bytes but for the case of ASCII letters.
    line.get(small.find(word)? + word.len()..)
}

/// `AWS Libfabric/0/GDRDMA` and `AWS Libfabric` are one network.
fn network_name(rest: &str) -> String {
    let name = rest.split('/').next().unwrap_or_default().trim();
    let name = name.trim_matches(|c: char| c.is_control() || c == '"' || c == '.');
    name.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::Facts;

    fn facts(lines: &[&str]) -> Facts {
        let mut facts = Facts::default();
        lines
            .iter()
            .for_each(|line| facts.take(line, &line.to_ascii_lowercase()));
        facts
    }

    #[test]
    fn networks_and_versions_are_read() {
        let seen = facts(&[
            "a:1:2 [0] NCCL INFO NCCL version 2.21.5+cuda12.4",
            "a:1:2 [0] NCCL INFO NET/OFI Initializing aws-ofi-nccl 1.13.2-aws",
            "a:1:2 [0] NCCL INFO NET/OFI Using Libfabric version 1.22",
            "a:1:2 [0] NCCL INFO Using network AWS Libfabric",
            "a:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/AWS Libfabric/0/GDRDMA",
        ]);
        assert_eq!(seen.networks["AWS Libfabric"], 2);
        assert!(seen.has_libfabric() && !seen.fell_back());
        let versions: Vec<String> = seen
            .versions
            .iter()
            .map(|(of, v)| format!("{of} {v}"))
            .collect();
        assert_eq!(
            versions,
            [
                "NCCL 2.21.5+cuda12.4",
                "aws-ofi-nccl 1.13.2-aws",
                "libfabric 1.22"
            ]
        );
    }

    #[test]
    fn a_hostile_log_keeps_to_its_bounds() {
        let mut facts = Facts::default();
        for n in 0..10_000 {
            let line =
                format!("using network n{n} libfabric version 1.{n} selected provider is p{n}");
            facts.take(&line, &line);
        }
        assert!(facts.networks.len() <= super::KEPT && facts.versions.len() <= super::KEPT);
        assert!(facts.providers.len() <= super::KEPT);
    }
}
