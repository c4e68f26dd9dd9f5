//! Registering the caller's memory (protocol 2g.1, decisions 13, 25, 36).
//!
//! ```text
//! reg_mr:    cache, if on -> register on every rail, no lock held -> number it -> word
//! dereg_mr:  last user? -> requests that refer to it? wait with progress, bounded -> close
//! ```

use super::{Transport, stale};
use crate::cached;
use crate::clock::Deadline;
use crate::domain::Domain;
use crate::error::{Code, NetError};
use crate::handle_words::{CommWord, MrWord};
use crate::progress::{Core, Role};
use crate::region::{DmaBuf, MemoryKind, Registration, Stretch, USER_ACCESS};
use crate::sendrecv;
use core::ffi::c_void;
use core::mem::ManuallyDrop;
use ofi_pools::Key;
use ofi_pools::mr::Handle;
use ofi_rdma::RegionId;

/// Plain ranges are registered in units of this, or of the system's pages if those are smaller
/// (protocol 2g.1).
const ROUND_BYTES_MAX: usize = 4096;

/// How long a deregistration waits for operations on the region, milliseconds.
pub(crate) const DEREG_BOUND_MS: u64 = 5000;

/// The unit that ranges are rounded to on a system with pages of `page` bytes. It is the cache's unit
/// too: one of a whole page of 64 KiB would find a region for memory beside it (trap 22).
pub(crate) fn round_bytes(page: usize) -> usize {
    page.min(ROUND_BYTES_MAX)
}

impl Transport {
    /// Registers `len` bytes at `addr` with every rail of the communicator's domain. The handle serves
    /// every communicator of that domain: of the device, unless each thread has a domain of its own.
    ///
    /// # Errors
    /// No such communicator, no bytes, a kind of memory that the provider cannot use, or the
    /// provider's refusal; nothing is left registered then.
    ///
    /// # Safety
    /// The memory is of the kind it says, and stays mapped until [`Transport::dereg_mr`].
    pub unsafe fn reg_mr(
        &self,
        comm: CommWord,
        addr: *mut c_void,
        len: usize,
        kind: MemoryKind,
    ) -> Result<MrWord, NetError> {
        let unit = match &*self.sendrecv {
            None => self.comm(comm)?.1.round_bytes,
            Some(_) => round_bytes(self.config.page()),
        };
        let stretch = stretch(addr, len, kind, unit)?;
        // SAFETY: rounding stays within the pages that the caller's range touches, which are mapped as
        // long as the range is; the rest is the caller's promise.
        unsafe { self.register(comm, stretch) }
    }

    /// As [`Transport::reg_mr`], for memory that lies in a dma-buf, whose mapping begins at `addr`:
    /// registered are the `len` bytes at `addr` + offset, neither rounded nor cached. The file descriptor
    /// is not needed after the call.
    ///
    /// # Errors
    /// As [`Transport::reg_mr`]; dma-buf is switched off, or kernel, libfabric or provider are without.
    ///
    /// # Safety
    /// As [`Transport::reg_mr`], for the bytes that are registered.
    pub unsafe fn reg_mr_dmabuf(
        &self,
        comm: CommWord,
        addr: *mut c_void,
        len: usize,
        kind: MemoryKind,
        dmabuf: DmaBuf,
    ) -> Result<MrWord, NetError> {
        // Protocol 2g.1: the reference gives libfabric the caller's address as the base.
        let offset = usize::try_from(dmabuf.offset).unwrap_or(usize::MAX);
        let fits = (addr.addr().checked_add(offset)).and_then(|start| start.checked_add(len));
        if len == 0 || fits.is_none() {
            let what = format!("{len} bytes at {addr:p} with the offset {offset} in a dma-buf");
            return Err(NetError::new(Code::Register, what).with_errno(libc::EINVAL));
        }
        let stretch = Stretch {
            start: addr.cast::<u8>().cast_const().wrapping_add(offset),
            bytes: len,
            kind,
            dmabuf: Some(dmabuf),
        };
        // SAFETY: the caller's promise.
        unsafe { self.register(comm, stretch) }
    }

    /// Registers, or finds in the cache.
    ///
    /// # Safety
    /// As [`Transport::reg_mr`], for the whole stretch.
    unsafe fn register(&self, comm: CommWord, stretch: Stretch) -> Result<MrWord, NetError> {
        if let Some(other) = &*self.sendrecv {
            self.alive()?;
            // SAFETY: the caller's promise.
            return unsafe { other.reg_mr(comm, stretch) };
        }
        let (seat, domain, key) = self.comm(comm)?;
        domain.enter(|core| core.expect_any(key))?;
        let plain = stretch.kind == MemoryKind::Host && stretch.dmabuf.is_none();
        let region = match &domain.cache {
            // Trap 23: device memory is neither rounded nor shared with its neighbours.
            Some(cache) if plain => {
                let handle = domain.registering(|| cached::acquire(cache, stretch))?;
                domain.enter(|core| core.number_cached(cache, handle))?
            }
            _ => {
                let registration = domain.registering(|| {
                    // SAFETY: the caller's promise.
                    unsafe { domain.registrar.register(stretch, USER_ACCESS) }
                })?;
                domain.enter(|core| core.number(registration))?
            }
        };
        seat.region_word(region)
    }

    /// The key by which peers name a region in one-sided operations: that of rail 0 (protocol 2a.1).
    ///
    /// # Errors
    /// A stale handle.
    pub fn mr_key(&self, mr: MrWord) -> Result<u64, NetError> {
        self.alive()?;
        if self.sendrecv.is_some() {
            return Err(sendrecv::one_sided());
        }
        let Some((domain, region)) = self.registry.region(mr) else {
            return Err(gone(mr));
        };
        domain.enter(|core| match core.port.regions.get(region) {
            Some((_, view)) => told(view.key(0)),
            None => Err(gone(mr)),
        })
    }

    /// Ends a registration. Once it returns without error, the network does not touch the memory any
    /// more. If requests still refer to it (of a closed communicator, say, whose operations have not
    /// completed), they are given a bounded time.
    ///
    /// # Errors
    /// A stale handle; the provider refused: then the memory must not be reused, and the device
    /// answers nothing but errors from now on.
    pub fn dereg_mr(&self, comm: CommWord, mr: MrWord) -> Result<(), NetError> {
        if let Some(other) = &*self.sendrecv {
            self.alive()?;
            return other.dereg_mr(comm, mr);
        }
        let (seat, domain, _) = self.comm(comm)?;
        let region = self.registry.region_key(seat, mr)?;
        let closed = match domain.enter(|core| core.cache_entry(region, mr))? {
            None => {
                self.wait_quiet(domain, region)?;
                close_own(domain, region, mr)
            }
            Some(handle) => {
                if domain.last_reference(handle) {
                    self.wait_quiet(domain, region)?;
                }
                close_cached(domain, region, handle)
            }
        };
        if let Err(error) = &closed {
            if error.code() == Code::Deregister {
                domain.poison(error.clone());
            }
        }
        closed
    }

    /// Makes progress until nothing is to be waited for on the region, within a bound.
    fn wait_quiet(&self, domain: &Domain, region: Key) -> Result<(), NetError> {
        let deadline = Deadline::after(DEREG_BOUND_MS);
        loop {
            let quiet = domain.enter(|core| {
                let Core { engine, port, .. } = &mut *core;
                port.regions.sweep(|id| engine.region_refs(id));
                // Requests that are done, or whose communicator failed, wait for nothing but their
                // `test`.
                if !engine.region_awaited(RegionId(region.index())) {
                    return Ok(true);
                }
                core.progress();
                Ok(false)
            })?;
            if quiet || deadline.is_over() {
                return Ok(());
            }
            if self.config.endpoint_per_comm {
                self.nudge();
            }
            std::thread::yield_now();
        }
    }
}

impl Domain {
    /// Whether the cache gives the region up with the next release.
    fn last_reference(&self, handle: Handle) -> bool {
        let references = |cache: &cached::Cache| cache.with(|cache| cache.references(handle));
        self.cache.as_ref().and_then(references) == Some(1)
    }
}

fn close_own(domain: &Domain, region: Key, mr: MrWord) -> Result<(), NetError> {
    let registration = domain.enter(|core| {
        let referenced = core.engine.region_refs(RegionId(region.index()));
        core.port
            .regions
            .take(region, referenced)
            .ok_or_else(|| gone(mr))
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

fn close_cached(domain: &Domain, region: Key, handle: Handle) -> Result<(), NetError> {
    let Some(cache) = &domain.cache else {
        return Ok(());
    };
    let closed = domain.registering(|| cached::release(cache, handle));
    if matches!(closed, Ok(false)) {
        return Ok(());
    }
    domain.enter(|core| {
        let referenced = core.engine.region_refs(RegionId(region.index()));
        core.port.regions.forget(region, referenced);
        Ok(())
    })?;
    closed.map(drop)
}

impl Core {
    fn expect_any(&self, comm: ofi_rdma::CommKey) -> Result<(), NetError> {
        match self.open.get(&comm) {
            Some(Role::Listener) => {
                let what = "memory is registered with a send or receive communicator";
                Err(NetError::new(Code::WrongKind, what))
            }
            Some(_) => Ok(()),
            None => Err(stale(Code::StaleComm, "communicator", comm.to_bits())),
        }
    }

    fn number(&mut self, registration: Registration) -> Result<Key, NetError> {
        self.port.regions.insert(registration).ok_or_else(too_many)
    }

    fn number_cached(&mut self, cache: &cached::Cache, handle: Handle) -> Result<Key, NetError> {
        let regions = &mut self.port.regions;
        cache.with(|cache| {
            let cached = cache.get(handle).ok_or_else(too_many)?;
            if let Some(&key) = cached.number.get() {
                return Ok(key);
            }
            let view = *cached.registration.view();
            let key = regions.insert_cached(view, handle).ok_or_else(too_many)?;
            Ok(*cached.number.get_or_init(|| key))
        })
    }

    fn cache_entry(&mut self, region: Key, mr: MrWord) -> Result<Option<Handle>, NetError> {
        match self.port.regions.entry_mut(region) {
            Some(entry) => Ok(entry.cached),
            None => Err(gone(mr)),
        }
    }
}

/// The stretch to register: whole units of [`round_bytes`] for host memory.
fn stretch(
    addr: *mut c_void,
    len: usize,
    kind: MemoryKind,
    unit: usize,
) -> Result<Stretch, NetError> {
    let start = addr.cast::<u8>().cast_const();
    if len == 0 || start.is_null() {
        let what = format!("{len} bytes at {start:p}: there is nothing to register");
        return Err(NetError::new(Code::Register, what).with_errno(libc::EINVAL));
    }
    if kind != MemoryKind::Host {
        let exact = Stretch::host(start, len);
        return Ok(Stretch { kind, ..exact });
    }
    let lead = start.addr() % unit;
    match lead
        .checked_add(len)
        .and_then(|bytes| bytes.checked_next_multiple_of(unit))
    {
        Some(bytes) => Ok(Stretch::host(start.wrapping_sub(lead), bytes)),
        None => {
            let what = format!("{len} bytes at {start:p} pass the end of the address space");
            Err(NetError::new(Code::Register, what).with_errno(libc::EINVAL))
        }
    }
}

/// `fi_mr(3)`: all ones is no key but says that there is none to tell.
fn told(key: u64) -> Result<u64, NetError> {
    if key == efa_fabric::consts::FI_KEY_NOTAVAIL {
        let what = "the provider has no key of 64 bits for this region";
        return Err(NetError::new(Code::KeyTooWide, what).with_errno(libc::ENOENT));
    }
    Ok(key)
}

#[cold]
fn gone(mr: MrWord) -> NetError {
    stale(Code::StaleRegion, "memory handle", mr.to_bits())
}

#[cold]
fn too_many() -> NetError {
    NetError::new(
        Code::OutOfIds,
        "more than 4194304 memory registrations on a device",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_ranges_are_rounded_out_and_others_are_not() {
        let at = core::ptr::without_provenance_mut(0x1234_5010);
        let host = stretch(at, 10, MemoryKind::Host, 4096).unwrap();
        assert_eq!((host.start.addr(), host.bytes), (0x1234_5000, 4096));
        let exact = stretch(at, 10, MemoryKind::Neuron, 4096).unwrap();
        assert_eq!((exact.start.addr(), exact.bytes), (0x1234_5010, 10));
        let two = stretch(at, 4096, MemoryKind::Host, 4096).unwrap();
        assert_eq!(two.bytes, 8192);
    }

    #[test]
    fn nothing_and_too_much_are_errors() {
        let at = core::ptr::without_provenance_mut(0x1000);
        assert_eq!(
            stretch(at, 0, MemoryKind::Host, 4096).unwrap_err().code(),
            Code::Register
        );
        stretch(core::ptr::null_mut(), 1, MemoryKind::Host, 4096).unwrap_err();
        stretch(at, usize::MAX, MemoryKind::Host, 4096).unwrap_err();
    }
}
