//! The registration cache of a domain (`OFI_NCCL_MR_CACHE_DISABLE=0`; protocol 2g.4, decision 36).
//!
//! The cache owns the regions that came through it; the number that the engine and the callers' words
//! know a region by is given once, by whoever acquired it first.

use crate::error::{Code, NetError};
use crate::region::{Registrar, Registration, Stretch, USER_ACCESS};
use ofi_pools::mr::{AcquireError, Attr, Handle, Refused, ReleaseError};
use ofi_pools::{Key, Request, SharedMrCache};
use std::sync::{Arc, OnceLock};

/// A region in the cache.
#[derive(Debug)]
pub(crate) struct Cached {
    pub(crate) registration: Registration,
    pub(crate) number: OnceLock<Key>,
}

/// Fills the cache.
#[derive(Debug)]
pub(crate) struct Filler(Arc<Registrar>);

impl ofi_pools::Registrar for Filler {
    type Region = Cached;
    type Error = NetError;

    fn register(&self, request: &Request) -> Result<Cached, NetError> {
        let start = usize::try_from(request.address);
        let (Ok(start), Ok(bytes)) = (start, usize::try_from(request.bytes)) else {
            return Err(NetError::new(
                Code::Register,
                "a range beyond the address space",
            ));
        };
        let start = core::ptr::with_exposed_provenance(start);
        let stretch = Stretch::host(start, bytes);
        // SAFETY: requests are made by `reg_mr` alone, whose caller promised that the range stays
        // mapped until its last deregistration; rounding stays within the pages that it touches.
        let registration = unsafe { self.0.register(stretch, USER_ACCESS) }?;
        Ok(Cached {
            registration,
            number: OnceLock::new(),
        })
    }

    fn deregister(&self, region: Cached) -> Result<(), Refused<Cached, NetError>> {
        let Cached {
            registration,
            number,
        } = region;
        registration.close().map_err(|refused| {
            let (registration, error) = *refused;
            Refused {
                region: Cached {
                    registration,
                    number,
                },
                error,
            }
        })
    }
}

/// The cache.
pub(crate) type Cache = SharedMrCache<Filler>;

/// A cache in units of `page` bytes.
///
/// # Errors
/// A page size that is none.
pub(crate) fn cache(page: usize, registrar: Arc<Registrar>) -> Result<Cache, NetError> {
    SharedMrCache::new(page as u64, Filler(registrar))
        .map_err(|error| NetError::new(Code::Internal, error.to_string()))
}

/// The region that covers a stretch of host memory: found, or registered now.
///
/// # Errors
/// The provider's; a range that is none.
pub(crate) fn acquire(cache: &Cache, stretch: Stretch) -> Result<Handle, NetError> {
    let address = stretch.start.expose_provenance() as u64;
    let attr = Attr {
        access: USER_ACCESS.bits(),
        ..Attr::default()
    };
    let request = Request {
        address,
        bytes: stretch.bytes as u64,
        attr,
    };
    cache.acquire(&request).map_err(|error| match error {
        AcquireError::Register(error) => error,
        other => NetError::new(Code::Register, other.to_string()),
    })
}

/// Gives a reference back. `Ok(true)`: it was the last, and the region is closed.
///
/// # Errors
/// The provider did not close it: the region is kept for the life of the process.
pub(crate) fn release(cache: &Cache, handle: Handle) -> Result<bool, NetError> {
    cache.release(handle).map_err(|error| match error {
        ReleaseError::Stale(error) => NetError::new(Code::StaleRegion, error.to_string()),
        ReleaseError::Refused(Refused { region, error }) => {
            let _kept = core::mem::ManuallyDrop::new(region);
            error
        }
    })
}
