//! What happened between two looks at the same processes.

use ofi_trace::stats::{Comm, Rail, Total};

use super::json::side;
use super::source::Source;

/// What one process, rail or communicator does in a second.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rate {
    /// Which process.
    pub(crate) host: String,
    pub(crate) pid: u32,
    /// Which part of it, for people.
    pub(crate) what: String,
    pub(crate) sent_bytes: f64,
    pub(crate) received_bytes: f64,
    pub(crate) messages: f64,
    pub(crate) busy: f64,
}

/// How fast a counter of a NIC itself grows, whoever makes it: those that do not are left out.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NicRate {
    pub(crate) host: String,
    pub(crate) nic: String,
    /// As the driver calls it.
    pub(crate) counter: String,
    pub(crate) per_second: f64,
}

/// All of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Rates {
    pub(crate) processes: Vec<Rate>,
    pub(crate) rails: Vec<Rate>,
    /// Each counter of a NIC once, however many rails are on it.
    pub(crate) nics: Vec<NicRate>,
    pub(crate) comms: Vec<Rate>,
}

/// What rows are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum By {
    /// Bytes, both ways.
    Bytes,
    /// Messages; segments for rails.
    Messages,
    /// EAGAINs.
    Busy,
}

impl Rates {
    /// Of processes that are in both, `seconds` apart.
    pub(crate) fn between(then: &[Source], now: &[Source], seconds: f64) -> Self {
        let mut rates = Self::default();
        for now in now {
            let Some(then) = then.iter().find(|then| is_same(then, now)) else {
                continue;
            };
            rates.process(then, now, seconds);
        }
        rates
    }

    fn process(&mut self, then: &Source, now: &Source, seconds: f64) {
        let total =
            |total: Total| grown(then.counted.total(total), now.counted.total(total), seconds);
        let whose = |what: String, [sent_bytes, received_bytes, messages, busy]: [f64; 4]| Rate {
            host: now.counted.host.clone(),
            pid: now.counted.pid,
            what,
            sent_bytes,
            received_bytes,
            messages,
            busy,
        };
        let open = format!("{} communicators", now.counted.comms_open);
        let sums = [
            total(Total::BytesSent),
            total(Total::BytesReceived),
            total(Total::Sends) + total(Total::Recvs),
            total(Total::Busy),
        ];
        self.processes.push(whose(open, sums));
        for rail in &now.counted.rails {
            let place = |r: &Rail| (r.device, r.rail);
            let old = then
                .counted
                .rails
                .iter()
                .find(|old| place(old) == place(rail));
            let of = |of: fn(&Rail) -> u64| grown(old.map_or(0, of), of(rail), seconds);
            let what = format!("{}/{} {}", rail.device, rail.rail, rail.nic);
            let numbers = [
                of(|r| r.bytes_sent),
                of(|r| r.bytes_received),
                of(|r| r.segments),
                of(|r| r.busy),
            ];
            self.rails.push(whose(what, numbers));
            self.nic(&now.counted.host, (old, rail), seconds);
        }
        for comm in &now.counted.comms {
            let old = then
                .counted
                .comms
                .iter()
                .find(|old| old.generation == comm.generation);
            let of = |of: fn(&Comm) -> u64| grown(old.map_or(0, of), of(comm), seconds);
            let what = format!("{} {} {}", side(comm.side), comm.id, comm.peer);
            let bytes = of(|c| c.bytes);
            let (sent, received) = match comm.side {
                ofi_trace::stats::Side::Send => (bytes, 0.0),
                ofi_trace::stats::Side::Recv => (0.0, bytes),
            };
            self.comms.push(whose(
                what,
                [sent, received, of(|c| c.messages), of(|c| c.busy)],
            ));
        }
    }

    fn nic(&mut self, host: &str, (old, rail): (Option<&Rail>, &Rail), seconds: f64) {
        for hw in &rail.hw {
            let old = old.and_then(|old| old.hw.iter().find(|old| old.name == hw.name));
            let per_second = grown(old.map_or(hw.base, |old| old.last), hw.last, seconds);
            let is_it = |known: &NicRate| {
                (&*known.host, &known.nic, &known.counter) == (host, &rail.nic, &hw.name)
            };
            if per_second > 0.0 && !self.nics.iter().any(is_it) {
                self.nics.push(NicRate {
                    host: host.to_owned(),
                    nic: rail.nic.clone(),
                    counter: hw.name.clone(),
                    per_second,
                });
            }
        }
    }

    /// The busiest first.
    pub(crate) fn sort(&mut self, by: By) {
        let key = |rate: &Rate| match by {
            By::Bytes => rate.sent_bytes + rate.received_bytes,
            By::Messages => rate.messages,
            By::Busy => rate.busy,
        };
        for rows in [&mut self.processes, &mut self.rails, &mut self.comms] {
            rows.sort_by(|a, b| key(b).total_cmp(&key(a)));
        }
    }
}

/// Of the same life of a process.
fn is_same(then: &Source, now: &Source) -> bool {
    let life = |s: &Source| (s.counted.pid, s.counted.start_ticks, s.counted.opened_ms);
    then.path == now.path && life(then) == life(now)
}

fn grown(then: u64, now: u64, seconds: f64) -> f64 {
    now.saturating_sub(then) as f64 / seconds.max(1e-3)
}
