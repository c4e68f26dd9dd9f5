//! One file of a trace: records to lines, and what became of each operation.

use std::collections::{BTreeMap, HashMap};

use ofi_trace::{Header, Lane, Op, Outcome, Record, Stamped};

use super::line::{Field, Line, What};
use super::message::{self, Context};

/// An operation that was given to the provider.
#[derive(Clone, Debug)]
pub(super) struct Open {
    pub(super) number: u64,
    pub(super) domain: u16,
    pub(super) lane: Lane,
    pub(super) verb: &'static str,
    pub(super) bytes: u64,
    pub(super) peer: String,
    /// Nanoseconds since 1970.
    pub(super) at_ns: u64,
}

/// How often something happened on a lane, and its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Total {
    pub(super) count: u64,
    pub(super) bytes: u64,
}

#[derive(Debug, Default)]
struct Domain {
    format: u32,
    rails: u8,
    peers: HashMap<(Lane, u64), String>,
}

/// What is known of the process that wrote a file, as far as it was read.
#[derive(Debug)]
pub(super) struct View {
    pub(super) who: String,
    pub(super) started_ns: u64,
    domains: HashMap<u16, Domain>,
    open: HashMap<(u16, u64), Open>,
    posted: u64,
    totals: BTreeMap<(u16, Lane, &'static str), Total>,
}

impl View {
    pub(super) fn new(header: &Header) -> Self {
        Self {
            who: format!("{}:{}", header.host, header.pid),
            started_ns: header.started_unix_ns,
            domains: HashMap::new(),
            open: HashMap::new(),
            posted: 0,
            totals: BTreeMap::new(),
        }
    }

    /// When a record was written, nanoseconds since 1970.
    pub(super) const fn time(&self, stamped: &Stamped<'_>) -> u64 {
        self.started_ns.saturating_add(stamped.at_ns)
    }

    /// The record as a line.
    pub(super) fn line(&mut self, stamped: &Stamped<'_>) -> Line {
        let what = self.what(stamped);
        let whole = matches!(stamped.record, Record::Note { .. } | Record::Full);
        if !whole {
            self.count(stamped, &what);
        }
        Line {
            at_ns: self.time(stamped),
            who: self.who.clone(),
            domain: stamped.domain,
            lane: (!whole).then(|| lane_name(stamped.lane)),
            what,
        }
    }

    /// Operations that did not complete, oldest first.
    pub(super) fn open(&self) -> Vec<&Open> {
        let mut open: Vec<_> = self.open.values().collect();
        open.sort_by_key(|open| open.number);
        open
    }

    /// What happened how often, by domain, lane and verb.
    pub(super) fn totals(&self) -> impl Iterator<Item = (u16, Lane, &'static str, Total)> {
        let totals = self.totals.iter();
        totals.map(|(&(domain, lane, verb), &total)| (domain, lane, verb, total))
    }

    fn what(&mut self, stamped: &Stamped<'_>) -> What {
        let (domain, lane) = (stamped.domain, stamped.lane);
        match stamped.record {
            Record::Endpoint { name, format } => {
                let known = self.domains.entry(domain).or_default();
                known.format = format;
                if !lane.is_control() {
                    known.rails = known.rails.max(lane.rail().saturating_add(1));
                }
                What::new('-', "endpoint").text("name", ofi_trace::show_address(format, name))
            }
            Record::Peer { peer, name } => {
                let known = self.domains.entry(domain).or_default();
                let shown = ofi_trace::show_address(known.format, name);
                known.peers.insert((lane, peer), shown.clone());
                What::new('-', "peer").text("name", shown)
            }
            Record::Post { .. } => self.post(stamped),
            Record::Done { token } => self.done(stamped, token),
            Record::Failed {
                token,
                errno,
                provider_errno,
            } => {
                let what = match token.and_then(|token| self.open.remove(&(domain, token))) {
                    Some(open) => ended('!', "failed", &open),
                    None => What::new('!', "failed"),
                };
                what.field("errno", Field::Signed(errno.into()))
                    .field("provider_errno", Field::Signed(provider_errno.into()))
            }
            Record::RemoteWrite { data, len } => {
                let what = message::immediate(What::new('<', "segment"), data);
                // What the sender told counts where the provider says nothing.
                match len.or_else(|| ofi_rdma::wire::capability::length_in(data)) {
                    Some(len) => what.number("bytes", len),
                    None => what.text("bytes", "?"),
                }
            }
            Record::Control { message } => message::describe('<', message, self.context(domain)),
            Record::Eager { data, len } => {
                message::immediate(What::new('<', "eager"), data).number("bytes", len)
            }
            Record::Tagged { token, tag, len } => {
                let what = self.done(stamped, token);
                what.hex("tag", tag).number("bytes", len)
            }
            Record::Note { text } => What::new('-', "note").text("text", text),
            Record::Full => {
                What::new('-', "full").text("text", "the file reached OFI_NCCL_TRACE_MAX")
            }
        }
    }

    fn post(&mut self, stamped: &Stamped<'_>) -> What {
        let Record::Post {
            op,
            outcome,
            token,
            peer,
            len,
            data,
            remote_addr,
            remote_key,
            message,
        } = stamped.record
        else {
            return What::new('-', "note");
        };
        let (domain, lane) = (stamped.domain, stamped.lane);
        let what = match op {
            Op::Control => message::describe('>', message, self.context(domain)),
            Op::TaggedSend if !message.is_empty() => {
                message::connect('>', message, self.context(domain))
            }
            _ => What::new('>', verb(op)).number("bytes", len),
        };
        let what = match op {
            Op::Eager | Op::WriteData => message::immediate(what, data),
            Op::TaggedSend | Op::TaggedRecv => what.hex("tag", data),
            _ => what,
        };
        let what = match op {
            Op::WriteData | Op::Write | Op::OneSidedWrite | Op::OneSidedRead => {
                what.hex("addr", remote_addr).hex("key", remote_key)
            }
            _ => what,
        };
        let known = self.domains.get(&domain);
        let name = known.and_then(|known| known.peers.get(&(lane, peer)));
        let name = name.map_or_else(|| nameless(op, peer), Clone::clone);
        let verb = what.verb;
        let what = what.text("peer", name.clone());
        match outcome {
            Outcome::Accepted => {
                self.posted += 1;
                let number = self.posted;
                let open = Open {
                    number,
                    domain,
                    lane,
                    verb,
                    bytes: len,
                    peer: name,
                    at_ns: self.time(stamped),
                };
                self.open.insert((domain, token), open);
                what.number("op", number)
            }
            Outcome::Injected => what.text("outcome", "injected"),
            Outcome::Busy => What {
                sign: '-',
                ..what.text("outcome", "busy")
            },
            Outcome::Failed { errno } => What {
                sign: '!',
                ..what.field("refused", Field::Signed(errno.into()))
            },
        }
    }

    fn done(&mut self, stamped: &Stamped<'_>, token: u64) -> What {
        match self.open.remove(&(stamped.domain, token)) {
            Some(open) => {
                let took = self.time(stamped).saturating_sub(open.at_ns);
                ended('.', "done", &open).number("us", took / 1000)
            }
            None => What::new('.', "done").hex("token", token),
        }
    }

    fn context(&self, domain: u16) -> Context {
        let known = self.domains.get(&domain);
        known.map_or(
            Context {
                rails: 1,
                format: 0,
            },
            |known| Context {
                rails: known.rails,
                format: known.format,
            },
        )
    }

    fn count(&mut self, stamped: &Stamped<'_>, what: &What) {
        if !matches!(what.sign, '>' | '<' | '!') {
            return;
        }
        let bytes = what.fields.iter().find_map(|(name, value)| match value {
            Field::Number(bytes) if matches!(*name, "bytes" | "length") => Some(*bytes),
            _ => None,
        });
        let key = (stamped.domain, stamped.lane, counted(what));
        let total = self.totals.entry(key).or_default();
        total.count += 1;
        total.bytes += bytes.unwrap_or(0);
    }
}

/// Verbs with their sign, since a CTRL that left is not one that came.
fn counted(what: &What) -> &'static str {
    match (what.sign, what.verb) {
        ('>', "CONN") => "> CONN",
        ('>', "CONN_RESP") => "> CONN_RESP",
        ('>', "CTRL") => "> CTRL",
        ('>', "CTRL_NC") => "> CTRL_NC",
        ('>', "CLOSE") => "> CLOSE",
        ('>', "eager") => "> eager",
        ('<', "CONN") => "< CONN",
        ('<', "CONN_RESP") => "< CONN_RESP",
        ('<', "CTRL") => "< CTRL",
        ('<', "CTRL_NC") => "< CTRL_NC",
        ('<', "CLOSE") => "< CLOSE",
        ('<', "eager") => "< eager",
        ('<', "rubbish") => "< rubbish",
        (_, verb) => verb,
    }
}

fn ended(sign: char, verb: &'static str, open: &Open) -> What {
    What::new(sign, verb)
        .number("op", open.number)
        .text("was", open.verb)
}

const fn verb(op: Op) -> &'static str {
    match op {
        Op::Control => "control",
        Op::Eager => "eager",
        Op::WriteData => "writedata",
        Op::Write => "write",
        Op::EagerCopy => "copy",
        Op::Flush => "flush",
        Op::OneSidedWrite => "iwrite",
        Op::OneSidedRead => "iread",
        Op::TaggedSend => "tsend",
        Op::TaggedRecv => "trecv",
        _ => "other",
    }
}

/// Where an operation goes that is to nobody whose name is in the records.
fn nameless(op: Op, peer: u64) -> String {
    match op {
        // Whoever sends with its tag.
        Op::TaggedRecv => "any".to_owned(),
        Op::EagerCopy | Op::Flush => "self".to_owned(),
        // Its name is among the records that made room.
        _ => format!("peer{peer}"),
    }
}

/// The word between an operation and its other end.
pub(super) fn towards(verb: &str) -> &'static str {
    match verb {
        "trecv" | "iread" | "copy" => "from",
        _ => "to",
    }
}

/// `data0`, `ctl1`.
pub(super) fn lane_name(lane: Lane) -> String {
    let kind = if lane.is_control() { "ctl" } else { "data" };
    format!("{kind}{}", lane.rail())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view() -> View {
        View::new(&Header {
            pid: 7,
            started_unix_ns: 1000,
            host: "n1".to_owned(),
        })
    }

    fn at(at_ns: u64, record: Record<'_>) -> Stamped<'_> {
        Stamped {
            at_ns,
            domain: 0,
            lane: Lane::data(1),
            record,
        }
    }

    const fn write(token: u64, outcome: Outcome) -> Record<'static> {
        Record::Post {
            op: Op::WriteData,
            outcome,
            token,
            peer: 3,
            len: 4096,
            data: 0x1000_0400,
            remote_addr: 0x7000,
            remote_key: 9,
            message: &[],
        }
    }

    #[test]
    fn an_operation_is_followed_to_its_end() {
        let mut view = view();
        let name = [2, 0, 0x11, 0x51, 127, 0, 0, 1];
        view.line(&at(
            0,
            Record::Endpoint {
                name: &name,
                format: 2,
            },
        ));
        view.line(&at(
            0,
            Record::Peer {
                peer: 3,
                name: &name,
            },
        ));
        let posted = view.line(&at(5, write(77, Outcome::Accepted))).text(1000);
        assert_eq!(
            posted,
            "   0.000000 n1:7 d0 data1 > writedata  bytes=4096 nseg=1 receiver=1 seq=0 addr=0x7000 key=0x9 \
             peer=127.0.0.1:4433 op=1"
        );
        assert_eq!(view.open().len(), 1);
        let done = view.line(&at(9000, Record::Done { token: 77 })).text(1000);
        assert_eq!(
            done,
            "   0.000009 n1:7 d0 data1 . done       op=1 was=writedata us=8"
        );
        assert!(view.open().is_empty());
    }

    #[test]
    fn each_operation_is_to_or_from_whom_it_is() {
        let post = |op| Record::Post {
            op,
            outcome: Outcome::Accepted,
            token: op as u64,
            peer: 3,
            len: 1,
            data: 0,
            remote_addr: 0,
            remote_key: 0,
            message: &[],
        };
        for (op, whom) in [
            (Op::TaggedRecv, "from any"),
            (Op::TaggedSend, "to peer3"),
            (Op::WriteData, "to peer3"),
            (Op::OneSidedRead, "from peer3"),
            (Op::EagerCopy, "from self"),
            (Op::Flush, "to self"),
        ] {
            let mut view = view();
            view.line(&at(1, post(op)));
            let open = view.open()[0];
            let shown = format!("{} {}", towards(open.verb), open.peer);
            assert_eq!(shown, whom, "{op:?}");
        }
    }

    #[test]
    fn only_what_the_provider_took_is_waited_for() {
        let mut view = view();
        for outcome in [
            Outcome::Busy,
            Outcome::Injected,
            Outcome::Failed { errno: 5 },
            Outcome::Accepted,
        ] {
            view.line(&at(1, write(1, outcome)));
        }
        assert_eq!(view.open().len(), 1);
        let record = Record::Failed {
            token: Some(1),
            errno: 104,
            provider_errno: -3,
        };
        let failed = view.line(&at(2, record)).text(1000);
        assert!(
            failed.ends_with("! failed     op=1 was=writedata errno=104 provider_errno=-3"),
            "{failed}"
        );
        assert!(view.open().is_empty());
        let totals: Vec<_> = view
            .totals()
            .map(|(_, _, verb, t)| (verb, t.count))
            .collect();
        assert_eq!(totals, [("failed", 1), ("writedata", 3)]);
    }
}
