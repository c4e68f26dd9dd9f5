//! The 32 bytes that name an endpoint, with the fields of EFA's: GID, queue pair number, queue key.
//!
//! ```text
//!  0  2   4    8                16    18   20     24        32
//!  fe80 | nic | "emu" 1 | segment | qpn | 0 | qkey | 0 (next) |
//!  <------------- GID ----------->
//! ```

/// Bytes of an address.
pub(crate) const LEN: usize = 32;
/// Bytes of it that tell addresses apart.
pub(crate) const SIGNIFICANT: usize = 24;

const LINK_LOCAL: [u8; 2] = [0xfe, 0x80];
const TAG: [u8; 4] = *b"emu\x01";

/// An address. Queue pair 0 names a NIC only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Address {
    /// The segment of the process.
    pub(crate) segment: u64,
    pub(crate) nic: u16,
    pub(crate) qpn: u16,
    pub(crate) qkey: u32,
}

impl Address {
    pub(crate) fn to_bytes(self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        let fields: [(usize, &[u8]); 6] = [
            (0, &LINK_LOCAL),
            (2, &self.nic.to_be_bytes()),
            (4, &TAG),
            (8, &self.segment.to_be_bytes()),
            (16, &self.qpn.to_le_bytes()),
            (20, &self.qkey.to_le_bytes()),
        ];
        for (at, field) in fields {
            bytes[at..at + field.len()].copy_from_slice(field);
        }
        bytes
    }

    /// `None` for bytes that are no address of an emulated NIC.
    pub(crate) fn from_bytes(bytes: &[u8; LEN]) -> Option<Self> {
        let [g0, g1, n0, n1, t0, t1, t2, t3, rest @ ..] = *bytes;
        if [g0, g1] != LINK_LOCAL || [t0, t1, t2, t3] != TAG {
            return None;
        }
        let (segment, rest) = rest.split_first_chunk::<8>()?;
        let [q0, q1, _, _, k0, k1, k2, k3, ..] = *rest else {
            return None;
        };
        Some(Self {
            segment: u64::from_be_bytes(*segment),
            nic: u16::from_be_bytes([n0, n1]),
            qpn: u16::from_le_bytes([q0, q1]),
            qkey: u32::from_le_bytes([k0, k1, k2, k3]),
        })
    }

    /// As `fi_av_straddr` of EFA writes it.
    pub(crate) fn to_text(self) -> String {
        let bytes = self.to_bytes();
        let group = |pair: &[u8]| match pair {
            [high, low] => format!("{:x}", u16::from_be_bytes([*high, *low])),
            _ => String::new(),
        };
        let gid: Vec<String> = bytes[..16].chunks(2).map(group).collect();
        format!(
            "fi_addr_efa://[{}]:{}:{}",
            gid.join(":"),
            self.qpn,
            self.qkey
        )
    }

    /// Two words for the source of an event.
    pub(crate) fn to_source(self) -> [u64; 2] {
        let number =
            u64::from(self.nic) | (u64::from(self.qpn) << 16) | (u64::from(self.qkey) << 32);
        [self.segment, number]
    }

    /// The reverse of [`Self::to_source`].
    pub(crate) fn from_source([segment, number]: [u64; 2]) -> Self {
        let part = |shift: u32| u16::try_from((number >> shift) & 0xffff).unwrap_or(0);
        Self {
            segment,
            nic: part(0),
            qpn: part(16),
            qkey: u32::try_from(number >> 32).unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOME: Address = Address {
        segment: 0x0123_4567_89ab_cdef,
        nic: 3,
        qpn: 17,
        qkey: 0xdead_beef,
    };

    #[test]
    fn there_and_back() {
        assert_eq!(Address::from_bytes(&SOME.to_bytes()), Some(SOME));
        assert_eq!(Address::from_source(SOME.to_source()), SOME);
        assert_eq!(
            SOME.to_text(),
            "fi_addr_efa://[fe80:3:656d:7501:123:4567:89ab:cdef]:17:3735928559"
        );
    }

    #[test]
    fn other_bytes() {
        assert_eq!(Address::from_bytes(&[0; LEN]), None);
        let mut bytes = SOME.to_bytes();
        bytes[4] ^= 1;
        assert_eq!(Address::from_bytes(&bytes), None);
        // What is behind the fields does not matter.
        let mut bytes = SOME.to_bytes();
        bytes[31] = 1;
        assert_eq!(Address::from_bytes(&bytes), Some(SOME));
    }
}
