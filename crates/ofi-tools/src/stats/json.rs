//! The counters as JSON (docs/observability.md has the fields).

use ofi_trace::stats::{Comm, Rail, Side, Total};
use serde_json::{Map, Value, json};

use super::source::Source;

pub(crate) fn all(sources: &[Source]) -> Value {
    let processes: Vec<Value> = sources.iter().map(process).collect();
    json!({ "version": 1, "processes": processes })
}

fn process(source: &Source) -> Value {
    let counted = &source.counted;
    let totals: Map<String, Value> = Total::ALL
        .iter()
        .map(|&(total, name, _)| (name.to_owned(), json!(counted.total(total))))
        .collect();
    json!({
        "file": source.path.display().to_string(),
        "host": counted.host,
        "pid": counted.pid,
        "life": source.life.name(),
        "plugin": source.plugin(),
        "protocol": source.protocol(),
        "opened_unix_ms": counted.opened_ms,
        "updated_unix_ms": counted.updated_ms,
        "comms_open": counted.comms_open,
        "comms_unseen": counted.comms_unseen,
        "comms_ever": counted.comms_ever,
        "rails_unseen": counted.rails_unseen,
        "totals": totals,
        "rails": counted.rails.iter().map(rail).collect::<Vec<_>>(),
        "comms": counted.comms.iter().map(comm).collect::<Vec<_>>(),
    })
}

fn rail(rail: &Rail) -> Value {
    let hw: Map<String, Value> = rail
        .hw
        .iter()
        .map(|hw| (hw.name.clone(), json!(hw.since())))
        .collect();
    json!({
        "device": rail.device,
        "rail": rail.rail,
        "nic": rail.nic,
        "segments": rail.segments,
        "sent_bytes": rail.bytes_sent,
        "received_bytes": rail.bytes_received,
        "completions": rail.completions,
        "busy": rail.busy,
        "errors": rail.errors,
        "hw": hw,
    })
}

fn comm(comm: &Comm) -> Value {
    json!({
        "side": side(comm.side),
        "id": comm.id,
        "device": comm.device,
        "domain": comm.domain,
        "opened_unix_ms": comm.opened_ms,
        "messages": comm.messages,
        "eager": comm.eager,
        "bytes": comm.bytes,
        "busy": comm.busy,
        "outstanding": comm.outstanding,
        "peer": comm.peer,
    })
}

pub(crate) const fn side(side: Side) -> &'static str {
    match side {
        Side::Send => "send",
        Side::Recv => "recv",
    }
}
