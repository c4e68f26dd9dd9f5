//! `ofi stats` and `ofi top`: the counters that processes keep in files (`OFI_NCCL_STATS_DIR`).
//!
//! ```text
//! files --> source: Source (a snapshot, whose process lives or not, its NICs' own counters now)
//!             +--> text | json | prometheus          ofi stats
//!             +--> two of them --> rates --> top     ofi top
//! ```

mod json;
mod prometheus;
mod rates;
mod source;
mod text;
mod top;

pub(crate) use top::{TopArgs, run as run_top};

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use crate::report::out;
use source::{Life, Source};

/// There are files, or directories, and no counters in them.
const NOBODY: &str = "no process counts here";

/// Where to look, and for what.
#[derive(Debug, Args)]
pub(crate) struct Where {
    /// Files, or directories of them [default: the directory that `OFI_NCCL_STATS_DIR` names]
    paths: Vec<PathBuf>,
    /// Where sys is for the counters of NICs, in place of /
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
}

impl Where {
    /// The files that are there. The error is text for the user.
    fn files(&self) -> Result<Vec<PathBuf>, String> {
        let of_job = std::env::var_os("OFI_NCCL_STATS_DIR").filter(|dir| !dir.is_empty());
        let paths = match (self.paths.as_slice(), of_job) {
            ([], Some(dir)) => vec![PathBuf::from(dir)],
            ([], None) => {
                return Err(
                    "no directory: name one, or set OFI_NCCL_STATS_DIR as the job has it"
                        .to_owned(),
                );
            }
            (paths, _) => paths.to_vec(),
        };
        let mut files = Vec::new();
        for path in paths {
            if path.is_dir() {
                files.extend(files_in(&path)?);
            } else if path.exists() {
                files.push(path);
            } else {
                return Err(format!("{}: no such file or directory", path.display()));
            }
        }
        Ok(files)
    }
}

/// The files of counters in a directory, by name.
fn files_in(dir: &Path) -> Result<Vec<PathBuf>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", dir.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_one = name.starts_with("ofi-") && name.contains(".stats");
        // A link, a pipe or a directory of such a name is somebody else's.
        if is_one && entry.file_type().is_ok_and(|kind| kind.is_file()) {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

#[derive(Debug, Args)]
pub(crate) struct StatsArgs {
    #[command(flatten)]
    place: Where,
    /// JSON: an object with a list of processes
    #[arg(long, conflicts_with = "prometheus")]
    json: bool,
    /// The text format that Prometheus collects, for example through a textfile collector
    #[arg(long)]
    prometheus: bool,
    /// Removes the files of processes that have ended or died, and says which
    #[arg(long, conflicts_with_all = ["json", "prometheus"])]
    clean: bool,
}

/// Prints the counters; 1 if a file is none or damaged, 2 if there is nothing to look at.
pub(crate) fn run(args: &StatsArgs) -> ExitCode {
    let files = match args.place.files() {
        Ok(files) => files,
        Err(error) => return nothing("stats", &error),
    };
    let (sources, failed) = Source::open_all(&files, &args.place.root, "stats");
    if args.clean {
        return clean(&sources, failed);
    }
    if args.json {
        out::line(&json::all(&sources).to_string());
    } else if args.prometheus {
        prometheus::lines(&sources)
            .iter()
            .for_each(|line| out::line(line));
    } else {
        text::lines(&sources)
            .iter()
            .for_each(|line| out::line(line));
    }
    if sources.is_empty() && !failed {
        return nothing("stats", NOBODY);
    }
    ExitCode::from(u8::from(failed))
}

fn nothing(command: &str, error: &str) -> ExitCode {
    out::error_line(&format!("ofi {command}: {error}"));
    ExitCode::from(2)
}

fn clean(sources: &[Source], mut failed: bool) -> ExitCode {
    for source in sources {
        let path = source.path.display();
        match source.life {
            Life::Live => {}
            Life::Elsewhere => out::line(&format!("kept: {path}: of another host or container")),
            Life::Ended | Life::Dead => match std::fs::remove_file(&source.path) {
                Ok(()) => out::line(&format!("removed: {path}: {}", source.life.name())),
                Err(error) => {
                    failed = true;
                    out::error_line(&format!("ofi stats: {path}: {error}"));
                }
            },
        }
    }
    ExitCode::from(u8::from(failed))
}
