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

/// Prints the records; 1 if a file is damaged, 2 if one cannot be read or has no records.
pub(crate) fn run(args: &TraceArgs) -> ExitCode {
    let contents = source::read(&args.files);
    let opened = contents.as_ref().map_err(Clone::clone).and_then(|all| {
        let opened = all.iter().map(Source::open);
        opened.collect::<Result<Vec<_>, _>>()
    });
    match opened {
        Ok(mut sources) => {
            show(args, &mut sources);
            let damaged: Vec<String> = sources.iter().filter_map(Source::damage).collect();
            for what in &damaged {
                out::error_line(&format!("ofi trace: {what}"));
            }
            ExitCode::from(u8::from(!damaged.is_empty()))
        }
        Err(why) => {
            out::error_line(&format!("ofi trace: {why}"));
            ExitCode::from(2)
        }
    }
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
