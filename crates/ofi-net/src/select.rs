//! Which provider and which NICs: asked of libfabric by capability, filtered by the rules of protocol
//! 2h.1 and decision 15, explained in full when nothing fits.
//!
//! ```text
//! hint sets, exact first --> fi_getinfo --> reject --> equal to the first, once each --> Nics
//!        (ask.rs)                |        (filter.rs)
//!                                |            +- a reason for each entry --> report; each once --> error
//!                                +- FI_ENODATA: the next set
//! ```
//!
//! If what remains has no virtual addresses it is taken with `FI_MR_BASIC`, which gives them on tcp, rxm
//! and net: their entries are the same but for that mode, so that it is set without a query; others are
//! asked for once more. Names of providers decide nothing but: EFA before others while
//! `FI_PROVIDER` is unset, the version gate of EFA, and the tcp filters.
//!
//! A start that works asks twice at most, whichever provider and protocol: exact, and with both protocols in
//! one set. There is a third query where the provider has no memory of devices *and* either lacks tagged
//! messages or RMA altogether, or is EFA with several NICs near an accelerator in an instance of no known
//! type: there only another query tells `efa-direct` from `efa`.

use efa_fabric::{InfoBuf, Library, MrMode, Version};
use ofi_topo::PciAddress;

use crate::config::Config;
use crate::error::{Code, NetError};
use crate::log::{Log, Subsys, info, warn};
use crate::platform;
use crate::quirks;
use crate::startup::Startup;
use ask::{Ask, Wanted};
use candidate::Candidate;
use lists::Libfabric;

mod ask;
mod candidate;
mod filter;
mod host;
mod link;
mod lists;
mod reasons;

/// A NIC to open rails on.
#[derive(Debug)]
pub struct Nic {
    /// libfabric's entry, to open fabric, domain and endpoints with.
    pub info: InfoBuf,
    /// Name to show: the device's, else the domain's.
    pub name: String,
    /// The provider, as libfabric names it.
    pub provider: String,
    /// libfabric's name of the domain.
    pub domain: String,
    /// Where it sits; software providers do not say.
    pub pci: Option<PciAddress>,
    /// Link speed in bits per second; 0 when nobody knows.
    pub speed_bps: u64,
    /// An interface of the IP stack that reaches this host only.
    pub loopback: bool,
    /// Remote addresses are virtual addresses; else offsets into the region.
    pub virtual_addresses: bool,
    /// The provider chooses memory keys; else we do.
    pub provider_keys: bool,
    /// Bytes of a memory key: decides the key width of CTRL (protocol 2c.4).
    pub key_bytes: usize,
    /// Device memory can be registered (`FI_HMEM`).
    pub device_memory: bool,
    /// Made by AWS: latency and the like are known.
    pub is_aws: bool,
    /// Bytes of one operation (`fi_endpoint(3)`, `max_msg_size`).
    pub message_bytes_max: usize,
}

/// Asks `library` for NICs; `open`: SENDRECV may be asked for after. The list is not empty, and all entries are of one provider and alike in
/// what communicators depend on.
///
/// # Errors
/// [`Code::NoProvider`], [`Code::AllRejected`], [`Code::EfaTooOld`], [`Code::Fabric`]; before it
/// returns one of them, what was tried and why each entry was rejected is written to `log` as one
/// block.
///
/// # Costs
/// The first query of a process starts libfabric's providers: a third of a second.
pub(crate) fn discover(
    (config, open): (&Config, bool),
    library: &'static Library,
    startup: &mut Startup,
    log: &dyn Log,
) -> Result<Vec<Nic>, NetError> {
    discover_by((config, false, open), library, startup, log)
}

/// As [`discover`], for SENDRECV.
pub(crate) fn discover_tagged(
    (config, open): (&Config, bool),
    library: &'static Library,
    startup: &mut Startup,
    log: &dyn Log,
) -> Result<Vec<Nic>, NetError> {
    discover_by((config, true, open), library, startup, log)
}

fn discover_by(
    (config, tagged, open): (&Config, bool, bool),
    library: &'static Library,
    startup: &mut Startup,
    log: &dyn Log,
) -> Result<Vec<Nic>, NetError> {
    let version = Version::of(library);
    let no_exact = open && tagged && lists::had_nothing(&Ask::exact(config));
    let asks = Ask::ladder(
        config,
        Wanted {
            tagged,
            open,
            no_exact,
        },
    );
    let rules = Rules {
        config,
        version,
        tagged,
    };
    let mut report = Vec::new();
    let source = &mut Libfabric { library, startup };
    match choose(&rules, asks, source, &mut report) {
        Ok(found) => {
            let nics = found.into_iter().map(|found| nic(config, found));
            let nics = nics.collect::<Result<Vec<_>, _>>()?;
            info(log, Subsys::Init, || summary(version, &nics));
            let provider = nics.first().map_or("", |nic| &nic.provider);
            if let Some(text) = quirks::advice(provider, version) {
                info(log, Subsys::Init, || text);
            }
            if let Some(error) = missing(config, &nics) {
                warn(log, Subsys::Init, || error);
            }
            Ok(nics)
        }
        Err(error) => {
            lists::forget();
            info(log, Subsys::Init, || heading(&rules));
            for line in report {
                info(log, Subsys::Init, || line);
            }
            Err(error)
        }
    }
}

/// An entry: what the rules look at, and what libfabric gave.
struct Found<E> {
    candidate: Candidate,
    entry: E,
}

/// Why a query gave nothing.
struct QueryFailed {
    no_data: bool,
    errno: i32,
    text: String,
}

/// Who answers queries: libfabric, or a table in tests.
trait Source {
    type Entry;

    fn query(&mut self, ask: &Ask) -> Result<Vec<Found<Self::Entry>>, QueryFailed>;

    /// The entry with these modes of registration.
    fn with_modes(&self, found: Found<Self::Entry>, modes: MrMode) -> Found<Self::Entry>;
}

/// What entries are held against.
#[derive(Clone, Copy)]
struct Rules<'a> {
    config: &'a Config,
    version: Version,
    /// For SENDRECV.
    tagged: bool,
}

/// The whole decision. `report` gets a line an attempt and a line a rejected entry.
fn choose<S: Source>(
    rules: &Rules<'_>,
    asks: Vec<Ask>,
    source: &mut S,
    report: &mut Vec<String>,
) -> Result<Vec<Found<S::Entry>>, NetError> {
    for ask in asks {
        match source.query(&ask) {
            Ok(list) => {
                report.push(format!("tried {ask}: {} entries", list.len()));
                let kept = filter::keep(rules, list, report)?;
                return Ok(with_virtual_addresses(rules, (source, &ask), kept));
            }
            Err(failed) if failed.no_data => report.push(format!("tried {ask}: none")),
            Err(failed) => {
                report.push(format!("tried {ask}: {}", failed.text));
                return Err(NetError::new(Code::Fabric, failed.text).with_errno(failed.errno));
            }
        }
    }
    let config = rules.config;
    let mut what = asked_of(config, rules.version);
    let is_about_efa = |provider: &str| provider.contains("efa");
    if config.fi_provider.as_deref().is_none_or(is_about_efa) {
        what.push_str(&format!("; {}", host::efas(&config.fs_root)));
    }
    Err(NetError::new(Code::NoProvider, what))
}

/// Takes the entries with `FI_MR_BASIC` when they lack virtual addresses (decision 15): as they are where
/// they are interfaces of the IP stack, of which it is known what a query would answer; else by asking, and
/// what is there is kept when that gives nothing better (offset addressing works too).
fn with_virtual_addresses<S: Source>(
    rules: &Rules<'_>,
    (source, ask): (&mut S, &Ask),
    kept: Vec<Found<S::Entry>>,
) -> Vec<Found<S::Entry>> {
    let lacking = kept
        .first()
        .filter(|first| !first.candidate.virtual_addresses && !rules.config.provider_addressing);
    let Some(provider) = lacking.map(|first| first.candidate.provider.clone()) else {
        return kept;
    };
    if let Some(known) = known_modes(rules, &kept) {
        let known = kept
            .into_iter()
            .map(|found| source.with_modes(found, known));
        return known.collect();
    }
    let Ok(mut again) = source.query(&ask.basic()) else {
        return kept;
    };
    again.retain(|found| found.candidate.provider == provider);
    match filter::keep(rules, again, &mut Vec::new()) {
        Ok(better) if better.iter().all(|found| found.candidate.virtual_addresses) => better,
        _ => kept,
    }
}

/// The modes that give entries virtual addresses, where that is known without a query.
fn known_modes<E>(rules: &Rules<'_>, kept: &[Found<E>]) -> Option<MrMode> {
    let first = &kept.first()?.candidate;
    if kept.iter().all(|found| found.candidate.is_ip_interface()) {
        return Some(MrMode::BASIC);
    }
    // Those of EFA are virtual always. It does not say so to who has no use for remote access, and a flush
    // reads from ourselves.
    let of_target = MrMode::VIRT_ADDR | MrMode::ALLOCATED | MrMode::PROV_KEY;
    (rules.tagged && filter::is_efa(first)).then(|| first.mr_mode | of_target)
}

fn nic(config: &Config, found: Found<InfoBuf>) -> Result<Nic, NetError> {
    let Found { candidate, entry } = found;
    let device = entry.nic();
    let pci = candidate.pci.map(topo_address).transpose()?;
    let link_bps = device.map_or(0, |nic| nic.link_speed_bps() as u64);
    let speed_bps = match link_bps {
        0 => link::interface_speed_bps(&config.fs_root, &candidate.domain),
        bps => bps,
    };
    Ok(Nic {
        name: candidate.name.clone(),
        is_aws: device.and_then(|nic| nic.vendor_id()).is_some_and(is_aws),
        message_bytes_max: entry.max_msg_size(),
        info: entry,
        loopback: link::is_loopback(&config.fs_root, &candidate.domain),
        pci,
        speed_bps,
        virtual_addresses: candidate.virtual_addresses,
        provider_keys: candidate.provider_keys,
        key_bytes: candidate.key_bytes,
        device_memory: candidate.device_memory,
        provider: candidate.provider,
        domain: candidate.domain,
    })
}

fn topo_address(pci: efa_fabric::PciAddress) -> Result<PciAddress, NetError> {
    PciAddress::new(pci.domain.into(), pci.bus, pci.device, pci.function)
        .map_err(|error| NetError::new(Code::DeviceOpen, error.to_string()))
}

/// Fewer EFAs than this instance type has, which costs bandwidth or makes one of them serve many
/// accelerators, and is otherwise noticed late.
fn missing(config: &Config, nics: &[Nic]) -> Option<NetError> {
    let product = config.product_name.as_deref()?;
    let whole = platform::nics(product)?;
    let found = nics.iter().filter(|nic| nic.is_aws).count();
    (1..whole).contains(&found).then(|| {
        let what = format!("{found} of the {whole} EFAs of {product}");
        NetError::new(Code::NicsMissing, what)
    })
}

/// PCI vendor 1d0f, written with or without 0x.
fn is_aws(vendor: &str) -> bool {
    let digits = vendor.trim().trim_start_matches("0x");
    digits.eq_ignore_ascii_case("1d0f")
}

fn heading(rules: &Rules<'_>) -> String {
    let protocol = if rules.tagged { "SENDRECV" } else { "RDMA" };
    let asked = asked_of(rules.config, rules.version);
    format!("looking for NICs for {protocol}: {asked}")
}

fn asked_of(config: &Config, version: Version) -> String {
    match &config.fi_provider {
        Some(provider) => format!("libfabric {version}, FI_PROVIDER={provider}"),
        None => format!("libfabric {version}, FI_PROVIDER unset"),
    }
}

fn summary(version: Version, nics: &[Nic]) -> String {
    let names: Vec<&str> = nics.iter().map(|nic| nic.name.as_str()).collect();
    let first = nics.first();
    let addressing = match first.map(|nic| nic.virtual_addresses) {
        Some(true) => "virtual addresses",
        _ => "offsets",
    };
    let keys = match first.map(|nic| nic.provider_keys) {
        Some(true) => "provider keys",
        _ => "own keys",
    };
    let provider = first.map_or("none", |nic| nic.provider.as_str());
    // EFA has two that do not interoperate; elsewhere the name is a network's.
    let fabric = first.map_or("", |nic| nic.info.fabric_name());
    let fabric = match fabric.strip_prefix(provider) {
        None | Some("") => String::new(),
        Some(_) => format!(" (fabric {fabric})"),
    };
    format!(
        "libfabric {version}, provider {provider}{fabric}: {} ({addressing}, {keys})",
        names.join(", ")
    )
}

#[cfg(test)]
mod tests;
