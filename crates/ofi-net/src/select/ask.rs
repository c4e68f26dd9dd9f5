//! The hint sets, in the order in which they are tried (decision 15, protocol 2l).
//!
//! The exact set of the reference comes first: on libfabric 2.1 and later it decides between
//! `efa-direct` and `efa`, which cannot talk to each other.

use core::fmt;

use efa_fabric::{Caps, Hints, Mode, MrMode, Version, consts};

use crate::config::Config;
use crate::dmabuf;

/// Endpoints that reach this host and others.
const COMM: Caps = Caps::LOCAL_COMM.union(Caps::REMOTE_COMM);
const RMA: Caps = Caps::RMA.union(Caps::READ);
/// What registrations may demand, but for device memory and endpoints of their own.
const MODES: MrMode = MrMode::LOCAL
    .union(MrMode::VIRT_ADDR)
    .union(MrMode::ALLOCATED)
    .union(MrMode::PROV_KEY);

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

/// The hint sets of one protocol, each to be tried when the one before gave `FI_ENODATA`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    /// For SENDRECV, else for RDMA.
    pub(super) tagged: bool,
    /// The other protocol may be asked for too: the second set then serves both.
    pub(super) open: bool,
    /// Nothing came of the exact set for RDMA: nothing will come of that for SENDRECV.
    pub(super) no_exact: bool,
}

impl Ask {
    /// The sets for `config`, in order. The first two are enough wherever something is known of the
    /// provider; the others are for those of which nothing is.
    pub(super) fn ladder(config: &Config, wanted: Wanted) -> Vec<Self> {
        let exact = if wanted.tagged {
            Self::exact_tagged(config)
        } else {
            Self::exact(config)
        };
        let host = Self {
            caps: exact.caps - Caps::HMEM,
            mr_mode: exact.mr_mode - MrMode::HMEM,
            ..exact
        };
        // Only a provider that the user named may lack one of the two: shm reaches this host only.
        let narrow = Self {
            caps: host.caps - COMM,
            ..host
        };
        // RMA is for flushes, which host memory needs none of, so that it may be missing at the end.
        let messages = Self {
            caps: host.caps - RMA,
            ..host
        };
        let named = config.fi_provider.as_deref();
        let both = Self::both(config, host.api);
        let shm = Self {
            caps: if wanted.open { both } else { host }.caps - COMM,
            ..if wanted.open { both } else { host }
        };
        let ladder = [
            (!wanted.no_exact).then_some(exact),
            (named == Some("shm")).then_some(shm),
            wanted.open.then_some(both),
            Some(host),
            named.map(|_| narrow),
            wanted.tagged.then_some(messages),
            (wanted.tagged && wanted.no_exact).then_some(exact),
        ];
        let mut sets: Vec<Self> = Vec::new();
        for set in ladder.into_iter().flatten() {
            if !sets.contains(&set) {
                sets.push(set);
            }
        }
        sets
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
            caps: Caps::TAGGED | exact.caps | RMA,
            mr_mode: exact.mr_mode | MrMode::ENDPOINT,
            order: consts::FI_ORDER_SAS,
            ..exact
        }
    }

    /// Host memory for both protocols, so that who has to look at the NICs before choosing one need not
    /// ask again. Of EFA it gives the fabric `efa` only, for `efa-direct` has no tagged messages: RDMA
    /// chosen of that asks with [`Self::exact`]'s modes once more.
    fn both(config: &Config, api: Version) -> Self {
        Self {
            caps: Caps::TAGGED | Caps::MSG | Caps::RMA | COMM,
            mr_mode: MODES,
            key_bytes: usize::from(config.mr_key_size),
            api,
            order: consts::FI_ORDER_SAS,
        }
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

#[cfg(test)]
mod tests {
    use super::{Ask, Config, Wanted};
    use crate::params::Flavour;

    const DECIDED: Wanted = Wanted {
        tagged: false,
        open: false,
        no_exact: false,
    };

    /// What is asked with a provider named, or none, and a protocol decided, or not.
    fn asked(provider: Option<&str>, wanted: Wanted) -> Vec<String> {
        let config = Config {
            fi_provider: provider.map(str::to_owned),
            ..Config::new(Flavour::Neuron)
        };
        let asks = Ask::ladder(&config, wanted);
        asks.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_modes_that_choose_a_fabric_of_efa_are_never_cut_short() {
        for provider in [None, Some("efa"), Some("efa-direct"), Some("^shm,efa")] {
            let asked = asked(provider, DECIDED);
            let with = |mode: &str| asked.iter().all(|ask| ask.contains(mode));
            assert!(with("MrMode(LOCAL | VIRT_ADDR"), "{asked:?}");
        }
    }

    #[test]
    fn the_second_set_of_an_open_protocol_serves_both() {
        let open = Wanted {
            open: true,
            ..DECIDED
        };
        let after = Wanted {
            tagged: true,
            no_exact: true,
            ..open
        };
        for provider in [
            None,
            Some("tcp"),
            Some("shm"),
            Some("tcp;ofi_rxm"),
            Some("efa"),
        ] {
            let (rdma, tagged) = (asked(provider, open), asked(provider, after));
            assert_eq!(rdma[1], tagged[0], "one list serves both");
            assert!(rdma[1].contains("TAGGED") && rdma[1].contains("RMA"));
            let narrow = provider == Some("shm");
            assert_eq!(!rdma[1].contains("REMOTE_COMM"), narrow, "{rdma:?}");
            assert!(!asked(provider, DECIDED)[1].contains("TAGGED"));
            // The exact set stays the last thing to try.
            assert!(!tagged[0].contains("HMEM") && tagged.last().unwrap().contains("HMEM"));
        }
    }

    #[test]
    fn no_set_is_tried_twice() {
        for provider in [None, Some("shm"), Some("tcp")] {
            for (tagged, open, no_exact) in [(false, false, false), (true, true, true)] {
                let wanted = Wanted {
                    tagged,
                    open,
                    no_exact,
                };
                let mut asked = asked(provider, wanted);
                let count = asked.len();
                asked.sort_unstable();
                asked.dedup();
                assert_eq!(asked.len(), count, "{asked:?}");
            }
        }
    }
}
