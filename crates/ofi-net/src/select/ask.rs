//! The hint sets, in the order in which they are tried (decision 15, protocol 2l).
//!
//! The exact set of the reference comes first: on libfabric 2.1 and later it decides between
//! `efa-direct` and `efa`, which cannot talk to each other.

use core::fmt;

use efa_fabric::{Caps, Hints, Mode, MrMode, Version, consts};

use crate::config::Config;
use crate::dmabuf;

/// One set of hints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ask {
    caps: Caps,
    mr_mode: MrMode,
    key_bytes: usize,
    api: Version,
    /// Ordering of messages.
    order: u64,
}

impl Ask {
    /// The sets for `config`, each to be tried when the one before gave `FI_ENODATA`.
    pub(super) fn ladder(config: &Config) -> impl Iterator<Item = Self> {
        let comm = Caps::LOCAL_COMM | Caps::REMOTE_COMM;
        let key_bytes = usize::from(config.mr_key_size);
        let exact = Self {
            caps: Caps::MSG | Caps::RMA | Caps::HMEM | comm,
            mr_mode: MrMode::LOCAL
                | MrMode::HMEM
                | MrMode::VIRT_ADDR
                | MrMode::ALLOCATED
                | MrMode::PROV_KEY,
            key_bytes,
            // Protocol 2d.1: 1.20 where dma-buf is possible, else 1.18.
            api: dmabuf::api_version(config),
            order: 0,
        };
        let host = Self {
            caps: exact.caps - Caps::HMEM,
            mr_mode: exact.mr_mode - MrMode::HMEM,
            ..exact
        };
        // Only a provider that the user named may lack one of the two: shm reaches this host only.
        let named = config.fi_provider.is_some();
        let narrow = named.then_some(Self {
            caps: host.caps - comm,
            ..host
        });
        [Some(exact), Some(host), narrow].into_iter().flatten()
    }

    /// The sets for SENDRECV (protocol 2l), likewise. RMA is for flushes, which host memory needs none
    /// of, so that it may be missing at the end.
    pub(super) fn tagged_ladder(config: &Config) -> impl Iterator<Item = Self> {
        let comm = Caps::LOCAL_COMM | Caps::REMOTE_COMM;
        let rma = Caps::RMA | Caps::READ;
        let exact = Self {
            caps: Caps::TAGGED | Caps::MSG | Caps::HMEM | comm | rma,
            mr_mode: MrMode::LOCAL
                | MrMode::ENDPOINT
                | MrMode::HMEM
                | MrMode::VIRT_ADDR
                | MrMode::ALLOCATED
                | MrMode::PROV_KEY,
            key_bytes: usize::from(config.mr_key_size),
            api: dmabuf::api_version(config),
            order: consts::FI_ORDER_SAS,
        };
        let host = Self {
            caps: exact.caps - Caps::HMEM,
            mr_mode: exact.mr_mode - MrMode::HMEM,
            ..exact
        };
        let narrow = config.fi_provider.is_some().then_some(Self {
            caps: host.caps - comm,
            ..host
        });
        let messages = Self {
            caps: host.caps - rma,
            ..host
        };
        [Some(exact), Some(host), narrow, Some(messages)]
            .into_iter()
            .flatten()
    }

    /// Whether it is for SENDRECV.
    pub(super) const fn is_tagged(&self) -> bool {
        self.caps.contains(Caps::TAGGED)
    }

    /// The same in the words of before libfabric 1.5: `FI_MR_BASIC` is virtual addresses, provider
    /// keys and mapped memory at once.
    pub(super) const fn basic(&self) -> Self {
        Self {
            mr_mode: MrMode::BASIC,
            ..*self
        }
    }

    pub(super) fn hints(&self) -> Hints {
        Hints::rdm(self.caps)
            .mode(Mode::CONTEXT | Mode::CONTEXT2)
            .mr_mode(self.mr_mode)
            .mr_key_size(self.key_bytes)
            .msg_order(self.order)
            .api_version(self.api)
    }
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            caps,
            mr_mode,
            key_bytes,
            api,
            ..
        } = self;
        write!(
            f,
            "{caps:?}, {mr_mode:?}, keys of {key_bytes} bytes, API {api}"
        )
    }
}
