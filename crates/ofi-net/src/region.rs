//! Registering memory with every rail of a device, or with none (decision 36).
//!
//! A region is one registration on each rail's `fi_domain`. Its remote address is the virtual address
//! where the provider has `FI_MR_VIRT_ADDR`, else the offset from the start of what was registered,
//! page rounding included (decision 15). Where keys are ours to choose, one key serves all rails: they
//! are different `fi_domain`s.
//!
//! Nothing here takes the lock of the transport's domain: providers may take a second for a region.

use crate::dmabuf::DmaBufs;
use crate::error::{Code, NetError};
use crate::gpu::Reach;
use crate::stretch::{DmaBuf, MemoryKind, Stretch};
use efa_fabric::{Access, Desc, Domain, Endpoint, FabricError, Memory, Mr, MrRequest};
use ofi_pools::IdPool;
use ofi_rdma::limits::MAX_RAILS;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Access bits of the caller's regions: the reference's 0x3F00, since they are shared between
/// communicators, exported by getMrKey and read by flush and eager copy (decision 24).
pub(crate) const USER_ACCESS: Access = Access::SEND
    .union(Access::RECV)
    .union(Access::READ)
    .union(Access::WRITE)
    .union(Access::REMOTE_READ)
    .union(Access::REMOTE_WRITE);

const _: () = assert!(USER_ACCESS.bits() == 0x3F00);

/// Keys that we choose, where the provider does not (protocol 2g.2).
#[derive(Debug)]
struct Keys {
    ids: Mutex<IdPool>,
}

impl Keys {
    fn lock(&self) -> MutexGuard<'_, IdPool> {
        // The pool is consistent between its calls, and none of them panics half-way.
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A key of ours in use; free again when dropped.
#[derive(Debug)]
struct Key {
    keys: Arc<Keys>,
    raw: u32,
}

impl Drop for Key {
    fn drop(&mut self) {
        let freed = self.keys.lock().free(self.raw);
        debug_assert!(freed.is_ok(), "{freed:?}");
    }
}

/// Registers memory with all rails of a device.
#[derive(Debug)]
pub(crate) struct Registrar {
    domains: Vec<Domain>,
    virtual_addresses: bool,
    device_memory: Reach,
    dmabuf: Result<(), String>,
    dmabufs: DmaBufs,
    keys: Option<Arc<Keys>>,
}

/// How the rails of a device want memory registered; the same for all, as they are of one provider.
#[derive(Debug)]
pub(crate) struct Addressing {
    /// Remote addresses are virtual addresses (`FI_MR_VIRT_ADDR`).
    pub(crate) virtual_addresses: bool,
    /// The provider chooses keys (`FI_MR_PROV_KEY`).
    pub(crate) provider_keys: bool,
    /// Device memory can be registered, or why not.
    pub(crate) device_memory: Reach,
    /// Memory can be registered by dma-buf, or why not.
    pub(crate) dmabuf: Result<(), String>,
    /// What becomes of a dma-buf that is refused all the same.
    pub(crate) dmabufs: DmaBufs,
    /// Bytes of the keys that we choose, 1..=4.
    pub(crate) key_bytes: u8,
}

impl Registrar {
    /// A registrar for rails whose `fi_domain`s are `domains`.
    ///
    /// # Errors
    /// `Internal` when the pool of keys cannot be made.
    pub(crate) fn new(domains: Vec<Domain>, how: Addressing) -> Result<Self, NetError> {
        let keys = if how.provider_keys {
            None
        } else {
            Some(Arc::new(key_pool(how.key_bytes)?))
        };
        let Addressing {
            virtual_addresses,
            device_memory,
            dmabuf,
            dmabufs,
            ..
        } = how;
        Ok(Self {
            domains,
            virtual_addresses,
            device_memory,
            dmabuf,
            dmabufs,
            keys,
        })
    }

    /// Registers `stretch` with every rail; on failure with none. Memory in a dma-buf goes by its address
    /// where dma-bufs turn out not to work ([`DmaBufs`]).
    ///
    /// # Errors
    /// The provider's, naming the rail; no free key; a kind of memory that the provider cannot use.
    ///
    /// # Safety
    /// The memory stays mapped until the registration is closed, and whoever uses it meanwhile
    /// expects the network to read and write it as `access` says.
    pub(crate) unsafe fn register(
        &self,
        stretch: Stretch,
        access: Access,
    ) -> Result<Registration, NetError> {
        self.check(stretch)?;
        let memory = stretch.kind.memory(stretch.start)?;
        let key = self.keys.as_ref().map(take_key).transpose()?;
        let by_address = stretch.by_address();
        let tried = stretch.dmabuf.filter(|_| self.dmabufs.are_tried());
        let as_asked = if tried.is_some() { stretch } else { by_address };
        // SAFETY: the caller's promise.
        let first = unsafe { self.with_rails((as_asked, memory), access, key.as_ref()) };
        let (used, mrs) = match (first, tried) {
            (Err((rail, error)), Some(dmabuf))
                if self.dmabufs.give_up((dmabuf, stretch.kind), rail, &error) =>
            {
                // SAFETY: the caller's promise.
                let second = unsafe { self.with_rails((by_address, memory), access, key.as_ref()) };
                (by_address, second)
            }
            (first, _) => (as_asked, first),
        };
        let mrs = mrs.map_err(|(rail, error)| refused(rail, used, &error))?;
        let view = view_of(&mrs, used, !self.virtual_addresses);
        Ok(Registration {
            mrs,
            _key: key,
            view,
        })
    }

    /// One region on each rail, or none, and which rail refused.
    ///
    /// # Safety
    /// That of [`Registrar::register`].
    unsafe fn with_rails(
        &self,
        (stretch, memory): (Stretch, Memory),
        access: Access,
        key: Option<&Key>,
    ) -> Result<Vec<Mr>, (usize, FabricError)> {
        let mut mrs = Vec::with_capacity(self.domains.len());
        for (rail, domain) in self.domains.iter().enumerate() {
            let request = MrRequest {
                addr: stretch.start,
                len: stretch.bytes,
                access,
                requested_key: key.map_or(0, |key| u64::from(key.raw)),
                memory,
                dmabuf: stretch.dmabuf.map(Into::into),
            };
            // SAFETY: the caller's promise is the one that is asked for here; what was registered
            // so far is closed by the drop of `mrs` on the way out.
            let registered = unsafe { Mr::register(domain, &request) };
            mrs.push(registered.map_err(|error| (rail, error))?);
        }
        Ok(mrs)
    }
}

impl Registrar {
    /// What can be refused without asking the provider.
    fn check(&self, stretch: Stretch) -> Result<(), NetError> {
        let kind = stretch.kind;
        if let (MemoryKind::Cuda | MemoryKind::Neuron, Err(why)) = (kind, self.device_memory) {
            let what = format!("{kind:?} memory: {why}");
            return Err(NetError::new(Code::MemoryKind, what));
        }
        match (stretch.dmabuf, &self.dmabuf) {
            (Some(DmaBuf { fd, offset }), Err(why)) => {
                let what = format!("dma-buf {fd}, offset {offset}: {why}");
                Err(NetError::new(Code::DmaBuf, what))
            }
            _ => Ok(()),
        }
    }
}

fn key_pool(bytes: u8) -> Result<Keys, NetError> {
    let wanted = 1_u32
        .checked_shl(u32::from(bytes) * 8)
        .unwrap_or(IdPool::CAPACITY_MAX);
    // No rest for keys: they are checked by the provider, and 256 of them may be all there are.
    let pool = IdPool::new(wanted.min(IdPool::CAPACITY_MAX), 0)
        .map_err(|error| NetError::new(Code::Internal, error.to_string()))?;
    Ok(Keys {
        ids: Mutex::new(pool),
    })
}

fn take_key(keys: &Arc<Keys>) -> Result<Key, NetError> {
    let id = keys.lock().alloc();
    match id {
        Some(id) => Ok(Key {
            keys: Arc::clone(keys),
            raw: id.raw,
        }),
        None => {
            let live = keys.lock().live();
            Err(NetError::new(
                Code::OutOfKeys,
                format!("all {live} keys are in use"),
            ))
        }
    }
}

#[cold]
fn refused(rail: usize, stretch: Stretch, error: &FabricError) -> NetError {
    let Stretch {
        start, bytes, kind, ..
    } = stretch;
    let errno = error.errno().code();
    let what = format!("{bytes} bytes of {kind:?} memory at {start:p} on rail {rail}: {error}");
    // With FI_HMEM a provider may still lack the interface of one kind, or the way to it; each says so in
    // its own way.
    let lacks = [libc::ENOSYS, libc::EOPNOTSUPP, libc::EINVAL, libc::ENODEV];
    if kind != MemoryKind::Host && lacks.contains(&errno) {
        return NetError::new(Code::DeviceMemoryRefused, what);
    }
    NetError::new(Code::Register, what).with_errno(errno)
}

/// Memory registered with every rail of a device. Closed when dropped; [`Registration::close`] tells
/// when the provider refuses.
#[derive(Debug)]
pub(crate) struct Registration {
    mrs: Vec<Mr>,
    /// After the regions: a key is free only once its regions are closed.
    _key: Option<Key>,
    view: RegionView,
}

impl Registration {
    /// What each rail has to be told to use the memory.
    pub(crate) const fn view(&self) -> &RegionView {
        &self.view
    }

    /// Binds the region to an endpoint and enables it, once, where the provider has `FI_MR_ENDPOINT`: what
    /// the data path has to know of it from then on. Keys are valid only now.
    ///
    /// # Errors
    /// The provider's.
    pub(crate) fn bind(&self, endpoint: &Endpoint) -> Result<RegionView, NetError> {
        let mut bound = self.mrs.iter().map(|mr| mr.bind_endpoint(endpoint));
        bound
            .try_for_each(|bound| bound)
            .map_err(|error| NetError::fabric(Code::Register, &error))?;
        let mut view = self.view;
        view.learn(&self.mrs);
        Ok(view)
    }

    /// Closes the region on every rail.
    ///
    /// # Errors
    /// The first refusal, with what could not be closed: its memory is still within the network's
    /// reach.
    pub(crate) fn close(mut self) -> Result<(), Box<(Self, NetError)>> {
        let mut kept = Vec::new();
        let mut first = None;
        for mr in self.mrs.drain(..) {
            if let Err(failed) = mr.close() {
                kept.push(failed.object);
                first.get_or_insert(failed.error);
            }
        }
        let Some(error) = first else { return Ok(()) };
        self.mrs = kept;
        let what = format!(
            "{} bytes at {:#x}: {error}",
            self.view.bytes, self.view.base
        );
        let error = NetError::new(Code::Deregister, what).with_errno(error.errno().code());
        Err(Box::new((self, error)))
    }
}

fn view_of(mrs: &[Mr], stretch: Stretch, offsets: bool) -> RegionView {
    let mut view = RegionView {
        descs: [Desc::NONE; MAX_RAILS],
        keys: [0; MAX_RAILS],
        base: stretch.start.expose_provenance() as u64,
        bytes: stretch.bytes as u64,
        offsets,
        kind: stretch.kind,
        in_dmabuf: stretch.dmabuf.is_some(),
    };
    view.learn(mrs);
    view
}

/// A region as the data path sees it: numbers only.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RegionView {
    pub(crate) descs: [Desc; MAX_RAILS],
    pub(crate) keys: [u64; MAX_RAILS],
    pub(crate) base: u64,
    pub(crate) bytes: u64,
    pub(crate) offsets: bool,
    pub(crate) kind: MemoryKind,
    /// Registered by a dma-buf.
    pub(crate) in_dmabuf: bool,
}

impl RegionView {
    /// Takes over what the provider says of its regions, one a rail.
    fn learn(&mut self, mrs: &[Mr]) {
        let slots = self.descs.iter_mut().zip(&mut self.keys);
        for (mr, (desc, key)) in mrs.iter().zip(slots) {
            (*desc, *key) = (mr.desc(), mr.key());
        }
    }

    /// What a remote operation has to name for the local address `addr` of this region.
    #[inline]
    pub(crate) const fn wire_addr(&self, addr: u64) -> u64 {
        if self.offsets {
            addr.wrapping_sub(self.base)
        } else {
            addr
        }
    }

    /// The `len` bytes at `addr`, moved back where they would pass the end: what a read that only has
    /// to touch the region near `addr` names. Fewer only if the region has fewer.
    pub(crate) fn within(&self, addr: u64, len: usize) -> (u64, usize) {
        let len = usize::try_from(self.bytes).map_or(len, |bytes| bytes.min(len));
        let last = self.base + self.bytes - len as u64;
        (addr.min(last), len)
    }

    /// Whether `len` bytes at `addr` lie inside.
    #[inline]
    pub(crate) const fn covers(&self, addr: u64, len: u64) -> bool {
        let offset = addr.wrapping_sub(self.base);
        offset <= self.bytes && len <= self.bytes - offset
    }

    /// Descriptor for a rail.
    #[inline]
    pub(crate) fn desc(&self, rail: u8) -> Desc {
        self.descs
            .get(usize::from(rail))
            .copied()
            .unwrap_or(Desc::NONE)
    }

    /// Remote key for a rail.
    #[inline]
    pub(crate) fn key(&self, rail: u8) -> u64 {
        self.keys.get(usize::from(rail)).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(offsets: bool) -> RegionView {
        let (descs, keys) = ([Desc::NONE; MAX_RAILS], [1, 2, 3, 4]);
        RegionView {
            descs,
            keys,
            base: 0x1000,
            bytes: 0x2000,
            offsets,
            kind: MemoryKind::Host,
            in_dmabuf: false,
        }
    }

    #[test]
    fn remote_addresses_are_virtual_or_offsets() {
        assert_eq!(view(false).wire_addr(0x1800), 0x1800);
        assert_eq!(view(true).wire_addr(0x1800), 0x800);
    }

    #[test]
    fn a_buffer_is_inside_or_not() {
        let view = view(false);
        assert!(view.covers(0x1000, 0x2000) && view.covers(0x3000, 0) && view.covers(0x2FFF, 1));
        assert!(!view.covers(0xFFF, 1) && !view.covers(0x2FFF, 2) && !view.covers(0x3001, 0));
        assert!(!view.covers(u64::MAX, 2) && !view.covers(0x1000, u64::MAX));
    }

    #[test]
    fn a_read_near_the_end_is_moved_inside() {
        let view = view(false);
        assert_eq!(view.within(0x1800, 4), (0x1800, 4));
        assert_eq!(view.within(0x2FFC, 4), (0x2FFC, 4));
        for addr in 0x2FFD..=0x3000 {
            assert_eq!(view.within(addr, 4), (0x2FFC, 4));
        }
        let short = RegionView { bytes: 3, ..view };
        assert_eq!(short.within(0x1001, 4), (0x1000, 3));
    }

    #[test]
    fn keys_are_used_again_and_run_out() {
        let keys = Arc::new(key_pool(1).unwrap());
        let all: Vec<_> = (0..256).map(|_| take_key(&keys).unwrap()).collect();
        assert!(
            all.iter().any(|key| key.raw == 0),
            "key 0 is a key like any other"
        );
        let error = take_key(&keys).unwrap_err();
        assert_eq!(error.code(), Code::OutOfKeys);
        drop(all);
        assert_eq!(keys.lock().live(), 0);
        take_key(&keys).unwrap();
    }

    #[test]
    fn wide_keys_are_bounded_by_the_pool() {
        assert!(key_pool(4).unwrap().lock().capacity() <= IdPool::CAPACITY_MAX);
        assert_eq!(key_pool(2).unwrap().lock().capacity(), 1 << 16);
    }
}
