//! What each thing should cost, and whether it does. Ratios are those of one run; instructions are of
//! docs/hot-path.md.

use super::chart::number;
use super::rails;
use super::raw::{ASKS, CARRIERS, RAILS, file_name};
use super::results::{Point, Results};
use crate::hot;
use crate::workspace::Workspace;

/// A row of the table.
pub(super) struct Target {
    pub(super) what: String,
    pub(super) aim: Aim,
    pub(super) measured: Option<f64>,
    pub(super) unit: &'static str,
}

/// What a number should be.
#[derive(Clone, Copy)]
pub(super) enum Aim {
    AtMost(f64),
    AtLeast(f64),
}

impl Target {
    /// The cells of its row.
    pub(super) fn line(&self) -> String {
        let (sign, limit) = match self.aim {
            Aim::AtMost(limit) => ("≤", limit),
            Aim::AtLeast(limit) => ("≥", limit),
        };
        let Self { what, unit, .. } = self;
        let (measured, met) = match self.measured {
            None => ("not measured".to_owned(), ""),
            Some(value) if self.aim.is_met(value) => (number(value), "yes"),
            Some(value) => (number(value), "**no**"),
        };
        format!("| {what} | {sign} {limit} {unit} | {measured} | {met} |")
    }
}

impl Aim {
    fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtMost(limit) => value <= limit,
            Self::AtLeast(limit) => value >= limit,
        }
    }
}

fn target(what: &str, aim: Aim, unit: &'static str, measured: Option<f64>) -> Target {
    Target {
        what: what.to_owned(),
        aim,
        measured,
        unit,
    }
}

/// All of them.
pub(super) fn all(here: &Workspace, results: &Results) -> Vec<Target> {
    let mut targets = instructions(here);
    targets.extend(ratios(results));
    targets.extend(times(results));
    targets.extend(memory(results));
    targets.extend(end_to_end(results));
    targets.extend(several_rails(results));
    targets
}

fn instructions(here: &Workspace) -> Vec<Target> {
    let rows = [
        ("immediate: encode and checked decode", "imm", 16.0),
        ("freelist: take", "take", 18.0),
        ("freelist: give", "give", 18.0),
        ("registration cache: last hit", "mr_last", 15.0),
        ("isend to the post, 1 stripe", "isend1", 300.0),
        ("isend to the last post, 4 stripes", "isend4", 600.0),
        ("write of a peer, not the last", "write", 60.0),
        ("write of a peer, the last", "write_last", 60.0),
        (
            "write of a peer, the last, 32 000 communicators",
            "write_last_32k",
            60.0,
        ),
        ("completion queue, batches of 16", "drain16", 75.0),
        ("completion queue, batches of 64", "drain64", 75.0),
        ("idle `test`, 128 outstanding", "idle128", 25.0),
        ("idle `test`, 1 024 outstanding", "idle1024", 25.0),
    ];
    let row = |(what, case, limit): (&str, &str, f64)| {
        let measured = hot::written(here, case);
        target(what, Aim::AtMost(limit), "instructions", measured)
    };
    rows.into_iter().map(row).collect()
}

/// What a contender takes over ours: what it is, board, group, contender, at least.
type Ratio = (&'static str, [&'static str; 3], f64);

const RATIOS: [Ratio; 9] = [
    (
        "id pool of 2^18, 99.9 % full, over the linear scan",
        ["idpool", "id pool of 262144, 99.9 %", "mutex + scan"],
        200.0,
    ),
    (
        "freelist over malloc and free",
        ["slots", "take+give, 8 KiB buffer", "malloc + free"],
        3.0,
    ),
    (
        "registration cache, 10 000 entries, random, over the linear scan",
        ["mrcache", "hit+release,   10000, random", "mutex + scan"],
        150.0,
    ),
    (
        "the same, 10^6 entries",
        ["mrcache", "hit+release, 1000000, random", "mutex + scan"],
        4000.0,
    ),
    (
        "registration cache, 10 000 entries, last, over the linear scan",
        ["mrcache", "hit+release,   10000, last", "mutex + scan"],
        1000.0,
    ),
    (
        "window over the locked one with remainders, in order",
        [
            "window",
            "window, 64 messages, in order",
            "mutex + remainders",
        ],
        15.0,
    ),
    (
        "window over the locked one with remainders, reversed",
        [
            "window",
            "window, 64 messages, reversed",
            "mutex + remainders",
        ],
        15.0,
    ),
    (
        "write of a peer, not the last, 1 communicator, over dashmap + mutex",
        [
            "engine",
            "write of a peer, not the last, 1 communicators",
            "dashmap + mutex",
        ],
        5.0,
    ),
    (
        "write of a peer, not the last, 32 000 communicators, over dashmap + mutex",
        [
            "engine",
            "write of a peer, not the last, 32 000 communicators",
            "dashmap + mutex",
        ],
        5.0,
    ),
];

fn ratios(results: &Results) -> Vec<Target> {
    let row = |(what, [board, group, name], limit): Ratio| {
        let measured = results.ratio(board, group, name);
        target(what, Aim::AtLeast(limit), "times", measured)
    };
    RATIOS.into_iter().map(row).collect()
}

fn times(results: &Results) -> Vec<Target> {
    let over = |board: &str, more: &str, less: &str| {
        Some(results.ours(board, more)? / results.ours(board, less)?)
    };
    let fills = over(
        "idpool",
        "id pool of 262144, 99.9 %",
        "id pool of 262144, empty",
    );
    let connects = over(
        "engine",
        "connection each way, 32 000 before",
        "connection each way, the first",
    );
    let drain = results.ours("engine", "completion queue, batches of 64");
    vec![
        target(
            "id pool of 2^18, 99.9 % full over empty",
            Aim::AtMost(1.5),
            "times",
            fills,
        ),
        target(
            "completion queue, batches of 64",
            Aim::AtLeast(40.0),
            "million/s",
            drain.map(|ns| 1000.0 / ns),
        ),
        target(
            "connecting with 32 000 there over the first",
            Aim::AtMost(1.5),
            "times",
            connects,
        ),
    ]
}

/// What the bench of ofi-net calls it.
const QUERIES: &str = "fi_getinfo of init and 500 getProperties";

fn memory(results: &Results) -> Vec<Target> {
    let rails = [1, 4].map(|rails| {
        let above = first_connection(results, rails);
        let what =
            format!("memory of the first connection above raw libfabric's, tcp, {rails} rails");
        target(&what, Aim::AtMost(2.5), "MiB", above)
    });
    let each = results.fact("memory", "bytes of a further communicator");
    let mut targets = Vec::from(rails);
    targets.push(target(
        "memory of a further communicator, 1 000 of them",
        Aim::AtMost(10.0),
        "KiB",
        each.map(|bytes| bytes / 1024.0),
    ));
    targets.push(target(
        "start-up: `fi_getinfo` of init and 500 getProperties",
        Aim::AtMost(2.0),
        "calls",
        results.fact("memory", QUERIES),
    ));
    targets
}

/// Resident memory of a rank of the plugin above that of raw operations, MiB; the ranks of both have the same
/// buffers of messages.
fn first_connection(results: &Results, rails: u32) -> Option<f64> {
    let file = file_name(&CARRIERS[0], rails, &ASKS[0]);
    let of = |who: &str| results.memory(&file, who);
    Some((of("plugin")? - of("rendezvous")?) / 1024.0)
}

/// The worst of all points that a target is about.
fn end_to_end(results: &Results) -> Vec<Target> {
    let mut targets = Vec::new();
    for carrier in &CARRIERS {
        for rails in RAILS {
            let points = |ask: usize| results.points(&file_name(carrier, rails, &ASKS[ask]));
            let name = format!("{}, {rails} rail{}", carrier.name, plural(rails));
            let bandwidth = points(1).iter().filter_map(share).reduce(f64::min);
            let latency = points(0).iter().filter(|p| p.size == 8).find_map(share);
            let rate = points(2).iter().find_map(share);
            let rate8 = points(3).iter().find_map(share);
            let (low, high) = (Aim::AtLeast, Aim::AtMost);
            let rows = [
                (
                    "bandwidth from 64 KiB on, the least share",
                    low(0.97),
                    bandwidth,
                ),
                ("8 B half round trip over raw", high(1.10), latency),
                ("8 B messages a second, 1 communicator", low(0.90), rate),
                ("8 B messages a second, 8 communicators", low(0.90), rate8),
            ];
            for (what, aim, measured) in rows {
                let what = format!("{name}: {what}");
                targets.push(target(&what, aim, "of raw", measured));
            }
        }
    }
    targets
}

fn several_rails(results: &Results) -> [Target; 2] {
    let row = |fact, aim| target(fact, aim, "times", results.fact(rails::BOARD, fact));
    [
        row(rails::GAIN, Aim::AtLeast(3.9)),
        row(rails::UNEVEN, Aim::AtMost(1.02)),
    ]
}

fn plural(count: u32) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// The plugin's value over that of the raw operations that are the same on the wire: a message whose receive was
/// posted first.
pub(super) fn share(point: &Point<'_>) -> Option<f64> {
    Some(point.of("plugin")? / point.of("rendezvous").filter(|raw| *raw > 0.0)?)
}

#[cfg(test)]
mod tests {
    use super::{Aim, QUERIES, RATIOS, target};

    #[test]
    fn a_target_is_met_or_not_or_not_measured() {
        let line = |value| target("w", Aim::AtMost(2.0), "x", value).line();
        assert_eq!(line(Some(2.0)), "| w | ≤ 2 x | 2.00 | yes |");
        assert_eq!(line(Some(2.5)), "| w | ≤ 2 x | 2.50 | **no** |");
        assert_eq!(line(None), "| w | ≤ 2 x | not measured |  |");
        let line = target("w", Aim::AtLeast(2.0), "x", Some(1.0)).line();
        assert!(line.ends_with("**no** |"));
    }

    /// A name that a bench no longer has would stand as "not measured" for ever.
    #[test]
    fn benches_have_the_contenders_that_targets_name() {
        let sources = [
            include_str!("../../../crates/ofi-pools/benches/idpool.rs"),
            include_str!("../../../crates/ofi-pools/benches/slots.rs"),
            include_str!("../../../crates/ofi-pools/benches/mrcache.rs"),
            include_str!("../../../crates/ofi-rdma/benches/window.rs"),
            include_str!("../../../crates/ofi-rdma/benches/engine/demux.rs"),
        ]
        .concat();
        for (_, [_, group, contender], _) in RATIOS {
            assert!(sources.contains(&format!("\"{contender}\"")), "{contender}");
            let start = group.split([',', ' ']).next().unwrap();
            assert!(sources.contains(start), "{group}");
        }
        let memory = include_str!("../../../crates/ofi-net/benches/memory.rs");
        assert!(memory.contains(&format!("\"{QUERIES}\"")), "{QUERIES}");
    }
}
