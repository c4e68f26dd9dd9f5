//! `ofi trace`: what went over the rails of one or several processes as lines in the order of time: all of it from
//! wire traces, the last of it from state dumps.
//!
//! ```text
//! files --> Source (a file, or a domain of a dump) --> View (names, operations) --> Line --> text | JSON | Chrome trace events
//!                                                        +--> what was never completed, totals
//! domain of a dump --> Recent: what it did last, for `ofi dump`
//! ```

mod chrome;
mod line;
mod message;
mod recent;
mod source;
mod view;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::report::out;
use chrome::Chrome;
pub(crate) use recent::{Event, Recent, Step, recent};
use source::{Source, next_in_time};

#[derive(Debug, Args)]
pub(crate) struct TraceArgs {
    /// Files that `OFI_NCCL_TRACE_FILE` named, state dumps of processes with `OFI_NCCL_TRACE_RING`, or directories
    /// of such; lines of several are put in the order of time
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// One JSON object a line, without the summary
    #[arg(long, conflicts_with = "summary")]
    json: bool,
    /// One JSON object of Chrome trace events, which Perfetto (ui.perfetto.dev) shows: a bar for each
    /// operation from its post to its end
    #[arg(long, conflicts_with_all = ["json", "summary"])]
    chrome: bool,
    /// Only the summary: totals, and operations that never completed
    #[arg(long)]
    summary: bool,
}

/// Prints the records; 1 if a file is damaged or cannot be read, 2 if none has records.
pub(crate) fn run(args: &TraceArgs) -> ExitCode {
    let (contents, mut refused) = match source::read(&args.files) {
        Ok(read) => read,
        Err(refused) => return told(&refused, 2),
    };
    let mut sources = Vec::new();
    for opened in contents.iter().map(Source::open) {
        match opened {
            Ok(source) => sources.push(source),
            Err(what) => refused.push(what),
        }
    }
    if sources.is_empty() {
        return told(&refused, 2);
    }
    show(args, &mut sources);
    refused.extend(sources.iter().filter_map(Source::damage));
    told(&refused, 1)
}

/// What could not be shown, last, where it is seen; that status if there is any.
fn told(refused: &[String], status: u8) -> ExitCode {
    for what in refused {
        out::error_line(&format!("ofi trace: {what}"));
    }
    ExitCode::from(if refused.is_empty() { 0 } else { status })
}

fn show(args: &TraceArgs, sources: &mut [Source<'_>]) {
    let started = sources.iter().map(|source| source.view.started_ns);
    let zero_ns = started.min().unwrap_or(0);
    let mut chrome = Chrome::default();
    if args.chrome {
        out::line(Chrome::HEAD);
    }
    while let Some(source) = next_in_time(sources) {
        let Some(stamped) = source.advance() else {
            continue;
        };
        let line = source.view.line(&stamped);
        if args.chrome {
            for event in chrome.events(line, zero_ns) {
                out::line(&format!("{event},"));
            }
        } else if args.json {
            out::line(&line.json().to_string());
        } else if !args.summary {
            out::line(&line.text(zero_ns));
        }
    }
    if args.chrome {
        out::line(&Chrome::tail());
    } else if !args.json {
        let lines = sources.iter().flat_map(|source| source.summary(zero_ns));
        lines.for_each(|line| out::line(&line));
    }
}
