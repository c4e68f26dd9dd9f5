//! Any number of runs on emulated EFAs, each drawn from a seed, until one goes wrong.

use core::time::Duration;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

use crate::artifacts::{self, Profile};
use crate::emulated::{Emulated, SHORT, STORM, rdma, sendrecv};
use crate::process::Ended;
use crate::setup::{self, Extent};
use crate::workspace::Workspace;

/// The command: the runs of many seeds, on the libfabrics in turn.
pub(crate) fn run(here: &Workspace, options: &[&str]) -> Result<()> {
    let asked = Asked::read(options)?;
    let report = setup::prepare(here, Extent::System);
    report.any()?;
    let libfabrics = &report.found;
    let built = artifacts::build(here, Profile::Release)?;
    let log_path = here.target.join("seeds.log");
    let start = Instant::now();
    let limit = Duration::from_secs(60 * asked.minutes);
    let (mut done, mut in_errors) = (0, 0);
    for seed in asked.from.. {
        if done == asked.count || start.elapsed() >= limit {
            break;
        }
        let (run, plan) = drawn(seed, asked.faults);
        let turn = usize::try_from(seed).unwrap_or(0) % libfabrics.len();
        let mut program = run.with_plan(&plan, &libfabrics[turn], &built, seed);
        if asked.faults {
            program = program
                .env("OFI_NCCL_STALL_FAIL", "3")
                .env("OFI_NCCL_CONNECT_TIMEOUT", "5");
        }
        let log = std::fs::File::create(&log_path)?;
        let ended = program.limit(LIMIT).run_into(&log)?;
        let said = std::fs::read_to_string(&log_path)?;
        if let Some(fault) = judge(ended, &said, &plan, asked.faults) {
            let faults = if asked.faults { " --faults" } else { "" };
            bail!(
                "{said}\nseed {seed}: {fault} ({ended:?})\n  again: cargo xtask seeds{faults} --from {seed} --count 1"
            );
        }
        done += 1;
        in_errors += u64::from(ended != Ended::Well);
        if done % 50 == 0 {
            println!("seeds {} to {seed}: all well", asked.from);
        }
    }
    println!(
        "{done} seeds from {} on {} libfabrics in {} s: {} with every byte right and nothing left open, {in_errors} with an error as it should be",
        asked.from,
        libfabrics.len(),
        start.elapsed().as_secs(),
        done - in_errors,
    );
    Ok(())
}

/// No run takes so long, errors included.
const LIMIT: Duration = Duration::from_secs(100);

/// What must not be said, whatever goes wrong below.
const NEVER: [&str; 9] = [
    "wrong data",
    "wrong size",
    "wrong result",
    "panicked",
    "OFI-E0313",
    "SIGSEGV",
    "SIGABRT",
    "SIGBUS",
    "SIGILL",
];

/// What a stall is told with, of messages and of connections: no reason where the provider told one.
const STALLS: [&str; 2] = ["OFI-E0602", "OFI-E0402"];

/// Faults that the provider tells, to the call or in the completion. A receive that fails is a warning: whose message
/// is lost is not known.
const TOLD: [&str; 5] = [
    "error code",
    "refuse errno",
    "nic-lost",
    "revoke",
    "mr-error",
];

/// Whether nothing but stalls was told of a plan that has the provider tell an error.
fn is_unheard(plan: &str, said: &str) -> bool {
    let errors = said.split("OFI-E0").skip(1);
    let is_stall = |rest: &str| {
        STALLS
            .iter()
            .any(|code| rest.starts_with(&code["OFI-E0".len()..]))
    };
    TOLD.iter().any(|verb| plan.starts_with(verb)) && errors.into_iter().all(is_stall)
}

/// What is wrong with how a run ended.
fn judge(ended: Ended, said: &str, plan: &str, faults: bool) -> Option<&'static str> {
    if NEVER.iter().any(|word| said.contains(word)) {
        return Some("it was worse than an error");
    }
    let has_reason = said.contains("OFI-E0") || said.contains("killed by its plan");
    match ended {
        Ended::Well if said.contains("all bytes verified") => None,
        Ended::Well => Some("it verified nothing"),
        Ended::OutOfTime(_) => Some("it did not end"),
        Ended::Badly(_) if !faults => Some("it failed"),
        Ended::Badly(_) if said.contains("left open") && said.contains("all bytes verified") => {
            Some("something was left open")
        }
        Ended::Badly(_) if !has_reason => Some("it failed and did not say why"),
        Ended::Badly(_) if is_unheard(plan, said) => Some("it stalled, and nobody had the error"),
        Ended::Badly(_) => None,
    }
}

/// The run of a seed, with its plan: any ranks, rails and protocol, any part of a storm, and a fault
/// if wanted.
fn drawn(seed: u64, faults: bool) -> (Emulated, String) {
    let mut chance = Chance { left: mix(seed) };
    let (ranks, rails) = (chance.of(&[2, 2, 2, 3, 4, 8]), chance.of(&[1, 2, 4]));
    let run = match chance.of(&[0, 0, 0, 1]) {
        0 => rdma("custom:nics=4", ranks, rails, "", SHORT),
        _ => sendrecv("custom:nics=4", ranks, "", SHORT),
    };
    let mut plan = vec![format!("reorder window={}", chance.of(&[0, 1, 8, 64]))];
    let rules = STORM.split("; ").skip(1);
    plan.extend(rules.filter(|_| chance.of(&[0, 1]) == 1).map(str::to_owned));
    // One NIC is slower, or later, than the others.
    let nic = chance.of(&[0, 1]);
    match chance.of(&[0, 1, 2, 3]) {
        0 => plan.push(format!("delay nic={nic} uniform=10us..300us")),
        1 => plan.push(format!("speed nic={nic} rate=1Gbps")),
        _ => {}
    }
    if faults {
        plan.insert(0, fault(&mut chance));
    }
    (run, plan.join("; "))
}

/// Something that goes wrong, somewhere in the life of a run.
fn fault(chance: &mut Chance) -> String {
    let verb = chance.of(&[
        "error code={code} lands=no",
        "error code={code} lands=yes",
        "error on=recv code={code}",
        "lose",
        "duplicate",
        "die",
        "mute",
        "nic-lost",
        "stop-polling",
        "stop-polling polls=1000",
        "refuse errno=EINVAL",
        "refuse on=recv errno=ENOMEM",
        "eagain burst=forever",
        "eagain on=recv burst=forever",
        "rnr tries=forever",
        "revoke after=0",
        "revoke after=3",
        "mr-error errno=EINVAL",
        "mr-limit errno=ENOMEM",
    ]);
    let code = chance.of(&[
        "flushed",
        "bad-lkey",
        "bad-rkey",
        "aborted",
        "bad-qpn",
        "bad-length",
        "unresponsive",
        "unknown-peer",
        "unreachable",
        "handshake-failed",
    ]);
    let magnitude = chance.of(&[3, 10, 30, 100, 300]);
    let at = 1 + chance.below(magnitude);
    let when = match verb {
        "mr-limit errno=ENOMEM" => format!("count={}", 4 * at),
        _ => format!("at={at}"),
    };
    let process = chance.of(&["process=0", "process=1", ""]);
    let nic = chance.of(&["nic=0", "nic=0-3"]);
    format!("{verb} {when} {process} {nic}; readerr busy=2").replace("{code}", code)
}

/// Numbers that follow from a seed.
struct Chance {
    left: u64,
}

impl Chance {
    /// Below `bound`, which is not 0.
    fn below(&mut self, bound: u64) -> u64 {
        let drawn = self.left % bound;
        self.left = mix(self.left);
        drawn
    }

    fn of<T: Copy>(&mut self, of: &[T]) -> T {
        let count = u64::try_from(of.len()).unwrap_or(1);
        let at = usize::try_from(self.below(count)).unwrap_or(0);
        of[at]
    }
}

/// One step of `splitmix64`.
const fn mix(value: u64) -> u64 {
    let z = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// What to run.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    faults: bool,
    from: u64,
    count: u64,
    minutes: u64,
}

impl Asked {
    fn read(options: &[&str]) -> Result<Self> {
        let mut asked = Self {
            faults: false,
            from: 1,
            count: u64::MAX,
            minutes: 10,
        };
        let mut options = options.iter();
        while let Some(name) = options.next() {
            let place = match *name {
                "--faults" => {
                    asked.faults = true;
                    continue;
                }
                "--from" => &mut asked.from,
                "--count" => &mut asked.count,
                "--minutes" => &mut asked.minutes,
                other => {
                    bail!("no such option: {other}; --faults --from SEED --count N --minutes M")
                }
            };
            let value = options
                .next()
                .with_context(|| format!("{name} needs a number"))?;
            *place = value
                .parse()
                .with_context(|| format!("{name} {value}: not a number"))?;
        }
        Ok(asked)
    }
}

#[cfg(test)]
mod tests {
    use super::{Asked, drawn, judge};
    use crate::process::Ended;
    use core::time::Duration;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;

    #[test]
    fn seeds_draw_different_runs_and_the_same_one_again() {
        for faults in [false, true] {
            let show = |seed| format!("{:?}", drawn(seed, faults));
            let all: Vec<String> = (0..50).map(show).collect();
            let mut different = all.clone();
            different.sort();
            different.dedup();
            assert!(different.len() > 40, "{}", different.len());
            assert_eq!(all[7], show(7));
            assert!(all.iter().any(|run| run.contains("SENDRECV")));
        }
        let (_, plan) = drawn(3, true);
        assert!(plan.contains("readerr") && !plan.contains('{'), "{plan}");
    }

    #[test]
    fn options_are_numbers() {
        let asked = Asked::read(&["--from", "7", "--faults", "--count", "1"]).unwrap();
        assert_eq!((asked.from, asked.count, asked.minutes), (7, 1, 10));
        assert!(asked.faults);
        for bad in [&["--count"][..], &["--count", "x"], &["--cuont", "1"]] {
            assert!(Asked::read(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_error_is_well_only_with_faults_and_a_reason() {
        let badly = Ended::Badly(ExitStatus::from_raw(256));
        let verified = "all bytes verified\nnothing was left open";
        let reason = "WARN OFI-E0601 an operation failed";
        for (ended, said, faults, is_well) in [
            (Ended::Well, verified, false, true),
            (Ended::Well, "", false, false),
            (badly, reason, false, false),
            (badly, reason, true, true),
            (badly, "no reason", true, false),
            (badly, "OFI-E0601, wrong data: message 3", true, false),
            (
                badly,
                "all bytes verified\nOFI-E0: process 0 left open: 2 regions",
                true,
                false,
            ),
            (Ended::OutOfTime(Duration::ZERO), reason, true, false),
        ] {
            let verdict = judge(ended, said, "die at=3", faults);
            assert_eq!(verdict.is_none(), is_well, "{said}: {verdict:?}");
        }
        let stalled = "WARN OFI-E0602 no progress; OFI-E0402 not in time";
        let both = &format!("{stalled}; {reason}");
        for (plan, said, is_well) in [
            ("lose at=3", stalled, true),
            ("error on=recv code=flushed at=3", stalled, true),
            ("error code=flushed at=3", stalled, false),
            ("error code=flushed at=3", both, true),
        ] {
            let verdict = judge(badly, said, plan, true);
            assert_eq!(verdict.is_none(), is_well, "{plan}, {said}: {verdict:?}");
        }
    }
}
