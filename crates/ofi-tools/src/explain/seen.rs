//! Lines that the table knows, gathered over all logs.

use std::collections::{BTreeMap, HashMap};

use super::facts::Told;
use super::mark;
use super::pattern::{Kind, Known};
use super::unknown::Unknown;
use super::{calls, decoded};

/// What is shown of a line.
const SHOWN: usize = 480;
/// Processes that are told apart; those beyond count as one.
const PROCESSES: usize = 1 << 14;
/// Meanings that are kept; rows of the tables, and what decoded numbers make of our codes.
const MEANINGS: usize = 1024;

/// What a line was taken for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Meaning {
    pub(super) kind: Kind,
    pub(super) what: String,
    pub(super) fix: String,
    pub(super) source: String,
}

/// Where a line stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct At<'l> {
    /// Index of the log, and its name.
    pub(super) file: (usize, &'l str),
    /// Counted from 1.
    pub(super) line: u64,
    /// Of this line, or of one before it in the same log.
    pub(super) time: Option<u64>,
}

/// A meaning, and where it was seen first.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) meaning: Meaning,
    /// Name of the log.
    pub(super) file: String,
    /// Counted from 1.
    pub(super) line: u64,
    pub(super) time: Option<u64>,
    pub(super) text: String,
    pub(super) count: u64,
    index: usize,
}

/// Row of the table, or past its end a code of ours; and what sets it apart from others of that row.
type Key = (usize, String);

/// What a process tried, and what came of it.
#[derive(Debug, Default)]
struct Process {
    attempts: BTreeMap<Key, Seen>,
    /// Whether the network that it says last is libfabric's.
    network: Option<bool>,
}

/// All that was seen.
#[derive(Debug)]
pub(super) struct Gathered {
    known: Vec<Known>,
    seen: BTreeMap<Key, Seen>,
    processes: HashMap<(usize, String), Process>,
    pub(super) unknown: Unknown,
    /// What was read so far names providers, and none is EFA's.
    pub(super) is_elsewhere: bool,
}

impl Gathered {
    pub(super) fn new() -> Self {
        Self {
            known: Known::all(),
            seen: BTreeMap::new(),
            processes: HashMap::new(),
            unknown: Unknown::default(),
            is_elsewhere: false,
        }
    }

    /// Takes a line, as it is and in small letters, and what it told of its process's network.
    pub(super) fn take(&mut self, at: At<'_>, (line, small): (&str, &str), told: Option<Told>) {
        if let Some(told) = told {
            let process = self.process(at, line);
            match told {
                // What a loaded plugin tries counts until it has the network.
                Told::Loaded => {
                    (process.attempts).retain(|_, seen| seen.meaning.kind == Kind::Fallback);
                }
                Told::Libfabric | Told::Other => process.network = Some(told == Told::Libfabric),
            }
        }
        let Some((key, meaning)) = self.meaning(line, small) else {
            self.unknown.take((at.file.1, at.line), line, small);
            return;
        };
        let seen = Seen {
            file: at.file.1.to_owned(),
            line: at.line,
            time: at.time,
            text: shorten(line),
            count: 1,
            index: at.file.0,
            meaning,
        };
        match seen.meaning.kind {
            Kind::Attempt | Kind::Fallback => add(&mut self.process(at, line).attempts, key, seen),
            Kind::Cause | Kind::Follow | Kind::Note => add(&mut self.seen, key, seen),
        }
    }

    /// All logs are read: what was tried in vain by a process that has the network is no cause.
    pub(super) fn settle(&mut self) {
        for (_, process) in self.processes.drain() {
            if process.network == Some(true) {
                continue;
            }
            for (key, mut seen) in process.attempts {
                seen.meaning.kind = Kind::Cause;
                add(&mut self.seen, key, seen);
            }
        }
    }

    fn process(&mut self, at: At<'_>, line: &str) -> &mut Process {
        let name = mark::process(line).unwrap_or_default();
        let key = (at.file.0, name.to_owned());
        let is_room = self.processes.len() < PROCESSES || self.processes.contains_key(&key);
        let key = if is_room { key } else { Default::default() };
        self.processes.entry(key).or_default()
    }

    fn meaning(&self, line: &str, small: &str) -> Option<(Key, Meaning)> {
        if let Some(of_code) = decoded::of_line(line) {
            let row = self.known.len() + usize::from(of_code.number);
            return Some(((row, of_code.apart), of_code.meaning));
        }
        let found = self
            .known
            .iter()
            .enumerate()
            .find(|(_, known)| known.fits(small));
        // A number says more than the words that several have alike.
        if let Some((number, meaning)) =
            decoded::of_number(small, found.map(|(_, known)| known), self.is_elsewhere)
        {
            let row = self.known.len() + usize::from(u16::MAX) + number;
            return Some(((row, String::new()), meaning));
        }
        let Some((_, known)) = found else {
            let ((nth, apart), meaning) = calls::of_line(small)?;
            let row = self.known.len() + 2 * usize::from(u16::MAX) + nth;
            return Some(((row, apart), meaning));
        };
        // Of lines that mean the same, one is shown: the first.
        let row = self.known.iter().position(|row| row.is_same(known))?;
        let meaning = Meaning {
            kind: known.kind,
            what: known.what.to_owned(),
            fix: known.fix.to_owned(),
            source: known.source.to_owned(),
        };
        Some(((row, String::new()), meaning))
    }

    /// Those of a kind, the earliest first: in one log by their lines, in several by their times.
    pub(super) fn of(&self, kind: Kind) -> Vec<&Seen> {
        let mut of_kind: Vec<&Seen> = self
            .seen
            .values()
            .filter(|seen| seen.meaning.kind == kind)
            .collect();
        let first = of_kind.first().map(|seen| seen.index);
        let is_one = of_kind.iter().all(|seen| Some(seen.index) == first);
        of_kind.sort_by_key(|seen| match is_one {
            true => (0, seen.index, seen.line),
            false => place(seen),
        });
        of_kind
    }
}

/// One without a time comes after those that have one.
fn place(seen: &Seen) -> (u64, usize, u64) {
    (seen.time.unwrap_or(u64::MAX), seen.index, seen.line)
}

/// Counts it, and keeps the earliest place.
fn add(all: &mut BTreeMap<Key, Seen>, key: Key, seen: Seen) {
    // The last of a row is its own, so that a hostile log ends somewhere.
    let is_room = all.len() < MEANINGS || all.contains_key(&key);
    let key = if is_room { key } else { (key.0, String::new()) };
    let Some(known) = all.get_mut(&key) else {
        all.insert(key, seen);
        return;
    };
    let count = known.count.saturating_add(seen.count);
    let is_earlier = known.index != seen.index && place(&seen) < place(known);
    if is_earlier {
        *known = seen;
    }
    known.count = count;
}

pub(super) fn shorten(line: &str) -> String {
    let shown = line.trim().chars().take(SHOWN);
    shown
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{At, Gathered, Kind};
    use crate::explain::facts::Facts;

    fn at(file: usize, line: u64, time: Option<u64>) -> At<'static> {
        At {
            file: (file, "log"),
            line,
            time,
        }
    }

    fn take(all: &mut Gathered, at: At<'_>, line: &str) {
        let small = line.to_ascii_lowercase();
        let told = Facts::default().take(line, &small);
        all.take(at, (line, &small), told);
    }

    #[test]
    fn the_first_of_a_kind_is_shown_and_the_rest_are_counted() {
        let mut all = Gathered::new();
        for (number, line) in (1..).zip([
            "NET/OFI Request completed with error. RC: 125",
            "x NET/OFI ... libhwloc.so.15: cannot open shared object file\u{1b}[0m",
            "y libhwloc.so.15: cannot open shared object file",
            "NCCL WARN OFI-E0103 no libfabric provider fits: ..",
        ]) {
            take(&mut all, at(0, number, None), line);
        }
        all.settle();
        let causes = all.of(Kind::Cause);
        assert_eq!((causes[0].line, causes[0].count, causes.len()), (2, 2, 2));
        assert!(causes[0].text.ends_with("file?[0m"), "{}", causes[0].text);
        assert_eq!(causes[1].meaning.source, "OFI-E0103");
        assert_eq!(all.of(Kind::Follow).len(), 1);
    }

    #[test]
    fn times_decide_between_logs_and_lines_within_one() {
        let mut all = Gathered::new();
        take(&mut all, at(0, 1, Some(20)), "NCCL WARN OFI-E0601 x");
        take(&mut all, at(1, 101, Some(10)), "NCCL WARN OFI-E0501 x");
        take(&mut all, at(1, 102, Some(11)), "NCCL WARN OFI-E0601 x");
        take(&mut all, at(2, 1, None), "NCCL WARN OFI-E0402 x");
        let causes = all.of(Kind::Cause);
        let found: Vec<(&str, u64)> = (causes.iter())
            .map(|seen| (seen.meaning.source.as_str(), seen.line))
            .collect();
        assert_eq!(
            found,
            [("OFI-E0501", 101), ("OFI-E0601", 102), ("OFI-E0402", 1)]
        );
        assert_eq!(causes[1].count, 2);
        // The clock of one log may have been set back.
        let mut all = Gathered::new();
        take(&mut all, at(0, 1, Some(20)), "NCCL WARN OFI-E0601 x");
        take(&mut all, at(0, 2, Some(10)), "NCCL WARN OFI-E0501 x");
        assert_eq!(all.of(Kind::Cause)[0].line, 1);
    }

    #[test]
    fn what_a_process_tried_before_it_succeeded_is_no_cause() {
        let tried = [
            "NET/Plugin: Failed to find ncclNetPlugin_v8 symbol.",
            "NET/Plugin: Could not find: ofi. ",
            "NET/Plugin : Plugin load (ofi) returned 2 : ofi: cannot open shared object file: No such file",
            "NET/Plugin: No plugin found (ofi)",
            "NET/Plugin: dlerror=libfabric.so.1: version `FABRIC_1.7' not found No plugin found",
        ];
        for line in tried {
            for (network, causes) in [("AWS Libfabric", 1), ("Socket", 2)] {
                let mut all = Gathered::new();
                take(
                    &mut all,
                    at(0, 1, None),
                    &format!("h:1:2 [0] NCCL INFO {line}"),
                );
                // Another process of the same log does not have the network.
                take(
                    &mut all,
                    at(0, 2, None),
                    "h:9:2 [0] NCCL INFO libhwloc.so: cannot open shared object",
                );
                take(
                    &mut all,
                    at(0, 3, None),
                    "h:9:2 [0] NCCL INFO Using network Socket",
                );
                take(
                    &mut all,
                    at(0, 4, None),
                    &format!("h:1:3 [0] NCCL INFO Using network {network}"),
                );
                all.settle();
                assert_eq!(all.of(Kind::Cause).len(), causes, "{line}, then {network}");
            }
        }
        // The plugin was loaded, and failed: why it did counts.
        let mut all = Gathered::new();
        take(
            &mut all,
            at(0, 1, None),
            "h:1:2 [0] NCCL INFO NET/Plugin: Could not find: ofi.",
        );
        take(
            &mut all,
            at(0, 2, None),
            "h:1:2 [0] NCCL WARN NET/OFI OFI-E0103 none fits",
        );
        take(
            &mut all,
            at(0, 3, None),
            "h:1:2 [0] NCCL INFO Using network Socket",
        );
        all.settle();
        assert_eq!(all.of(Kind::Cause)[0].meaning.source, "OFI-E0103");
    }

    #[test]
    fn a_hostile_log_keeps_to_its_bounds() {
        let mut all = Gathered::new();
        for n in 0..40_000_u32 {
            let line = format!("h{n}:{n}:{n} NCCL WARN NET/Plugin: No plugin found");
            take(&mut all, at(0, 1, None), &line);
        }
        assert!(all.processes.len() <= super::PROCESSES + 1);
        all.settle();
        assert_eq!(all.of(Kind::Cause)[0].count, 40_000);
    }
}
