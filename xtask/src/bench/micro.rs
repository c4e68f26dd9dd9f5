//! The benches of the crates.

use core::time::Duration;

use anyhow::Result;

use super::{Bench, forget};
use crate::libfabric;
use crate::process::Program;
use crate::settings;

/// A bench: its crate, its name, and whether it has the processor to itself.
struct Micro {
    package: &'static str,
    name: &'static str,
    /// Several threads, or processes: not on one core.
    is_wide: bool,
}

const fn one(package: &'static str, name: &'static str) -> Micro {
    Micro {
        package,
        name,
        is_wide: false,
    }
}

const BENCHES: [Micro; 10] = [
    one("ofi-imm", "imm"),
    one("ofi-pools", "idpool"),
    Micro {
        is_wide: true,
        ..one("ofi-pools", "contention")
    },
    one("ofi-pools", "slots"),
    one("ofi-pools", "mrcache"),
    one("ofi-sched", "plan"),
    one("ofi-rdma", "window"),
    one("ofi-rdma", "engine"),
    Micro {
        is_wide: true,
        ..one("ofi-net", "threads")
    },
    one("ofi-net", "memory"),
];

const LIMIT: Duration = Duration::from_secs(600);

pub(super) fn run(bench: &Bench<'_>) -> Result<()> {
    // All are built first: the rest then is quiet.
    for micro in &BENCHES {
        bench
            .here
            .cargo(&[&args(micro)[..], &["--no-run"]].concat())
            .run()?;
    }
    let quick = if bench.is_quick { "1" } else { "0" };
    for micro in &BENCHES {
        forget(&bench.out.join(format!("{}.json", micro.name)))?;
        let cargo = bench.here.cargo(&args(micro));
        let cargo = cargo.env("OFI_BENCH_OUT", &bench.out);
        let cargo = cargo.env("OFI_BENCH_QUICK", quick).limit(LIMIT);
        if micro.package != "ofi-net" {
            let program = if micro.is_wide { cargo } else { pinned(cargo) };
            program.run()?;
        } else if let Some(libfabric) = libfabric::all(bench.here).pop() {
            // The newest one's own TCP: it is the leanest.
            let cargo = cargo.env("FI_PROVIDER", "tcp");
            let general = settings::environment(&libfabric).into_iter();
            let cargo = general.fold(cargo, |cargo, (name, value)| cargo.env(name, value));
            // Whoever has only an old libfabric lacks these numbers, and sees why.
            if let Err(error) = cargo.run() {
                println!("bench: {}: {error:#}", micro.name);
            }
        }
    }
    Ok(())
}

fn args(micro: &Micro) -> Vec<&'static str> {
    let mut args = vec!["bench", "--package", micro.package, "--bench", micro.name];
    if micro.package == "ofi-rdma" {
        args.extend(["--features", "bench-window"]);
    }
    args
}

/// On the last core, where the system can say so.
fn pinned(program: Program) -> Program {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let last = (cores - 1).to_string();
    let can = Program::new("taskset")
        .args(["-c", &last, "true"])
        .succeeds();
    if can {
        program.under(&["taskset", "-c", &last])
    } else {
        program
    }
}
