//! Versions that are known not to go together: rows of `data/versions.csv`.

use crate::doctor::code::Code;
use crate::doctor::facts::Host;
use crate::doctor::facts::version::{Range, Version};
use crate::doctor::finding::Finding;
use crate::doctor::rows::rows;

const TABLE: &str = include_str!("../data/versions.csv");

/// Something that has a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Component {
    Installer,
    Libfabric,
    Plugin,
    Nccl,
    Kernel,
    /// Nothing: always.
    Any,
}

impl Component {
    /// Reads `libfabric >=1.18`, or `any`.
    pub(super) fn read(text: &str) -> Option<(Self, Range)> {
        let (name, range) = text.split_once(' ').unwrap_or((text, ""));
        let component = match name {
            "installer" => Self::Installer,
            "libfabric" => Self::Libfabric,
            "plugin" => Self::Plugin,
            "nccl" => Self::Nccl,
            "kernel" => Self::Kernel,
            "any" => Self::Any,
            _ => return None,
        };
        Some((component, Range::parse(range)?))
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Installer => "EFA installer",
            Self::Libfabric => "libfabric",
            Self::Plugin => "aws-ofi-nccl",
            Self::Nccl => "NCCL",
            Self::Kernel => "kernel",
            Self::Any => "anything",
        }
    }

    fn version(self, host: &Host) -> Option<Version> {
        match self {
            Self::Installer => host.packages.installer,
            Self::Libfabric => host.packages.libfabric,
            Self::Plugin => host.packages.plugin,
            Self::Nccl => host.packages.nccl,
            Self::Kernel => host.devices.kernel,
            Self::Any => None,
        }
    }

    /// Whether the host has it in a version of this range; unknown ones are not judged, unless any will do.
    pub(super) fn is_within(self, host: &Host, range: Range) -> bool {
        let is_here = self
            .version(host)
            .is_some_and(|version| range.takes(version));
        is_here || self == Self::Any
    }

    /// A line of evidence, where a version decided.
    pub(super) fn show(self, host: &Host, range: Range) -> Option<String> {
        let version = self.version(host).filter(|_| !range.is_any())?;
        Some(format!("{} {version}", self.name()))
    }
}

/// A row.
#[derive(Debug)]
struct Pair {
    each: [(Component, Range); 2],
    /// A variable with the value that helps.
    unless: Option<(&'static str, &'static str)>,
    code: Code,
    what: &'static str,
    fix: &'static str,
    source: &'static str,
}

impl Pair {
    fn read([one, other, unless, code, what, fix, source]: [&'static str; 7]) -> Option<Self> {
        Some(Self {
            each: [Component::read(one)?, Component::read(other)?],
            unless: match unless {
                "" => None,
                setting => Some(setting.split_once('=')?),
            },
            code: match code {
                "bad" => Code::BadPair,
                "poor" => Code::PoorPair,
                _ => return None,
            },
            what,
            fix,
            source,
        })
    }

    fn fits(&self, host: &Host) -> bool {
        let helps = |(name, value): (&str, &str)| host.settings.value(name) == Some(value);
        let both = self
            .each
            .iter()
            .all(|(component, range)| component.is_within(host, *range));
        both && !self.unless.is_some_and(helps)
    }
}

fn pairs() -> impl Iterator<Item = Pair> {
    rows(TABLE).filter_map(Pair::read)
}

pub(super) fn check(host: &Host) -> Vec<Finding> {
    let fitting = pairs().filter(|pair| pair.fits(host));
    let told = fitting.map(|pair| {
        let versions = pair
            .each
            .iter()
            .filter_map(|(component, range)| component.show(host, *range));
        let lines = core::iter::once(pair.what.to_owned()).chain(versions);
        Finding::new(pair.code, lines)
            .with_fix(pair.fix)
            .with_source(pair.source)
    });
    told.collect()
}

#[cfg(test)]
mod tests {
    use super::{TABLE, pairs};
    use crate::doctor::rows::lines;

    #[test]
    fn every_line_is_a_pair() {
        assert_eq!(lines(TABLE).count(), pairs().count());
        assert!(pairs().all(|pair| !pair.source.is_empty() && !pair.fix.is_empty()));
    }
}
