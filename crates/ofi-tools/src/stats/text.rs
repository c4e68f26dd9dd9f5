//! The counters for people.

use ofi_trace::stats::{Comm, Rail, Total};

use super::json::side;
use super::source::Source;

/// Communicators shown of a process, the busiest first.
const COMMS_SHOWN: usize = 16;

pub(crate) fn lines(sources: &[Source]) -> Vec<String> {
    sources.iter().flat_map(process).collect()
}

fn process(source: &Source) -> Vec<String> {
    let counted = &source.counted;
    let of = |total| counted.total(total);
    let mut lines = vec![
        format!(
            "{} process {} ({}, {}): {}, {:.1} s, {} communicators open of {}",
            counted.host,
            counted.pid,
            source.plugin(),
            source.protocol(),
            source.life.name(),
            source.seconds(),
            counted.comms_open,
            counted.comms_ever,
        ),
        format!(
            "  sent {} messages, {}, {} segments, {} eagerly ({})",
            of(Total::Sends),
            bytes(of(Total::BytesSent)),
            of(Total::Segments),
            of(Total::EagerSends),
            share(of(Total::EagerSends), of(Total::Sends)),
        ),
        format!(
            "  received {} messages, {}, {} CTRLs; {} one-sided",
            of(Total::Recvs),
            bytes(of(Total::BytesReceived)),
            of(Total::Ctrls),
            of(Total::OneSided),
        ),
        format!(
            "  EAGAIN {} times, {} operations late, {} calls \"not now\"",
            of(Total::Busy),
            of(Total::Retried),
            of(Total::NotNow),
        ),
        format!(
            "  {} communicators failed ({} operations after), {} errors, {} strays",
            of(Total::Failures),
            of(Total::Followers),
            of(Total::Errors),
            of(Total::Strays),
        ),
        format!(
            "  memory: {} calls, {} registrations, {} found ({}), {} failed",
            of(Total::RegRequests),
            of(Total::Registrations),
            of(Total::RegHits),
            share(of(Total::RegHits), of(Total::RegRequests)),
            of(Total::RegFailures),
        ),
    ];
    lines.extend(rails(&counted.rails));
    lines.extend(comms(&counted.comms));
    if counted.rails_unseen > 0 {
        lines.push(format!(
            "  and {} rails that have no room here",
            counted.rails_unseen
        ));
    }
    if counted.comms_unseen > 0 {
        lines.push(format!(
            "  and {} communicators that have no room here",
            counted.comms_unseen
        ));
    }
    lines
}

fn rails(rails: &[Rail]) -> Vec<String> {
    let mut lines = Vec::new();
    if !rails.is_empty() {
        lines.push(format!(
            "  {:<8} {:<16} {:>14} {:>14} {:>11} {:>11} {:>9} {:>7}",
            "dev rail",
            "NIC",
            "bytes sent",
            "received",
            "segments",
            "completed",
            "EAGAIN",
            "errors"
        ));
    }
    for rail in rails {
        lines.push(format!(
            "  {:<8} {:<16} {:>14} {:>14} {:>11} {:>11} {:>9} {:>7}",
            format!("{}/{}", rail.device, rail.rail),
            rail.nic,
            rail.bytes_sent,
            rail.bytes_received,
            rail.segments,
            rail.completions,
            rail.busy,
            rail.errors
        ));
        let moved = rail.hw.iter().filter(|hw| hw.last != hw.base);
        let moved = moved.map(|hw| format!("{} {}", hw.name, hw.since()));
        let moved: Vec<String> = moved.collect();
        if !moved.is_empty() {
            lines.push(format!("           the NIC itself: {}", moved.join(", ")));
        }
    }
    lines
}

fn comms(comms: &[Comm]) -> Vec<String> {
    let mut sorted: Vec<&Comm> = comms.iter().collect();
    sorted.sort_by_key(|comm| core::cmp::Reverse(comm.bytes));
    let mut lines: Vec<String> = sorted
        .iter()
        .take(COMMS_SHOWN)
        .map(|comm| self::comm(comm))
        .collect();
    if sorted.len() > COMMS_SHOWN {
        let more = sorted.len() - COMMS_SHOWN;
        lines.push(format!(
            "  and {more} communicators with fewer bytes: see --json"
        ));
    }
    lines
}

fn comm(comm: &Comm) -> String {
    let peer = match comm.peer.as_str() {
        "" => "?",
        peer => peer,
    };
    format!(
        "  communicator {} ({}, device {}): {} messages, {}, {} eagerly, EAGAIN {}, {} outstanding, peer {peer}",
        comm.id,
        side(comm.side),
        comm.device,
        comm.messages,
        bytes(comm.bytes),
        comm.eager,
        comm.busy,
        comm.outstanding,
    )
}

/// A part of a whole, in percent.
fn share(part: u64, whole: u64) -> String {
    match whole {
        0 => "0 %".to_owned(),
        _ => format!("{:.0} %", part as f64 * 100.0 / whole as f64),
    }
}

/// Bytes, with a unit where there are many.
pub(crate) fn bytes(count: u64) -> String {
    let mut value = count as f64;
    let mut unit = "bytes";
    for larger in ["KB", "MB", "GB", "TB", "PB"] {
        if value < 10_000.0 {
            break;
        }
        (value, unit) = (value / 1000.0, larger);
    }
    match unit {
        "bytes" => format!("{count} bytes"),
        _ => format!("{value:.1} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_people_read_them() {
        assert_eq!(bytes(0), "0 bytes");
        assert_eq!(bytes(9999), "9999 bytes");
        assert_eq!(bytes(10_000), "10.0 KB");
        assert_eq!(bytes(123_456_789), "123.5 MB");
        assert_eq!(
            (share(1, 3), share(0, 0)),
            ("33 %".to_owned(), "0 %".to_owned())
        );
    }
}
