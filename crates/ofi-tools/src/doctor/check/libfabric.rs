//! Which libfabric would the plugin get, and does it have what this host needs?

use super::needs;
use super::plugin::{fault_words, passed_words};
use crate::doctor::code::Code;
use crate::doctor::facts::Host;
use crate::doctor::facts::devices::RdmaNic;
use crate::doctor::facts::fabric::Bounds;
use crate::doctor::facts::libraries::LIBFABRIC_PATH;
use crate::doctor::facts::version::Version;
use crate::doctor::finding::Finding;

/// The oldest whose EFA provider is good enough (decision 6).
const EFA_NEEDS: Version = Version::new(1, 22, 0);
/// Which EFAs its provider takes.
const IFACE: &str = "FI_EFA_IFACE";

pub(super) fn check(host: &Host) -> Vec<Finding> {
    let mut found = missing_or_damaged(host);
    found.extend(needs::of_libfabric(host));
    found.extend(two_copies(host, &host.process.libfabrics));
    found.extend(shut_out(host));
    if host.devices.has_efa() {
        found.extend(for_efa(host));
    }
    found
}

fn missing_or_damaged(host: &Host) -> Vec<Finding> {
    let search = &host.libraries.libfabric;
    let Some(library) = &search.found else {
        let named = LIBFABRIC_PATH
            .into_iter()
            .find(|name| host.settings.filled(name).is_some() && !host.libraries.is_linked);
        let looked = format!(
            "{} is in none of: {}",
            search.name,
            search.places.join(", ")
        );
        let passed = search.passed.iter();
        let lines = passed.map(|(path, why)| format!("{}: {}", path.display(), passed_words(why)));
        let (code, first) = match named {
            _ if search.is_unseen() => (Code::Unseen, looked),
            Some(name) => (Code::LibfabricPath, host.settings.show(name)),
            None => (Code::NoLibfabric, looked),
        };
        let finding = Finding::new(code, core::iter::once(first).chain(lines));
        let is_denied = search.passed.iter().any(|(_, why)| why.is_denied());
        return vec![match is_denied {
            true => finding.with_fix(needs::READABLE),
            false => finding,
        }];
    };
    let Err(fault) = &library.elf else {
        return Vec::new();
    };
    let line = format!("{}: {}", library.path.display(), fault_words(fault));
    let owner = needs::owner(host, &library.path);
    let lines = [line].into_iter().chain(owner);
    vec![Finding::new(Code::LibfabricDamaged, lines)]
}

/// Files of libfabric in one process, of which there should be one.
pub(super) fn two_copies(host: &Host, copies: &[String]) -> Option<Finding> {
    let lines = copies.iter().map(|path| format!("mapped: {path}"));
    (copies.len() > 1).then(|| {
        let finding = Finding::new(Code::TwoLibfabrics, lines);
        match host.libraries.is_linked {
            true => finding.with_fix(
                "make both users load one copy: remove the bundled one, or put the directory of the other first in LD_LIBRARY_PATH",
            ),
            false => finding,
        }
    })
}

/// With the remedy for a libfabric that will not do. A plugin that is linked with it reads no variable of ours.
fn other_libfabric(host: &Host, finding: Finding) -> Finding {
    match host.libraries.is_linked {
        true => finding.with_fix(
            "use the EFA installer's libfabric: LD_LIBRARY_PATH=/opt/amazon/efa/lib:$LD_LIBRARY_PATH (the plugin is linked with libfabric, so that no other variable chooses it)",
        ),
        false => finding,
    }
}

fn for_efa(host: &Host) -> Vec<Finding> {
    let mut found = Vec::new();
    let library = host.libraries.libfabric.found.as_ref();
    if let Some(library) = library.filter(|library| library.elf.is_ok()) {
        let at = format!("{} (by {})", library.path.display(), library.via);
        if !host.libraries.has_efa_provider {
            let what = "neither linked with libefa.so.1 nor with libefa-fi.so beside it";
            let finding = Finding::new(Code::NoEfaProvider, [at.clone(), what.to_owned()]);
            found.push(other_libfabric(host, finding));
        }
        found.extend(age(host, at));
    }
    found.extend(filtered(host));
    found.extend(named_nics(host));
    found
}

/// Is it new enough? What its file cannot be counts against what a package says of it, and where nobody
/// says, it is not taken for granted.
fn age(host: &Host, at: String) -> Option<Finding> {
    if host.settings.is_on("OFI_NCCL_DISABLE_EFA_VERSION_CHECK") {
        return None;
    }
    let packages = &host.packages;
    let bounds = packages.libfabric_bounds.as_ref();
    let shown = bounds.map(Bounds::show);
    let is_older =
        bounds.is_some_and(|bounds| bounds.until.is_some_and(|until| until <= EFA_NEEDS));
    let is_newer = bounds.is_some_and(|bounds| bounds.from.is_some_and(|from| from >= EFA_NEEDS));
    let (code, line) = match packages.libfabric {
        Some(version) if version < EFA_NEEDS => {
            (Code::LibfabricTooOld, format!("version {version}: {at}"))
        }
        _ if is_older => (Code::LibfabricTooOld, at),
        None if !is_newer => (Code::LibfabricAgeUnknown, at),
        _ => return None,
    };
    let symbols = match shown {
        Some(shown) => format!("its symbols: {shown}"),
        None => "its symbols have no versions".to_owned(),
    };
    Some(other_libfabric(host, Finding::new(code, [line, symbols])))
}

/// libfabric's filter keeps EFA out.
fn filtered(host: &Host) -> Option<Finding> {
    let filter = host.settings.value("FI_PROVIDER")?;
    (!ofi_net::filter_admits(filter, "efa"))
        .then(|| Finding::new(Code::EfaFiltered, [host.settings.show("FI_PROVIDER")]))
}

/// libfabric takes an empty filter as one that nothing passes, whoever has which NICs.
fn shut_out(host: &Host) -> Option<Finding> {
    let filter = host.settings.value("FI_PROVIDER")?;
    filter.trim().is_empty().then(|| {
        let line = format!("{}: set, and empty", host.settings.show("FI_PROVIDER"));
        Finding::new(Code::FilterEmpty, [line])
    })
}

fn named_nics(host: &Host) -> Option<Finding> {
    let listed = host.settings.filled(IFACE)?;
    if host.devices.nics.is_empty() {
        return None;
    }
    let (left, out): (Vec<&str>, Vec<&str>) = (host.devices.efa_nics())
        .map(|nic| nic.name.as_str())
        .partition(|name| iface_admits(listed, name));
    let shown = host.settings.show(IFACE);
    if left.is_empty() {
        let there = format!("EFAs of this host: {}", few(&out));
        return Some(Finding::new(Code::IfaceFiltered, [shown, there]));
    }
    let all = left.len() + out.len();
    let line = format!("{} of {all} are left out: {}", out.len(), few(&out));
    (!out.is_empty()).then(|| Finding::new(Code::IfaceLeavesOut, [shown, line]))
}

/// Names, as many as a line takes.
fn few(names: &[&str]) -> String {
    const NAMES: usize = 8;
    let shown = names.iter().take(NAMES).copied().collect::<Vec<_>>();
    match names.len().saturating_sub(NAMES) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Whether EFA's provider takes a NIC, whatever this host has: names with commas, or `all` alone; blanks are a part of
/// a name.
fn iface_admits(listed: &str, name: &str) -> bool {
    listed == "all" || listed.split(',').any(|listed| listed == name)
}

/// The EFAs that `FI_EFA_IFACE` leaves.
pub(crate) fn efas_left(host: &Host) -> impl Iterator<Item = &RdmaNic> {
    let listed = host.settings.filled(IFACE);
    let is_left = move |nic: &&RdmaNic| listed.is_none_or(|listed| iface_admits(listed, &nic.name));
    host.devices.efa_nics().filter(is_left)
}
