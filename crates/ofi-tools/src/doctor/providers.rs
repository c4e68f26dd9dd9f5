//! What libfabric has here, and which of it this project's transport would take: asked in processes of
//! their own, since libfabric reads `FI_PROVIDER` once, and a provider may crash.
//!
//! ```text
//! ofi doctor --> ofi doctor-fabric (hidden): every provider with its version and domains
//!           \\--> ofi doctor-fabric --take, with FI_PROVIDER=NAME: what a start says of it
//! ```

use core::time::Duration;
use std::process::{Command, ExitCode};
use std::sync::Arc;

use clap::Args;
use efa_fabric::{Caps, Hints, InfoList, Library, MrMode, Version};
use ofi_net::log::NoLog;
use ofi_net::params::{Flavour, parse};
use ofi_net::{Config, NetError, Transport};
use serde::{Deserialize, Serialize};

use super::child::{self, Ended, Env};
use super::facts::Side;
use super::facts::version::Version as ReleaseVersion;
use super::finding::one_line;
use crate::report::out;

/// Tried by name, beside the one that `FI_PROVIDER` names.
const TRIED: [&str; 2] = ["efa", "tcp"];
/// Of each provider, so many domains are told.
const DOMAINS_MAX: usize = 64;

/// One provider, as `fi_getinfo(3)` lists it for reliable datagrams.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Provider {
    pub(crate) name: String,
    /// Its own version, not libfabric's.
    pub(crate) version: String,
    /// Devices and interfaces.
    pub(crate) domains: Vec<String>,
}

/// What the transport makes of a provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Taken {
    /// As `FI_PROVIDER` names it.
    pub(crate) provider: String,
    pub(crate) ok: bool,
    /// Its devices, or the reason why not.
    pub(crate) text: String,
}

/// A libfabric and what it has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Listed {
    /// Its version, as it says itself.
    pub(crate) libfabric: String,
    pub(crate) providers: Vec<Provider>,
}

/// All of it.
#[derive(Clone, Debug)]
pub(crate) struct Providers {
    /// As they are listed; or why there is no list.
    pub(crate) list: Result<Listed, String>,
    pub(crate) taken: Vec<Taken>,
}

impl Providers {
    /// The version that answered, without its last number.
    pub(crate) fn libfabric(&self) -> Option<ReleaseVersion> {
        ReleaseVersion::parse(&self.list.as_ref().ok()?.libfabric)
    }

    pub(crate) fn listed(&self) -> &[Provider] {
        self.list.as_ref().map_or(&[], |list| &list.providers)
    }
}

/// What the child is told.
#[derive(Debug, Args)]
pub(crate) struct FabricArgs {
    /// Start the transport on what `FI_PROVIDER` leaves, in place of a list
    #[arg(long)]
    take: bool,
    #[arg(long)]
    neuron: bool,
    #[arg(long)]
    parent: u32,
}

/// Asks for all of it, each within the deadline; the error is about this program itself.
pub(crate) fn ask(
    (side, env): (Side, Env<'_>),
    named: Option<&str>,
    deadline: Duration,
) -> Result<Providers, String> {
    let child = |take: Option<&str>| {
        let program = std::env::current_exe().map_err(|e| format!("where is this program? {e}"))?;
        let mut command = Command::new(program);
        command.args(["doctor-fabric", "--parent", &std::process::id().to_string()]);
        env.apply(&mut command);
        // The list is of all that there is.
        command.env_remove("FI_PROVIDER");
        if side == Side::Neuron {
            command.arg("--neuron");
        }
        if let Some(name) = take {
            command.arg("--take").env("FI_PROVIDER", name);
        }
        child::watch(command, deadline).map_err(|e| format!("a process for libfabric: {e}"))
    };
    let list = answer(child(None)?).and_then(|list| list);
    // Without a libfabric there is nothing to try.
    let names = named.into_iter().filter(|name| !TRIED.contains(name));
    let names = TRIED.into_iter().chain(names).filter(|_| list.is_ok());
    let taken = names.map(|name| {
        let (ok, text) = match answer::<String>(child(Some(name))?) {
            Ok(Ok(text)) => (true, text),
            Ok(Err(text)) | Err(text) => (false, text),
        };
        Ok::<_, String>(Taken {
            provider: one_line(name),
            ok,
            text,
        })
    });
    Ok(Providers {
        taken: taken.collect::<Result<_, _>>()?,
        list,
    })
}

/// What a child answered; the error says how it ended without an answer.
fn answer<T: for<'a> Deserialize<'a>>(ended: Ended) -> Result<Result<T, String>, String> {
    match ended {
        Ended::Silent { seconds, .. } => Err(format!("no answer in {seconds} s")),
        Ended::Said { answer, status, .. } => {
            serde_json::from_str(answer.trim()).map_err(|_| child::how(status))
        }
    }
}

/// The child's side.
pub(crate) fn run_child(args: &FabricArgs) -> ExitCode {
    crate::abi::process::die_with_parent();
    if std::os::unix::process::parent_id() != args.parent {
        return ExitCode::FAILURE;
    }
    let flavour = if args.neuron {
        Flavour::Neuron
    } else {
        Flavour::Nccl
    };
    let answer = if args.take {
        serde_json::to_string(&take(flavour).map_err(|error| shown(&error)))
    } else {
        serde_json::to_string(&list(flavour).map_err(|error| shown(&error)))
    };
    match answer {
        Ok(text) => {
            out::line(&text);
            ExitCode::SUCCESS
        }
        Err(_) => ExitCode::FAILURE,
    }
}

fn shown(error: &NetError) -> String {
    one_line(&format!("{} {}", error.code(), error.what()))
}

fn config(flavour: Flavour) -> Result<Config, NetError> {
    let all = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    Config::from_values(&parse(flavour, all).0, &mut Vec::new())
}

fn list(flavour: Flavour) -> Result<Listed, NetError> {
    let config = config(flavour)?;
    let library = Library::load(config.libfabric_path.as_deref())?;
    let modes = MrMode::LOCAL | MrMode::VIRT_ADDR | MrMode::ALLOCATED | MrMode::PROV_KEY;
    let hints = Hints::rdm(Caps::MSG).mr_mode(modes | MrMode::ENDPOINT);
    let providers = match hints.api_version(Version::NEWEST_KNOWN).query(library) {
        Ok(entries) => providers(&entries),
        Err(error) if error.is_no_data() => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    Ok(Listed {
        libfabric: Version::of(library).to_string(),
        providers,
    })
}

/// Each once, in libfabric's order.
fn providers(entries: &InfoList) -> Vec<Provider> {
    let mut found: Vec<Provider> = Vec::new();
    for entry in entries {
        let (name, domain) = (
            one_line(entry.provider_name()),
            one_line(entry.domain_name()),
        );
        let at = found.iter().position(|known| known.name == name);
        let at = at.unwrap_or_else(|| {
            let raw = entry.provider_version();
            found.push(Provider {
                name,
                version: format!("{}.{}", raw >> 16, raw & 0xffff),
                domains: Vec::new(),
            });
            found.len() - 1
        });
        if let Some(known) = found.get_mut(at) {
            if known.domains.len() < DOMAINS_MAX && !known.domains.contains(&domain) {
                known.domains.push(domain);
            }
        }
    }
    found
}

fn take(flavour: Flavour) -> Result<String, NetError> {
    let transport = Transport::init(config(flavour)?, Arc::new(NoLog))?;
    let devices = transport.devices()?;
    let names = (0..devices).filter_map(|device| transport.properties(device).ok());
    let names: Vec<String> = names.map(|device| one_line(&device.name)).collect();
    let few: Vec<&str> = names.iter().take(4).map(String::as_str).collect();
    let more = names.len().saturating_sub(few.len());
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    Ok(format!("{devices} devices: {}{more}", few.join(", ")))
}
