//! CTRL: address and keys of a posted receive, receiver to sender (protocol 2c.4).

use super::{DecodeError, MessageType, le_u32, le_u64, put};
use crate::config::KeyWidth;
use crate::limits::{CTRL_BYTES_MAX, MAX_RAILS};

/// Bytes before the keys.
const HEAD_BYTES: usize = 16;

/// What a CTRL says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ctrl {
    /// The receiver asked for no completion: write without immediate.
    pub no_completion: bool,
    /// Sequence number of the message (10 bits).
    pub seq: u16,
    /// The *sender's* communicator id (trap 2).
    pub comm_id: u32,
    /// Bytes the receiver has room for.
    pub buff_len: u32,
    /// Where: virtual address or offset, as the provider of the receiver wants it.
    pub buff_addr: u64,
    /// Key of each data rail; the rest 0.
    pub keys: [u64; MAX_RAILS],
}

/// Bytes of a CTRL for `rails` rails.
#[must_use]
pub const fn ctrl_bytes(rails: u8, width: KeyWidth) -> usize {
    HEAD_BYTES + rails as usize * width.bytes()
}

impl Ctrl {
    /// Writes the message for `rails` rails; returns its length. Short keys are cut to 32 bits:
    /// the caller has checked them.
    pub fn encode(&self, rails: u8, width: KeyWidth, out: &mut [u8]) -> usize {
        let kind = if self.no_completion {
            MessageType::CtrlNoCompletion
        } else {
            MessageType::Ctrl
        };
        let word = kind as u32 | (u32::from(self.seq) & 0x3FF) << 4 | self.comm_id << 14;
        put(out, 0, word.to_le_bytes());
        put(out, 4, self.buff_len.to_le_bytes());
        put(out, 8, self.buff_addr.to_le_bytes());
        for (i, key) in self.keys.iter().take(usize::from(rails)).enumerate() {
            let key = key.to_le_bytes();
            match width {
                KeyWidth::Long => put(out, HEAD_BYTES + i * 8, key),
                KeyWidth::Short => put(out, HEAD_BYTES + i * 4, [key[0], key[1], key[2], key[3]]),
            }
        }
        ctrl_bytes(rails, width)
    }

    /// Reads a message from a peer with `rails` data rails, whichever key width it uses; returns
    /// that width beside the meaning, for the receiver to compare with its own.
    ///
    /// # Errors
    /// A length that neither width gives, another type.
    pub fn decode(bytes: &[u8], rails: u8) -> Result<(Self, KeyWidth), DecodeError> {
        let no_completion = match MessageType::of(bytes) {
            Ok(MessageType::Ctrl) => false,
            Ok(MessageType::CtrlNoCompletion) => true,
            Ok(other) => return Err(DecodeError::Type(other as u8)),
            Err(other) => return Err(DecodeError::Type(other)),
        };
        let len = bytes.len();
        let width = if len == ctrl_bytes(rails, KeyWidth::Short) {
            KeyWidth::Short
        } else if len == ctrl_bytes(rails, KeyWidth::Long) && len <= CTRL_BYTES_MAX {
            KeyWidth::Long
        } else {
            return Err(DecodeError::Length { len });
        };
        let word = le_u32(bytes, 0);
        let mut keys = [0; MAX_RAILS];
        for (i, key) in keys.iter_mut().take(usize::from(rails)).enumerate() {
            *key = match width {
                KeyWidth::Short => u64::from(le_u32(bytes, HEAD_BYTES + i * 4)),
                KeyWidth::Long => le_u64(bytes, HEAD_BYTES + i * 8),
            };
        }
        let ctrl = Self {
            no_completion,
            seq: (word >> 4 & 0x3FF) as u16,
            comm_id: word >> 14,
            buff_len: le_u32(bytes, 4),
            buff_addr: le_u64(bytes, 8),
            keys,
        };
        Ok((ctrl, width))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CTRL: Ctrl = Ctrl {
        no_completion: false,
        seq: 0x155,
        comm_id: 0x2ABCD,
        buff_len: 0x1122_3344,
        buff_addr: 0x0102_0304_0506_0708,
        keys: [0xA0A1_A2A3, 0, 0, 0xD0D1_D2D3],
    };

    #[test]
    fn golden_short_keys_four_rails() {
        let mut out = [0xFF; CTRL_BYTES_MAX];
        let golden = [
            0x52, 0x55, 0xf3, 0xaa, 0x44, 0x33, 0x22, 0x11, 8, 7, 6, 5, 4, 3, 2, 1, 0xa3, 0xa2,
            0xa1, 0xa0, 0, 0, 0, 0, 0, 0, 0, 0, 0xd3, 0xd2, 0xd1, 0xd0,
        ];
        assert_eq!(CTRL.encode(4, KeyWidth::Short, &mut out), 32);
        assert_eq!(out[..32], golden);
        assert_eq!(Ctrl::decode(&out[..32], 4), Ok((CTRL, KeyWidth::Short)));
    }

    #[test]
    fn lengths_of_each_kind() {
        let lens = |width| [1, 2, 3, 4].map(|rails| ctrl_bytes(rails, width));
        assert_eq!(lens(KeyWidth::Short), [20, 24, 28, 32]);
        assert_eq!(lens(KeyWidth::Long), [24, 32, 40, 48]);
    }

    #[test]
    fn no_completion_is_type_5() {
        let mut out = [0; CTRL_BYTES_MAX];
        let ctrl = Ctrl {
            no_completion: true,
            ..CTRL
        };
        let len = ctrl.encode(1, KeyWidth::Long, &mut out);
        assert_eq!((len, out[0]), (24, 0x55));
        let back = Ctrl {
            keys: [CTRL.keys[0], 0, 0, 0],
            ..ctrl
        };
        assert_eq!(Ctrl::decode(&out[..len], 1), Ok((back, KeyWidth::Long)));
    }

    proptest! {
        #[test]
        fn any_bytes_decode_or_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..64), rails in 1..=4u8) {
            if let Ok((ctrl, width)) = Ctrl::decode(&bytes, rails) {
                let mut out = [0; CTRL_BYTES_MAX];
                let len = ctrl.encode(rails, width, &mut out);
                prop_assert_eq!(&out[..len], &bytes[..]);
            }
        }
    }
}
