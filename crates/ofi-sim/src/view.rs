//! A second opinion on the wire: the oracles read messages with these few lines, written from
//! protocol 2c, and never with the engine's codecs.

/// What an immediate says (protocol 2c.1): `nseg:4 | comm_id | seq`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Imm {
    pub(crate) nseg: u32,
    pub(crate) comm: u32,
    pub(crate) seq: u64,
}

impl Imm {
    /// Reads an immediate whose sequence numbers have `seq_bits` bits.
    pub(crate) fn read(word: u32, seq_bits: u32) -> Self {
        let nseg = word >> 28;
        let comm = (word >> seq_bits) & 0x3_FFFF;
        Self {
            nseg,
            comm,
            seq: u64::from(word & ((1 << seq_bits) - 1)),
        }
    }

    /// The word again.
    pub(crate) fn word(self, seq_bits: u32) -> u32 {
        let seq = u32::try_from(self.seq).unwrap_or(0) & ((1 << seq_bits) - 1);
        (self.nseg << 28) | ((self.comm & 0x3_FFFF) << seq_bits) | seq
    }
}

/// A control message (protocol 2c.3 to 2c.5), as far as the oracles look at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Control {
    /// CONN: our id and the listener's.
    Conn { local: u32, remote: u32 },
    /// `CONN_RESP`: our id and the sender's.
    ConnResp { local: u32, remote: u32 },
    /// CTRL: the sender's id, sequence number, length and address of the receive, and whether its data is
    /// to come without an immediate (type 5).
    Ctrl {
        comm: u32,
        seq: u64,
        len: u64,
        addr: u64,
        silent: bool,
    },
    /// CLOSE: the sender's id and the number of CTRLs.
    Close { comm: u32, ctrls: u64 },
    /// Not a message of the protocol.
    Unknown,
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> u64 {
    let mut all = [0; 8];
    if let Some(field) = bytes.get(at..at + N) {
        all[..N].copy_from_slice(field);
    }
    u64::from_le_bytes(all)
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::try_from(number::<4>(bytes, at)).unwrap_or(0)
}

impl Control {
    /// Reads a message.
    pub(crate) fn read(bytes: &[u8]) -> Self {
        match (bytes.first().map(|b| b & 0xF), bytes.len()) {
            (Some(0), 528) => Self::Conn {
                local: word(bytes, 8),
                remote: word(bytes, 12),
            },
            (Some(1), 528) => Self::ConnResp {
                local: word(bytes, 8),
                remote: word(bytes, 12),
            },
            (Some(kind @ (2 | 5)), 20..) => {
                let first = word(bytes, 0);
                let seq = u64::from((first >> 4) & 0x3FF);
                let (len, addr) = (number::<4>(bytes, 4), number::<8>(bytes, 8));
                Self::Ctrl {
                    comm: first >> 14,
                    seq,
                    len,
                    addr,
                    silent: kind == 5,
                }
            }
            (Some(4), 24) => Self::Close {
                comm: word(bytes, 16),
                ctrls: number::<8>(bytes, 8),
            },
            _ => Self::Unknown,
        }
    }
}

/// The immediate in CQ data: its low half.
pub(crate) fn immediate(data: u64) -> u32 {
    u32::try_from(data & u64::from(u32::MAX)).unwrap_or(0)
}

/// Key of rail `rail` in a CTRL with keys of `width` bytes.
pub(crate) fn ctrl_key(bytes: &[u8], rail: usize, width: usize) -> u64 {
    if width == 4 {
        number::<4>(bytes, 16 + 4 * rail)
    } else {
        number::<8>(bytes, 16 + 8 * rail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vectors_of_the_protocol_text() {
        // 2c.1: nseg 4, comm 0x2ABCD, seq 0x155 -> 0x4AAF3555.
        let imm = Imm {
            nseg: 4,
            comm: 0x2_ABCD,
            seq: 0x155,
        };
        assert_eq!(Imm::read(0x4AAF_3555, 10), imm);
        assert_eq!(imm.word(10), 0x4AAF_3555);
        // 2c.4, rails 0 and 3 with keys.
        let ctrl = [
            0x52, 0x55, 0xf3, 0xaa, 0x44, 0x33, 0x22, 0x11, 8, 7, 6, 5, 4, 3, 2, 1, 0xa3, 0xa2,
            0xa1, 0xa0, 0, 0, 0, 0, 0, 0, 0, 0, 0xd3, 0xd2, 0xd1, 0xd0,
        ];
        let (len, addr) = (0x1122_3344, 0x0102_0304_0506_0708);
        assert_eq!(
            Control::read(&ctrl),
            Control::Ctrl {
                comm: 0x2_ABCD,
                seq: 0x155,
                len,
                addr,
                silent: false,
            }
        );
        let mut other = ctrl;
        other[0] = 0x55;
        assert!(matches!(
            Control::read(&other),
            Control::Ctrl { silent: true, .. }
        ));
        assert_eq!(ctrl_key(&ctrl, 3, 4), 0xD0D1_D2D3);
        // 2c.5.
        let mut close = [0; 24];
        close[0] = 4;
        close[8..16].copy_from_slice(&0x1122_3344_5566_7788_u64.to_le_bytes());
        close[16..20].copy_from_slice(&0x3_3333_u32.to_le_bytes());
        let expected = Control::Close {
            comm: 0x3_3333,
            ctrls: 0x1122_3344_5566_7788,
        };
        assert_eq!(Control::read(&close), expected);
        // 2c.3: header of a CONN_RESP.
        let mut conn = [0; 528];
        conn[..16].copy_from_slice(&[1, 0, 4, 0, 3, 0, 0, 0, 0x11, 0x11, 1, 0, 0x22, 0x22, 2, 0]);
        let expected = Control::ConnResp {
            local: 0x1_1111,
            remote: 0x2_2222,
        };
        assert_eq!(Control::read(&conn), expected);
    }

    #[test]
    fn short_bytes_are_nothing() {
        for len in 0..20 {
            assert_eq!(Control::read(&vec![2; len]), Control::Unknown);
        }
    }
}
