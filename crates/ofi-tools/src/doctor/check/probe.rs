//! What a process that loaded and started the plugin said.

use ofi_net::Code as NetCode;
use ofi_net::error::Severity;
use ofi_topo::PciAddress;

use super::{libfabric, plugin};
use crate::abi::{Device, logger};
use crate::doctor::code::Code;
use crate::doctor::facts::settings::ENVIRONMENT;
use crate::doctor::facts::{Host, Side};
use crate::doctor::finding::Finding;
use crate::doctor::probe::{Outcome, Stage};
use crate::doctor::providers::Providers;

/// Lines of a log that are shown.
const LINES: usize = 3;
/// Names of devices that are shown.
const NAMES: usize = 4;

/// Warnings of this project's plugins about what the facts show too: no news beside that finding.
const TOLD: [(NetCode, Code); 7] = [
    (NetCode::UnknownParameter, Code::UnknownVariable),
    (NetCode::InvalidValue, Code::BadValue),
    (NetCode::UnevenRails, Code::UnevenRails),
    (NetCode::NicsMissing, Code::EfasMissing),
    (NetCode::EfaPassedOver, Code::NotOnEfa),
    (NetCode::EfaPassedOver, Code::EfaFiltered),
    (NetCode::TopologyLost, Code::AcceleratorsMissing),
];

/// `facts`: what was found without it.
pub(super) fn check(
    host: &Host,
    outcome: &Outcome,
    (providers, facts): (Option<&Providers>, &[Finding]),
) -> Vec<Finding> {
    let copies = match outcome {
        Outcome::Started { libfabrics, .. } | Outcome::Refused { libfabrics, .. } => libfabrics,
        Outcome::Died { .. } | Outcome::Silent { .. } => &Vec::new(),
    };
    let ended = ended(host, outcome);
    let unnamed = unnamed(host, outcome);
    let other = other_network(host, outcome);
    let not_on_efa = not_on_efa(host, outcome, providers).filter(|_| other.is_none());
    let mut found: Vec<Finding> = ended
        .into_iter()
        .chain(unnamed)
        .chain(other)
        .chain(not_on_efa)
        .chain(libfabric::two_copies(host, copies))
        .collect();
    let told: Vec<Code> = facts.iter().chain(&found).map(|found| found.code).collect();
    found.extend(warned(outcome, &told));
    found
}

/// It started, and has something to say of how.
fn warned(outcome: &Outcome, told: &[Code]) -> Option<Finding> {
    let Outcome::Started { log, .. } = outcome else {
        return None;
    };
    let is_told = |line: &str| {
        let code = NetCode::find(line);
        let mut same = TOLD.iter().filter(|(net, _)| Some(*net) == code);
        same.any(|(_, here)| told.contains(here))
    };
    let lines = log.iter().filter_map(|line| logger::warning(line));
    let lines = lines.filter(|line| !is_told(line)).take(LINES);
    let lines: Vec<String> = lines.map(str::to_owned).collect();
    (!lines.is_empty()).then(|| Finding::new(Code::StartedWithWarnings, lines))
}

/// The lines of a log that say most of why it ended: from its first error on, where it has one with a code.
fn first_error(log: &[String]) -> Option<&[String]> {
    let is_error = |line: &String| {
        NetCode::find(line).is_some_and(|code| code.info().severity == Severity::Error)
    };
    let first = log.iter().position(is_error)?;
    Some(&log[first..log.len().min(first + LINES)])
}

/// It started, and NCCL does not take it for the network that it is asked for. A process that sees what a file of
/// NCCL says could have another name.
fn unnamed(host: &Host, outcome: &Outcome) -> Option<Finding> {
    let Outcome::Started { name, .. } = outcome else {
        return None;
    };
    let asked = host.settings.get(plugin::NETWORK)?;
    let is_seen = asked.origin == ENVIRONMENT && host.side == Side::Nccl;
    let is_taken = plugin::is_same_network(name, &asked.value);
    let is_asked = plugin::takes_network(host, &asked.value);
    (is_seen && is_asked && !is_taken).then(|| {
        let started = format!("started: {name:?}");
        Finding::new(
            Code::OtherNetwork,
            [host.settings.show(plugin::NETWORK), started],
        )
        .with_fix(format!("unset NCCL_NET, or set it to {name:?}"))
    })
}

/// It started, and not on libfabric, which the file did not show.
fn other_network(host: &Host, outcome: &Outcome) -> Option<Finding> {
    let Outcome::Started {
        name, libfabrics, ..
    } = outcome
    else {
        return None;
    };
    let small = name.to_ascii_lowercase();
    let is_named = small.contains("libfabric") || small == "ofi";
    let is_other = !is_named && libfabrics.is_empty() && !host.libraries.is_foreign;
    (is_other && host.devices.has_efa()).then(|| {
        let started = format!("started: {name:?}");
        let mapped = "the process has no libfabric then".to_owned();
        plugin::other_plugin(host, [started, mapped])
    })
}

/// It started, on devices of which none is an EFA, though there are some.
fn not_on_efa(host: &Host, outcome: &Outcome, providers: Option<&Providers>) -> Option<Finding> {
    let Outcome::Started { name, devices, .. } = outcome else {
        return None;
    };
    let is_other = !devices.is_empty() && devices.iter().all(|device| is_no_efa(host, device));
    if !is_other || !host.devices.has_efa() {
        return None;
    }
    let few = |names: &mut dyn Iterator<Item = &str>| {
        let names: Vec<&str> = names.take(NAMES).collect();
        names.join(", ")
    };
    let started = few(&mut devices.iter().map(|device| device.name.as_str()));
    let here = few(&mut host.devices.efa_nics().map(|nic| nic.name.as_str()));
    let taken = providers.into_iter().flat_map(|providers| &providers.taken);
    let told = taken.filter(|taken| taken.provider == "efa").map(|taken| {
        let text = &taken.text;
        match taken.ok {
            true => format!("with FI_PROVIDER=efa there would be {text}"),
            false => format!("with FI_PROVIDER=efa it is refused: {text}"),
        }
    });
    let lines = [
        format!("started: {name:?} with: {started}"),
        format!("EFAs of this host: {here}"),
    ];
    Some(Finding::new(Code::NotOnEfa, lines.into_iter().chain(told)))
}

/// Whether a device is known to be none: a network interface by its name, or another function of the bus.
fn is_no_efa(host: &Host, device: &Device) -> bool {
    let efas = &host.devices.efas;
    let path = device.pci_path.as_deref().unwrap_or_default();
    let address: Option<PciAddress> = path.rsplit('/').next().and_then(|end| end.parse().ok());
    let is_efa = address.is_some_and(|address| efas.contains(&address));
    let is_elsewhere = address.is_some() && !efas.is_empty();
    !is_efa && (is_elsewhere || host.devices.interfaces.contains(&device.name))
}

fn ended(host: &Host, outcome: &Outcome) -> Option<Finding> {
    let path = host
        .libraries
        .loaded()
        .map(|library| library.path.display().to_string());
    let path = path.unwrap_or_default();
    match outcome {
        Outcome::Started { .. } => None,
        Outcome::Refused {
            stage, why, log, ..
        } => {
            let code = match stage {
                Stage::Load => Code::LoadFailed,
                Stage::Init => Code::InitFailed,
            };
            let first = format!("{path}: {why}");
            let log = first_error(log).unwrap_or_else(|| &log[..log.len().min(LINES)]);
            Some(Finding::new(
                code,
                [first].into_iter().chain(log.iter().cloned()),
            ))
        }
        Outcome::Died { how, log } => {
            let first = format!("{path}: {how}");
            Some(Finding::new(
                Code::ProbeDied,
                [first].into_iter().chain(last_words(log)),
            ))
        }
        Outcome::Silent { seconds, log } => {
            let first = format!("{path}: no answer in {seconds} s");
            Some(Finding::new(
                Code::ProbeSilent,
                [first].into_iter().chain(last_words(log)),
            ))
        }
    }
}

/// The end of a log, and before it the first error, where that is not in it.
fn last_words(log: &[String]) -> impl Iterator<Item = String> + '_ {
    let last = &log[log.len().saturating_sub(LINES)..];
    let first = first_error(log).and_then(<[String]>::first);
    let first = first.filter(|line| !last.contains(line));
    first.into_iter().chain(last).cloned()
}

#[cfg(test)]
mod tests {
    use super::{first_error, last_words};

    fn log(errors: &[usize]) -> Vec<String> {
        let line = |at| match errors.contains(&at) {
            true => format!("[rank 0 WARN a:1] OFI-E0103 {at}"),
            false => format!("[rank 0 WARN a:1] OFI-W0204 {at}"),
        };
        (0..20).map(line).collect()
    }

    #[test]
    fn the_first_error_is_shown_wherever_it_stands() {
        for at in 0..20 {
            let log = log(&[at, 19]);
            let lines = first_error(&log).unwrap();
            assert_eq!(lines[0], log[at]);
            assert_eq!(last_words(&log).filter(|line| *line == log[at]).count(), 1);
            assert_eq!(last_words(&log).last().as_ref(), log.last());
        }
        assert_eq!(first_error(&log(&[])), None);
        assert_eq!(last_words(&log(&[])).count(), super::LINES);
        assert_eq!(last_words(&[]).count(), 0);
    }
}
