//! Why nothing was left, short enough for one line: each distinct reason once, with how many entries
//! it concerns and the first few of them.

use core::fmt;

use super::candidate::Candidate;

/// Entries named for a reason; further ones are only counted.
const NAMES_MAX: usize = 3;

/// Characters of an entry's name: providers and domains are as long as libfabric likes.
const NAME_CHARS_MAX: usize = 48;

/// Reasons told; further ones are only counted.
const REASONS_MAX: usize = 6;

/// Reasons in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Reasons(Vec<Reason>);

#[derive(Debug)]
struct Reason {
    text: String,
    entries: usize,
    /// Distinct, at most one more than is shown: the sign that there are more.
    names: Vec<String>,
}

impl Reasons {
    /// `entry` is not used because of `text`.
    pub(super) fn add(&mut self, text: String, entry: &Candidate) {
        let known = self.0.iter().position(|reason| reason.text == text);
        let index = known.unwrap_or_else(|| {
            self.0.push(Reason {
                text,
                entries: 0,
                names: Vec::new(),
            });
            self.0.len() - 1
        });
        if let Some(reason) = self.0.get_mut(index) {
            reason.entries += 1;
            reason.name(entry);
        }
    }
}

impl Reason {
    fn name(&mut self, entry: &Candidate) {
        let full = format!("{} {}", entry.provider, entry.domain);
        let name: String = full.chars().take(NAME_CHARS_MAX).collect();
        if self.names.len() <= NAMES_MAX && !self.names.contains(&name) {
            self.names.push(name);
        }
    }
}

impl fmt::Display for Reasons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, reason) in self.0.iter().take(REASONS_MAX).enumerate() {
            f.write_str(if n == 0 { "" } else { "; " })?;
            reason.fmt(f)?;
        }
        match self.0.len().saturating_sub(REASONS_MAX) {
            0 => Ok(()),
            more => write!(f, "; and {more} more reasons"),
        }
    }
}

/// `2 (tcp lo, net lo): excluded by ..`.
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (", self.entries)?;
        for (n, name) in self.names.iter().take(NAMES_MAX).enumerate() {
            f.write_str(if n == 0 { "" } else { ", " })?;
            f.write_str(name)?;
        }
        let more = if self.names.len() > NAMES_MAX {
            ", .."
        } else {
            ""
        };
        write!(f, "{more}): {}", self.text)
    }
}
