//! Address vectors: peers' addresses made into the numbers that posts take.

use core::fmt;
use core::ptr;
use std::sync::Arc;

use ofi_sys::bindings::{fi_av_attr, fid_av};
use ofi_sys::consts as c;
use ofi_sys::grown::Padded;
use ofi_sys::ops;

use crate::domain::Domain;
use crate::error::{CloseFailed, Errno, FabricError, check};
use crate::fid::{Fid, close_shared};

/// Longest address taken, in bytes.
pub const ADDRESS_LEN_MAX: usize = 256;

/// A peer, as an address vector numbers it. It means something only to the endpoints bound to that
/// vector, and only until it is removed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct PeerAddr(u64);

impl PeerAddr {
    /// Any source, for receives.
    pub const ANY: Self = Self(c::FI_ADDR_UNSPEC);

    /// From libfabric's `fi_addr_t`.
    #[must_use]
    pub const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    /// libfabric's `fi_addr_t`.
    #[must_use]
    pub const fn as_raw(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for PeerAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::ANY {
            f.write_str("ANY")
        } else {
            write!(f, "peer {}", self.0)
        }
    }
}

// Fields drop in this order: the vector closes before its domain.
#[derive(Debug)]
struct Inner {
    fid: Fid<fid_av>,
    domain: Domain,
}

/// An address vector, fi_av(3). Clones share it; endpoints bound to it keep it open.
#[derive(Clone, Debug)]
pub struct Av(Arc<Inner>);

impl Av {
    /// Opens one of the provider's preferred type.
    ///
    /// # Errors
    ///
    /// What the provider says.
    pub fn open(domain: &Domain) -> Result<Self, FabricError> {
        Self::with_capacity(domain, 0)
    }

    /// Opens one that expects `count` peers; it grows beyond.
    ///
    /// # Errors
    ///
    /// What the provider says.
    pub fn with_capacity(domain: &Domain, count: usize) -> Result<Self, FabricError> {
        let mut attr = Padded::<fi_av_attr>::zeroed();
        attr.get_mut().count = count;
        let mut raw: *mut fid_av = ptr::null_mut();
        // SAFETY: fi_av(3): an open domain; the attributes are zero (defaults) but for the count;
        // `raw` takes the vector.
        let code = unsafe {
            ops::fi_av_open(
                domain.as_raw(),
                attr.as_mut_ptr(),
                &raw mut raw,
                ptr::null_mut(),
            )
        };
        check("fi_av_open", code)?;
        // SAFETY: fi_av(3): opened, and ours to close.
        let fid = unsafe { Fid::new("fi_av_open", raw, true) }?;
        Ok(Self(Arc::new(Inner {
            fid,
            domain: domain.clone(),
        })))
    }

    /// Adds a peer's address, as the peer's [`Endpoint::name`](crate::Endpoint::name) gave it. What
    /// bytes it holds does not matter to memory safety: length and format are checked, and the
    /// provider sees a copy with zeros behind.
    ///
    /// # Errors
    ///
    /// FI_EINVAL for a length that does not fit the provider's format, or when the provider adds
    /// none; else what the provider says.
    pub fn insert(&self, address: &[u8]) -> Result<PeerAddr, FabricError> {
        self.check_address(address)?;
        // Providers read the length of their format, whatever we pass; strings up to their NUL.
        let mut padded = [0_u8; 2 * ADDRESS_LEN_MAX];
        for (to, from) in padded.iter_mut().zip(address) {
            *to = *from;
        }
        let mut peer = c::FI_ADDR_NOTAVAIL;
        // SAFETY: fi_av(3): an open vector not bound to an event queue, so the call is synchronous;
        // one address with zeros behind it; `peer` takes its number.
        let added = unsafe {
            ops::fi_av_insert(
                self.as_raw(),
                padded.as_ptr().cast(),
                1,
                &raw mut peer,
                0,
                ptr::null_mut(),
            )
        };
        match added {
            1 if peer != c::FI_ADDR_NOTAVAIL => Ok(PeerAddr(peer)),
            code if code < 0 => Err(FabricError::new("fi_av_insert", Errno::from_code(code))
                .with(format_args!("address {address:02x?}"))),
            count => Err(
                FabricError::new("fi_av_insert", Errno::EINVAL).with(format_args!(
                    "address {address:02x?}, of which it added {count}"
                )),
            ),
        }
    }

    /// Whether the bytes can be an address of the domain's format. Handles carry addresses with the
    /// padding of their slot, so longer is no error.
    fn check_address(&self, address: &[u8]) -> Result<(), FabricError> {
        let format = self.0.domain.info().addr_format();
        let shortest = match format {
            c::FI_SOCKADDR_IN => 16,
            c::FI_SOCKADDR_IN6 => 28,
            c::FI_SOCKADDR_IB => 48,
            c::FI_ADDR_EFA => 32,
            _ => 1,
        };
        if (shortest..=ADDRESS_LEN_MAX).contains(&address.len()) {
            return Ok(());
        }
        Err(
            FabricError::new("fi_av_insert", Errno::EINVAL).with(format_args!(
                "an address of {} bytes, which format {format} cannot have",
                address.len()
            )),
        )
    }

    /// Writes the address of a peer to `out` and says how long it is; at most `out.len()` bytes are
    /// written, and a longer address is cut.
    ///
    /// # Errors
    ///
    /// What the provider says.
    ///
    /// # Safety
    ///
    /// The peer was inserted here and not removed since: some providers do not check the number.
    pub unsafe fn lookup(&self, peer: PeerAddr, out: &mut [u8]) -> Result<usize, FabricError> {
        let mut len = out.len();
        // SAFETY: fi_av(3): an open vector, a buffer of `len` bytes; the length comes back in `len`.
        // That the number is live is the caller's promise.
        let code = unsafe {
            ops::fi_av_lookup(
                self.as_raw(),
                peer.as_raw(),
                out.as_mut_ptr().cast(),
                &raw mut len,
            )
        };
        check("fi_av_lookup", code).map_err(|error| error.with(format_args!("{peer:?}")))?;
        Ok(len)
    }

    /// Forgets a peer. Its number may be given to another peer later.
    ///
    /// # Errors
    ///
    /// What the provider says.
    ///
    /// # Safety
    ///
    /// fi_av(3): no operation with this peer is in flight, and it was inserted here and not removed
    /// since.
    pub unsafe fn remove(&self, peer: PeerAddr) -> Result<(), FabricError> {
        let mut raw = peer.as_raw();
        // SAFETY: an open vector and one number; that it is live is the caller's promise.
        let code = unsafe { ops::fi_av_remove(self.as_raw(), &raw mut raw, 1, 0) };
        check("fi_av_remove", code).map_err(|error| error.with(format_args!("{peer:?}")))
    }

    /// The domain it belongs to.
    #[must_use]
    pub fn domain(&self) -> &Domain {
        &self.0.domain
    }

    /// The raw object, still owned by this one: do not close it.
    #[must_use]
    pub fn as_raw(&self) -> *mut fid_av {
        self.0.fid.as_ptr()
    }

    /// Closes it now.
    ///
    /// # Errors
    ///
    /// Gives it back, still open, if clones or endpoints use it (FI_EBUSY) or the provider refuses.
    pub fn close(self) -> Result<(), CloseFailed<Self>> {
        close_shared(self.0, |inner| &mut inner.fid).map_err(|failed| failed.wrapped(Self))
    }
}
