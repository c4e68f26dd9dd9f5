//! `ofi explain`: which network a run used, by its log, and what went wrong first.
//!
//! ```text
//! logs --> lines (bounded) --+--> facts: network, versions, provider
//!                            +--> seen: rows of the table of known lines, codes of our plugins
//!                                   --> first cause, what follows, verdict
//! ```

mod entry;
mod facts;
mod lines;
mod pattern;
mod seen;

use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use crate::report::out;
use facts::Facts;
use pattern::Kind;
use seen::{Gathered, Seen};

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
    let mut log = Log::new();
    let (codes, files): (Vec<_>, Vec<_>) = args.files.iter().partition(|word| is_code(word));
    for (n, code) in codes.iter().enumerate() {
        let Some(text) = entry::of(&code.to_string_lossy()) else {
            out::error_line(&format!("ofi explain: there is no code {}", code.display()));
            return ExitCode::from(USAGE);
        };
        if n > 0 {
            out::line("");
        }
        text.iter().for_each(|line| out::line(line));
    }
    if files.is_empty() {
        return ExitCode::SUCCESS;
    }
    for file in files {
        if let Err(error) = log.read(file) {
            out::error_line(&format!("ofi explain: {}: {error}", file.display()));
            return ExitCode::from(USAGE);
        }
    }
    if args.json {
        out::line(&format!("{:#}", log.json()));
    } else {
        log.text().iter().for_each(|line| out::line(line));
    }
    ExitCode::from(log.verdict().1)
}

/// A code rather than a log: it is one, or looks like one and no file has that name.
fn is_code(word: &Path) -> bool {
    let text = word.to_string_lossy();
    let looks = text.to_ascii_uppercase().starts_with("OFI-");
    !word.exists() && (looks || entry::of(&text).is_some())
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
        self.take(&file.to_string_lossy(), BufReader::new(File::open(file)?))
    }

    fn take(&mut self, name: &str, from: impl io::BufRead) -> io::Result<()> {
        let mut number = 0;
        lines::each(from, |line| {
            number += 1;
            let small = line.to_ascii_lowercase();
            self.facts.take(line, &small);
            self.gathered.take((name, number), line, &small);
        })?;
        self.lines += number;
        Ok(())
    }

    /// The first cause; where there is none, the first of what only follows.
    fn first(&self) -> Option<&Seen> {
        let of = |kind| self.gathered.of(kind).into_iter().next();
        of(Kind::Cause).or_else(|| of(Kind::Follow))
    }

    /// In a sentence, and as a status.
    fn verdict(&self) -> (String, u8) {
        let first = self.first();
        let because = first
            .map(|seen| format!(" because {}", seen.meaning.what))
            .unwrap_or_default();
        if self.facts.fell_back() {
            let mixed = match self.facts.has_libfabric() {
                true => "SOME RANKS ARE NOT USING LIBFABRIC",
                false => "NOT USING LIBFABRIC: sockets were used",
            };
            return (format!("{mixed}{because}"), FOUND);
        }
        if let Some(first) = first {
            return (format!("it went wrong: {}", first.meaning.what), FOUND);
        }
        match (self.facts.has_libfabric(), self.facts.known_lines) {
            (true, _) => (
                "libfabric was used, and nothing known went wrong".to_owned(),
                0,
            ),
            (false, 0) => (
                "there is nothing of NCCL, Neuron or their plugins in it".to_owned(),
                USAGE,
            ),
            (false, _) => {
                let text = "which network was used is not in it (NCCL_DEBUG=INFO says it); nothing known went wrong";
                (text.to_owned(), 0)
            }
        }
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
        text.push(String::new());
        text.push(format!("verdict: {}", self.verdict().0));
        text
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
