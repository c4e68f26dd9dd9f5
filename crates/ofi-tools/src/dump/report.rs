//! The verdicts as lines, and as JSON.

use std::collections::BTreeSet;

use ofi_net::dump::{Reason, Stage};
use serde_json::{Value, json};

use super::blame::{Missing, On, Wait};
use super::follow::{Culprit, Verdict};
use super::load::{Alive, Job, Member};
use super::{nics, rings};

/// Names in one line, at most.
const NAMES_MAX: usize = 8;

/// Waits of one verdict that are shown, at most.
const WAITS_MAX: usize = 4;

/// Verdicts that are shown, at most.
const VERDICTS_MAX: usize = 8;

/// Records of one process that are shown, at most.
const RECORDS_MAX: usize = 3;

/// Of a process whose last word is in a file that is none.
const UNREAD: &str = "its newest dump cannot be read";

/// Raised when a field changes its meaning or goes.
const SCHEMA: u32 = 1;

/// For people.
pub(super) fn text(job: &Job, waits: &[Wait], verdicts: &[Verdict]) -> Vec<String> {
    let mut lines = Vec::new();
    for (nth, verdict) in verdicts.iter().take(VERDICTS_MAX).enumerate() {
        let also = if nth == 0 { "" } else { "also: " };
        lines.push(format!("{also}{}", headline(job, waits, verdict)));
        let blamed = match verdict.culprit {
            Culprit::Member(at) => about(job, at, Some(waits)),
            Culprit::NetworkOf(at) => about(job, at, None),
            Culprit::Network(a, b) => [a, b]
                .iter()
                .flat_map(|&at| {
                    let lines = last_of(job, at).into_iter();
                    lines.map(move |line| format!("{}: {line}", job.name(at)))
                })
                .collect(),
            Culprit::Silent(ref all) => {
                let shown = all.iter().take(WAITS_MAX);
                let of = |&at: &usize| {
                    let lines = about(job, at, None).into_iter();
                    lines.map(move |line| format!("{}: {line}", job.name(at)))
                };
                shown.flat_map(of).collect()
            }
            _ => Vec::new(),
        };
        lines.extend(blamed.into_iter().map(|text| format!("  {text}")));
        let shown = verdict.waits.iter().take(WAITS_MAX);
        for wait in shown.filter_map(|&at| waits.get(at)) {
            lines.push(format!("  {}", sentence(job, wait)));
            let trail = wait.trail.iter().flat_map(|trail| &trail.text);
            lines.extend(trail.map(|text| format!("    {text}")));
        }
        if let Some(more) = verdict
            .waits
            .len()
            .checked_sub(WAITS_MAX)
            .filter(|&n| n > 0)
        {
            lines.push(format!("  and {more} more communicators"));
        }
        if !verdict.behind.is_empty() {
            lines.push(format!("  behind them: {}", names(job, &verdict.behind)));
        }
    }
    if let Some(more) = verdicts.len().checked_sub(VERDICTS_MAX).filter(|&n| n > 0) {
        lines.push(format!("and {more} more ends of waiting: see --json"));
    }
    if verdicts.is_empty() {
        let longest_ms = waits.iter().map(|wait| wait.idle_ms).max();
        lines.push(match longest_ms {
            None => "nobody waits for anybody".to_owned(),
            Some(ms) => format!("nobody is stuck: all that wait have moved within {ms} ms"),
        });
    }
    lines.extend(nics::lines(job));
    lines.push(summary(job, waits));
    lines
}

fn headline(job: &Job, waits: &[Wait], verdict: &Verdict) -> String {
    let waiting = names(job, &verdict.waiting);
    let first = verdict.waits.first().and_then(|&at| waits.get(at));
    match &verdict.culprit {
        Culprit::Member(at) => {
            let member = job.members.get(*at);
            let silent = member.is_some_and(|member| member.silent);
            if let Some(wait) = first.filter(|_| member.is_some_and(|member| member.unread)) {
                let (name, wanted) = (job.name(*at), wanted(wait));
                return format!("{name}: {UNREAD}; wanted of it: {wanted}; waiting: {waiting}");
            }
            let what = match (first, silent) {
                (None, _) => String::new(),
                (Some(wait), false) => owes(wait),
                (Some(wait), true) => format!("is silent; wanted of it: {}", wanted(wait)),
            };
            format!("{} {what}; waiting: {waiting}", job.name(*at))
        }
        Culprit::NetworkOf(at) => format!(
            "the network of {} is the end of all that is stuck; waiting: {waiting}",
            job.name(*at)
        ),
        Culprit::Network(a, b) => format!(
            "the network from {} to {}: both have done their part; waiting: {waiting}",
            job.name(*a),
            job.name(*b)
        ),
        Culprit::Circle(circle) => {
            let all: Vec<&str> = circle.iter().map(|&at| job.name(at)).collect();
            format!(
                "they wait for each other, in a circle: {}",
                all.join(" -> ")
            )
        }
        Culprit::Address(address) => {
            let members = job.members.iter().enumerate();
            // Nobody waits for itself.
            let is_one = |(at, m): &(usize, &Member)| m.unread && !verdict.waiting.contains(at);
            let unread = members.filter(is_one).map(|(at, _)| at);
            let unread: BTreeSet<usize> = unread.collect();
            let why = match (unread.is_empty(), job.strays.first()) {
                (false, _) => format!("perhaps {}: {UNREAD}", names(job, &unread)),
                (true, Some(stray)) => {
                    format!("and wrote no dump that can be read, perhaps {stray}")
                }
                (true, None) => "and wrote no dump".to_owned(),
            };
            format!("who has the address {address}, {why}; waiting: {waiting}")
        }
        Culprit::Nobody if first.is_none_or(|wait| wait.missing == Missing::Connect) => {
            format!("nobody connects to listeners; waiting: {waiting}")
        }
        Culprit::Nobody => format!("no dump says for whom they wait; waiting: {waiting}"),
        Culprit::Silent(all) => silence(job, all, waits.is_empty()),
    }
}

/// Who is silent, and whose answers cannot be read.
fn silence(job: &Job, all: &[usize], nobody_waits: bool) -> String {
    let is_unread = |at: &usize| job.members.get(*at).is_some_and(|member| member.unread);
    let (unread, silent): (BTreeSet<usize>, BTreeSet<usize>) =
        all.iter().partition(|&at| is_unread(at));
    if silent.len() == job.members.len() && nobody_waits {
        return "nobody has answered, and nobody has said that it waits".to_owned();
    }
    let mut parts = Vec::new();
    if !silent.is_empty() {
        let is = if silent.len() == 1 { "is" } else { "are" };
        parts.push(format!("{} {is} silent", names(job, &silent)));
    }
    if !unread.is_empty() {
        parts.push(format!("{}: {UNREAD}", names(job, &unread)));
    }
    let who = parts.join("; ");
    format!("{who}, and nobody waits for that in the plugin: the others may wait elsewhere")
}

/// What a member owes, in the words that follow its name.
fn owes(wait: &Wait) -> String {
    let seq = wait
        .seq
        .map_or_else(String::new, |seq| format!(" for message {seq}"));
    let of = format!("of communicator {}", wait.peer_comm);
    match wait.missing {
        Missing::Accept => format!("has not called accept for listener {}", wait.peer_comm),
        Missing::Connect => "has not called connect".to_owned(),
        Missing::ConnectAgain => "has its answer, and has not called connect again".to_owned(),
        Missing::Receive => format!("has not posted the receive{seq} {of}"),
        Missing::Send => format!("has not posted the send{seq} {of}"),
        Missing::Late => format!("is late: it has only now posted its part{seq} {of}"),
        Missing::Close => format!("has not closed communicator {}", wait.peer_comm),
        Missing::Arrival => format!("does not let operations{seq} {of} complete"),
        Missing::Taking => format!("takes no operations{seq} {of}"),
        Missing::Failure => format!("is gone or has failed; communicator {} failed", wait.comm),
    }
}

/// The same of one that is silent: what it has done meanwhile nobody knows.
fn wanted(wait: &Wait) -> String {
    let seq = wait
        .seq
        .map_or_else(String::new, |seq| format!(" for message {seq}"));
    let comm = wait.peer_comm;
    match wait.missing {
        Missing::Accept => format!("accept for listener {comm}"),
        Missing::Connect | Missing::ConnectAgain => "connect".to_owned(),
        Missing::Receive => format!("the receive{seq} of communicator {comm}"),
        Missing::Send => format!("the send{seq} of communicator {comm}"),
        Missing::Close => format!("to close communicator {comm}"),
        Missing::Late | Missing::Arrival | Missing::Taking | Missing::Failure => {
            format!("that it is there{seq} of communicator {comm}")
        }
    }
}

/// One wait as a sentence.
fn sentence(job: &Job, wait: &Wait) -> String {
    let who = job.name(wait.who);
    let whom = match &wait.on {
        On::Member(at) | On::Network(_, at) => job.name(*at).to_owned(),
        On::Address(address) => address.clone(),
        On::Anybody => "anybody".to_owned(),
    };
    if let (Missing::Failure, Some(failure)) = (wait.missing, &wait.failure) {
        return format!("{who}, communicator {} with {whom}: {failure}", wait.comm);
    }
    let seq = wait
        .seq
        .map_or_else(String::new, |seq| format!(", message {seq}"));
    let rails = match wait.rails.as_slice() {
        [] => String::new(),
        rails => format!(", on {}", rails.join(" ")),
    };
    let stage = wait.stage.map_or("", stage_text);
    let idle = wait.idle_ms;
    format!(
        "{who}, communicator {} with {whom}{seq}{rails}: {stage}, for {idle} ms",
        wait.comm
    )
}

const fn stage_text(stage: Stage) -> &'static str {
    match stage {
        Stage::SendConn => "the provider does not take the connection message",
        Stage::AwaitConnResp => "no answer to its connection message",
        Stage::SendConnResp => "the answer to a connection message cannot be sent",
        Stage::AwaitConn => "accept is called, and nobody connects",
        Stage::Posting => "the provider takes no operations",
        Stage::Completions => "operations at the provider do not complete",
        Stage::AwaitCtrl => "waits for the receive to be posted",
        Stage::AwaitData => "waits for the data",
        Stage::AwaitClose => "waits for the peer to close",
    }
}

/// What there is to say of a member that is to blame.
fn about(job: &Job, at: usize, owes: Option<&[Wait]>) -> Vec<String> {
    let Some(member) = job.members.get(at) else {
        return Vec::new();
    };
    let mut lines = Vec::new();
    let Some(dump) = &member.dump else {
        let mut text =
            "it wrote no dump: it never came so far, or is on a host that writes elsewhere"
                .to_owned();
        if let Some(stray) = job.strays.first() {
            text += &format!("; or its dump is one that cannot be read, as {stray}");
        }
        return vec![text];
    };
    let process = &dump.process;
    lines.push(format!(
        "it is process {} on {}; {}",
        process.pid,
        process.host,
        state(member)
    ));
    if let Some(waits) = owes.filter(|_| !member.silent) {
        // Of a file: any numbers.
        let done = member.comms().map(|(_, comm)| u64::from(comm.done));
        let done = done.fold(0, u64::saturating_add);
        let is_waiting = waits.iter().any(|wait| wait.who == at);
        // What it did after its start is in no dump.
        let is_known = dump.reason != Reason::Start;
        let says = match done {
            1.. => Some(format!(
                "it calls the plugin, and has not tested {done} requests that are done"
            )),
            0 if is_waiting || !is_known => None,
            0 => Some(
                "it calls the plugin, and waits for no peer there: look at what its program does"
                    .to_owned(),
            ),
        };
        lines.extend(says);
        if waits.iter().any(|wait| wait.who == at && wait.moves) {
            lines.push("it moves elsewhere: it may be slow, and not stuck".to_owned());
        }
    }
    for poison in member.domains().iter().filter_map(|d| d.poison.as_ref()) {
        lines.push(format!("a device of it is out of order: {poison}"));
    }
    lines.extend(last_of(job, at));
    lines
}

/// What went over its rails last, where it keeps that.
fn last_of(job: &Job, at: usize) -> Vec<String> {
    let records = rings::last(job, at, RECORDS_MAX).into_iter();
    records
        .map(|record| format!("over its rails, {record}"))
        .collect()
}

fn state(member: &Member) -> String {
    let reason = member.dump.as_ref().map(|dump| dump.reason);
    let silent = match (member.silent, reason) {
        _ if member.unread => UNREAD,
        (false, Some(Reason::Stall)) => "its dump is of a stall",
        (false, Some(Reason::Error)) => "its dump is of its first error",
        (false, Some(Reason::Start)) => "its dump is of its start",
        (false, _) => "it has answered",
        (true, Some(Reason::Error)) => "it is silent since its first error",
        (true, Some(Reason::Start)) => "it is silent since its start",
        (true, _) => "it is silent since an earlier dump",
    };
    let alive = match (member.alive, member.silent && !member.unread) {
        (Alive::Gone, _) => "; that process is gone",
        (Alive::Stopped, _) => "; that process is stopped (SIGSTOP, a debugger)",
        (Alive::Running, true) => {
            "; that process is there: it makes no call that waits, so it hangs or \
                                   works outside of the plugin"
        }
        (Alive::Unknown, true) => ": it is dead, stopped, or outside of the plugin",
        _ => "",
    };
    format!("{silent}{alive}")
}

fn summary(job: &Job, waits: &[Wait]) -> String {
    let waiting: BTreeSet<usize> = waits.iter().map(|wait| wait.who).collect();
    let of = |is: fn(&Member) -> bool| -> BTreeSet<usize> {
        let members = job.members.iter().enumerate();
        members.filter(|(_, m)| is(m)).map(|(at, _)| at).collect()
    };
    let silent = of(|member| member.silent && !member.unread);
    let unread = of(|member| member.unread);
    let (all, quiet) = (job.members.len(), silent.len());
    let mut text = format!("{all} processes: {} wait, {quiet} silent", waiting.len());
    if quiet > 0 {
        text += &format!(" ({})", names(job, &silent));
    }
    if !unread.is_empty() {
        text += &format!(", {} unreadable ({})", unread.len(), names(job, &unread));
    }
    if job.earlier > 0 {
        text += &format!("; left out: {} of an earlier run", job.earlier);
    }
    text
}

fn names(job: &Job, of: &BTreeSet<usize>) -> String {
    let shown: Vec<&str> = of.iter().take(NAMES_MAX).map(|&at| job.name(at)).collect();
    let more = of.len().saturating_sub(NAMES_MAX);
    match (shown.is_empty(), more) {
        (true, _) => "nobody".to_owned(),
        (_, 0) => shown.join(", "),
        _ => format!("{} and {more} more", shown.join(", ")),
    }
}

/// For machines: docs/json.md.
pub(super) fn json(job: &Job, waits: &[Wait], verdicts: &[Verdict]) -> Value {
    let list = |of: &BTreeSet<usize>| -> Vec<&str> { of.iter().map(|&at| job.name(at)).collect() };
    let verdict = |verdict: &Verdict| {
        let (kind, who): (&str, Vec<&str>) = match &verdict.culprit {
            Culprit::Member(at) => ("process", vec![job.name(*at)]),
            Culprit::NetworkOf(at) => ("network", vec![job.name(*at)]),
            Culprit::Network(a, b) => ("network", vec![job.name(*a), job.name(*b)]),
            Culprit::Circle(all) => ("circle", all.iter().map(|&at| job.name(at)).collect()),
            Culprit::Address(address) => ("address", vec![address.as_str()]),
            Culprit::Nobody => ("nobody", Vec::new()),
            Culprit::Silent(all) => ("silent", all.iter().map(|&at| job.name(at)).collect()),
        };
        let because = verdict.waits.iter().filter_map(|&at| waits.get(at));
        json!({
            "kind": kind,
            "who": who,
            "text": headline(job, waits, verdict),
            "because": because.map(|wait| wait_json(job, wait)).collect::<Vec<_>>(),
            "waiting": list(&verdict.waiting),
            "behind": list(&verdict.behind),
        })
    };
    let process = |(at, member): (usize, &Member)| {
        let dump = member.dump.as_ref();
        let process = dump.map(|dump| &dump.process);
        json!({
            "name": member.name,
            "rank": process.and_then(|p| p.rank),
            "host": process.map(|p| &p.host),
            "pid": process.map(|p| p.pid),
            "reason": dump.map(|dump| dump.reason),
            "at_unix_ms": dump.map(|dump| dump.at_unix_ms),
            "silent": member.silent && !member.unread,
            "unread": member.unread,
            "nics": dump.map(|dump| &dump.nics),
            "last": rings::last(job, at, RECORDS_MAX),
            "alive": match member.alive {
                Alive::Unknown => "unknown",
                Alive::Gone => "gone",
                Alive::Stopped => "stopped",
                Alive::Running => "running",
            },
        })
    };
    json!({
        "schema": SCHEMA,
        "tool": "ofi dump",
        "version": env!("CARGO_PKG_VERSION"),
        "verdicts": verdicts.iter().map(verdict).collect::<Vec<_>>(),
        "processes": job.members.iter().enumerate().map(process).collect::<Vec<_>>(),
        "waits": waits.iter().map(|wait| wait_json(job, wait)).collect::<Vec<_>>(),
        "earlier": job.earlier,
    })
}

fn wait_json(job: &Job, wait: &Wait) -> Value {
    let on = match &wait.on {
        On::Member(at) | On::Network(_, at) => Some(job.name(*at)),
        On::Address(address) => Some(address.as_str()),
        On::Anybody => None,
    };
    let missing = match wait.missing {
        Missing::Accept => "accept",
        Missing::Connect => "connect",
        Missing::ConnectAgain => "connect-again",
        Missing::Receive => "receive",
        Missing::Send => "send",
        Missing::Late => "late",
        Missing::Close => "close",
        Missing::Arrival => "arrival",
        Missing::Taking => "taking",
        Missing::Failure => "failure",
    };
    json!({
        "who": job.name(wait.who),
        "on": on,
        "network": matches!(wait.on, On::Network(..)),
        "missing": missing,
        "stage": wait.stage,
        "comm": wait.comm,
        "peer_comm": wait.peer_comm,
        "seq": wait.seq,
        "rails": wait.rails,
        "idle_ms": wait.idle_ms,
        "moves": wait.moves,
        "failure": wait.failure,
        "trail": wait.trail.as_ref().map(|trail| &trail.text),
        "late_ms": wait.trail.as_ref().and_then(|trail| trail.late_ms),
    })
}
