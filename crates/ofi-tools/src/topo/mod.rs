//! `ofi topo`: what a host's NICs and accelerators are near to, which devices come of it, and what NCCL is
//! told; of this host, of a copied sysfs, of dumps.
//!
//! ```text
//! sysfs | dump of hwloc | file of NCCL | hwloc itself --> Host --> show, groups, emit, diff; picture
//!                                                          +--> validate (a file of NCCL against it)
//! ```

mod diff;
mod host;
mod picture;
mod show;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use ofi_topo::nccl_read::{self, Fault};
use ofi_topo::{Accelerators, Grouping, PciAddress, group_near, nccl_xml};

use crate::report::out;
use host::{From, Host};

#[derive(Debug, Args)]
pub(crate) struct TopoArgs {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    of: Of,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// The branches of the PCI tree that lead to NICs and accelerators
    Show,
    /// The devices that the plugins make of the NICs, leader first
    Groups,
    /// The topology file that the NCCL plugin would give NCCL
    Emit,
    /// Holds a topology file of NCCL against what NCCL takes, and against the host; 1 if something is wrong.
    /// What NCCL's own parser may refuse, and need not, is a warning
    Validate {
        /// The file
        file: PathBuf,
    },
    /// What another host or description has more (+), less (-) or otherwise; 1 if anything
    Diff {
        /// A root with its sysfs, a dump of hwloc, or a topology file of NCCL
        other: PathBuf,
    },
}

#[derive(Debug, Args)]
struct Of {
    /// Read the sysfs below this directory [default: `OFI_NCCL_FS_ROOT`, as the plugins do, or /]
    #[arg(long, global = true)]
    root: Option<PathBuf>,
    /// Read a dump of hwloc (lstopo --whole-io FILE.xml) or a topology file of NCCL instead
    #[arg(long, global = true, conflicts_with = "root")]
    from: Option<PathBuf>,
    /// Ask the hwloc that is installed instead
    #[arg(long, global = true, conflicts_with_all = ["root", "from"])]
    hwloc: bool,
    /// What NICs are grouped by, as `OFI_NCCL_GROUP_BY`
    #[arg(long, global = true, value_enum, default_value = "nvidia")]
    group_by: Maker,
    /// Rails of each device, as `OFI_NCCL_FORCE_NUM_RAILS`; 0: as found
    #[arg(long, global = true, default_value = "0")]
    rails: usize,
    /// Another PCI function that is a NIC for collectives (EFA and InfiniBand are known)
    #[arg(long, global = true)]
    nic: Vec<PciAddress>,
    /// Write a picture of the devices
    #[arg(long, global = true, value_name = "FILE")]
    svg: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Maker {
    None,
    Nvidia,
    Amd,
    Neuron,
    Any,
}

impl Maker {
    const fn accelerators(self) -> Accelerators {
        match self {
            Self::None => Accelerators::NONE,
            Self::Nvidia => Accelerators::NVIDIA,
            Self::Amd => Accelerators::AMD,
            Self::Neuron => Accelerators::NEURON,
            Self::Any => Accelerators::ANY,
        }
    }
}

/// 0, 1 where something is wrong or different, 2 where nothing could be read.
pub(crate) fn run(args: &TopoArgs) -> ExitCode {
    match act(args) {
        Ok(code) => code,
        Err(error) => {
            out::error_line(&format!("ofi topo: {error}"));
            ExitCode::from(2)
        }
    }
}

fn act(TopoArgs { action, of }: &TopoArgs) -> Result<ExitCode, String> {
    let from = match (&of.from, of.hwloc) {
        (Some(file), _) => From::File(file.clone()),
        (None, true) => From::Hwloc,
        (None, false) => From::Root(of.root.clone().unwrap_or_else(root_of_plugins)),
    };
    let host = Host::read(&from, &of.nic)?;
    for note in &host.notes {
        out::error_line(&format!("ofi topo: note: {note}"));
    }
    let accelerators = of.group_by.accelerators();
    let grouping = group_near(&host.nics, &host.tree, accelerators)
        .and_then(|grouping| grouping.force_rails(of.rails))
        .map_err(|error| error.to_string())?;
    if let Some(path) = &of.svg {
        let text = picture::draw(&host, &grouping, accelerators);
        std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    let (lines, is_well) = match action {
        Action::Show => (show::tree(&host, accelerators), true),
        Action::Groups => (show::groups(&host, &grouping), true),
        Action::Emit => (emit(&host, &grouping, accelerators), true),
        Action::Validate { file } => {
            let text = host::text_of(file)?;
            let faults = nccl_read::faults(&text, Some(&host.tree));
            let faults = faults.map_err(|error| format!("{}: {error}", file.display()))?;
            let (doubts, faults): (Vec<_>, Vec<_>) =
                (faults.iter()).partition(|fault| matches!(fault, Fault::Doubtful(_)));
            for doubt in doubts {
                out::error_line(&format!("ofi topo: warning: {doubt}"));
            }
            let lines = faults.iter().map(ToString::to_string).collect();
            judged(lines, "NCCL takes it, and all that it names is there")
        }
        Action::Diff { other } => {
            let other = Host::read(&From::path(other), &of.nic)?;
            judged(diff::lines(&host, &other), "no difference")
        }
    };
    for line in lines {
        out::line(&line);
    }
    Ok(ExitCode::from(u8::from(!is_well)))
}

/// Where the plugins read sysfs.
fn root_of_plugins() -> PathBuf {
    let set = std::env::var_os("OFI_NCCL_FS_ROOT").filter(|root| !root.is_empty());
    set.map_or_else(|| PathBuf::from("/"), PathBuf::from)
}

/// Said where `host_hash` cannot be that of the host.
const UNHASHED: &str = "host_hash is 0x0: nothing here tells the host from others (proc/sys/kernel/random/boot_id, \
                        etc/machine-id), and the plugin on the host writes another";

/// The file, or why there is none: on standard error, so that a redirected file stays empty.
fn emit(host: &Host, grouping: &Grouping, accelerators: Accelerators) -> Vec<String> {
    let hash = host.root.as_deref().and_then(ofi_net::host_hash);
    let file = nccl_xml::file(
        &host.tree,
        (&host.nics, grouping),
        accelerators,
        hash.unwrap_or_default(),
    );
    match file {
        Some(text) => {
            let unshown = nccl_xml::unshown(&host.tree, &host.nics, grouping);
            let unhashed = hash.is_none().then(|| UNHASHED.to_owned());
            for note in unshown.into_iter().chain(unhashed) {
                out::error_line(&format!("ofi topo: note: {note}"));
            }
            text.lines().map(str::to_owned).collect()
        }
        None => {
            out::error_line("no device has several NICs: NCCL needs no file");
            Vec::new()
        }
    }
}

fn judged(lines: Vec<String>, well: &str) -> (Vec<String>, bool) {
    match lines.is_empty() {
        true => (vec![well.to_owned()], true),
        false => (lines, false),
    }
}
