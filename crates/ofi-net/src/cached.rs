//! The registration cache of a domain (`OFI_NCCL_MR_CACHE_DISABLE=0`; protocol 2g.4, decision 36).
//!
//! The cache owns the regions that came through it; the number that the engine and the callers' words
//! know a region by is given once, by whoever comes first of those who acquired it. With it the region is
//! made ready: bound to an endpoint, where a provider needs that.
//!
//! ```text
//! acquire (no lock of the domain) -> number (inside) ... give_back, or if it is the last: release
//! ```

use crate::error::{Code, NetError};
use crate::region::{Registrar, Registration};
use crate::stats::MemoryCounts;
use crate::stretch::Stretch;
use efa_fabric::Access;
use ofi_pools::mr::{AcquireError, Attr, Handle, Refused, ReleaseError};
use ofi_pools::{Key, Request, SharedMrCache};
use std::sync::{Arc, OnceLock};

/// A region in the cache.
#[derive(Debug)]
pub(crate) struct Cached {
    registration: Registration,
    number: OnceLock<Key>,
}

/// Fills the cache.
#[derive(Debug)]
pub(crate) struct Filler {
    registrar: Arc<Registrar>,
    /// Of all regions of this cache.
    access: Access,
    counts: Arc<MemoryCounts>,
}

impl ofi_pools::Registrar for Filler {
    type Region = Cached;
    type Error = NetError;

    fn register(&self, request: &Request) -> Result<Cached, NetError> {
        let start = usize::try_from(request.address());
        let (Ok(start), Ok(bytes)) = (start, usize::try_from(request.bytes())) else {
            return Err(NetError::new(
                Code::Register,
                "a range beyond the address space",
            ));
        };
        let start = core::ptr::with_exposed_provenance(start);
        let stretch = Stretch::host(start, bytes);
        // SAFETY: requests are made by `reg_mr` alone, whose caller promised that the range stays
        // mapped until its last deregistration; rounding stays within the pages that it touches.
        let registration = unsafe { self.registrar.register(stretch, self.access) }?;
        MemoryCounts::add(&self.counts.registrations);
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

/// A cache of regions with `access`, in units of `page` bytes.
///
/// # Errors
/// A page size that is none.
pub(crate) fn cache(
    page: usize,
    registrar: &Arc<Registrar>,
    counts: &Arc<MemoryCounts>,
    access: Access,
) -> Result<Cache, NetError> {
    let filler = Filler {
        registrar: Arc::clone(registrar),
        access,
        counts: Arc::clone(counts),
    };
    SharedMrCache::new(page as u64, filler)
        .map_err(|error| NetError::new(Code::Internal, error.to_string()))
}

/// The region that covers a stretch of host memory: found, or registered now.
///
/// # Errors
/// The provider's; a range that is none.
pub(crate) fn acquire(cache: &Cache, stretch: Stretch) -> Result<Handle, NetError> {
    let address = stretch.start.expose_provenance() as u64;
    let attr = Attr::new(cache.registrar().access.bits());
    let request = Request::new(address, stretch.bytes as u64, attr)
        .map_err(|error| NetError::new(Code::Register, error.to_string()))?;
    cache.acquire(&request).map_err(|error| match error {
        AcquireError::Register(error) => error,
        other => NetError::new(Code::Register, other.to_string()),
    })
}

/// The number of an acquired region: what `give` makes ready and gives a number, if nobody did before.
///
/// # Errors
/// What `give` says. The caller releases the handle then, and whoever acquired it too tries again.
pub(crate) fn number(
    cache: &Cache,
    handle: Handle,
    give: impl FnOnce(&Registration) -> Result<Key, NetError>,
) -> Result<Key, NetError> {
    cache.with(|cache| {
        let Some(cached) = cache.get(handle) else {
            let what = "an acquired region is not in the cache";
            return Err(NetError::new(Code::Internal, what));
        };
        if let Some(&key) = cached.number.get() {
            return Ok(key);
        }
        let key = give(&cached.registration)?;
        Ok(*cached.number.get_or_init(|| key))
    })
}

/// Gives a reference back if it is not the last: whether it was given.
///
/// # Errors
/// A handle that is gone.
pub(crate) fn give_back(cache: &Cache, handle: Handle) -> Result<bool, NetError> {
    cache.with(|cache| match cache.references(handle) {
        Some(1) => Ok(false),
        _ => match cache.release(handle) {
            Ok(_) => Ok(true),
            Err(error) => Err(NetError::new(Code::StaleRegion, error.to_string())),
        },
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
