//! `cargo xtask coverage`: which lines of the pure crates their tests run, with the compiler's own
//! instrumentation and the tools of the component `llvm-tools`.
//!
//! Only the tests of the crate itself, in a debug build: what the simulator or a fuzzer run besides is not
//! counted. Tests that stand beside the code are lines, too.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::process::Program;
use crate::workspace::Workspace;

/// The crates whose lines count, and of which at least so many per cent have to be run.
pub(crate) const PURE: [&str; 7] = [
    "ofi-imm",
    "ofi-sched",
    "ofi-pools",
    "ofi-rdma",
    "ofi-sendrecv",
    "ofi-topo",
    "ofi-trace",
];

const PER_CENT_MIN: u64 = 95;

/// Lines of something: all, and those that were run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Lines {
    all: u64,
    run: u64,
}

impl Lines {
    /// In tenths of a per cent.
    fn tenths(self) -> u64 {
        (1000 * self.run).checked_div(self.all).unwrap_or(0)
    }
}

/// Runs the tests, and prints a table.
pub(crate) fn run(here: &Workspace, options: &[&str]) -> Result<()> {
    let crates: Vec<&str> = match options {
        [] => PURE.to_vec(),
        names => names.to_vec(),
    };
    if let Some(name) = crates.iter().find(|name| !PURE.contains(name)) {
        bail!("{name} is none of the pure crates: {}", PURE.join(", "));
    }
    let tools = llvm_tools()?;
    let place = here.target.join("coverage");
    let raw = place.join("raw");
    if raw.exists() {
        fs::remove_dir_all(&raw)?;
    }
    fs::create_dir_all(&raw)?;
    let test = |more: &[&str]| {
        let packages = crates.iter().flat_map(|name| ["-p", name]);
        Program::new("cargo")
            .args(["test", "--lib", "--tests"])
            .args(packages)
            .args(more)
            .env("RUSTFLAGS", "-Cinstrument-coverage")
            .env("CARGO_TARGET_DIR", &place)
            .env("LLVM_PROFILE_FILE", raw.join("%p-%m.profraw"))
            .dir(&here.root)
            .limit(Duration::from_secs(40 * 60))
    };
    let built = test(&["--no-run", "--message-format=json"]).output()?;
    let objects = executables(&built);
    test(&["--quiet"]).output()?;
    let profile = place.join("all.profdata");
    let raws = fs::read_dir(&raw)?.map(|entry| entry.map(|entry| entry.path()));
    Program::new(tools.join("llvm-profdata"))
        .args(["merge", "-sparse", "-o"])
        .args([&profile])
        .args(raws.collect::<Result<Vec<PathBuf>, _>>()?)
        .limit(Duration::from_secs(600))
        .run()?;
    let mut export = Program::new(tools.join("llvm-cov"))
        .args(["export", "-summary-only"])
        .args([format!("-instr-profile={}", profile.display())])
        .limit(Duration::from_secs(600));
    for object in &objects {
        export = export.args([Path::new("-object"), object]);
    }
    let files = files_of(&export.output()?)?;
    let sums = sums(&here.root, &files, &crates);
    report(&sums, &here.root, &files);
    let short = sums
        .iter()
        .filter(|(_, lines)| lines.tenths() < 10 * PER_CENT_MIN);
    let short: Vec<&str> = short.map(|(name, _)| name.as_str()).collect();
    if !short.is_empty() {
        bail!("less than {PER_CENT_MIN} % of {}", short.join(", "));
    }
    Ok(())
}

/// Where rustup puts the tools.
fn llvm_tools() -> Result<PathBuf> {
    let ask = |what: &[&str]| {
        let rustc = Program::new("rustc")
            .args(what)
            .limit(Duration::from_secs(60));
        rustc.output()
    };
    let root = ask(&["--print", "sysroot"])?;
    let version = ask(&["-vV"])?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.context("rustc does not say its host")?;
    let tools = Path::new(root.trim())
        .join("lib/rustlib")
        .join(host)
        .join("bin");
    if !tools.join("llvm-cov").exists() {
        bail!("llvm-cov is missing: rustup component add llvm-tools");
    }
    Ok(tools)
}

/// The test programs that cargo says it built.
fn executables(said: &str) -> BTreeSet<PathBuf> {
    let messages = said
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let paths = messages.filter_map(|message| Some(message["executable"].as_str()?.into()));
    paths.collect()
}

/// Files with their lines, as llvm-cov exports them.
fn files_of(exported: &str) -> Result<BTreeMap<PathBuf, Lines>> {
    let exported: Value = serde_json::from_str(exported).context("llvm-cov")?;
    let files = exported["data"][0]["files"].as_array();
    let files = files.context("llvm-cov exports no files")?;
    let one = |file: &Value| {
        let lines = &file["summary"]["lines"];
        let lines = Lines {
            all: lines["count"].as_u64()?,
            run: lines["covered"].as_u64()?,
        };
        Some((file["filename"].as_str()?.into(), lines))
    };
    Ok(files.iter().filter_map(one).collect())
}

/// By crate: its `src`, not its tests.
fn sums(root: &Path, files: &BTreeMap<PathBuf, Lines>, crates: &[&str]) -> BTreeMap<String, Lines> {
    let sum = |name: &&str| {
        let src = root.join("crates").join(name).join("src");
        let of_it = files.iter().filter(|(path, _)| path.starts_with(&src));
        let sum = of_it.fold(Lines::default(), |sum, (_, lines)| Lines {
            all: sum.all + lines.all,
            run: sum.run + lines.run,
        });
        ((*name).to_owned(), sum)
    };
    crates.iter().map(sum).collect()
}

fn report(sums: &BTreeMap<String, Lines>, root: &Path, files: &BTreeMap<PathBuf, Lines>) {
    for (name, lines) in sums {
        let (tenths, missing) = (lines.tenths(), lines.all - lines.run);
        println!(
            "{name:>14} {:>3}.{} % of {} lines, {missing} never run",
            tenths / 10,
            tenths % 10,
            lines.all
        );
        let src = root.join("crates").join(name).join("src");
        let mut worst: Vec<_> = files
            .iter()
            .filter(|(path, _)| path.starts_with(&src))
            .collect();
        worst.sort_by_key(|(_, lines)| core::cmp::Reverse(lines.all - lines.run));
        for (path, lines) in worst
            .into_iter()
            .take(3)
            .filter(|(_, lines)| lines.run < lines.all)
        {
            let name = path.strip_prefix(&src).unwrap_or(path).display();
            println!("                 {} in {name}", lines.all - lines.run);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_summed_by_crate() {
        let exported = r#"{"data":[{"files":[
            {"filename":"/r/crates/ofi-imm/src/lib.rs","summary":{"lines":{"count":90,"covered":80}}},
            {"filename":"/r/crates/ofi-imm/src/seq.rs","summary":{"lines":{"count":10,"covered":9}}},
            {"filename":"/r/crates/ofi-imm/tests/x.rs","summary":{"lines":{"count":10,"covered":0}}}]}]}"#;
        let files = files_of(exported).unwrap();
        let sums = sums(Path::new("/r"), &files, &["ofi-imm"]);
        assert_eq!(sums["ofi-imm"], Lines { all: 100, run: 89 });
        assert_eq!(sums["ofi-imm"].tenths(), 890);
        assert_eq!(Lines::default().tenths(), 0);
        files_of("{}").unwrap_err();
    }

    #[test]
    fn programs_are_those_that_cargo_names() {
        let said = "{\"reason\":\"x\"}\nnoise\n{\"executable\":\"/t/a\"}\n{\"executable\":null}\n";
        assert_eq!(executables(said), BTreeSet::from([PathBuf::from("/t/a")]));
    }
}
