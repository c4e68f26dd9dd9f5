//! Which libfabric's EFA is played: options and fabrics came with versions (providers.md 6).

use core::fmt;

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

    /// `"1.22"`.
    ///
    /// # Errors
    /// What the text should have been.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let parts = text.trim().split_once('.');
        let numbers = parts.and_then(|(major, minor)| {
            // A third number does not matter.
            let minor = minor.split('.').next()?;
            Some((major.parse().ok()?, minor.parse().ok()?))
        });
        let (major, minor) = numbers.ok_or_else(|| {
            format!("EFA_EMU_GENERATION={text}: expected a version, such as 1.22")
        })?;
        Ok(Self(major, minor))
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
        for bad in ["", "2", "2.x", "new"] {
            let error = Generation::parse(bad).unwrap_err();
            assert!(error.contains(bad), "{error}");
        }
    }
}
