//! The lines of a trace as Chrome trace events, which Perfetto and `chrome://tracing` show: a process a
//! file, a track a domain and lane, a bar from each operation's post to its end.
//!
//! The format: "Trace Event Format", JSON object form. Operations are asynchronous events (`b`, `e`), since
//! those of a lane overlap.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::line::{Field, Line};

/// Numbers given to processes and tracks so far.
#[derive(Debug, Default)]
pub(super) struct Chrome {
    processes: HashMap<String, usize>,
    tracks: HashMap<(usize, u16, Option<String>), usize>,
}

impl Chrome {
    /// What is printed before all events.
    pub(super) const HEAD: &'static str = "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [";

    /// What is printed after them; an event of its own, so that all others may end with a comma.
    pub(super) fn tail() -> String {
        let end =
            json!({"ph": "M", "pid": 0, "name": "process_name", "args": {"name": "ofi trace"}});
        format!("{end}\n]}}")
    }

    /// The events of a line, with the names of its process and track where they are new.
    pub(super) fn events(&mut self, line: Line, zero_ns: u64) -> Vec<Value> {
        let mut events = Vec::new();
        let next = self.processes.len() + 1;
        let pid = *self.processes.entry(line.who.clone()).or_insert_with(|| {
            let args = json!({"name": line.who});
            events.push(json!({"ph": "M", "pid": next, "name": "process_name", "args": args}));
            next
        });
        let next = self.tracks.len() + 1;
        let key = (pid, line.domain, line.lane.clone());
        let tid = *self.tracks.entry(key).or_insert_with(|| {
            let lane = line.lane.as_deref().unwrap_or("notes");
            let args = json!({"name": format!("d{} {lane}", line.domain)});
            let named = json!({
                "ph": "M", "pid": pid, "tid": next, "name": "thread_name", "args": args,
            });
            events.push(named);
            next
        });
        events.push(event(line, (pid, tid), zero_ns));
        events
    }
}

fn event(line: Line, (pid, tid): (usize, usize), zero_ns: u64) -> Value {
    let what = line.what;
    let find = |wanted| {
        let mut fields = what.fields.iter();
        fields.find_map(|(name, value)| (*name == wanted).then(|| value.clone()))
    };
    let op = match find("op") {
        Some(Field::Number(op)) => Some(op),
        _ => None,
    };
    // Who ends an operation says what it was.
    let name = match (op, find("was")) {
        (Some(_), Some(Field::Text(was))) => was,
        _ => what.verb.to_owned(),
    };
    let since = line.at_ns.saturating_sub(zero_ns);
    let mut event = Map::new();
    let mut put = |name: &str, value: Value| event.insert(name.to_owned(), value);
    put("name", name.into());
    put("pid", pid.into());
    put("tid", tid.into());
    // Microseconds, of which nanoseconds are thousandths: exact for a hundred days.
    put("ts", json!(since as f64 / 1e3));
    match (op, what.sign) {
        (Some(op), sign) => {
            put("ph", if sign == '>' { "b" } else { "e" }.into());
            put("cat", "op".into());
            // Of that process alone: others count theirs from 1 too.
            put("id2", json!({"local": format!("{op:#x}")}));
        }
        (None, _) => {
            put("ph", "i".into());
            put("s", "t".into());
        }
    }
    let args: Map<String, Value> = what
        .fields
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.into()))
        .collect();
    put("args", args.into());
    event.into()
}
