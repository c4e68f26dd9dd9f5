//! Variables that are known to do harm, or not to be needed any more: rows of `data/lint.csv`.

use ofi_net::Protocol;

use super::topology;
use super::versions::Component;
use crate::doctor::code::Code;
use crate::doctor::facts::Host;
use crate::doctor::facts::version::Range;
use crate::doctor::finding::Finding;
use crate::doctor::rows::rows;
use crate::emu;

const TABLE: &str = include_str!("../data/lint.csv");

/// A row.
#[derive(Debug)]
struct Rule {
    name: &'static str,
    value: Value,
    place: Place,
    component: Component,
    range: Range,
    code: Code,
    what: &'static str,
    fix: &'static str,
    source: &'static str,
}

#[derive(Debug)]
enum Place {
    Any,
    /// Only where there are EFAs.
    Efa,
    /// Only where they speak this protocol, and nobody switched off what it asks of them.
    Speaking(Protocol),
}

impl Place {
    fn is_here(&self, host: &Host) -> bool {
        let on_efa = host.devices.has_efa();
        match self {
            Self::Any => true,
            Self::Efa => on_efa,
            Self::Speaking(protocol) => on_efa && spoken(host) == *protocol,
        }
    }
}

/// By the functions of our plugin. One that does not ask for native writes takes what SENDRECV takes.
fn spoken(host: &Host) -> Protocol {
    let is_unchecked = host.settings.is_on("OFI_NCCL_DISABLE_NATIVE_RDMA_CHECK");
    match topology::expected(host) {
        Some(Ok(expected)) if !is_unchecked => expected.protocol,
        _ => Protocol::SendRecv,
    }
}

#[derive(Debug)]
enum Value {
    /// Anything.
    Set,
    On,
    Off,
    /// One of these.
    OneOf(&'static str),
    /// A list of NCCL's protocols that asks for one that is not Simple.
    Unordered,
}

/// Whether a value of `NCCL_PROTO` asks for LL or LL128: names with commas, after a `^` all but these; newer
/// versions take such lists for each collective, `allreduce:LL128;^LL`. What is not named after a `^` is switched
/// on, and of that LL128 is what NCCL itself would not have taken.
fn asks_for_unordered(value: &str) -> bool {
    value.split(';').any(|list| {
        let list = list.rsplit(':').next().unwrap_or(list).trim();
        let has = |list: &str, name: &str| {
            let mut names = list.split(',').map(str::trim);
            names.any(|listed| listed.eq_ignore_ascii_case(name))
        };
        match list.strip_prefix('^') {
            Some(out) => !has(out, "LL128") || has(out, "Simple"),
            None => has(list, "LL") || has(list, "LL128"),
        }
    })
}

impl Rule {
    fn read(
        [name, value, place, applies, code, what, fix, source]: [&'static str; 8],
    ) -> Option<Self> {
        let (component, range) = Component::read(applies)?;
        Some(Self {
            name,
            value: match value {
                "set" => Value::Set,
                "on" => Value::On,
                "off" => Value::Off,
                "unordered" => Value::Unordered,
                list => Value::OneOf(list.strip_prefix('=')?),
            },
            place: match place {
                "efa" => Place::Efa,
                "efa-rdma" => Place::Speaking(Protocol::Rdma),
                "efa-sendrecv" => Place::Speaking(Protocol::SendRecv),
                "any" => Place::Any,
                _ => return None,
            },
            component,
            range,
            code: match code {
                "fatal" => Code::Fatal,
                "harmful" => Code::Harmful,
                "obsolete" => Code::Obsolete,
                _ => return None,
            },
            what,
            fix,
            source,
        })
    }

    fn fits(&self, host: &Host) -> bool {
        let Some(value) = host.settings.filled(self.name) else {
            return false;
        };
        let is_on = host.settings.is_on(self.name);
        let has_value = match self.value {
            Value::Set => true,
            Value::On => is_on,
            Value::Off => !is_on,
            Value::Unordered => asks_for_unordered(value),
            Value::OneOf(list) => list
                .split(',')
                .any(|one| one.eq_ignore_ascii_case(value.trim())),
        };
        // What `ofi emu` sets so that there is an EFA at all is not its user's.
        let is_of_emulation = host.is_emulated && emu::sets(self.name, value);
        has_value
            && !is_of_emulation
            && self.place.is_here(host)
            && self.component.is_within(host, self.range)
    }
}

fn rules() -> impl Iterator<Item = Rule> {
    rows(TABLE).filter_map(Rule::read)
}

pub(super) fn check(host: &Host) -> Vec<Finding> {
    let fitting = rules().filter(|rule| rule.fits(host));
    let told = fitting.map(|rule| {
        let mut lines = vec![host.settings.show(rule.name), rule.what.to_owned()];
        lines.extend(rule.component.show(host, rule.range));
        Finding::new(rule.code, lines)
            .with_fix(rule.fix)
            .with_source(rule.source)
    });
    told.collect()
}

#[cfg(test)]
mod tests {
    use super::{TABLE, asks_for_unordered, rules};
    use crate::doctor::rows::lines;

    #[test]
    fn every_line_is_a_rule() {
        assert_eq!(lines(TABLE).count(), rules().count());
        assert!(rules().all(|rule| !rule.source.is_empty() && !rule.what.is_empty()));
    }

    #[test]
    fn lists_of_protocols_are_read_as_nccl_reads_them() {
        for (value, asks) in [
            ("LL", true),
            ("ll128", true),
            ("LL,Simple", true),
            ("Simple,LL128", true),
            ("^Simple", true),
            ("^LL", true),
            ("allreduce:LL128;Simple", true),
            ("Simple;allreduce:^Simple", true),
            ("Simple", false),
            ("simple", false),
            ("^LL128", false),
            ("^LL,LL128", false),
            ("^LL128,Simple", true),
            ("allreduce:Simple", false),
        ] {
            assert_eq!(asks_for_unordered(value), asks, "{value}");
        }
    }
}
