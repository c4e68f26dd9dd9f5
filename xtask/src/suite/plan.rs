//! From a step of the table to the programs it runs on this machine.

use core::time::Duration;
use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};

use crate::artifacts::Built;
use crate::hot;
use crate::libfabric::Libfabric;
use crate::process::Program;
use crate::settings::{self, Load};
use crate::steps::{Action, BUILD, Need, On, Step};
use crate::tables::PAIRS;
use crate::workspace::Workspace;

/// The variables by which the plugins' tests learn which files to load.
const NEURON_VARIABLE: &str = "OFI_TEST_NEURON_PLUGIN";
const NCCL_VARIABLE: &str = "OFI_TEST_NCCL_PLUGIN";

/// A step, on one libfabric if it runs on each.
#[derive(Debug)]
pub(super) struct Planned {
    pub(super) name: String,
    pub(super) step: &'static Step,
    libfabric: Option<Libfabric>,
}

/// A step for each libfabric, or for none if it runs once. A step that needs one where there is
/// none is still planned, and skipped by name.
pub(super) fn expand(step: &'static Step, found: &[Libfabric]) -> Vec<Planned> {
    let title = match step.action {
        Action::Perf(load) | Action::EachTable(load) => format!("{} ({})", step.name, load.title()),
        Action::Emulated(run) => format!("{} ({})", step.name, run.title()),
        _ => step.name.to_owned(),
    };
    match step.on {
        On::Once => vec![Planned {
            name: title,
            step,
            libfabric: None,
        }],
        On::Any => vec![Planned {
            name: title,
            step,
            libfabric: found.first().cloned(),
        }],
        On::EachLibfabric if found.is_empty() => {
            vec![Planned {
                name: title,
                step,
                libfabric: None,
            }]
        }
        On::EachLibfabric => found
            .iter()
            .map(|libfabric| Planned {
                name: format!("{title} on libfabric {}", libfabric.version),
                step,
                libfabric: Some(libfabric.clone()),
            })
            .collect(),
    }
}

impl Planned {
    /// What the step needs and this machine, or an earlier step, does not give.
    pub(super) fn unmet(&self, here: &Workspace, failed: &BTreeSet<&str>) -> Option<String> {
        if self.step.on == On::EachLibfabric && self.libfabric.is_none() {
            return Some("no libfabric here: cargo xtask setup --matrix".to_owned());
        }
        self.step
            .needs
            .iter()
            .find_map(|need| unmet(*need, here, failed))
    }

    /// What to run, in this order.
    pub(super) fn programs(&self, here: &Workspace) -> Result<Vec<Program>> {
        let programs = match self.step.action {
            Action::Cargo(args) => vec![here.cargo(args)],
            Action::EachCrate(args) => for_each_crate(here, args, |_| true)?,
            Action::EachPublished(args) => for_each_crate(here, args, |published| published)?,
            Action::Xtask(args) => {
                let Built { neuron, nccl, .. } = built(here);
                let [neuron, nccl] = [neuron, nccl].map(|path| path.display().to_string());
                let named = |arg: &str| arg.replace("{neuron}", &neuron).replace("{nccl}", &nccl);
                let args = args.iter().map(|arg| named(arg));
                vec![Program::new(std::env::current_exe()?).args(args)]
            }
            Action::Perf(load) => vec![self.load(load, here)?],
            Action::Emulated(run) => {
                let libfabric = self.libfabric.as_ref();
                let libfabric = libfabric.context("unmet needs are looked at first")?;
                vec![run.program(libfabric, &built(here), fresh_seed())]
            }
            Action::EachTable(load) => PAIRS
                .into_iter()
                .map(|tables| self.load(Load { tables, ..load }, here))
                .collect::<Result<_>>()?,
        };
        Ok(programs
            .into_iter()
            .map(|program| self.dressed(program, here))
            .collect())
    }

    fn load(&self, load: Load, here: &Workspace) -> Result<Program> {
        let libfabric = self.libfabric.as_ref();
        let libfabric = libfabric.context("unmet needs are looked at first")?;
        Ok(load.program(libfabric, &built(here), fresh_seed()))
    }

    /// With the environment, directory and limit of the step.
    fn dressed(&self, program: Program, here: &Workspace) -> Program {
        let limit = Duration::from_secs(60 * self.step.minutes_max);
        let mut program = program.dir(&here.root).limit(limit);
        for (name, value) in self.step.env {
            program = program.env(name, value);
        }
        for (name, value) in self.libfabric.iter().flat_map(settings::environment) {
            program = program.env(name, value);
        }
        if self.step.needs.contains(&Need::Built) {
            let Built { neuron, nccl, .. } = built(here);
            program = program
                .env(NEURON_VARIABLE, neuron)
                .env(NCCL_VARIABLE, nccl);
        }
        program
    }

    /// The name, fit for a file.
    pub(super) fn file_stem(&self) -> String {
        let fit = |c: char| {
            if c.is_ascii_alphanumeric() || c == '.' {
                c
            } else {
                '-'
            }
        };
        self.name.chars().map(fit).collect()
    }
}

/// A seed that no run had before. It stands in the command, which a failure prints.
fn fresh_seed() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(1, |now| now.as_secs())
}

/// Where the step [`BUILD`] puts its files.
fn built(here: &Workspace) -> Built {
    Built::in_dir(&here.target.join("release"))
}

fn for_each_crate(
    here: &Workspace,
    args: &[&'static str],
    wanted: impl Fn(bool) -> bool,
) -> Result<Vec<Program>> {
    let members = here
        .crates()?
        .into_iter()
        .filter(|member| wanted(member.published));
    let program = |name: String| {
        let arg = |arg: &&'static str| arg.replace("{crate}", &name);
        let args: Vec<String> = args.iter().map(arg).collect();
        here.cargo(&args.iter().map(String::as_str).collect::<Vec<_>>())
    };
    Ok(members.map(|member| program(member.name)).collect())
}

fn unmet(need: Need, here: &Workspace, failed: &BTreeSet<&str>) -> Option<String> {
    let (is_met, otherwise) = match need {
        Need::Rustfmt => (
            here.cargo(&["fmt", "--version"]).succeeds(),
            "no rustfmt here: rustup component add rustfmt clippy",
        ),
        Need::Clippy => (
            here.cargo(&["clippy", "--version"]).succeeds(),
            "no clippy here: rustup component add rustfmt clippy",
        ),
        Need::CargoDeny => (
            here.cargo(&["deny", "--version"]).succeeds(),
            "no cargo-deny here: cargo install cargo-deny --locked",
        ),
        Need::Nightly => (
            here.cargo(&["+nightly", "--version"]).succeeds(),
            "no nightly toolchain here: rustup toolchain install nightly",
        ),
        Need::Cxx => (
            Program::new("c++").args(["--version"]).succeeds(),
            "no C++ compiler here: sudo apt-get install -y g++",
        ),
        Need::Git => (
            Program::new("git")
                .args(["rev-parse", "--git-dir"])
                .dir(&here.root)
                .succeeds(),
            "no git checkout here",
        ),
        Need::Valgrind => (
            hot::can_measure(),
            "no valgrind here: sudo apt-get install -y valgrind",
        ),
        Need::Namespaces => (
            settings::has_namespaces(),
            "no network namespaces here: it takes unshare, and ip (sudo apt-get install -y iproute2)",
        ),
        Need::Built => {
            let is_met = !failed.contains(BUILD) && built(here).is_complete();
            (
                is_met,
                "the plugins are not built: cargo xtask build --release",
            )
        }
    };
    (!is_met).then(|| otherwise.to_owned())
}

#[cfg(test)]
mod tests {
    use super::expand;
    use crate::libfabric::Libfabric;
    use crate::steps::{On, STEPS};

    #[test]
    fn steps_on_each_libfabric_are_planned_for_each() {
        let of = |version: &str| Libfabric {
            version: version.to_owned(),
            path: "x".into(),
        };
        let two = [of("1.17.0"), of("2.5.1")];
        for step in STEPS {
            let each = step.on == On::EachLibfabric;
            assert_eq!(
                expand(step, &two).len(),
                if each { 2 } else { 1 },
                "{}",
                step.name
            );
            assert_eq!(expand(step, &[]).len(), 1, "{}: still named", step.name);
        }
    }

    #[test]
    fn every_planned_name_is_of_its_own() {
        let one = [Libfabric {
            version: "1.17.0".to_owned(),
            path: "x".into(),
        }];
        let mut names: Vec<String> = STEPS
            .iter()
            .flat_map(|step| expand(step, &one))
            .map(|p| p.file_stem())
            .collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
