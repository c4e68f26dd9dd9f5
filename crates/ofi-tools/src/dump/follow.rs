//! From who waits to who is waited for, to the end: one that is silent, one that waits for nobody, the
//! network between two, or a circle.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use ofi_net::dump::Stage;

use super::blame::{Missing, On, Wait};
use super::load::{Alive, Job, Member};

/// At whom the waiting ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Culprit {
    /// A process.
    Member(usize),
    /// The network of a process: all that is stuck goes there.
    NetworkOf(usize),
    /// The network between two.
    Network(usize, usize),
    /// They wait for each other.
    Circle(Vec<usize>),
    /// Who has that address.
    Address(String),
    /// Nobody knows: a listener that nobody connects to.
    Nobody,
    /// Processes that nobody waits for in the plugin, and that have not answered.
    Silent(Vec<usize>),
}

/// One end of the waiting.
#[derive(Clone, Debug)]
pub(super) struct Verdict {
    pub(super) culprit: Culprit,
    /// The waits that say so, indices.
    pub(super) waits: Vec<usize>,
    /// Who waits for it.
    pub(super) waiting: BTreeSet<usize>,
    /// Who waits for those, and so on.
    pub(super) behind: BTreeSet<usize>,
}

/// The ends, the one that most wait for first; an error before all that follows from it.
pub(super) fn verdicts(job: &Job, waits: &[Wait]) -> Vec<Verdict> {
    let edges = edges(job, waits);
    let mut found: Vec<Verdict> = failures(job, waits).into_iter().collect();
    // What follows from an error is not looked for elsewhere.
    if found.is_empty() {
        found.extend(members(job, waits, &edges));
        found.extend(networks(waits));
        found.extend(addresses(waits));
        found.extend(circles(&edges, &found));
        if found.is_empty() {
            found.extend(nobody(waits));
        }
    }
    for verdict in &mut found {
        verdict.behind = behind(&verdict.waiting, &edges);
    }
    found.retain(|verdict| is_stuck(verdict, waits));
    if found.is_empty() {
        found.extend(silent(job));
    }
    for verdict in &mut found {
        verdict
            .waits
            .sort_by_key(|&at| waits.get(at).map(|wait| order(wait, waits)));
    }
    found.sort_by_key(|v| core::cmp::Reverse(v.waiting.len() + v.behind.len()));
    found
}

/// Whether somebody who waits for that end does not move: else it is a job that runs.
fn is_stuck(verdict: &Verdict, waits: &[Wait]) -> bool {
    let mut direct = verdict.waits.iter().filter_map(|&at| waits.get(at));
    let mut behind = waits.iter().filter(|w| verdict.behind.contains(&w.who));
    direct.any(|wait| !wait.moves) || behind.any(|wait| !wait.moves)
}

/// Who has not answered, or never came up: the others may wait for it where no plugin sees it.
fn silent(job: &Job) -> Option<Verdict> {
    let is_silent = |(_, member): &(usize, &Member)| member.silent && member.was_asked;
    let all: Vec<usize> = (job.members.iter().enumerate())
        .filter(is_silent)
        .map(|(at, _)| at)
        .collect();
    (!all.is_empty()).then(|| verdict(Culprit::Silent(all), core::iter::empty()))
}

/// What says most comes first: who does not connect, accept or close, then the message that is due first.
fn order(wait: &Wait, waits: &[Wait]) -> (bool, i64) {
    let is_message = matches!(
        wait.missing,
        Missing::Receive | Missing::Send | Missing::Late | Missing::Arrival
    );
    let reference = waits.iter().find_map(|wait| wait.seq).unwrap_or(0);
    let modulus = i64::from(wait.modulus.max(2));
    let ahead = i64::from(wait.seq.unwrap_or(reference)) - i64::from(reference);
    // Numbers wrap: those less than half of them behind come before.
    let half = modulus / 2;
    (is_message, (ahead + half).rem_euclid(modulus) - half)
}

/// Who waits for which member, by which wait.
struct Edge {
    from: usize,
    to: usize,
    wait: usize,
}

fn edges(job: &Job, waits: &[Wait]) -> Vec<Edge> {
    // Who connects may be one that wrote no dump.
    let is_all = !waits.iter().any(|wait| matches!(wait.on, On::Address(_)));
    let connects = who_connects_less(job).filter(|_| is_all);
    let edge = |(at, wait): (usize, &Wait)| {
        let to = match (&wait.on, connects) {
            (On::Member(to), _) => *to,
            (On::Anybody, Some(to)) if wait.missing == Missing::Connect && to != wait.who => to,
            _ => return None,
        };
        Some(Edge {
            from: wait.who,
            to,
            wait: at,
        })
    };
    waits.iter().enumerate().filter_map(edge).collect()
}

/// The one process that has begun fewer connections than the others, if there is one: a listener does not
/// know who was to connect to it.
fn who_connects_less(job: &Job) -> Option<usize> {
    let counts: Vec<usize> = job.members.iter().map(Member::senders).collect();
    let least = *counts.iter().min()?;
    let mut fewest = (0..counts.len()).filter(|&at| counts.get(at) == Some(&least));
    let one = fewest.next()?;
    (fewest.next().is_none() && counts.len() > 1).then_some(one)
}

fn verdict(culprit: Culprit, by: impl Iterator<Item = (usize, usize)>) -> Verdict {
    let (waits, waiting): (Vec<usize>, BTreeSet<usize>) = by.unzip();
    Verdict {
        culprit,
        waits,
        waiting,
        behind: BTreeSet::new(),
    }
}

/// What providers say of a peer that does not answer (`fi_errno(3)`); EFA's is the first one.
const UNANSWERED: [i32; 6] = [
    libc::ECONNABORTED,
    libc::ECONNRESET,
    libc::ENOTCONN,
    libc::ETIMEDOUT,
    libc::EHOSTDOWN,
    libc::EHOSTUNREACH,
];

/// Errors of providers: the process at one end that is silent, else the one that all have in common.
fn failures(job: &Job, waits: &[Wait]) -> Option<Verdict> {
    let failed: Vec<(usize, &Wait)> = waits
        .iter()
        .enumerate()
        .filter(|(_, wait)| wait.missing == Missing::Failure)
        .collect();
    let (_, first) = failed.first()?;
    let links: Vec<(usize, usize)> = failed
        .iter()
        .filter_map(|(_, wait)| match wait.on {
            On::Network(a, b) => Some((a, b)),
            _ => None,
        })
        .collect();
    // Once the job is over all are gone, and that says nothing of one.
    let is_there = |m: &Member| matches!(m.alive, Alive::Running | Alive::Stopped);
    let goes_on = job.members.iter().any(is_there);
    let is_dead = |&at: &usize| {
        // Who told of an error lived.
        let tells = failed.iter().any(|(_, wait)| wait.who == at);
        let is_gone = |m: &Member| m.silent || (goes_on && m.alive == Alive::Gone);
        !tells && job.members.get(at).is_some_and(is_gone)
    };
    let in_common = common(&links);
    let mut ends = links.iter().flat_map(|&(a, b)| [b, a]);
    let by_one = failed.iter().all(|(_, wait)| wait.who == first.who);
    let dead = match in_common {
        Some(common) if !goes_on => Some(common).filter(is_dead),
        _ => ends.find(is_dead),
    };
    let culprit = if let Some(dead) = dead {
        Culprit::Member(dead)
    } else if let Some(common) = in_common {
        Culprit::NetworkOf(common)
    } else if by_one || links.is_empty() {
        suspect(first)
    } else {
        links
            .first()
            .map_or(Culprit::Nobody, |&(a, b)| Culprit::Network(a, b))
    };
    Some(verdict(
        culprit,
        failed.iter().map(|&(at, wait)| (at, wait.who)),
    ))
}

/// Which end a single failure points to: the other one if it says that this does not answer.
fn suspect(wait: &Wait) -> Culprit {
    let failure = wait.failure.as_deref().unwrap_or_default();
    let says = |errno: &i32| failure.contains(&format!("errno {errno},"));
    match &wait.on {
        On::Network(_, peer) if UNANSWERED.iter().any(says) => Culprit::NetworkOf(*peer),
        On::Address(peer) if UNANSWERED.iter().any(says) => Culprit::Address(peer.clone()),
        _ => Culprit::NetworkOf(wait.who),
    }
}

/// Members that are waited for and wait for nothing: the ends of chains.
fn members(job: &Job, waits: &[Wait], edges: &[Edge]) -> Vec<Verdict> {
    let goes_on = |wait: &&Wait| matches!(wait.on, On::Network(..) | On::Address(_));
    let mut waiting: BTreeSet<usize> = edges.iter().map(|edge| edge.from).collect();
    waiting.extend(waits.iter().filter(goes_on).map(|wait| wait.who));
    let targets: BTreeSet<usize> = edges.iter().map(|edge| edge.to).collect();
    let is_end = |at: &usize| {
        let silent = job.members.get(*at).is_some_and(|member| member.silent);
        // One that is silent since it told whom it had waited for in vain is not where that began.
        let told = edges.iter().any(|edge| edge.from == *at);
        (silent && !told) || !waiting.contains(at)
    };
    let ends = targets.into_iter().filter(is_end);
    ends.map(|at| {
        let of = edges.iter().filter(|edge| edge.to == at);
        verdict(Culprit::Member(at), of.map(|edge| (edge.wait, edge.from)))
    })
    .collect()
}

/// Waits that end in the network: all of one process if they have one in common.
fn networks(waits: &[Wait]) -> Vec<Verdict> {
    let mut links: BTreeMap<(usize, usize), Vec<(usize, usize)>> = BTreeMap::new();
    for (at, wait) in waits.iter().enumerate() {
        if let (On::Network(a, b), false) = (&wait.on, wait.missing == Missing::Failure) {
            let link = (*a.min(b), *a.max(b));
            links.entry(link).or_default().push((at, wait.who));
        }
    }
    let pairs: Vec<(usize, usize)> = links.keys().copied().collect();
    match common(&pairs) {
        Some(one) => {
            let all = links.into_values().flatten();
            vec![verdict(Culprit::NetworkOf(one), all)]
        }
        None => links
            .into_iter()
            .map(|((a, b), by)| {
                let (from, to) = direction((a, b), &by, waits);
                verdict(Culprit::Network(from, to), by.into_iter())
            })
            .collect(),
    }
}

/// From whom something has not come, to whom: as the records of both say, else from who has operations at its
/// provider.
fn direction((a, b): (usize, usize), by: &[(usize, usize)], waits: &[Wait]) -> (usize, usize) {
    let of = |&(at, _): &(usize, usize)| waits.get(at);
    let recorded = |wait: &Wait| wait.trail.as_ref()?.from;
    let has = |wait: &Wait| {
        let stage = matches!(wait.stage, Some(Stage::Completions | Stage::Posting));
        stage.then_some(wait.who)
    };
    let waits = || by.iter().filter_map(of);
    let from = waits().find_map(recorded).or_else(|| waits().find_map(has));
    match from {
        Some(from) if from == b => (b, a),
        _ => (a, b),
    }
}

/// The one that is at an end of each of several links.
fn common(links: &[(usize, usize)]) -> Option<usize> {
    let distinct: BTreeSet<(usize, usize)> =
        links.iter().map(|&(a, b)| (a.min(b), a.max(b))).collect();
    let &(a, b) = distinct.first()?;
    let in_all = |at: usize| distinct.iter().all(|&(x, y)| x == at || y == at);
    match (distinct.len() > 1, in_all(a), in_all(b)) {
        (true, true, _) => Some(a),
        (true, _, true) => Some(b),
        _ => None,
    }
}

fn addresses(waits: &[Wait]) -> Vec<Verdict> {
    let mut known: BTreeMap<&str, Vec<(usize, usize)>> = BTreeMap::new();
    for (at, wait) in waits.iter().enumerate() {
        if let On::Address(address) = &wait.on {
            known.entry(address).or_default().push((at, wait.who));
        }
    }
    let one = |(address, by): (&str, Vec<(usize, usize)>)| {
        verdict(Culprit::Address(address.to_owned()), by.into_iter())
    };
    known.into_iter().map(one).collect()
}

/// Those that no end explains: each waits for one that does.
fn circles(edges: &[Edge], ends: &[Verdict]) -> Vec<Verdict> {
    let mut explained: BTreeSet<usize> = BTreeSet::new();
    for end in ends {
        explained.extend(&end.waiting);
        explained.extend(behind(&end.waiting, edges));
    }
    let mut circles = Vec::new();
    for edge in edges {
        if explained.contains(&edge.from) {
            continue;
        }
        let circle = walk(edge.from, edges, &explained);
        let inside = |edge: &&Edge| circle.contains(&edge.from) && circle.contains(&edge.to);
        let by = edges.iter().filter(inside);
        let found = verdict(
            Culprit::Circle(circle.clone()),
            by.map(|edge| (edge.wait, edge.from)),
        );
        explained.extend(&found.waiting);
        explained.extend(behind(&found.waiting, edges));
        explained.insert(edge.from);
        if !found.waits.is_empty() {
            circles.push(found);
        }
    }
    circles
}

/// Goes from one to whom it waits for until somebody comes again: those of the circle.
fn walk(from: usize, edges: &[Edge], explained: &BTreeSet<usize>) -> Vec<usize> {
    let (mut path, mut at) = (Vec::new(), from);
    loop {
        if let Some(begin) = path.iter().position(|&seen| seen == at) {
            path.drain(..begin);
            return path;
        }
        path.push(at);
        let next = edges
            .iter()
            .find(|edge| edge.from == at && !explained.contains(&edge.to));
        match next {
            Some(edge) => at = edge.to,
            None => return Vec::new(),
        }
    }
}

fn nobody(waits: &[Wait]) -> Option<Verdict> {
    let unknown = waits
        .iter()
        .enumerate()
        .filter(|(_, w)| w.on == On::Anybody);
    let by: Vec<_> = unknown.map(|(at, wait)| (at, wait.who)).collect();
    (!by.is_empty()).then(|| verdict(Culprit::Nobody, by.into_iter()))
}

/// Who waits for one of these, or for one that does.
fn behind(direct: &BTreeSet<usize>, edges: &[Edge]) -> BTreeSet<usize> {
    let mut by_target: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for edge in edges {
        by_target.entry(edge.to).or_default().push(edge.from);
    }
    let (mut seen, mut queue) = (direct.clone(), VecDeque::from_iter(direct.iter().copied()));
    while let Some(at) = queue.pop_front() {
        for &from in by_target.get(&at).into_iter().flatten() {
            if seen.insert(from) {
                queue.push_back(from);
            }
        }
    }
    seen.difference(direct).copied().collect()
}
