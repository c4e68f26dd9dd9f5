//! What a protocol needs of an entry in a list that was asked for with no capabilities named, where each
//! shows all that it has.

use efa_fabric::{Caps, consts};

use super::candidate::Candidate;
use super::filter::{self, Reject};
use super::{Found, Rules};

/// Both ends of what messages are made of, and of remote memory access.
const MESSAGES: Caps = Caps::SEND.union(Caps::RECV);
const ACCESS: Caps = Caps::READ
    .union(Caps::WRITE)
    .union(Caps::REMOTE_READ)
    .union(Caps::REMOTE_WRITE);
const COMM: Caps = Caps::LOCAL_COMM.union(Caps::REMOTE_COMM);

/// Whom an endpoint has to reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// This host and others.
    Hosts,
    /// Or those of one interface of the IP stack, be it the loopback one: which of them are used is the
    /// user's to say (`OFI_NCCL_EXCLUDE_TCP_IF`).
    Interface,
    /// Whoever it reaches: shm, for who names it.
    Any,
}

/// One way in which an entry can be good enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Need {
    caps: Caps,
    /// Ordering of messages.
    order: u64,
    reach: Reach,
}

impl Need {
    /// The ways, best first.
    fn ladder(rules: &Rules<'_>) -> impl Iterator<Item = Self> {
        let caps: &[Caps] = if rules.tagged {
            // RMA is for flushes, which host memory needs none of, so that it may be missing.
            const {
                &[
                    Caps::TAGGED.union(Caps::MSG).union(Caps::RMA),
                    Caps::TAGGED.union(Caps::MSG),
                ]
            }
        } else {
            const { &[Caps::MSG.union(Caps::RMA)] }
        };
        let order = if rules.tagged {
            consts::FI_ORDER_SAS
        } else {
            0
        };
        // Only a provider that the user named may reach nobody but this host.
        let named = rules.config.fi_provider.is_some();
        let reach = [Reach::Hosts, Reach::Interface, Reach::Any];
        let reach = reach.into_iter().take(if named { 3 } else { 2 });
        caps.iter().flat_map(move |&caps| {
            let needs = reach.clone();
            needs.map(move |reach| Self { caps, order, reach })
        })
    }

    /// The best way that an entry of a list is good for, of those that are not passed over for EFA; the last
    /// one where none is, so that the reasons are about the least that is needed.
    pub(super) fn of<E>(rules: &Rules<'_>, list: &[Found<E>]) -> Option<Self> {
        let only_efa = filter::prefers_efa(rules, list);
        let entries = || {
            let all = list.iter().map(|found| &found.candidate);
            all.filter(|entry| !only_efa || filter::is_efa(entry))
        };
        let met = |need: &Self| entries().any(|entry| need.judge(entry).is_ok());
        let best = Self::ladder(rules).find(met);
        best.or_else(|| Self::ladder(rules).last())
    }

    /// Whether an entry has it.
    pub(super) fn judge(&self, entry: &Candidate) -> Result<(), Reject> {
        let lacks = self.caps - entry.caps;
        if !lacks.is_empty() {
            return Err(Reject::Lacks(lacks));
        }
        if self.order & !entry.order != 0 {
            return Err(Reject::Unordered);
        }
        let reaches = match self.reach {
            Reach::Hosts => entry.caps.contains(Caps::REMOTE_COMM),
            Reach::Interface => entry.caps.contains(Caps::REMOTE_COMM) || entry.is_ip_interface(),
            Reach::Any => true,
        };
        if reaches {
            Ok(())
        } else {
            Err(Reject::ThisHostOnly)
        }
    }

    /// The capabilities that are of use: all others cost the provider work.
    pub(super) fn of_use(&self) -> Caps {
        let access = if self.caps.contains(Caps::RMA) {
            ACCESS
        } else {
            Caps::empty()
        };
        self.caps | MESSAGES | access | COMM
    }
}
