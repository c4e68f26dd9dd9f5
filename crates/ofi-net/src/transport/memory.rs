//! Registering the caller's memory: what is registered, and with which domain; how, stands in
//! [`crate::domain_memory`].

use super::{Transport, stale};
use crate::clock::Deadline;
use crate::domain::{Domain, Seat};
use crate::domain_memory::{self, Memory, MemoryCore, MemoryDomain, gone};
use crate::error::{Code, NetError};
use crate::handle_words::{CommWord, MrWord};
use crate::progress::{Core, Role};
use crate::region::{RegionView, Registration};
use crate::regions::Regions;
use crate::sendrecv;
use crate::stretch::{DmaBuf, MemoryKind, Stretch};
use core::ffi::c_void;
use ofi_pools::Key;
use ofi_rdma::RegionId;

/// Plain ranges are registered in units of this, or of the system's pages if those are smaller
/// (protocol 2g.1).
const ROUND_BYTES_MAX: usize = 4096;

/// The unit that ranges are rounded to on a system with pages of `page` bytes. It is the cache's unit
/// too: one of a whole page of 64 KiB would find a region for memory beside it (trap 22).
pub(crate) fn round_bytes(page: usize) -> usize {
    page.min(ROUND_BYTES_MAX)
}

impl Transport {
    /// Registers `len` bytes at `addr` with every rail of the communicator's domain. The handle serves
    /// every communicator of the device, unless threads or communicators have domains of their own.
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
        let stretch = stretch(addr, len, kind, round_bytes(self.config.page()))?;
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
        // SAFETY: the caller's promise; the units that the range touches are mapped as long as it is.
        let region = unsafe { domain_memory::register(domain, stretch) }?;
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
        let Some((seat, region)) = self.registry.region(mr) else {
            return Err(gone(mr));
        };
        seat.domain
            .enter(|core| match core.port.regions.get(region) {
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
        let (seat, ..) = self.comm(comm)?;
        let (home, region) = self.home(seat, mr)?;
        let deregister = |seat: &Seat, key| {
            domain_memory::deregister(&seat.domain, (key, mr), || self.registry.nudge())
        };
        if !deregister(home, region)? {
            return Ok(());
        }
        for (number, twin) in self.twins.take(mr) {
            if let Some(seat) = self.registry.get(number) {
                deregister(seat, twin)?;
            }
        }
        Ok(())
    }

    /// The key by which the domain of a communicator knows a region.
    ///
    /// # Errors
    /// It is of another device or of none; it is of another domain where regions are not the device's.
    #[inline]
    pub(super) fn region_key(&self, seat: &Seat, mr: MrWord) -> Result<Key, NetError> {
        seat.own_region(mr).map_or_else(|| self.twin(seat, mr), Ok)
    }

    #[cold]
    fn twin(&self, seat: &Seat, mr: MrWord) -> Result<Key, NetError> {
        let (home, region) = self.home(seat, mr)?;
        self.twins.key(mr, (&home.domain, region), seat)
    }

    /// The domain that a region is of, and its key there.
    ///
    /// # Errors
    /// As [`Transport::region_key`].
    fn home(&self, seat: &Seat, mr: MrWord) -> Result<(&Seat, Key), NetError> {
        let is_global = self.device(seat.device)?.found().reg_is_global;
        match self.registry.region(mr) {
            Some((home, region)) if home.number() == seat.number() => Ok((home, region)),
            Some((home, region)) if is_global && home.device == seat.device => Ok((home, region)),
            _ => Err(self.registry.foreign_region(seat, mr)),
        }
    }
}

impl MemoryDomain for Domain {
    type Core = Core;

    fn with_core<R>(
        &self,
        f: impl FnOnce(&mut Core) -> Result<R, NetError>,
    ) -> Result<R, NetError> {
        self.enter(f)
    }

    fn poison(&self, error: NetError) {
        Self::poison(self, error);
    }

    fn memory(&self) -> &Memory {
        &self.memory
    }
}

impl MemoryCore for Core {
    fn regions(&mut self) -> &mut Regions {
        &mut self.port.regions
    }

    fn ready(&self, new: &Registration) -> Result<RegionView, NetError> {
        Ok(*new.view())
    }

    fn references(&self, region: RegionId) -> u32 {
        self.engine.region_refs(region)
    }

    fn wait_for(&mut self, region: RegionId, bound_ms: u64) -> Option<Deadline> {
        let Self { engine, port, .. } = self;
        if !engine.region_awaited(region) {
            return None;
        }
        let (awaited, present) = (engine.awaited_requests(region), engine.requests());
        Some(port.regions.waits.deadline(awaited, present, bound_ms))
    }

    fn sweep_regions(&mut self) {
        let Self { engine, port, .. } = self;
        port.regions.sweep(|region| engine.region_refs(region));
    }

    fn pass(&mut self) {
        self.progress();
    }
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
    let (lead, unit) = match kind {
        MemoryKind::Host => (start.addr() % unit, unit),
        _ => (0, 1),
    };
    let bytes = lead.checked_add(len);
    let bytes = bytes.and_then(|bytes| bytes.checked_next_multiple_of(unit));
    let ends = |bytes: &usize| (start.addr() - lead).checked_add(*bytes).is_some();
    let Some(bytes) = bytes.filter(ends) else {
        let what = format!("{len} bytes at {start:p} pass the end of the address space");
        return Err(NetError::new(Code::Register, what).with_errno(libc::EINVAL));
    };
    let whole = Stretch::host(start.wrapping_sub(lead), bytes);
    Ok(Stretch { kind, ..whole })
}

/// `fi_mr(3)`: all ones is no key but says that there is none to tell.
fn told(key: u64) -> Result<u64, NetError> {
    if key == efa_fabric::consts::FI_KEY_NOTAVAIL {
        let what = "the provider has no key of 64 bits for this region";
        return Err(NetError::new(Code::KeyTooWide, what).with_errno(libc::ENOENT));
    }
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Trap 23: memory of a device is registered exactly as given.
    #[test]
    fn trap_23_host_ranges_are_rounded_out_and_others_are_not() {
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
        let last = core::ptr::without_provenance_mut(usize::MAX - 100);
        for kind in [MemoryKind::Host, MemoryKind::Neuron, MemoryKind::Cuda] {
            stretch(last, 4096, kind, 4096).unwrap_err();
            assert_eq!(stretch(at, 4096, kind, 4096).unwrap().bytes, 4096);
        }
    }
}
