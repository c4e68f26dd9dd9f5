//! The plugin in a process of its own: loaded, started, asked for its devices, all within a deadline.
//!
//! ```text
//! ofi doctor --> ofi doctor-probe (hidden): dlopen, init, devices, getProperties
//!            <-- standard output: one JSON value; standard error: the plugin's log
//! ```

use core::time::Duration;
use std::io::{BufRead as _, BufReader, Read};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use clap::Args;
use serde::{Deserialize, Serialize};

use super::facts::Side;
use crate::abi::{Device, Flavor, Plugin, logger, process};
use crate::report::out;

/// What a child may say; more is no answer.
const ANSWER_MAX: u64 = 1 << 20;
const LOG_LINES_MAX: usize = 400;
const POLL: Duration = Duration::from_millis(20);
/// How long its last words may take once it has ended.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// WARN lines of the plugin.
const WARN: i32 = 2;

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
    Started { name: String, devices: Vec<Device> },
    Refused { stage: Stage, why: String },
}

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    /// The name that it gives itself, and its devices.
    Started {
        name: String,
        devices: Vec<Device>,
    },
    Refused {
        stage: Stage,
        why: String,
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
    /// Variables beside those of this process.
    pub(crate) env: &'a [(String, String)],
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
        .args(["--parent", &std::process::id().to_string()])
        .envs(ask.env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    watch(command, deadline).map_err(|e| format!("a process for the plugin: {e}"))
}

/// Runs a child to its end, or to the deadline.
fn watch(mut command: Command, deadline: Duration) -> std::io::Result<Outcome> {
    let mut child = command.spawn()?;
    let (said, logged) = (child.stdout.take(), child.stderr.take());
    let answer = said
        .map(|from| read_in_thread(from, read_all))
        .transpose()?;
    let log = logged
        .map(|from| read_in_thread(from, read_lines))
        .transpose()?;
    let status = wait(&mut child, deadline)?;
    // Whoever the child started may hold its pipes open for longer than it lives.
    let take = |from: Option<Receiver<Vec<String>>>| {
        from.and_then(|from| from.recv_timeout(LAST_WORDS).ok())
            .unwrap_or_default()
    };
    let Some(status) = status else {
        let seconds = deadline.as_secs_f64();
        return Ok(Outcome::Silent {
            seconds,
            log: take(log),
        });
    };
    let text = take(answer).join("\n");
    let log = take(log);
    let read = serde_json::from_str(text.trim()).ok();
    Ok(match read {
        Some(Answer::Started { name, devices }) => Outcome::Started { name, devices },
        Some(Answer::Refused { stage, why }) => Outcome::Refused { stage, why, log },
        None => Outcome::Died {
            how: how(status),
            log,
        },
    })
}

fn wait(
    child: &mut Child,
    deadline: Duration,
) -> std::io::Result<Option<std::process::ExitStatus>> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if start.elapsed() >= deadline {
            // Ours, and stuck in foreign code.
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(POLL);
    }
}

fn how(status: std::process::ExitStatus) -> String {
    match status.signal() {
        Some(signal) => format!("killed by signal {signal} ({})", signal_name(signal)),
        None => format!(
            "it ended by itself with status {}",
            status.code().unwrap_or(-1)
        ),
    }
}

const fn signal_name(signal: i32) -> &'static str {
    match signal {
        libc::SIGBUS => "SIGBUS: the file of a library is shorter than it says, or memory ran out",
        libc::SIGSEGV => "SIGSEGV: a crash in the plugin, or in what it uses",
        libc::SIGABRT => "SIGABRT: a library gave up; its last line says why",
        libc::SIGILL => "SIGILL: built for another processor",
        libc::SIGKILL => "SIGKILL: by the out-of-memory killer, or by somebody",
        _ => "see signal(7)",
    }
}

fn read_in_thread<R: Read + Send + 'static>(
    from: R,
    read: fn(R) -> Vec<String>,
) -> std::io::Result<Receiver<Vec<String>>> {
    let (to, result) = channel();
    let thread = std::thread::Builder::new().name("probe".to_owned());
    thread.spawn(move || drop(to.send(read(from))))?;
    Ok(result)
}

fn read_all<R: Read>(from: R) -> Vec<String> {
    let mut bytes = Vec::new();
    drop(from.take(ANSWER_MAX).read_to_end(&mut bytes));
    vec![String::from_utf8_lossy(&bytes).into_owned()]
}

fn read_lines<R: Read>(from: R) -> Vec<String> {
    let lines = BufReader::new(from.take(ANSWER_MAX)).split(b'\n');
    let lines = lines.map_while(Result::ok).take(LOG_LINES_MAX);
    lines
        .map(|line| String::from_utf8_lossy(&line).into_owned())
        .collect()
}

/// The child's side.
pub(crate) fn run_child(args: &ProbeArgs) -> ExitCode {
    process::die_with_parent();
    if std::os::unix::process::parent_id() != args.parent {
        return ExitCode::FAILURE;
    }
    logger::configure(0, WARN);
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
    // What it left open is not what this is about.
    drop(plugin.fini());
    Ok(Answer::Started { name, devices })
}

#[cfg(test)]
mod tests {
    use super::{Outcome, watch};
    use core::time::Duration;
    use std::process::{Command, Stdio};

    fn shell(script: &str, deadline_ms: u64) -> Outcome {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        watch(command, Duration::from_millis(deadline_ms)).unwrap()
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
        let refused = shell(r#"echo '{"Refused":{"stage":"init","why":"no"}}'"#, 10_000);
        assert!(matches!(refused, Outcome::Refused { .. }), "{refused:?}");
        let silent = shell("echo here >&2; exec sleep 600", 50);
        assert!(
            matches!(&silent, Outcome::Silent { log, .. } if log == &["here"]),
            "{silent:?}"
        );
    }
}
