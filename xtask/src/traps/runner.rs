//! One test in the copy, with one trap or with none.

use core::fmt;
use core::time::Duration;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail, ensure};

use super::copy::Copy;
use super::edit::Trap;
use crate::libfabric::{Libfabric, PATH_VARIABLE};
use crate::process::{Ended, Program};
use crate::workspace::Workspace;

/// No build and no test takes so long.
const LIMIT: Duration = Duration::from_secs(600);

/// Runs tests in the copy.
#[derive(Debug)]
pub(super) struct Runner<'a> {
    here: &'a Workspace,
    copy: Copy,
    libfabric: Option<&'a Libfabric>,
    logs: PathBuf,
    /// Names of the crates by their directories.
    packages: Vec<(String, String)>,
}

/// What became of a test with its trap built in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It failed, and said what it should.
    Caught,
    /// It passed.
    Missed,
    /// It failed in another way.
    Otherwise,
    /// The code with the trap does not compile.
    NotBuilt,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Caught => "caught",
            Self::Missed => "NOT CAUGHT",
            Self::Otherwise => "OTHERWISE",
            Self::NotBuilt => "NOT BUILT",
        })
    }
}

impl<'a> Runner<'a> {
    pub(super) fn new(
        here: &'a Workspace,
        copy: Copy,
        libfabric: Option<&'a Libfabric>,
    ) -> Result<Self> {
        let logs = here.target.join("traps/logs");
        fs::create_dir_all(&logs)?;
        let members = here.crates()?.into_iter();
        let packages = members
            .map(|member| (format!("{}/", member.dir.display()), member.name))
            .collect();
        Ok(Self {
            here,
            copy,
            libfabric,
            logs,
            packages,
        })
    }

    /// Where the output of a trap's test is.
    pub(super) fn log(&self, trap: &Trap) -> PathBuf {
        self.logs.join(format!("{}.log", trap.name))
    }

    /// Runs the tests of all traps with none built in.
    pub(super) fn expect_all_pass(&self, traps: &[Trap]) -> Result<()> {
        let mut targets = BTreeMap::<_, Vec<&str>>::new();
        for trap in traps {
            targets
                .entry(self.target(trap)?)
                .or_default()
                .push(trap.test_name()?);
        }
        for (target, mut names) in targets {
            names.dedup();
            let log = self.logs.join("none.log");
            let args: Vec<&str> = target.iter().map(String::as_str).chain(["--"]).collect();
            let ended = self
                .cargo(&[args, names.clone()].concat())
                .run_into(&File::create(&log)?)?;
            let output = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
            let ran = |name: &&str| result_of(&output, name) == Some("ok");
            let missing = names.iter().find(|name| !ran(name));
            if ended != Ended::Well || missing.is_some() {
                let (target, log) = (target.join(" "), log.display());
                bail!(
                    "{target}: without any trap {} did not pass: {log}",
                    missing.unwrap_or(&"a test")
                );
            }
        }
        Ok(())
    }

    /// Builds the trap in, runs its test, and puts everything back.
    pub(super) fn verdict(&self, trap: &Trap) -> Result<Verdict> {
        let before = self.copy.build_in(trap)?;
        let verdict = self.run(trap);
        Copy::restore(&before)?;
        verdict
    }

    fn run(&self, trap: &Trap) -> Result<Verdict> {
        let (target, name) = (self.target(trap)?, trap.test_name()?);
        let target: Vec<&str> = target.iter().map(String::as_str).collect();
        let path = self.log(trap);
        let log = File::create(&path)?;
        let built = self
            .cargo(&[&target[..], &["--no-run"]].concat())
            .run_into(&log)?;
        if built != Ended::Well {
            return Ok(Verdict::NotBuilt);
        }
        let ended = self
            .cargo(&[&target[..], &["--", name]].concat())
            .run_into(&log)?;
        let output = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
        Ok(match (ended, result_of(&output, name)) {
            (Ended::Well, Some("ok")) => Verdict::Missed,
            (Ended::Badly(_), Some("FAILED")) if output.contains(&trap.says) => Verdict::Caught,
            _ => Verdict::Otherwise,
        })
    }

    /// What makes cargo build and run the binary that a trap's test is in, and no other.
    fn target(&self, trap: &Trap) -> Result<Vec<String>> {
        let file = trap.test_file()?;
        let found = self
            .packages
            .iter()
            .find_map(|(dir, name)| Some((name, file.strip_prefix(dir)?)));
        let (package, inside) = found.with_context(|| format!("{file} is in no crate"))?;
        let mut args = vec!["--package".to_owned(), package.clone()];
        match inside.strip_prefix("tests/") {
            Some(inside) => {
                let binary = inside.split(['/', '.']).next().unwrap_or(inside);
                args.extend(["--test".to_owned(), binary.to_owned()]);
            }
            None => {
                ensure!(
                    inside.starts_with("src/"),
                    "{file} is no file of a library or of its tests"
                );
                args.push("--lib".to_owned());
            }
        }
        Ok(args)
    }

    fn cargo(&self, args: &[&str]) -> Program {
        let program = self.here.cargo(&[&["test"], args].concat());
        let program = program
            .dir(&self.copy.root)
            .env("CARGO_TARGET_DIR", &self.copy.target)
            // Nobody looks at these with a debugger.
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env("CARGO_PROFILE_TEST_DEBUG", "0")
            .limit(LIMIT);
        match self.libfabric {
            Some(libfabric) => program.env(PATH_VARIABLE, &libfabric.path),
            None => program,
        }
    }
}

/// What the harness said of a test: first, before it shows what the test printed, which may be another
/// harness's output.
fn result_of<'a>(output: &'a str, name: &str) -> Option<&'a str> {
    output.lines().find_map(|line| {
        let (test, result) = line.strip_prefix("test ")?.split_once(" ... ")?;
        let is_it = test == name || test.ends_with(&format!("::{name}"));
        is_it.then_some(result)
    })
}

#[cfg(test)]
mod tests {
    use super::result_of;

    #[test]
    fn results_are_those_of_the_test_named() {
        let output = "test a::one ... ok\ntest a::two ... FAILED\ntest one_more ... FAILED\ntest two ... ok\n";
        assert_eq!(result_of(output, "one"), Some("ok"));
        assert_eq!(result_of(output, "two"), Some("FAILED"));
        assert_eq!(result_of(output, "more"), None);
    }
}
