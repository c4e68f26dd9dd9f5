//! Reading one `fi_info`.

use core::ffi::{CStr, c_char};
use core::fmt;
use core::ptr::NonNull;

use ofi_sys::bindings as b;
use ofi_sys::consts as c;

use crate::error::FabricError;
use crate::flags::{Caps, Mode, MrMode};
use crate::info::{InfoBuf, Nic};
use crate::version::Version;

/// Who may call what at the same time, fi_domain(3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Threading {
    /// No preference.
    Unspecified,
    /// Any thread may call anything.
    Safe,
    /// One thread at a time for each object.
    Fid,
    /// One thread at a time for all objects of a domain.
    Domain,
    /// One thread at a time for a completion queue and the endpoints bound to it.
    Completion,
    /// A value this crate does not know.
    Other(u32),
}

impl Threading {
    /// libfabric's number for it.
    #[must_use]
    pub const fn to_raw(self) -> u32 {
        match self {
            Self::Unspecified => b::FI_THREAD_UNSPEC,
            Self::Safe => b::FI_THREAD_SAFE,
            Self::Fid => b::FI_THREAD_FID,
            Self::Domain => b::FI_THREAD_DOMAIN,
            Self::Completion => b::FI_THREAD_COMPLETION,
            Self::Other(raw) => raw,
        }
    }

    const fn from_raw(raw: u32) -> Self {
        match raw {
            b::FI_THREAD_UNSPEC => Self::Unspecified,
            b::FI_THREAD_SAFE => Self::Safe,
            b::FI_THREAD_FID => Self::Fid,
            b::FI_THREAD_DOMAIN => Self::Domain,
            b::FI_THREAD_COMPLETION => Self::Completion,
            _ => Self::Other(raw),
        }
    }
}

/// Who makes data move, fi_domain(3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Progress {
    /// No preference.
    Unspecified,
    /// The provider or its hardware.
    Auto,
    /// The program, by reading completion queues.
    Manual,
    /// A value this crate does not know (2.x has one for control progress only).
    Other(u32),
}

impl Progress {
    /// libfabric's number for it.
    #[must_use]
    pub const fn to_raw(self) -> u32 {
        match self {
            Self::Unspecified => b::FI_PROGRESS_UNSPEC,
            Self::Auto => b::FI_PROGRESS_AUTO,
            Self::Manual => b::FI_PROGRESS_MANUAL,
            Self::Other(raw) => raw,
        }
    }

    const fn from_raw(raw: u32) -> Self {
        match raw {
            b::FI_PROGRESS_UNSPEC => Self::Unspecified,
            b::FI_PROGRESS_AUTO => Self::Auto,
            b::FI_PROGRESS_MANUAL => Self::Manual,
            _ => Self::Other(raw),
        }
    }
}

/// One way to open an endpoint, as libfabric describes it; borrowed from an
/// [`InfoList`](crate::InfoList) or an [`InfoBuf`].
///
/// Sizes are in bytes, queue sizes in operations. All fields read here exist since libfabric 1.17;
/// where a struct became longer since, its tail is not read.
#[repr(transparent)]
pub struct Info(b::fi_info);

/// A number or bit set in one of the structs that an `fi_info` points to; `$absent` where that
/// struct is missing (never from a real library).
macro_rules! field {
    ($self:ident, $attr:ident, $field:ident, $absent:expr) => {{
        match NonNull::new($self.0.$attr) {
            // SAFETY: fi_getinfo(3): the attribute pointers of an fi_info are null or point to a
            // struct that lives as long as the fi_info, which is borrowed.
            Some(attr) => unsafe { (*attr.as_ptr()).$field },
            None => $absent,
        }
    }};
}

impl Info {
    /// View of a raw entry.
    ///
    /// # Safety
    ///
    /// `raw` came from libfabric, stays alive for `'a`, and is not changed meanwhile.
    #[must_use]
    pub unsafe fn from_raw<'a>(raw: NonNull<b::fi_info>) -> &'a Self {
        // SAFETY: `Info` is a transparent wrapper of fi_info; the rest is the caller's promise.
        unsafe { raw.cast::<Self>().as_ref() }
    }

    pub(crate) const fn raw(&self) -> &b::fi_info {
        &self.0
    }

    /// The raw `fi_info`. Reading only: it may be shared.
    #[must_use]
    pub const fn as_raw(&self) -> *const b::fi_info {
        &raw const self.0
    }

    /// An owned copy, by `fi_dupinfo`.
    ///
    /// # Errors
    ///
    /// FI_ENOMEM.
    pub fn dup(&self) -> Result<InfoBuf, FabricError> {
        InfoBuf::copy_of(self)
    }

    /// Name of the provider, "efa", "tcp", "tcp;ofi_rxm", "shm".
    #[must_use]
    pub fn provider_name(&self) -> &str {
        let raw = field!(self, fabric_attr, prov_name, core::ptr::null_mut());
        // SAFETY: the string belongs to this fi_info, which is borrowed.
        unsafe { text(raw) }
    }

    /// The provider's own version, packed as the provider likes.
    #[must_use]
    pub fn provider_version(&self) -> u32 {
        field!(self, fabric_attr, prov_version, 0)
    }

    /// Name of the fabric: "efa", "efa-direct", a subnet.
    #[must_use]
    pub fn fabric_name(&self) -> &str {
        let raw = field!(self, fabric_attr, name, core::ptr::null_mut());
        // SAFETY: the string belongs to this fi_info, which is borrowed.
        unsafe { text(raw) }
    }

    /// Name of the domain: an interface or device.
    #[must_use]
    pub fn domain_name(&self) -> &str {
        let raw = field!(self, domain_attr, name, core::ptr::null_mut());
        // SAFETY: the string belongs to this fi_info, which is borrowed.
        unsafe { text(raw) }
    }

    /// The API that was asked for when this entry was made.
    #[must_use]
    pub fn api_version(&self) -> Version {
        Version::unpack(field!(self, fabric_attr, api_version, 0))
    }

    /// What the endpoint can do.
    #[must_use]
    pub const fn caps(&self) -> Caps {
        Caps::from_bits_retain(self.0.caps)
    }

    /// What the provider demands.
    #[must_use]
    pub const fn mode(&self) -> Mode {
        Mode::from_bits_retain(self.0.mode)
    }

    /// What registration demands.
    #[must_use]
    pub fn mr_mode(&self) -> MrMode {
        MrMode::from_bits_retain(field!(self, domain_attr, mr_mode, 0))
    }

    /// Whether peers address this side's memory by virtual address; else by offset in the region.
    #[must_use]
    pub fn uses_virtual_addresses(&self) -> bool {
        self.mr_mode().intersects(MrMode::VIRT_ADDR | MrMode::BASIC)
    }

    /// Whether the provider chooses keys; else each registration must request a free one.
    #[must_use]
    pub fn provider_chooses_keys(&self) -> bool {
        self.mr_mode().intersects(MrMode::PROV_KEY | MrMode::BASIC)
    }

    /// Format of addresses, FI_SOCKADDR_IN, FI_ADDR_EFA and so on.
    #[must_use]
    pub const fn addr_format(&self) -> u32 {
        self.0.addr_format
    }

    /// Endpoint type, FI_EP_RDM and so on.
    #[must_use]
    pub fn endpoint_type(&self) -> u32 {
        field!(self, ep_attr, type_, b::FI_EP_UNSPEC)
    }

    /// Wire protocol and its version, FI_PROTO_EFA and so on.
    #[must_use]
    pub fn protocol(&self) -> (u32, u32) {
        (
            field!(self, ep_attr, protocol, 0),
            field!(self, ep_attr, protocol_version, 0),
        )
    }

    /// Largest message and RMA operation in bytes.
    #[must_use]
    pub fn max_msg_size(&self) -> usize {
        field!(self, ep_attr, max_msg_size, 0)
    }

    /// Which bits of a tag the provider carries, and how it groups them: fi_endpoint(3). The highest
    /// bit set is the highest bit of a tag; 0 where tags are not supported.
    #[must_use]
    pub fn mem_tag_format(&self) -> u64 {
        field!(self, ep_attr, mem_tag_format, 0)
    }

    /// Largest injected operation in bytes.
    #[must_use]
    pub fn inject_size(&self) -> usize {
        field!(self, tx_attr, inject_size, 0)
    }

    /// Operations the transmit queue holds.
    #[must_use]
    pub fn tx_size(&self) -> usize {
        field!(self, tx_attr, size, 0)
    }

    /// Buffers the receive queue holds.
    #[must_use]
    pub fn rx_size(&self) -> usize {
        field!(self, rx_attr, size, 0)
    }

    /// Local segments of one send or RMA operation.
    #[must_use]
    pub fn tx_iov_limit(&self) -> usize {
        field!(self, tx_attr, iov_limit, 0)
    }

    /// Local segments of one receive.
    #[must_use]
    pub fn rx_iov_limit(&self) -> usize {
        field!(self, rx_attr, iov_limit, 0)
    }

    /// Remote segments of one RMA operation.
    #[must_use]
    pub fn rma_iov_limit(&self) -> usize {
        field!(self, tx_attr, rma_iov_limit, 0)
    }

    /// Segments of one registration.
    #[must_use]
    pub fn mr_iov_limit(&self) -> usize {
        field!(self, domain_attr, mr_iov_limit, 0)
    }

    /// Bytes of CQ data that reach the peer; 0: none.
    #[must_use]
    pub fn cq_data_size(&self) -> usize {
        field!(self, domain_attr, cq_data_size, 0)
    }

    /// Bytes of a key.
    #[must_use]
    pub fn mr_key_size(&self) -> usize {
        field!(self, domain_attr, mr_key_size, 0)
    }

    /// Regions that can be registered at once; 0: the provider does not say.
    #[must_use]
    pub fn mr_count(&self) -> usize {
        field!(self, domain_attr, mr_cnt, 0)
    }

    /// Endpoints that can be opened in a domain.
    #[must_use]
    pub fn endpoint_count(&self) -> usize {
        field!(self, domain_attr, ep_cnt, 0)
    }

    /// Ordering between operations of the transmit side, FI_ORDER_* bits.
    #[must_use]
    pub fn msg_order(&self) -> u64 {
        field!(self, tx_attr, msg_order, 0)
    }

    /// Ordering between operations of the receive side, FI_ORDER_* bits.
    #[must_use]
    pub fn rx_msg_order(&self) -> u64 {
        field!(self, rx_attr, msg_order, 0)
    }

    /// Traffic class of the transmit side, FI_TC_*.
    #[must_use]
    pub fn traffic_class(&self) -> u32 {
        field!(self, tx_attr, tclass, c::FI_TC_UNSPEC)
    }

    /// The threading model.
    #[must_use]
    pub fn threading(&self) -> Threading {
        Threading::from_raw(field!(self, domain_attr, threading, 0))
    }

    /// Who makes data move. (2.x made a union of this field; the place and meaning are the same.)
    #[must_use]
    pub fn data_progress(&self) -> Progress {
        Progress::from_raw(field!(self, domain_attr, data_progress, 0))
    }

    /// Who makes control operations move.
    #[must_use]
    pub fn control_progress(&self) -> Progress {
        Progress::from_raw(field!(self, domain_attr, control_progress, 0))
    }

    /// The source address, where the provider already knows it.
    #[must_use]
    pub fn source_address(&self) -> Option<&[u8]> {
        let address = NonNull::new(self.0.src_addr.cast::<u8>())?;
        // SAFETY: fi_getinfo(3): src_addr points to src_addrlen bytes that belong to this fi_info,
        // which is borrowed; the pointer is not null.
        Some(unsafe { core::slice::from_raw_parts(address.as_ptr(), self.0.src_addrlen) })
    }

    /// The device; `None` on all software providers.
    #[must_use]
    pub fn nic(&self) -> Option<Nic<'_>> {
        // SAFETY: fi_nic(3): null, or a fid_nic that belongs to this fi_info, which is borrowed.
        NonNull::new(self.0.nic).map(|nic| unsafe { Nic::from_raw(nic) })
    }
}

/// A string of the library; empty where it is missing or not UTF-8.
///
/// # Safety
///
/// `raw` is null or a NUL-terminated string that lives for `'a`.
pub(crate) unsafe fn text<'a>(raw: *const c_char) -> &'a str {
    if raw.is_null() {
        return "";
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr::<'a>(raw) }.to_str().unwrap_or("")
}

impl fmt::Debug for Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Info")
            .field("provider", &self.provider_name())
            .field("fabric", &self.fabric_name())
            .field("domain", &self.domain_name())
            .field("caps", &self.caps())
            .field("mode", &self.mode())
            .field("mr_mode", &self.mr_mode())
            .field("addr_format", &self.addr_format())
            .field("threading", &self.threading())
            .field("nic", &self.nic())
            .finish_non_exhaustive()
    }
}
