//! What is asked of the cache: a range, and everything else two registrations can differ in.

use core::fmt;

/// A dma-buf that backs a range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DmaBuf {
    /// The file descriptor. The cache compares the number: a caller that closes the descriptor
    /// while the region lives must not use the cache for it, since the number can come back.
    pub fd: i32,
    /// Where in the file the first byte of the range lies.
    pub offset: u64,
}

/// What a region is, besides its range: regions that differ here never stand in for one another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Attr {
    /// Access bits, as the provider takes them. Equality is asked for, not inclusion: keys of
    /// wider access must not leak to a caller who asked for less.
    pub access: u64,
    /// The kind of memory (host, or one of the accelerators), as the caller numbers them.
    pub kind: u32,
    /// The accelerator that owns the memory, where the kind has several.
    pub device: u32,
    /// The dma-buf behind the range, if it is registered by one.
    pub dmabuf: Option<DmaBuf>,
}

/// A range of memory to be registered, or found registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    /// The address of the first byte.
    pub address: u64,
    /// How many bytes, at least 1.
    pub bytes: u64,
    /// Everything else.
    pub attr: Attr,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: u64,
    pub(super) end: u64,
}

impl Span {
    #[inline]
    pub(super) const fn covers(self, other: Self) -> bool {
        self.start <= other.start && other.end <= self.end
    }
}

/// The part of a request that must be equal for one region to stand in for another. Of a dma-buf,
/// the distance between address and offset: a part of a registered mapping has the same distance,
/// and another mapping of the same file does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Class {
    pub(super) access: u64,
    pub(super) kind: u32,
    pub(super) device: u32,
    pub(super) dmabuf: Option<(i32, u64)>,
}

impl Request {
    #[inline]
    pub(super) fn span(&self) -> Result<Span, RequestError> {
        match self.address.checked_add(self.bytes) {
            Some(end) if end > self.address => Ok(Span {
                start: self.address,
                end,
            }),
            Some(_) => Err(RequestError::Empty {
                address: self.address,
            }),
            None => Err(self.overflow(1)),
        }
    }

    #[inline]
    pub(super) fn class(&self) -> Class {
        let Attr {
            access,
            kind,
            device,
            dmabuf,
        } = self.attr;
        let dmabuf = dmabuf.map(|buf| (buf.fd, self.address.wrapping_sub(buf.offset)));
        Class {
            access,
            kind,
            device,
            dmabuf,
        }
    }

    /// The request rounded out to whole pages: down at the start, up at the end. A dma-buf is
    /// registered exactly as asked (protocol 2g.1).
    pub(super) fn rounded(&self, page: u64) -> Result<Self, RequestError> {
        if self.attr.dmabuf.is_some() {
            return Ok(*self);
        }
        let span = self.span()?;
        let address = span.start & !(page - 1);
        let end = span
            .end
            .checked_next_multiple_of(page)
            .ok_or_else(|| self.overflow(page))?;
        Ok(Self {
            address,
            bytes: end - address,
            attr: self.attr,
        })
    }

    const fn overflow(&self, page: u64) -> RequestError {
        RequestError::Overflow {
            address: self.address,
            bytes: self.bytes,
            page,
        }
    }
}
