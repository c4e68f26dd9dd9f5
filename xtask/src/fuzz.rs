//! `cargo xtask fuzz`: the fuzz targets, each for a while, with what they did; without cargo-fuzz.
//!
//! libFuzzer and its instrumentation come with any nightly and a C++ compiler. The crates forbid unsafe
//! code, so no sanitizer is built in: it would only make them slow. Finds go to `target/fuzz/TARGET`; what a
//! run learned stays there and is where the next one begins.

use core::time::Duration;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

use crate::process::{Ended, Program};
use crate::workspace::Workspace;

/// The targets there are, one a file of `fuzz/fuzz_targets`.
pub(crate) const TARGETS: [&str; 14] = [
    "abi_nccl",
    "abi_neuron",
    "calls",
    "conn",
    "ctrl",
    "dump",
    "environment",
    "handle",
    "imm",
    "sendrecv",
    "tagged",
    "topo",
    "stats",
    "trace",
];

/// What libFuzzer needs of the compiler.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
     -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing -Ccodegen-units=1";

/// Build scripts must not be instrumented: they are not, when a target is named.
const TRIPLE: &str = "x86_64-unknown-linux-gnu";

/// What those of the exported tables run with (`plugin/tests/sequences/world.rs`): to change it costs as much as
/// ten sequences, so each gets a part of the time.
const MODE: &str = "OFI_FUZZ_MODE";

/// How many of them a target has.
fn modes(target: &str) -> u64 {
    match target {
        // With a context and without.
        "abi_nccl" => 16,
        "abi_neuron" => 8,
        _ => 1,
    }
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Asked<'a> {
    /// For each target.
    seconds: u64,
    targets: Vec<&'a str>,
    /// Keep in `fuzz/corpus` what the runs learned, as few files as do.
    is_merging: bool,
}

impl<'a> Asked<'a> {
    fn read(mut options: &[&'a str]) -> Result<Self> {
        let mut asked = Self {
            seconds: 60,
            targets: Vec::new(),
            is_merging: false,
        };
        loop {
            options = match options {
                [] => break,
                ["--minutes", value, rest @ ..] => {
                    let minutes: u64 = value
                        .parse()
                        .with_context(|| format!("--minutes {value}"))?;
                    asked.seconds = 60 * minutes;
                    rest
                }
                ["--seconds", value, rest @ ..] => {
                    asked.seconds = value
                        .parse()
                        .with_context(|| format!("--seconds {value}"))?;
                    rest
                }
                ["--merge", rest @ ..] => {
                    asked.is_merging = true;
                    rest
                }
                [name, rest @ ..] if TARGETS.contains(name) => {
                    asked.targets.push(name);
                    rest
                }
                [name, ..] => bail!("fuzz has no target {name}: {}", TARGETS.join(", ")),
            };
        }
        if asked.targets.is_empty() {
            asked.targets = TARGETS.to_vec();
        }
        Ok(asked)
    }
}

/// Builds the targets, and runs each.
pub(crate) fn run(here: &Workspace, options: &[&str]) -> Result<()> {
    let asked = Asked::read(options)?;
    let built = here.target.join("fuzz-build");
    let build = [
        "+nightly",
        "build",
        "--release",
        "--manifest-path",
        "fuzz/Cargo.toml",
    ];
    Program::new("cargo")
        .args(build)
        .args(["--target", TRIPLE])
        .env("RUSTFLAGS", FLAGS)
        .env("CARGO_TARGET_DIR", &built)
        .dir(&here.root)
        .limit(Duration::from_secs(30 * 60))
        .run()
        .context("the fuzz targets take a nightly toolchain and a C++ compiler")?;
    let programs = built.join(TRIPLE).join("release");
    let provider = provider(here, &asked)?;
    let mut sum = 0;
    for target in &asked.targets {
        let mut runs = 0;
        for mode in 0..modes(target) {
            let program = Program::new(programs.join(target))
                .env("FI_PROVIDER_PATH", &provider)
                .env(MODE, mode.to_string());
            let told = fuzz(here, &program, target, &asked);
            runs += told.with_context(|| format!("with {MODE}={mode}, if the target has modes"))?;
        }
        println!("{target:>12} {runs:>12} executions in {} s", asked.seconds);
        sum += runs;
    }
    println!("{sum} executions, nothing found");
    Ok(())
}

/// The directory of the emulated EFA, which those of the exported tables run over: not instrumented, since it is
/// not what they are about.
fn provider(here: &Workspace, asked: &Asked<'_>) -> Result<PathBuf> {
    if asked
        .targets
        .iter()
        .any(|target| target.starts_with("abi_"))
    {
        here.cargo(&["build", "--release", "-p", "efa-emu"])
            .limit(Duration::from_secs(30 * 60))
            .run()?;
    }
    Ok(here.target.join("release"))
}

fn fuzz(here: &Workspace, program: &Program, target: &str, asked: &Asked<'_>) -> Result<u64> {
    let (learned, kept) = (
        here.target.join("fuzz").join(target),
        here.root.join("fuzz/corpus").join(target),
    );
    fs::create_dir_all(&learned)?;
    let log_path = here.target.join("fuzz").join(format!("{target}.log"));
    let log = fs::File::create(&log_path)?;
    let seconds = (asked.seconds / modes(target)).max(1);
    let limit = Duration::from_secs(seconds + 300);
    let finds = format!(
        "-artifact_prefix={}/found-",
        here.target.join("fuzz").display()
    );
    let ended = program
        .clone()
        .args([&learned, &kept])
        .args([format!("-max_total_time={seconds}"), finds])
        .args(["-print_final_stats=1", "-timeout=20", "-rss_limit_mb=4096"])
        .dir(&here.root)
        .limit(limit)
        .run_into(&log)?;
    let said = fs::read_to_string(&log_path)?;
    if ended != Ended::Well {
        let tail: Vec<&str> = said.lines().rev().take(40).collect();
        let tail: Vec<&str> = tail.into_iter().rev().collect();
        bail!(
            "{}\n{target}: {ended:?}; the whole log: {}",
            tail.join("\n"),
            log_path.display()
        );
    }
    if asked.is_merging {
        program
            .clone()
            .args([&kept, &learned])
            .args(["-merge=1"])
            .dir(&here.root)
            .limit(limit)
            .run_into(&fs::File::create(log_path.with_extension("merge.log"))?)?;
    }
    executions(&said)
        .with_context(|| format!("{target} does not say what it did: {}", log_path.display()))
}

/// What libFuzzer says that it ran.
fn executions(said: &str) -> Option<u64> {
    let line = said
        .lines()
        .find_map(|line| line.strip_prefix("stat::number_of_executed_units:"))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_file_is_a_target_and_has_a_corpus() {
        let fuzz = Workspace::locate().unwrap().root.join("fuzz");
        let names = |dir: &str| -> BTreeSet<String> {
            let files = fs::read_dir(fuzz.join(dir)).unwrap();
            let paths = files.map(|entry| entry.unwrap().path());
            paths
                .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
                .collect()
        };
        let targets: BTreeSet<_> = TARGETS.map(str::to_owned).into();
        assert_eq!(names("fuzz_targets"), targets);
        assert_eq!(names("corpus"), targets);
    }

    #[test]
    fn options_choose_targets_and_time() {
        let asked = Asked::read(&["--minutes", "2", "conn", "--merge"]).unwrap();
        assert_eq!(
            (asked.seconds, asked.targets, asked.is_merging),
            (120, vec!["conn"], true)
        );
        assert_eq!(Asked::read(&[]).unwrap().targets, TARGETS);
        for wrong in [&["--minutes"][..], &["--seconds", "x"], &["nobody"]] {
            Asked::read(wrong).unwrap_err();
        }
    }

    #[test]
    fn what_it_did_is_read_from_what_it_says() {
        let said = "Done 5 runs in 1 second(s)\nstat::number_of_executed_units: 5\nstat::x: 7\n";
        assert_eq!(executions(said), Some(5));
        assert_eq!(executions("Done"), None);
    }
}
