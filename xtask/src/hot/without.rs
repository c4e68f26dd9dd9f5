//! What counting costs: cases of the engine and of the transport in a build with counters and with traces that are off,
//! and in one without either, which the first may exceed by [`TOLERANCE`]; in both there are the same checks and the
//! same calls.

use std::path::PathBuf;

use anyhow::{Result, ensure};

use super::{Case, ENGINE, SLACK, SUITES, Suite, case, measure_program, whole};
use crate::libfabric::Libfabric;
use crate::settings;
use crate::setup::{self, Extent};
use crate::workspace::Workspace;

/// By how much counting may make a case dearer: a fraction. An instruction more is rounding.
const TOLERANCE: f64 = 0.02;

/// Leaves out the counters on the path of a message (`crates/ofi-rdma/src/counts.rs`), those of the rails, and the
/// question whether there is a trace.
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

/// The same through the transport, from its call to libfabric's and from the queue's entry on: the engine with what is
/// counted of each rail, and the look for a trace.
pub(super) const TRANSPORT: Suite = Suite {
    package: "ofi-net",
    example: "net_hot_path",
    cases: &[
        case("net_isend", "isend to fi_writedata", 0, None),
        case(
            "net_eager",
            "isend of an eager message to fi_senddata",
            0,
            None,
        ),
        case("net_irecv", "irecv to fi_send of its CTRL", 0, None),
        case(
            "net_local",
            "completion of a write, out of a queue",
            0,
            None,
        ),
        case("net_remote", "write of the peer, out of a queue", 0, None),
    ],
};

/// Compares `counted`, what the engine's cases cost as usual, and the transport's.
///
/// # Errors
/// A case that costs more than that.
pub(super) fn compare(here: &Workspace, counted: &[f64]) -> Result<()> {
    let mut held: Vec<(&Case, f64)> = ENGINE
        .iter()
        .zip(counted.iter().copied())
        .filter(|(case, _)| HELD.contains(&case.name))
        .collect();
    let cases: Vec<&Case> = held.iter().map(|(case, _)| *case).collect();
    let program = build_without(here, &SUITES[0])?;
    let mut without = measure_program(&program, &cases, &[])?;
    match setup::prepare(here, Extent::System).any() {
        Ok(libfabric) => {
            let (counted, plain) = transport(here, libfabric)?;
            whole::tell(here, libfabric)?;
            held.extend(TRANSPORT.cases.iter().zip(counted));
            without.extend(plain);
        }
        Err(error) => println!("skipped: counters of the transport: {error}"),
    }
    let faults = dearer(&held, &without);
    ensure!(
        faults.is_empty(),
        "counting costs too much:\n{}",
        faults.join("\n")
    );
    println!(
        "hot: counting, and traces that are off, cost less than {:.0} % in {} cases of the engine and {} of the transport",
        TOLERANCE * 100.0,
        HELD.len(),
        held.len() - HELD.len()
    );
    Ok(())
}

/// The transport's cases, as usual and without counters.
fn transport(here: &Workspace, libfabric: &Libfabric) -> Result<(Vec<f64>, Vec<f64>)> {
    let cases: Vec<&Case> = TRANSPORT.cases.iter().collect();
    let provider = match settings::is_old(libfabric) {
        true => "tcp;ofi_rxm",
        false => "tcp",
    };
    let mut set = settings::environment(libfabric);
    set.push(("FI_PROVIDER", provider.to_owned()));
    let (package, example) = (TRANSPORT.package, TRANSPORT.example);
    let build = [
        "build",
        "--release",
        "--package",
        package,
        "--example",
        example,
    ];
    here.cargo(&build).run()?;
    let counted = measure_program(&TRANSPORT.program(here), &cases, &set)?;
    let program = build_without(here, &TRANSPORT)?;
    Ok((counted, measure_program(&program, &cases, &set)?))
}

/// Builds the program of a suite without counters.
fn build_without(here: &Workspace, suite: &Suite) -> Result<PathBuf> {
    let target = here.target.join(DIR);
    let (package, example) = (["--package", suite.package], ["--example", suite.example]);
    let build = [&["build", "--release"][..], &package, &example].concat();
    here.cargo(&build)
        .env("RUSTFLAGS", FLAGS)
        .env("CARGO_TARGET_DIR", &target)
        .run()?;
    Ok(target.join("release/examples").join(suite.example))
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
