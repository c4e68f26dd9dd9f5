//! How a message is cut over rails, and what its receiver is told about each piece:
//! `cargo run -p examples --bin schedule -- [BYTES [RAILS]]`.
//!
//! `ofi-sched` decides the stripes, `ofi-imm` makes the immediate that every write of them carries.
#![expect(clippy::print_stdout, reason = "a program for a terminal")]

use anyhow::{Context as _, Result};
use ofi_imm::{CommId, Nseg4Comm18Seq10 as Imm, SegCount, Seq};
use ofi_sched::{Config, Policy as _, RailCount, Threshold};

/// The immediate counts segments in four bits, and the wire has room for four rails.
const RAILS_MAX: u8 = 4;

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let bytes = args.next().map_or(Ok(1 << 20), |text| text.parse::<u64>());
    let bytes = bytes.context("BYTES is a number from 0 on")?;
    let rails = args.next().map_or(Ok(RAILS_MAX), |text| text.parse::<u8>());
    let rails = rails.ok().filter(|&rails| rails <= RAILS_MAX);
    let rails = rails.and_then(RailCount::new).context("RAILS is 1..=4")?;

    let mut policy = Threshold::new(Config::BASE)?;
    let comm = CommId::new(0x2ABCD).context("18 bits")?;
    // Three messages in a row: each goes on at the rail where the one before it ended.
    let mut seq = Seq::new(1023).context("10 bits")?;
    for _ in 0..3 {
        let plan = policy.plan(bytes, rails);
        let stripes = plan.stripe_count().get();
        let nseg = SegCount::new(stripes).context("1..=15 segments")?;
        let word = Imm::encode(nseg, comm, seq);
        println!(
            "message {seq} of communicator {comm}: {bytes} bytes, {stripes} writes, immediate {word:#010x}"
        );
        for stripe in plan.iter() {
            let end = stripe.offset + stripe.len;
            println!("  rail {}: bytes {}..{end}", stripe.rail, stripe.offset);
        }
        let told = Imm::decode(word);
        anyhow::ensure!(
            (told.seg_count(), told.comm, told.seq) == (Some(nseg), comm, seq),
            "{word:#x} does not say what was put in"
        );
        seq = seq.next();
    }
    Ok(())
}
