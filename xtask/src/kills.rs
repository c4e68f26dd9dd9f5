//! `cargo xtask kills`: a peer is killed or stopped at each stage of its life, with so many requests in
//! flight, on each provider of each libfabric.

use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::fs::{self, File};
use std::path::PathBuf;

use anyhow::{Context as _, Result, anyhow, bail};

use crate::artifacts::{self, Built, Profile};
use crate::process::{Ended, Program};
use crate::programs::{self, Carrier};
use crate::setup::{self, Extent};
use crate::workspace::Workspace;

/// Stages without a connection, where no request is in flight.
const BEFORE: [&str; 3] = ["listening", "accepting", "connecting"];
/// Stages with one.
const AFTER: [&str; 8] = [
    "idle",
    "isend",
    "irecv",
    "eager",
    "sending",
    "receiving",
    "flush",
    "closing",
];
const SIGNALS: [&str; 2] = ["KILL", "STOP"];
const REQUESTS: [&str; 3] = ["1", "64", "128"];

/// No cell takes so long; the bounds of the survivor are within it.
const LIMIT: Duration = Duration::from_secs(180);

/// Cells at once: most of their time they wait for a deadline.
const AT_ONCE: usize = 6;

/// A peer's stage, the signal, the requests in flight.
type Cell = [&'static str; 3];

/// All cells of a carrier.
fn cells() -> Vec<Cell> {
    let signals = |stage: &'static str| SIGNALS.map(|signal| (stage, signal));
    let before = BEFORE.iter().flat_map(|stage| signals(stage));
    let after = AFTER.iter().flat_map(|stage| signals(stage));
    let before = before.map(|(stage, signal)| [stage, signal, REQUESTS[0]]);
    let after = after.flat_map(|(stage, signal)| REQUESTS.map(|count| [stage, signal, count]));
    before.chain(after).collect()
}

/// What is asked for: a libfabric's version, a provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Asked<'a> {
    on: Option<&'a str>,
}

impl<'a> Asked<'a> {
    fn read(options: &[&'a str]) -> Result<Self> {
        match *options {
            [] => Ok(Self::default()),
            ["--on", name] => Ok(Self { on: Some(name) }),
            _ => bail!("kills takes --on NAME, such as shm or tcp-2.5.1"),
        }
    }

    fn wants(self, carrier: &Carrier) -> bool {
        self.on.is_none_or(|name| carrier.name().contains(name))
    }
}

/// Runs the matrix; fails if a cell does, and names it with the line that repeats it.
pub(crate) fn run(here: &Workspace, options: &[&str]) -> Result<()> {
    let asked = Asked::read(options)?;
    let report = setup::prepare(here, Extent::System);
    report.any()?;
    let built = artifacts::build(here, Profile::Release)?;
    let program = programs::compile(here, "kills", &[])?;
    let carriers = Carrier::all(&report.found);
    let carriers: Vec<&Carrier> = carriers.iter().filter(|one| asked.wants(one)).collect();
    let logs = here.target.join("kills");
    fs::create_dir_all(&logs)?;
    let runs = carriers.iter().flat_map(|carrier| {
        let run = |cell| Run::of(carrier, &built, &program, cell, &logs);
        cells().into_iter().map(run).collect::<Vec<_>>()
    });
    let runs: Vec<Run> = runs.collect();
    let bad = all(&runs, AT_ONCE)?;
    for run in &bad {
        let said = fs::read_to_string(&run.log)?;
        println!(
            "--- {}\n{}\n  again: {}",
            run.name,
            said.trim_end(),
            run.program.line()
        );
    }
    println!(
        "{} cells on {} providers of {} libfabrics, {} not well",
        runs.len(),
        carriers.len(),
        report.found.len(),
        bad.len()
    );
    if !bad.is_empty() {
        bail!("a survivor did not end as it should");
    }
    Ok(())
}

/// One cell on one carrier.
#[derive(Debug)]
struct Run {
    name: String,
    log: PathBuf,
    program: Program,
}

impl Run {
    fn of(
        carrier: &Carrier,
        built: &Built,
        program: &std::path::Path,
        cell: Cell,
        logs: &std::path::Path,
    ) -> Self {
        let name = format!("{} {}", carrier.name(), cell.join(" "));
        Self {
            log: logs.join(name.replace(' ', "-")),
            // What the killed peer leaves open is no leak: nothing is asked of it.
            program: carrier
                .lenient(built, program, 2)
                .args(cell)
                .env("OFI_NCCL_CONNECT_TIMEOUT", "6")
                .env("OFI_NCCL_STALL_FAIL", "2")
                .limit(LIMIT),
            name,
        }
    }
}

/// Those that did not end well, some at a time.
fn all(runs: &[Run], at_once: usize) -> Result<Vec<&Run>> {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let worker = || -> Result<Vec<&Run>> {
            let mut bad = Vec::new();
            while let Some(run) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
                let log = File::create(&run.log).with_context(|| run.name.clone())?;
                if run.program.run_into(&log)? != Ended::Well {
                    bad.push(run);
                }
            }
            Ok(bad)
        };
        let workers: Vec<_> = (0..at_once).map(|_| scope.spawn(worker)).collect();
        let ends = workers.into_iter().map(|worker| {
            let ended = worker.join();
            ended.map_err(|_| anyhow!("a thread that waited for a program ended"))?
        });
        let bad: Result<Vec<Vec<&Run>>> = ends.collect();
        Ok(bad?.concat())
    })
}

#[cfg(test)]
mod tests {
    use super::{Asked, Run, all, cells};
    use crate::process::Program;

    #[test]
    fn every_stage_meets_both_signals_and_all_numbers_of_requests() {
        let cells = cells();
        assert_eq!(cells.len(), 3 * 2 + 8 * 2 * 3);
        for cell in [["accepting", "STOP", "1"], ["flush", "KILL", "128"]] {
            assert!(cells.contains(&cell), "{cell:?}");
        }
    }

    #[test]
    fn one_provider_can_be_asked_for() {
        assert_eq!(Asked::read(&["--on", "shm"]).unwrap().on, Some("shm"));
        Asked::read(&["--on"]).unwrap_err();
        Asked::read(&["shm"]).unwrap_err();
    }

    #[test]
    fn those_that_fail_are_found_among_many() {
        let dir = tempfile::tempdir().unwrap();
        let run = |n: u32| Run {
            name: n.to_string(),
            log: dir.path().join(n.to_string()),
            program: Program::new("sh").args(["-c", &format!("echo {n}; exit $(({n} % 7 == 3))")]),
        };
        let runs: Vec<Run> = (0..20).map(run).collect();
        let mut bad: Vec<_> = all(&runs, 3)
            .unwrap()
            .iter()
            .map(|run| run.name.clone())
            .collect();
        bad.sort();
        assert_eq!(bad, ["10", "17", "3"]);
        let said = std::fs::read_to_string(dir.path().join("17")).unwrap();
        assert_eq!(said, "17\n");
    }
}
