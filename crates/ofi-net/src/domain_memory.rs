//! The caller's memory in a domain, of either protocol (protocol 2g.1, decisions 13, 25, 36).
//!
//! ```text
//! register:    cache, if on -> register on every rail, no lock held -> number it
//! deregister:  last user? -> requests that refer to it? wait with progress, bounded -> close
//! ```

use crate::cached::{self, Cache};
use crate::clock::Deadline;
use crate::config::Config;
use crate::error::{Code, NetError};
use crate::handle_words::MrWord;
use crate::quirks;
use crate::region::{RegionView, Registrar, Registration};
use crate::regions::Regions;
use crate::registry::stale;
use crate::stats::MemoryCounts;
use crate::stretch::Stretch;
use crate::transport::round_bytes;
use core::mem::ManuallyDrop;
use efa_fabric::{Access, Info};
use ofi_pools::Key;
use ofi_pools::mr::Handle;
use ofi_rdma::RegionId;
use std::sync::Arc;

/// How long deregistrations wait for a request, milliseconds.
const DEREG_BOUND_MS: u64 = 5000;

/// What a domain registers the caller's memory with.
#[derive(Debug)]
pub(crate) struct Memory {
    /// Finds regions that are registered already; `None` when it is off. Dropped before what fills it.
    cache: Option<Cache>,
    registrar: Arc<Registrar>,
    /// What it is registered for.
    access: Access,
    /// What became of calls.
    counts: Arc<MemoryCounts>,
    /// Registration and progress must not meet: see [`quirks::registration_races`].
    registers_inside: bool,
}

impl Memory {
    /// Of a domain opened from `info`, with or without the cache as the settings say.
    ///
    /// # Errors
    /// A page size that is none.
    pub(crate) fn new(
        registrar: Arc<Registrar>,
        access: Access,
        config: &Config,
        info: &Info,
    ) -> Result<Self, NetError> {
        let unit = round_bytes(config.page());
        let counts = Arc::new(MemoryCounts::default());
        let cache = (config.mr_cache)
            .then(|| cached::cache(unit, &registrar, &counts, access))
            .transpose()?;
        Ok(Self {
            counts,
            cache,
            registrar,
            access,
            registers_inside: quirks::registration_races(info),
        })
    }

    /// What became of calls.
    pub(crate) const fn counts(&self) -> &Arc<MemoryCounts> {
        &self.counts
    }
}

/// A domain that memory is registered with.
pub(crate) trait MemoryDomain {
    /// What its lock protects.
    type Core: MemoryCore;

    /// Runs `f` inside, waiting for whoever is there.
    ///
    /// # Errors
    /// What `f` says; a domain that is out of order.
    fn with_core<R>(
        &self,
        f: impl FnOnce(&mut Self::Core) -> Result<R, NetError>,
    ) -> Result<R, NetError>;

    /// Makes every later call fail with `error`.
    fn poison(&self, error: NetError);

    /// What it registers with.
    fn memory(&self) -> &Memory;

    /// Runs `f`, which registers or deregisters memory: without the lock (decision 25), so that a
    /// registration that takes a second holds up nobody; under it where the provider needs that.
    ///
    /// # Errors
    /// As [`MemoryDomain::with_core`].
    fn registering<R>(&self, f: impl FnOnce() -> Result<R, NetError>) -> Result<R, NetError> {
        if self.memory().registers_inside {
            self.with_core(|_| f())
        } else {
            f()
        }
    }
}

/// What the lock of a domain protects, as far as regions go.
pub(crate) trait MemoryCore {
    /// The regions by their numbers.
    fn regions(&mut self) -> &mut Regions;

    /// Makes a new region ready: what the data path has to know of it.
    ///
    /// # Errors
    /// The provider's.
    fn ready(&self, new: &Registration) -> Result<RegionView, NetError>;

    /// How many requests refer to a region.
    fn references(&self, region: RegionId) -> u32;

    /// Until when something is to be waited for on a region, if anything is. Requests that are done, or whose
    /// communicator failed, wait for nothing but their `test`; those that there are have one bound together.
    fn wait_for(&mut self, region: RegionId, bound_ms: u64) -> Option<Deadline>;

    /// Frees the numbers of closed regions that nothing refers to any more.
    fn sweep_regions(&mut self);

    /// One progress pass.
    fn pass(&mut self);
}

/// Registers, or finds in the cache: the number of the region.
///
/// # Errors
/// The provider's refusal, or the domain is out of order; nothing is left registered then.
///
/// # Safety
/// The memory is of the kind it says, and stays mapped until [`deregister`]; so do the units of the cache
/// that it touches.
pub(crate) unsafe fn register<D: MemoryDomain>(
    domain: &D,
    stretch: Stretch,
) -> Result<Key, NetError> {
    let counts = domain.memory().counts();
    MemoryCounts::add(&counts.requests);
    // SAFETY: the caller's promise.
    let key = unsafe { register_uncounted(domain, stretch) };
    if key.is_err() {
        MemoryCounts::add(&counts.failures);
    }
    key
}

/// As [`register`].
///
/// # Safety
/// As there.
unsafe fn register_uncounted<D: MemoryDomain>(
    domain: &D,
    stretch: Stretch,
) -> Result<Key, NetError> {
    let memory = domain.memory();
    if let Some(cache) = memory.cache.as_ref().filter(|_| stretch.is_plain()) {
        return register_cached(domain, cache, stretch);
    }
    let registration = domain.registering(|| {
        // SAFETY: the caller's promise.
        unsafe { memory.registrar.register(stretch, memory.access) }
    })?;
    MemoryCounts::add(&memory.counts.registrations);
    domain.with_core(|core| {
        let view = core.ready(&registration)?;
        let key = core.regions().insert(registration, view);
        key.ok_or_else(Regions::full)
    })
}

fn register_cached<D: MemoryDomain>(
    domain: &D,
    cache: &Cache,
    stretch: Stretch,
) -> Result<Key, NetError> {
    let handle = domain.registering(|| cached::acquire(cache, stretch))?;
    let numbered = domain.with_core(|core| {
        cached::number(cache, handle, |new| {
            let view = core.ready(new)?;
            let key = core.regions().insert_cached(view, handle);
            key.ok_or_else(Regions::full)
        })
    });
    if numbered.is_err() {
        // The first error says why; a region that does not close is kept.
        let _released = domain
            .registering(|| cached::release(cache, handle))
            .is_ok();
    }
    numbered
}

/// Ends a registration, or one of several of a region in the cache. While it waits for requests that refer
/// to the region, `meanwhile` is called. Whether the region is closed: it was the last.
///
/// # Errors
/// A stale word; the provider refused: then the domain is out of order.
pub(crate) fn deregister<D: MemoryDomain>(
    domain: &D,
    (region, mr): (Key, MrWord),
    meanwhile: impl FnMut(),
) -> Result<bool, NetError> {
    let handle = domain.with_core(|core| match core.regions().entry_mut(region) {
        Some(entry) => Ok(entry.cached),
        None => Err(gone(mr)),
    })?;
    let cached = handle.zip(domain.memory().cache.as_ref());
    if let Some((handle, cache)) = cached {
        if cached::give_back(cache, handle)? {
            return Ok(false);
        }
    }
    wait_quiet(domain, region, meanwhile)?;
    let closed = match cached {
        None => close_own(domain, region, mr).map(|()| true),
        Some(cached) => close_cached(domain, region, cached),
    };
    if let Err(error) = &closed {
        if error.code() == Code::Deregister {
            domain.poison(error.clone());
        }
    }
    closed
}

/// Makes progress until nothing is to be waited for on the region, within a bound, which is one for all regions of the
/// requests that there are: what does not come back for one of them does not for the others.
fn wait_quiet<D: MemoryDomain>(
    domain: &D,
    region: Key,
    mut meanwhile: impl FnMut(),
) -> Result<(), NetError> {
    let own = Deadline::after(DEREG_BOUND_MS);
    let number = RegionId(region.index());
    loop {
        let deadline = domain.with_core(|core| {
            core.sweep_regions();
            let deadline = core.wait_for(number, DEREG_BOUND_MS);
            if deadline.is_some() {
                core.pass();
            }
            Ok(deadline)
        })?;
        if deadline.is_none_or(|deadline| deadline.is_over()) || own.is_over() {
            return Ok(());
        }
        meanwhile();
        std::thread::yield_now();
    }
}

fn close_own<D: MemoryDomain>(domain: &D, region: Key, mr: MrWord) -> Result<(), NetError> {
    let registration = domain.with_core(|core| {
        let referenced = core.references(RegionId(region.index()));
        let taken = core.regions().take(region, referenced);
        taken.ok_or_else(|| gone(mr))
    })?;
    domain.registering(|| {
        registration.close().map_err(|refused| {
            let (kept, error) = *refused;
            // For good: the provider may still reach the memory.
            let _kept = ManuallyDrop::new(kept);
            error
        })
    })
}

fn close_cached<D: MemoryDomain>(
    domain: &D,
    region: Key,
    (handle, cache): (Handle, &Cache),
) -> Result<bool, NetError> {
    let closed = domain.registering(|| cached::release(cache, handle));
    // Somebody acquired it meanwhile.
    if matches!(closed, Ok(false)) {
        return Ok(false);
    }
    domain.with_core(|core| {
        let referenced = core.references(RegionId(region.index()));
        core.regions().forget(region, referenced);
        Ok(())
    })?;
    closed
}

/// A word whose region is not there.
#[cold]
pub(crate) fn gone(mr: MrWord) -> NetError {
    stale(Code::StaleRegion, "memory handle", mr.to_bits())
}
