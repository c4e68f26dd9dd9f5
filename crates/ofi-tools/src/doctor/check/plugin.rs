//! Would the plugin be loaded?

use std::path::{Path, PathBuf};

use super::needs;
use crate::doctor::code::Code;
use crate::doctor::facts::elf::{AARCH64, Elf, ElfFault, X86_64};
use crate::doctor::facts::ldso::{Library, Passed};
use crate::doctor::facts::libraries::Libraries;
use crate::doctor::facts::root::Absent;
use crate::doctor::facts::{Host, Side, nccl};
use crate::doctor::finding::Finding;

/// The variable that names NCCL's network.
pub(super) const NETWORK: &str = "NCCL_NET";
/// What the network of such a plugin is called, and what a plugin of the reference is called when it is asked for.
const NAME: &str = "Libfabric";
const OF_REFERENCE: [&str; 3] = [NAME, "AWS Libfabric", "OFI"];
/// Other names that ours takes, written as they are here (protocol 2a.3, `plugin/nccl/src/name.rs`).
const FORMER: [&str; 3] = ["AWS Libfabric", "OFI", "ofi"];

pub(super) fn check(host: &Host) -> Vec<Finding> {
    let mut found = Vec::new();
    if host.side == Side::Nccl {
        found.extend(switched_off(host));
        found.extend(other_network(host));
        found.extend(conf_unread(host));
    }
    match host.libraries.loaded() {
        None => found.extend(not_found(host)),
        Some(library) => {
            found.extend(in_file(host, library));
            found.extend(no_exec(host, library));
            found.extend(needs::of_plugin(host));
            found.extend(not_of_libfabric(host, library));
            found.extend(others(host, library));
        }
    }
    found
}

fn switched_off(host: &Host) -> Option<Finding> {
    let value = host.settings.value("NCCL_NET_PLUGIN")?;
    // Before NCCL knew the word it was the name of a file that nobody has.
    let is_none = value.trim().eq_ignore_ascii_case("none");
    let off = nccl::off(host.packages.nccl, value).filter(|_| !is_none);
    if !is_none && off.is_none() {
        return None;
    }
    let evidence = [host.settings.show("NCCL_NET_PLUGIN")].into_iter();
    Some(Finding::new(
        Code::PluginOff,
        evidence.chain(off.map(str::to_owned)),
    ))
}

fn other_network(host: &Host) -> Option<Finding> {
    let value = host.settings.filled(NETWORK)?;
    if takes_network(host, value) {
        return None;
    }
    let shown = host.settings.show(NETWORK);
    let near = OF_REFERENCE.iter();
    let is_near = near.map(|name| is_same_network(name, value.trim()));
    if !is_near.fold(false, |any, is| any | is) {
        return Some(Finding::new(Code::OtherNetwork, [shown]));
    }
    let why = match value.trim() == value {
        true => format!(
            "this plugin's network is {NAME:?} unless NCCL_NET is one of {FORMER:?}, letter for letter"
        ),
        false => format!("{value:?}: NCCL takes blanks for a part of the name"),
    };
    let finding = Finding::new(Code::OtherNetwork, [shown, why]);
    Some(finding.with_fix(format!(
        "write NCCL_NET={NAME}, without blanks, or unset it"
    )))
}

/// NCCL compares the whole value, in any case of letters, with what the plugin calls its network.
pub(super) fn is_same_network(name: &str, value: &str) -> bool {
    name.eq_ignore_ascii_case(value)
}

/// Whether a plugin of libfabric would be the network of this value.
pub(super) fn takes_network(host: &Host, value: &str) -> bool {
    if host.libraries.is_linked {
        return OF_REFERENCE.iter().any(|name| is_same_network(name, value));
    }
    is_same_network(NAME, value) || FORMER.contains(&value)
}

fn conf_unread(host: &Host) -> Option<Finding> {
    let (file, absent) = host.settings.unread.as_ref()?;
    let what = format!("{}: {}", file.display(), words(absent));
    Some(Finding::new(
        Code::ConfUnread,
        [host.settings.show("NCCL_CONF_FILE"), what],
    ))
}

/// Why nothing is found: the nearest thing that could be the cause.
fn not_found(host: &Host) -> Vec<Finding> {
    let mut looked: Vec<String> = Vec::new();
    for search in &host.libraries.plugin {
        looked.push(format!(
            "{} is in none of: {}",
            search.name,
            search.places.join(", ")
        ));
    }
    let mut found = Vec::new();
    for code in [
        Code::PluginLinkBroken,
        Code::PluginForeign,
        Code::PluginDenied,
        Code::Unseen,
    ] {
        let of_code = host
            .libraries
            .passed()
            .filter(|(_, passed)| passed_code(passed) == Some(code));
        let lines = of_code.map(|(path, why)| format!("{}: {}", path.display(), passed_words(why)));
        let lines: Vec<String> = lines.collect();
        if !lines.is_empty() {
            found.push(Finding::new(code, lines));
        }
    }
    let there = |paths: &[PathBuf]| -> Vec<String> {
        let lines = paths
            .iter()
            .map(|path| format!("there is one at {}", path.display()));
        lines.collect()
    };
    if !host.libraries.uncached.is_empty() {
        found.push(Finding::new(
            Code::PluginUncached,
            there(&host.libraries.uncached),
        ));
    }
    found.push(nothing_there(
        host,
        looked,
        &there(&host.libraries.elsewhere),
    ));
    found
}

/// Nothing of the names that are asked for: what is there instead says what to do.
fn nothing_there(host: &Host, looked: Vec<String>, there: &[String]) -> Finding {
    let Libraries {
        unasked,
        elsewhere,
        unset,
        ..
    } = &host.libraries;
    let lines = unasked.iter().map(|(name, file)| {
        let file = file.display();
        format!("{file} is there, and NCCL asks for it only with NCCL_NET_PLUGIN={name}")
    });
    let named = host.settings.filled("NCCL_NET_PLUGIN").is_some();
    let named = (named && host.side == Side::Nccl).then(|| host.settings.show("NCCL_NET_PLUGIN"));
    let lines = looked.into_iter().chain(named).chain(lines);
    let finding = Finding::new(Code::PluginNotFound, lines.chain(there.iter().cloned()));
    if let Some(found) = blanks(host) {
        return finding.with_fix(found);
    }
    // What is on the path already costs least.
    match (unset, unasked.first(), elsewhere.first()) {
        (Some(file), ..) => finding.with_fix(format!(
            "unset NCCL_NET_PLUGIN: NCCL then loads {}",
            file.display()
        )),
        (None, Some((name, _)), _) => {
            finding.with_fix(format!("set NCCL_NET_PLUGIN={name} on all ranks"))
        }
        (None, None, Some(_)) => {
            let asked = |file: &&PathBuf| is_asked(host, file);
            let best = elsewhere.iter().find(asked).or_else(|| elsewhere.first());
            finding.with_fix(best.map(|file| way_to(host, file)).unwrap_or_default())
        }
        (None, None, None) => finding,
    }
}

/// What to do where blanks in the value are all that is wrong: NCCL takes them for a part of the name.
fn blanks(host: &Host) -> Option<String> {
    let value = host.settings.value("NCCL_NET_PLUGIN")?;
    let has = host.side == Side::Nccl && value.split(',').any(|name| name != name.trim());
    has.then(|| {
        let names: Vec<&str> = value.split(',').map(str::trim).collect();
        format!(
            "write NCCL_NET_PLUGIN={}, without blanks: NCCL takes them for a part of the name",
            names.join(",")
        )
    })
}

/// Whether it has a name that whoever looks for a plugin asks for here.
fn is_asked(host: &Host, file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default();
    let searches = &host.libraries.plugin;
    searches.iter().any(|search| *search.name == *name)
}

/// What to do to have this plugin loaded.
fn way_to(host: &Host, file: &Path) -> String {
    let dir = file.parent().unwrap_or_else(|| Path::new("/")).display();
    let path = format!("LD_LIBRARY_PATH={dir}:$LD_LIBRARY_PATH");
    let all = "(for all ranks: mpirun -x, srun --export)";
    if is_asked(host, file) {
        return format!("put its directory first on the search path: {path} {all}");
    }
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    match name.strip_prefix("libnccl-net-") {
        None => format!("unset NCCL_NET_PLUGIN, and set {path} {all}"),
        Some(rest) => {
            let name = rest.strip_suffix(".so").unwrap_or(rest);
            format!("set NCCL_NET_PLUGIN={name} and {path} {all}")
        }
    }
}

/// It would be loaded, and the EFAs of this host stay unused.
fn not_of_libfabric(host: &Host, library: &Library) -> Option<Finding> {
    let is_here = host.libraries.is_foreign && host.devices.has_efa();
    let loaded = format!("loaded: {} (by {})", library.path.display(), library.via);
    let why = "it is not linked with libfabric, and nothing in it has that name".to_owned();
    is_here.then(|| other_plugin(host, [loaded, why]))
}

/// With a way to the plugin that does it, where there is one.
pub(super) fn other_plugin(host: &Host, lines: [String; 2]) -> Finding {
    let Libraries {
        of_libfabric,
        unasked,
        ..
    } = &host.libraries;
    let there = of_libfabric.iter();
    let there = there.map(|file| format!("one that uses libfabric: {}", file.display()));
    let finding = Finding::new(Code::OtherPlugin, lines.into_iter().chain(there));
    let Some(file) = of_libfabric.first() else {
        return finding;
    };
    match unasked.iter().find(|(_, unasked)| unasked == file) {
        Some((name, _)) => finding.with_fix(format!("set NCCL_NET_PLUGIN={name} on all ranks")),
        None => finding.with_fix(way_to(host, file)),
    }
}

const fn passed_code(passed: &Passed) -> Option<Code> {
    match passed {
        Passed::Absent(Absent::Dangling { .. }) => Some(Code::PluginLinkBroken),
        Passed::Absent(Absent::Denied { .. }) => Some(Code::PluginDenied),
        Passed::Absent(Absent::Unseen) => Some(Code::Unseen),
        Passed::Absent(_) => None,
        Passed::Machine(_) => Some(Code::PluginForeign),
    }
}

/// What is wrong with the file itself.
fn in_file(host: &Host, library: &Library) -> Option<Finding> {
    let at = format!("{} (by {})", library.path.display(), library.via);
    match &library.elf {
        Ok(elf) => no_table(host, library, elf),
        Err(ElfFault::Program) => Some(
            Finding::new(Code::PluginNotElf, [format!("{at}: it is a program")])
                .with_fix("name the plugin (NCCL_NET_PLUGIN=ofi is libnccl-net-ofi.so), and add its directory to LD_LIBRARY_PATH"),
        ),
        Err(ElfFault::NotElf) => Some(Finding::new(Code::PluginNotElf, [at])),
        Err(fault) => Some(Finding::new(
            Code::PluginCut,
            [format!("{at}: {}", fault_words(fault))],
        )),
    }
}

/// The loader maps code, and the kernel refuses that there.
fn no_exec(host: &Host, library: &Library) -> Option<Finding> {
    let mount = host
        .mounts
        .of(&library.real)
        .filter(|mount| mount.has("noexec"))?;
    let point = mount.point.display();
    let line = format!(
        "{} is in {point} ({}), mounted noexec",
        library.real.display(),
        mount.kind
    );
    Some(Finding::new(Code::NoExec, [line]))
}

fn no_table(host: &Host, library: &Library, elf: &Elf) -> Option<Finding> {
    let has = versions(elf);
    let (newest, oldest) = match host.side {
        Side::Neuron => nccl::NEURON_TABLES,
        // Some table: all that can be said without knowing who asks.
        Side::Nccl => nccl::tables(host.packages.nccl).unwrap_or((u32::MAX, 0)),
    };
    if has
        .iter()
        .any(|version| (oldest..=newest).contains(version))
    {
        return None;
    }
    let looks = match (host.side, host.packages.nccl) {
        (Side::Nccl, None) => "NCCL looks for symbols ncclNetPlugin_v and a number".to_owned(),
        (Side::Nccl, Some(nccl)) => {
            format!("NCCL {nccl} looks for ncclNetPlugin_v{newest} down to v{oldest}")
        }
        (Side::Neuron, _) => format!("Neuron looks for ncclNetPlugin_v{newest} down to v{oldest}"),
    };
    let list = has
        .iter()
        .map(|version| format!("v{version}"))
        .collect::<Vec<_>>();
    let list = if list.is_empty() {
        "none".to_owned()
    } else {
        list.join(", ")
    };
    let has = format!("{} has: {list}", library.path.display());
    Some(Finding::new(Code::NoTable, [has, looks]))
}

/// Versions of the tables that a library exports.
fn versions(elf: &Elf) -> Vec<u32> {
    let names = elf.exported.iter();
    let numbers = names.filter_map(|name| name.strip_prefix("ncclNetPlugin_v")?.parse().ok());
    let mut versions: Vec<u32> = numbers.collect();
    versions.sort_unstable();
    versions
}

fn others(host: &Host, library: &Library) -> Option<Finding> {
    let others = &host.libraries.others;
    let lines = others
        .iter()
        .map(|path| format!("later on the path: {}", path.display()));
    let first = format!("loaded: {} (by {})", library.path.display(), library.via);
    (!others.is_empty())
        .then(|| Finding::new(Code::OtherPlugins, core::iter::once(first).chain(lines)))
}

fn words(absent: &Absent) -> String {
    match absent {
        Absent::Missing => "there is no such file".to_owned(),
        Absent::Dangling { target } => {
            format!("a link to {}, which is not there", target.display())
        }
        Absent::Denied { by: None } => "permission denied".to_owned(),
        Absent::Denied { by: Some(by) } => format!("permission denied: {by}"),
        Absent::Unseen => "who looks may not read it, or an access control list is in force: the job's user may be able to".to_owned(),
        Absent::Other(text) => text.clone(),
    }
}

pub(super) fn passed_words(passed: &Passed) -> String {
    match passed {
        Passed::Absent(absent) => words(absent),
        Passed::Machine(machine) => format!("a library for {}", machine_name(*machine)),
    }
}

pub(super) fn fault_words(fault: &ElfFault) -> String {
    match fault {
        ElfFault::NotElf => "it is no shared library".to_owned(),
        ElfFault::Program => "it is a program".to_owned(),
        ElfFault::Machine(machine) => format!("a library for {}", machine_name(*machine)),
        ElfFault::Cut { wanted, has } => format!("it has {has} bytes of at least {wanted}"),
        ElfFault::Damaged(what) => format!("its {what} makes no sense"),
    }
}

fn machine_name(machine: u16) -> String {
    match machine {
        0 => "a 32-bit or big-endian machine".to_owned(),
        X86_64 => "x86-64".to_owned(),
        AARCH64 => "aarch64 (Arm, Graviton)".to_owned(),
        other => format!("machine type {other}"),
    }
}
