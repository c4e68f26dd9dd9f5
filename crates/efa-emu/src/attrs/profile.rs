//! The attributes of EFA's two fabrics (providers.md 6).

use core::ffi::{CStr, c_int};

use ofi_sys::bindings as b;
use ofi_sys::consts as c;

use crate::config::Config;
use crate::engine::endpoint::RNR_FOR_EVER;
use crate::generation::Generation;

/// Longest write or read, in bytes: what the device does in one operation.
pub(crate) const RMA_MAX: usize = 1 << 30;
/// Completion queues of a domain, as its attributes say.
pub(crate) const CQS: usize = 512;
/// Endpoints of a domain, as its attributes say; each has a context to send and one to receive.
pub(crate) const ENDPOINTS: usize = 256;
/// Longest message of the device, in bytes.
const MTU: usize = 8928;

/// Which fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flavor {
    /// `efa`: with software on top that segments, orders sends, matches tags.
    Rdm,
    /// `efa-direct`: the device as it is.
    Direct,
}

/// What a fabric offers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Profile {
    pub(crate) flavor: Flavor,
    pub(crate) caps: u64,
    /// Modes that the caller must agree to.
    pub(crate) mode: u64,
    /// Modes that the caller may agree to.
    pub(crate) optional_mode: u64,
    pub(crate) mr_mode: c_int,
    pub(crate) msg_order: u64,
    pub(crate) op_flags: u64,
    pub(crate) inject_size: usize,
    pub(crate) tx_size: usize,
    pub(crate) rx_size: usize,
    pub(crate) iov_limit: usize,
    pub(crate) max_msg_size: usize,
    pub(crate) progress: b::fi_progress,
    /// Defaults of an endpoint's options.
    pub(crate) max_msg: usize,
    pub(crate) max_rma: usize,
    pub(crate) inject_msg: usize,
    pub(crate) inject_rma: usize,
    /// Times that the device asks a receiver again that is not ready.
    pub(crate) rnr_retry: usize,
}

/// Capabilities that need no asking for.
pub(crate) const SECONDARY: u64 = c::FI_LOCAL_COMM | c::FI_REMOTE_COMM;
/// What a fabric can do without HMEM.
const BASE_CAPS: u64 = c::FI_MSG
    | c::FI_RMA
    | c::FI_READ
    | c::FI_WRITE
    | c::FI_SEND
    | c::FI_RECV
    | c::FI_REMOTE_READ
    | c::FI_REMOTE_WRITE
    | c::FI_SOURCE
    | SECONDARY;
const OP_FLAGS: u64 = c::FI_COMPLETION
    | c::FI_INJECT
    | c::FI_INJECT_COMPLETE
    | c::FI_TRANSMIT_COMPLETE
    | c::FI_DELIVERY_COMPLETE
    | c::FI_MORE;
const MR_MODE: c_int = c::FI_MR_VIRT_ADDR | c::FI_MR_ALLOCATED | c::FI_MR_PROV_KEY | c::FI_MR_HMEM;

impl Flavor {
    /// The fabric's name.
    pub(crate) const fn name(self) -> &'static CStr {
        match self {
            Self::Rdm => c"efa",
            Self::Direct => c"efa-direct",
        }
    }

    /// The fabric of a name.
    pub(crate) fn named(name: &CStr) -> Option<Self> {
        [Self::Rdm, Self::Direct]
            .into_iter()
            .find(|flavor| flavor.name() == name)
    }

    /// The fabrics of a generation, in the order in which they are listed.
    pub(crate) fn of(generation: Generation) -> &'static [Self] {
        if generation.has_direct() {
            &[Self::Direct, Self::Rdm]
        } else {
            &[Self::Rdm]
        }
    }
}

impl Profile {
    pub(crate) fn new(flavor: Flavor, generation: Generation, config: &Config) -> Self {
        let rdm = Self {
            flavor,
            caps: BASE_CAPS | c::FI_HMEM | c::FI_TAGGED,
            mode: 0,
            optional_mode: 0,
            mr_mode: MR_MODE,
            msg_order: c::FI_ORDER_SAS,
            op_flags: OP_FLAGS,
            inject_size: 4096,
            tx_size: config.tx_size,
            rx_size: config.rx_size,
            iov_limit: 4,
            max_msg_size: usize::MAX,
            progress: b::FI_PROGRESS_MANUAL,
            max_msg: usize::MAX,
            max_rma: usize::MAX,
            inject_msg: 4096,
            inject_rma: 32,
            rnr_retry: 3,
        };
        let mut profile = match flavor {
            Flavor::Rdm => rdm,
            Flavor::Direct => Self {
                caps: BASE_CAPS | c::FI_HMEM,
                mode: c::FI_CONTEXT2,
                optional_mode: if generation.has(2, 4) {
                    c::FI_RX_CQ_DATA
                } else {
                    0
                },
                mr_mode: MR_MODE | c::FI_MR_LOCAL,
                msg_order: 0,
                inject_size: 32,
                iov_limit: 2,
                max_msg_size: RMA_MAX,
                progress: b::FI_PROGRESS_AUTO,
                max_msg: MTU,
                max_rma: RMA_MAX,
                inject_msg: 32,
                inject_rma: 32,
                rnr_retry: RNR_FOR_EVER,
                ..rdm
            },
        };
        profile.caps &= !config.lacks.caps;
        profile
    }
}
