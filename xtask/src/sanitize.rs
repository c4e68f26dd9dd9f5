//! `cargo xtask asan` and `cargo xtask tsan`: the plugin and the emulated EFA built with a sanitizer of the
//! nightly toolchain, driven by programs in C. First a canary: a mistake on purpose that has to be seen, or
//! the others prove nothing.

use core::time::Duration;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};

use crate::libfabric::Libfabric;
use crate::process::{Ended, Program};
use crate::programs;
use crate::settings;
use crate::setup::{self, Extent};
use crate::workspace::Workspace;

/// Where the toolchain's own files are, and what is instrumented.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// No program takes so long, at a tenth of the speed.
const LIMIT: Duration = Duration::from_secs(600);

/// A sanitizer, and what is run under it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sanitizer {
    /// rustc's name of it, and the word in the name of its runtime.
    name: &'static str,
    runtime: &'static str,
    flags: &'static str,
    /// Whether the standard library is built along: its locks have to be seen, too.
    with_std: bool,
    options: (&'static str, &'static str),
    /// The program with the mistake, and what has to be said of it.
    canary: (&'static str, &'static str),
    programs: &'static [&'static [&'static str]],
}

/// Memory that was freed, was never ours, or is never freed.
pub(crate) const ADDRESS: Sanitizer = Sanitizer {
    name: "address",
    runtime: "asan",
    flags: "-Zsanitizer=address -Cforce-frame-pointers=yes",
    with_std: false,
    options: ("ASAN_OPTIONS", "detect_leaks=1"),
    canary: ("canary", "heap-use-after-free"),
    programs: &[
        &["pair", "6", "6"],
        &["pair", "4", "4"],
        &["onesided", "6"],
        &["threads", "3"],
    ],
};

/// Races.
pub(crate) const THREAD: Sanitizer = Sanitizer {
    name: "thread",
    runtime: "tsan",
    flags: "-Zsanitizer=thread",
    with_std: true,
    options: ("TSAN_OPTIONS", "halt_on_error=1"),
    canary: ("race", "data race"),
    programs: &[&["threads"]],
};

/// Runs all programs over TCP and the emulated EFA of the system's libfabric; a toolchain that lacks the
/// sanitizer is a line that says so.
pub(crate) fn run(here: &Workspace, sanitizer: Sanitizer) -> Result<()> {
    let Some(runtime) = runtime(here, sanitizer) else {
        println!(
            "skipped: {} sanitizer: the nightly toolchain for {TARGET} is not here, or lacks \
             librustc-nightly_rt.{}.a{}",
            sanitizer.name,
            sanitizer.runtime,
            if sanitizer.with_std {
                " or rust-src"
            } else {
                ""
            }
        );
        return Ok(());
    };
    let report = setup::prepare(here, Extent::System);
    let built = build(here, sanitizer)?;
    // The TCP providers keep copies of entries. The emulated EFA keeps nothing: leaks of ours show there.
    fs::write(built.join(KNOWN), "leak:libfabric.so\n")?;
    let bench = Bench {
        here,
        sanitizer,
        libfabric: report.any()?,
        link: link_with(&runtime),
        built,
    };
    let tcp = bench.tcp();
    let (canary, word) = sanitizer.canary;
    let (end, said) = bench.run(canary, &[], tcp)?;
    ensure!(
        end != Ended::Well && said.contains(word),
        "the canary was not seen ({end:?}): {said}"
    );
    println!("canary: {word}, seen");
    for provider in [tcp, EFA] {
        for program in sanitizer.programs {
            let (name, arguments) = program.split_first().context("a program has a name")?;
            let (end, said) = bench.run(name, arguments, provider)?;
            if end != Ended::Well {
                bail!("{} on {provider}: {end:?}\n{said}", program.join(" "));
            }
            println!("{} on {provider}: nothing found", program.join(" "));
        }
    }
    Ok(())
}

/// The emulated one.
const EFA: &str = "efa";
/// The file of the leaks that are libfabric's.
const KNOWN: &str = "leaks-of-libfabric";

/// What the programs are run with.
struct Bench<'a> {
    here: &'a Workspace,
    sanitizer: Sanitizer,
    libfabric: &'a Libfabric,
    link: Vec<String>,
    built: PathBuf,
}

impl Bench<'_> {
    fn tcp(&self) -> &'static str {
        match settings::is_old(self.libfabric) {
            true => "net",
            false => "tcp",
        }
    }

    /// Runs a program on a provider: how it ended, and what it said.
    fn run(&self, name: &str, arguments: &[&str], provider: &str) -> Result<(Ended, String)> {
        let known = self.built.join(KNOWN);
        let known = format!("print_suppressions=0:suppressions={}", known.display());
        let known = if provider == EFA { "" } else { &known };
        let program = programs::compile(self.here, name, &self.link)?;
        let program = Program::new(program)
            .args([self.built.join("libnccom_net.so")])
            .args(arguments)
            .env("FI_PROVIDER", provider)
            .env("FI_PROVIDER_PATH", self.built.join("provider"))
            .env("EFA_EMU_NICS", "1")
            .env("EFA_EMU_SEED", "1")
            .env("OFI_NCCL_DISABLE_EFA_VERSION_CHECK", "1")
            .env("OFI_NCCL_PROTOCOL", "RDMA")
            .env("OFI_NCCL_FORCE_NUM_RAILS", "2")
            .env("OFI_NCCL_CONNECT_TIMEOUT", "20")
            .env("OFI_NCCL_STALL_FAIL", "20")
            // What is kept for the life of the process is no leak while its keeper is there.
            .env("OFI_TEST_STAYS_LOADED", "1")
            .env(self.sanitizer.options.0, self.sanitizer.options.1)
            .env("LSAN_OPTIONS", known)
            .limit(LIMIT);
        let environment = settings::environment(self.libfabric);
        let program = environment
            .into_iter()
            .fold(program, |program, (name, value)| program.env(name, value));
        let log = self.built.join("log");
        let ended = program.run_into(&File::create(&log)?)?;
        Ok((ended, fs::read_to_string(&log)?))
    }
}

/// The archive of the sanitizer's runtime, where the nightly toolchain has it.
fn runtime(here: &Workspace, sanitizer: Sanitizer) -> Option<PathBuf> {
    let rustc = Program::new("rustc").args(["+nightly", "--print", "sysroot"]);
    let root = rustc.dir(&here.root).output().ok()?;
    let file = format!("librustc-nightly_rt.{}.a", sanitizer.runtime);
    let dir = Path::new(root.trim()).join("lib/rustlib").join(TARGET);
    let archive = dir.join("lib").join(file);
    let sources = Path::new(root.trim()).join("lib/rustlib/src/rust/library/std");
    let has_std = !sanitizer.with_std || sources.exists();
    (archive.exists() && has_std).then_some(archive)
}

/// The host program has the runtime, all of it, for the shared objects that it loads.
fn link_with(runtime: &Path) -> Vec<String> {
    let runtime = runtime.display();
    vec![
        "-rdynamic".to_owned(),
        format!("-Wl,--whole-archive,{runtime},--no-whole-archive"),
        "-lrt".to_owned(),
        "-lresolv".to_owned(),
    ]
}

/// Builds the plugin and the emulated EFA, instrumented; where they are.
fn build(here: &Workspace, sanitizer: Sanitizer) -> Result<PathBuf> {
    let dir = here.target.join(sanitizer.runtime);
    let build_std: &[&str] = if sanitizer.with_std {
        &["-Zbuild-std"]
    } else {
        &[]
    };
    here.cargo(&["+nightly", "build", "--target", TARGET, "--target-dir"])
        .args([&dir])
        .args(build_std)
        .args(["-p", "ofi-plugin-neuron", "-p", "efa-emu"])
        .env("RUSTFLAGS", sanitizer.flags)
        .run()?;
    let built = dir.join(TARGET).join("debug");
    let provider = built.join("provider");
    fs::create_dir_all(&provider)?;
    let link = provider.join("libefa-fi.so");
    if !link.exists() {
        symlink(built.join("libefa_emu_fi.so"), link)?;
    }
    Ok(built)
}

#[cfg(test)]
mod tests {
    use super::{ADDRESS, THREAD, link_with};

    #[test]
    fn the_whole_runtime_is_linked() {
        let line = link_with("/x/rt.a".as_ref()).join(" ");
        assert!(
            line.contains("--whole-archive,/x/rt.a,--no-whole-archive"),
            "{line}"
        );
    }

    #[test]
    fn every_sanitizer_has_a_canary_and_something_to_run() {
        for sanitizer in [ADDRESS, THREAD] {
            assert!(!sanitizer.canary.1.is_empty() && !sanitizer.programs.is_empty());
            assert!(sanitizer.flags.contains(sanitizer.name));
        }
    }
}
