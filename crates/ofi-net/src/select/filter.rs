//! The rules, in the order of protocol 2h.1, then those of decision 15.

use core::fmt;
use std::collections::HashSet;

use efa_fabric::{Caps, Mode, MrMode, Version};
use ofi_rdma::limits::CONTROL_BUFFER_BYTES;

use super::candidate::Candidate;
use super::need::Need;
use super::reasons::Reasons;
use super::{Found, Rules};
use crate::config::Config;
use crate::error::{Code, NetError};

/// EFA's provider, of both its fabrics.
pub(super) const EFA: &str = "efa";

/// First libfabric whose EFA provider is used (decision 6).
const EFA_VERSION_MIN: Version = Version::new(1, 22);

/// The immediate of a write has 32 bits (protocol 2c.1).
const CQ_DATA_BYTES_MIN: usize = 4;

/// Why an entry is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reject {
    Lacks(Caps),
    Unordered,
    ThisHostOnly,
    EfaPreferred,
    Excluded,
    NoAddress,
    NotIpv4,
    CqData(usize),
    MrMode(MrMode),
    Mode(Mode),
    KeysTooSmall(usize),
    MessagesTooShort(usize),
    UnlikeFirst(String),
    Duplicate,
}

/// What is left of a list, never empty; `need` where nothing was asked for that it would have been held
/// against. `report` gets one line for each entry that is not; entries
/// that only repeat another are not worth one.
///
/// # Errors
/// The EFA provider is too old; nothing is left, and the error says each distinct reason once: the
/// report may be below the level that is shown.
pub(super) fn keep<E>(
    rules: &Rules<'_>,
    (need, list): (Option<&Need>, Vec<Found<E>>),
    report: &mut Vec<String>,
) -> Result<Vec<Found<E>>, NetError> {
    let Rules {
        config, version, ..
    } = *rules;
    let prefer_efa = prefers_efa(rules, &list);
    let total = list.len();
    let mut kept: Vec<Found<E>> = Vec::new();
    let mut seen = HashSet::new();
    let mut reasons = Reasons::default();
    for found in list {
        let candidate = &found.candidate;
        let first = kept.first().map(|first| &first.candidate);
        let verdict = if prefer_efa && !is_efa(candidate) {
            Err(Reject::EfaPreferred)
        } else {
            refuse_old_efa(config, version, candidate)?;
            judge(rules, need, candidate).and_then(|()| compare(first, candidate))
        };
        let key = (candidate.domain.clone(), candidate.addr_format);
        match verdict {
            Ok(()) if seen.insert(key) => kept.push(found),
            Ok(()) => explain(report, candidate, &Reject::Duplicate),
            Err(reject) => {
                reasons.add(reject.to_string(), candidate);
                explain(report, candidate, &reject);
            }
        }
    }
    if kept.is_empty() {
        return Err(NetError::new(
            Code::AllRejected,
            format!("none of {total} fits: {reasons}"),
        ));
    }
    Ok(kept)
}

/// Whether EFA is taken before others, and nothing in its stead: on AWS, while the user names none.
pub(super) fn prefers_efa<E>(rules: &Rules<'_>, list: &[Found<E>]) -> bool {
    let is_free = rules.config.fi_provider.is_none();
    rules.for_efa.is_some() || (is_free && has_efa(list))
}

pub(super) fn has_efa<E>(list: &[Found<E>]) -> bool {
    list.iter().any(|found| is_efa(&found.candidate))
}

fn explain(report: &mut Vec<String>, candidate: &Candidate, reject: &Reject) {
    let Candidate {
        provider,
        domain,
        fabric,
        ..
    } = candidate;
    let line = format!("  {provider} {domain} ({fabric}): {reject}");
    if *reject != Reject::Duplicate && !report.contains(&line) {
        report.push(line);
    }
}

/// Whether an entry of this name was kept out by the user's list, as `explain` wrote it.
pub(super) fn is_excluded(report: &[String], name: &str) -> bool {
    let (by_list, entry) = (format!(": {}", Reject::Excluded), format!(" {name} ("));
    let mut lines = report.iter();
    lines.any(|line| line.ends_with(&by_list) && line.contains(&entry))
}

pub(super) fn is_efa(candidate: &Candidate) -> bool {
    candidate.provider == EFA
}

fn refuse_old_efa(config: &Config, version: Version, entry: &Candidate) -> Result<(), NetError> {
    if config.efa_version_check && entry.provider.starts_with("efa") && version < EFA_VERSION_MIN {
        let what = format!("libfabric is {version}, EFA needs {EFA_VERSION_MIN}");
        return Err(NetError::new(Code::EfaTooOld, what));
    }
    Ok(())
}

/// Whether an entry can be used at all.
fn judge(rules: &Rules<'_>, need: Option<&Need>, entry: &Candidate) -> Result<(), Reject> {
    let Rules { config, tagged, .. } = *rules;
    if entry.is_ip_interface() {
        if config.exclude_tcp_if.contains(&entry.domain) {
            return Err(Reject::Excluded);
        }
        if !entry.has_address {
            return Err(Reject::NoAddress);
        }
        if !config.use_ipv6_tcp && !entry.is_ipv4() {
            return Err(Reject::NotIpv4);
        }
    }
    need.map_or(Ok(()), |need| need.judge(entry))?;
    if entry.cq_data_bytes < CQ_DATA_BYTES_MIN && !tagged {
        return Err(Reject::CqData(entry.cq_data_bytes));
    }
    let unwanted = if tagged {
        entry.mr_mode & MrMode::RAW
    } else {
        entry.mr_mode & (MrMode::ENDPOINT | MrMode::RAW)
    };
    if !unwanted.is_empty() {
        return Err(Reject::MrMode(unwanted));
    }
    let unknown = entry.mode - (Mode::CONTEXT | Mode::CONTEXT2);
    if !unknown.is_empty() {
        return Err(Reject::Mode(unknown));
    }
    if !entry.provider_keys && entry.key_bytes < usize::from(config.mr_key_size) {
        return Err(Reject::KeysTooSmall(entry.key_bytes));
    }
    if entry.message_bytes_max < CONTROL_BUFFER_BYTES {
        return Err(Reject::MessagesTooShort(entry.message_bytes_max));
    }
    Ok(())
}

/// All rails of a device have to be alike in what communicators depend on (2h.1 (4)).
fn compare(first: Option<&Candidate>, entry: &Candidate) -> Result<(), Reject> {
    let Some(first) = first else { return Ok(()) };
    let differs = if first.provider != entry.provider {
        "provider"
    } else if first.kind_of_fabric() != entry.kind_of_fabric() {
        "fabric"
    } else if first.caps != entry.caps {
        "caps"
    } else if first.mode != entry.mode {
        "mode"
    } else if first.addr_format != entry.addr_format {
        "address format"
    } else if first.protocol != entry.protocol {
        "protocol"
    } else {
        return Ok(());
    };
    let Candidate {
        provider, domain, ..
    } = first;
    Err(Reject::UnlikeFirst(format!(
        "another {differs} than {provider} {domain}"
    )))
}

impl fmt::Display for Reject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lacks(caps) => write!(f, "lacks {caps}"),
            Self::Unordered => f.write_str("messages may overtake each other (no FI_ORDER_SAS)"),
            Self::ThisHostOnly => f.write_str("reaches this host only (no FI_REMOTE_COMM)"),
            Self::EfaPreferred => f.write_str("EFA is preferred and FI_PROVIDER names no other"),
            Self::Excluded => f.write_str("excluded by OFI_NCCL_EXCLUDE_TCP_IF"),
            Self::NoAddress => f.write_str("no IP address (is an interface up?)"),
            Self::NotIpv4 => f.write_str("not IPv4, and OFI_NCCL_USE_IPV6_TCP is 0"),
            Self::CqData(bytes) => write!(f, "{bytes} bytes of CQ data, 4 are needed"),
            Self::MrMode(modes) => write!(f, "demands {modes} of registrations"),
            Self::Mode(modes) => write!(f, "demands {modes}"),
            Self::KeysTooSmall(bytes) => {
                write!(
                    f,
                    "memory keys of {bytes} bytes, OFI_NCCL_MR_KEY_SIZE asks for more"
                )
            }
            Self::MessagesTooShort(bytes) => {
                write!(
                    f,
                    "messages of {bytes} bytes, {CONTROL_BUFFER_BYTES} are needed"
                )
            }
            Self::UnlikeFirst(how) => f.write_str(how),
            Self::Duplicate => f.write_str("listed before"),
        }
    }
}
