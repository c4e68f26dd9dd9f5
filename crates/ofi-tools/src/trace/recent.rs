//! What a domain did last, by the records that its state dump has: for `ofi dump`, which asks what became of one
//! message.

use ofi_net::dump::{Domain, Dump};
use ofi_trace::{Record, Stamped};

use super::line::{Field, Line, What, printable};
use super::source::{Source, of_domain};

/// Of what is printed of a record.
const TEXT_MAX: usize = 200;

/// What is of no use in a line about who waits: addresses and keys of memory, and what is said elsewhere in it.
const LEFT_OUT: [&str; 9] = [
    "addr", "key", "key0", "key1", "key2", "key3", "keys", "length", "told",
];

/// What a record says of a message of the RDMA protocol. `comm` is the receiver's number of a communicator for
/// data, the sender's for a CTRL; `op` names an operation until it completes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A CTRL was given to the provider, for who has that address.
    CtrlPosted {
        comm: u64,
        seq: u64,
        peer: String,
        op: Option<u64>,
    },
    /// A CTRL came.
    CtrlCame { comm: u64, seq: u64 },
    /// A segment, or an eager message, was given to the provider.
    DataPosted {
        comm: u64,
        seq: u64,
        peer: String,
        op: Option<u64>,
    },
    /// One came.
    DataCame { comm: u64, seq: u64, of: u64 },
    /// An operation completed.
    Done { op: u64 },
    /// An operation failed.
    Failed { op: u64 },
    /// Something else.
    Other,
}

/// One record.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    /// Nanoseconds since 1970, by the clock of its host.
    pub(crate) at_ns: u64,
    pub(crate) step: Step,
    /// The same for people.
    pub(crate) text: String,
}

/// The last records of a domain.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recent {
    /// Oldest first.
    pub(crate) events: Vec<Event>,
}

/// What a domain of that dump did last; `None`: it kept no records, or what it kept is damaged.
pub(crate) fn recent(dump: &Dump, domain: &Domain) -> Option<Recent> {
    let content = of_domain(dump, 0, domain).ok()??;
    let mut source = Source::open(&content).ok()?;
    let mut events = Vec::new();
    while let Some(stamped) = source.advance() {
        let line = source.view.line(&stamped);
        if !is_aside(&stamped) {
            events.push(event(&line));
        }
    }
    Some(Recent { events })
}

/// Whether it says nothing that went over a rail: who is meant by a number, and lines of the log.
const fn is_aside(stamped: &Stamped<'_>) -> bool {
    matches!(
        stamped.record,
        Record::Endpoint { .. } | Record::Peer { .. } | Record::Note { .. } | Record::Full
    )
}

fn event(line: &Line) -> Event {
    let What { sign, verb, fields } = &line.what;
    let lane = line.lane.as_deref().unwrap_or("-");
    let mut text = format!("{lane} {sign} {verb}");
    for (name, value) in fields.iter().filter(|(name, _)| !LEFT_OUT.contains(name)) {
        text += &format!(" {name}={value}");
    }
    Event {
        at_ns: line.at_ns,
        step: step(&line.what),
        text: printable(&text).chars().take(TEXT_MAX).collect(),
    }
}

fn step(what: &What) -> Step {
    let number = |wanted: &str| {
        let found = what.fields.iter().find(|(name, _)| *name == wanted)?;
        match found.1 {
            Field::Number(number) => Some(number),
            _ => None,
        }
    };
    let peer = || {
        let found = what.fields.iter().find(|(name, _)| *name == "peer");
        match found {
            Some((_, Field::Text(peer))) => peer.clone(),
            _ => String::new(),
        }
    };
    let of = |step: Option<Step>| step.unwrap_or(Step::Other);
    match (what.sign, what.verb) {
        ('>', "CTRL" | "CTRL_NC") => of((|| {
            Some(Step::CtrlPosted {
                comm: number("sender")?,
                seq: number("seq")?,
                peer: peer(),
                op: number("op"),
            })
        })()),
        ('<', "CTRL" | "CTRL_NC") => of((|| {
            Some(Step::CtrlCame {
                comm: number("sender")?,
                seq: number("seq")?,
            })
        })()),
        ('>', "writedata" | "eager") => of((|| {
            Some(Step::DataPosted {
                comm: number("receiver")?,
                seq: number("seq")?,
                peer: peer(),
                op: number("op"),
            })
        })()),
        ('<', "segment" | "eager") => of((|| {
            Some(Step::DataCame {
                comm: number("receiver")?,
                seq: number("seq")?,
                of: number("nseg")?,
            })
        })()),
        ('.', "done") => of(number("op").map(|op| Step::Done { op })),
        ('!', "failed") => of(number("op").map(|op| Step::Failed { op })),
        _ => Step::Other,
    }
}
