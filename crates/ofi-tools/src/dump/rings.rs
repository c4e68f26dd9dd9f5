//! What became of one message, by the last records that the dumps of its two ends have (`OFI_NCCL_TRACE_RING`): was
//! it given to the provider, when, did that complete, has it come?

use core::cell::OnceCell;

use ofi_net::dump::{Comm, Domain, Dump, Kind};

use super::load::Job;
use crate::trace::{Event, Recent, Step, recent};

const NS_PER_MS: u64 = 1_000_000;

/// Who posts a part so shortly before its dump has only now done what the other waits for, milliseconds.
const LATE_MS: u64 = 1000;

/// Dumps that answer one trigger are written within so many milliseconds, by clocks that differ by less.
const TOGETHER_MS: u64 = 5000;

/// What the domains of a process did last: read when somebody asks, for most are never looked at.
#[derive(Debug, Default)]
pub(super) struct Rings(Vec<OnceCell<Option<Recent>>>);

impl Rings {
    pub(super) fn of_dump(dump: &Dump) -> Self {
        Self(dump.domains.iter().map(|_| OnceCell::new()).collect())
    }

    /// That of a domain of the dump.
    pub(super) fn of(&self, dump: &Dump, domain: &Domain) -> Option<&Recent> {
        let mut domains = dump.domains.iter();
        let at = domains.position(|other| core::ptr::eq(other, domain))?;
        let read = self.0.get(at)?.get_or_init(|| recent(dump, domain));
        read.as_ref()
    }
}

/// One end of a communicator.
#[derive(Clone, Copy, Debug)]
pub(super) struct End<'a> {
    pub(super) member: usize,
    pub(super) domain: &'a Domain,
    pub(super) comm: &'a Comm,
}

/// What the records say of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Trail {
    /// For people, a line each.
    pub(super) text: Vec<String>,
    /// Who gave away what has not come: it is missing on the way from there.
    pub(super) from: Option<usize>,
    /// What is waited for was given to the provider, and only so many milliseconds before the dump.
    pub(super) late_ms: Option<u64>,
}

/// One way of a message: a CTRL, or its data.
#[derive(Clone, Copy, Debug, Default)]
struct Leg {
    /// Operations given to the provider, and when the first was.
    posted: u64,
    posted_ns: u64,
    done: u64,
    failed: u64,
    /// What came at the other end, of how much, and when the last did.
    came: u64,
    of: u64,
    came_ns: u64,
}

/// Which way, and what it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Ctrl,
    Data,
}

/// The trail of message `seq`, for who waits for it at `waits`; `None`: neither end keeps records.
pub(super) fn trail(job: &Job, waits: End<'_>, other: End<'_>, seq: u32) -> Option<Trail> {
    let (sender, receiver) = match waits.comm.kind {
        Kind::Send => (waits, other),
        Kind::Recv => (other, waits),
        Kind::Listener => return None,
    };
    let (of_sender, of_receiver) = (ring(job, sender), ring(job, receiver));
    if of_sender.is_none() && of_receiver.is_none() {
        return None;
    }
    let ctrl = leg(Way::Ctrl, seq, (receiver, of_receiver), (sender, of_sender));
    let data = leg(Way::Data, seq, (sender, of_sender), (receiver, of_receiver));
    let ways = [
        (Way::Ctrl, ctrl, receiver, sender),
        (Way::Data, data, sender, receiver),
    ];
    let text = ways
        .iter()
        .filter_map(|&(way, leg, from, to)| in_words(job, way, leg, (from, to)));
    let is_missing = |leg: Leg| leg.posted > 0 && leg.came < leg.of.max(1);
    let from = ways.iter().rev().find(|(_, leg, ..)| is_missing(*leg));
    let awaited = if waits.comm.kind == Kind::Send {
        ctrl
    } else {
        data
    };
    let late = is_missing(awaited).then(|| late_ms(job, awaited, waits, other));
    Some(Trail {
        text: text.collect(),
        from: from.map(|(_, _, from, _)| from.member),
        late_ms: late.flatten(),
    })
}

/// What came last of a peer whose own records are not of now.
pub(super) fn heard(job: &Job, waits: End<'_>) -> Option<Trail> {
    let events = &ring(job, waits)?.events;
    let of_peer = |event: &&Event| match (waits.comm.kind, &event.step) {
        (Kind::Send, Step::CtrlCame { comm, .. }) | (Kind::Recv, Step::DataCame { comm, .. }) => {
            *comm == u64::from(waits.comm.id)
        }
        _ => false,
    };
    let last = events.iter().rev().find(of_peer)?;
    let before = before(job, waits.member, last.at_ns);
    let text = vec![format!("what came of it last, {before}: {}", last.text)];
    Some(Trail {
        text,
        ..Trail::default()
    })
}

/// The last records of a process, in words, the newest last; of all its domains.
pub(super) fn last(job: &Job, member: usize, most: usize) -> Vec<String> {
    let Some(of) = job.members.get(member) else {
        return Vec::new();
    };
    let rings = of.domains().iter().filter_map(|domain| of.ring(domain));
    let mut events: Vec<&Event> = rings
        .flat_map(|ring| ring.events.iter().rev().take(most))
        .collect();
    events.sort_by_key(|event| event.at_ns);
    let few = events.iter().rev().take(most).rev();
    few.map(|event| format!("{}: {}", before(job, member, event.at_ns), event.text))
        .collect()
}

fn ring<'j>(job: &'j Job, end: End<'_>) -> Option<&'j Recent> {
    job.members.get(end.member)?.ring(end.domain)
}

/// One way of message `seq`, from the records of who gives it to a provider and of who gets it.
fn leg(
    way: Way,
    seq: u32,
    (from, of_from): (End<'_>, Option<&Recent>),
    (to, of_to): (End<'_>, Option<&Recent>),
) -> Leg {
    let modulus = u64::from(from.domain.seq_modulus.max(2));
    let seq = u64::from(seq);
    let mut leg = Leg::default();
    let mut open: Vec<u64> = Vec::new();
    for event in of_from.iter().flat_map(|ring| &ring.events) {
        match (way, &event.step) {
            // A CTRL has the sender's number of the communicator, data the receiver's: in both that of `to`.
            (
                Way::Ctrl,
                Step::CtrlPosted {
                    comm,
                    seq: n,
                    peer,
                    op,
                },
            )
            | (
                Way::Data,
                Step::DataPosted {
                    comm,
                    seq: n,
                    peer,
                    op,
                },
            ) if *comm == u64::from(to.comm.id) && is_of(to.domain, peer) => {
                if *n == seq {
                    leg.posted += 1;
                    if leg.posted == 1 {
                        leg.posted_ns = event.at_ns;
                    }
                    open.extend(op);
                    // What it takes at once has no completion.
                    leg.done += u64::from(op.is_none());
                } else if is_another_lap(*n, seq, modulus) {
                    leg = Leg::default();
                    open.clear();
                }
            }
            (_, Step::Done { op }) if open.contains(op) => leg.done += 1,
            (_, Step::Failed { op }) if open.contains(op) => leg.failed += 1,
            _ => {}
        }
    }
    for event in of_to.iter().flat_map(|ring| &ring.events) {
        let (comm, n, of) = match (way, &event.step) {
            (Way::Ctrl, Step::CtrlCame { comm, seq }) => (comm, seq, 1),
            (Way::Data, Step::DataCame { comm, seq, of }) => (comm, seq, *of),
            _ => continue,
        };
        if *comm != u64::from(to.comm.id) {
            continue;
        }
        if *n == seq {
            (leg.came, leg.of, leg.came_ns) = (leg.came + 1, of, event.at_ns);
        } else if is_another_lap(*n, seq, modulus) {
            (leg.came, leg.of, leg.came_ns) = (0, 0, 0);
        }
    }
    leg
}

fn is_of(domain: &Domain, address: &str) -> bool {
    domain.endpoints.iter().any(|end| end.address == address)
}

/// Numbers come again: whether `n` is so far from `seq` that an earlier message of that number was meant before.
const fn is_another_lap(n: u64, seq: u64, modulus: u64) -> bool {
    let ahead = (n % modulus + modulus - seq % modulus) % modulus;
    ahead > modulus / 4 && ahead < modulus - modulus / 4
}

fn in_words(job: &Job, way: Way, leg: Leg, (from, to): (End<'_>, End<'_>)) -> Option<String> {
    let what = match way {
        Way::Ctrl => "CTRL",
        Way::Data => "data",
    };
    let (giver, getter) = (job.name(from.member), job.name(to.member));
    let (gives, gets) = (ring(job, from).is_some(), ring(job, to).is_some());
    let given = match leg.posted {
        0 if !gives || leg.came > 0 => None,
        // It may have been before what is kept.
        0 => return None,
        n => {
            let ended = match (leg.done, leg.failed) {
                (0, 0) => "not completed".to_owned(),
                (done, 0) if done >= n => "completed".to_owned(),
                (done, 0) => format!("{done} of {n} completed"),
                (_, failed) => format!("{failed} of {n} failed"),
            };
            let when = before(job, from.member, leg.posted_ns);
            Some(format!(
                "its {what} was given to the provider of {giver} {when}, {ended}"
            ))
        }
    };
    let come = match leg.came {
        0 if gets && leg.posted > 0 => Some(format!("and has not come to {getter}")),
        0 => None,
        n => {
            let when = before(job, to.member, leg.came_ns);
            let all = if leg.of > 1 {
                format!("{n} of {} segments of its data came", leg.of)
            } else if given.is_some() {
                "and came".to_owned()
            } else {
                format!("its {what} came")
            };
            Some(format!("{all} to {getter} {when}"))
        }
    };
    let parts: Vec<String> = given.into_iter().chain(come).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// How long before its dump a process wrote down something that has that time.
fn before(job: &Job, member: usize, at_ns: u64) -> String {
    let ms = age_ms(job, member, at_ns).unwrap_or(0);
    format!("{ms} ms before its dump")
}

fn age_ms(job: &Job, member: usize, at_ns: u64) -> Option<u64> {
    let dump = job.members.get(member)?.dump.as_ref()?;
    Some(dump.at_unix_ms.saturating_sub(at_ns / NS_PER_MS))
}

/// How late the part was that is waited for, if nothing but that kept who waits.
fn late_ms(job: &Job, leg: Leg, waits: End<'_>, other: End<'_>) -> Option<u64> {
    let at = |end: End<'_>| Some(job.members.get(end.member)?.dump.as_ref()?.at_unix_ms);
    let age = age_ms(job, other.member, leg.posted_ns)?;
    let waited_ms = waits.comm.idle_ms.saturating_add(waits.comm.away_ms);
    let is_late = age < LATE_MS && waited_ms > age.saturating_add(LATE_MS);
    let is_together = at(waits)?.abs_diff(at(other)?) < TOGETHER_MS;
    (is_late && is_together && leg.failed == 0).then_some(age)
}
