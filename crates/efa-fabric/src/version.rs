//! libfabric's API version, and which to ask for.

use core::fmt;

use ofi_sys::{Library, version_of};

/// A version of libfabric's API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

impl Version {
    /// The newest version whose rules this crate knows. Asking for more could change what a library
    /// reads from the structs that we fill in.
    pub const NEWEST_KNOWN: Self = Self::new(2, 0);

    /// First version with dma-buf registration.
    pub const DMABUF: Self = Self::new(1, 20);

    /// `major.minor`.
    #[must_use]
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }

    /// What the library implements.
    #[must_use]
    pub const fn of(library: &Library) -> Self {
        Self::unpack(library.version_packed())
    }

    /// What to ask `library` for: the lower of `wanted` and what it implements, since asking for
    /// more is refused with FI_ENOSYS.
    #[must_use]
    pub fn request(self, library: &Library) -> Self {
        self.min(Self::of(library))
    }

    /// From libfabric's packed form.
    #[must_use]
    pub const fn unpack(packed: u32) -> Self {
        let (major, minor) = version_of(packed);
        Self::new(major, minor)
    }

    /// To libfabric's packed form; the minor number is at most 65535.
    #[must_use]
    pub const fn pack(self) -> u32 {
        self.major << 16 | self.minor & 0xffff
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_is_libfabrics() {
        assert_eq!(Version::new(1, 18).pack(), 0x0001_0012);
        assert_eq!(Version::unpack(0x0002_0005), Version::new(2, 5));
        assert!(Version::new(1, 22) < Version::new(2, 0));
    }
}
