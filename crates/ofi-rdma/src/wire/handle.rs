//! The out-of-band handle, 88 bytes inside the caller's buffer (protocol 2b).

use super::{le_u32, put};
use crate::limits::EP_NAME_BYTES;

/// Bytes of the handle that are ours.
pub const HANDLE_BYTES: usize = 88;

/// Bytes of the handle that a 64-byte (v4) buffer carries: name, id, pad.
pub const HANDLE_WIRE_BYTES: usize = 64;

/// Where the caller's copy keeps the connect state (decision 30).
pub const STATE_OFFSET: usize = 64;

/// Bytes of that state.
pub const STATE_BYTES: usize = HANDLE_BYTES - STATE_OFFSET;

/// What a handle says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle {
    /// Address of the listener's control rail 0, zero padded; its length is the provider's.
    pub name: [u8; EP_NAME_BYTES],
    /// Id of the listener.
    pub comm_id: u32,
}

impl Handle {
    /// Writes name, id and zeroed state; of a shorter buffer only what fits. Nothing beyond byte 88
    /// is touched.
    pub fn encode(&self, out: &mut [u8]) {
        let ours = out.len().min(HANDLE_BYTES);
        if let Some(out) = out.get_mut(..ours) {
            out.fill(0);
        }
        put(out, 0, self.name);
        put(out, EP_NAME_BYTES, self.comm_id.to_le_bytes());
    }

    /// Reads name and id; `None` when the buffer has not even the 64 bytes of v4.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..HANDLE_WIRE_BYTES)?;
        Some(Self {
            name: *bytes.first_chunk()?,
            comm_id: le_u32(bytes, EP_NAME_BYTES),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_and_untouched_tail() {
        let mut name = [0; EP_NAME_BYTES];
        name[..3].copy_from_slice(&[1, 2, 3]);
        let handle = Handle {
            name,
            comm_id: 0x0102_0304,
        };
        let mut buffer = [0xEE; 128];
        handle.encode(&mut buffer);
        assert_eq!(buffer[..4], [1, 2, 3, 0]);
        assert_eq!(buffer[56..60], [4, 3, 2, 1]);
        assert!(buffer[60..88].iter().all(|&b| b == 0));
        assert!(
            buffer[88..].iter().all(|&b| b == 0xEE),
            "bytes 88..128 stay the caller's"
        );
        assert_eq!(Handle::decode(&buffer), Some(handle));
    }

    #[test]
    fn v4_has_64_bytes() {
        let handle = Handle {
            name: [7; EP_NAME_BYTES],
            comm_id: 9,
        };
        let mut buffer = [0xEE; 64];
        handle.encode(&mut buffer);
        assert_eq!(Handle::decode(&buffer), Some(handle));
        assert_eq!(Handle::decode(&buffer[..63]), None);
    }
}
