//! The capability word: what our own peers tell each other in bytes that BASE leaves unused
//! (decisions 19 and 41).
//!
//! It stands in the tail of control name 0 of CONN and `CONN_RESP`, if that name leaves room:
//!
//! ```text
//! 56  magic u32 | 60  version u16 | 62  flags u16 | 64  crc32 u32 | 68  eager limit u32
//! ```
//!
//! A BASE peer neither sets nor clears these bytes, and may send back bytes that we once sent it
//! (protocol 2.k 3). So the checksum covers what such a replay changes: the type, both ids, and the
//! sender's own endpoint names, and the word itself.

use super::{le_u16, le_u32, put};
use crate::port::EpName;
use crate::wire::conn::Conn;

/// Where it begins in the message.
const OFFSET: usize = 56;

/// Longest control name 0 that leaves room for it.
const NAME_MAX: u8 = 40;

const MAGIC: u32 = 0x5249_464F;

/// Version of the word that we write.
const VERSION: u16 = 1;

/// The longest eager message that a peer takes, as its word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum EagerLimit {
    /// It did not say.
    #[default]
    Unsaid,
    /// It takes none, not even empty ones.
    Off,
    /// It takes messages of so many bytes.
    Bytes(u32),
}

impl EagerLimit {
    /// The setting `eager_max`, told.
    #[must_use]
    pub const fn of(eager_max: Option<u32>) -> Self {
        match eager_max {
            Some(bytes) => Self::Bytes(bytes),
            None => Self::Off,
        }
    }

    /// What a sender with the setting `ours` may send eagerly to this peer.
    #[must_use]
    pub fn cap(self, ours: Option<u32>) -> Option<u32> {
        match self {
            Self::Unsaid => ours,
            Self::Off => None,
            Self::Bytes(theirs) => ours.map(|ours| ours.min(theirs)),
        }
    }

    /// 0: not said; 1: none; else bytes and 2.
    const fn to_wire(self) -> u32 {
        match self {
            Self::Unsaid => 0,
            Self::Off => 1,
            Self::Bytes(bytes) => bytes.saturating_add(2),
        }
    }

    const fn from_wire(word: u32) -> Self {
        match word {
            0 => Self::Unsaid,
            1 => Self::Off,
            more => Self::Bytes(more - 2),
        }
    }
}

/// What a peer of ours can do, and wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Capabilities {
    /// Version of the peer's word; later ones keep the meaning of earlier flags.
    pub version: u16,
    /// One bit each: see the constants.
    pub flags: u16,
    /// The longest eager message that it takes.
    pub eager: EagerLimit,
}

impl Capabilities {
    /// As a receiver it is not told the length of an incoming write by its provider: it asks for
    /// it in the upper half of the CQ data.
    pub const WANTS_LENGTHS: u16 = 1;
    /// As a sender it can put lengths there: its provider carries 8 bytes of CQ data.
    pub const TELLS_LENGTHS: u16 = 1 << 1;
    /// The name of its host stands behind its data names ([`super::host`]).
    pub const NAMES_HOST: u16 = 1 << 2;

    /// Our word with these flags.
    #[must_use]
    pub const fn new(flags: u16) -> Self {
        Self {
            version: VERSION,
            flags,
            eager: EagerLimit::Unsaid,
        }
    }

    /// With what we take eagerly.
    #[must_use]
    pub const fn with_eager(self, eager: EagerLimit) -> Self {
        Self { eager, ..self }
    }

    /// With these flags too.
    #[must_use]
    pub const fn with(self, flags: u16) -> Self {
        Self {
            flags: self.flags | flags,
            ..self
        }
    }

    /// Whether all of `flags` are set.
    #[must_use]
    pub const fn has(self, flags: u16) -> bool {
        self.flags & flags == flags
    }

    /// Whether the names of a message leave room.
    pub(super) const fn fits(self, conn: &Conn) -> bool {
        conn.control_names[0].len <= NAME_MAX
    }

    /// Writes the word for a message whose other fields are final. Nothing without room.
    pub(super) fn encode(self, conn: &Conn, out: &mut [u8]) {
        if !self.fits(conn) {
            return;
        }
        put(out, OFFSET, MAGIC.to_le_bytes());
        put(out, OFFSET + 4, self.version.to_le_bytes());
        put(out, OFFSET + 6, self.flags.to_le_bytes());
        put(out, OFFSET + 8, self.checksum(conn).to_le_bytes());
        put(out, OFFSET + 12, self.eager.to_wire().to_le_bytes());
    }

    /// The word of a message, if it is one of its sender's own making.
    pub(super) fn decode(conn: &Conn, bytes: &[u8]) -> Option<Self> {
        if conn.control_names[0].len > NAME_MAX || le_u32(bytes, OFFSET) != MAGIC {
            return None;
        }
        let word = Self {
            version: le_u16(bytes, OFFSET + 4),
            flags: le_u16(bytes, OFFSET + 6),
            eager: EagerLimit::from_wire(le_u32(bytes, OFFSET + 12)),
        };
        (le_u32(bytes, OFFSET + 8) == word.checksum(conn)).then_some(word)
    }

    fn checksum(self, conn: &Conn) -> u32 {
        let mut crc = crc32fast::Hasher::new();
        crc.update(&[u8::from(conn.is_response), conn.rails, conn.control_rails]);
        crc.update(&conn.local_id.to_le_bytes());
        crc.update(&conn.remote_id.to_le_bytes());
        crc.update(&self.version.to_le_bytes());
        crc.update(&self.flags.to_le_bytes());
        crc.update(&self.eager.to_wire().to_le_bytes());
        let names = |names: &'_ [EpName], used: u8, crc: &mut crc32fast::Hasher| {
            for name in names.iter().take(usize::from(used)) {
                crc.update(&[name.len]);
                crc.update(name.bytes.get(..usize::from(name.len)).unwrap_or(&[]));
            }
        };
        names(&conn.control_names, conn.control_rails, &mut crc);
        names(&conn.data_names, conn.rails, &mut crc);
        crc.finalize()
    }
}

/// The CQ data of a segment with its length in the upper half; 0 there means "not told".
#[must_use]
#[inline]
pub const fn with_length(imm: u32, len: u32) -> u64 {
    imm as u64 | (len as u64 + 1) << 32
}

/// The length in the upper half of CQ data.
#[must_use]
#[inline]
pub const fn length_in(data: u64) -> Option<u64> {
    (data >> 32).checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{CONN_BYTES, MAX_RAILS};

    fn conn(name_len: u8) -> Conn {
        let bytes = core::array::from_fn(|i| if i < usize::from(name_len) { 7 } else { 0 });
        let name = EpName {
            bytes,
            len: name_len,
        };
        Conn {
            is_response: false,
            rails: 2,
            control_rails: 1,
            local_id: 3,
            remote_id: 4,
            control_names: [name, EpName::EMPTY, EpName::EMPTY, EpName::EMPTY],
            data_names: [name, name, EpName::EMPTY, EpName::EMPTY],
            capabilities: Some(Capabilities::new(Capabilities::TELLS_LENGTHS)),
            host: None,
        }
    }

    fn bytes(conn: &Conn) -> [u8; CONN_BYTES] {
        let mut out = [0; CONN_BYTES];
        conn.encode(&mut out);
        out
    }

    #[test]
    fn stands_in_the_tail_of_control_name_0() {
        let sent = conn(32);
        let out = bytes(&sent);
        assert_eq!(&out[56..64], b"OFIR\x01\0\x02\0");
        assert_eq!(out[68..72], [0; 4]);
        assert_eq!(Conn::decode(&out).unwrap().capabilities, sent.capabilities);
        let bare = bytes(&Conn {
            capabilities: None,
            ..sent
        });
        let elsewhere = |b: &[u8; CONN_BYTES]| [b[..56].to_vec(), b[72..].to_vec()].concat();
        assert_eq!(elsewhere(&out), elsewhere(&bare), "no other byte differs");
    }

    #[test]
    fn a_long_name_leaves_no_room() {
        let out = bytes(&conn(41));
        assert_eq!(
            out,
            bytes(&Conn {
                capabilities: None,
                ..conn(41)
            })
        );
        assert_eq!(Conn::decode(&out).unwrap().capabilities, None);
    }

    #[test]
    fn a_base_peer_that_replays_our_bytes_has_no_capabilities() {
        // It overwrites only type, counts, ids and name[0..len) with its own (protocol 2.k 3).
        let ours = bytes(&conn(16));
        let changes: [(usize, u8); 8] = [
            (0, 1),
            (2, 1),
            (8, 9),
            (12, 9),
            (16, 8),
            (68, 8),
            (272, 8),
            (336, 8),
        ];
        for (at, value) in changes {
            let mut replayed = ours;
            replayed[at] = value;
            let decoded = Conn::decode(&replayed).unwrap();
            assert_eq!(decoded.capabilities, None, "byte {at} is covered");
        }
        assert_eq!(MAX_RAILS, 4);
    }

    #[test]
    fn eager_limits_travel_and_cap() {
        for eager in [
            EagerLimit::Unsaid,
            EagerLimit::Off,
            EagerLimit::Bytes(0),
            EagerLimit::Bytes(8192),
        ] {
            let mut sent = conn(32);
            sent.capabilities = sent.capabilities.map(|word| word.with_eager(eager));
            let got = Conn::decode(&bytes(&sent)).unwrap().capabilities;
            assert_eq!(got.map(|word| word.eager), Some(eager));
        }
        assert_eq!(EagerLimit::Unsaid.cap(Some(9)), Some(9));
        assert_eq!(EagerLimit::Off.cap(Some(9)), None);
        assert_eq!(EagerLimit::Bytes(4).cap(Some(9)), Some(4));
        assert_eq!(EagerLimit::Bytes(9).cap(Some(4)), Some(4));
        assert_eq!(EagerLimit::Bytes(9).cap(None), None);
        assert_eq!(EagerLimit::of(None), EagerLimit::Off);
    }

    #[test]
    fn lengths_in_cq_data() {
        for len in [0, 1, 4096, 0x7FFF_FFFF] {
            let data = with_length(0x4AAF_3555, len);
            assert_eq!(data & 0xFFFF_FFFF, 0x4AAF_3555);
            assert_eq!(length_in(data), Some(u64::from(len)));
        }
        assert_eq!(length_in(0x4AAF_3555), None);
    }
}
