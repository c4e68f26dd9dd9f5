//! Laws that hold for every layout, and serial arithmetic against plain integers.

use ofi_imm::{
    Id, Key, Layout, Nseg4Comm18Seq10, Nseg4Recv3Comm15Seq10, NsegCommSeq, NsegRecvCommSeq,
    Rkey36Comm18Seq10, RkeyCommSeq, Segs, Seq, SerialSeq,
};
use proptest::prelude::{ProptestConfig, any, proptest};

/// The laws of [`Layout`] for one word without spare bits.
fn obeys_the_laws<L: Layout>(word: L::Word, above: u64) {
    let same = |other: L::Word| assert!(other == word, "round trip");
    same(L::to_word(L::decode(word)));
    for size in 0..10 {
        match L::to_cq_data(word, size) {
            Ok(data) => {
                assert!(size >= L::SHAPE.bytes());
                assert_eq!(data, word.into());
                same(L::from_cq_data(data, size).expect("carried whole"));
                foreign_bits_show::<L>(data, above, size);
            }
            Err(_) => {
                assert!(size < L::SHAPE.bytes());
                assert!(L::from_cq_data(word.into(), size).is_err());
            }
        }
    }
}

/// Bits above the word are refused when the provider carried them, else ignored.
fn foreign_bits_show<L: Layout>(data: u64, above: u64, size: usize) {
    let foreign = above.checked_shl(L::SHAPE.bits()).unwrap_or(0);
    let carried = if size >= 8 {
        foreign
    } else {
        foreign & ((1 << (8 * size)) - 1)
    };
    assert_eq!(L::from_cq_data(data | foreign, size).is_ok(), carried == 0);
}

/// Every sum and difference modulo 2^`BITS`, compared with integers that do not wrap.
fn counts_modulo<const BITS: u32>(raw: u16, steps: u16, window: u16) {
    let modulus = 1u32 << BITS;
    let seq = SerialSeq::<BITS>::from_low_bits(u32::from(raw));
    assert_eq!(u32::from(seq.get()), u32::from(raw) % modulus);
    let later = seq.add(steps);
    assert_eq!(
        u32::from(later.get()),
        (u32::from(seq.get()) + u32::from(steps)) % modulus
    );
    assert_eq!(u32::from(later.distance(seq)), u32::from(steps) % modulus);
    assert_eq!(
        later.is_within(seq, window),
        u32::from(steps) % modulus < u32::from(window)
    );
    assert_eq!(seq.next(), seq.add(1));
    let back = seq.distance(later);
    assert_eq!(later.add(back), seq);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn shipped_layouts_obey_the_laws(word in any::<u64>(), above in any::<u64>()) {
        let low = u32::try_from(word >> 32).expect("half a word");
        obeys_the_laws::<Nseg4Comm18Seq10>(low, above);
        obeys_the_laws::<Nseg4Recv3Comm15Seq10>(low, above);
        obeys_the_laws::<Rkey36Comm18Seq10>(word, above);
    }

    #[test]
    fn layouts_of_ones_own_obey_the_laws(word in any::<u64>(), above in any::<u64>()) {
        let low = u32::try_from(word >> 32).expect("half a word");
        obeys_the_laws::<NsegCommSeq<4, 7, 18, 3>>(low & !(0x7F << 21), above);
        obeys_the_laws::<NsegCommSeq<8, 0, 8, 16>>(low, above);
        obeys_the_laws::<NsegCommSeq<1, 0, 30, 1>>(low, above);
        obeys_the_laws::<NsegRecvCommSeq<5, 8, 9, 10>>(low, above);
        obeys_the_laws::<RkeyCommSeq<16, 32, 16>>(word, above);
        obeys_the_laws::<RkeyCommSeq<62, 1, 1>>(word, above);
    }

    #[test]
    fn serial_numbers_count_modulo_their_width(
        raw in any::<u16>(), steps in any::<u16>(), window in any::<u16>(),
    ) {
        counts_modulo::<1>(raw, steps, window);
        counts_modulo::<3>(raw, steps, window);
        counts_modulo::<10>(raw, steps, window);
        counts_modulo::<16>(raw, steps, window);
    }

    #[test]
    fn constructors_accept_exactly_their_width(raw in any::<u64>(), shift in 0u32..64) {
        let raw = raw >> shift;
        if let Ok(id) = u32::try_from(raw) {
            assert_eq!(Id::<18>::new(id).map(Id::get), (id < 1 << 18).then_some(id));
            assert_eq!(Id::<18>::from_low_bits(id).get(), id % (1 << 18));
        }
        if let Ok(seq) = u16::try_from(raw) {
            assert_eq!(Seq::new(seq).map(Seq::get), (seq < 1024).then_some(seq));
        }
        if let Ok(nseg) = u8::try_from(raw) {
            let fits = (1..16).contains(&nseg);
            assert_eq!(Segs::<4>::new(nseg).map(Segs::get), fits.then_some(nseg));
        }
        assert_eq!(Key::<36>::new(raw).map(Key::get), (raw < 1 << 36).then_some(raw));
    }
}

#[test]
fn all_pairs_of_engine_sequences() {
    let all = (0..1024).map(|raw| Seq::new(raw).unwrap());
    for base in all.clone() {
        for (steps, seq) in all
            .clone()
            .cycle()
            .skip(base.index())
            .take(1024)
            .enumerate()
        {
            assert_eq!(usize::from(seq.distance(base)), steps);
            assert_eq!(seq.is_within(base, 256), steps < 256);
        }
    }
}
