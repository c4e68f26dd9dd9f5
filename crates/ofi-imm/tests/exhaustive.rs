//! All 2^32 words of each 32-bit layout, against shifts written out by hand.
//!
//! Some seconds in release, minutes without optimisation: `cargo test --release -p ofi-imm`.

use ofi_imm::{
    CommId, Id, Nseg4Comm18Seq10, Nseg4Recv3Comm15Seq10, NsegCommSeq, RecvIdx, SegCount, Seq,
    SerialSeq,
};

type Tiny = NsegCommSeq<4, 7, 18, 3>;

#[test]
#[cfg_attr(debug_assertions, ignore = "2^32 words: run with --release")]
fn every_word_of_the_engine_layout() {
    for word in 0..=u32::MAX {
        let fields = Nseg4Comm18Seq10::decode(word);
        assert_eq!(u32::from(fields.nseg), word >> 28);
        assert_eq!(fields.comm.get(), (word >> 10) & 0x3_FFFF);
        assert_eq!(u32::from(fields.seq.get()), word & 0x3FF);
        assert_eq!(Nseg4Comm18Seq10::to_word(fields), word);
        // Through the checked constructors, as a sender builds it.
        let comm = CommId::new(fields.comm.get()).unwrap();
        let seq = Seq::new(fields.seq.get()).unwrap();
        let built = fields
            .seg_count()
            .map(|nseg| Nseg4Comm18Seq10::encode(nseg, comm, seq));
        assert_eq!(built, (word >= 1 << 28).then_some(word));
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "2^32 words: run with --release")]
fn every_word_of_the_grouped_layout() {
    for word in 0..=u32::MAX {
        let fields = Nseg4Recv3Comm15Seq10::decode(word);
        assert_eq!(u32::from(fields.nseg), word >> 28);
        assert_eq!(u32::from(fields.recv.get()), (word >> 25) & 7);
        assert_eq!(fields.comm.get(), (word >> 10) & 0x7FFF);
        assert_eq!(u32::from(fields.seq.get()), word & 0x3FF);
        assert_eq!(Nseg4Recv3Comm15Seq10::to_word(fields), word);
        let recv = RecvIdx::new(fields.recv.get()).unwrap();
        let comm = Id::new(fields.comm.get()).unwrap();
        let seq = Seq::new(fields.seq.get()).unwrap();
        let encode = |nseg: SegCount| Nseg4Recv3Comm15Seq10::encode(nseg, recv, comm, seq);
        let built = SegCount::new(fields.nseg).map(encode);
        assert_eq!(built, (word >= 1 << 28).then_some(word));
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "2^32 words: run with --release")]
fn every_word_of_a_layout_with_spare_bits() {
    for word in 0..=u32::MAX {
        let fields = Tiny::decode(word);
        assert_eq!(u32::from(fields.nseg), word >> 28);
        assert_eq!(Tiny::spare(word), (word >> 21) & 0x7F);
        assert_eq!(fields.comm.get(), (word >> 3) & 0x3_FFFF);
        assert_eq!(u32::from(fields.seq.get()), word & 7);
        assert_eq!(Tiny::to_word(fields), word & !(0x7F << 21));
        assert_eq!(SerialSeq::new(fields.seq.get()), Some(fields.seq));
    }
}
