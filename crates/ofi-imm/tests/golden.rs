//! Golden words, bounds of the fields, and what is said when a word does not fit.

use ofi_imm::{
    CommId, CqDataError, Fields, Id, Nseg4Comm18Seq10 as Base, Nseg4Recv3Comm15Seq10 as Grouped,
    NsegCommSeq, RecvIdx, Rkey36, Rkey36Comm18Seq10 as Keyed, SegCount, Segs, Seq, SerialSeq,
};

/// The layout of the crate's documentation: a sequence that wraps at 8.
type Tiny = NsegCommSeq<4, 7, 18, 3>;

/// Everything is usable in constants: this is evaluated by the compiler.
const FIRST_WRITE: u32 = match CommId::new(1) {
    Some(comm) => Base::encode(SegCount::ONE, comm, Seq::ZERO),
    None => 0,
};

fn base(nseg: u8, comm: u32, seq: u16) -> u32 {
    let (nseg, comm, seq) = (SegCount::new(nseg), CommId::new(comm), Seq::new(seq));
    Base::encode(
        nseg.expect("1..=15"),
        comm.expect("18 bits"),
        seq.expect("10 bits"),
    )
}

#[test]
fn words_of_the_protocol_document() {
    // protocol 2c.1
    assert_eq!(base(4, 0x2ABCD, 0x155), 0x4AAF_3555);
    // protocol B2: one write to communicator 1, the first message; B3: the second, eager
    assert_eq!(FIRST_WRITE, 0x1000_0400);
    assert_eq!(base(1, 1, 1), 0x1000_0401);
}

#[test]
fn each_part_alone_stands_in_its_bits() {
    assert_eq!(base(15, 0, 0), 0xF000_0000);
    assert_eq!(base(1, 0x3_FFFF, 0) & !0xF000_0000, 0x0FFF_FC00);
    assert_eq!(base(1, 0, 0x3FF) & !0xF000_0000, 0x0000_03FF);
    let grouped = |recv, comm, seq| {
        let (recv, comm) = (RecvIdx::new(recv).unwrap(), Id::new(comm).unwrap());
        Grouped::encode(SegCount::ONE, recv, comm, Seq::new(seq).unwrap()) & !0xF000_0000
    };
    assert_eq!(grouped(7, 0, 0), 0x0E00_0000);
    assert_eq!(grouped(0, 0x7FFF, 0), 0x01FF_FC00);
    assert_eq!(grouped(0, 0, 0x3FF), 0x0000_03FF);
}

#[test]
fn the_keyed_word_is_the_formula() {
    let (rkey, comm, seq) = (0xF_EDCB_A987u64, 0x2ABCDu32, 0x155u16);
    let word = Keyed::encode(
        Rkey36::new(rkey).unwrap(),
        CommId::new(comm).unwrap(),
        Seq::new(seq).unwrap(),
    );
    assert_eq!(
        word,
        (rkey << 28) | (u64::from(comm) << 10) | u64::from(seq)
    );
    assert_eq!(word, 0xFEDC_BA98_7AAF_3555);
    let fields = Keyed::decode(word);
    assert_eq!(
        (fields.rkey.get(), fields.comm.get(), fields.seq.get()),
        (rkey, comm, seq)
    );
}

#[test]
fn decoding_gives_the_parts_back_and_tells_a_zero_count() {
    let fields = Base::decode(0x4AAF_3555);
    assert_eq!(
        (fields.nseg, fields.comm.get(), fields.seq.get()),
        (4, 0x2ABCD, 0x155)
    );
    assert_eq!(fields.seg_count(), SegCount::new(4));
    let none: Fields = Base::decode(0x0AAF_3555);
    assert_eq!((none.nseg, none.seg_count()), (0, None));
    assert_eq!(Grouped::decode(0x0000_0400).seg_count(), None);
}

#[test]
fn constructors_accept_exactly_what_fits() {
    let id = |raw| CommId::new(raw).map(CommId::get);
    let nseg = |raw| SegCount::new(raw).map(SegCount::get);
    let recv = |raw| RecvIdx::new(raw).map(RecvIdx::get);
    let seq = |raw| Seq::new(raw).map(Seq::get);
    let rkey = |raw| Rkey36::new(raw).map(Rkey36::get);
    assert_eq!(
        [id(0x3_FFFF), id(0x4_0000), id(u32::MAX)],
        [Some(0x3_FFFF), None, None]
    );
    assert_eq!(
        [nseg(0), nseg(1), nseg(15), nseg(16)],
        [None, Some(1), Some(15), None]
    );
    assert_eq!([recv(7), recv(8)], [Some(7), None]);
    assert_eq!([seq(1023), seq(1024)], [Some(1023), None]);
    assert_eq!(
        [rkey((1 << 36) - 1), rkey(1 << 36)],
        [Some((1 << 36) - 1), None]
    );
}

#[test]
fn the_widest_fields_hold_everything() {
    assert_eq!(Id::<32>::new(u32::MAX).map(Id::get), Some(u32::MAX));
    assert_eq!(Segs::<8>::new(255).map(Segs::get), Some(255));
    assert_eq!(
        SerialSeq::<16>::new(u16::MAX).map(SerialSeq::get),
        Some(u16::MAX)
    );
    assert_eq!(
        SerialSeq::<16>::new(u16::MAX).map(|last| last.next().get()),
        Some(0)
    );
}

#[test]
fn the_sentinel_is_accepted_and_recognised() {
    let sentinel = CommId::new(CommId::INVALID_RAW).unwrap();
    assert!(sentinel.is_sentinel());
    assert!(!CommId::new(CommId::INVALID_RAW - 1).unwrap().is_sentinel());
    assert_eq!(CommId::COUNT, 1 << 18);
    assert_eq!(sentinel.index(), 0x3_FFFF);
    assert_eq!(CommId::from_low_bits(u32::MAX), sentinel);
}

#[test]
fn spare_bits_are_written_as_zero_and_reported() {
    let word = Tiny::encode(
        Segs::ONE,
        CommId::new(5).unwrap(),
        SerialSeq::new(7).unwrap(),
    );
    assert_eq!((word, Tiny::spare(word)), (0x1000_002F, 0));
    let foreign = word | 0x55 << 21;
    assert_eq!(Tiny::spare(foreign), 0x55);
    assert_eq!(Tiny::decode(foreign), Tiny::decode(word));
    assert_eq!(Base::spare(u32::MAX), 0);
}

#[test]
fn fields_print_as_plain_numbers() {
    let fields = Base::decode(0x4AAF_3555);
    let printed = format!("{} {} {}", fields.comm, fields.seq, SegCount::ONE);
    assert_eq!(printed, "175053 341 1");
    assert_eq!(
        format!(
            "{:>4}|{:<3}|",
            Rkey36::new(9).unwrap(),
            RecvIdx::new(3).unwrap()
        ),
        "   9|3  |"
    );
}

#[test]
fn shapes_print_as_diagrams() {
    assert_eq!(Base::SHAPE.to_string(), "nseg:4 | comm_id:18 | seq:10");
    assert_eq!(
        Grouped::SHAPE.to_string(),
        "nseg:4 | recv_idx:3 | comm_id:15 | seq:10"
    );
    assert_eq!(Keyed::SHAPE.to_string(), "rkey:36 | comm_id:18 | seq:10");
    assert_eq!(
        Tiny::SHAPE.to_string(),
        "nseg:4 | spare:7 | comm_id:18 | seq:3"
    );
    assert_eq!((Base::SHAPE.bits(), Base::SHAPE.bytes()), (32, 4));
    let lowest = [0, 1, 2, 3, 4, usize::MAX].map(|part| Tiny::SHAPE.lowest_bit(part));
    assert_eq!(lowest, [28, 21, 3, 0, 0, 0]);
    assert_eq!((Keyed::SHAPE.bits(), Keyed::SHAPE.bytes()), (64, 8));
}

#[test]
fn wide_enough_providers_carry_the_word() {
    for size in [4, 5, 8, usize::MAX] {
        assert_eq!(Base::check_cq_data_size(size), Ok(()));
        assert_eq!(Base::to_cq_data(0x4AAF_3555, size), Ok(0x4AAF_3555));
        assert_eq!(Base::from_cq_data(0x4AAF_3555, size), Ok(0x4AAF_3555));
    }
    assert_eq!(Keyed::to_cq_data(u64::MAX, 8), Ok(u64::MAX));
    assert_eq!(Keyed::from_cq_data(u64::MAX, 8), Ok(u64::MAX));
}

#[test]
fn a_narrower_provider_is_told_what_it_would_cut() {
    assert_eq!(Base::truncated(0x4AAF_3555, 2), 0x3555);
    assert_eq!(Base::truncated(0x4AAF_3555, 0), 0);
    assert_eq!(Base::truncated(0x4AAF_3555, 4), 0x4AAF_3555);
    let error = Base::check_cq_data_size(3).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the immediate (nseg:4 | comm_id:18 | seq:10) needs 4 bytes of CQ data, the provider \
         carries 3 (domain_attr.cq_data_size); it would cut off nseg (4 of 4 bits) comm_id (4 of \
         18 bits). Choose a provider with wider CQ data, or a narrower layout",
    );
    assert_eq!(Base::to_cq_data(1, 3), Err(error));
    assert_eq!(Base::from_cq_data(1, 3), Err(error));
    // EFA's 4 bytes keep the lowest 4 bits of a 36-bit key.
    let keyed = Keyed::to_cq_data(1, 4).unwrap_err().to_string();
    assert!(
        keyed.contains("rkey (32 of 36 bits)") && !keyed.contains("comm_id ("),
        "{keyed}"
    );
    assert_eq!(Keyed::truncated(0xFEDC_BA98_7AAF_3555, 4), 0x7AAF_3555);
}

#[test]
fn a_word_of_another_layout_is_refused_where_it_shows() {
    // An 8-byte provider delivers the key of a 64-bit word: not the engine's.
    let error = Base::from_cq_data(0x1_4AAF_3555, 8).unwrap_err();
    let CqDataError::ForeignBits { shape, data } = error else {
        panic!("{error}")
    };
    assert_eq!((*shape, data), (Base::SHAPE, 0x1_4AAF_3555));
    assert!(
        error
            .to_string()
            .contains("0x14aaf3555 has bits above the 32"),
        "{error}"
    );
    // A 4-byte provider cannot have carried those bits: what stands there is not the peer's.
    assert_eq!(
        Base::from_cq_data(0xDEAD_BEEF_4AAF_3555, 4),
        Ok(0x4AAF_3555)
    );
    assert_eq!(
        Base::from_cq_data(0xFF00_0000_4AAF_3555, 7),
        Ok(0x4AAF_3555)
    );
    let error = Base::from_cq_data(0xDEAD_BEEF_4AAF_3555, 5).unwrap_err();
    assert!(
        error.to_string().contains("0xef4aaf3555"),
        "cut to 5 bytes: {error}"
    );
}
