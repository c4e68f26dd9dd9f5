//! What is asked of the cache: a range, and everything else two registrations can differ in.

use core::fmt;

/// A dma-buf that backs a range of addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DmaBuf {
    /// The file descriptor. The cache compares the number: a caller that closes the descriptor
    /// while the region lives must not use the cache for it, since the number can come back.
    pub fd: i32,
    /// Where in the file the first byte of the range lies.
    pub offset: u64,
}

/// What a region is, besides its range: regions that differ here never stand in for one another.
///
/// Two words say it all but for memory in a dma-buf, so that a look-up compares two words.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Attr {
    access: u64,
    /// `is in a dma-buf:1 | kind:16 | device:32`.
    what: u64,
    /// Zeros for memory in none.
    dmabuf: DmaBuf,
}

const KIND_SHIFT: u32 = 32;
const IN_DMABUF: u64 = 1 << 63;

impl Attr {
    /// Memory of kind 0 (the host's), with these access bits, as the provider takes them. Equality is asked
    /// for, not inclusion: keys of wider access must not leak to a caller who asked for less.
    #[must_use]
    pub const fn new(access: u64) -> Self {
        Self {
            access,
            what: 0,
            dmabuf: DmaBuf { fd: 0, offset: 0 },
        }
    }

    /// The kind of memory (host, or one of the accelerators) as the caller numbers them, and the accelerator
    /// that owns it, where the kind has several.
    #[must_use]
    pub const fn of(self, kind: u16, device: u32) -> Self {
        // `u64::from` is not const.
        let what = (kind as u64) << KIND_SHIFT | device as u64;
        Self {
            what: self.what & IN_DMABUF | what,
            ..self
        }
    }

    /// The dma-buf behind the range, which is registered by it.
    #[must_use]
    pub const fn within(self, dmabuf: DmaBuf) -> Self {
        Self {
            what: self.what | IN_DMABUF,
            dmabuf,
            ..self
        }
    }

    /// The access bits.
    #[must_use]
    pub const fn access(&self) -> u64 {
        self.access
    }

    /// The kind of memory, and whose it is.
    #[must_use]
    pub const fn kind_and_device(&self) -> (u16, u32) {
        let [d0, d1, d2, d3, k0, k1, ..] = self.what.to_le_bytes();
        (
            u16::from_le_bytes([k0, k1]),
            u32::from_le_bytes([d0, d1, d2, d3]),
        )
    }

    /// The dma-buf behind the range, if it is registered by one.
    #[must_use]
    pub const fn dmabuf(&self) -> Option<DmaBuf> {
        if self.what & IN_DMABUF == 0 {
            None
        } else {
            Some(self.dmabuf)
        }
    }
}

impl fmt::Debug for Attr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, device) = self.kind_and_device();
        f.debug_struct("Attr")
            .field("access", &self.access)
            .field("kind", &kind)
            .field("device", &device)
            .field("dmabuf", &self.dmabuf())
            .finish()
    }
}

/// A range of memory to be registered, or found registered: at least one byte, none beyond the address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    pub(super) span: Span,
    attr: Attr,
}

/// No region can answer the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// The range has no bytes.
    Empty {
        /// Its address.
        address: u64,
    },
    /// The range, rounded out to pages, passes the end of the address space.
    Overflow {
        /// Its address.
        address: u64,
        /// Its length.
        bytes: u64,
        /// The page size it was to be rounded to.
        page: u64,
    },
    /// The page size is no power of two.
    Page {
        /// The page size given.
        page: u64,
    },
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Empty { address } => write!(
                f,
                "registration of 0 bytes at {address:#x}: a region must have at least one byte"
            ),
            Self::Overflow {
                address,
                bytes,
                page,
            } => write!(
                f,
                "registration of {bytes} bytes at {address:#x}, rounded to pages of {page}, passes \
                 the end of the address space: the length is wrong (a negative int?)"
            ),
            Self::Page { page } => write!(
                f,
                "page size {page} of the registration cache: it must be a power of two (1: ranges \
                 are not rounded)"
            ),
        }
    }
}

impl core::error::Error for RequestError {}

/// A half-open range of addresses with at least one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Span {
    pub(super) start: u64,
    pub(super) end: u64,
}

impl Span {
    #[inline]
    pub(super) const fn covers(self, other: Self) -> bool {
        self.start <= other.start && other.end <= self.end
    }

    pub(super) const fn bytes(self) -> u64 {
        self.end - self.start
    }
}

/// The two words that say what memory is which is in no dma-buf; no memory in one has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Plain {
    pub(super) access: u64,
    pub(super) what: u64,
}

/// The part of a request that must be equal for one region to stand in for another. Of a dma-buf,
/// the distance between address and offset: a part of a registered mapping has the same distance,
/// and another mapping of the same file does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Class {
    pub(super) plain: Plain,
    dmabuf: (i32, u64),
}

impl Plain {
    pub(super) const fn is_in_dmabuf(self) -> bool {
        self.what & IN_DMABUF != 0
    }
}

impl Request {
    /// A range that begins at `address`.
    ///
    /// # Errors
    ///
    /// [`RequestError`] for a range without bytes, or beyond the end of the address space.
    #[inline]
    pub const fn new(address: u64, bytes: u64, attr: Attr) -> Result<Self, RequestError> {
        match address.checked_add(bytes) {
            Some(end) if end > address => Ok(Self {
                span: Span {
                    start: address,
                    end,
                },
                attr,
            }),
            Some(_) => Err(RequestError::Empty { address }),
            None => Err(RequestError::Overflow {
                address,
                bytes,
                page: 1,
            }),
        }
    }

    /// The address of the first byte.
    #[must_use]
    pub const fn address(&self) -> u64 {
        self.span.start
    }

    /// How many bytes, at least 1.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.span.bytes()
    }

    /// Everything else.
    #[must_use]
    pub const fn attr(&self) -> Attr {
        self.attr
    }

    #[inline]
    pub(super) const fn plain(&self) -> Plain {
        Plain {
            access: self.attr.access,
            what: self.attr.what,
        }
    }

    #[inline]
    pub(super) const fn class(&self) -> Class {
        Class {
            plain: self.plain(),
            dmabuf: match self.attr.dmabuf() {
                Some(DmaBuf { fd, offset }) => (fd, self.span.start.wrapping_sub(offset)),
                None => (0, 0),
            },
        }
    }

    /// The request rounded out to whole pages: down at the start, up at the end. A dma-buf is
    /// registered exactly as asked (protocol 2g.1).
    pub(super) fn rounded(&self, page: u64) -> Result<Self, RequestError> {
        if self.attr.dmabuf().is_some() {
            return Ok(*self);
        }
        let start = self.span.start & !(page - 1);
        let end = self.span.end.checked_next_multiple_of(page);
        let end = end.ok_or_else(|| RequestError::Overflow {
            address: self.address(),
            bytes: self.bytes(),
            page,
        })?;
        Ok(Self {
            span: Span { start, end },
            attr: self.attr,
        })
    }
}
