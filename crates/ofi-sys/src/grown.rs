//! Structs that grew after libfabric 1.17, and the rule that keeps old and new libraries safe.
//!
//! libfabric only appends to its structs. So a struct that *we* allocate must be at least as long as
//! the longest version any library may read or write, and zero where we know nothing: [`Padded`]
//! adds 64 zero bytes behind the newest layout known here. A struct that the *library* allocates
//! (`fi_info` and what hangs off it) may be shorter than the newest layout: its tail is read only
//! when `fi_version()` says that it is there.
//!
//! | struct | 1.17 | newest known | appended |
//! |---|---|---|---|
//! | `fi_cq_err_entry` | 80 | 88 | `src_addr` (1.20) |
//! | `fi_mr_attr` | 80 | 112 | `hmem_data` (1.19), `page_size` (1.22), `base_mr`, `sub_mr_cnt` (2.0) |
//! | `fi_domain_attr` | 192 | 224 | from the library only; the tail is not read here |
//! | `fi_cq_attr` | 40 | 40 | 2.7 appends a pointer: covered by the padding |

use core::ffi::{c_int, c_void};
use core::mem::{offset_of, size_of};

use crate::bindings::{fi_addr_t, fi_hmem_iface, fid_mr};

/// Entry filled by `fi_cq_readerr`, fi_cq(3); layout of 1.20 and later.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_cq_err_entry {
    /// Context of the failed operation; may be NULL for errors of incoming writes.
    pub op_context: *mut c_void,
    /// What kind of operation it was, as in a good completion.
    pub flags: u64,
    /// Bytes received before the error.
    pub len: usize,
    /// Buffer of the operation, where the provider tells.
    pub buf: *mut c_void,
    /// Remote CQ data.
    pub data: u64,
    /// Tag of a tagged message.
    pub tag: u64,
    /// Bytes that did not fit (truncation).
    pub olen: usize,
    /// libfabric's errno; positive by the man page, negative on some providers.
    pub err: c_int,
    /// The provider's own code.
    pub prov_errno: c_int,
    /// In: buffer for details, or NULL. Out: the details.
    pub err_data: *mut c_void,
    /// In: size of that buffer. Out: bytes of details.
    pub err_data_size: usize,
    /// Source of a message from an unknown peer (1.20, only with FI_SOURCE_ERR).
    pub src_addr: fi_addr_t,
}

/// The device of an `fi_mr_attr`, chosen by `iface`.
#[repr(C)]
#[derive(Clone, Copy)]
pub union fi_mr_attr_device {
    /// Unused bytes.
    pub reserved: u64,
    /// Ordinal of a CUDA device.
    pub cuda: c_int,
    /// Ordinal of a Level Zero device.
    pub ze: c_int,
    /// Ordinal of a Neuron device.
    pub neuron: c_int,
    /// Ordinal of a Habana device.
    pub synapseai: c_int,
}

impl core::fmt::Debug for fi_mr_attr_device {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("fi_mr_attr_device")
    }
}

/// What to register, fi_mr(3); layout of 2.0 and later.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_mr_attr {
    /// The memory: an array of `iovec`; with FI_MR_DMABUF one [`fi_mr_dmabuf`] instead.
    pub mr_iov: *const c_void,
    /// Entries of `mr_iov`.
    pub iov_count: usize,
    /// FI_SEND, FI_RECV, FI_READ, FI_WRITE, FI_REMOTE_READ, FI_REMOTE_WRITE.
    pub access: u64,
    /// Must be 0 (reserved by the man page).
    pub offset: u64,
    /// Key to use when the provider does not choose keys (no FI_MR_PROV_KEY).
    pub requested_key: u64,
    /// Context of asynchronous registration.
    pub context: *mut c_void,
    /// Bytes of `auth_key`.
    pub auth_key_size: usize,
    /// Job key.
    pub auth_key: *mut u8,
    /// Kind of memory.
    pub iface: fi_hmem_iface,
    /// Which device of that kind.
    pub device: fi_mr_attr_device,
    /// Data of the kind of memory (1.19).
    pub hmem_data: *mut c_void,
    /// Page size of the memory, 0 for unknown (1.22).
    pub page_size: usize,
    /// Region that this one is part of (2.0).
    pub base_mr: *const fid_mr,
    /// How many regions will be made of this one (2.0).
    pub sub_mr_cnt: usize,
}

/// A range of a dma-buf, given in place of `mr_iov` with FI_MR_DMABUF (1.20).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fi_mr_dmabuf {
    /// File descriptor of the dma-buf.
    pub fd: c_int,
    /// Where the range starts within it, in bytes.
    pub offset: u64,
    /// Bytes.
    pub len: usize,
    /// Virtual address at which the *start of the dma-buf* is mapped, or NULL.
    pub base_addr: *mut c_void,
}

const _: () = {
    assert!(size_of::<fi_cq_err_entry>() == 88);
    assert!(offset_of!(fi_cq_err_entry, olen) == 48);
    assert!(offset_of!(fi_cq_err_entry, err) == 56);
    assert!(offset_of!(fi_cq_err_entry, prov_errno) == 60);
    assert!(offset_of!(fi_cq_err_entry, err_data) == 64);
    assert!(offset_of!(fi_cq_err_entry, err_data_size) == 72);
    assert!(offset_of!(fi_cq_err_entry, src_addr) == 80);
    assert!(size_of::<fi_mr_attr>() == 112);
    assert!(offset_of!(fi_mr_attr, access) == 16);
    assert!(offset_of!(fi_mr_attr, requested_key) == 32);
    assert!(offset_of!(fi_mr_attr, auth_key) == 56);
    assert!(offset_of!(fi_mr_attr, iface) == 64);
    assert!(offset_of!(fi_mr_attr, device) == 72);
    assert!(offset_of!(fi_mr_attr, hmem_data) == 80);
    assert!(offset_of!(fi_mr_attr, page_size) == 88);
    assert!(offset_of!(fi_mr_attr, base_mr) == 96);
    assert!(offset_of!(fi_mr_attr, sub_mr_cnt) == 104);
    assert!(size_of::<fi_mr_dmabuf>() == 32);
};

/// Marks structs of the ABI for which all-zero bytes are a valid value: integers, raw pointers, and
/// optional function pointers only.
///
/// # Safety
///
/// All-zero bytes must be a valid value of the type.
pub unsafe trait Zeroable: Copy {}

// SAFETY: integers and raw pointers only.
unsafe impl Zeroable for fi_cq_err_entry {}
// SAFETY: integers, raw pointers and a union of integers only.
unsafe impl Zeroable for fi_mr_attr {}
// SAFETY: integers and raw pointers only.
unsafe impl Zeroable for fi_mr_dmabuf {}
// SAFETY: integers and raw pointers only.
unsafe impl Zeroable for crate::bindings::fi_cq_attr {}
// SAFETY: integers and raw pointers only.
unsafe impl Zeroable for crate::bindings::fi_av_attr {}

/// A struct that we allocate and a library newer than this crate may believe to be longer: the
/// newest layout known here, followed by 64 zero bytes.
///
/// Pass [`Self::as_ptr`] or [`Self::as_mut_ptr`], which may be used for all 64 bytes beyond `T`; a
/// pointer made from the `T` alone may not.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Padded<T> {
    value: T,
    tail: [u64; 8],
}

impl<T: Zeroable> Padded<T> {
    /// All bytes zero.
    #[must_use]
    pub fn zeroed() -> Self {
        // SAFETY: `T: Zeroable` says that zero bytes are a valid T; they are a valid [u64; 8].
        unsafe { core::mem::zeroed() }
    }

    /// The struct for reading and writing its known fields.
    pub const fn get_mut(&mut self) -> &mut T {
        &mut self.value
    }

    /// The struct for reading its known fields.
    pub const fn get(&self) -> &T {
        &self.value
    }

    /// Pointer to the struct that is valid for the padding too.
    pub const fn as_ptr(&self) -> *const T {
        core::ptr::from_ref(self).cast()
    }

    /// Pointer to the struct that is valid for the padding too.
    pub const fn as_mut_ptr(&mut self) -> *mut T {
        core::ptr::from_mut(self).cast()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_is_at_least_64_zero_bytes_behind_every_struct() {
        let padded = Padded::<fi_cq_err_entry>::zeroed();
        assert_eq!(padded.tail, [0; 8]);
        assert_eq!(
            offset_of!(Padded<fi_cq_err_entry>, tail),
            size_of::<fi_cq_err_entry>()
        );
        assert_eq!(
            offset_of!(Padded<fi_mr_attr>, tail),
            size_of::<fi_mr_attr>()
        );
        assert_eq!(
            offset_of!(Padded<crate::bindings::fi_cq_attr>, tail),
            size_of::<crate::bindings::fi_cq_attr>()
        );
    }
}
