//! Who each stuck communicator waits for, with both of its ends looked at.

use ofi_net::dump::{Comm, Domain, Kind, Stage};

use super::load::{Job, Member};
use super::rings::{self, End, Trail};

/// Whom a wait is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum On {
    /// A member: it has to do something.
    Member(usize),
    /// The network between two members, or their providers: both have done their part.
    Network(usize, usize),
    /// Who has that address, and wrote no dump.
    Address(String),
    /// Whoever was given the handle of a listener.
    Anybody,
}

/// Why it is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// The peer has not called accept.
    Accept,
    /// Nobody has called connect.
    Connect,
    /// The peer has its answer, and does not call connect any more.
    ConnectAgain,
    /// The peer has not posted the receive of a message.
    Receive,
    /// The peer has not posted the send of a message.
    Send,
    /// The peer has only now posted what a message waited for.
    Late,
    /// The peer has not closed.
    Close,
    /// The peer has done its part; what it sent, or was sent, has not arrived.
    Arrival,
    /// The provider does not take operations.
    Taking,
    /// A communicator failed.
    Failure,
}

/// One communicator that waits, or failed.
#[derive(Clone, Debug)]
pub(super) struct Wait {
    pub(super) who: usize,
    pub(super) on: On,
    pub(super) missing: Missing,
    pub(super) stage: Option<Stage>,
    /// Number of the communicator at who waits, and at its peer.
    pub(super) comm: u32,
    pub(super) peer_comm: u32,
    pub(super) seq: Option<u32>,
    /// Numbers of messages there are.
    pub(super) modulus: u32,
    /// Rails that have operations.
    pub(super) rails: Vec<String>,
    pub(super) idle_ms: u64,
    /// It has moved just now: it is slow at most, and not stuck.
    pub(super) moves: bool,
    /// How it failed.
    pub(super) failure: Option<String>,
    /// What the records of both ends say of the message.
    pub(super) trail: Option<Trail>,
}

/// What has moved within so many milliseconds is not stuck. A message of a healthy job waits for less, and who
/// looks for what hangs comes later.
const MOVED_MS: u64 = 1000;

/// All of them, of members that answered; and the failures of those that did not.
pub(super) fn waits(job: &Job) -> Vec<Wait> {
    let mut waits = Vec::new();
    for (who, member) in job.members.iter().enumerate() {
        for (domain, comm) in member.comms() {
            if let Some(failure) = &comm.failure {
                waits.push(failed(job, who, (domain, comm), failure));
            } else if let Some(stage) = comm.stage.filter(|_| !member.silent) {
                let wait = stuck(job, who, (domain, comm), stage);
                let moves = moves(member, (domain, comm));
                let moves = moves || wait.moves;
                waits.push(Wait { moves, ..wait });
            }
        }
    }
    waits
}

/// Whether a communicator that waits has moved of late: it says so, and its numbers are not those of the dump
/// before, if that is long enough ago.
fn moves(member: &Member, (domain, comm): (&Domain, &Comm)) -> bool {
    let Some(dump) = &member.dump else {
        return false;
    };
    let warn_ms = dump.stall_warn_ms.unwrap_or(u64::MAX);
    let long_ms = MOVED_MS.min(warn_ms / 2);
    // Time in which nobody looked counts here: nothing moved then either.
    if comm.idle_ms.saturating_add(comm.away_ms) >= long_ms {
        return false;
    }
    let before = member.before.as_ref();
    let before = before.filter(|b| dump.at_unix_ms.saturating_sub(b.at_unix_ms) >= long_ms);
    let domains = before.into_iter().flat_map(|dump| &dump.domains);
    let mut then = domains
        .filter(|other| (other.device, &other.label) == (domain.device, &domain.label))
        .flat_map(|domain| &domain.comms)
        .filter(|other| (other.kind, other.id) == (comm.kind, comm.id));
    !then.any(|other| numbers(other) == numbers(comm))
}

/// What changes when a communicator moves.
fn numbers(comm: &Comm) -> impl PartialEq + '_ {
    let request = comm.oldest.as_ref();
    let request = request.map(|r| (r.seq, r.moved, r.completions, r.segments, r.ctrl_seen));
    let seqs = (comm.next_seq, comm.oldest_seq, comm.done, comm.ctrls);
    (seqs, &comm.state, comm.peer_id, comm.answered, request)
}

fn bare(who: usize, (domain, comm): (&Domain, &Comm), on: On, missing: Missing) -> Wait {
    let oldest = comm.oldest.as_ref();
    Wait {
        who,
        on,
        missing,
        stage: comm.stage,
        comm: comm.id,
        peer_comm: comm.peer_id,
        seq: waited_seq(comm),
        modulus: domain.seq_modulus,
        rails: oldest.map_or_else(Vec::new, |request| request.flying.clone()),
        idle_ms: comm.idle_ms,
        moves: false,
        failure: None,
        trail: None,
    }
}

/// Codes of failures that only say that nothing moved: `Stalled` and `ConnectTimeout`.
const FOLLOWS: [&str; 2] = ["OFI-E0602", "OFI-E0402"];

/// A failure is between two. One that says no more than that nothing moved is looked at as a wait.
fn failed(job: &Job, who: usize, (domain, comm): (&Domain, &Comm), failure: &str) -> Wait {
    let failure = Some(failure.to_owned());
    let says = |code: &&str| failure.as_ref().is_some_and(|text| text.contains(code));
    if FOLLOWS.iter().any(says) {
        let usual = match (comm.kind, comm.state.as_str()) {
            (_, "connecting") => Stage::AwaitConnResp,
            (_, "answering" | "refusing") => Stage::SendConnResp,
            (Kind::Send, _) => Stage::AwaitCtrl,
            _ => Stage::AwaitData,
        };
        let stage = comm.stage.unwrap_or(usual);
        let wait = stuck(job, who, (domain, comm), stage);
        return Wait {
            stage: Some(stage),
            failure,
            ..wait
        };
    }
    let on = match peer(job, who, comm) {
        Ok(peer) => On::Network(who, peer),
        Err(on) => on,
    };
    Wait {
        failure,
        ..bare(who, (domain, comm), on, Missing::Failure)
    }
}

/// The member at the other end.
fn peer(job: &Job, who: usize, comm: &Comm) -> Result<usize, On> {
    let address = comm.peer.as_deref().ok_or(On::Anybody)?;
    let found = job.at_address(who, address);
    found.ok_or_else(|| On::Address(address.to_owned()))
}

fn stuck(job: &Job, who: usize, (domain, comm): (&Domain, &Comm), stage: Stage) -> Wait {
    let with = |on, missing| bare(who, (domain, comm), on, missing);
    let missing = match stage {
        Stage::AwaitConn => return with(On::Anybody, Missing::Connect),
        Stage::SendConn | Stage::SendConnResp | Stage::Posting => Missing::Taking,
        Stage::AwaitConnResp => Missing::Accept,
        Stage::AwaitCtrl => Missing::Receive,
        Stage::AwaitData => Missing::Send,
        Stage::AwaitClose => Missing::Close,
        Stage::Completions => Missing::Arrival,
    };
    let at = match peer(job, who, comm) {
        Ok(at) => at,
        Err(on) => return with(on, missing),
    };
    let Some(member) = job.members.get(at) else {
        return with(On::Anybody, missing);
    };
    let end = End {
        member: who,
        domain,
        comm,
    };
    // Who is silent is waited for, whatever it has to do.
    if member.silent {
        return Wait {
            trail: rings::heard(job, end),
            ..with(On::Member(at), missing)
        };
    }
    let is_listener_needed = matches!(stage, Stage::SendConn | Stage::AwaitConnResp);
    let other = other_end(member, (domain, comm), is_listener_needed);
    match (missing, other) {
        (Missing::Accept, Some((_, listener))) if listener.asked => {
            with(On::Network(who, at), Missing::Arrival)
        }
        (Missing::Accept, _) => with(On::Member(at), Missing::Accept),
        (Missing::Close, _) => with(On::Member(at), Missing::Close),
        (Missing::Taking, _) => with(On::Network(who, at), Missing::Taking),
        (_, Some((_, end))) if end.answered => with(On::Member(at), Missing::ConnectAgain),
        (_, Some((of_domain, of_comm))) => {
            let of = End {
                member: at,
                domain: of_domain,
                comm: of_comm,
            };
            message(job, end, of)
        }
        // It has closed its end, or has not taken it from accept.
        (Missing::Arrival, None) => with(On::Network(who, at), Missing::Arrival),
        (_, None) => with(On::Member(at), missing),
    }
}

/// The wait of a communicator whose other end is known, and up.
fn message(job: &Job, end: End<'_>, other: End<'_>) -> Wait {
    let (who, at) = (end.member, other.member);
    let (domain, comm) = (end.domain, end.comm);
    let seq = waited_seq(comm);
    let trail = seq.and_then(|seq| rings::trail(job, end, other, seq));
    let late = trail.as_ref().and_then(|trail| trail.late_ms);
    // Under SENDRECV a send completes once its receive is posted.
    let is_posted = seq.is_none_or(|seq| is_before(seq, other.comm.next_seq, domain.seq_modulus));
    let (on, missing) = match (is_posted, comm.kind) {
        (true, _) if late.is_some() => (On::Member(at), Missing::Late),
        (true, _) => (On::Network(who, at), Missing::Arrival),
        (false, Kind::Send) => (On::Member(at), Missing::Receive),
        (false, _) => (On::Member(at), Missing::Send),
    };
    Wait {
        trail,
        // What came late comes: it is slow at most.
        moves: missing == Missing::Late,
        ..bare(who, (domain, comm), on, missing)
    }
}

/// The number of the message that is waited for; of a communicator that failed the one of its failure, for the
/// request may be gone.
fn waited_seq(comm: &Comm) -> Option<u32> {
    let told = comm.failure.as_deref().and_then(|failure| {
        let (_, rest) = failure.split_once(", message ")?;
        let (number, _) = rest.split_once(|c: char| !c.is_ascii_digit())?;
        number.parse().ok()
    });
    match &comm.oldest {
        _ if told.is_some() => told,
        Some(request) => request.seq,
        None => comm.failure.is_some().then_some(comm.oldest_seq),
    }
}

/// The communicator of `member` that `comm` talks to.
fn other_end<'a>(
    member: &'a Member,
    (domain, comm): (&Domain, &Comm),
    listener: bool,
) -> Option<(&'a Domain, &'a Comm)> {
    let wanted = match comm.kind {
        Kind::Send if listener => Kind::Listener,
        Kind::Send => Kind::Recv,
        Kind::Recv => Kind::Send,
        Kind::Listener => return None,
    };
    let is_ours = |address: &str| domain.endpoints.iter().any(|end| end.address == address);
    let talks_to_us = |other: &Comm| {
        // A sender knows the number of its peer's communicator once it has the answer.
        let knows = other.state != "connecting";
        (other.peer_id == comm.id && other.peer.as_deref().is_some_and(is_ours)) || !knows
    };
    member.comms().find(|(_, other)| {
        other.kind == wanted
            && other.id == comm.peer_id
            && (listener || talks_to_us(other))
            && !other.closed
    })
}

/// Whether message `seq` was started by who will start `next` next: numbers wrap.
const fn is_before(seq: u32, next: u32, modulus: u32) -> bool {
    let ahead = (next % modulus + modulus - seq % modulus) % modulus;
    ahead != 0 && ahead <= modulus / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_wrap() {
        assert!(is_before(5, 6, 1024) && !is_before(6, 6, 1024) && !is_before(7, 6, 1024));
        assert!(is_before(1023, 0, 1024) && is_before(1000, 3, 1024));
        assert!(!is_before(0, 1023, 1024));
    }
}
