//! From dumps to the processes of the last run: a directory may have served earlier ones.

use std::collections::BTreeMap;

use ofi_net::dump::{Dump, Reason};

use super::load::Alive;

/// Between the last sign of life of one run and the first of the next: processes of one run are started within
/// so many milliseconds.
const GAP_MS: u64 = 600_000;

/// One process.
#[derive(Debug)]
pub(super) struct Life {
    /// Its newest dump.
    pub(super) dump: Dump,
    /// The one before, if that is no start.
    pub(super) before: Option<Dump>,
    /// When it was started, milliseconds since 1970; 0 where that dump is not there.
    start_ms: u64,
    pub(super) alive: Alive,
}

/// The newest dump of each process. A start is older than all that follows.
pub(crate) fn newest(dumps: Vec<Dump>) -> Vec<Dump> {
    let lives = by_process(dumps).into_iter();
    lives.filter_map(|mut dumps| dumps.pop()).collect()
}

/// The processes of the last run, and how many of earlier ones are left out.
pub(super) fn last_run(dumps: Vec<Dump>, alive: impl Fn(&Dump) -> Alive) -> (Vec<Life>, usize) {
    let lives: Vec<Life> = by_process(dumps)
        .into_iter()
        .filter_map(|dumps| life(dumps, &alive))
        .collect();
    let all = lives.len();
    let lives = of_last_cluster(lives);
    let lives = of_last_world(lives);
    let lives = one_of_each_rank(lives);
    let lives = without_dead_before(lives);
    let earlier = all.saturating_sub(lives.len());
    (lives, earlier)
}

fn life(mut dumps: Vec<Dump>, alive: &impl Fn(&Dump) -> Alive) -> Option<Life> {
    let dump = dumps.pop()?;
    let start = dumps.iter().chain([&dump]);
    let start = start
        .filter(|dump| dump.reason == Reason::Start)
        .map(|dump| dump.at_unix_ms)
        .min();
    let before = dumps.pop().filter(|dump| dump.reason != Reason::Start);
    Some(Life {
        alive: alive(&dump),
        dump,
        before,
        start_ms: start.unwrap_or(0),
    })
}

/// The dumps of each process, the newest last.
fn by_process(dumps: Vec<Dump>) -> Vec<Vec<Dump>> {
    let mut processes: BTreeMap<(String, u32, u64), Vec<Dump>> = BTreeMap::new();
    for dump in dumps {
        let process = &dump.process;
        let key = (process.host.clone(), process.pid, process.start_ticks);
        processes.entry(key).or_default().push(dump);
    }
    let mut all: Vec<Vec<Dump>> = processes.into_values().collect();
    for dumps in &mut all {
        dumps.sort_by_key(|dump| (dump.reason != Reason::Start, dump.at_unix_ms));
    }
    all
}

/// Those whose lives overlap, or follow each other soon, with the one that was started last. Whose start is not
/// known was always there.
fn of_last_cluster(mut lives: Vec<Life>) -> Vec<Life> {
    lives.sort_by_key(|life| life.start_ms);
    let (mut begin, mut end_ms) = (0, 0);
    for (at, life) in lives.iter().enumerate() {
        if life.start_ms > end_ms && life.start_ms - end_ms > GAP_MS {
            begin = at;
        }
        end_ms = end_ms.max(life.dump.at_unix_ms);
    }
    lives.split_off(begin)
}

/// A run has one number of ranks: that of who was started last counts.
fn of_last_world(mut lives: Vec<Life>) -> Vec<Life> {
    let known = lives
        .iter()
        .filter(|life| life.dump.process.world.is_some());
    let last = known.max_by_key(|life| life.start_ms);
    if let Some(world) = last.and_then(|life| life.dump.process.world) {
        lives.retain(|life| life.dump.process.world.is_none_or(|other| other == world));
    }
    lives
}

/// Of processes with one rank the last.
fn one_of_each_rank(lives: Vec<Life>) -> Vec<Life> {
    let mut by_rank: BTreeMap<u32, Life> = BTreeMap::new();
    let mut kept = Vec::new();
    for life in lives {
        let Some(rank) = life.dump.process.rank else {
            kept.push(life);
            continue;
        };
        match by_rank.get(&rank) {
            Some(known) if known.dump.at_unix_ms >= life.dump.at_unix_ms => {}
            _ => {
                by_rank.insert(rank, life);
            }
        }
    }
    kept.extend(by_rank.into_values());
    kept
}

/// Who is known to be gone, and was last heard of before any of those that are there was started, is not of
/// their run: it was started again at once.
fn without_dead_before(mut lives: Vec<Life>) -> Vec<Life> {
    let there = lives
        .iter()
        .filter(|life| matches!(life.alive, Alive::Running | Alive::Stopped));
    if let Some(began_ms) = there.map(|life| life.start_ms).min() {
        lives.retain(|life| life.alive != Alive::Gone || life.dump.at_unix_ms >= began_ms);
    }
    lives
}
