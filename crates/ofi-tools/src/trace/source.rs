//! From files to records in the order of time: wire traces, and what state dumps have of each domain.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use ofi_net::dump::{Domain, Dump};
use ofi_net::shared;
use ofi_trace::{Header, Reader, Stamped, TraceError};

use super::line::printable;
use super::view::{View, lane_name, towards};
use crate::dump as dumps;

/// Operations that did not complete are listed up to so many a source.
const OPEN_MAX: usize = 20;

/// Beginning of a wire trace: a dump, which is JSON, has none of it.
const MAGIC: &[u8] = b"OFITRACE";

/// What was read.
pub(super) enum Content {
    /// A wire trace.
    Trace { path: PathBuf, bytes: Vec<u8> },
    /// A domain of a process that wrote a state dump.
    Domain {
        /// The file's, and what the log calls the domain.
        title: String,
        header: Header,
        /// Its place in the dump.
        number: u16,
        lost: u64,
        records: Vec<u8>,
    },
}

/// Reads all files; of a directory the dumps in it, and of several dumps of one process the newest. Second: what
/// cannot be read, or is neither, for the others are no worse for it.
///
/// # Errors
/// Nothing has records: why.
pub(super) fn read(paths: &[PathBuf]) -> Result<(Vec<Content>, Vec<String>), Vec<String>> {
    let (mut contents, mut found) = (Vec::new(), Vec::new());
    let mut refused = Vec::new();
    for path in paths {
        if path.is_dir() {
            let (dumps, others) = dumps::read(core::slice::from_ref(path));
            found.extend(dumps);
            refused.extend(others.iter().map(ToString::to_string));
            continue;
        }
        match read_file(path) {
            Ok(File::Dump(dump)) => found.push(*dump),
            Ok(File::Trace(trace)) => contents.push(trace),
            Err(what) => refused.push(format!("{}: {what}", path.display())),
        }
    }
    for dump in dumps::newest(found) {
        for (number, domain) in (0..).zip(&dump.domains) {
            match of_domain(&dump, number, domain) {
                Ok(content) => contents.extend(content),
                Err(what) => refused.push(what),
            }
        }
    }
    if contents.is_empty() && refused.is_empty() {
        refused.push(
            "no records in these dumps\n  likely: OFI_NCCL_TRACE_RING was not set for the job, or nothing \
             had gone over its rails"
                .to_owned(),
        );
    }
    if contents.is_empty() {
        return Err(refused);
    }
    Ok((contents, refused))
}

/// What a file is.
enum File {
    Dump(Box<Dump>),
    /// Anything else is taken for a trace, until its beginning is looked at.
    Trace(Content),
}

fn read_file(path: &Path) -> Result<File, String> {
    let mut bytes = Vec::new();
    let read = shared::open_named(path).and_then(|mut file| file.read_to_end(&mut bytes));
    read.map_err(|error| error.to_string())?;
    if bytes.trim_ascii_start().starts_with(b"{") {
        return dumps::parse(&bytes).map(|dump| File::Dump(Box::new(dump)));
    }
    let path = path.to_owned();
    Ok(File::Trace(Content::Trace { path, bytes }))
}

/// The domain with that number; `None`: it has no records.
///
/// # Errors
/// What is among its records is none.
pub(super) fn of_domain(
    dump: &Dump,
    number: u16,
    domain: &Domain,
) -> Result<Option<Content>, String> {
    let Some(trace) = &domain.trace else {
        return Ok(None);
    };
    let process = &dump.process;
    let title = format!(
        "dump of process {} on {}, {}",
        process.pid, process.host, domain.label
    );
    let Some(records) = trace.to_bytes() else {
        return Err(format!(
            "{title}: a damaged dump: what is no record is among its records"
        ));
    };
    let header = Header {
        pid: process.pid,
        started_unix_ns: trace.started_unix_ns,
        host: process.host.clone(),
    };
    Ok(Some(Content::Domain {
        title,
        header,
        number,
        lost: trace.lost,
        records,
    }))
}

/// One of them while it is read.
pub(super) struct Source<'a> {
    title: String,
    /// The number of its domain, where that is not in the records.
    domain: Option<u16>,
    lost: u64,
    pub(super) view: View,
    reader: Reader<'a>,
    next: Option<Stamped<'a>>,
    damage: Option<TraceError>,
}

impl<'a> Source<'a> {
    /// At its first record.
    ///
    /// # Errors
    /// It is no wire trace.
    pub(super) fn open(content: &'a Content) -> Result<Self, String> {
        let (title, (header, reader), domain, lost) = match content {
            Content::Trace { path, bytes } => {
                let title = path.display().to_string();
                let opened = Reader::open(bytes).map_err(|error| wrong(path, bytes, error))?;
                (title, opened, None, 0)
            }
            Content::Domain {
                title,
                header,
                number,
                lost,
                records,
            } => {
                let opened = (header.clone(), Reader::of_records(records));
                (title.clone(), opened, Some(*number), *lost)
            }
        };
        let mut source = Self {
            title,
            domain,
            lost,
            view: View::new(&header),
            reader,
            next: None,
            damage: None,
        };
        source.advance();
        Ok(source)
    }

    /// The record at hand; reads the one after it.
    pub(super) fn advance(&mut self) -> Option<Stamped<'a>> {
        let next = match self.reader.next() {
            Some(Ok(next)) => Some(Stamped {
                domain: self.domain.unwrap_or(next.domain),
                ..next
            }),
            Some(Err(error)) => {
                self.damage = Some(error);
                None
            }
            None => None,
        };
        core::mem::replace(&mut self.next, next)
    }

    /// Totals, and what never completed.
    pub(super) fn summary(&self, zero_ns: u64) -> Vec<String> {
        let mut lines = vec![format!(
            "== {} ({})",
            printable(&self.view.who),
            printable(&self.title)
        )];
        if self.lost > 0 {
            lines.push(format!(
                "   the last records; {} before them are not kept",
                self.lost
            ));
        }
        for (domain, lane, verb, total) in self.view.totals() {
            let lane = lane_name(lane);
            lines.push(format!(
                "   d{domain} {lane:<5} {verb:<12} {:>9} {:>15} B",
                total.count, total.bytes
            ));
        }
        self.summary_of_open(zero_ns, &mut lines);
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

    fn summary_of_open(&self, zero_ns: u64, lines: &mut Vec<String>) {
        let open = self.view.open();
        lines.push(format!(
            "   operations that never completed: {}",
            open.len()
        ));
        for open in open.iter().take(OPEN_MAX) {
            let since = open.at_ns.saturating_sub(zero_ns);
            lines.push(format!(
                "      op={} d{} {} {} of {} B {} {}, posted at {}.{:06}",
                open.number,
                open.domain,
                lane_name(open.lane),
                open.verb,
                open.bytes,
                towards(open.verb),
                open.peer,
                since / 1_000_000_000,
                since % 1_000_000_000 / 1000
            ));
        }
        if let Some(more) = open.len().checked_sub(OPEN_MAX).filter(|&more| more > 0) {
            lines.push(format!("      and {more} more"));
        }
    }

    /// What is damaged, if anything is.
    pub(super) fn damage(&self) -> Option<String> {
        let error = self.damage?;
        Some(format!("{}: {error}; what follows is lost", self.title))
    }
}

/// Why a file is neither.
fn wrong(path: &Path, bytes: &[u8], error: TraceError) -> String {
    let neither = if bytes.starts_with(MAGIC) {
        ""
    } else {
        ", and no state dump, which is JSON"
    };
    format!("{}: {error}{neither}", path.display())
}

/// The one whose next record is the earliest.
pub(super) fn next_in_time<'s, 'a>(sources: &'s mut [Source<'a>]) -> Option<&'s mut Source<'a>> {
    let with_next = sources.iter_mut().filter_map(|source| {
        let time = source.view.time(source.next.as_ref()?);
        Some((time, source))
    });
    with_next
        .min_by_key(|(time, _)| *time)
        .map(|(_, source)| source)
}
