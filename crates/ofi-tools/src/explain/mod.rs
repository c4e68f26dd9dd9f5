//! `ofi explain`: which network a run used, by its log, and what went wrong first.
//!
//! ```text
//! logs --> lines (bounded) --+--> facts: network, versions, provider --(what a process got)--+
//!                            +--> seen: rows of the table of known lines, codes of our <-----+
//!                            |      plugins (decoded), calls that failed with a number (calls);
//!                            |      by process and time (mark)
//!                            |      --> first cause, what follows, verdict
//!                            +--> unknown: lines that warn of something else
//! ```

mod calls;
mod decoded;
mod entry;
mod facts;
mod lines;
mod mark;
mod pattern;
mod seen;
mod unknown;

use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use crate::report::out;
pub(crate) use decoded::nearer;
use facts::Facts;
use pattern::Kind;
use seen::{At, Gathered, Seen};

/// Something went wrong, or sockets were used.
const FOUND: u8 = 1;
/// A file cannot be read, or has nothing of such a run.
const USAGE: u8 = 2;
/// Raised when a field changes its meaning or goes.
const SCHEMA: u32 = 1;
/// Of each kind, so many are shown.
const SHOWN: usize = 5;

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// Logs of NCCL (`NCCL_DEBUG=INFO` or WARN) or of Neuron, of any plugin; - for standard input. Or codes,
    /// such as OFI-E0501: their entries are printed
    #[arg(required = true, value_name = "LOG|CODE")]
    files: Vec<PathBuf>,
    /// Print JSON in place of text
    #[arg(long)]
    json: bool,
}

/// Reads, and prints what it means.
pub(crate) fn run(args: &ExplainArgs) -> ExitCode {
    let (words, files): (Vec<_>, Vec<_>) = args.files.iter().partition(|word| is_code(word));
    let mut codes = Vec::new();
    for word in words {
        let Some(entry) = entry::of(&word.to_string_lossy()) else {
            out::error_line(&format!("ofi explain: there is no code {}", word.display()));
            return ExitCode::from(USAGE);
        };
        codes.push(entry);
    }
    let mut log = Log::new();
    for file in &files {
        if let Err(error) = log.read(file) {
            out::error_line(&format!("ofi explain: {}: {error}", file.display()));
            return ExitCode::from(USAGE);
        }
    }
    log.gathered.settle();
    if args.json {
        let mut value = match files.is_empty() {
            true => {
                json!({"schema": SCHEMA, "tool": "ofi explain", "version": env!("CARGO_PKG_VERSION")})
            }
            false => log.json(),
        };
        value["codes"] = codes.iter().map(entry::Entry::json).collect();
        out::line(&format!("{value:#}"));
    } else {
        for (n, code) in codes.iter().enumerate() {
            if n > 0 {
                out::line("");
            }
            code.text().iter().for_each(|line| out::line(line));
        }
        if !files.is_empty() {
            log.text().iter().for_each(|line| out::line(line));
        }
    }
    match files.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(log.verdict().1),
    }
}

/// A code rather than a log: it is one, or looks like one and no file has that name.
fn is_code(word: &Path) -> bool {
    let text = word.to_string_lossy();
    let looks = text.to_ascii_uppercase().starts_with("OFI-");
    !word.exists() && (looks || entry::of(&text).is_some())
}

/// By what a file begins with: what it is, if no text of bytes, and what makes it one.
fn encoded(bytes: &[u8]) -> Option<(&'static str, &'static str)> {
    const KINDS: [(&[u8], &str, &str); 6] = [
        (&[0x1f, 0x8b], "compressed (gzip)", "zcat"),
        (&[0x28, 0xb5, 0x2f, 0xfd], "compressed (zstd)", "zstdcat"),
        (&[0xfd, b'7', b'z', b'X', b'Z'], "compressed (xz)", "xzcat"),
        (b"BZh", "compressed (bzip2)", "bzcat"),
        // Byte order marks.
        (&[0xff, 0xfe], "UTF-16", "iconv -f UTF-16"),
        (&[0xfe, 0xff], "UTF-16", "iconv -f UTF-16"),
    ];
    let found = KINDS.iter().find(|(magic, ..)| bytes.starts_with(magic));
    found.map(|&(_, of, with)| (of, with))
}

struct Log {
    files: usize,
    lines: u64,
    facts: Facts,
    gathered: Gathered,
}

impl Log {
    fn new() -> Self {
        Self {
            files: 0,
            lines: 0,
            facts: Facts::default(),
            gathered: Gathered::new(),
        }
    }

    fn read(&mut self, file: &Path) -> io::Result<()> {
        self.files += 1;
        if file.as_os_str() == "-" {
            return self.take("standard input", io::stdin().lock());
        }
        let mut from = BufReader::new(File::open(file)?);
        if let Some((of, with)) = encoded(from.fill_buf()?) {
            let text = format!("it is {of}: {with} it, and give it to `ofi explain -`");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        self.take(&file.to_string_lossy(), from)
    }

    fn take(&mut self, name: &str, from: impl io::BufRead) -> io::Result<()> {
        let (mut number, mut time) = (0, None);
        let file = (self.files, name);
        lines::each(from, |line| {
            number += 1;
            let small = line.to_ascii_lowercase();
            time = mark::time(line).or(time);
            let told = self.facts.take(line, &small);
            let line_at = At {
                file,
                line: number,
                time,
            };
            self.gathered.is_elsewhere = matches!(self.facts.providers_of_efa(), (0, 1..));
            self.gathered.take(line_at, (line, &small), told);
        })?;
        self.lines += number;
        Ok(())
    }

    /// The first cause; where there is none, the first of what only follows.
    fn first(&self) -> Option<&Seen> {
        let of = |kind| self.gathered.of(kind).into_iter().next();
        of(Kind::Cause).or_else(|| of(Kind::Follow))
    }

    /// A warning that no table knows, in front of what is a symptom alone: the cause is rather there.
    fn unknown_before(&self, first: &Seen) -> Option<&unknown::Line> {
        let is_symptom = first.meaning.kind == Kind::Follow;
        let mut lines = self.gathered.unknown.first.iter();
        lines.find(|line| is_symptom && line.file == first.file && line.line < first.line)
    }

    /// In a sentence, and as a status.
    fn verdict(&self) -> (String, u8) {
        let first = self.first();
        let because = match first {
            Some(seen) => format!(" because {}", seen.meaning.what),
            None => "; why is not in it: run ofi doctor on that host".to_owned(),
        };
        if let Some(others) = self.facts.others() {
            let mixed = match self.facts.has_libfabric() {
                true => "SOME RANKS ARE NOT USING LIBFABRIC",
                false => "NOT USING LIBFABRIC",
            };
            return (format!("{mixed}: {others}{because}"), FOUND);
        }
        if let Some(first) = first {
            let what = match self.unknown_before(first) {
                Some(line) => format!(
                    "line {} warns of what is not known here, before anything known: {}",
                    line.line, line.text
                ),
                None => first.meaning.what.clone(),
            };
            return (format!("it went wrong: {what}"), FOUND);
        }
        let providers = self.facts.providers.join(", ");
        let (efa, not_efa) = self.facts.providers_of_efa();
        if efa > 0 && not_efa > 0 {
            return (
                format!("SOME RANKS ARE NOT USING EFA: providers {providers}"),
                FOUND,
            );
        }
        let used = match (self.facts.has_libfabric(), not_efa) {
            (true, 0) => "libfabric was used",
            (true, _) => &*format!("libfabric was used, over {providers} and not over EFA"),
            (false, _) => "which network was used is not in it (NCCL_DEBUG=INFO says it)",
        };
        let unknown = self.gathered.unknown.count;
        if unknown > 0 {
            let text =
                format!("{used}; {unknown} lines warn of what is not known here: read the first");
            return (text, FOUND);
        }
        if self.facts.known_lines == 0 {
            let text = "there is nothing of NCCL, Neuron or their plugins in it";
            return (text.to_owned(), USAGE);
        }
        let and = if self.facts.has_libfabric() {
            ", and"
        } else {
            ";"
        };
        (format!("{used}{and} nothing known went wrong"), 0)
    }

    /// Whether causes stand in several logs of which one has no times.
    fn is_order_unknown(&self) -> bool {
        let causes = self.gathered.of(Kind::Cause);
        let first = causes.first().map(|seen| &seen.file);
        let is_several = causes.iter().any(|seen| Some(&seen.file) != first);
        is_several && causes.iter().any(|seen| seen.time.is_none())
    }

    fn text(&self) -> Vec<String> {
        let mut text = vec![format!(
            "ofi explain: {} files, {} lines",
            self.files, self.lines
        )];
        let networks = self.facts.networks.iter();
        let networks: Vec<String> = networks
            .map(|(name, n)| format!("{name} ({n} lines)"))
            .collect();
        let versions: Vec<String> = (self.facts.versions.iter())
            .map(|(of, version)| format!("{of} {version}"))
            .collect();
        for (name, list) in [
            ("network", networks),
            ("provider", self.facts.providers.clone()),
            ("versions", versions),
        ] {
            let list = if list.is_empty() {
                "not said".to_owned()
            } else {
                list.join(", ")
            };
            let list: String = list
                .chars()
                .map(|c| if c.is_control() { '?' } else { c })
                .collect();
            text.push(format!("  {name:<10} {list}"));
        }
        let causes = self.gathered.of(Kind::Cause);
        for (index, seen) in causes.iter().take(SHOWN).enumerate() {
            let head = if index == 0 { "first cause" } else { "besides" };
            text.extend(shown(head, seen));
        }
        let follow = self.gathered.of(Kind::Follow);
        let head = if causes.is_empty() {
            "only a symptom"
        } else {
            "follows"
        };
        for seen in follow.iter().take(SHOWN) {
            text.extend(shown(head, seen));
        }
        for seen in self.gathered.of(Kind::Note).iter().take(SHOWN) {
            text.extend(shown("note", seen));
        }
        text.extend(self.unknown());
        text.push(String::new());
        if self.is_order_unknown() {
            text.push(
                "some of these logs have no times: which cause was first of all is a guess"
                    .to_owned(),
            );
        }
        text.push(format!("verdict: {}", self.verdict().0));
        text
    }

    fn unknown(&self) -> Vec<String> {
        let unknown = &self.gathered.unknown;
        if unknown.count == 0 {
            return Vec::new();
        }
        let head = format!(
            "not known here: {} lines that warn of something, of {} kinds",
            unknown.count,
            unknown.kinds()
        );
        let first = unknown.first.iter();
        let first = first.map(|line| format!("    {}:{}: {}", line.file, line.line, line.text));
        [String::new(), head].into_iter().chain(first).collect()
    }

    fn json(&self) -> Value {
        let list = |kind| -> Vec<Value> { self.gathered.of(kind).into_iter().map(value).collect() };
        let (verdict, status) = self.verdict();
        let versions = self.facts.versions.iter();
        let versions: Vec<Value> = versions
            .map(|(of, version)| json!({"component": of, "version": version}))
            .collect();
        json!({
            "schema": SCHEMA,
            "tool": "ofi explain",
            "version": env!("CARGO_PKG_VERSION"),
            "ok": status == 0,
            "verdict": verdict,
            "lines": self.lines,
            "networks": self.facts.networks,
            "providers": self.facts.providers,
            "versions": versions,
            "causes": list(Kind::Cause),
            "consequences": list(Kind::Follow),
            "notes": list(Kind::Note),
            "order_is_known": !self.is_order_unknown(),
            "unknown": {
                "lines": self.gathered.unknown.count,
                "kinds": self.gathered.unknown.kinds(),
                "first": self.gathered.unknown.first.iter().map(|line| {
                    json!({"file": line.file, "line": line.line, "text": line.text})
                }).collect::<Vec<_>>(),
            },
        })
    }
}

fn shown(head: &str, seen: &Seen) -> Vec<String> {
    let times = match seen.count {
        1 => String::new(),
        n => format!(" ({n} times)"),
    };
    vec![
        String::new(),
        format!("{head}: {}{times}", seen.meaning.what),
        format!("    {}:{}: {}", seen.file, seen.line, seen.text),
        format!("    fix: {} [{}]", seen.meaning.fix, seen.meaning.source),
    ]
}

fn value(seen: &Seen) -> Value {
    json!({
        "what": seen.meaning.what,
        "fix": seen.meaning.fix,
        "source": seen.meaning.source,
        "file": seen.file,
        "line": seen.line,
        "text": seen.text,
        "count": seen.count,
    })
}
