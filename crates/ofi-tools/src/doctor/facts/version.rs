//! Versions as packages write them: `1.22.0amzn4.0`, `2.21.5-1+cuda12.2`.

use core::cmp::Ordering;
use core::fmt;

/// Up to three numbers; what follows them does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version(pub(crate) [u32; 3]);

impl Version {
    pub(crate) const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self([major, minor, patch])
    }

    /// The version that a text begins with; a `v` before it is passed over.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim().trim_start_matches('v');
        let mut numbers = [0; 3];
        let mut rest = text;
        for (i, number) in numbers.iter_mut().enumerate() {
            let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            match rest[..digits].parse() {
                Ok(read) => *number = read,
                Err(_) if i > 0 => break,
                Err(_) => return None,
            }
            match rest[digits..].strip_prefix('.') {
                Some(after) => rest = after,
                None => break,
            }
        }
        Some(Self(numbers))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.0;
        write!(f, "{major}.{minor}.{patch}")
    }
}

/// A condition on a version: `<1.29.1`, `>=2.19`, `1.16-1.17`, or nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    from: Option<Version>,
    /// The first that is beyond.
    until: Option<Version>,
}

impl Range {
    /// Reads a condition; a last number that is left out stands for all of them.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (from, until) = if text.is_empty() || text == "any" {
            (None, None)
        } else if let Some(version) = text.strip_prefix(">=") {
            (Some(Version::parse(version)?), None)
        } else if let Some(version) = text.strip_prefix("<=") {
            (None, Some(after(version)?))
        } else if let Some(version) = text.strip_prefix('<') {
            (None, Some(Version::parse(version)?))
        } else if let Some((from, to)) = text.split_once('-') {
            (Some(Version::parse(from)?), Some(after(to)?))
        } else {
            (Some(Version::parse(text)?), Some(after(text)?))
        };
        Some(Self { from, until })
    }

    pub(crate) fn takes(self, version: Version) -> bool {
        let low = self
            .from
            .is_none_or(|from| version.cmp(&from) != Ordering::Less);
        low && self.until.is_none_or(|until| version < until)
    }

    pub(crate) const fn is_any(self) -> bool {
        self.from.is_none() && self.until.is_none()
    }
}

/// The version after all that begin so.
fn after(text: &str) -> Option<Version> {
    let Version(mut numbers) = Version::parse(text)?;
    let given = text.trim().split('.').count().clamp(1, 3);
    let last = numbers.get_mut(given - 1)?;
    *last = last.checked_add(1)?;
    Some(Version(numbers))
}

#[cfg(test)]
mod tests {
    use super::{Range, Version};

    #[test]
    fn versions_are_what_packages_write() {
        for (text, numbers) in [
            ("1.22.0amzn4.0", [1, 22, 0]),
            ("2.21.5-1+cuda12.2", [2, 21, 5]),
            ("v1.15", [1, 15, 0]),
            ("5.10.201-191.748.amzn2.x86_64", [5, 10, 201]),
            ("2.", [2, 0, 0]),
        ] {
            assert_eq!(Version::parse(text), Some(Version(numbers)), "{text}");
        }
        for text in ["", "x", ".1", "99999999999.1"] {
            assert_eq!(Version::parse(text), None, "{text}");
        }
    }

    #[test]
    fn ranges_take_what_they_say() {
        let takes = |range: &str, version: &str| {
            Range::parse(range)
                .unwrap()
                .takes(Version::parse(version).unwrap())
        };
        assert!(takes("<1.29.1", "1.29.0") && !takes("<1.29.1", "1.29.1"));
        assert!(takes(">=2.19", "2.19") && !takes(">=2.19", "2.18.9"));
        assert!(takes("1.16-1.17", "1.17.9") && !takes("1.16-1.17", "1.18"));
        assert!(takes("<=2.5", "2.5.1") && !takes("<=2.5", "2.6"));
        assert!(takes("1.16.2", "1.16.2") && !takes("1.16.2", "1.16.3"));
        assert!(Range::parse("any").unwrap().is_any());
        assert_eq!(Range::parse("<x"), None);
    }
}
