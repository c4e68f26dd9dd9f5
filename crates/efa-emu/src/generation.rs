//! Which libfabric's EFA is played: options and fabrics came with versions (providers.md 6).

use core::fmt;
use core::ops::RangeInclusive;

/// A version of libfabric, by default of the one that loaded the
/// provider, or of [`Generation::OLDEST_IN_USE`] if that is older.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Generation(u32, u32);

impl Generation {
    /// What is played at least, unless an older one is asked for: EFAs before it are not in use, and
    /// plugins refuse them.
    pub(crate) const OLDEST_IN_USE: Self = Self(1, 22);

    /// fi_version(3) as it is packed.
    pub(crate) const fn of_packed(version: u32) -> Self {
        Self(version >> 16, version & 0xffff)
    }

    /// Those that can be asked for: the minor versions of each major one.
    const RELEASED: [(u32, RangeInclusive<u32>); 2] = [(1, 17..=22), (2, 0..=6)];

    /// `"1.22"`.
    ///
    /// # Errors
    /// What the text could have been.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let parts = text.trim().split_once('.');
        let numbers = parts.and_then(|(major, minor)| {
            // A third number does not matter.
            let minor = minor.split('.').next()?;
            Some((major.parse().ok()?, minor.parse().ok()?))
        });
        let is_one = |(major, minor): &(u32, u32)| {
            let mut all = Self::RELEASED.iter();
            all.any(|(of, minors)| of == major && minors.contains(minor))
        };
        let (major, minor) = numbers.filter(is_one).ok_or_else(|| {
            let all = Self::released().join(", ");
            format!("{text}: expected a version of libfabric whose EFA can be played: {all}")
        })?;
        Ok(Self(major, minor))
    }

    fn released() -> Vec<String> {
        let each = |(major, minors): &(u32, RangeInclusive<u32>)| {
            let major = *major;
            minors
                .clone()
                .map(move |minor| Self(major, minor).to_string())
        };
        Self::RELEASED.iter().flat_map(each).collect()
    }

    /// Whether something that came with a version is there.
    pub(crate) fn has(self, major: u32, minor: u32) -> bool {
        self >= Self(major, minor)
    }

    /// Whether there is a fabric "efa-direct".
    pub(crate) fn has_direct(self) -> bool {
        self.has(2, 1)
    }

    /// The provider's version: one that no built-in EFA of this libfabric beats (providers.md 3).
    pub(crate) const fn provider_version(self) -> u32 {
        ((self.0 * 100 + self.1) << 16) | 0xffff
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        assert_eq!(Generation::parse("1.22"), Ok(Generation(1, 22)));
        assert_eq!(Generation::parse("2.5.1"), Ok(Generation(2, 5)));
        assert_eq!(Generation::of_packed((2 << 16) | 1), Generation(2, 1));
        assert!(Generation(2, 0).has(1, 22) && !Generation(1, 17).has(1, 22));
        for bad in [
            "", "2", "2.x", "new", "9.9", "1.16", "1.23", "2.7", "2.5x", "-1.17",
        ] {
            let error = Generation::parse(bad).unwrap_err();
            let list = "1.17, 1.18, 1.19, 1.20, 1.21, 1.22, 2.0, 2.1, 2.2, 2.3, 2.4, 2.5, 2.6";
            assert!(error.starts_with(bad) && error.contains(list), "{error}");
        }
        for good in Generation::released() {
            assert_eq!(Generation::parse(&good).unwrap().to_string(), good);
        }
    }
}
