//! Variables: ours against the table that the plugin itself reads them by, and the interfaces of NCCL.

use ofi_net::params::{self, Flavour};
use ofi_net::{Code as NetCode, Config, NetError};

use crate::doctor::code::Code;
use crate::doctor::facts::{Host, Side};
use crate::doctor::finding::Finding;

pub(super) fn check(host: &Host) -> Vec<Finding> {
    let mut found = parameters(host);
    if host.side == Side::Nccl {
        found.extend(interfaces(host));
    }
    found
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
        _ => return None,
    };
    let lines = [
        host.settings.show(NAME),
        format!("interfaces here: {}", there.join(", ")),
    ];
    Some(Finding::new(code, lines))
}
