//! Memory regions: memory that the device may touch.

use core::ffi::c_void;
use core::fmt;
use core::ptr;

use ofi_sys::bindings as b;
use ofi_sys::consts as c;
use ofi_sys::grown::{Padded, fi_mr_attr, fi_mr_dmabuf};
use ofi_sys::ops;

use crate::domain::Domain;
use crate::endpoint::Endpoint;
use crate::error::{CloseFailed, Errno, FabricError, check};
use crate::fid::Fid;
use crate::flags::Access;
use crate::version::Version;

/// The descriptor of a region, which posts name local memory with where the provider wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Desc(*mut c_void);

impl Desc {
    /// None, for memory that needs no registration.
    pub const NONE: Self = Self(ptr::null_mut());

    /// From libfabric's `desc`.
    #[must_use]
    pub const fn from_raw(raw: *mut c_void) -> Self {
        Self(raw)
    }

    /// libfabric's `desc`.
    #[must_use]
    pub const fn as_raw(self) -> *mut c_void {
        self.0
    }
}

// SAFETY: a name that is only handed to the provider, never followed here.
unsafe impl Send for Desc {}
// SAFETY: as above.
unsafe impl Sync for Desc {}

/// Whose memory it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Memory {
    /// The host's.
    #[default]
    Host,
    /// Of the CUDA device with this ordinal.
    Cuda(i32),
    /// Of a ROCm device.
    Rocr,
    /// Of the Neuron device with this ordinal.
    Neuron(i32),
}

/// A dma-buf that a range of memory lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dmabuf {
    /// Its file descriptor.
    pub fd: i32,
    /// Where the range starts within it, in bytes.
    pub offset: u64,
}

/// What to register.
#[derive(Clone, Copy, Debug)]
pub struct MrRequest {
    /// Where it starts.
    pub addr: *const u8,
    /// Bytes.
    pub len: usize,
    /// What it may be used for.
    pub access: Access,
    /// Its key, where the provider does not choose keys; must be free in the domain. 0 is a key.
    pub requested_key: u64,
    /// Whose memory it is.
    pub memory: Memory,
    /// The dma-buf to register it through.
    pub dmabuf: Option<Dmabuf>,
}

impl MrRequest {
    /// Host memory with key 0 requested.
    #[must_use]
    pub const fn host(addr: *const u8, len: usize, access: Access) -> Self {
        Self {
            addr,
            len,
            access,
            requested_key: 0,
            memory: Memory::Host,
            dmabuf: None,
        }
    }
}

impl fmt::Display for MrRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} bytes at {:p}, access {:?}, ",
            self.len, self.addr, self.access
        )?;
        write!(f, "key {:#x}, memory {:?}", self.requested_key, self.memory)?;
        self.dmabuf
            .map_or(Ok(()), |dmabuf| write!(f, ", {dmabuf:?}"))
    }
}

/// A registered region, fi_mr(3). Keeps its domain open; dropping it deregisters.
#[derive(Debug)]
pub struct Mr {
    fid: Fid<b::fid_mr>,
    domain: Domain,
}

impl Mr {
    /// Registers memory. May be called by several threads at once (FI_THREAD_SAFE).
    ///
    /// # Safety
    ///
    /// The range is memory of the kind it says, and stays mapped until the region is closed *and*,
    /// if peers may access it, every endpoint of the domain is: some providers finish an incoming
    /// operation after its region was closed. While peers may access it, no Rust reference to its
    /// bytes exists.
    ///
    /// # Errors
    ///
    /// FI_EOPNOTSUPP for a dma-buf with an API below 1.20; else what the provider says, with all
    /// values of the request.
    pub unsafe fn register(domain: &Domain, request: &MrRequest) -> Result<Self, FabricError> {
        let failed = |errno| FabricError::new("fi_mr_regattr", errno).with(request);
        if request.dmabuf.is_some() && domain.info().api_version() < Version::DMABUF {
            return Err(failed(Errno::EOPNOTSUPP));
        }
        let iovec = libc::iovec {
            iov_base: request.addr.cast_mut().cast(),
            iov_len: request.len,
        };
        let mut dmabuf = Padded::<fi_mr_dmabuf>::zeroed();
        let mut attr = attributes(request);
        let mut flags = 0;
        attr.get_mut().mr_iov = (&raw const iovec).cast();
        if let Some(source) = request.dmabuf {
            *dmabuf.get_mut() =
                dmabuf_range(request, source).ok_or_else(|| failed(Errno::EINVAL))?;
            attr.get_mut().mr_iov = dmabuf.as_ptr().cast();
            flags = c::FI_MR_DMABUF;
        }
        let mut raw: *mut b::fid_mr = ptr::null_mut();
        // SAFETY: fi_mr(3): an open domain; attributes that are zero but for what is set, padded, and
        // point to one segment that lives through the call; `raw` takes the region. That the memory
        // is good is the caller's promise.
        let code =
            unsafe { ops::fi_mr_regattr(domain.as_raw(), attr.as_ptr(), flags, &raw mut raw) };
        check("fi_mr_regattr", code).map_err(|error| error.with(request))?;
        // SAFETY: fi_mr(3): registered, and ours to close.
        let fid = unsafe { Fid::new("fi_mr_regattr", raw, true) }?;
        Ok(Self {
            fid,
            domain: domain.clone(),
        })
    }

    /// The name of its memory in posts of this domain.
    #[inline]
    #[must_use]
    pub fn desc(&self) -> Desc {
        // SAFETY: fi_mr(3): an open region; the field is set once, when it is registered.
        Desc(unsafe { (*self.fid.as_ptr()).mem_desc })
    }

    /// The key by which peers name it; at most as wide as the provider's key size.
    #[inline]
    #[must_use]
    pub fn key(&self) -> u64 {
        // SAFETY: fi_mr(3): an open region; the field is set once, when it is registered.
        unsafe { (*self.fid.as_ptr()).key }
    }

    /// Binds it to an endpoint and enables it: needed with
    /// [`MrMode::ENDPOINT`](crate::MrMode::ENDPOINT) only, before any use.
    ///
    /// # Errors
    ///
    /// FI_EDOMAIN for an endpoint of another domain; else what the provider says.
    pub fn bind_endpoint(&self, endpoint: &Endpoint) -> Result<(), FabricError> {
        if !self.domain.is_same(endpoint.domain()) {
            return Err(FabricError::new("fi_mr_bind", Errno::EDOMAIN).with("another domain"));
        }
        // SAFETY: fi_mr(3): an open region and an open endpoint of one domain.
        let code = unsafe { ops::fi_bind(self.fid.as_fid(), endpoint.as_raw().cast(), 0) };
        check("fi_mr_bind", code)?;
        // SAFETY: fi_mr(3): an open, bound region; FI_ENABLE takes no argument.
        let code = unsafe { ops::fi_control(self.fid.as_fid(), c::FI_ENABLE, ptr::null_mut()) };
        check("fi_mr_enable", code)
    }

    /// Leaves it registered for ever, and counts that.
    pub(crate) fn abandon(mut self) {
        self.fid.abandon();
    }

    /// The domain it belongs to.
    #[must_use]
    pub const fn domain(&self) -> &Domain {
        &self.domain
    }

    /// The raw object, still owned by this one: do not close it.
    #[must_use]
    pub const fn as_raw(&self) -> *mut b::fid_mr {
        self.fid.as_ptr()
    }

    /// Deregisters it now.
    ///
    /// # Errors
    ///
    /// Gives it back, still registered, if the provider refuses: its memory must not be freed.
    pub fn close(mut self) -> Result<(), CloseFailed<Self>> {
        self.fid.close().map_err(|error| CloseFailed {
            error,
            object: self,
        })
    }
}

/// All attributes but the memory itself.
fn attributes(request: &MrRequest) -> Padded<fi_mr_attr> {
    let mut padded = Padded::<fi_mr_attr>::zeroed();
    let attr = padded.get_mut();
    attr.iov_count = 1;
    attr.access = request.access.bits();
    attr.requested_key = request.requested_key;
    match request.memory {
        Memory::Host => attr.iface = b::FI_HMEM_SYSTEM,
        Memory::Rocr => attr.iface = b::FI_HMEM_ROCR,
        Memory::Cuda(device) => {
            attr.iface = b::FI_HMEM_CUDA;
            attr.device.cuda = device;
        }
        Memory::Neuron(device) => {
            attr.iface = b::FI_HMEM_NEURON;
            attr.device.neuron = device;
        }
    }
    padded
}

/// fi_mr(3): `base_addr` is where the dma-buf starts, `offset` and `len` say which part of it.
/// `None` if it would start below address 0.
fn dmabuf_range(request: &MrRequest, source: Dmabuf) -> Option<fi_mr_dmabuf> {
    let offset = usize::try_from(source.offset).ok()?;
    let base = request.addr.addr().checked_sub(offset)?;
    Some(fi_mr_dmabuf {
        fd: source.fd,
        offset: source.offset,
        len: request.len,
        base_addr: request.addr.cast_mut().with_addr(base).cast(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dma_buf_starts_its_offset_before_the_range() {
        let request = MrRequest::host(ptr::without_provenance(0x5000), 64, Access::SEND);
        let range = dmabuf_range(
            &request,
            Dmabuf {
                fd: 7,
                offset: 0x1000,
            },
        )
        .map(|range| (range.fd, range.offset, range.len, range.base_addr.addr()));
        assert_eq!(range, Some((7, 0x1000, 64, 0x4000)));
        assert!(
            dmabuf_range(
                &request,
                Dmabuf {
                    fd: 7,
                    offset: 0x6000
                }
            )
            .is_none()
        );
    }

    #[test]
    fn a_device_is_named_with_its_kind() {
        let mut request = MrRequest::host(ptr::null(), 0, Access::SEND);
        request.memory = Memory::Neuron(3);
        let attr = attributes(&request);
        // SAFETY: with FI_HMEM_NEURON the union holds the ordinal.
        let device = unsafe { attr.get().device.neuron };
        assert_eq!((attr.get().iface, device), (b::FI_HMEM_NEURON, 3));
    }
}
