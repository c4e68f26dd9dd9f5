//! What a log says of its run: which network, which versions. By the words of NCCL, of the reference, and of
//! this project's plugins.

use std::collections::BTreeMap;

use crate::doctor::facts::version::Version;

/// Networks and versions of a log that are kept; a hostile one does not grow beyond.
const KEPT: usize = 64;

/// Words before a version, in small letters, and whose it is.
const VERSIONS: [(&str, &str); 11] = [
    ("nccl version ", "NCCL"),
    ("ofi-collectives ", "ofi-collectives"),
    ("initializing aws-ofi-nccl ", "aws-ofi-nccl"),
    ("using aws-ofi-nccl ", "aws-ofi-nccl"),
    ("using libfabric version ", "libfabric"),
    ("libfabric version ", "libfabric"),
    (OURS, "libfabric"),
    ("efa installer version: ", "EFA installer"),
    ("neuron runtime version ", "Neuron runtime"),
    ("nrt version ", "Neuron runtime"),
    ("cudadriverversion ", "CUDA driver"),
];

/// What this project's plugins say of their libfabric: `NET/OFI libfabric 1.22, provider efa: rdmap0s6, ..`.
const OURS: &str = "net/ofi libfabric ";
/// Words of lines that are of a collectives library; a model's own log has networks too.
const LIBRARY: [&str; 3] = ["nccl", "ccom", "neuron"];

/// Words before the name of the network that is used.
const NETWORK: [&str; 4] = [
    "using network ",
    "via net/",
    "nccom using network ",
    "assigned net plugin ",
];
/// Words after it.
const NETWORK_END: &str = " to comm";
/// Words before the name of a provider.
const PROVIDER: [&str; 2] = ["selected provider is ", "provider chosen: "];

/// What a line says of the network of its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// This one is used.
    Libfabric,
    /// Another is.
    Other,
    /// A plugin was loaded, whatever was tried before.
    Loaded,
}

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
    pub(super) fn take(&mut self, line: &str, small: &str) -> Option<Told> {
        let is_known = ["nccl", "net/", "neuron", "ccom ", "nccom", "ofi-e0"];
        self.known_lines += u64::from(is_known.iter().any(|word| small.contains(word)));
        self.take_provider(line, small);
        self.take_versions(line, small);
        if let Some(name) = network(line, small) {
            let told = match is_libfabric(&name) {
                true => Told::Libfabric,
                false => Told::Other,
            };
            if self.networks.len() < KEPT || self.networks.contains_key(&name) {
                *self.networks.entry(name).or_insert(0) += 1;
            }
            return Some(told);
        }
        // A plugin that speaks is loaded too.
        let loaded = [
            "loaded net plugin ",
            "loaded external network plugin ",
            "loaded external plugin ",
            // From 2.21 on; before, without the first word, it is what is tried next.
            "net/plugin: plugin name set by env to ",
            "net/ofi ",
        ];
        (loaded.iter().any(|word| small.contains(word))).then_some(Told::Loaded)
    }

    fn take_provider(&mut self, line: &str, small: &str) {
        let found = PROVIDER.iter().find_map(|word| after(line, small, word));
        let of_ours = || {
            let rest = after(line, small, OURS)?;
            Some(rest.split_once(", provider ")?.1)
        };
        let Some(rest) = found.or_else(of_ours) else {
            return;
        };
        let name = rest.split([' ', ',', '(', ':']).next().unwrap_or_default();
        let name = name.chars().take(40).collect::<String>();
        if !name.is_empty() && !self.providers.contains(&name) && self.providers.len() < KEPT {
            self.providers.push(name);
        }
    }

    fn take_versions(&mut self, line: &str, small: &str) {
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

    /// The networks that are not libfabric's, in words; `None`: there are none.
    pub(super) fn others(&self) -> Option<String> {
        let others = self.networks.keys().filter(|name| !is_libfabric(name));
        let words = others.map(|name| match name.eq_ignore_ascii_case("socket") {
            true => "sockets were used".to_owned(),
            false => format!("the network {name} was used"),
        });
        let words: Vec<String> = words.take(4).collect();
        (!words.is_empty()).then(|| words.join(", "))
    }

    /// Whether libfabric was used.
    pub(super) fn has_libfabric(&self) -> bool {
        self.networks.keys().any(|name| is_libfabric(name))
    }

    /// How many providers are EFA's, and how many are not.
    pub(super) fn providers_of_efa(&self) -> (usize, usize) {
        let is_efa = |name: &&String| name.to_ascii_lowercase().starts_with("efa");
        let efa = self.providers.iter().filter(is_efa).count();
        (efa, self.providers.len() - efa)
    }
}

fn is_libfabric(network: &str) -> bool {
    let small = network.to_ascii_lowercase();
    small.contains("libfabric") || small == "ofi"
}

/// The network that a line of a collectives library says it uses.
fn network(line: &str, small: &str) -> Option<String> {
    let found = NETWORK.iter().find_map(|word| {
        let before = small.get(..small.find(word)?)?;
        let is_said =
            *word == "nccom using network " || LIBRARY.iter().any(|of| before.contains(of));
        is_said.then(|| after(line, small, word)).flatten()
    });
    found.map(network_name).filter(|name| !name.is_empty())
}

fn after<'l>(line: &'l str, small: &str, word: &str) -> Option<&'l str> {
    // Both have the same bytes but for the case of ASCII letters.
    line.get(small.find(word)? + word.len()..)
}

/// `AWS Libfabric/0/GDRDMA` and `AWS Libfabric` are one network.
fn network_name(rest: &str) -> String {
    let name = rest.split('/').next().unwrap_or_default().trim();
    let name = name.strip_suffix(NETWORK_END).unwrap_or(name);
    let name = name.trim_matches(|c: char| c.is_control() || c == '"' || c == '.');
    name.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::Facts;

    fn facts(lines: &[&str]) -> Facts {
        let mut facts = Facts::default();
        for line in lines {
            let _ = facts.take(line, &line.to_ascii_lowercase());
        }
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
        assert!(seen.has_libfabric() && seen.others().is_none());
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
    fn only_lines_of_a_collectives_library_name_networks() {
        let seen = facts(&[
            "using network architecture resnet50",
            "via net/foo",
            "a:1:2 [0] NCCL INFO Using network IB",
            "a:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0",
            "2026-Nov-01 10:00:00 1:2 CCOM INFO Using network AWS Libfabric",
        ]);
        let names: Vec<&String> = seen.networks.keys().collect();
        assert_eq!(names, ["AWS Libfabric", "IB"]);
        assert_eq!(seen.others().as_deref(), Some("the network IB was used"));
    }

    #[test]
    fn this_projects_own_lines_say_provider_and_version() {
        let seen = facts(&[
            "a:1:2 [0] NCCL INFO NET/OFI libfabric 1.17, provider net: eth0 (virtual addresses)",
            "a:1:2 [0] NCCL INFO NET/OFI libfabric 1.17, FI_PROVIDER unset",
            "a:1:2 [0] NCCL INFO NET/OFI Selected Provider is efa (found 32 nics)",
        ]);
        assert_eq!(seen.providers, ["net", "efa"]);
        assert_eq!(seen.providers_of_efa(), (1, 1));
        assert_eq!(seen.versions, [("libfabric", "1.17".to_owned())]);
    }

    #[test]
    fn a_hostile_log_keeps_to_its_bounds() {
        let mut facts = Facts::default();
        for n in 0..10_000 {
            let line = format!(
                "nccl using network n{n} libfabric version 1.{n} selected provider is p{n}"
            );
            facts.take(&line, &line);
        }
        assert!(facts.networks.len() <= super::KEPT && facts.versions.len() <= super::KEPT);
        assert!(facts.providers.len() <= super::KEPT);
    }
}
