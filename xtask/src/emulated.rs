//! Runs of `ofi perf` on emulated EFAs: fixed ones for the tests, and any number drawn from seeds.

use core::time::Duration;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

use crate::artifacts::{self, Built, Profile};
use crate::libfabric::Libfabric;
use crate::process::{Ended, Program};
use crate::settings;
use crate::setup::{self, Extent};
use crate::tables::{self, USUAL};
use crate::workspace::Workspace;

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
const STORM: &str = "reorder window=32; delay exp=20us max=1ms; late chance=10% by=100us; late side=remote chance=10% by=100us; eagain chance=5% burst=8; eagain on=recv chance=1% burst=3; rnr chance=5% tries=3; empty chance=20%";

const CHECK: &[&str] = &["check", "--check", "--messages", "1000", "--max-size", "4M"];
const SHORT: &[&str] = &[
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

const fn rdma(
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

const fn sendrecv(
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

    fn with_plan(&self, plan: &str, libfabric: &Libfabric, built: &Built, seed: u64) -> Program {
        let seed = seed.to_string();
        let program = Program::new(&built.ofi)
            .args(["emu", "--strict", "--shape", self.shape, "--seed", &seed])
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

    /// The run of a seed, with its plan: any ranks, rails and protocol, any part of a storm.
    fn drawn(seed: u64) -> (Self, String) {
        let mut left = mix(seed);
        let mut draw = |below: u64| {
            let drawn = left % below;
            left = mix(left);
            drawn
        };
        let mut pick = |of: &[u32]| {
            let count = u64::try_from(of.len()).unwrap_or(1);
            let at = usize::try_from(draw(count)).unwrap_or(0);
            of.get(at).copied().unwrap_or(1)
        };
        let (ranks, rails) = (pick(&[2, 2, 2, 3, 4, 8]), pick(&[1, 2, 4]));
        let run = match pick(&[0, 0, 0, 1]) {
            0 => rdma("custom:nics=4", ranks, rails, "", SHORT),
            _ => sendrecv("custom:nics=4", ranks, "", SHORT),
        };
        let window = pick(&[0, 1, 8, 64]);
        let mut plan = vec![format!("reorder window={window}")];
        let rules = STORM.split("; ").skip(1);
        plan.extend(rules.filter(|_| pick(&[0, 1]) == 1).map(str::to_owned));
        // One NIC is slower, or later, than the others.
        match pick(&[0, 1, 2, 3]) {
            0 => plan.push(format!("delay nic={} uniform=10us..300us", pick(&[0, 1]))),
            1 => plan.push(format!("speed nic={} rate=1Gbps", pick(&[0, 1]))),
            _ => {}
        }
        (run, plan.join("; "))
    }
}

/// One step of `splitmix64`.
const fn mix(value: u64) -> u64 {
    let z = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// How many seeds to run.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    from: u64,
    count: u64,
    minutes: u64,
}

impl Asked {
    fn read(options: &[&str]) -> Result<Self> {
        let mut asked = Self {
            from: 1,
            count: u64::MAX,
            minutes: 10,
        };
        for pair in options.chunks(2) {
            let [name, value] = pair else {
                bail!("{} needs a number", pair[0]);
            };
            let place = match *name {
                "--from" => &mut asked.from,
                "--count" => &mut asked.count,
                "--minutes" => &mut asked.minutes,
                other => bail!("no such option: {other}; --from SEED --count N --minutes M"),
            };
            *place = value
                .parse()
                .with_context(|| format!("{name} {value}: not a number"))?;
        }
        Ok(asked)
    }
}

/// The command `seeds`: the runs of many seeds on every libfabric in turn, until one fails.
pub(crate) fn run(here: &Workspace, options: &[&str]) -> Result<()> {
    let asked = Asked::read(options)?;
    let report = setup::prepare(here, Extent::System);
    report.any()?;
    let libfabrics = &report.found;
    let built = artifacts::build(here, Profile::Release)?;
    let log_path = here.target.join("seeds.log");
    let start = Instant::now();
    let limit = Duration::from_secs(60 * asked.minutes);
    let mut done = 0;
    for seed in asked.from.. {
        if done == asked.count || start.elapsed() >= limit {
            break;
        }
        let (run, plan) = Emulated::drawn(seed);
        let turn = usize::try_from(seed).unwrap_or(0) % libfabrics.len();
        let program = run.with_plan(&plan, &libfabrics[turn], &built, seed);
        let log = std::fs::File::create(&log_path)?;
        let ended = program.limit(Duration::from_secs(300)).run_into(&log)?;
        if ended != Ended::Well {
            print!("{}", std::fs::read_to_string(&log_path)?);
            bail!(
                "seed {seed} failed: {ended:?}\n  again: cargo xtask seeds --from {seed} --count 1"
            );
        }
        done += 1;
        if done % 50 == 0 {
            println!("seeds {} to {seed}: all well", asked.from);
        }
    }
    println!(
        "{done} seeds from {} on {} libfabrics in {} s: every byte right, nothing left open",
        asked.from,
        libfabrics.len(),
        start.elapsed().as_secs()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Asked, EMULATED, Emulated};

    #[test]
    fn seeds_draw_different_runs_and_the_same_one_again() {
        let drawn: Vec<String> = (0..50)
            .map(|seed| format!("{:?}", Emulated::drawn(seed)))
            .collect();
        let mut different = drawn.clone();
        different.sort();
        different.dedup();
        assert!(different.len() > 40, "{}", different.len());
        assert_eq!(drawn[7], format!("{:?}", Emulated::drawn(7)));
        assert!(drawn.iter().any(|run| run.contains("SENDRECV")));
    }

    #[test]
    fn options_are_numbers() {
        let asked = Asked::read(&["--from", "7", "--count", "1"]).unwrap();
        assert_eq!((asked.from, asked.count, asked.minutes), (7, 1, 10));
        for bad in [&["--count"][..], &["--count", "x"], &["--cuont", "1"]] {
            assert!(Asked::read(bad).is_err(), "{bad:?}");
        }
    }

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
