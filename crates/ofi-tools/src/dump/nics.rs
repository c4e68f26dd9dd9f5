//! What the NICs of the job counted themselves that speaks of a bad network: packets that were lost or sent again,
//! peers that did not answer. It is no verdict: a line beside it.

use super::load::Job;
use ofi_net::dump::NicCounters;

/// Parts of the names of such counters; names differ from driver to driver (EFA: `retrans_timeout_events`,
/// `unresponsive_remote_events`, `impaired_remote_conn_events`, `rx_drops`).
const BAD: [&str; 8] = [
    "retrans",
    "timeout",
    "unresponsive",
    "impaired",
    "drop",
    "err",
    "discard",
    "nak",
];

/// NICs that are shown, at most: those that counted most.
const NICS_MAX: usize = 8;

/// A line for each NIC.
pub(super) fn lines(job: &Job) -> Vec<String> {
    let mut found: Vec<(u64, String)> = Vec::new();
    for member in &job.members {
        for nic in member.dump.iter().flat_map(|dump| &dump.nics) {
            if let Some((sum, counters)) = bad(nic) {
                let text = format!("{}: the NIC {} itself: {counters}", member.name, nic.nic);
                found.push((sum, text));
            }
        }
    }
    // Stable: those alike stay in the order of the ranks.
    found.sort_by_key(|(sum, _)| core::cmp::Reverse(*sum));
    let more = found.len().saturating_sub(NICS_MAX);
    let mut lines: Vec<String> = found
        .into_iter()
        .take(NICS_MAX)
        .map(|(_, text)| text)
        .collect();
    if more > 0 {
        lines.push(format!(
            "and {more} more NICs that counted such: see --json"
        ));
    }
    lines
}

fn bad(nic: &NicCounters) -> Option<(u64, String)> {
    // The bytes that were sent again are told by their number of events.
    let is_bad =
        |name: &str| BAD.iter().any(|part| name.contains(part)) && !name.ends_with("_bytes");
    let of = nic.grown.iter().filter(|(name, _)| is_bad(name));
    let sum = of
        .clone()
        .fold(0_u64, |sum, (_, by)| sum.saturating_add(*by));
    let texts: Vec<String> = of.map(|(name, by)| format!("{name} {by}")).collect();
    (!texts.is_empty()).then(|| (sum, texts.join(", ")))
}
