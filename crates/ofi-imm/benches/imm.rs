//! The immediate word: encoding, and decoding with every check, in all three layouts; against shifts written
//! by hand, `bitfield-struct` and `modular-bitfield`.

mod contenders;

use core::hint::black_box;

use contenders::{by_hand, fields, modular};
use ofi_bench::Board;
use ofi_imm::{
    CommId, Id, Idx, Nseg4Comm18Seq10, Nseg4Recv3Comm15Seq10, Rkey36, Rkey36Comm18Seq10, SegCount,
    Seq,
};

/// Parts as a caller has them: plain numbers, some of them out of range for all the compiler knows.
const NSEG: u8 = 4;
const COMM: u32 = 0x2ABC;
const SEQ: u16 = 0x155;
const RECV: u8 = 5;
const KEY: u64 = 0x9_1234_5678;

fn encode(nseg: u8, comm: u32, seq: u16) -> Option<u32> {
    let (nseg, comm) = (SegCount::new(nseg)?, CommId::new(comm)?);
    Some(Nseg4Comm18Seq10::encode(nseg, comm, Seq::new(seq)?))
}

/// What a receiver looks at: the word must be whole, and the count not 0.
fn decode(data: u64) -> Option<(u8, u32, u16)> {
    let word = Nseg4Comm18Seq10::from_cq_data(data, 4).ok()?;
    let fields = Nseg4Comm18Seq10::decode(word);
    let nseg = fields.seg_count()?.get();
    Some((nseg, fields.comm.get(), fields.seq.get()))
}

fn base(board: &mut Board) {
    // One by one: a tuple would be stored whole and loaded in parts, which stalls.
    let parts = || (black_box(NSEG), black_box(COMM), black_box(SEQ));
    board
        .group("imm nseg4 comm18 seq10, encode with checks")
        .with("ofi-imm", || {
            let (nseg, comm, seq) = parts();
            black_box(encode(nseg, comm, seq));
        })
        .with("by hand", || {
            let (nseg, comm, seq) = parts();
            black_box(by_hand::encode(nseg, comm, seq));
        })
        .with("bitfield-struct", || {
            let (nseg, comm, seq) = parts();
            black_box(fields::encode(nseg, comm, seq));
        })
        .with("modular-bitfield", || {
            let (nseg, comm, seq) = parts();
            black_box(modular::encode(nseg, comm, seq));
        })
        .run();
    let data = u64::from(by_hand::encode(NSEG, COMM, SEQ).unwrap_or(0));
    board
        .group("imm nseg4 comm18 seq10, decode with checks")
        .with("ofi-imm", || {
            black_box(decode(black_box(data)));
        })
        .with("by hand", || {
            black_box(by_hand::decode(black_box(data)));
        })
        .with("bitfield-struct", || {
            black_box(fields::decode(black_box(data)));
        })
        .with("modular-bitfield", || {
            black_box(modular::decode(black_box(data)));
        })
        .run();
}

fn grouped(board: &mut Board) {
    let ours = |nseg: u8, recv: u8, comm: u32, seq: u16| {
        let (nseg, recv) = (SegCount::new(nseg)?, Idx::<3>::new(recv)?);
        let (comm, seq) = (Id::<15>::new(comm)?, Seq::new(seq)?);
        Some(Nseg4Recv3Comm15Seq10::encode(nseg, recv, comm, seq))
    };
    board
        .group("imm nseg4 recv3 comm15 seq10, there and back")
        .with("ofi-imm", || {
            let (nseg, recv, comm, seq) = (
                black_box(NSEG),
                black_box(RECV),
                black_box(COMM),
                black_box(SEQ),
            );
            let word = black_box(ours(nseg, recv, comm, seq)).unwrap_or(0);
            black_box(Nseg4Recv3Comm15Seq10::decode(word));
        })
        .with("by hand", || {
            let (nseg, recv, comm, seq) = (
                black_box(NSEG),
                black_box(RECV),
                black_box(COMM),
                black_box(SEQ),
            );
            let word = black_box(by_hand::encode_grouped(nseg, recv, comm, seq)).unwrap_or(0);
            black_box(by_hand::decode_grouped(word));
        })
        .run();
}

fn keyed(board: &mut Board) {
    let ours = |key: u64, comm: u32, seq: u16| {
        let (key, comm) = (Rkey36::new(key)?, CommId::new(comm)?);
        Some(Rkey36Comm18Seq10::encode(key, comm, Seq::new(seq)?))
    };
    board
        .group("imm rkey36 comm18 seq10, there and back")
        .with("ofi-imm", || {
            let (key, comm, seq) = (black_box(KEY), black_box(COMM), black_box(SEQ));
            let word = black_box(ours(key, comm, seq)).unwrap_or(0);
            black_box(Rkey36Comm18Seq10::decode(word));
        })
        .with("by hand", || {
            let (key, comm, seq) = (black_box(KEY), black_box(COMM), black_box(SEQ));
            let word = black_box(by_hand::encode_keyed(key, comm, seq)).unwrap_or(0);
            black_box(by_hand::decode_keyed(word));
        })
        .run();
}

fn main() {
    let mut board = Board::new("imm");
    // Who computes something else is no contender.
    let words = [
        encode(NSEG, COMM, SEQ),
        by_hand::encode(NSEG, COMM, SEQ),
        fields::encode(NSEG, COMM, SEQ),
        modular::encode(NSEG, COMM, SEQ),
    ];
    assert!(words.iter().all(|word| word.is_some() && *word == words[0]));
    base(&mut board);
    grouped(&mut board);
    keyed(&mut board);
    board.finish();
}
