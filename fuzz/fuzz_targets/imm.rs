//! Any word decodes, and encodes back to itself; what a narrow provider would cut is refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ofi_imm::{Nseg4Comm18Seq10, Nseg4Recv3Comm15Seq10, Rkey36Comm18Seq10};

fuzz_target!(|input: (u64, u8)| {
    let (wide, bytes) = input;
    let word = wide as u32;
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
});
