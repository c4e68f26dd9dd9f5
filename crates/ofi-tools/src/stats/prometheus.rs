//! The text format of Prometheus, version 0.0.4: families with HELP and TYPE, one line a sample.
//!
//! Rails have the labels `device` (the NIC, as sysfs names it) and `port`, as the collectors for RDMA devices of
//! `node_exporter` and of the EFA node exporter have them, so that both can be joined; `ofi_device` and `rail` say
//! which part of which device it is for us. No series comes twice, whatever files say: a scraper would refuse all of
//! them.

use core::fmt::Write as _;
use std::collections::HashSet;

use ofi_trace::stats::{Comm, Rail, Total};

use super::json::side;
use super::source::{Life, Source};

/// Samples of one name, and what it is.
struct Family {
    name: String,
    kind: &'static str,
    help: String,
    samples: Vec<String>,
    /// The labels of those.
    known: HashSet<String>,
}

/// A number of a rail, its name and its meaning.
type Of<T> = (&'static str, &'static str, fn(&T) -> u64);

const RAIL: [Of<Rail>; 6] = [
    ("segments_total", "segments that the provider took", |r| {
        r.segments
    }),
    ("sent_bytes_total", "bytes that the provider took", |r| {
        r.bytes_sent
    }),
    (
        "received_bytes_total",
        "bytes that came in, as far as the provider tells lengths",
        |r| r.bytes_received,
    ),
    ("completions_total", "completions read", |r| r.completions),
    ("busy_total", "times the provider said EAGAIN", |r| r.busy),
    (
        "errors_total",
        "error entries of the completion queue",
        |r| r.errors,
    ),
];

const COMM: [Of<Comm>; 4] = [
    ("messages_total", "messages admitted", |c| c.messages),
    ("eager_total", "sends that went eagerly", |c| c.eager),
    ("bytes_total", "bytes of messages that are done", |c| {
        c.bytes
    }),
    ("busy_total", "times the provider said EAGAIN", |c| c.busy),
];

/// All lines. Processes that have died are left out: a scrape is about what runs; those that ended are final.
pub(crate) fn lines(sources: &[Source]) -> Vec<String> {
    let shown: Vec<&Source> = sources.iter().filter(|s| s.life != Life::Dead).collect();
    let mut families = vec![up(&shown), open(&shown)];
    families.extend(totals(&shown));
    families.extend(RAIL.iter().map(|of| of_rails(&shown, of)));
    families.extend(COMM.iter().map(|of| of_comms(&shown, of)));
    families.extend(hardware(&shown));
    let with = families
        .into_iter()
        .filter(|family| !family.samples.is_empty());
    with.flat_map(Family::lines).collect()
}

impl Family {
    fn new(name: &str, kind: &'static str, help: &str) -> Self {
        let (name, help) = (format!("ofi_nccl_{name}"), help.to_owned());
        Self {
            name,
            kind,
            help,
            samples: Vec::new(),
            known: HashSet::new(),
        }
    }

    /// The first of a series counts: a file that names one thing twice is damaged.
    fn add(&mut self, labels: &[(&str, &str)], value: u64) {
        let mut series = String::new();
        for (at, (label, text)) in labels.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            let text = text
                .replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('\n', "\\n");
            // Writing to a string does not fail.
            let _infallible = write!(series, "{comma}{label}=\"{text}\"");
        }
        let line = format!("{}{{{series}}} {value}", self.name);
        if self.known.insert(series) {
            self.samples.push(line);
        }
    }

    fn lines(self) -> Vec<String> {
        let Self {
            name,
            kind,
            help,
            samples,
            ..
        } = self;
        let head = [
            format!("# HELP {name} {help}"),
            format!("# TYPE {name} {kind}"),
        ];
        head.into_iter().chain(samples).collect()
    }
}

/// What tells a process from others. Its file has the last word: a process can have two plugins and several
/// lives, a number is that of a process on each host, and containers can have one host's name.
fn of_process(source: &Source) -> [(&'static str, String); 5] {
    [
        ("host", source.counted.host.clone()),
        ("pid", source.counted.pid.to_string()),
        ("plugin", source.plugin().to_owned()),
        ("protocol", source.protocol().to_owned()),
        ("file", source.path.display().to_string()),
    ]
}

fn borrowed<'a>(labels: &'a [(&'static str, String)]) -> Vec<(&'static str, &'a str)> {
    labels
        .iter()
        .map(|(label, text)| (*label, text.as_str()))
        .collect()
}

fn up(sources: &[&Source]) -> Family {
    let mut family = Family::new("up", "gauge", "whether the process runs");
    for source in sources {
        let labels = of_process(source);
        family.add(&borrowed(&labels), u64::from(source.life != Life::Ended));
    }
    family
}

fn open(sources: &[&Source]) -> Family {
    let mut family = Family::new("comms", "gauge", "communicators that are open");
    for source in sources {
        family.add(&borrowed(&of_process(source)), source.counted.comms_open);
    }
    family
}

fn totals(sources: &[&Source]) -> Vec<Family> {
    let family = |&(total, name, help): &(Total, &str, &str)| {
        let mut family = Family::new(&format!("{name}_total"), "counter", help);
        for source in sources {
            family.add(&borrowed(&of_process(source)), source.counted.total(total));
        }
        family
    };
    Total::ALL.iter().map(family).collect()
}

fn rail_labels(source: &Source, rail: &Rail) -> Vec<(&'static str, String)> {
    let mut labels = vec![
        ("device", rail.nic.clone()),
        ("port", "1".to_owned()),
        ("ofi_device", rail.device.to_string()),
        ("rail", rail.rail.to_string()),
    ];
    labels.extend(of_process(source));
    labels
}

fn of_rails(sources: &[&Source], &(name, help, value): &Of<Rail>) -> Family {
    let mut family = Family::new(&format!("rail_{name}"), "counter", help);
    for source in sources {
        for rail in &source.counted.rails {
            family.add(&borrowed(&rail_labels(source, rail)), value(rail));
        }
    }
    family
}

fn of_comms(sources: &[&Source], &(name, help, value): &Of<Comm>) -> Family {
    let mut family = Family::new(&format!("comm_{name}"), "counter", help);
    for source in sources {
        for comm in &source.counted.comms {
            let mut labels = vec![
                ("comm", comm.id.to_string()),
                ("side", side(comm.side).to_owned()),
                ("ofi_device", comm.device.to_string()),
                ("domain", comm.domain.to_string()),
                ("peer", comm.peer.clone()),
                ("generation", comm.generation.to_string()),
            ];
            labels.extend(of_process(source));
            family.add(&borrowed(&labels), value(comm));
        }
    }
    family
}

/// The counters of the NICs since their rail was opened; their names are the driver's.
fn hardware(sources: &[&Source]) -> Vec<Family> {
    let mut families: Vec<Family> = Vec::new();
    for source in sources {
        for rail in &source.counted.rails {
            for hw in &rail.hw {
                let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
                let name: String = hw.name.chars().map(plain).collect();
                let name = format!("hw_{name}_total");
                let full = format!("ofi_nccl_{name}");
                let at = families.iter().position(|family| family.name == full);
                let at = at.unwrap_or_else(|| {
                    let help = "a counter of the NIC, all its users, since the rail was opened";
                    families.push(Family::new(&name, "counter", help));
                    families.len() - 1
                });
                if let Some(family) = families.get_mut(at) {
                    let mut labels = rail_labels(source, rail);
                    // Drivers may have `a-b` beside `a_b`.
                    if !full.ends_with(&format!("hw_{}_total", hw.name)) {
                        labels.push(("counter", hw.name.clone()));
                    }
                    family.add(&borrowed(&labels), hw.since());
                }
            }
        }
    }
    families
}
