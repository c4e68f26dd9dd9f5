//! Which NICs carry the bytes of each device, on emulated instances with nothing set: seen from outside, by
//! `ofi perf` and the numbers that the NICs themselves keep.

use core::ops::Range;
use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};

use crate::artifacts::{self, Built, Profile};
use crate::libfabric::Libfabric;
use crate::process::{Ended, Program};
use crate::settings;
use crate::setup::{self, Extent};
use crate::tables::{self, NEWEST_NCCL, Table, USUAL};
use crate::workspace::Workspace;

/// An instance, and what the reference makes of it (protocol 2h.3, 2h.5).
#[derive(Clone, Copy, Debug)]
struct Instance {
    /// What `ofi emu --shape` takes.
    shape: &'static str,
    tables: &'static [Table],
    nics: usize,
    devices: usize,
    /// NICs of a device, in the order of the shape: those of device 0 come first.
    rails: usize,
}

const fn gpus(shape: &'static str, nics: usize, (devices, rails): (usize, usize)) -> Instance {
    Instance {
        shape,
        tables: NEWEST_NCCL,
        nics,
        devices,
        rails,
    }
}

const fn neuron(shape: &'static str, nics: usize) -> Instance {
    Instance {
        tables: USUAL,
        ..gpus(shape, nics, (nics, 1))
    }
}

const INSTANCES: [Instance; 8] = [
    // SENDRECV of NCCL shows its NIC four times there (2h.5).
    gpus("p3dn", 1, (4, 1)),
    gpus("p4d", 4, (4, 1)),
    gpus("p5", 32, (8, 4)),
    gpus("p5en", 16, (8, 2)),
    gpus("g5", 1, (1, 1)),
    gpus("c5n", 1, (1, 1)),
    neuron("trn1", 8),
    neuron("trn2", 16),
];

/// Enough for stripes on every rail, and for few bytes in turn.
const CHECK: &[&str] = &[
    "check",
    "--check",
    "--messages",
    "600",
    "--max-size",
    "256K",
    "--no-pauses",
];

impl Instance {
    /// The NICs of a device, by number.
    fn nics_of(self, device: usize) -> Range<usize> {
        let first = device * self.rails % self.nics;
        first..first + self.rails
    }

    /// Messages of all sizes between two ranks over a device, or all of them.
    fn program(self, device: &str, libfabric: &Libfabric, built: &Built) -> Program {
        let program = Program::new(&built.ofi)
            .args(["emu", "--strict", "--numbers", "--seed", "1"])
            .args(["--shape", self.shape, "--plan", "", "--"])
            .args([built.ofi.as_os_str(), "perf".as_ref()])
            .args(CHECK)
            .args(tables::options(self.tables, built))
            .args(["--ranks", "2", "--seed", "1", "--devices", device]);
        let environment = settings::environment(libfabric);
        let with = |program: Program, (name, value)| program.env(name, value);
        environment.into_iter().fold(program, with)
    }
}

/// Bytes that went out of each NIC, in each process, as `ofi emu --numbers` prints them.
pub(crate) fn sent(said: &str, nics: usize) -> Vec<Vec<u64>> {
    let mut processes: Vec<Vec<u64>> = Vec::new();
    for line in said.lines() {
        if line.contains("process ") && line.contains("(pid ") {
            processes.push(vec![0; nics]);
        }
        let numbers = line.split_once("NIC ").and_then(|(_, rest)| {
            let (nic, numbers) = rest.split_once(": ")?;
            Some((nic.parse::<usize>().ok()?, numbers))
        });
        let Some((nic, numbers)) = numbers else {
            continue;
        };
        let mut all = numbers.split(", ");
        let bytes = all.find_map(|number| number.strip_prefix("bytes_out ")?.parse().ok());
        let last = processes
            .last_mut()
            .and_then(|process| process.get_mut(nic));
        if let Some(place) = last {
            *place = bytes.unwrap_or(0);
        }
    }
    processes.retain(|nics| nics.iter().any(|bytes| *bytes > 0));
    processes
}

/// How many times the bytes of one NIC another may carry. Messages take the NICs in turn, whatever their
/// size, and hundreds of random sizes even out.
const UNEVEN: u64 = 2;

/// What is wrong with where the bytes went: all over these NICs, and none left out.
fn fault(sent: &[u64], expected: &Range<usize>) -> Option<String> {
    let used: Vec<usize> = (0..sent.len()).filter(|&nic| sent[nic] > 0).collect();
    if used != expected.clone().collect::<Vec<_>>() {
        return Some(format!("NICs {used:?} carried bytes, not {expected:?}"));
    }
    let part = &sent[expected.clone()];
    let (least, most) = (part.iter().min()?, part.iter().max()?);
    (least * UNEVEN < *most).then(|| format!("one NIC carried {least} bytes, another {most}"))
}

/// The command: each device of each instance, on a libfabric that there is.
pub(crate) fn run(here: &Workspace, profile: Profile) -> Result<()> {
    let report = setup::prepare(here, Extent::System);
    let libfabric = report.any()?;
    let built = artifacts::build(here, profile)?;
    let log = here.target.join("rails.log");
    for instance in INSTANCES {
        check(
            instance,
            &Runs {
                libfabric,
                built: &built,
                log: &log,
            },
        )?;
    }
    Ok(())
}

/// What runs have in common.
struct Runs<'a> {
    libfabric: &'a Libfabric,
    built: &'a Built,
    log: &'a Path,
}

impl Runs<'_> {
    /// How it ended, and what it printed.
    fn run(&self, instance: Instance, device: &str) -> Result<(Ended, String, String)> {
        let program = instance.program(device, self.libfabric, self.built);
        let ended = program.run_into(&File::create(self.log)?)?;
        let said = fs::read_to_string(self.log).context("what a run printed")?;
        Ok((ended, said, program.line()))
    }
}

fn check(instance: Instance, runs: &Runs<'_>) -> Result<()> {
    let Instance {
        shape,
        nics,
        devices,
        rails,
        ..
    } = instance;
    for device in 0..devices {
        let (ended, said, line) = runs.run(instance, &device.to_string())?;
        ensure!(ended == Ended::Well, "{said}\n  again: {line}");
        let processes = sent(&said, nics);
        ensure!(
            processes.len() == 2,
            "{} ranks: {said}\n  again: {line}",
            processes.len()
        );
        let expected = instance.nics_of(device);
        let mut faults = processes.iter().filter_map(|sent| fault(sent, &expected));
        if let Some(fault) = faults.next() {
            bail!("{shape}, device {device}: {fault}\n{said}\n  again: {line}");
        }
    }
    let (ended, said, line) = runs.run(instance, &devices.to_string())?;
    ensure!(
        ended != Ended::Well,
        "{shape} has device {devices}\n{said}\n  again: {line}"
    );
    println!("{shape}: {devices} devices of {rails} NICs, each over its own and no other");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{INSTANCES, fault, sent};

    #[test]
    fn numbers_of_nics_are_read() {
        let said = "checked\nofi emu: process 0 (pid 7): 2 NICs, 9 operations\n  NIC 0: sends 3, bytes_out \
                    1536, again 2\n  NIC 2: reads 1\nofi emu: process 1 (pid 8): 0 NICs\nprocess 2 (pid 9): 1 \
                    NICs\n  NIC 1: bytes_out 7";
        assert_eq!(sent(said, 3), [[1536, 0, 0], [0, 7, 0]]);
    }

    #[test]
    fn bytes_elsewhere_or_uneven_are_faults() {
        assert_eq!(fault(&[0, 5, 6, 0], &(1..3)), None);
        assert!(fault(&[1, 5, 6, 0], &(1..3)).unwrap().contains("[0, 1, 2]"));
        assert!(fault(&[0, 5, 0, 0], &(1..3)).unwrap().contains("not 1..3"));
        assert_eq!(fault(&[0, 5, 10, 0], &(1..3)), None);
        assert!(fault(&[0, 5, 11, 0], &(1..3)).unwrap().contains("11"));
    }

    #[test]
    fn every_nic_is_of_a_device() {
        for instance in INSTANCES {
            let devices = (0..instance.devices).flat_map(|device| instance.nics_of(device));
            let mut nics: Vec<usize> = devices.collect();
            nics.dedup();
            assert_eq!(
                nics,
                (0..instance.nics).collect::<Vec<_>>(),
                "{}",
                instance.shape
            );
        }
    }
}
