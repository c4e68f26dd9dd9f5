//! What the words of a file can be: a damaged one has others, and its numbers would be read as counters.

use super::layout::{
    CommAt, HOST_WORDS, HW_MAX, HW_NAME_WORDS, HW_WORDS, HeadAt, NIC_WORDS, PEER_WORDS, RailAt,
    State, Total, total_word,
};
use super::read::Words;
use alloc::vec::Vec;

/// Numbers of processes that Linux gives (`PID_MAX_LIMIT`).
const PID_MAX: u64 = 1 << 22;
/// Milliseconds since 1970: year 10889.
const TIME_MAX: u64 = 1 << 48;
/// Indices, ids, what is there at a time, inodes of namespaces.
const ID_MAX: u64 = u32::MAX as u64;
/// What is counted. A process that moves 400 GB a second has so many bytes after 266 days.
const COUNT_MAX: u64 = u64::MAX >> 1;

const HEAD: [(HeadAt, u64, u64); 11] = [
    (HeadAt::Pid, 1, PID_MAX),
    (HeadAt::StartTicks, 0, COUNT_MAX),
    (HeadAt::PidNamespace, 0, ID_MAX),
    (HeadAt::Opened, 0, TIME_MAX),
    (HeadAt::Updated, 0, TIME_MAX),
    (HeadAt::State, State::Live as u64, State::Ended as u64),
    (HeadAt::Flavour, 0, 1),
    (HeadAt::Protocol, 0, 1),
    (HeadAt::CommsOpen, 0, ID_MAX),
    (HeadAt::CommsUnseen, 0, ID_MAX),
    (HeadAt::RailsUnseen, 0, ID_MAX),
];

const RAIL: [(RailAt, u64); 8] = [
    (RailAt::Device, ID_MAX),
    (RailAt::Rail, ID_MAX),
    (RailAt::Segments, COUNT_MAX),
    (RailAt::BytesSent, COUNT_MAX),
    (RailAt::BytesReceived, COUNT_MAX),
    (RailAt::Completions, COUNT_MAX),
    (RailAt::Busy, COUNT_MAX),
    (RailAt::Errors, COUNT_MAX),
];

const COMM: [(CommAt, u64); 10] = [
    (CommAt::Side, 1),
    (CommAt::Id, ID_MAX),
    (CommAt::Device, ID_MAX),
    (CommAt::Domain, ID_MAX),
    (CommAt::Opened, TIME_MAX),
    (CommAt::Messages, COUNT_MAX),
    (CommAt::Eager, COUNT_MAX),
    (CommAt::Bytes, COUNT_MAX),
    (CommAt::Busy, COUNT_MAX),
    (CommAt::Outstanding, ID_MAX),
];

/// The first word that cannot be; `rails` and `comms`: where their slots begin. What a driver counts for its NIC
/// can be anything.
pub(super) fn fault(
    words: &Words<'_>,
    mut rails: impl Iterator<Item = usize>,
    mut comms: impl Iterator<Item = usize>,
) -> Option<usize> {
    head(words)
        .or_else(|| rails.find_map(|from| rail(words, from)))
        .or_else(|| comms.find_map(|from| comm(words, from)))
}

fn head(words: &Words<'_>) -> Option<usize> {
    let wrong = HEAD.iter().find_map(|&(at, from, to)| {
        let is_one = (from..=to).contains(&words.get(at as usize));
        (!is_one).then_some(at as usize)
    });
    let totals = Total::ALL.iter().map(|&(total, ..)| total_word(total));
    let mut counts = totals.chain([HeadAt::CommsEver as usize]);
    wrong
        .or_else(|| counts.find(|&at| words.get(at) > COUNT_MAX))
        .or_else(|| text(words, HeadAt::Host as usize, HOST_WORDS))
}

fn rail(words: &Words<'_>, from: usize) -> Option<usize> {
    match words.get(from + RailAt::Used as usize) {
        0 => return None,
        1 => {}
        _ => return Some(from + RailAt::Used as usize),
    }
    let past = |&(at, max): &(RailAt, u64)| words.get(from + at as usize) > max;
    let wrong = RAIL
        .iter()
        .find(|word| past(word))
        .map(|&(at, _)| from + at as usize);
    let mut names = (0..HW_MAX).map(|counter| from + RailAt::Hw as usize + counter * HW_WORDS);
    wrong
        .or_else(|| text(words, from + RailAt::Nic as usize, NIC_WORDS))
        .or_else(|| names.find_map(|at| text(words, at, HW_NAME_WORDS)))
}

fn comm(words: &Words<'_>, from: usize) -> Option<usize> {
    let generation = words.get(from + CommAt::First as usize);
    // Nobody's, or being changed.
    if generation == 0 || generation != words.get(from + CommAt::Last as usize) {
        return None;
    }
    let past = |&(at, max): &(CommAt, u64)| words.get(from + at as usize) > max;
    let wrong = COMM
        .iter()
        .find(|word| past(word))
        .map(|&(at, _)| from + at as usize);
    wrong.or_else(|| text(words, from + CommAt::Peer as usize, PEER_WORDS))
}

/// Where a text is none: it is UTF-8, cut at its end at most, and nothing but zeros follow it.
fn text(words: &Words<'_>, from: usize, len: usize) -> Option<usize> {
    let bytes = (from..from + len).flat_map(|at| words.get(at).to_le_bytes());
    let bytes: Vec<u8> = bytes.collect();
    let end = bytes
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(bytes.len());
    let (text, padding) = bytes.split_at(end);
    let bad = match core::str::from_utf8(text) {
        Err(error) if error.error_len().is_some() || end < bytes.len() => Some(error.valid_up_to()),
        _ => padding
            .iter()
            .position(|&byte| byte != 0)
            .map(|at| end + at),
    };
    bad.map(|byte| from + byte / 8)
}
