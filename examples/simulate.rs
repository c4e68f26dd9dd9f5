//! Hosts that run the protocol engine on a virtual network, from one seed:
//! `cargo run -p examples --bin simulate -- [SEED [MESSAGES]]`.
//!
//! The seed decides everything: hosts, rails, sizes, order, faults. Every byte is compared, every
//! promise of the engine is held against what really happened. A failure is one line that replays it.
#![expect(clippy::print_stdout, reason = "a program for a terminal")]

use anyhow::{Context as _, Result, bail};
use ofi_sim::{Sim, SimConfig};

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let mut number = |name: &'static str, default: u64| {
        let parsed = args.next().map_or(Ok(default), |text| text.parse());
        parsed.with_context(|| format!("{name} is a number from 0 on"))
    };
    let seed = number("SEED", 1)?;
    let config = SimConfig::random(seed, number("MESSAGES", 2_000)?);
    println!("configuration  {config}");

    let report = match Sim::new(config)?.run() {
        Ok(report) => report,
        Err(failure) => bail!("{failure:#}"),
    };
    println!("report         {report}");
    let [connecting, cap, waiting, busy] = report.not_now;
    let behind = waiting + busy;
    println!("not now        {connecting} connecting, {cap} at the cap, {behind} behind EAGAIN");
    println!(
        "fingerprint    {:#018x}: the same for the same seed",
        report.fingerprint
    );
    Ok(())
}
