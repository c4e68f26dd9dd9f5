//! Builds the test's own plugin and runs `ofi perf` with it.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::OnceLock;

/// What a run printed and how it ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Ran {
    fn from(o: Output) -> Self {
        Self {
            code: o.status.code(),
            stdout: String::from_utf8_lossy(&o.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&o.stderr).into_owned(),
        }
    }
}

impl Ran {
    /// Ended well, and with the promise as the last line.
    pub(crate) fn assert_verified(&self) {
        assert_eq!(self.code, Some(0), "{self:#?}");
        assert_eq!(
            self.stdout.lines().last(),
            Some("all bytes verified"),
            "{self:#?}"
        );
    }

    /// Ended with this status, having said all of these.
    pub(crate) fn assert_says(&self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:#?}");
        for part in parts {
            assert!(self.stderr.contains(part), "{part:?} is not in {self:#?}");
        }
        assert!(!self.stdout.contains("all bytes verified"), "{self:#?}");
    }
}

/// The plugin with Neuron's tables, built once.
pub(crate) fn neuron() -> &'static PathBuf {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| build("libnccom-net.so", &["-DLOOP_NEURON"]))
}

/// The plugin with NCCL's tables, built once.
pub(crate) fn nccl() -> &'static PathBuf {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| build("libnccl-net-loop.so", &[]))
}

fn build(name: &str, flags: &[&str]) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/perf/loop_plugin.c");
    // A linker of this name is what rustc itself needs on this platform.
    let done = Command::new("cc")
        .args([
            "-shared",
            "-fPIC",
            "-O1",
            "-Wall",
            "-Werror",
            "-Wno-unused-function",
            "-o",
        ])
        .arg(&path)
        .args(flags)
        .arg(source)
        .output()
        .unwrap();
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    path
}

/// `ofi perf` with the Neuron plugin; no launcher's variables leak in.
pub(crate) fn perf(args: &[&str]) -> Command {
    let mut command = bare(args);
    command.arg("--plugin").arg(neuron());
    command
}

/// `ofi perf` without a plugin.
pub(crate) fn bare(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ofi"));
    command.arg("perf").args(args);
    for name in [
        "RANK",
        "WORLD_SIZE",
        "MASTER_ADDR",
        "MASTER_PORT",
        "SLURM_PROCID",
        "PMI_RANK",
        "LOOP_FAULT",
    ] {
        command.env_remove(name);
    }
    command.env_remove("OMPI_COMM_WORLD_RANK");
    command
}

/// Runs it to its end.
pub(crate) fn ran(mut command: Command) -> Ran {
    command.output().unwrap().into()
}
