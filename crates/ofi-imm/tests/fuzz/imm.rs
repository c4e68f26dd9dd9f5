//! Any word decodes, and encodes back to itself; what a narrow provider would cut is refused.

use ofi_imm::{Nseg4Comm18Seq10, Nseg4Recv3Comm15Seq10, Rkey36Comm18Seq10};

pub(crate) fn check(input: &[u8]) {
    let Some((&bytes, rest)) = input.split_first() else {
        return;
    };
    let Some(&[a, b, c, d, e, f, g, h]) = rest.first_chunk() else {
        return;
    };
    let word = u32::from_le_bytes([a, b, c, d]);
    let wide = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
    assert_eq!(
        Nseg4Comm18Seq10::to_word(Nseg4Comm18Seq10::decode(word)),
        word
    );
    assert_eq!(
        Nseg4Recv3Comm15Seq10::to_word(Nseg4Recv3Comm15Seq10::decode(word)),
        word
    );
    assert_eq!(
        Rkey36Comm18Seq10::to_word(Rkey36Comm18Seq10::decode(wide)),
        wide
    );
    if let Ok(read) = Nseg4Comm18Seq10::from_cq_data(wide, bytes.into()) {
        assert_eq!(u64::from(read), wide & 0xffff_ffff);
    }
}
