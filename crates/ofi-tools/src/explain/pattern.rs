//! Lines against patterns, and what the table of known lines says.

use crate::doctor::rows::rows;

const TABLE: &str = include_str!("data/known.csv");

/// What kind of line it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Why it went wrong.
    Cause,
    /// What a loader tried: a cause unless the same process loads the plugin, or has the network, after all.
    Attempt,
    /// What a loaded plugin tried: a cause unless the same process has the network after all.
    Fallback,
    /// What follows from something else.
    Follow,
    /// No fault.
    Note,
}

/// A row.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) kind: Kind,
    pattern: String,
    pub(super) what: &'static str,
    pub(super) fix: &'static str,
    pub(super) source: &'static str,
}

impl Known {
    /// All rows, in their order: the first that fits a line counts.
    pub(super) fn all() -> Vec<Self> {
        rows(TABLE).filter_map(Self::read).collect()
    }

    fn read([kind, pattern, what, fix, source]: [&'static str; 5]) -> Option<Self> {
        Some(Self {
            kind: match kind {
                "cause" => Kind::Cause,
                "attempt" => Kind::Attempt,
                "fallback" => Kind::Fallback,
                "follow" => Kind::Follow,
                "note" => Kind::Note,
                _ => return None,
            },
            pattern: pattern.to_ascii_lowercase(),
            what,
            fix,
            source,
        })
    }

    /// Whether it says of its lines what another row says of its own.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let says = |row: &Self| (row.kind, row.what, row.fix, row.source);
        says(self) == says(other)
    }

    /// Whether a line, in small letters, has the parts of the pattern one after another.
    pub(super) fn fits(&self, line: &str) -> bool {
        has(line, &self.pattern)
    }
}

/// Whether a line has the parts of a pattern one after another.
pub(super) fn has(line: &str, pattern: &str) -> bool {
    let (pattern, is_end) = match pattern.strip_suffix('$') {
        Some(pattern) => (pattern, true),
        None => (pattern, false),
    };
    let mut rest = line;
    let found = pattern.split('*').all(|part| match rest.find(part) {
        Some(at) => {
            rest = &rest[at + part.len()..];
            true
        }
        None => false,
    });
    found && (!is_end || rest.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::{Known, TABLE, has};
    use crate::doctor::rows::lines;

    #[test]
    fn parts_come_one_after_another() {
        assert!(has(
            "x version `fabric_1.7' not found y",
            "version `fabric_*' not found"
        ));
        assert!(!has(
            "not found, version `fabric_1.7'",
            "version `fabric_*' not found"
        ));
        assert!(has("any", "") && !has("", "a"));
        assert!(has("x set to ", "set to$") && !has("x set to y", "set to$"));
    }

    #[test]
    fn every_line_is_a_row_and_says_what_to_do() {
        let known = Known::all();
        assert_eq!(lines(TABLE).count(), known.len());
        let says = |row: &Known| ![row.what, row.fix, row.source, &row.pattern].contains(&"");
        assert!(known.iter().all(says));
    }
}
