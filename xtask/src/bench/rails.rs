//! Four rails against one, over emulated NICs of limited speed: what striping is for.
//!
//! A NIC of 2 Gb/s takes 67 ms for a message: the processors have nothing to do but to keep it busy, so that
//! the ratio holds on a busy machine, too.

use core::time::Duration;
use std::ffi::OsString;
use std::fs::{self, File};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::{Bench, forget};
use crate::artifacts::{self, Built, Profile};
use crate::libfabric::{self, Libfabric};
use crate::process::{Ended, Program};
use crate::{rails, settings};

/// The board, and its facts.
pub(super) const BOARD: &str = "rails";
pub(super) const GAIN: &str = "bandwidth of 4 rails over 1 rail, 16 MiB, NICs of 2 Gb/s";
pub(super) const UNEVEN: &str = "most over least bytes of a rail, 4 rails, 16 MiB";

const FEW: usize = 1;
const MANY: usize = 4;
const SPEED: &str = "speed rate=2Gbps";
const LIMIT: Duration = Duration::from_secs(60);

/// Gigabytes a second, and the bytes out of each NIC of the sender.
type Measured = (f64, Vec<u64>);

pub(super) fn run(bench: &Bench<'_>) -> Result<()> {
    let file = bench.out.join(format!("{BOARD}.json"));
    forget(&file)?;
    let built = artifacts::build(bench.here, Profile::Release)?;
    let all = libfabric::all(bench.here);
    let Some(newest) = all.last() else {
        println!("bench: no libfabric, so that rails are not compared: cargo xtask setup");
        return Ok(());
    };
    let rounds = if bench.is_quick { 1 } else { 3 };
    let (mut gains, mut uneven) = (Vec::new(), 1.0_f64);
    for _ in 0..rounds {
        let (few, _) = measure(bench, newest, &built, FEW)?;
        let (many, bytes) = measure(bench, newest, &built, MANY)?;
        gains.push(many / few);
        let (least, most) = (bytes.iter().min(), bytes.iter().max());
        let (least, most) = least.zip(most).context("no NIC carried bytes")?;
        uneven = uneven.max(*most as f64 / *least as f64);
    }
    gains.sort_by(f64::total_cmp);
    let gain = gains[gains.len() / 2];
    println!("bench: {GAIN}: {gain:.2}; {UNEVEN}: {uneven:.4}");
    let fact = |name: &str, value: f64| json!({"name": name, "value": value, "unit": "times"});
    let facts = [fact(GAIN, gain), fact(UNEVEN, uneven)];
    let board = json!({"board": BOARD, "groups": [], "facts": facts});
    fs::write(&file, board.to_string()).with_context(|| file.display().to_string())
}

fn measure(
    bench: &Bench<'_>,
    libfabric: &Libfabric,
    built: &Built,
    nics: usize,
) -> Result<Measured> {
    let rows = bench.here.target.join("bench-rails.json");
    let log = bench.here.target.join("bench-rails.log");
    let program = program(libfabric, built, (nics, rows.clone().into_os_string()));
    let ended = program.limit(LIMIT).run_into(&File::create(&log)?)?;
    let said = fs::read_to_string(&log)?;
    ensure!(ended == Ended::Well, "{said}");
    let rows: Value = serde_json::from_str(&fs::read_to_string(&rows)?)?;
    let speed = rows["rows"][0]["bus_gbps"].as_f64();
    // The sender has sent by far the most.
    let processes = rails::sent(&said, nics).into_iter();
    let sender = processes.max_by_key(|bytes| bytes.iter().sum::<u64>());
    speed.zip(sender).with_context(|| said)
}

fn program(libfabric: &Libfabric, built: &Built, (nics, json): (usize, OsString)) -> Program {
    // As many messages on each rail.
    let messages = (12 * nics).to_string();
    let names: Vec<String> = (4..4 + nics).map(|n| format!("rdmap0s{n}")).collect();
    let program = Program::new(&built.ofi)
        .args(["emu", "--strict", "--numbers", "--seed", "1"])
        .args(["--shape", &format!("custom:nics={nics}"), "--plan", SPEED])
        .args(["--".as_ref(), built.ofi.as_os_str()])
        .args(["perf", "bw", "--sizes", "16M", "--window", "4"])
        .args(["--pool", "128M", "--iters", &messages])
        .args(["--plugin".as_ref(), built.nccl.as_os_str()])
        .args(["--json".into(), json])
        .env("OFI_NCCL_NIC_GROUPS", names.join(","))
        .env("OFI_NCCL_PROTOCOL", "RDMA");
    let environment = settings::environment(libfabric).into_iter();
    environment.fold(program, |program, (name, value)| program.env(name, value))
}
