//! Runs the table of [`steps`](crate::steps): every step, also after one has failed; what cannot be
//! run here is skipped by name. The output of each goes to a file, and is shown when it fails.

mod plan;
mod report;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

use self::plan::Planned;
use self::report::{Line, Outcome, Summary};
use crate::process::Ended;
use crate::setup::{self, Extent};
use crate::steps::{BUILD, Need, STEPS};
use crate::workspace::Workspace;

#[derive(Debug, Default)]
struct Options {
    is_quick: bool,
    is_verbose: bool,
    only: Option<String>,
    just_list: bool,
    no_setup: bool,
}

impl Options {
    fn parse(args: &[&str]) -> Result<Self> {
        let mut options = Self::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match *arg {
                "--quick" => options.is_quick = true,
                "--verbose" => options.is_verbose = true,
                "--list" => options.just_list = true,
                "--no-setup" => options.no_setup = true,
                "--only" => {
                    let text = args
                        .next()
                        .context("--only takes a part of a step's name")?;
                    options.only = Some((*text).to_owned());
                }
                other => bail!("test has no option {other}; see cargo xtask help"),
            }
        }
        Ok(options)
    }

    fn selects(&self, planned: &Planned) -> bool {
        let named = self
            .only
            .as_ref()
            .is_none_or(|text| planned.name.contains(text.as_str()));
        named && (planned.step.is_quick || !self.is_quick)
    }
}

/// The command. What it runs is in the table; a name that chooses nothing is an error.
pub(crate) fn run(here: &Workspace, args: &[&str]) -> Result<ExitCode> {
    let options = Options::parse(args)?;
    let mut summary = Summary::default();
    let extent =
        (!options.no_setup && !options.is_quick && !options.just_list).then_some(Extent::Matrix);
    let found = match extent {
        Some(extent) => prepare(here, extent, &mut summary),
        None => crate::libfabric::all(here),
    };
    let mut plan: Vec<Planned> = STEPS
        .iter()
        .flat_map(|step| plan::expand(step, &found))
        .collect();
    // What a chosen step loads is built anew: a stale plugin would be tested silently.
    let builds = plan
        .iter()
        .any(|planned| options.selects(planned) && planned.step.needs.contains(&Need::Built));
    plan.retain(|planned| options.selects(planned) || builds && planned.step.name == BUILD);
    if let (Some(text), true) = (&options.only, plan.is_empty()) {
        bail!("no step contains {text:?}: see --list");
    }
    if options.just_list {
        plan.iter().for_each(|planned| println!("{}", planned.name));
        return Ok(ExitCode::SUCCESS);
    }
    let mut failed = BTreeSet::new();
    for (number, planned) in (1..).zip(&plan) {
        let head = format!("[{number:2}/{}] {}", plan.len(), planned.name);
        println!("{head} ..");
        let start = Instant::now();
        let outcome = match planned.unmet(here, &failed) {
            Some(why) => Outcome::Skipped(why),
            None => run_step(here, planned, &options)?,
        };
        if matches!(outcome, Outcome::Failed(_)) {
            failed.insert(planned.step.name);
        }
        let line = Line {
            name: planned.name.clone(),
            outcome,
            took: start.elapsed(),
        };
        println!("        {}", line.verdict());
        summary.push(line);
    }
    Ok(summary.print())
}

/// Installs and fetches; what cannot be had is skipped by name, or a failure where CI says so.
fn prepare(
    here: &Workspace,
    extent: Extent,
    summary: &mut Summary,
) -> Vec<crate::libfabric::Libfabric> {
    let start = Instant::now();
    let report = setup::prepare(here, extent);
    let must_be_whole = std::env::var_os("CI").is_some_and(|value| value == "true");
    for why in report.missing {
        let outcome = if must_be_whole {
            Outcome::Failed(why)
        } else {
            Outcome::Skipped(why)
        };
        summary.push(Line {
            name: "setup".to_owned(),
            outcome,
            took: start.elapsed(),
        });
    }
    report.found
}

fn run_step(here: &Workspace, planned: &Planned, options: &Options) -> Result<Outcome> {
    let dir = here.target.join("xtask-logs");
    fs::create_dir_all(&dir)?;
    let path = dir.join(format!("{}.log", planned.file_stem()));
    let log = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    let mut why = None;
    for program in planned.programs(here)? {
        match program.run_into(&log) {
            Ok(Ended::Well) => continue,
            Ok(Ended::Badly(status)) => why = Some(format!("{status}: {}", program.line())),
            Ok(Ended::OutOfTime(limit)) => {
                why = Some(format!(
                    "no end after {} s: {}",
                    limit.as_secs(),
                    program.line()
                ));
            }
            Err(error) => why = Some(format!("{error:#}")),
        }
        break;
    }
    let output = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
    if options.is_verbose {
        println!("{output}");
    }
    Ok(match why {
        None => Outcome::passed(&output),
        Some(why) => {
            if !options.is_verbose {
                println!("{}", report::tail(&output));
            }
            Outcome::Failed(format!("{why}\n      whole output: {}", path.display()))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::run;
    use crate::workspace::Workspace;

    #[test]
    fn a_name_of_no_step_is_an_error() {
        let here = Workspace::locate().unwrap();
        let error = run(&here, &["--list", "--only", "nonsense"]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "no step contains \"nonsense\": see --list"
        );
        run(&here, &["--list", "--only", "tidy"]).unwrap();
    }
}
