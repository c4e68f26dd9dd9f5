//! The bytes of control messages and of the connection handle: views of hostile bytes on one side,
//! meanings on the other. Every decoder is total.

pub mod capability;
pub mod close;
pub mod conn;
pub mod ctrl;
pub mod handle;
pub mod host;

/// Type of a control message: the low four bits of its first word (protocol 2c.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MessageType {
    /// Connection request.
    Conn = 0,
    /// Answer to it.
    ConnResp = 1,
    /// Address and keys of a receive.
    Ctrl = 2,
    /// The receiver closed.
    Close = 4,
    /// As [`MessageType::Ctrl`], and the receiver wants no completion.
    CtrlNoCompletion = 5,
}

impl MessageType {
    /// The type of a message, or the number that is none (15 for an empty message).
    ///
    /// # Errors
    /// The unknown number.
    pub fn of(bytes: &[u8]) -> Result<Self, u8> {
        match bytes.first().map_or(15, |b| b & 0xF) {
            0 => Ok(Self::Conn),
            1 => Ok(Self::ConnResp),
            2 => Ok(Self::Ctrl),
            4 => Ok(Self::Close),
            5 => Ok(Self::CtrlNoCompletion),
            other => Err(other),
        }
    }
}

/// Why bytes are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The length is not one the message can have.
    #[error("{len} bytes are not a length of this message")]
    Length {
        /// Bytes received.
        len: usize,
    },
    /// Another type of message.
    #[error("type {0} is not the type of this message")]
    Type(u8),
    /// A field has a value no peer sends.
    #[error("field {field} has the impossible value {value}")]
    Field {
        /// Name as in protocol 2c.
        field: &'static str,
        /// The value.
        value: u64,
    },
}

/// Little-endian field at `offset`; 0 where the bytes end (callers check lengths first).
pub(crate) fn le_u16(bytes: &[u8], offset: usize) -> u16 {
    bytes
        .get(offset..)
        .and_then(|b| b.first_chunk())
        .map_or(0, |b| u16::from_le_bytes(*b))
}

/// Little-endian field at `offset`; 0 where the bytes end.
pub(crate) fn le_u32(bytes: &[u8], offset: usize) -> u32 {
    bytes
        .get(offset..)
        .and_then(|b| b.first_chunk())
        .map_or(0, |b| u32::from_le_bytes(*b))
}

/// Little-endian field at `offset`; 0 where the bytes end.
pub(crate) fn le_u64(bytes: &[u8], offset: usize) -> u64 {
    bytes
        .get(offset..)
        .and_then(|b| b.first_chunk())
        .map_or(0, |b| u64::from_le_bytes(*b))
}

/// Writes a field at `offset`; nothing where it does not fit (callers size the buffer first).
pub(crate) fn put<const N: usize>(out: &mut [u8], offset: usize, field: [u8; N]) {
    if let Some(place) = out.get_mut(offset..).and_then(|b| b.first_chunk_mut::<N>()) {
        *place = field;
    }
}
