//! The name of a peer's host, for people: errors about two hosts name both (decision 19).
//!
//! It stands behind the first three data names of CONN and `CONN_RESP`, 24 bytes behind each, if the
//! names in use among them leave that room, and the capability word is there and says so
//! ([`super::capability::Capabilities::NAMES_HOST`]):
//!
//! ```text
//! 304  bytes 0..24 of the name | 368  24..48 | 432  48..64, zeros behind its end
//! ```
//!
//! The word is bound to the sender's own endpoint names, so what a BASE peer sends back of our bytes
//! (protocol 2.k 3) names nobody.

use super::conn::{Conn, DATA_NAMES, NAME_STRIDE};

/// Longest name of a host (`hostname(7)`: 64 on Linux).
pub const HOST_BYTES: usize = 64;

/// Where a part begins behind the begin of a data name, and so the longest data name that leaves room.
const PART_AT: usize = 32;

/// Bytes behind one data name.
const PART_BYTES: usize = 24;

/// Data names with a part behind them.
const PARTS: usize = HOST_BYTES.div_ceil(PART_BYTES);

const _: () = assert!(PART_AT + PART_BYTES == crate::limits::EP_NAME_BYTES);
const _: () = assert!(PARTS <= crate::limits::MAX_RAILS);

/// The name of a host: letters, digits, `-`, `.` and `_`, which no terminal or log acts on.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct HostName {
    bytes: [u8; HOST_BYTES],
    len: u8,
}

impl HostName {
    /// A name of 1 to [`HOST_BYTES`] bytes; `None` for any other text.
    #[must_use]
    pub fn new(name: &str) -> Option<Self> {
        let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        if name.is_empty() || !name.bytes().all(is_of_name) {
            return None;
        }
        let mut bytes = [0; HOST_BYTES];
        bytes
            .get_mut(..name.len())?
            .copy_from_slice(name.as_bytes());
        let len = u8::try_from(name.len()).ok()?;
        Some(Self { bytes, len })
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        let used = self.bytes.get(..usize::from(self.len)).unwrap_or_default();
        core::str::from_utf8(used).unwrap_or_default()
    }

    /// Whether the names of a message leave room.
    pub(super) fn fits(conn: &Conn) -> bool {
        let used = conn.data_names.iter().take(conn.rails.into());
        used.take(PARTS)
            .all(|name| usize::from(name.len) <= PART_AT)
    }

    /// Writes it behind the data names, which are there already and leave room.
    pub(super) fn encode(&self, out: &mut [u8]) {
        for (part, bytes) in self.bytes.chunks(PART_BYTES).enumerate() {
            if let Some(place) = out.get_mut(place(part)) {
                for (to, from) in place.iter_mut().zip(bytes) {
                    *to = *from;
                }
            }
        }
    }

    /// Reads it from a message that says it has one: hostile bytes give none.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut name = [0; HOST_BYTES];
        for (part, to) in name.chunks_mut(PART_BYTES).enumerate() {
            let from = bytes.get(place(part))?;
            to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
        }
        let end = name.iter().position(|&byte| byte == 0);
        let used = name.get(..end.unwrap_or(HOST_BYTES))?;
        Self::new(core::str::from_utf8(used).ok()?)
    }
}

impl core::fmt::Debug for HostName {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "HostName({})", self.as_str())
    }
}

const fn place(part: usize) -> core::ops::Range<usize> {
    let at = DATA_NAMES + part * NAME_STRIDE + PART_AT;
    at..at + PART_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{CONN_BYTES, EP_NAME_BYTES};
    use crate::port::EpName;
    use crate::wire::capability::Capabilities;
    use proptest::prelude::*;

    fn conn(rails: u8, name_len: u8, host: &str) -> Conn {
        let mut bytes = [0; EP_NAME_BYTES];
        bytes[..usize::from(name_len)].fill(7);
        let name = EpName {
            bytes,
            len: name_len,
        };
        let mut data_names = [EpName::EMPTY; 4];
        data_names[..usize::from(rails)].fill(name);
        Conn {
            is_response: false,
            rails,
            control_rails: 1,
            local_id: 3,
            remote_id: 4,
            control_names: [name, EpName::EMPTY, EpName::EMPTY, EpName::EMPTY],
            data_names,
            capabilities: Some(Capabilities::new(0)),
            host: HostName::new(host),
        }
    }

    fn bytes(conn: &Conn) -> [u8; CONN_BYTES] {
        let mut out = [0; CONN_BYTES];
        conn.encode(&mut out);
        out
    }

    #[test]
    fn a_name_of_any_length_arrives_whatever_the_rails() {
        let long = "h".repeat(HOST_BYTES);
        for rails in 1..=4 {
            for host in ["a", "ip-10-0-200-17.ec2.internal", &long] {
                let out = bytes(&conn(rails, 32, host));
                let got = Conn::decode(&out).unwrap();
                let named = got.host.map(|host| host.as_str().len());
                assert_eq!(named, Some(host.len()), "{rails} rails, {host}");
                assert!(got.capabilities.unwrap().has(Capabilities::NAMES_HOST));
            }
        }
        let out = bytes(&conn(2, 32, "ip-10-0-200-17.ec2.internal"));
        assert_eq!(&out[304..328], b"ip-10-0-200-17.ec2.inter");
        assert_eq!(&out[368..374], b"nal\0\0\0");
        // The lengths of names are what they were, and unused entries have none.
        assert_eq!((out[328], out[392], out[456]), (32, 32, 0));
    }

    #[test]
    fn a_long_data_name_leaves_no_room_and_nothing_else_changes() {
        let with = conn(4, 33, "a");
        let without = Conn { host: None, ..with };
        assert!(bytes(&with) == bytes(&without));
        assert_eq!(Conn::decode(&bytes(&with)).unwrap().host, None);
        // Without a word nobody would know whose name it is.
        let wordless = Conn {
            capabilities: None,
            ..conn(4, 32, "a")
        };
        assert_eq!(bytes(&wordless)[304], 0);
    }

    /// A BASE peer overwrites ids and names only (protocol 2.k 3).
    #[test]
    fn bytes_that_come_back_name_nobody() {
        let ours = bytes(&conn(2, 32, "a"));
        for at in [8, 16, 272, 336] {
            let mut replayed = ours;
            replayed[at] ^= 1;
            assert_eq!(Conn::decode(&replayed).unwrap().host, None, "byte {at}");
        }
    }

    #[test]
    fn no_name_steers_a_terminal() {
        for bad in ["", "a b", "a\n", "\u{1b}[2J", "ä", "%s%n", &"x".repeat(65)] {
            assert_eq!(HostName::new(bad), None, "{bad:?}");
        }
        let mut out = bytes(&conn(1, 16, "host"));
        out[305] = 0x1b;
        assert_eq!(Conn::decode(&out).unwrap().host, None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_name_or_none(text in proptest::collection::vec(any::<u8>(), 24)) {
            let mut out = bytes(&conn(1, 16, "host"));
            out[304..328].copy_from_slice(&text);
            let host = Conn::decode(&out).unwrap().host;
            prop_assert!(host.is_none_or(|host| text.starts_with(host.as_str().as_bytes())));
        }
    }
}
