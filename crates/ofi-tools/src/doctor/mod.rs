//! `ofi doctor`: would a job use the network here, and if not, why?
//!
//! ```text
//! facts (root, environment) --> Host --> check --> findings --> causes first, consequences out --> report
//!                                 \--> probe: the plugin in a child, on the live host alone --^
//!                                 \--> providers: libfabric in children, likewise, for the report
//! ```

mod check;
mod child;
mod code;
#[cfg(test)]
mod docs;
mod env_file;
pub(crate) mod facts;
mod finding;
mod probe;
mod providers;
mod report;
pub(crate) mod rows;

use core::time::Duration;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use crate::report::out;
use child::Env;
use code::Severity;
use facts::version::Version;
use facts::{Ask, Host, Side, nccl};
use finding::Findings;
pub(crate) use probe::{ProbeArgs, run_child};
use providers::Providers;
pub(crate) use providers::{FabricArgs, run_child as run_fabric};

/// Every code that a finding can have, with what it is and what to do.
pub(crate) fn codes() -> impl Iterator<Item = (String, &'static str, &'static str)> {
    code::Code::ALL.iter().map(|code| {
        let row = code.row();
        (code.to_string(), row.title, row.fix)
    })
}

/// Something keeps a job from the network.
const FOUND: u8 = 1;
/// The command line, or what it names, is no good.
const USAGE: u8 = 2;

/// Tables that this program can call.
const NCCL_CALLS: (u32, u32) = (12, 6);

#[derive(Debug, Args)]
#[command(args_override_self = true)]
pub(crate) struct DoctorArgs {
    /// Whose plugin [default: neuron on trn and inf instances, else nccl]
    #[arg(long = "for", value_enum, value_name = "LIBRARY")]
    side: Option<Side>,
    /// Version of NCCL, whose search for plugins it is about [default: by its file on the search path]
    #[arg(long, value_name = "X.Y.Z", value_parser = version)]
    nccl_version: Option<Version>,
    /// Look at a running process: its environment, limits and libraries
    #[arg(long)]
    pid: Option<u32>,
    /// The user of the job, by name or id: its permissions and limits count [default: run as root, the user that
    /// Slurm or sudo says in the environment; else who runs it]
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// A directory that stands for /: a copy of another host, of which nothing is loaded
    #[arg(long, default_value = "/", value_name = "DIR")]
    root: PathBuf,
    /// Its environment, a line NAME=VALUE each, as env prints it, or a shell's export lines, in place of this one [default: this one; with
    /// --root: none]
    #[arg(long, value_name = "FILE")]
    env_file: Option<PathBuf>,
    /// A variable more
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    env: Vec<(String, String)>,
    /// Do not load and start the plugin in a process of its own
    #[arg(long)]
    no_load: bool,
    /// Seconds that loading and starting may take
    #[arg(long, default_value_t = 30.0, value_parser = seconds)]
    deadline: f64,
    /// Status 1 for warnings too
    #[arg(long)]
    strict: bool,
    /// Print JSON in place of the page
    #[arg(long)]
    json: bool,
}

fn version(text: &str) -> Result<Version, String> {
    Version::parse(text).ok_or_else(|| "it is a version such as 2.21.5".to_owned())
}

fn pair(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) = pair.ok_or_else(|| "it is NAME=VALUE".to_owned())?;
    Ok((name.to_owned(), value.to_owned()))
}

fn seconds(text: &str) -> Result<f64, String> {
    let read = text.parse().ok().filter(|s| *s > 0.0 && *s <= 3600.0);
    read.ok_or_else(|| "it is more than 0, up to 3600".to_owned())
}

/// Looks, and prints what it found.
pub(crate) fn run(args: &DoctorArgs) -> ExitCode {
    match examine(args) {
        Ok(code) => ExitCode::from(code),
        Err(text) => {
            out::error_line(&format!("ofi doctor: {text}"));
            ExitCode::from(USAGE)
        }
    }
}

fn examine(args: &DoctorArgs) -> Result<u8, String> {
    if !args.root.is_dir() {
        return Err(format!(
            "--root {}: it is no directory",
            args.root.display()
        ));
    }
    let pairs = environment(args)?;
    // A file stands for all of an environment, here as in what is read.
    let env = Env {
        is_whole: args.env_file.is_some(),
        pairs: if args.env_file.is_some() {
            &pairs
        } else {
            &args.env
        },
    };
    let mut host = Host::read(&Ask {
        root: args.root.clone(),
        env: pairs.clone(),
        side: args.side,
        nccl: args.nccl_version,
        pid: args.pid,
        user: args.user.clone(),
        own: match args.root == Path::new("/") {
            true => own_environment(),
            false => Vec::new(),
        },
    })?;
    let probed = probe_plugin(args, env, &host)?;
    let providers = ask_libfabric(args, env, &host)?;
    // What answered is what a plugin of ours loads, and it knows itself better than its package does.
    let said = providers.as_ref().and_then(Providers::libfabric);
    if let Some(version) = said.filter(|_| !host.libraries.is_linked) {
        host.packages.learn(version);
    }
    let findings = Findings::of(check::all(&host, probed.as_ref(), providers.as_ref()));
    let live = report::Live {
        probed: probed.as_ref(),
        providers: providers.as_ref(),
    };
    if args.json {
        let text = report::json(&host, &findings, &live);
        out::line(&text.map_err(|error| format!("JSON: {error}"))?);
    } else {
        for line in report::page(&host, &findings, &live) {
            out::line(&line);
        }
    }
    let bar = if args.strict {
        Severity::Warning
    } else {
        Severity::Error
    };
    let is_bad = findings.worst().is_some_and(|worst| worst >= bar);
    Ok(if is_bad { FOUND } else { 0 })
}

fn environment(args: &DoctorArgs) -> Result<Vec<(String, String)>, String> {
    let read = |file: &Path| {
        let bytes = std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
        Ok::<String, String>(String::from_utf8_lossy(&bytes).into_owned())
    };
    let of_process = |text: &str| {
        let variables = text.split('\0').filter_map(|line| line.split_once('='));
        let pairs = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        pairs.collect::<Vec<_>>()
    };
    // What is given by hand comes first, and so counts.
    let mut pairs = args.env.clone();
    pairs.extend(match (&args.env_file, args.pid) {
        (Some(file), _) => env_file::parse(&read(file)?)
            .map_err(|error| format!("--env-file {}: {error}", file.display()))?,
        (None, Some(pid)) => of_process(&read(&args.root.join(format!("proc/{pid}/environ")))?),
        (None, None) if args.root != Path::new("/") => Vec::new(),
        (None, None) => own_environment(),
    });
    Ok(pairs)
}

fn own_environment() -> Vec<(String, String)> {
    let text = |value: std::ffi::OsString| value.to_string_lossy().into_owned();
    let all = std::env::vars_os().map(|(name, value)| (text(name), text(value)));
    all.collect()
}

/// Asks the live host's libfabric, as this process would have it.
fn ask_libfabric(
    args: &DoctorArgs,
    env: Env<'_>,
    host: &Host,
) -> Result<Option<Providers>, String> {
    let is_wanted = host.is_live && !args.no_load && args.pid.is_none();
    if !is_wanted || host.libraries.libfabric.found.is_none() {
        return Ok(None);
    }
    let named = host.settings.filled("FI_PROVIDER");
    let deadline = Duration::from_secs_f64(args.deadline);
    providers::ask((host.side, env), named, deadline).map(Some)
}

/// Tries the plugin where that says something: on the live host, as this process would have it.
fn probe_plugin(
    args: &DoctorArgs,
    env: Env<'_>,
    host: &Host,
) -> Result<Option<probe::Outcome>, String> {
    let is_wanted = host.is_live && !args.no_load && args.pid.is_none();
    let Some(library) = host.libraries.loaded().filter(|_| is_wanted) else {
        return Ok(None);
    };
    let Ok(elf) = &library.elf else {
        return Ok(None);
    };
    let (newest, oldest) = match host.side {
        Side::Neuron => nccl::NEURON_TABLES,
        Side::Nccl => {
            let (newest, oldest) = nccl::tables(host.packages.nccl).unwrap_or(NCCL_CALLS);
            (newest.min(NCCL_CALLS.0), oldest.max(NCCL_CALLS.1))
        }
    };
    let has = |version: &u32| elf.exported.contains(&format!("ncclNetPlugin_v{version}"));
    let Some(table) = (oldest..=newest).rev().find(has) else {
        return Ok(None);
    };
    let deadline = Duration::from_secs_f64(args.deadline);
    let ask = probe::Try {
        path: &library.path,
        side: host.side,
        table,
        env,
    };
    probe::run(&ask, deadline).map(Some)
}
