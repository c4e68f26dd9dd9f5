//! `cargo xtask counted`: what the counters of the plugins say is what was moved, in processes of their own that drive
//! the plugins through their C ABI; over both protocols, with both plugins, and with faults on purpose.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::artifacts::{self, Built, Profile};
use crate::emulated::{self, SHORT, STORM};
use crate::libfabric::Libfabric;
use crate::process::Program;
use crate::settings::{Carrier, Hosts, Load};
use crate::setup::{self, Extent};
use crate::tables::PAIRS;
use crate::workspace::Workspace;

const SEED: u64 = 7;

/// What is moved: few messages of all sizes.
const CHECK: &[&str] = &["check", "--check", "--messages", "300", "--max-size", "1M"];

/// One write in some hundred fails, for good.
const ERROR: &str = "error on=imm at=40 code=bad-rkey";

const fn load(rails: u32, protocol: &'static str) -> Load {
    Load {
        carrier: Carrier::LightTcp,
        ranks: 2,
        rails,
        protocol,
        hosts: Hosts::One,
        tables: PAIRS[1],
        args: CHECK,
    }
}

/// What a run has to count, beside what each has to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expects {
    /// Every message, on both sides.
    All,
    /// The same, and EAGAINs.
    Busy,
    /// A failure, which ends the run.
    Failure,
}

/// Runs all; fails at the first that counted something else than happened. Options: `--dev`, with what cargo
/// builds without optimizing.
pub(crate) fn run(here: &Workspace, options: &[&str]) -> Result<()> {
    let profile = match options {
        [] => Profile::Release,
        ["--dev"] => Profile::Dev,
        _ => bail!("counted takes --dev, or nothing"),
    };
    let report = setup::prepare(here, Extent::System);
    report.any()?;
    let built = artifacts::build(here, profile)?;
    let dir = here.target.join("counted");
    for libfabric in &report.found {
        for (name, expects, program) in runs(libfabric, &built) {
            let dir = dir.join(format!("{}-{name}", libfabric.version));
            one(&built, &dir, expects, program)
                .with_context(|| format!("{name} on libfabric {}", libfabric.version))?;
            println!("counted: {name} on libfabric {}", libfabric.version);
        }
    }
    Ok(())
}

fn runs(libfabric: &Libfabric, built: &Built) -> [(&'static str, Expects, Program); 5] {
    let tcp = |rails, protocol| load(rails, protocol).program(libfabric, built, SEED);
    let storm = emulated::rdma("custom:nics=4", 2, 4, STORM, SHORT);
    let calm = emulated::sendrecv("p4d", 2, "", SHORT);
    [
        ("rdma", Expects::All, tcp(4, "RDMA")),
        ("sendrecv", Expects::All, tcp(1, "SENDRECV")),
        (
            "efa-busy",
            Expects::Busy,
            storm.program(libfabric, built, SEED),
        ),
        (
            "efa-sendrecv",
            Expects::All,
            calm.program(libfabric, built, SEED),
        ),
        (
            "efa-error",
            Expects::Failure,
            storm.with_plan(ERROR, libfabric, built, SEED),
        ),
    ]
}

fn one(built: &Built, dir: &Path, expects: Expects, program: Program) -> Result<()> {
    if dir.exists() {
        fs::remove_dir_all(dir)?;
    }
    let files = dir.join("files");
    fs::create_dir_all(&files)?;
    let result: PathBuf = dir.join("perf.json");
    let program = program
        .args([Path::new("--json"), &result])
        .env("OFI_NCCL_STATS_DIR", &files);
    match expects {
        Expects::Failure => ensure!(!program.succeeds(), "a failed write failed nothing"),
        _ => drop(program.output()?),
    }
    let stats = Program::new(&built.ofi)
        .args(["stats", "--json"])
        .args([&files]);
    let counted: Value = serde_json::from_str(&stats.output()?)?;
    let perf = fs::read_to_string(&result).ok();
    let perf = perf.map(|text| serde_json::from_str(&text)).transpose()?;
    check(&counted, perf.as_ref(), expects)?;
    let text = Program::new(&built.ofi)
        .args(["stats", "--prometheus"])
        .args([&files])
        .output()?;
    let same = sum_of(&text, "ofi_nccl_sent_bytes_total") == Counted(&counted).sum("sent_bytes");
    ensure!(
        same || expects == Expects::Failure,
        "--prometheus says something else:\n{text}"
    );
    // Nothing of it is left behind.
    let cleaned = Program::new(&built.ofi)
        .args(["stats", "--clean"])
        .args([&files])
        .output()?;
    ensure!(
        fs::read_dir(&files)?.next().is_none(),
        "not cleaned:\n{cleaned}"
    );
    Ok(())
}

/// The samples of a family, together.
fn sum_of(text: &str, family: &str) -> u64 {
    let start = format!("{family}{{");
    let samples = text.lines().filter(|line| line.starts_with(&start));
    samples
        .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
        .sum()
}

/// What `ofi stats --json` printed.
struct Counted<'a>(&'a Value);

impl Counted<'_> {
    fn processes(&self) -> &[Value] {
        self.0["processes"].as_array().map_or(&[], Vec::as_slice)
    }

    /// A total of all processes.
    fn sum(&self, name: &str) -> u64 {
        self.processes()
            .iter()
            .map(|process| number(&process["totals"][name]))
            .sum()
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// Of the rails of a process.
fn of_rails(process: &Value, name: &str) -> u64 {
    let rails = process["rails"].as_array().map_or(&[][..], Vec::as_slice);
    rails.iter().map(|rail| number(&rail[name])).sum()
}

fn check(counted: &Value, perf: Option<&Value>, expects: Expects) -> Result<()> {
    let counted = Counted(counted);
    ensure!(
        counted.processes().len() == 2,
        "{} processes",
        counted.processes().len()
    );
    if expects == Expects::Failure {
        let (failures, errors) = (counted.sum("failures"), counted.sum("errors"));
        ensure!(
            failures > 0 && errors > 0,
            "{failures} failures, {errors} errors"
        );
        return Ok(());
    }
    for process in counted.processes() {
        let total = |name: &str| number(&process["totals"][name]);
        for (what, one, other) in [
            (
                "bytes of rails",
                of_rails(process, "sent_bytes"),
                total("sent_bytes"),
            ),
            (
                "segments of rails",
                of_rails(process, "segments"),
                total("segments"),
            ),
            ("EAGAINs of rails", of_rails(process, "busy"), total("busy")),
            ("communicators left", number(&process["comms_open"]), 0),
            ("failures", total("failures") + total("errors"), 0),
            (
                "memory",
                total("registrations") + total("reg_hits"),
                total("reg_requests"),
            ),
        ] {
            ensure!(one == other, "{what}: {one} and {other} in {process:#}");
        }
        ensure!(process["life"] == "ended", "{process:#}");
        ensure!(
            total("registrations") > 0 && of_rails(process, "completions") > 0,
            "{process:#}"
        );
    }
    let perf = perf.context("ofi perf wrote no JSON")?;
    let (messages, bytes) = (&perf["verified"]["messages"], &perf["verified"]["bytes"]);
    for (what, counted, moved) in [
        ("messages received", counted.sum("recvs"), number(messages)),
        ("messages sent", counted.sum("sends"), number(messages)),
        (
            "bytes received",
            counted.sum("received_bytes"),
            number(bytes),
        ),
        ("bytes sent", counted.sum("sent_bytes"), number(bytes)),
    ] {
        ensure!(
            counted == moved && moved > 0,
            "{what}: {counted} counted, {moved} verified"
        );
    }
    let busy = counted.sum("busy");
    ensure!(
        expects != Expects::Busy || (busy > 0 && counted.sum("retried") > 0),
        "no EAGAINs: {busy}"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn counted(sent: u64, received: u64) -> Value {
        let process = |sent: u64, received: u64| {
            json!({
                "life": "ended", "comms_open": 0,
                "totals": {
                    "sends": u64::from(sent > 0), "recvs": u64::from(received > 0),
                    "sent_bytes": sent, "received_bytes": received, "segments": 1, "busy": 0,
                    "registrations": 1, "reg_hits": 0, "reg_requests": 1,
                },
                "rails": [{ "sent_bytes": sent, "segments": 1, "busy": 0, "completions": 4 }],
            })
        };
        json!({ "processes": [process(sent, 0), process(0, received)] })
    }

    #[test]
    fn what_does_not_agree_is_told() {
        let perf = json!({ "verified": { "messages": 1, "bytes": 9 } });
        check(&counted(9, 9), Some(&perf), Expects::All).unwrap();
        for (sent, received) in [(9, 8), (8, 9), (10, 10)] {
            check(&counted(sent, received), Some(&perf), Expects::All).unwrap_err();
        }
        check(&counted(9, 9), None, Expects::All).unwrap_err();
        check(&counted(9, 9), Some(&perf), Expects::Busy).unwrap_err();
        check(&counted(9, 9), Some(&perf), Expects::Failure).unwrap_err();
        let mut left = counted(9, 9);
        left["processes"][1]["comms_open"] = json!(1);
        check(&left, Some(&perf), Expects::All).unwrap_err();
    }

    #[test]
    fn samples_of_one_family_are_added() {
        let text = "# HELP a_total x\na_total{pid=\"1\"} 3\na_total{pid=\"2\"} 4\nab_total{} 9\n";
        assert_eq!(sum_of(text, "a_total"), 7);
    }
}
