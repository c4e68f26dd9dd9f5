//! The same words by other means, with the same checks.

/// Shifts and masks, as one writes them in C.
pub(crate) mod by_hand {
    pub(crate) fn encode(nseg: u8, comm: u32, seq: u16) -> Option<u32> {
        if nseg == 0 || nseg > 15 || comm > 0x3_FFFF || seq > 0x3FF {
            return None;
        }
        Some(u32::from(nseg) << 28 | comm << 10 | u32::from(seq))
    }

    pub(crate) fn decode(data: u64) -> Option<(u8, u32, u16)> {
        let word = low_word(data);
        let nseg = super::low_byte(word >> 28);
        let seq = super::low_half(word & 0x3FF);
        (nseg != 0).then_some((nseg, word >> 10 & 0x3_FFFF, seq))
    }

    pub(crate) fn encode_grouped(nseg: u8, recv: u8, comm: u32, seq: u16) -> Option<u32> {
        if nseg == 0 || nseg > 15 || recv > 7 || comm > 0x7FFF || seq > 0x3FF {
            return None;
        }
        Some(u32::from(nseg) << 28 | u32::from(recv) << 25 | comm << 10 | u32::from(seq))
    }

    pub(crate) fn decode_grouped(word: u32) -> (u8, u8, u32, u16) {
        let nseg = super::low_byte(word >> 28);
        let recv = super::low_byte(word >> 25 & 7);
        (
            nseg,
            recv,
            word >> 10 & 0x7FFF,
            super::low_half(word & 0x3FF),
        )
    }

    pub(crate) fn encode_keyed(key: u64, comm: u32, seq: u16) -> Option<u64> {
        if key >= 1 << 36 || comm > 0x3_FFFF || seq > 0x3FF {
            return None;
        }
        Some(key << 28 | u64::from(comm) << 10 | u64::from(seq))
    }

    pub(crate) fn decode_keyed(word: u64) -> (u64, u32, u16) {
        let low = low_word(word);
        (
            word >> 28,
            low >> 10 & 0x3_FFFF,
            super::low_half(low & 0x3FF),
        )
    }

    fn low_word(data: u64) -> u32 {
        let [a, b, c, d, ..] = data.to_le_bytes();
        u32::from_le_bytes([a, b, c, d])
    }
}

/// `bitfield-struct`.
pub(crate) mod fields {
    use bitfield_struct::bitfield;

    #[bitfield(u32)]
    struct Word {
        #[bits(10)]
        seq: u16,
        #[bits(18)]
        comm: u32,
        #[bits(4)]
        nseg: u8,
    }

    pub(crate) fn encode(nseg: u8, comm: u32, seq: u16) -> Option<u32> {
        let word = Word::new().with_seq_checked(seq).ok()?;
        let word = word.with_comm_checked(comm).ok()?;
        let word = word.with_nseg_checked(nseg).ok()?;
        (nseg != 0).then(|| word.into_bits())
    }

    pub(crate) fn decode(data: u64) -> Option<(u8, u32, u16)> {
        let [a, b, c, d, ..] = data.to_le_bytes();
        let word = Word::from_bits(u32::from_le_bytes([a, b, c, d]));
        (word.nseg() != 0).then(|| (word.nseg(), word.comm(), word.seq()))
    }
}

/// `modular-bitfield`.
#[expect(unreachable_pub, reason = "what the macro writes is pub")]
pub(crate) mod modular {
    use modular_bitfield::prelude::{B4, B10, B18, bitfield};

    #[bitfield]
    struct Word {
        seq: B10,
        comm: B18,
        nseg: B4,
    }

    pub(crate) fn encode(nseg: u8, comm: u32, seq: u16) -> Option<u32> {
        let word = Word::new().with_seq_checked(seq).ok()?;
        let word = word.with_comm_checked(comm).ok()?;
        let word = word.with_nseg_checked(nseg).ok()?;
        (nseg != 0).then(|| u32::from_le_bytes(word.into_bytes()))
    }

    pub(crate) fn decode(data: u64) -> Option<(u8, u32, u16)> {
        let [a, b, c, d, ..] = data.to_le_bytes();
        let word = Word::from_bytes([a, b, c, d]);
        (word.nseg() != 0).then(|| (word.nseg(), word.comm(), word.seq()))
    }
}

fn low_byte(word: u32) -> u8 {
    word.to_le_bytes()[0]
}

fn low_half(word: u32) -> u16 {
    let [a, b, ..] = word.to_le_bytes();
    u16::from_le_bytes([a, b])
}
