//! What `cargo xtask test` does, as a table: fast things first.

use crate::emulated::{EMULATED, Emulated};
use crate::settings::{CHECKS, Load, TABLE_CHECKS};

/// One step of the tests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) action: Action,
    pub(crate) needs: &'static [Need],
    /// Whether it is run once for each libfabric.
    pub(crate) on: On,
    /// Whether `--quick` runs it.
    pub(crate) is_quick: bool,
    pub(crate) env: &'static [(&'static str, &'static str)],
    /// After so many minutes it has failed.
    pub(crate) minutes_max: u64,
}

/// What a step runs. Words in braces are replaced: `{neuron}` and `{nccl}` by the paths of the built
/// plugins.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    /// cargo with these arguments.
    Cargo(&'static [&'static str]),
    /// cargo with these arguments for every crate of ours, `{crate}` being its name.
    EachCrate(&'static [&'static str]),
    /// The same for the crates that may be published.
    EachPublished(&'static [&'static str]),
    /// Another command of this program.
    Xtask(&'static [&'static str]),
    /// `ofi perf` on our plugins.
    Perf(Load),
    /// The same for every table that they export.
    EachTable(Load),
    /// `ofi perf` on our plugins and emulated EFAs.
    Emulated(Emulated),
}

/// What a machine may lack. A step whose need is not met is skipped, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// `cargo fmt`, a component that a minimal toolchain lacks.
    Rustfmt,
    /// `cargo clippy`, another.
    Clippy,
    /// `cargo deny`.
    CargoDeny,
    /// A nightly toolchain.
    Nightly,
    /// A compiler for C++.
    Cxx,
    /// `git`, in a checkout.
    Git,
    /// `valgrind`, for its callgrind.
    Valgrind,
    /// Network namespaces, and `ip` to join them.
    Namespaces,
    /// The release build of the plugins and of `ofi`, by the step [`BUILD`].
    Built,
}

/// How often a step is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum On {
    Once,
    /// Once, on any libfabric: the first that there is.
    Any,
    EachLibfabric,
}

/// The step that builds what later ones load.
pub(crate) const BUILD: &str = "build the plugins";

/// Prints what passing tests print, so that what they skip is named.
const SHOW: [&str; 2] = ["--", "--show-output"];

/// Where models of concurrency are built.
const LOOM_DIR: &str = "target/loom";

impl Step {
    const fn new(name: &'static str, action: Action) -> Self {
        Self {
            name,
            action,
            needs: &[],
            on: On::Once,
            is_quick: false,
            env: &[],
            minutes_max: 15,
        }
    }

    const fn cargo(name: &'static str, args: &'static [&'static str]) -> Self {
        Self::new(name, Action::Cargo(args))
    }

    const fn xtask(name: &'static str, args: &'static [&'static str]) -> Self {
        Self::new(name, Action::Xtask(args))
    }

    const fn perf(name: &'static str, load: Load) -> Self {
        Self::new(name, Action::Perf(load))
            .needs(&[Need::Built])
            .on_each_libfabric()
    }

    const fn emulated(run: Emulated) -> Self {
        Self::new("verified bytes", Action::Emulated(run))
            .needs(&[Need::Built])
            .on_each_libfabric()
    }

    const fn each_table(load: Load) -> Self {
        Self::new("every table", Action::EachTable(load))
            .needs(&[Need::Built])
            .on_each_libfabric()
    }

    const fn needs(mut self, needs: &'static [Need]) -> Self {
        self.needs = needs;
        self
    }

    const fn on_each_libfabric(mut self) -> Self {
        self.on = On::EachLibfabric;
        self
    }

    const fn on_any_libfabric(mut self) -> Self {
        self.on = On::Any;
        self
    }

    const fn quick(mut self) -> Self {
        self.is_quick = true;
        self
    }

    const fn env(mut self, env: &'static [(&'static str, &'static str)]) -> Self {
        self.env = env;
        self
    }
}

/// All of it.
pub(crate) const STEPS: &[Step] = &[
    Step::cargo("format", &["fmt", "--all", "--check"])
        .needs(&[Need::Rustfmt])
        .quick(),
    Step::xtask("tidy", &["tidy"]).quick(),
    Step::xtask("layers", &["layers"]).quick(),
    Step::cargo(
        "clippy",
        &[
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ],
    )
    .needs(&[Need::Clippy])
    .quick(),
    Step::cargo("documentation", &["doc", "--workspace", "--no-deps"])
        .env(&[("RUSTDOCFLAGS", "-D warnings")])
        .quick(),
    // The default members are the pure crates.
    Step::cargo("tests of the pure crates", &["test", "--lib", "--tests"]).quick(),
    Step::cargo("tests of xtask", &["test", "--package", "xtask"]).quick(),
    Step::cargo(
        "examples in the documentation",
        &["test", "--workspace", "--doc"],
    )
    .on_any_libfabric()
    .quick(),
    Step::new(
        "each crate alone",
        Action::EachCrate(&["check", "--all-targets", "-p", "{crate}"]),
    ),
    Step::new(
        "packages",
        Action::EachPublished(&["package", "--list", "--allow-dirty", "-p", "{crate}"]),
    ),
    Step::cargo(
        "licences, sources and bans",
        &["deny", "--offline", "check", "bans", "licenses", "sources"],
    )
    .needs(&[Need::CargoDeny]),
    Step::cargo(
        "fuzz targets compile",
        &["+nightly", "check", "--manifest-path", "fuzz/Cargo.toml"],
    )
    .needs(&[Need::Nightly, Need::Cxx]),
    Step::cargo(
        "all immediate words",
        &[
            "test",
            "--release",
            "--package",
            "ofi-imm",
            "--test",
            "exhaustive",
        ],
    ),
    // A target directory of its own: the flag would make cargo build everything anew, twice.
    Step::cargo(
        "every interleaving of the shared cache",
        &[
            "test",
            "--release",
            "--package",
            "ofi-pools",
            "--test",
            "loom",
            "--target-dir",
            LOOM_DIR,
        ],
    )
    .env(&[("RUSTFLAGS", "--cfg loom")]),
    Step::cargo(
        "every interleaving at the lock of a domain",
        &[
            "test",
            "--release",
            "--package",
            "ofi-net",
            "--lib",
            "--target-dir",
            LOOM_DIR,
            "interleavings",
        ],
    )
    .env(&[("RUSTFLAGS", "--cfg loom")]),
    Step::cargo(
        "every interleaving of small scenes",
        &[
            "test",
            "--release",
            "--package",
            "ofi-sim",
            "--test",
            "explore",
        ],
    ),
    Step::xtask("instructions of the hot path", &["hot"]).needs(&[Need::Valgrind]),
    Step::xtask("traps of the pure crates", &["traps", "--pure"]).needs(&[Need::Git]),
    Step::xtask(BUILD, &["build", "--release"]),
    Step::xtask("one rank of sixteen hangs", &["hangs"]).needs(&[Need::Built]),
    Step::xtask("what Neuron's plugin needs", &["needed", "{neuron}"]).needs(&[Need::Built]),
    Step::xtask("what NCCL's plugin needs", &["needed", "{nccl}"]).needs(&[Need::Built]),
    Step::cargo(
        "tests of the fabric crates",
        &[
            "test",
            "-p",
            "ofi-sys",
            "-p",
            "efa-fabric",
            "-p",
            "efa-emu",
            "-p",
            "ofi-net",
            "-p",
            "examples",
            "--tests",
            SHOW[0],
            SHOW[1],
        ],
    )
    .on_each_libfabric(),
    Step::cargo(
        "tests of the plugins",
        &[
            "test",
            "-p",
            "ofi-plugin-edge",
            "-p",
            "ofi-plugin-neuron",
            "-p",
            "ofi-plugin-nccl",
            "--tests",
            SHOW[0],
            SHOW[1],
        ],
    )
    .needs(&[Need::Built])
    .on_each_libfabric(),
    // Alone: the feature would reach the plugin that the other steps test.
    Step::cargo(
        "no panic leaves an entry point",
        &[
            "test",
            "-p",
            "ofi-plugin-neuron",
            "-p",
            "ofi-plugin-nccl",
            "--features",
            "panic-probe",
            "--test",
            "panics",
        ],
    ),
    Step::cargo(
        "tests of the ofi command",
        &["test", "-p", "ofi-tools", "--tests", SHOW[0], SHOW[1]],
    )
    .on_any_libfabric(),
    Step::xtask("what is counted is what was moved", &["counted"]).needs(&[Need::Built]),
    Step::perf("verified bytes", CHECKS[0]),
    Step::perf("verified bytes", CHECKS[1]),
    Step::perf("verified bytes", CHECKS[2]),
    Step::perf("verified bytes", CHECKS[3]),
    Step::perf("verified bytes of many wraps", CHECKS[4]),
    Step::perf("verified bytes of many wraps", CHECKS[5]),
    Step::each_table(TABLE_CHECKS[0]),
    Step::each_table(TABLE_CHECKS[1]),
    Step::each_table(TABLE_CHECKS[2]),
    Step::each_table(TABLE_CHECKS[3]),
    Step::each_table(TABLE_CHECKS[4]),
    Step::each_table(TABLE_CHECKS[5]),
    Step::perf("verified bytes", CHECKS[6]).needs(&[Need::Built, Need::Namespaces]),
    Step::perf("verified bytes", CHECKS[7]).needs(&[Need::Built, Need::Namespaces]),
    Step::perf("verified bytes", CHECKS[8]),
    Step::perf("verified bytes of many wraps", CHECKS[9]),
    Step::perf("verified bytes", CHECKS[10]),
    Step::emulated(EMULATED[0]),
    Step::emulated(EMULATED[1]),
    Step::emulated(EMULATED[2]),
    Step::emulated(EMULATED[3]),
    Step::emulated(EMULATED[4]),
    Step::emulated(EMULATED[5]),
    Step::emulated(EMULATED[6]),
    Step::emulated(EMULATED[7]),
    Step::xtask("rails of each instance", &["rails"])
        .needs(&[Need::Built])
        .on_any_libfabric(),
];

#[cfg(test)]
mod tests {
    use super::{Action, BUILD, Need, STEPS};

    #[test]
    fn what_is_built_is_built_before_it_is_needed() {
        let build = STEPS.iter().position(|step| step.name == BUILD).unwrap();
        let first = STEPS
            .iter()
            .position(|step| step.needs.contains(&Need::Built))
            .unwrap();
        assert!(build < first);
    }

    #[test]
    fn quick_steps_come_first_and_need_only_a_whole_toolchain() {
        let quick = STEPS.iter().take_while(|step| step.is_quick).count();
        assert!(STEPS.iter().skip(quick).all(|step| !step.is_quick));
        let of_toolchain = |need: &Need| matches!(need, Need::Rustfmt | Need::Clippy);
        let mut needs = STEPS.iter().take(quick).flat_map(|step| step.needs);
        assert!(needs.all(of_toolchain));
    }

    #[test]
    fn every_verified_load_checks() {
        for step in STEPS {
            if let Action::Perf(load) | Action::EachTable(load) = step.action {
                assert!(load.args.contains(&"--check"), "{}", load.title());
            }
        }
    }
}
