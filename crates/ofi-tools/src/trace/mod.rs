//! `ofi trace`: the wire traces of one or several processes as lines in the order of time.
//!
//! ```text
//! files --> View (a file: names, operations) --> Line --> text | JSON | Chrome trace events
//!               +--> what was never completed, totals
//! ```

mod chrome;
mod line;
mod message;
mod view;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use ofi_trace::{Reader, Stamped, TraceError};

use crate::report::out;
use chrome::Chrome;
use line::printable;
use view::{View, lane_name};

/// Operations that did not complete are listed up to so many a file.
const OPEN_MAX: usize = 20;

#[derive(Debug, Args)]
pub(crate) struct TraceArgs {
    /// Files that `OFI_NCCL_TRACE_FILE` named; lines of several are put in the order of time
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

/// Prints the traces; 1 if a file is damaged, 2 if one cannot be read or is no trace.
pub(crate) fn run(args: &TraceArgs) -> ExitCode {
    let mut bytes = Vec::new();
    for file in &args.files {
        match std::fs::read(file) {
            Ok(read) => bytes.push(read),
            Err(error) => {
                out::error_line(&format!("ofi trace: {}: {error}", file.display()));
                return ExitCode::from(2);
            }
        }
    }
    let mut sources = Vec::new();
    for (file, bytes) in args.files.iter().zip(&bytes) {
        match Source::open(file, bytes) {
            Ok(source) => sources.push(source),
            Err(error) => {
                out::error_line(&format!("ofi trace: {}: {error}", file.display()));
                return ExitCode::from(2);
            }
        }
    }
    let zero_ns = sources
        .iter()
        .map(|source| source.view.started_ns)
        .min()
        .unwrap_or(0);
    let mut chrome = Chrome::default();
    if args.chrome {
        out::line(Chrome::HEAD);
    }
    while let Some(source) = next_in_time(&mut sources) {
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
        for source in &sources {
            source
                .summary(zero_ns)
                .iter()
                .for_each(|line| out::line(line));
        }
    }
    let damaged = sources.iter().filter(|source| source.report_damage());
    ExitCode::from(u8::from(damaged.count() > 0))
}

/// One file while it is read.
struct Source<'a> {
    file: &'a Path,
    view: View,
    reader: Reader<'a>,
    next: Option<Stamped<'a>>,
    damage: Option<TraceError>,
}

impl<'a> Source<'a> {
    fn open(file: &'a Path, bytes: &'a [u8]) -> Result<Self, TraceError> {
        let (header, reader) = Reader::open(bytes)?;
        let mut source = Self {
            file,
            view: View::new(&header),
            reader,
            next: None,
            damage: None,
        };
        source.advance();
        Ok(source)
    }

    /// The record at hand; reads the one after it.
    fn advance(&mut self) -> Option<Stamped<'a>> {
        let next = match self.reader.next() {
            Some(Ok(next)) => Some(next),
            Some(Err(error)) => {
                self.damage = Some(error);
                None
            }
            None => None,
        };
        core::mem::replace(&mut self.next, next)
    }

    fn summary(&self, zero_ns: u64) -> Vec<String> {
        let mut lines = vec![format!(
            "== {} ({})",
            printable(&self.view.who),
            self.file.display()
        )];
        for (domain, lane, verb, total) in self.view.totals() {
            let lane = lane_name(lane);
            lines.push(format!(
                "   d{domain} {lane:<5} {verb:<12} {:>9} {:>15} B",
                total.count, total.bytes
            ));
        }
        let open = self.view.open();
        lines.push(format!(
            "   operations that never completed: {}",
            open.len()
        ));
        for open in open.iter().take(OPEN_MAX) {
            let since = open.at_ns.saturating_sub(zero_ns);
            lines.push(format!(
                "      op={} d{} {} {} of {} B to {}, posted at {}.{:06}",
                open.number,
                open.domain,
                lane_name(open.lane),
                open.verb,
                open.bytes,
                open.peer,
                since / 1_000_000_000,
                since % 1_000_000_000 / 1000
            ));
        }
        if let Some(more) = open.len().checked_sub(OPEN_MAX).filter(|&more| more > 0) {
            lines.push(format!("      and {more} more"));
        }
        if self.reader.is_cut() {
            lines.push(
                "   the last record is cut off: the process was killed, or is running".to_owned(),
            );
        }
        if self.reader.unknown() > 0 {
            lines.push(format!(
                "   {} records of kinds that this version does not know",
                self.reader.unknown()
            ));
        }
        lines
    }

    /// Says what is damaged; whether anything is.
    fn report_damage(&self) -> bool {
        let Some(error) = self.damage else {
            return false;
        };
        out::error_line(&format!(
            "ofi trace: {}: {error}; what follows is lost",
            self.file.display()
        ));
        true
    }
}

/// The file whose next record is the earliest.
fn next_in_time<'s, 'a>(sources: &'s mut [Source<'a>]) -> Option<&'s mut Source<'a>> {
    let with_next = sources.iter_mut().filter_map(|source| {
        let time = source.view.time(source.next.as_ref()?);
        Some((time, source))
    });
    with_next
        .min_by_key(|(time, _)| *time)
        .map(|(_, source)| source)
}
