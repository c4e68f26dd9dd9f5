//! End to end beside libfabric's own operations: `ofi raw`, over each provider, with 1 rail and 4.

use core::time::Duration;

use anyhow::Result;

use super::{Bench, forget};
use crate::artifacts::{self, Built, Profile};
use crate::libfabric::{self, Libfabric};
use crate::process::Program;
use crate::settings;

/// A provider, and which libfabric it is taken from.
pub(super) struct Carrier {
    pub(super) name: &'static str,
    provider: &'static str,
    /// The newest there is; else the system's.
    is_newest: bool,
}

/// The emulated EFA: not chosen by the name of a provider.
const EMULATED: &str = "";

pub(super) const CARRIERS: [Carrier; 4] = [
    Carrier {
        name: "tcp",
        provider: "tcp",
        is_newest: true,
    },
    Carrier {
        name: "tcp;ofi_rxm",
        provider: "tcp;ofi_rxm",
        is_newest: false,
    },
    Carrier {
        name: "shm",
        provider: "shm",
        is_newest: false,
    },
    Carrier {
        name: "emulated EFA",
        provider: EMULATED,
        is_newest: true,
    },
];

pub(super) const RAILS: [u32; 2] = [1, 4];

/// Runs of `ofi raw`: a name, and what it is asked.
pub(super) struct Ask {
    pub(super) name: &'static str,
    args: &'static [&'static str],
}

pub(super) const ASKS: [Ask; 4] = [
    Ask {
        name: "lat",
        args: &["lat", "--sizes", "8,8K,64K"],
    },
    Ask {
        name: "bw",
        args: &["bw", "--sizes", "64K,1M,16M", "--window", "8"],
    },
    Ask {
        name: "rate",
        args: &["rate", "--sizes", "8", "--window", "32"],
    },
    Ask {
        name: "rate8",
        args: &["rate", "--sizes", "8", "--window", "32", "--comms", "8"],
    },
];

const LIMIT: Duration = Duration::from_secs(240);

/// In a network of its own, where the kernel does not pace (bbr would) and nobody else sends.
const QUIET: &str = "ip link set lo up
sysctl -q -w net.ipv4.tcp_congestion_control=reno || echo 'bench: reno is refused' >&2
exec \"$@\"";

pub(super) fn run(bench: &Bench<'_>) -> Result<()> {
    let built = artifacts::build(bench.here, Profile::Release)?;
    let all = libfabric::all(bench.here);
    let (Some(system), Some(newest)) = (all.first(), all.last()) else {
        println!("bench: no libfabric, so that nothing is compared with it: cargo xtask setup");
        return Ok(());
    };
    let is_private = settings::has_namespaces();
    if !is_private {
        println!("bench: no network namespace can be made here: TCP as the host has it");
    }
    for carrier in &CARRIERS {
        let libfabric = if carrier.is_newest { newest } else { system };
        for rails in RAILS {
            for ask in &ASKS {
                let file = bench.out.join(file_name(carrier, rails, ask));
                forget(&file)?;
                let program = program(carrier, libfabric, &built, rails);
                let program = ofi_raw(program, bench, &built).args(ask.args);
                let program = program
                    .args(["--json".as_ref(), file.as_os_str()])
                    .limit(LIMIT);
                let program = if is_private { quiet(&program) } else { program };
                // A provider that is not there, or fails by itself, is a gap in the page, and said.
                if let Err(error) = program.run() {
                    println!(
                        "bench: {}, {rails} rails, {}: {error:#}",
                        carrier.name, ask.name
                    );
                }
            }
        }
    }
    Ok(())
}

/// The file of a run.
pub(super) fn file_name(carrier: &Carrier, rails: u32, ask: &Ask) -> String {
    let name = carrier.name.replace([' ', ';'], "-");
    format!("raw-{name}-{rails}-{}.json", ask.name)
}

fn program(carrier: &Carrier, libfabric: &Libfabric, built: &Built, rails: u32) -> Program {
    let program = Program::new(&built.ofi);
    let program = if carrier.provider == EMULATED {
        // The NICs that there are make the rails of a device.
        let nics: Vec<String> = (4..4 + rails).map(|n| format!("rdmap0s{n}")).collect();
        program
            .args(["emu", "--shape", &format!("custom:nics={rails}"), "--"])
            .args([&built.ofi])
            .env("OFI_NCCL_NIC_GROUPS", nics.join(","))
    } else {
        program
            .env("FI_PROVIDER", carrier.provider)
            .env("OFI_NCCL_FORCE_NUM_RAILS", rails.to_string())
    };
    let program = program.env("OFI_NCCL_PROTOCOL", "RDMA");
    let general = settings::environment(libfabric).into_iter();
    general.fold(program, |program, (name, value)| program.env(name, value))
}

fn ofi_raw(program: Program, bench: &Bench<'_>, built: &Built) -> Program {
    let (seconds, rounds) = if bench.is_quick {
        ("0.05", "1")
    } else {
        ("0.25", "3")
    };
    program
        .args(["raw", "--wire", "rendezvous,eager,write"])
        .args(["--plugin".as_ref(), built.nccl.as_os_str()])
        .args(["--seconds", seconds, "--rounds", rounds])
}

fn quiet(program: &Program) -> Program {
    let shell = ["sh", "-c", QUIET, "quiet"];
    settings::in_namespace_of(&program.clone().under(&shell))
}
