//! Programs in C of `plugin/tests` that are run by commands, not by cargo's tests: compiled with the
//! system's compiler, run with a plugin, on a provider of a libfabric.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::artifacts::Built;
use crate::libfabric::Libfabric;
use crate::process::Program;
use crate::settings;
use crate::workspace::Workspace;

/// Compiles `plugin/tests/NAME.c`, with more arguments for the compiler, to a file of a name of its own.
pub(crate) fn compile(here: &Workspace, name: &str, more: &[String]) -> Result<PathBuf> {
    let dir = here.target.join("xtask-programs");
    fs::create_dir_all(&dir)?;
    let program = dir.join(name);
    let source = here
        .root
        .join("plugin/tests")
        .join(name)
        .with_extension("c");
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    Program::new(compiler)
        .args(["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror"])
        .args(["-o".as_ref(), program.as_os_str(), source.as_os_str()])
        .args(more)
        .args(["-ldl", "-pthread", "-lm"])
        .run()
        .with_context(|| format!("compiling {}", source.display()))?;
    Ok(program)
}

/// A provider of a libfabric.
#[derive(Clone, Debug)]
pub(crate) struct Carrier {
    pub(crate) libfabric: Libfabric,
    pub(crate) provider: &'static str,
}

/// The emulated one.
const EFA: &str = "efa";

impl Carrier {
    /// For lines and the names of files.
    pub(crate) fn name(&self) -> String {
        format!("{}-{}", self.provider, self.libfabric.version)
    }

    /// TCP, shared memory and the emulated EFA of each libfabric. Before 1.18 `tcp` is called `net`.
    pub(crate) fn all(libfabrics: &[Libfabric]) -> Vec<Self> {
        let of = |libfabric: &Libfabric| {
            let tcp = if settings::is_old(libfabric) {
                "net"
            } else {
                "tcp"
            };
            [tcp, "shm", EFA].map(|provider| Self {
                libfabric: libfabric.clone(),
                provider,
            })
        };
        libfabrics.iter().flat_map(of).collect()
    }

    /// A program with its first argument, the plugin, on this provider, over so many rails. What it leaves
    /// open on an emulated EFA is a failure.
    pub(crate) fn program(&self, built: &Built, program: &Path, rails: u32) -> Program {
        self.with(&["--strict"], built, (program, rails))
    }

    /// The same, for a program whose processes are killed: what those leave open is no failure.
    pub(crate) fn lenient(&self, built: &Built, program: &Path, rails: u32) -> Program {
        self.with(&[], built, (program, rails))
    }

    fn with(&self, options: &[&str], built: &Built, (program, rails): (&Path, u32)) -> Program {
        let base = if self.provider == EFA {
            let shape = format!("custom:nics={rails}");
            Program::new(&built.ofi)
                .args(["emu", "--seed", "1", "--shape", &shape])
                .args(options)
                .args(["--"])
                .args([program])
                .env("OFI_NCCL_NIC_GROUPS", groups(rails))
        } else {
            Program::new(program)
                .env("FI_PROVIDER", self.provider)
                .env("OFI_NCCL_FORCE_NUM_RAILS", rails.to_string())
        };
        let environment = settings::environment(&self.libfabric);
        let base = base.args([&built.neuron]).env("OFI_NCCL_PROTOCOL", "RDMA");
        environment
            .into_iter()
            .fold(base, |program, (name, value)| program.env(name, value))
    }
}

/// One device of all the NICs of a custom shape.
fn groups(nics: u32) -> String {
    let names: Vec<String> = (4..4 + nics).map(|slot| format!("rdmap0s{slot}")).collect();
    names.join(",")
}

#[cfg(test)]
mod tests {
    use super::Carrier;
    use crate::artifacts::Built;
    use crate::libfabric::Libfabric;

    #[test]
    fn an_old_libfabric_has_another_tcp_and_efa_is_emulated() {
        let of = |version: &str| Libfabric {
            version: version.to_owned(),
            path: "/x/lib.so".into(),
        };
        let all = Carrier::all(&[of("1.17.0"), of("2.5.1")]);
        let names: Vec<String> = all.iter().map(Carrier::name).collect();
        assert_eq!(
            names,
            [
                "net-1.17.0",
                "shm-1.17.0",
                "efa-1.17.0",
                "tcp-2.5.1",
                "shm-2.5.1",
                "efa-2.5.1"
            ]
        );
        let built = Built::in_dir("built".as_ref());
        let line = |at: usize| all[at].program(&built, "/p".as_ref(), 2).line();
        assert!(line(3).contains("FI_PROVIDER=tcp "), "{}", line(3));
        assert!(line(3).ends_with("/p built/libnccom-net.so"), "{}", line(3));
        assert!(
            line(2).contains("custom:nics=2 --strict -- /p")
                && line(2).contains("GROUPS=rdmap0s4,rdmap0s5 "),
            "{}",
            line(2)
        );
    }
}
