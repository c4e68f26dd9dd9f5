//! CONN and `CONN_RESP`, 528 bytes (protocol 2c.3).

use super::capability::Capabilities;
use super::host::HostName;
use super::{DecodeError, MessageType, le_u16, le_u32, le_u64, put};
use crate::limits::{CONN_BYTES, EP_NAME_BYTES, MAX_RAILS};
use crate::port::EpName;

/// Control-rail names come first (trap: an earlier reading has them the other way round).
const CONTROL_NAMES: usize = 16;
pub(super) const DATA_NAMES: usize = 272;
pub(super) const NAME_STRIDE: usize = 64;

/// What a connection message says; the same for both types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Conn {
    /// Whether this is the answer (`CONN_RESP`).
    pub is_response: bool,
    /// Data rails of its sender, 1..=4.
    pub rails: u8,
    /// Control rails of its sender, 1..=4.
    pub control_rails: u8,
    /// Id of the communicator of its sender, below 2^18.
    pub local_id: u32,
    /// CONN: the listener's id; `CONN_RESP`: the send communicator's id.
    pub remote_id: u32,
    /// Names of control endpoints; entries from `control_rails` on are empty.
    pub control_names: [EpName; MAX_RAILS],
    /// Names of data endpoints; entries from `rails` on are empty.
    pub data_names: [EpName; MAX_RAILS],
    /// What our own peers say in bytes that BASE leaves unused.
    pub capabilities: Option<Capabilities>,
    /// The host of its sender, if it is said there too.
    pub host: Option<HostName>,
}

impl Conn {
    /// Writes the message, all unused bytes zero (trap 10); returns its length.
    pub fn encode(&self, out: &mut [u8]) -> usize {
        if let Some(out) = out.get_mut(..CONN_BYTES) {
            out.fill(0);
        }
        put(out, 0, u16::from(self.is_response).to_le_bytes());
        put(out, 2, u16::from(self.rails).to_le_bytes());
        put(out, 4, u16::from(self.control_rails).to_le_bytes());
        put(out, 8, self.local_id.to_le_bytes());
        put(out, 12, self.remote_id.to_le_bytes());
        encode_names(out, CONTROL_NAMES, &self.control_names, self.control_rails);
        encode_names(out, DATA_NAMES, &self.data_names, self.rails);
        if let Some(word) = self.capabilities {
            match self
                .host
                .filter(|_| word.fits(self) && HostName::fits(self))
            {
                Some(host) => {
                    host.encode(out);
                    word.with(Capabilities::NAMES_HOST).encode(self, out);
                }
                None => word.encode(self, out),
            }
        }
        CONN_BYTES
    }

    /// Reads the message. Only fields of use are looked at: pads, unused entries and name tails may
    /// hold anything.
    ///
    /// # Errors
    /// A length other than 528, another type, a field no peer sends.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        if bytes.len() != CONN_BYTES {
            return Err(DecodeError::Length { len: bytes.len() });
        }
        let is_response = match MessageType::of(bytes) {
            Ok(MessageType::Conn) => false,
            Ok(MessageType::ConnResp) => true,
            Ok(other) => return Err(DecodeError::Type(other as u8)),
            Err(other) => return Err(DecodeError::Type(other)),
        };
        let rails = decode_rails(bytes, 2, "num_rails")?;
        let control_rails = decode_rails(bytes, 4, "num_control_rails")?;
        let mut conn = Self {
            is_response,
            rails,
            control_rails,
            local_id: decode_id(bytes, 8, "local_comm_id")?,
            remote_id: decode_id(bytes, 12, "remote_comm_id")?,
            control_names: decode_names(bytes, CONTROL_NAMES, control_rails)?,
            data_names: decode_names(bytes, DATA_NAMES, rails)?,
            capabilities: None,
            host: None,
        };
        conn.capabilities = Capabilities::decode(&conn, bytes);
        let is_named = (conn.capabilities).is_some_and(|word| word.has(Capabilities::NAMES_HOST));
        if is_named && HostName::fits(&conn) {
            conn.host = HostName::decode(bytes);
        }
        Ok(conn)
    }
}

fn encode_names(out: &mut [u8], base: usize, names: &[EpName; MAX_RAILS], used: u8) {
    for (i, name) in names.iter().take(usize::from(used)).enumerate() {
        let at = base + i * NAME_STRIDE;
        put(out, at, name.bytes);
        put(out, at + EP_NAME_BYTES, u64::from(name.len).to_le_bytes());
    }
}

fn decode_rails(bytes: &[u8], at: usize, field: &'static str) -> Result<u8, DecodeError> {
    let value = le_u16(bytes, at);
    u8::try_from(value)
        .ok()
        .filter(|&rails| rails >= 1 && usize::from(rails) <= MAX_RAILS)
        .ok_or_else(|| DecodeError::Field {
            field,
            value: u64::from(value),
        })
}

/// Peers accept any id below 2^18, the local sentinel included (protocol 2c.1).
fn decode_id(bytes: &[u8], at: usize, field: &'static str) -> Result<u32, DecodeError> {
    let value = le_u32(bytes, at);
    ofi_imm::CommId::new(value)
        .map(ofi_imm::CommId::get)
        .ok_or_else(|| DecodeError::Field {
            field,
            value: u64::from(value),
        })
}

fn decode_names(bytes: &[u8], base: usize, used: u8) -> Result<[EpName; MAX_RAILS], DecodeError> {
    let mut names = [EpName::EMPTY; MAX_RAILS];
    for (i, name) in names.iter_mut().take(usize::from(used)).enumerate() {
        let at = base + i * NAME_STRIDE;
        let len = le_u64(bytes, at + EP_NAME_BYTES);
        let raw = bytes
            .get(at..)
            .and_then(|b| b.first_chunk::<EP_NAME_BYTES>());
        match (raw, u8::try_from(len)) {
            // The whole 56 bytes are kept: that is what goes into the address vector.
            (Some(raw), Ok(short)) if usize::from(short) <= EP_NAME_BYTES => {
                *name = EpName {
                    bytes: *raw,
                    len: short,
                };
            }
            _ => {
                return Err(DecodeError::Field {
                    field: "name_len",
                    value: len,
                });
            }
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name(fill: u8, len: u8) -> EpName {
        let mut bytes = [0; EP_NAME_BYTES];
        bytes[..usize::from(len)].fill(fill);
        EpName { bytes, len }
    }

    fn sample() -> Conn {
        let mut control_names = [EpName::EMPTY; MAX_RAILS];
        let mut data_names = [EpName::EMPTY; MAX_RAILS];
        for i in 0..4u8 {
            data_names[usize::from(i)] = name(0xD0 + i, 32);
            if i < 3 {
                control_names[usize::from(i)] = name(0xC0 + i, 16);
            }
        }
        Conn {
            is_response: true,
            rails: 4,
            control_rails: 3,
            local_id: 0x11111,
            remote_id: 0x22222,
            control_names,
            data_names,
            capabilities: None,
            host: None,
        }
    }

    #[test]
    fn golden_header_and_places() {
        let mut out = [0xFF; CONN_BYTES];
        assert_eq!(sample().encode(&mut out), CONN_BYTES);
        let head = [1, 0, 4, 0, 3, 0, 0, 0, 0x11, 0x11, 1, 0, 0x22, 0x22, 2, 0];
        assert_eq!(out[..16], head);
        assert_eq!((out[16], out[32], out[72]), (0xC0, 0, 16), "control name 0");
        assert_eq!(
            (out[272], out[303], out[304], out[328]),
            (0xD0, 0xD0, 0, 32),
            "data name 0"
        );
        assert!(
            out[16 + 3 * 64..272].iter().all(|&b| b == 0),
            "unused control entry"
        );
        assert_eq!(Conn::decode(&out), Ok(sample()));
    }

    #[test]
    fn garbage_in_unused_bytes_is_accepted() {
        let mut out = [0; CONN_BYTES];
        sample().encode(&mut out);
        out[0] |= 0xA0;
        out[1] = 0xBE;
        out[6] = 0xEF;
        out[16 + 3 * 64..272].fill(0x5A);
        out[304..328].fill(0x77);
        let got = Conn::decode(&out).unwrap();
        assert_eq!((got.rails, got.local_id), (4, 0x11111));
        assert_eq!(got.control_names[3], EpName::EMPTY);
    }

    #[test]
    fn impossible_fields_are_refused() {
        let mut good = [0; CONN_BYTES];
        sample().encode(&mut good);
        for (at, value) in [
            (2, 0u8),
            (2, 5),
            (3, 1),
            (4, 0),
            (11, 0x80),
            (15, 4),
            (72, 57),
            (79, 1),
        ] {
            let mut bad = good;
            bad[at] = value;
            assert!(
                matches!(Conn::decode(&bad), Err(DecodeError::Field { .. })),
                "byte {at}"
            );
        }
        assert_eq!(
            Conn::decode(&good[..527]),
            Err(DecodeError::Length { len: 527 })
        );
    }

    proptest! {
        #[test]
        fn any_bytes_decode_or_are_refused(bytes in proptest::collection::vec(any::<u8>(), CONN_BYTES)) {
            let mut bytes = bytes;
            bytes[0] &= 0xF1;
            bytes[2..8].copy_from_slice(&[2, 0, 1, 0, 0, 0]);
            if let Ok(conn) = Conn::decode(&bytes) {
                let mut out = [0; CONN_BYTES];
                conn.encode(&mut out);
                prop_assert_eq!(Conn::decode(&out).map(|c| c.data_names), Ok(conn.data_names));
            }
        }
    }
}
