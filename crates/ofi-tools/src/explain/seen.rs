//! Lines that the table knows, gathered over all logs.

use std::collections::BTreeMap;

use ofi_net::Code;
use ofi_net::error::Severity;

use super::pattern::{Kind, Known};

/// What is shown of a line.
const SHOWN: usize = 240;

/// What a line was taken for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Meaning {
    pub(super) kind: Kind,
    pub(super) what: String,
    pub(super) fix: String,
    pub(super) source: String,
}

/// A meaning, and where it was seen first.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) meaning: Meaning,
    /// Name of the log.
    pub(super) file: String,
    /// Counted from 1.
    pub(super) line: u64,
    pub(super) text: String,
    pub(super) count: u64,
}

/// All that was seen.
#[derive(Debug)]
pub(super) struct Gathered {
    known: Vec<Known>,
    /// By row of the table, then codes of ours.
    seen: BTreeMap<usize, Seen>,
}

impl Gathered {
    pub(super) fn new() -> Self {
        Self {
            known: Known::all(),
            seen: BTreeMap::new(),
        }
    }

    /// Takes a line, as it is and in small letters.
    pub(super) fn take(&mut self, (file, number): (&str, u64), line: &str, small: &str) {
        let Some((key, meaning)) = self.meaning(line, small) else {
            return;
        };
        let first = || Seen {
            meaning,
            file: file.to_owned(),
            line: number,
            text: shorten(line),
            count: 0,
        };
        self.seen.entry(key).or_insert_with(first).count += 1;
    }

    fn meaning(&self, line: &str, small: &str) -> Option<(usize, Meaning)> {
        if let Some(code) = Code::find(line) {
            return Some((
                self.known.len() + usize::from(code.info().number),
                of_code(code),
            ));
        }
        let found = self
            .known
            .iter()
            .enumerate()
            .find(|(_, known)| known.fits(small));
        let (key, known) = found?;
        let meaning = Meaning {
            kind: known.kind,
            what: known.what.to_owned(),
            fix: known.fix.to_owned(),
            source: known.source.to_owned(),
        };
        Some((key, meaning))
    }

    /// Those of a kind, the earliest first.
    pub(super) fn of(&self, kind: Kind) -> Vec<&Seen> {
        let mut of_kind: Vec<&Seen> = self
            .seen
            .values()
            .filter(|seen| seen.meaning.kind == kind)
            .collect();
        of_kind.sort_by_key(|seen| seen.line);
        of_kind
    }
}

fn of_code(code: Code) -> Meaning {
    let info = code.info();
    Meaning {
        kind: match info.severity {
            Severity::Warning => Kind::Note,
            Severity::Error => Kind::Cause,
        },
        what: format!(
            "{code} {}; likely: {}",
            info.title,
            info.likely.join(", or ")
        ),
        fix: info.fix.to_owned(),
        source: code.to_string(),
    }
}

fn shorten(line: &str) -> String {
    let shown = line.trim().chars().take(SHOWN);
    shown
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Gathered, Kind};

    #[test]
    fn the_first_of_a_kind_is_shown_and_the_rest_are_counted() {
        let mut all = Gathered::new();
        for (number, line) in (1..).zip([
            "NET/OFI Request completed with error. RC: 125",
            "x NET/OFI ... libhwloc.so.15: cannot open shared object file\u{1b}[0m",
            "y libhwloc.so.15: cannot open shared object file",
            "NCCL WARN OFI-E0103 no libfabric provider fits: ..",
        ]) {
            all.take(("log", number), line, &line.to_ascii_lowercase());
        }
        let causes = all.of(Kind::Cause);
        assert_eq!((causes[0].line, causes[0].count, causes.len()), (2, 2, 2));
        assert!(causes[0].text.ends_with("file?[0m"), "{}", causes[0].text);
        assert_eq!(causes[1].meaning.source, "OFI-E0103");
        assert_eq!(all.of(Kind::Follow).len(), 1);
    }
}
