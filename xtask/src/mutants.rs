//! `cargo xtask mutants`: how many small mistakes in a pure crate its own tests notice, by cargo-mutants: a mistake that
//! compiles is one, and a test run that fails, or does not end, has noticed it.

use core::time::Duration;
use std::fs;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::coverage::PURE;
use crate::process::Program;
use crate::workspace::Workspace;

/// Of those that compile, at least so many per cent have to be noticed.
const PER_CENT_MIN: u64 = 90;

/// Seconds that a test run may take; without a mistake the longest takes some 30.
const TEST_LIMIT: &str = "300";

/// All of a large crate take hours.
const LIMIT: Duration = Duration::from_secs(12 * 3600);

/// What became of the mistakes in a crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Score {
    noticed: u64,
    missed: u64,
    /// Those that do not compile.
    unviable: u64,
}

impl Score {
    /// From cargo-mutants' `outcomes.json`.
    fn read(outcomes: &str) -> Result<Self> {
        let said: Value = serde_json::from_str(outcomes).context("outcomes.json")?;
        let number = |name: &str| said[name].as_u64().with_context(|| format!("no {name}"));
        Ok(Self {
            noticed: number("caught")? + number("timeout")?,
            missed: number("missed")?,
            unviable: number("unviable")?,
        })
    }

    /// In tenths of a per cent.
    fn tenths(self) -> u64 {
        let viable = self.noticed + self.missed;
        (1000 * self.noticed).checked_div(viable).unwrap_or(0)
    }
}

/// What is asked for.
struct Asked<'a> {
    /// Every n-th mistake of each crate.
    every: u64,
    crates: Vec<&'a str>,
}

impl<'a> Asked<'a> {
    fn read(options: &[&'a str]) -> Result<Self> {
        let (every, crates) = match options {
            ["--every", number, crates @ ..] => {
                let every = number
                    .parse()
                    .with_context(|| format!("--every {number}"))?;
                ensure!(every > 0, "--every 0");
                (every, crates)
            }
            crates => (1, crates),
        };
        if let Some(name) = crates.iter().find(|name| !PURE.contains(name)) {
            bail!("{name} is none of the pure crates: {}", PURE.join(", "));
        }
        let crates = match crates {
            [] => PURE.to_vec(),
            names => names.to_vec(),
        };
        Ok(Self { every, crates })
    }
}

/// Runs it, and prints a line a crate, and below it what was missed.
///
/// # Errors
/// A crate whose tests miss too many.
pub(crate) fn run(here: &Workspace, options: &[&str]) -> Result<()> {
    let asked = Asked::read(options)?;
    let mut short = Vec::new();
    for name in asked.crates {
        let place = here.target.join("mutants").join(name);
        fs::create_dir_all(&place)?;
        let shard = format!("0/{}", asked.every);
        let arguments = [
            "mutants",
            "--no-shuffle",
            "--sharding=round-robin",
            "--shard",
            &shard,
            "--timeout",
            TEST_LIMIT,
            "--package",
            name,
            "--output",
        ];
        // It fails when something is missed: what it wrote says more.
        let _status: bool = Program::new("cargo")
            .args(arguments)
            .args([&place])
            .dir(&here.root)
            .limit(LIMIT)
            .succeeds();
        let out = place.join("mutants.out");
        let outcomes = fs::read_to_string(out.join("outcomes.json"))
            .context("cargo install --locked cargo-mutants")?;
        let score = Score::read(&outcomes)?;
        println!(
            "{name:<14} noticed {} of {} ({}.{} %); {} do not compile; every {}",
            score.noticed,
            score.noticed + score.missed,
            score.tenths() / 10,
            score.tenths() % 10,
            score.unviable,
            asked.every
        );
        print!("{}", fs::read_to_string(out.join("missed.txt"))?);
        if score.tenths() < 10 * PER_CENT_MIN {
            short.push(name);
        }
    }
    ensure!(
        short.is_empty(),
        "less than {PER_CENT_MIN} % noticed in {}",
        short.join(", ")
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Asked, Score};

    #[test]
    fn what_does_not_end_is_noticed_and_what_does_not_compile_is_not_counted() {
        let text = r#"{"outcomes": [], "total_mutants": 182, "missed": 11, "caught": 128, "timeout": 2, "unviable": 41, "success": 0}"#;
        let score = Score::read(text).unwrap();
        assert_eq!((score.noticed, score.unviable), (130, 41));
        assert_eq!(score.tenths(), 921);
        Score::read("{}").unwrap_err();
    }

    #[test]
    fn options_name_pure_crates() {
        let asked = Asked::read(&["--every", "20", "ofi-rdma"]).unwrap();
        assert_eq!((asked.every, asked.crates), (20, vec!["ofi-rdma"]));
        assert_eq!(Asked::read(&[]).unwrap().crates.len(), 7);
        for bad in [&["ofi-net"][..], &["--every", "0"], &["--every", "x"]] {
            assert!(Asked::read(bad).is_err(), "{bad:?}");
        }
    }
}
