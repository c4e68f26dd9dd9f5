//! The plugin in a process of its own: loaded, started, asked for its devices, all within a deadline.
//!
//! ```text
//! ofi doctor --> ofi doctor-probe (hidden): dlopen, init, devices, getProperties
//!            <-- standard output: one JSON value; standard error: the plugin's log
//! ```

use core::time::Duration;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::Args;
use serde::{Deserialize, Serialize};

use super::child::{self, Ended, Env};
use super::facts::root::Root;
use super::facts::{Side, process};
use crate::abi::{Device, Flavor, Plugin, logger};
use crate::report::out;

/// How far it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Stage {
    Load,
    Init,
}

/// What the child writes.
#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    Started {
        name: String,
        devices: Vec<Device>,
        /// Files of libfabric that the process then has.
        libfabrics: Vec<String>,
    },
    Refused {
        stage: Stage,
        why: String,
        libfabrics: Vec<String>,
    },
}

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    /// The name that it gives itself, its devices, the libfabrics that are mapped then, and what it logged.
    Started {
        name: String,
        devices: Vec<Device>,
        libfabrics: Vec<String>,
        log: Vec<String>,
    },
    Refused {
        stage: Stage,
        why: String,
        libfabrics: Vec<String>,
        log: Vec<String>,
    },
    /// It ended without an answer.
    Died {
        how: String,
        log: Vec<String>,
    },
    Silent {
        seconds: f64,
        log: Vec<String>,
    },
}

/// What the child is told.
#[derive(Debug, Args)]
pub(crate) struct ProbeArgs {
    #[arg(long)]
    plugin: PathBuf,
    #[arg(long)]
    symbol: String,
    #[arg(long, value_enum)]
    flavor: Flavor,
    #[arg(long)]
    parent: u32,
}

/// What to try.
#[derive(Debug)]
pub(crate) struct Try<'a> {
    pub(crate) path: &'a Path,
    pub(crate) side: Side,
    /// Version of the table.
    pub(crate) table: u32,
    pub(super) env: Env<'a>,
}

/// Tries a plugin; the error is about this program itself.
pub(crate) fn run(ask: &Try<'_>, deadline: Duration) -> Result<Outcome, String> {
    let program = std::env::current_exe().map_err(|e| format!("where is this program? {e}"))?;
    let flavor = match ask.side {
        Side::Nccl => "nvidia",
        Side::Neuron => "neuron",
    };
    let mut command = Command::new(program);
    command
        .args(["doctor-probe", "--flavor", flavor, "--plugin"])
        .arg(ask.path)
        .arg("--symbol")
        .arg(format!("ncclNetPlugin_v{}", ask.table))
        .args(["--parent", &std::process::id().to_string()]);
    ask.env.apply(&mut command);
    let ended = child::watch(command, deadline);
    ended
        .map(outcome)
        .map_err(|e| format!("a process for the plugin: {e}"))
}

/// What a child that ended, or did not, makes of it.
fn outcome(ended: Ended) -> Outcome {
    match ended {
        Ended::Silent { seconds, log } => Outcome::Silent { seconds, log },
        Ended::Said {
            answer,
            status,
            log,
        } => match serde_json::from_str(answer.trim()) {
            Ok(Answer::Started {
                name,
                devices,
                libfabrics,
            }) => Outcome::Started {
                name,
                devices,
                libfabrics,
                log,
            },
            Ok(Answer::Refused {
                stage,
                why,
                libfabrics,
            }) => Outcome::Refused {
                stage,
                why,
                libfabrics,
                log,
            },
            Err(_) => Outcome::Died {
                how: child::how(status),
                log,
            },
        },
    }
}

/// The child's side.
pub(crate) fn run_child(args: &ProbeArgs) -> ExitCode {
    crate::abi::process::die_with_parent();
    if std::os::unix::process::parent_id() != args.parent {
        return ExitCode::FAILURE;
    }
    logger::keep();
    let answer = try_it(args).unwrap_or_else(|refused| refused);
    match serde_json::to_string(&answer) {
        Ok(text) => {
            out::line(&text);
            ExitCode::SUCCESS
        }
        Err(_) => ExitCode::FAILURE,
    }
}

fn try_it(args: &ProbeArgs) -> Result<Answer, Answer> {
    let refused = |stage| {
        move |error: crate::abi::AbiError| Answer::Refused {
            stage,
            // What follows are remarks for users of `ofi perf`.
            why: error
                .to_string()
                .lines()
                .next()
                .unwrap_or_default()
                .to_owned(),
            libfabrics: libfabrics(),
        }
    };
    let plugin = Plugin::load(&args.plugin, &args.symbol, args.flavor);
    let mut plugin = plugin.map_err(refused(Stage::Load))?;
    plugin.init().map_err(refused(Stage::Init))?;
    let count = plugin.devices().map_err(refused(Stage::Init))?;
    let devices = (0..count).map(|index| plugin.device(index));
    let devices = devices
        .collect::<Result<Vec<_>, _>>()
        .map_err(refused(Stage::Init))?;
    let name = plugin.name();
    let libfabrics = libfabrics();
    // What it left open is not what this is about.
    drop(plugin.fini());
    Ok(Answer::Started {
        name,
        devices,
        libfabrics,
    })
}

fn libfabrics() -> Vec<String> {
    process::libfabrics(&Root::new("/"), Path::new("/proc/self"))
}

#[cfg(test)]
mod tests {
    use super::{Outcome, child, outcome};
    use core::time::Duration;
    use std::process::Command;

    fn shell(script: &str, deadline_ms: u64) -> Outcome {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        outcome(child::watch(command, Duration::from_millis(deadline_ms)).unwrap())
    }

    #[test]
    fn every_end_is_told() {
        let died = shell("echo last words >&2; kill -BUS $$", 10_000);
        let Outcome::Died { how, log } = &died else {
            panic!("{died:?}");
        };
        assert!(how.contains("SIGBUS"), "{how}");
        assert_eq!(log, &["last words"]);
        let ended = shell("echo nonsense; exit 3", 10_000);
        assert!(
            matches!(&ended, Outcome::Died { how, .. } if how.contains("status 3")),
            "{ended:?}"
        );
        let refused = shell(
            r#"echo '{"Refused":{"stage":"init","why":"no","libfabrics":[]}}'"#,
            10_000,
        );
        assert!(matches!(refused, Outcome::Refused { .. }), "{refused:?}");
        let silent = shell("echo here >&2; exec sleep 600", 50);
        assert!(
            matches!(&silent, Outcome::Silent { log, .. } if log == &["here"]),
            "{silent:?}"
        );
    }
}
