//! `ofi raw`: the same operations written straight against efa-fabric, with no engine, and a plugin
//! beside them.
//!
//! ```text
//! mod      the command: rounds of raw runs and of the plugin's, in turn
//!   plan     which operations make a message
//!   rank     what a rank does: modes, points, clock
//!     wires    a window of messages over all rails
//!       rails    endpoints, queues and memory as the engine opens them
//!       posts    the calls; all unsafe code of this module
//!   table    what came of it, and the plugin's share
//! ```
//!
//! Each round is a run of its own, in processes of its own: two endpoints in one process would see
//! each other's load, and some providers do not stand it. What is compared is the median of the rounds.

pub(crate) mod plan;
mod posts;
mod rails;
pub(crate) mod rank;
mod table;
mod wires;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use self::plan::Wire;
use self::table::{Engine, Results};
use crate::abi::Flavor;
use crate::bench::plan::{Mode, Override, Plan, Yield};
use crate::cli::{Sizes, within};
use crate::coord::hub::{Hub, Verdict};
use crate::report::out;

/// The command line of `ofi raw`.
#[derive(Debug, Args)]
pub(crate) struct RawArgs {
    /// What to measure
    #[arg(value_enum, default_values = ["lat", "bw", "rate"])]
    modes: Vec<Mode>,
    /// The operations of a message, each in turn
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["rendezvous", "eager", "write"])]
    wire: Vec<Wire>,
    /// A plugin to measure beside them
    #[arg(long)]
    plugin: Option<PathBuf>,
    /// Its table
    #[arg(long, default_value = "ncclNetPlugin_v6")]
    symbol: String,
    /// Sizes in bytes: a list such as 0,8,64K,1M with ranges such as 1:64M:x2
    #[arg(long)]
    sizes: Option<Sizes>,
    /// Messages in flight; several are run in turn
    #[arg(long, value_delimiter = ',')]
    window: Vec<usize>,
    /// Communicators of the plugin (bw, rate); the raw runs have one
    #[arg(long, default_value_t = 1)]
    comms: usize,
    /// Number of the device
    #[arg(long, default_value_t = 0)]
    device: usize,
    /// Messages of a point [default: as many as fit in --seconds]
    #[arg(long)]
    iters: Option<u64>,
    /// Time of a point
    #[arg(long, default_value_t = 0.25)]
    seconds: f64,
    /// Runs of each; the median counts
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// What a rank does between polls that found nothing
    #[arg(long = "yield", value_enum, default_value = "auto")]
    yielding: Yield,
    /// A variable for the ranks, or for one of them
    #[arg(long, value_name = "[RANK:]NAME=VALUE")]
    env: Vec<Override>,
    /// Seconds for one run
    #[arg(long, default_value_t = 120.0)]
    timeout: f64,
    /// Write the results as JSON; - for standard output, in place of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Largest message.
const MESSAGE_MAX: usize = 512 << 20;

/// Runs `ofi raw`.
pub(crate) fn run(args: &RawArgs) -> ExitCode {
    let engines = match args.engines() {
        Ok(engines) => engines,
        Err(text) => return failed(2, &text),
    };
    let mut results = Results::default();
    for round in 1..=args.rounds {
        for (engine, plan) in &engines {
            match measure(plan) {
                Ok((rows, memory)) => results.add(*engine, rows, memory),
                Err((code, text)) => {
                    let text = format!("round {round}, {}: {text}", engine.name());
                    return failed(code, &text);
                }
            }
        }
    }
    results
        .tell(args.json.as_deref())
        .map_or_else(|text| failed(1, &text), |()| ExitCode::SUCCESS)
}

fn failed(code: u8, text: &str) -> ExitCode {
    out::error_line(&format!("ofi raw: {text}"));
    ExitCode::from(code)
}

/// One run of two ranks: its rows, and the largest resident memory of a rank in KiB.
fn measure(plan: &Plan) -> Result<(Vec<crate::report::row::Row>, u64), (u8, String)> {
    let mut hub = Hub::new(plan.clone(), String::new(), false);
    for rank in 0..plan.ranks {
        hub.start_child(rank)
            .map_err(|e| (1, format!("rank {rank} cannot be started: {e}")))?;
    }
    let outcome = hub.run();
    match outcome.verdict {
        Verdict::Good => {
            let memory = outcome.summaries.iter().flatten().map(|s| s.memory_kib);
            Ok((outcome.rows, memory.max().unwrap_or(0)))
        }
        Verdict::Failed(why) => Err((1, why)),
        Verdict::Stuck(why) => Err((3, why)),
    }
}

impl RawArgs {
    /// What is run in each round.
    fn engines(&self) -> Result<Vec<(Engine, Plan)>, String> {
        let plan = self.plan()?;
        let raw = |&wire: &Wire| {
            let plan = Plan {
                raw: Some(wire),
                ..plan.clone()
            };
            (Engine::Raw(wire), plan)
        };
        let mut engines: Vec<_> = self.wire.iter().map(raw).collect();
        if let Some(path) = &self.plugin {
            let flavor = Flavor::guess(path).map_err(|e| e.to_string())?;
            let plan = Plan {
                plugins: vec![path.clone()],
                symbols: vec![self.symbol.clone()],
                flavors: vec![flavor],
                comms: self.comms,
                ..plan
            };
            engines.push((Engine::Plugin, plan));
        }
        Ok(engines)
    }

    fn plan(&self) -> Result<Plan, String> {
        let known = |m: &Mode| matches!(m, Mode::Lat | Mode::Bw | Mode::Bidir | Mode::Rate);
        if let Some(mode) = self.modes.iter().find(|m| !known(m)) {
            let name = mode.name();
            return Err(format!(
                "{name} has no raw equivalent; there are lat, bw, bidir, rate"
            ));
        }
        let sizes = self.sizes.as_ref().map(|s| s.list().to_vec());
        let sizes = sizes.unwrap_or_default();
        within("--rounds", self.rounds, 1, 1000)?;
        within("--comms", self.comms, 1, 256)?;
        let largest = sizes.iter().max().copied().unwrap_or(0);
        within("the largest of --sizes", largest, 0, MESSAGE_MAX)?;
        for &window in &self.window {
            within("--window", window, 1, 128)?;
        }
        if !(self.seconds > 0.0 && self.seconds <= 3600.0 && self.timeout > 0.0) {
            return Err(
                "--seconds can be more than 0, up to 3600; --timeout more than 0".to_owned(),
            );
        }
        if self.iters == Some(0) {
            return Err("--iters is at least 1".to_owned());
        }
        Ok(Plan {
            devices: vec![self.device],
            modes: self.modes.clone(),
            sizes,
            windows: self.window.clone(),
            iters: self.iters,
            seconds: self.seconds,
            yielding: self.yielding,
            timeout: self.timeout,
            env: self.env.clone(),
            ..Plan::of_two()
        })
    }
}
