//! Runs of `ofi perf` on emulated EFAs.

use crate::artifacts::Built;
use crate::libfabric::Libfabric;
use crate::process::Program;
use crate::settings;
use crate::tables::{self, USUAL};

/// A run on emulated NICs, which fails if a byte is wrong or anything is left open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Emulated {
    /// What `ofi emu --shape` takes.
    shape: &'static str,
    ranks: u32,
    /// NICs of a device.
    rails: u32,
    protocol: &'static str,
    /// Rules, with `;` between them.
    plan: &'static str,
    /// What `ofi perf` does.
    args: &'static [&'static str],
}

/// Everything that delays, and nothing that fails.
pub(crate) const STORM: &str = "reorder window=32; delay exp=20us max=1ms; late chance=10% by=100us; late side=remote chance=10% by=100us; eagain chance=5% burst=8; eagain on=recv chance=1% burst=3; rnr chance=5% tries=3; empty chance=20%";

const CHECK: &[&str] = &["check", "--check", "--messages", "1000", "--max-size", "4M"];
pub(crate) const SHORT: &[&str] = &[
    "check",
    "--check",
    "--messages",
    "150",
    "--max-size",
    "256K",
    "--no-pauses",
];
const ALL_DEVICES: &[&str] = &[
    "check",
    "--check",
    "--messages",
    "40",
    "--max-size",
    "256K",
    "--pool",
    "1M",
    "--devices",
    "all",
];

/// What the tests run on every libfabric.
pub(crate) const EMULATED: [Emulated; 8] = [
    rdma("custom:nics=4", 2, 4, "", CHECK),
    rdma("custom:nics=4", 2, 4, STORM, CHECK),
    rdma("custom:nics=4", 4, 2, STORM, SHORT),
    rdma("p4d", 8, 1, STORM, SHORT),
    rdma("custom:nics=1", 16, 1, STORM, SHORT),
    rdma("p5", 2, 4, "", ALL_DEVICES),
    sendrecv("p4d", 2, "", SHORT),
    sendrecv("trn1", 4, STORM, SHORT),
];

pub(crate) const fn rdma(
    shape: &'static str,
    ranks: u32,
    rails: u32,
    plan: &'static str,
    args: &'static [&'static str],
) -> Emulated {
    Emulated {
        shape,
        ranks,
        rails,
        protocol: "RDMA",
        plan,
        args,
    }
}

pub(crate) const fn sendrecv(
    shape: &'static str,
    ranks: u32,
    plan: &'static str,
    args: &'static [&'static str],
) -> Emulated {
    let rails = 1;
    Emulated {
        protocol: "SENDRECV",
        ..rdma(shape, ranks, rails, plan, args)
    }
}

impl Emulated {
    /// For the name of a step.
    pub(crate) fn title(&self) -> String {
        let plan = if self.plan.is_empty() { "" } else { ", storm" };
        let Self {
            shape,
            ranks,
            rails,
            protocol,
            ..
        } = self;
        format!("emulated {shape}, {ranks} ranks, rails {rails}, {protocol}{plan}")
    }

    /// The command; everything random follows from the seed.
    pub(crate) fn program(&self, libfabric: &Libfabric, built: &Built, seed: u64) -> Program {
        self.with_plan(self.plan, libfabric, built, seed)
    }

    /// The same with another plan.
    pub(crate) fn with_plan(
        &self,
        plan: &str,
        libfabric: &Libfabric,
        built: &Built,
        seed: u64,
    ) -> Program {
        let seed = seed.to_string();
        let program = Program::new(&built.ofi)
            // Not every rule is about a NIC that the run uses.
            .args(["emu", "--strict=leaks", "--shape", self.shape, "--seed", &seed])
            .args(["--plan", plan, "--"])
            .args([built.ofi.as_os_str(), "perf".as_ref()])
            .args(self.args)
            .args(tables::options(USUAL, built))
            .args(["--ranks", &self.ranks.to_string(), "--seed", &seed])
            .env("OFI_NCCL_PROTOCOL", self.protocol)
            .env("OFI_NCCL_NIC_GROUPS", self.groups());
        let environment = settings::environment(libfabric);
        environment
            .into_iter()
            .fold(program, |program, (name, value)| program.env(name, value))
    }

    /// Devices of so many NICs, where the shape is a custom one; an instance has its own.
    fn groups(&self) -> &'static str {
        match (self.shape, self.rails) {
            ("custom:nics=4", 2) => "rdmap0s4,rdmap0s5;rdmap0s6,rdmap0s7",
            ("custom:nics=4", 4) => "rdmap0s4,rdmap0s5,rdmap0s6,rdmap0s7",
            _ => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::EMULATED;

    #[test]
    fn every_run_checks_every_byte() {
        for run in EMULATED {
            assert!(run.args.contains(&"--check"), "{}", run.title());
            assert!(
                run.rails == 1 || !run.groups().is_empty() || run.shape == "p5",
                "{}",
                run.title()
            );
        }
    }
}
