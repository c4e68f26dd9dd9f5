//! What counting costs: the engine's cases once more, in a build without counters, which the usual one may exceed by
//! [`TOLERANCE`]; in either there are the same checks and the same calls.

use std::path::PathBuf;

use anyhow::{Result, ensure};

use super::{Case, ENGINE, SLACK, SUITES, measure_program};
use crate::workspace::Workspace;

/// By how much counting may make a case dearer: a fraction. An instruction more is rounding.
const TOLERANCE: f64 = 0.02;

/// Leaves out the counters on the path of a message (`crates/ofi-rdma/src/counts.rs`).
const FLAGS: &str = "--cfg ofi_without_counters";

/// A directory of its own: the flag makes cargo build everything anew.
const DIR: &str = "hot-without";

/// From a send to its post, and from a completion to the request that it is of.
const HELD: [&str; 12] = [
    "isend1",
    "isend4",
    "eager",
    "irecv1",
    "irecv4",
    "late_ctrl1",
    "late_ctrl4",
    "local",
    "done",
    "write",
    "write_last",
    "drain64",
];

/// Compares `counted`, what the engine's cases cost as usual.
///
/// # Errors
/// A case that costs more than that.
pub(super) fn compare(here: &Workspace, counted: &[f64]) -> Result<()> {
    let target = here.target.join(DIR);
    let suite = &SUITES[0];
    let (package, example) = (["--package", suite.package], ["--example", suite.example]);
    let build = [&["build", "--release"][..], &package, &example].concat();
    here.cargo(&build)
        .env("RUSTFLAGS", FLAGS)
        .env("CARGO_TARGET_DIR", &target)
        .run()?;
    let program: PathBuf = target.join("release/examples").join(suite.example);
    let held: Vec<(&Case, f64)> = ENGINE
        .iter()
        .zip(counted.iter().copied())
        .filter(|(case, _)| HELD.contains(&case.name))
        .collect();
    let cases: Vec<&Case> = held.iter().map(|(case, _)| *case).collect();
    let without = measure_program(&program, &cases)?;
    let faults = dearer(&held, &without);
    ensure!(
        faults.is_empty(),
        "counting costs too much:\n{}",
        faults.join("\n")
    );
    println!("hot: counting costs less than 2 % in {} cases", held.len());
    Ok(())
}

/// Those that counting makes too dear.
fn dearer(held: &[(&Case, f64)], without: &[f64]) -> Vec<String> {
    let mut faults = Vec::new();
    for ((case, counted), without) in held.iter().zip(without) {
        let most = (without * (1.0 + TOLERANCE)).max(without + SLACK);
        println!(
            "{:<14} {counted:>9.1}   without counters: {without:.1}",
            case.name
        );
        if *counted > most {
            faults.push(format!(
                "{}: {counted:.1} instructions, {without:.1} without counters",
                case.name
            ));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::{ENGINE, HELD, dearer};

    #[test]
    fn every_case_that_is_held_is_one() {
        for name in HELD {
            assert!(ENGINE.iter().any(|case| case.name == name), "{name}");
        }
    }

    #[test]
    fn more_than_two_in_a_hundred_is_too_dear() {
        let at = |counted: f64, without: f64| dearer(&[(&ENGINE[0], counted)], &[without]).len();
        assert_eq!((at(305.9, 300.0), at(306.1, 300.0)), (0, 1));
        assert_eq!(
            (at(31.0, 30.0), at(31.1, 30.0)),
            (0, 1),
            "an instruction is rounding"
        );
        assert_eq!(at(290.0, 300.0), 0);
    }
}
