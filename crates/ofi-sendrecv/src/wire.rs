//! The connect message, 80 bytes by `fi_tsend` (protocol 2c.10). The handle is that of
//! [`ofi_rdma::wire::handle`], with a tag where RDMA has the listener's id.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 56 | name of the sender's endpoint, zero padded |
//! | 56 | 8 | bytes of that name |
//! | 64 | 8 | 1: the sender's endpoint is the listener's own |
//! | 72 | 8 | a pointer of the sender's process; 0 from us, never followed |

use ofi_rdma::EpName;

use crate::limits::{CONNECT_BYTES, EP_NAME_BYTES};

const LEN_AT: usize = 56;
const SELF_AT: usize = 64;
const REQ_AT: usize = 72;

const _: () = assert!(LEN_AT == EP_NAME_BYTES && REQ_AT + 8 == CONNECT_BYTES);

/// What a connect message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connect {
    /// The sender's endpoint.
    pub name: EpName,
    /// The sender's endpoint is the listener's own.
    pub to_self: bool,
}

/// Why bytes are no connect message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Not 80 bytes.
    Length(usize),
    /// A name of no bytes, or of more than there is room for.
    NameLength(u64),
}

impl Connect {
    /// The bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; CONNECT_BYTES] {
        let mut out = [0; CONNECT_BYTES];
        let fields: [(usize, &[u8]); 3] = [
            (0, &self.name.bytes),
            (LEN_AT, &u64::from(self.name.len).to_le_bytes()),
            (SELF_AT, &u64::from(self.to_self).to_le_bytes()),
        ];
        for (at, bytes) in fields {
            if let Some(place) = out.get_mut(at..at + bytes.len()) {
                place.copy_from_slice(bytes);
            }
        }
        out
    }

    /// Reads the bytes of a peer: hostile ones are refused, and what stands behind a name is not
    /// looked at.
    ///
    /// # Errors
    /// Why it is no connect message.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let bytes: &[u8; CONNECT_BYTES] = bytes
            .try_into()
            .map_err(|_| Malformed::Length(bytes.len()))?;
        let len = word(bytes, LEN_AT);
        let used = usize::try_from(len).unwrap_or(usize::MAX);
        let name = bytes
            .get(..used)
            .filter(|_| used >= 1)
            .and_then(EpName::new)
            .ok_or(Malformed::NameLength(len))?;
        Ok(Self {
            name,
            to_self: word(bytes, SELF_AT) != 0,
        })
    }
}

fn word(bytes: &[u8; CONNECT_BYTES], at: usize) -> u64 {
    bytes
        .get(at..)
        .and_then(<[u8]>::first_chunk)
        .map_or(0, |chunk| u64::from_le_bytes(*chunk))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Protocol 2c.10, byte by byte: an IPv4 address of 16 bytes, not to itself.
    #[test]
    fn golden_vector() {
        let address = [0x02, 0x00, 0x9C, 0x40, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
        let message = Connect {
            name: EpName::new(&address).unwrap(),
            to_self: false,
        };
        let mut golden = [0_u8; 80];
        golden[..8].copy_from_slice(&[0x02, 0x00, 0x9C, 0x40, 0x0A, 0x00, 0x00, 0x01]);
        golden[56] = 0x10;
        assert_eq!(message.encode(), golden);
        golden[64] = 1;
        let to_self = Connect {
            to_self: true,
            ..message
        };
        assert_eq!(to_self.encode(), golden);
        // A BASE sender to itself puts a pointer at 72, and rubbish behind its name.
        golden[72..].fill(0xEE);
        golden[16..56].fill(0xEE);
        assert_eq!(Connect::decode(&golden), Ok(to_self));
    }

    #[test]
    fn lengths_are_checked() {
        let mut bytes = [1; 80];
        for len in [0_u64, 57, u64::MAX] {
            bytes[56..64].copy_from_slice(&len.to_le_bytes());
            assert_eq!(Connect::decode(&bytes), Err(Malformed::NameLength(len)));
        }
        for len in [0, 79, 81, 160] {
            let bytes = alloc::vec![0; len];
            assert_eq!(Connect::decode(&bytes), Err(Malformed::Length(len)));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_decode_or_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(message) = Connect::decode(&bytes) {
                let again = message.encode();
                let len = usize::from(message.name.len);
                prop_assert_eq!(&again[..len], &bytes[..len]);
                prop_assert_eq!(Connect::decode(&again), Ok(message));
            }
        }
    }
}
