//! The page, and the JSON object.

use ofi_net::{Expected, Protocol};
use serde::Serialize;

use super::check::topology;
use super::code::{Code, Severity};
use super::facts::elf::Elf;
use super::facts::{Host, Side};
use super::finding::{Finding, Findings};
use super::probe::Outcome;
use super::providers::{Provider, Providers, Taken};

/// Raised when a field changes its meaning or goes.
const SCHEMA: u32 = 1;
/// Names of a list that are shown.
const NAMES: usize = 4;

/// What processes said that were tried on the live host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Live<'a> {
    pub(super) probed: Option<&'a Outcome>,
    pub(super) providers: Option<&'a Providers>,
}

/// What the page shows beside findings: a name, and a line.
type Fact = (&'static str, String);

/// One page of text.
pub(super) fn page(host: &Host, findings: &Findings, live: &Live<'_>) -> Vec<String> {
    let mut lines = vec![title(host)];
    for (name, text) in facts(host, live) {
        lines.push(format!("  {name:<10} {text}"));
    }
    for finding in &findings.shown {
        lines.push(String::new());
        let row = finding.code.row();
        lines.push(format!(
            "{} {}: {}",
            finding.severity(),
            finding.code,
            row.title
        ));
        lines.extend(finding.evidence.iter().map(|line| format!("    {line}")));
        lines.push(format!("    fix: {}", finding.fix()));
    }
    lines.push(String::new());
    lines.push(verdict(findings));
    lines
}

fn title(host: &Host) -> String {
    let product = match host.devices.product.as_str() {
        "" => "this machine",
        product => product,
    };
    let product: String = product
        .chars()
        .filter(|c| !c.is_control())
        .take(64)
        .collect();
    let mut title = format!("ofi doctor {}: {product}", env!("CARGO_PKG_VERSION"));
    if let Some(kernel) = host.devices.kernel {
        title += &format!(", kernel {kernel}");
    }
    match (host.side, host.packages.nccl) {
        (Side::Neuron, _) => title += ", for Neuron",
        (Side::Nccl, None) => title += ", for NCCL (version unknown: --nccl-version)",
        (Side::Nccl, Some(nccl)) => title += &format!(", for NCCL {nccl}"),
    }
    if let Some(why) = host.process.container {
        title += &format!(", in a container ({why})");
    }
    title
}

fn facts(host: &Host, live: &Live<'_>) -> Vec<Fact> {
    let mut facts = vec![("plugin", plugin(host)), ("libfabric", libfabric(host))];
    facts.extend(live.providers.into_iter().flat_map(providers));
    facts.extend(user(host).map(|text| ("user", text)));
    if host.devices.has_efa() {
        facts.push(("EFA", efa(host)));
        facts.push(("memory", memory(host)));
    }
    if let Some(text) = devices(host) {
        facts.push(("groups", text));
    }
    if let Some(Outcome::Started { name, devices, .. }) = live.probed {
        let names = devices.iter().map(|device| device.name.as_str());
        let names = few(names.collect());
        facts.push((
            "started",
            format!("\"{name}\" with {} devices: {names}", devices.len()),
        ));
    }
    facts
}

fn plugin(host: &Host) -> String {
    let Some(library) = host.libraries.loaded() else {
        return "none".to_owned();
    };
    let tables = library.elf.as_ref().map(tables).unwrap_or_default();
    format!("{} (by {}){tables}", library.path.display(), library.via)
}

fn tables(elf: &Elf) -> String {
    let names = elf.exported.iter();
    let numbers =
        names.filter_map(|name| name.strip_prefix("ncclNetPlugin_v")?.parse::<u32>().ok());
    let mut numbers: Vec<u32> = numbers.collect();
    numbers.sort_unstable();
    match (numbers.first(), numbers.last()) {
        (Some(first), Some(last)) => format!(", tables v{first} to v{last}"),
        _ => String::new(),
    }
}

fn libfabric(host: &Host) -> String {
    let Some(library) = &host.libraries.libfabric.found else {
        return "none".to_owned();
    };
    let version = match (host.packages.libfabric, &host.packages.libfabric_bounds) {
        (Some(version), _) => format!("{version} "),
        (None, Some(bounds)) => format!("version unknown ({}) ", bounds.show()),
        (None, None) => "version unknown ".to_owned(),
    };
    let efa = match host.libraries.has_efa_provider {
        true => ", with the EFA provider",
        false => "",
    };
    format!(
        "{version}{} (by {}){efa}",
        library.path.display(),
        library.via
    )
}

/// What libfabric has, and what of it would be taken.
fn providers(providers: &Providers) -> Vec<Fact> {
    let text = match &providers.list {
        Ok(list) => {
            let each = list.providers.iter().map(|provider| {
                let domains = provider.domains.iter().map(String::as_str);
                let (name, version) = (&provider.name, &provider.version);
                format!("{name} {version} ({})", few(domains.collect()))
            });
            let each = match each.collect::<Vec<_>>() {
                none if none.is_empty() => "none with reliable datagrams".to_owned(),
                each => each.join(", "),
            };
            format!("of libfabric {}: {each}", list.libfabric)
        }
        Err(why) => format!("not to be listed: {why}"),
    };
    let mut facts = vec![("providers", text)];
    facts.extend(providers.taken.iter().map(|taken| {
        let Taken { provider, ok, text } = taken;
        let verb = if *ok { "would give" } else { "refused:" };
        ("", format!("{provider} {verb} {text}"))
    }));
    facts
}

/// For whom it is judged, where that is not plain.
fn user(host: &Host) -> Option<String> {
    let process = &host.process;
    let shown = process.user.show();
    match &process.by {
        Some(by) => {
            let groups = match process.user.groups {
                Some(_) => "",
                None => "; its groups are not known, and any may be one of them",
            };
            let started = if host.is_live {
                "; what is started here is started as who looks"
            } else {
                ""
            };
            Some(format!(
                "{shown} (by {by}): files, devices and limits as this user has them{groups}{started}"
            ))
        }
        None if process.user.id == 0 && !process.is_untold => Some(format!(
            "{shown}: judged as root, who may more than the user of a job (--user NAME judges for that one)"
        )),
        None => None,
    }
}

fn efa(host: &Host) -> String {
    let devices = &host.devices;
    if host.is_emulated {
        return format!("{} emulated", devices.efa_nics().count());
    }
    format!(
        "{} on the bus, {} with a driver, {} device files",
        devices.efas.len(),
        devices.efa_nics().count(),
        devices.nodes.len()
    )
}

fn memory(host: &Host) -> String {
    let locked = match host.process.locked() {
        None => "unlimited".to_owned(),
        Some(bytes) => format!("{} KiB", bytes / 1024),
    };
    let shm = host
        .shm
        .bytes
        .map(|bytes| format!(", /dev/shm {} MiB", bytes >> 20));
    let huge = host
        .devices
        .huge_free
        .map(|pages| format!(", {pages} huge pages free"));
    format!(
        "locked {locked}{}{}",
        shm.unwrap_or_default(),
        huge.unwrap_or_default()
    )
}

fn devices(host: &Host) -> Option<String> {
    let made = topology::expected(host)?.ok()?;
    let Expected { devices, rails, .. } = made;
    match (devices, made.protocol) {
        (0, _) => None,
        (_, Protocol::SendRecv) => Some(format!("{devices} devices of one NIC, over SENDRECV")),
        (_, Protocol::Rdma) => Some(format!("{devices} devices of up to {rails} rails")),
    }
}

fn few(names: Vec<&str>) -> String {
    let more = match names.len().checked_sub(NAMES) {
        Some(more) if more > 0 => format!(" and {more} more"),
        _ => String::new(),
    };
    let shown: Vec<&str> = names.into_iter().take(NAMES).collect();
    shown.join(", ") + &more
}

fn verdict(findings: &Findings) -> String {
    let count = |severity| {
        findings
            .shown
            .iter()
            .filter(|f| f.severity() == severity)
            .count()
    };
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    let Some(first) = findings.shown.first().filter(|_| errors > 0) else {
        return match warnings {
            0 => "verdict: healthy".to_owned(),
            n => format!("verdict: it should work; {n} warnings"),
        };
    };
    let hidden = findings.hidden.len();
    let follow = match hidden {
        0 => String::new(),
        n => format!("; {n} consequences are not shown"),
    };
    format!(
        "verdict: {errors} errors, {warnings} warnings; first {}: {}{follow}",
        first.code,
        first.code.row().title
    )
}

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    tool: &'static str,
    version: &'static str,
    ok: bool,
    #[serde(rename = "for")]
    side: &'static str,
    product: &'a str,
    /// The first line of the page, and the last.
    title: String,
    verdict: String,
    facts: Vec<FactField>,
    findings: &'a [Finding],
    /// Codes that follow from those found.
    consequences: Vec<String>,
    /// Of libfabric, on the live host.
    providers: &'a [Provider],
    takes: &'a [Taken],
    devices: &'a [crate::abi::Device],
}

#[derive(Serialize)]
struct FactField {
    name: &'static str,
    text: String,
}

/// The object as text.
pub(super) fn json(
    host: &Host,
    findings: &Findings,
    live: &Live<'_>,
) -> serde_json::Result<String> {
    let facts = facts(host, live).into_iter();
    let document = Document {
        schema: SCHEMA,
        tool: "ofi doctor",
        version: env!("CARGO_PKG_VERSION"),
        ok: findings.worst() != Some(Severity::Error),
        side: match host.side {
            Side::Nccl => "nccl",
            Side::Neuron => "neuron",
        },
        product: &host.devices.product,
        title: title(host),
        verdict: verdict(findings),
        facts: facts.map(|(name, text)| FactField { name, text }).collect(),
        findings: &findings.shown,
        consequences: findings.hidden.iter().map(Code::to_string).collect(),
        providers: live.providers.map_or(&[], Providers::listed),
        takes: live.providers.map_or(&[], |providers| &providers.taken),
        devices: match live.probed {
            Some(Outcome::Started { devices, .. }) => devices,
            _ => &[],
        },
    };
    serde_json::to_string_pretty(&document)
}
