//! Variables: ours against the table that the plugin itself reads them by, and the interfaces of NCCL.

use ofi_net::params::{self, Flavour};
use ofi_net::{Code as NetCode, Config, NetError};

use super::plugin::{NETWORK, passed_words};
use crate::doctor::code::Code;
use crate::doctor::facts::{Host, Side};
use crate::doctor::finding::Finding;

pub(super) fn check(host: &Host) -> Vec<Finding> {
    let mut found = parameters(host);
    found.extend(stall_order(host));
    found.extend(providers(host));
    if host.side == Side::Nccl {
        found.extend(interfaces(host));
        found.extend(tuner(host));
        found.extend(network_empty(host));
    }
    found
}

/// Both limits are in force, and the one that ends a job comes first.
fn stall_order(host: &Host) -> Option<Finding> {
    let names = ["OFI_NCCL_STALL_FAIL", "OFI_NCCL_STALL_WARN"];
    let config = config(host).0.ok()?;
    let (fail, warn) = (config.stall_fail_ms?, config.stall_warn_ms?);
    let shown = names.iter().map(|name| host.settings.show(name));
    let seconds = format!(
        "an error after {} s, a line after {} s",
        fail / 1000,
        warn / 1000
    );
    (fail < warn).then(|| Finding::new(Code::StallOrder, shown.chain([seconds])))
}

fn providers(host: &Host) -> Option<Finding> {
    let bad = &host.libraries.without_providers;
    let lines = bad
        .iter()
        .map(|(path, why)| format!("{}: {why}", path.display()));
    let shown = host.settings.show("FI_PROVIDER_PATH");
    (!bad.is_empty())
        .then(|| Finding::new(Code::ProviderPath, core::iter::once(shown).chain(lines)))
}

fn tuner(host: &Host) -> Option<Finding> {
    let searches = &host.libraries.tuner;
    let lines = searches.iter().flat_map(|search| {
        let place = match search.places.as_slice() {
            [] => format!("{} is not there", search.name),
            places => format!("{} is in none of: {}", search.name, places.join(", ")),
        };
        let passed = search.passed.iter();
        let passed = passed.map(|(path, why)| format!("{}: {}", path.display(), passed_words(why)));
        core::iter::once(place).chain(passed)
    });
    let shown = host.settings.show("NCCL_TUNER_PLUGIN");
    (!searches.is_empty())
        .then(|| Finding::new(Code::TunerMissing, core::iter::once(shown).chain(lines)))
}

/// NCCL compares what is set, of whatever length, with the names of networks.
fn network_empty(host: &Host) -> Option<Finding> {
    let value = host.settings.value(NETWORK)?;
    let line = format!("{}: set, and empty", host.settings.show(NETWORK));
    value
        .trim()
        .is_empty()
        .then(|| Finding::new(Code::NetworkEmpty, [line]))
}

/// The settings as the plugin of this side reads them, with what there is to say of them.
pub(super) fn config(host: &Host) -> (Result<Config, NetError>, Vec<params::Note>) {
    let flavour = match host.side {
        Side::Nccl => Flavour::Nccl,
        Side::Neuron => Flavour::Neuron,
    };
    let (values, mut notes) = params::parse(flavour, host.settings.pairs());
    let config = Config::from_values(&values, &mut notes);
    (config, notes)
}

fn parameters(host: &Host) -> Vec<Finding> {
    let (config, notes) = config(host);
    let told = |code: NetCode| {
        let lines = notes.iter().filter_map(|note| match note {
            params::Note::Warning(error) if error.code() == code => Some(error.what().to_owned()),
            _ => None,
        });
        lines.collect::<Vec<_>>()
    };
    let mut found = Vec::new();
    let lists = [
        (Code::UnknownVariable, told(NetCode::UnknownParameter)),
        (Code::BadValue, told(NetCode::InvalidValue)),
    ];
    for (code, lines) in lists {
        if !lines.is_empty() {
            found.push(Finding::new(code, lines));
        }
    }
    if let Err(error) = config {
        let code = match error.code() {
            NetCode::DeprecatedParameter => Code::Withdrawn,
            _ => Code::Contradiction,
        };
        found.push(Finding::new(code, [error.what().to_owned()]));
    }
    found
}

/// `NCCL_SOCKET_IFNAME`: beginnings of names with commas; `=` before: whole names; `^` before: all but these.
fn interfaces(host: &Host) -> Option<Finding> {
    const NAME: &str = "NCCL_SOCKET_IFNAME";
    let text = host.settings.filled(NAME)?.trim();
    let there = &host.devices.interfaces;
    if there.is_empty() {
        return None;
    }
    let (is_out, text) = text
        .strip_prefix('^')
        .map_or((false, text), |rest| (true, rest));
    let (is_whole, text) = text
        .strip_prefix('=')
        .map_or((false, text), |rest| (true, rest));
    let list: Vec<&str> = text
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .collect();
    let named = |name: &str| {
        let fits = |item: &&str| {
            if is_whole {
                name == *item
            } else {
                name.starts_with(*item)
            }
        };
        list.iter().any(fits) != is_out
    };
    let left: Vec<&str> = there
        .iter()
        .map(String::as_str)
        .filter(|name| named(name))
        .collect();
    let code = match left.as_slice() {
        [] => Code::NoInterface,
        ["lo"] => Code::LoopbackOnly,
        left if left.contains(&"lo") => Code::LoopbackFirst,
        _ => return None,
    };
    let lines = [
        host.settings.show(NAME),
        format!("interfaces here: {}", there.join(", ")),
    ];
    Some(Finding::new(code, lines))
}
