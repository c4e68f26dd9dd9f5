//! Counts instructions: one case a run, under callgrind, which counts only inside `measured`; the program prints how
//! many operations those were. `cargo xtask hot` does that, and takes the case `frame` off.

#![expect(clippy::print_stdout, reason = "this is the report")]
#![expect(clippy::unwrap_used, reason = "a measurement that is wrong should end")]

use core::hint::black_box;
use ofi_imm::{CommId, Nseg4Comm18Seq10 as Imm, SegCount, Seq};

const ROUNDS: u64 = 10_000;

/// The part of a run that is counted.
#[inline(never)]
fn measured(work: impl FnOnce()) {
    work();
}

type Parts = (SegCount, CommId, Seq);

/// Parts in, a word out and in again, parts out: `there` and `back` decide what is done between.
#[inline(always)]
fn rounds(there: impl Fn(Parts) -> u32, back: impl Fn(u64) -> Option<Out>) {
    let parts = (
        SegCount::new(4).unwrap(),
        CommId::new(0x2ABCD).unwrap(),
        Seq::new(0x155).unwrap(),
    );
    measured(|| {
        for _ in 0..ROUNDS {
            let (nseg, comm, seq) = parts;
            let parts = (black_box(nseg), black_box(comm), black_box(seq));
            let data = black_box(u64::from(there(parts)));
            if let Some((nseg, comm, seq)) = back(data) {
                black_box(nseg);
                black_box(comm);
                black_box(seq);
            }
        }
    });
}

type Out = (u8, u32, u16);

fn frame() {
    rounds(|_| 0x4AAF_3555, |_| Some((4, 0x2ABCD, 0x155)));
}

fn ours() {
    let back = |data: u64| {
        let word = Imm::from_cq_data(data, 4).ok()?;
        let nseg = Imm::seg_count(word)?.get();
        Some((nseg, Imm::comm(word).get(), Imm::seq(word).get()))
    };
    rounds(|(nseg, comm, seq)| Imm::encode(nseg, comm, seq), back);
}

/// What one would write without the crate.
fn by_hand() {
    let low = |word: u32| word.to_le_bytes();
    let there = |(nseg, comm, seq): Parts| {
        u32::from(nseg.get()) << 28 | comm.get() << 10 | u32::from(seq.get())
    };
    let back = |data: u64| {
        let [a, b, c, d, ..] = data.to_le_bytes();
        let word = u32::from_le_bytes([a, b, c, d]);
        let nseg = low(word >> 28)[0];
        let [a, b, ..] = low(word & 0x3FF);
        (nseg != 0).then_some((nseg, word >> 10 & 0x3_FFFF, u16::from_le_bytes([a, b])))
    };
    rounds(there, back);
}

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("frame") => frame(),
        Some("imm") => ours(),
        Some("imm_hand") => by_hand(),
        _ => {
            println!("frame\nimm\nimm_hand");
            return;
        }
    }
    println!("{ROUNDS}");
}
