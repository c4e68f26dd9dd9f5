//! What a process that loaded and started the plugin said.

use ofi_topo::PciAddress;

use super::{libfabric, plugin};
use crate::abi::Device;
use crate::doctor::code::Code;
use crate::doctor::facts::Host;
use crate::doctor::finding::Finding;
use crate::doctor::probe::{Outcome, Stage};
use crate::doctor::providers::Providers;

/// Lines of a log that are shown.
const LINES: usize = 3;
/// Names of devices that are shown.
const NAMES: usize = 4;

pub(super) fn check(host: &Host, outcome: &Outcome, providers: Option<&Providers>) -> Vec<Finding> {
    let copies = match outcome {
        Outcome::Started { libfabrics, .. } | Outcome::Refused { libfabrics, .. } => libfabrics,
        Outcome::Died { .. } | Outcome::Silent { .. } => &Vec::new(),
    };
    let ended = ended(host, outcome);
    let other = other_network(host, outcome);
    let not_on_efa = not_on_efa(host, outcome, providers).filter(|_| other.is_none());
    ended
        .into_iter()
        .chain(other)
        .chain(not_on_efa)
        .chain(libfabric::two_copies(host, copies))
        .collect()
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
            Some(Finding::new(
                code,
                [first].into_iter().chain(log.iter().take(LINES).cloned()),
            ))
        }
        Outcome::Died { how, log } => {
            let first = format!("{path}: {how}");
            let last = log.iter().rev().take(LINES).rev().cloned();
            Some(Finding::new(
                Code::ProbeDied,
                [first].into_iter().chain(last),
            ))
        }
        Outcome::Silent { seconds, log } => {
            let first = format!("{path}: no answer in {seconds} s");
            let last = log.iter().rev().take(LINES).rev().cloned();
            Some(Finding::new(
                Code::ProbeSilent,
                [first].into_iter().chain(last),
            ))
        }
    }
}
