//! Which provider and which NICs: asked of libfabric by capability, filtered by the rules of protocol
//! 2h.1 and decision 15, explained in full when nothing fits.
//!
//! ```text
//! the exact hints --> fi_getinfo -----------> reject --> equal to the first, once each --> Nics
//!    (ask.rs)             |                 (filter.rs)
//!                    FI_ENODATA                 |
//!                         v                     +- a reason for each entry --> report; each once --> error
//! any capabilities --> fi_getinfo --> what is needed of each
//!                                        (need.rs)
//! ```
//!
//! A start asks twice at most, whichever provider and protocol. The second list shows all that each
//! provider has, so that it serves both protocols, and providers that lack one thing or another; what is not
//! needed is taken off its entries, which then are those that libfabric would have listed for it.
//!
//! If what remains has no virtual addresses it is taken with `FI_MR_BASIC`, which gives them on tcp, rxm
//! and net: their entries are the same but for that mode, so that it is set without a query. Others are
//! asked for once more while that is not the third query, and else used by offsets. Names of providers decide
//! nothing but: EFA before others while `FI_PROVIDER` is unset, the version gate of EFA, and the tcp filters.

use efa_fabric::{Caps, InfoBuf, Library, MrMode, Version};
use ofi_topo::PciAddress;

use crate::config::Config;
use crate::dmabuf;
use crate::error::{Code, NetError};
use crate::log::{Log, Subsys, info, warn};
use crate::params::shorten;
use crate::platform;
use crate::quirks;
use crate::startup::Startup;
use ask::Ask;
use candidate::Candidate;
use lists::Libfabric;
use need::Need;
pub use provider_filter::admits;
pub use shm::bound as shm_bytes;

mod ask;
mod candidate;
mod filter;
mod host;
mod link;
mod lists;
mod need;
mod provider_filter;
mod reasons;
mod shm;

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

/// Asks `library` for NICs; `open`: SENDRECV may be asked for after, which leaves one query to it. The list is
/// not empty, and all entries are of one provider and alike in what communicators depend on.
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

/// As [`discover`], for SENDRECV; `open`: RDMA was looked for before.
pub(crate) fn discover_tagged(
    (config, open): (&Config, bool),
    library: &'static Library,
    startup: &mut Startup,
    log: &dyn Log,
) -> Result<Vec<Nic>, NetError> {
    discover_by((config, true, open), library, startup, log)
}

/// Forgets what libfabric answered: nothing came of it, and who starts again wants to know anew.
pub(crate) fn forget() {
    lists::forget();
}

fn discover_by(
    (config, tagged, open): (&Config, bool, bool),
    library: &'static Library,
    startup: &mut Startup,
    log: &dyn Log,
) -> Result<Vec<Nic>, NetError> {
    let version = Version::of(library);
    // The user's word goes before what the host is for.
    let is_free = config.fi_provider.is_none();
    let for_efa = is_free.then(|| host::for_efa(config)).flatten();
    let rules = &Rules {
        config,
        version,
        tagged,
        open,
        for_efa: for_efa.as_deref(),
    };
    let mut report = Vec::new();
    let source = &mut Libfabric { library, startup };
    match choose(rules, source, &mut report) {
        Ok(found) => {
            let first = found.first();
            let of_ip = first.is_some_and(|found| found.candidate.is_ip_interface());
            let nics = found.into_iter().map(|found| nic(config, found));
            let nics = nics.collect::<Result<Vec<_>, _>>()?;
            info(log, Subsys::Init, || summary(version, &nics));
            let provider = nics.first().map_or("", |nic| &nic.provider);
            if let Some(text) = quirks::advice(provider, version) {
                info(log, Subsys::Init, || text);
            }
            if let Some(text) = of_ip.then(|| not_excluded(config, &report)).flatten() {
                info(log, Subsys::Init, || text);
            }
            // With RDMA it may be one with what devices come of it: the topology tells.
            if let Some(what) = missing(config, &nics).filter(|_| tagged) {
                warn(log, Subsys::Init, || NetError::new(Code::NicsMissing, what));
            }
            if provider != filter::EFA {
                passed_over(config, provider, log);
            } else if let Some(text) = quirks::forks(dmabuf::kernel(&config.fs_root)) {
                info(log, Subsys::Init, || text);
            }
            Ok(nics)
        }
        Err(error) => {
            info(log, Subsys::Init, || heading(rules));
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

    /// Whether it is known that nothing comes of it; `of_efa`: nothing that is an EFA.
    fn had_nothing(&self, ask: &Ask, of_efa: bool) -> bool;

    fn query(&mut self, ask: &Ask) -> Result<Vec<Found<Self::Entry>>, QueryFailed>;

    /// The entry with these modes of registration.
    fn with_modes(&self, found: Found<Self::Entry>, modes: MrMode) -> Found<Self::Entry>;

    /// The entry with no capabilities but these.
    fn with_caps(&self, found: Found<Self::Entry>, caps: Caps) -> Found<Self::Entry>;
}

/// What entries are held against.
#[derive(Clone, Copy)]
struct Rules<'a> {
    config: &'a Config,
    version: Version,
    /// For SENDRECV.
    tagged: bool,
    /// The other protocol may be asked for after, or was before.
    open: bool,
    /// Nothing but EFA will do: the user names no provider, and this says what speaks for EFAs.
    for_efa: Option<&'a str>,
}

/// The whole decision. `report` gets a line an attempt and a line a rejected entry.
fn choose<S: Source>(
    rules: &Rules<'_>,
    source: &mut S,
    report: &mut Vec<String>,
) -> Result<Vec<Found<S::Entry>>, NetError> {
    let config = rules.config;
    let only_efa = rules.for_efa.is_some();
    let none_for_rdma = rules.tagged && source.had_nothing(&Ask::exact(config), only_efa);
    for ask in Ask::ladder(config, rules.tagged) {
        // What SENDRECV asks for exactly has all that RDMA does.
        if none_for_rdma && !ask.is_for_everything() {
            report.push(format!("not tried {ask}: there is none for RDMA"));
            continue;
        }
        // RDMA has what it asked for, device memory too: better that than host memory by a third query.
        if rules.tagged && rules.open && !none_for_rdma && ask.is_for_everything() {
            report.push(format!("not tried {ask}: there is more for RDMA"));
            continue;
        }
        match source.query(&ask) {
            // What others have of all that is asked for, tcp for one, says nothing about the EFAs.
            Ok(list) if only_efa && !ask.is_for_everything() && !filter::has_efa(&list) => {
                report.push(format!("tried {ask}: {} entries, none of EFA", list.len()));
            }
            Ok(list) => {
                report.push(format!("tried {ask}: {} entries", list.len()));
                let kept = kept(rules, (source, &ask), list, report);
                return kept.map_err(|error| about_efa(rules, error, report));
            }
            Err(failed) if failed.no_data => report.push(format!("tried {ask}: none")),
            Err(failed) => {
                report.push(format!("tried {ask}: {}", failed.text));
                return Err(NetError::new(Code::Fabric, failed.text).with_errno(failed.errno));
            }
        }
    }
    let error = NetError::new(Code::NoProvider, nobody_for(config, rules.version));
    Err(about_efa(rules, error, report))
}

/// The entries of an answer that can be used, as they are to be used.
fn kept<S: Source>(
    rules: &Rules<'_>,
    (source, ask): (&mut S, &Ask),
    list: Vec<Found<S::Entry>>,
    report: &mut Vec<String>,
) -> Result<Vec<Found<S::Entry>>, NetError> {
    let need = if ask.is_for_everything() {
        Need::of(rules, &list)
    } else {
        None
    };
    let list = match &need {
        None => list,
        Some(need) => {
            let narrowed = list.into_iter();
            let narrowed = narrowed.map(|found| source.with_caps(found, need.of_use()));
            narrowed.collect()
        }
    };
    let kept = filter::keep(rules, (need.as_ref(), list), report)?;
    Ok(with_virtual_addresses(rules, (source, ask), kept))
}

/// With what the host shows of EFAs, where the user may have wanted one and none was listed.
fn about_efa(rules: &Rules<'_>, error: NetError, report: &[String]) -> NetError {
    let Rules {
        config, for_efa, ..
    } = *rules;
    let wanted = config.fi_provider.as_deref();
    let wanted = wanted.is_none_or(|names| {
        admits(names, filter::EFA) && provider_filter::misread(names).is_none()
    });
    let listed = report.iter().any(|line| line.starts_with("  efa "));
    let about = matches!(error.code(), Code::NoProvider | Code::AllRejected);
    if !wanted || listed || !about {
        return error;
    }
    let (what, shown) = (error.what(), host::efas(&config.fs_root));
    match for_efa {
        Some(reason) => NetError::new(Code::NoEfa, format!("{reason}; {what}; {shown}")),
        None => NetError::new(error.code(), format!("{what}; {shown}")),
    }
}

/// Says that the host's EFAs carry nothing: as the user asked, or although `FI_PROVIDER` lets them in.
fn passed_over(config: &Config, provider: &str, log: &dyn Log) {
    let Some(reason) = host::for_efa(config) else {
        return;
    };
    let filter = config.fi_provider.as_deref().unwrap_or_default();
    if admits(filter, filter::EFA) {
        let shown = host::efas(&config.fs_root);
        let asked = provider_filter::shown(Some(filter));
        let what = format!("{reason}; {asked} gave {provider}; {shown}");
        warn(log, Subsys::Init, || {
            NetError::new(Code::EfaPassedOver, what)
        });
    } else {
        info(log, Subsys::Init, || {
            let asked = provider_filter::shown(Some(filter));
            format!("{reason}, and no EFA is used: {asked} asks for {provider}")
        });
    }
}

/// Says which names of the user's list kept nothing out, for there is no such interface: a typing error, or
/// another host's. Those of the default are nowhere on many hosts.
fn not_excluded(config: &Config, report: &[String]) -> Option<String> {
    let usual = Config::new(config.flavour).exclude_tcp_if;
    let mut names = link::strangers(&config.fs_root, &config.exclude_tcp_if);
    names.retain(|name| {
        !usual.iter().any(|usual| usual == name) && !filter::is_excluded(report, name)
    });
    let names = (!names.is_empty()).then(|| shorten(&names.join(",")))?;
    Some(format!(
        "OFI_NCCL_EXCLUDE_TCP_IF has {names}, and there is no such interface here: it takes exact names"
    ))
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
    // With everything asked for before, or with SENDRECV to come, this would be one of three.
    if rules.open || ask.is_for_everything() {
        return kept;
    }
    let Ok(mut again) = source.query(&ask.basic()) else {
        return kept;
    };
    again.retain(|found| found.candidate.provider == provider);
    match filter::keep(rules, (None, again), &mut Vec::new()) {
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
pub(crate) fn missing(config: &Config, nics: &[Nic]) -> Option<String> {
    let product = config.product_name.as_deref()?;
    let whole = platform::nics(product)?;
    let found = nics.iter().filter(|nic| nic.is_aws).count();
    let few = (1..whole).contains(&found);
    few.then(|| format!("{found} of the {whole} EFAs of {product}"))
}

/// The variable that may hide EFAs from this process, where it is set and the NICs are EFAs.
pub(crate) fn efa_filter(config: &Config, nics: &[Nic]) -> Option<String> {
    let on_efa = nics.iter().any(|nic| nic.is_aws);
    let list = config.efa_iface.as_deref().filter(|_| on_efa)?;
    Some(provider_filter::set("FI_EFA_IFACE", list))
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
    let filter = config.fi_provider.as_deref();
    format!("libfabric {version}, {}", provider_filter::shown(filter))
}

/// Nobody answered; of shm with what it lives in.
fn nobody_for(config: &Config, version: Version) -> String {
    let asked = asked_of(config, version);
    let filter = config.fi_provider.as_deref().unwrap_or_default();
    if let Some(why) = provider_filter::misread(filter) {
        return format!("{asked}; {why}");
    }
    let names_shm = |filter: &str| !filter.starts_with('^') && admits(filter, "shm");
    let named = config.fi_provider.as_deref().is_some_and(names_shm);
    match named.then(|| shm::room(&config.fs_root)).flatten() {
        Some(room) => format!("{asked}; {room}"),
        None => asked,
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
