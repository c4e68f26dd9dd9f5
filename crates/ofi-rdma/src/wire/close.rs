//! CLOSE, 24 bytes (protocol 2c.5).

use super::{DecodeError, MessageType, le_u32, le_u64, put};
use crate::limits::CLOSE_BYTES;

/// What a CLOSE says: the receiver is gone, and so many CTRLs were sent before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Close {
    /// CTRL messages whose send completed: all of them.
    pub ctrl_count: u64,
    /// The send communicator it is for.
    pub send_comm_id: u32,
}

impl Close {
    /// Writes the message; returns its length.
    pub fn encode(&self, out: &mut [u8]) -> usize {
        if let Some(out) = out.get_mut(..CLOSE_BYTES) {
            out.fill(0);
        }
        put(out, 0, (MessageType::Close as u16).to_le_bytes());
        put(out, 8, self.ctrl_count.to_le_bytes());
        put(out, 16, self.send_comm_id.to_le_bytes());
        CLOSE_BYTES
    }

    /// Reads the message.
    ///
    /// # Errors
    /// A length other than 24, another type.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        if bytes.len() != CLOSE_BYTES {
            return Err(DecodeError::Length { len: bytes.len() });
        }
        match MessageType::of(bytes) {
            Ok(MessageType::Close) => Ok(Self {
                ctrl_count: le_u64(bytes, 8),
                send_comm_id: le_u32(bytes, 16),
            }),
            Ok(other) => Err(DecodeError::Type(other as u8)),
            Err(other) => Err(DecodeError::Type(other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden() {
        let close = Close {
            ctrl_count: 0x1122_3344_5566_7788,
            send_comm_id: 0x33333,
        };
        let mut out = [0xFF; CLOSE_BYTES];
        assert_eq!(close.encode(&mut out), CLOSE_BYTES);
        let golden = [
            4, 0, 0, 0, 0, 0, 0, 0, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0x33, 0x33, 3,
            0, 0, 0, 0, 0,
        ];
        assert_eq!(out, golden);
        assert_eq!(Close::decode(&out), Ok(close));
        assert_eq!(
            Close::decode(&out[..23]),
            Err(DecodeError::Length { len: 23 })
        );
        out[0] = 2;
        assert_eq!(Close::decode(&out), Err(DecodeError::Type(2)));
    }
}
