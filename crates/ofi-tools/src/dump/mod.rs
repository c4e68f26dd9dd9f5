//! `ofi dump`: joins the state dumps of the processes of a job, and names who is waited for.
//!
//! ```text
//! files --> Job (load: who is silent; lives: the newest dump of each process of the last run)
//!             +--> waits (blame: each stuck communicator, with both ends looked at)
//!                    +--> verdict (follow: from who waits to who is waited for, to the end)
//!                           +--> text | JSON
//! ```

mod blame;
mod follow;
mod lives;
mod load;
mod nics;
mod report;
mod rings;

use core::time::Duration;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::report::out;
pub(crate) use lives::newest;
use load::Job;
pub(crate) use load::{parse, read};

#[derive(Debug, Args)]
pub(crate) struct DumpArgs {
    /// Directories that `OFI_NCCL_DUMP_DIR` named, or dumps
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Ask the processes for new dumps first, and give them so many seconds to answer
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    ask: Option<u64>,
    /// One JSON object (docs/json.md)
    #[arg(long)]
    json: bool,
}

/// Prints the verdict; 1 if somebody is waited for or silent, 2 if a file cannot be read or is no dump.
pub(crate) fn run(args: &DumpArgs) -> ExitCode {
    if let Some(seconds) = args.ask {
        if let Err(error) = load::ask(&args.paths) {
            out::error_line(&format!("ofi dump: {error}"));
            return ExitCode::from(2);
        }
        std::thread::sleep(Duration::from_secs(seconds));
    }
    let (dumps, refused) = read(&args.paths);
    for error in &refused {
        out::error_line(&format!("ofi dump: {error}"));
    }
    if dumps.is_empty() {
        if refused.is_empty() {
            out::error_line(
                "ofi dump: no dumps there\n  likely: OFI_NCCL_DUMP_DIR was not set for the job, or names \
                 another directory, or nothing has stalled yet\n  do: `ofi dump --ask 5 DIR` asks for them",
            );
        }
        return ExitCode::from(2);
    }
    let job = Job::of(dumps, &refused, load::triggers(&args.paths));
    let waits = blame::waits(&job);
    let verdicts = follow::verdicts(&job, &waits);
    if args.json {
        out::line(&report::json(&job, &waits, &verdicts).to_string());
    } else {
        for line in report::text(&job, &waits, &verdicts) {
            out::line(&line);
        }
    }
    match (refused.is_empty(), verdicts.is_empty()) {
        (false, _) => ExitCode::from(2),
        (true, false) => ExitCode::from(1),
        (true, true) => ExitCode::SUCCESS,
    }
}
