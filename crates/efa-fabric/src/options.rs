//! Endpoint options with their types, fi_endpoint(3), fi_efa(7).
//!
//! What a provider does not know is `None`, not an error: which options exist differs by provider
//! and version, and providers say it in three ways (FI_ENOPROTOOPT, FI_EINVAL, FI_EOPNOTSUPP).

use core::ffi::c_int;
use core::mem::size_of;
use core::ptr;

use ofi_sys::bindings::fid_ep;
use ofi_sys::{consts as c, ops};

use crate::endpoint::{Endpoint, EndpointSetup};
use crate::error::{FabricError, check};
use crate::info::Info;

/// An option whose value is a `bool`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BoolOption {
    /// The provider may call CUDA (1.18).
    CudaApiPermitted,
    /// Peers on this host may be reached by shared memory (1.21).
    SharedMemoryPermitted,
    /// EFA: reads are emulated by messages (1.18, read only).
    EfaEmulatedRead,
    /// EFA: writes are emulated by messages (1.18, read only).
    EfaEmulatedWrite,
    /// EFA: atomics are emulated by messages (1.18, read only).
    EfaEmulatedAtomics,
    /// EFA: use the device's RDMA (1.19).
    EfaUseDeviceRdma,
    /// EFA: aligned 128-byte blocks of messages land in order (1.19).
    EfaSendrecvInOrderAligned128,
    /// EFA: aligned 128-byte blocks of writes land in order (1.19).
    EfaWriteInOrderAligned128,
    /// EFA: all peers have the same features (2.2).
    EfaHomogeneousPeers,
    /// EFA: incoming immediates need no posted receive (2.5).
    EfaUseUnsolicitedWriteRecv,
}

/// An option whose value is a `size_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SizeOption {
    /// Bytes left at which a multi-receive buffer is released.
    MinMultiRecv,
    /// Largest message in bytes (1.22).
    MaxMsgSize,
    /// Largest RMA operation in bytes (1.22).
    MaxRmaSize,
    /// Largest injected message in bytes (1.22).
    InjectMsgSize,
    /// Largest injected write in bytes (1.22).
    InjectRmaSize,
    /// EFA: receiver-not-ready retries, 0 to 7; 7 is forever (1.14).
    EfaRnrRetry,
}

/// How an option is named on the C side, and whose it is.
#[derive(Clone, Copy)]
struct Name {
    raw: c_int,
    efa_only: bool,
}

const fn core_option(raw: c_int) -> Name {
    Name {
        raw,
        efa_only: false,
    }
}

const fn efa_option(raw: c_int) -> Name {
    Name {
        raw,
        efa_only: true,
    }
}

impl BoolOption {
    const fn name(self) -> Name {
        match self {
            Self::CudaApiPermitted => core_option(c::FI_OPT_CUDA_API_PERMITTED),
            Self::SharedMemoryPermitted => core_option(c::FI_OPT_SHARED_MEMORY_PERMITTED),
            Self::EfaEmulatedRead => efa_option(c::FI_OPT_EFA_EMULATED_READ),
            Self::EfaEmulatedWrite => efa_option(c::FI_OPT_EFA_EMULATED_WRITE),
            Self::EfaEmulatedAtomics => efa_option(c::FI_OPT_EFA_EMULATED_ATOMICS),
            Self::EfaUseDeviceRdma => efa_option(c::FI_OPT_EFA_USE_DEVICE_RDMA),
            Self::EfaSendrecvInOrderAligned128 => {
                efa_option(c::FI_OPT_EFA_SENDRECV_IN_ORDER_ALIGNED_128_BYTES)
            }
            Self::EfaWriteInOrderAligned128 => {
                efa_option(c::FI_OPT_EFA_WRITE_IN_ORDER_ALIGNED_128_BYTES)
            }
            Self::EfaHomogeneousPeers => efa_option(c::FI_OPT_EFA_HOMOGENEOUS_PEERS),
            Self::EfaUseUnsolicitedWriteRecv => {
                efa_option(c::FI_OPT_EFA_USE_UNSOLICITED_WRITE_RECV)
            }
        }
    }
}

impl SizeOption {
    const fn name(self) -> Name {
        match self {
            Self::MinMultiRecv => core_option(c::FI_OPT_MIN_MULTI_RECV),
            Self::MaxMsgSize => core_option(c::FI_OPT_MAX_MSG_SIZE),
            Self::MaxRmaSize => core_option(c::FI_OPT_MAX_RMA_SIZE),
            Self::InjectMsgSize => core_option(c::FI_OPT_INJECT_MSG_SIZE),
            Self::InjectRmaSize => core_option(c::FI_OPT_INJECT_RMA_SIZE),
            Self::EfaRnrRetry => efa_option(c::FI_OPT_EFA_RNR_RETRY),
        }
    }
}

impl EndpointSetup {
    /// Sets a switch; `None` if the provider does not have it.
    ///
    /// # Errors
    ///
    /// What the provider says to a value it does not like.
    pub fn set_bool(&self, option: BoolOption, value: bool) -> Result<Option<()>, FabricError> {
        Access::of_setup(self).set(option.name(), value)
    }

    /// Reads a switch; `None` if the provider does not have it.
    ///
    /// # Errors
    ///
    /// What the provider says.
    pub fn get_bool(&self, option: BoolOption) -> Result<Option<bool>, FabricError> {
        Access::of_setup(self).get_bool(option.name())
    }

    /// Sets a size; `None` if the provider does not have it.
    ///
    /// # Errors
    ///
    /// What the provider says to a value it does not like.
    pub fn set_size(&self, option: SizeOption, value: usize) -> Result<Option<()>, FabricError> {
        Access::of_setup(self).set(option.name(), value)
    }

    /// Reads a size; `None` if the provider does not have it.
    ///
    /// # Errors
    ///
    /// What the provider says.
    pub fn get_size(&self, option: SizeOption) -> Result<Option<usize>, FabricError> {
        Access::of_setup(self).get_size(option.name())
    }
}

impl Endpoint {
    /// Reads a switch; `None` if the provider does not have it.
    ///
    /// # Errors
    ///
    /// What the provider says.
    pub fn get_bool(&self, option: BoolOption) -> Result<Option<bool>, FabricError> {
        Access::of_endpoint(self).get_bool(option.name())
    }

    /// Reads a size; `None` if the provider does not have it.
    ///
    /// # Errors
    ///
    /// What the provider says.
    pub fn get_size(&self, option: SizeOption) -> Result<Option<usize>, FabricError> {
        Access::of_endpoint(self).get_size(option.name())
    }
}

/// An endpoint as the option calls see it.
struct Access<'a> {
    raw: *mut fid_ep,
    info: &'a Info,
    enabled: bool,
}

impl<'a> Access<'a> {
    fn of_setup(setup: &'a EndpointSetup) -> Self {
        Self {
            raw: setup.as_raw(),
            info: setup.info(),
            enabled: false,
        }
    }

    fn of_endpoint(endpoint: &'a Endpoint) -> Self {
        Self {
            raw: endpoint.as_raw(),
            info: endpoint.info(),
            enabled: true,
        }
    }

    fn is_efa(&self) -> bool {
        self.info.provider_name() == "efa"
    }

    /// Asking shm for an option it does not know follows a null pointer until it is enabled
    /// (1.22 to 2.6); EFA's numbers mean nothing to others.
    fn may_ask(&self, name: Name) -> bool {
        let shm_trap = !self.enabled && self.info.provider_name().contains("shm");
        !shm_trap && (self.is_efa() || !name.efa_only)
    }

    fn set<T: Copy>(&self, name: Name, value: T) -> Result<Option<()>, FabricError> {
        if name.efa_only && !self.is_efa() {
            return Ok(None);
        }
        // SAFETY: fi_endpoint(3): an open endpoint and a value of the option's type, which is only
        // read.
        let code = unsafe {
            ops::fi_setopt(
                self.raw,
                name.raw,
                ptr::from_ref(&value).cast(),
                size_of::<T>(),
            )
        };
        supported("fi_setopt", name, code)
    }

    /// Reads up to 8 bytes; the provider writes as many as the option's type has.
    fn get(&self, name: Name, len: usize) -> Result<Option<[u8; 8]>, FabricError> {
        if !self.may_ask(name) {
            return Ok(None);
        }
        let mut value = [0_u8; 8];
        let mut written = len;
        // SAFETY: fi_endpoint(3): an open endpoint, room for `len` <= 8 bytes; the length comes back
        // in `written`.
        let code = unsafe {
            ops::fi_getopt(
                self.raw,
                name.raw,
                value.as_mut_ptr().cast(),
                &raw mut written,
            )
        };
        Ok(supported("fi_getopt", name, code)?.map(|()| value))
    }

    fn get_bool(&self, name: Name) -> Result<Option<bool>, FabricError> {
        Ok(self
            .get(name, size_of::<bool>())?
            .map(|value| value[0] != 0))
    }

    fn get_size(&self, name: Name) -> Result<Option<usize>, FabricError> {
        Ok(self
            .get(name, size_of::<usize>())?
            .map(usize::from_ne_bytes))
    }
}

/// Tells "does not know it" from a failure.
fn supported(op: &'static str, name: Name, code: c_int) -> Result<Option<()>, FabricError> {
    match check(op, code) {
        Ok(()) => Ok(Some(())),
        Err(error) if error.is_unsupported() => Ok(None),
        Err(error) => Err(error.with(format_args!("option {}", name.raw))),
    }
}
