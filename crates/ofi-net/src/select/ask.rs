//! The hint sets, in the order in which they are tried (decision 15, protocol 2l).
//!
//! The exact set of the reference comes first: on libfabric 2.1 and later it decides between
//! `efa-direct` and `efa`, which cannot talk to each other. The other asks for everything that providers
//! have, so that one list is enough for whatever is looked for in it (`need.rs`).

use core::fmt;

use efa_fabric::{Caps, Hints, Mode, MrMode, Version, consts};

use crate::config::Config;
use crate::dmabuf;

/// Endpoints that reach this host and others.
const COMM: Caps = Caps::LOCAL_COMM.union(Caps::REMOTE_COMM);
/// What registrations may demand, but for device memory and endpoints of their own.
const MODES: MrMode = MrMode::LOCAL
    .union(MrMode::VIRT_ADDR)
    .union(MrMode::ALLOCATED)
    .union(MrMode::PROV_KEY);

/// One set of hints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ask {
    /// None: all that there is.
    caps: Caps,
    mr_mode: MrMode,
    key_bytes: usize,
    api: Version,
    /// Ordering of messages.
    order: u64,
}

impl Ask {
    /// The sets for a protocol, the second for when the first gives `FI_ENODATA`.
    pub(super) fn ladder(config: &Config, tagged: bool) -> [Self; 2] {
        let exact = if tagged {
            Self::exact_tagged(config)
        } else {
            Self::exact(config)
        };
        [exact, Self::everything(config)]
    }

    /// The set of the reference for RDMA (protocol 2l).
    pub(super) fn exact(config: &Config) -> Self {
        Self {
            caps: Caps::MSG | Caps::RMA | Caps::HMEM | COMM,
            mr_mode: MODES | MrMode::HMEM,
            key_bytes: usize::from(config.mr_key_size),
            // Protocol 2d.1: 1.20 where dma-buf is possible, else 1.18.
            api: dmabuf::api_version(config),
            order: 0,
        }
    }

    fn exact_tagged(config: &Config) -> Self {
        let exact = Self::exact(config);
        Self {
            caps: Caps::TAGGED | exact.caps | Caps::READ,
            mr_mode: exact.mr_mode | MrMode::ENDPOINT,
            order: consts::FI_ORDER_SAS,
            ..exact
        }
    }

    /// Whatever providers have, without device memory, which some only show to who asks for it. With caps
    /// of 0 a provider lists all its capabilities, and of the two fabrics of EFA both (`fi_getinfo(3)`).
    fn everything(config: &Config) -> Self {
        let exact = Self::exact(config);
        Self {
            caps: Caps::empty(),
            mr_mode: exact.mr_mode | MrMode::ENDPOINT,
            ..exact
        }
    }

    /// Whether the entries show all that they can, of which what is needed has to be taken.
    pub(super) fn is_for_everything(&self) -> bool {
        self.caps.is_empty()
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

/// `FI_MSG|FI_RMA, mr_mode FI_MR_LOCAL|FI_MR_VIRT_ADDR, keys of 2 bytes, API 1.18`.
impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            caps,
            mr_mode,
            key_bytes,
            api,
            order,
        } = self;
        if self.is_for_everything() {
            f.write_str("any capabilities")?;
        } else {
            write!(f, "{caps}")?;
        }
        if *order == consts::FI_ORDER_SAS {
            f.write_str(", msg_order FI_ORDER_SAS")?;
        }
        write!(
            f,
            ", mr_mode {mr_mode}, keys of {key_bytes} bytes, API {api}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::{Ask, Config};
    use crate::params::Flavour;

    fn asked(provider: Option<&str>, tagged: bool) -> [String; 2] {
        let config = Config {
            fi_provider: provider.map(str::to_owned),
            ..Config::new(Flavour::Neuron)
        };
        Ask::ladder(&config, tagged).map(|ask| ask.to_string())
    }

    #[test]
    fn the_exact_set_is_that_of_the_reference_whoever_is_named() {
        for provider in [None, Some("efa"), Some("efa-direct"), Some("^shm,efa")] {
            let [exact, _] = asked(provider, false);
            assert_eq!(
                exact,
                "FI_MSG|FI_RMA|FI_HMEM|FI_LOCAL_COMM|FI_REMOTE_COMM, mr_mode \
                 FI_MR_LOCAL|FI_MR_VIRT_ADDR|FI_MR_ALLOCATED|FI_MR_PROV_KEY|FI_MR_HMEM, keys of 2 bytes, \
                 API 1.20"
            );
            let [exact, _] = asked(provider, true);
            let start = "FI_MSG|FI_RMA|FI_TAGGED|FI_READ|FI_HMEM|FI_LOCAL_COMM|FI_REMOTE_COMM, msg_order \
                         FI_ORDER_SAS, mr_mode FI_MR_LOCAL|";
            assert!(exact.starts_with(start), "{exact}");
        }
    }

    #[test]
    fn one_list_serves_both_protocols() {
        for provider in [None, Some("tcp"), Some("shm"), Some("efa")] {
            let [[_, rdma], [_, tagged]] = [asked(provider, false), asked(provider, true)];
            assert_eq!(rdma, tagged);
            assert!(rdma.starts_with("any capabilities, mr_mode "), "{rdma}");
            // Nothing that a provider may demand of registrations keeps it off the list.
            for mode in ["LOCAL", "VIRT_ADDR", "PROV_KEY", "HMEM", "ENDPOINT"] {
                assert!(rdma.contains(mode), "{rdma}");
            }
        }
    }
}
