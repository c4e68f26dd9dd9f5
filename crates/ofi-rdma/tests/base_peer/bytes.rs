//! The bytes of protocol 2c, written and read from its text alone: none of the engine's codecs is used.

/// Bytes of an endpoint name that count here; the rest of its 56 is rubbish.
pub(crate) const NAME_LEN: usize = 32;

/// Pseudo-random numbers from one seed (splitmix64).
#[derive(Clone, Debug)]
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.word() % bound as u64).unwrap_or(0)
    }

    pub(crate) fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn rubbish(&mut self, bytes: &mut [u8]) {
        bytes.fill_with(|| self.word().to_le_bytes()[0]);
    }
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

/// CONN (0) or its answer (1), 2c.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Conn {
    pub(crate) kind: u8,
    pub(crate) rails: u16,
    pub(crate) control_rails: u16,
    pub(crate) local: u32,
    pub(crate) remote: u32,
}

impl Conn {
    /// Over `old`, the recycled buffer of another message or rubbish: only what counts is written
    /// (2.k 3). `name` gives the endpoint of (control or data, rail).
    pub(crate) fn write(&self, old: &mut [u8; 528], name: impl Fn(bool, u16) -> [u8; NAME_LEN]) {
        old[0] = old[0] & 0xF0 | self.kind;
        old[2..4].copy_from_slice(&self.rails.to_le_bytes());
        old[4..6].copy_from_slice(&self.control_rails.to_le_bytes());
        old[8..12].copy_from_slice(&self.local.to_le_bytes());
        old[12..16].copy_from_slice(&self.remote.to_le_bytes());
        for (base, count, control) in [(16, self.control_rails, true), (272, self.rails, false)] {
            for rail in 0..count {
                let at = base + 64 * usize::from(rail);
                old[at..at + NAME_LEN].copy_from_slice(&name(control, rail));
                old[at + 56..at + 64].copy_from_slice(&(NAME_LEN as u64).to_le_bytes());
            }
        }
    }

    pub(crate) fn read(bytes: &[u8]) -> Self {
        assert_eq!(bytes.len(), 528, "CONN and its answer are 528 bytes");
        Self {
            kind: bytes[0] & 0xF,
            rails: u16_at(bytes, 2),
            control_rails: u16_at(bytes, 4),
            local: u32_at(bytes, 8),
            remote: u32_at(bytes, 12),
        }
    }
}

/// A fresh buffer, as malloc gives it.
pub(crate) fn recycled(rng: &mut Rng) -> [u8; 528] {
    let mut bytes = [0; 528];
    rng.rubbish(&mut bytes);
    bytes
}

/// CTRL, 2c.4: type 2 or 5.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ctrl {
    pub(crate) kind: u32,
    pub(crate) seq: u32,
    pub(crate) comm: u32,
    pub(crate) len: u32,
    pub(crate) addr: u64,
    pub(crate) keys: Vec<u64>,
}

impl Ctrl {
    pub(crate) fn write(&self, long: bool) -> Vec<u8> {
        let mut out = (self.kind | self.seq << 4 | self.comm << 14)
            .to_le_bytes()
            .to_vec();
        out.extend(self.len.to_le_bytes());
        out.extend(self.addr.to_le_bytes());
        for key in &self.keys {
            let width = if long { 8 } else { 4 };
            out.extend(&key.to_le_bytes()[..width]);
        }
        out
    }

    pub(crate) fn read(bytes: &[u8], long: bool, rails: usize) -> Self {
        let width = if long { 8 } else { 4 };
        assert_eq!(bytes.len(), 16 + rails * width, "the length of a CTRL");
        let key = |rail: usize| match long {
            true => u64_at(bytes, 16 + 8 * rail),
            false => u32_at(bytes, 16 + 4 * rail).into(),
        };
        let word = u32_at(bytes, 0);
        Self {
            kind: word & 0xF,
            seq: word >> 4 & 0x3FF,
            comm: word >> 14,
            len: u32_at(bytes, 4),
            addr: u64_at(bytes, 8),
            keys: (0..rails).map(key).collect(),
        }
    }
}

/// CLOSE, 2c.5, with rubbish where nothing is said.
pub(crate) fn close(rng: &mut Rng, ctrls: u64, comm: u32) -> Vec<u8> {
    let mut out = vec![0; 24];
    rng.rubbish(&mut out);
    out[0] = out[0] & 0xF0 | 4;
    out[8..16].copy_from_slice(&ctrls.to_le_bytes());
    out[16..20].copy_from_slice(&comm.to_le_bytes());
    out
}

/// The immediate, 2c.1.
pub(crate) fn imm(nseg: usize, comm: u32, seq: u32) -> u32 {
    u32::try_from(nseg).unwrap_or(0) << 28 | comm << 10 | seq
}

/// nseg, communicator, sequence number.
pub(crate) fn imm_fields(word: u32) -> (usize, u32, u32) {
    ((word >> 28) as usize, word >> 10 & 0x3_FFFF, word & 0x3FF)
}

/// The vectors of protocol 2c, as the text prints them.
mod vectors {
    use super::*;

    #[test]
    fn the_helpers_give_the_bytes_of_the_text() {
        assert_eq!(imm(4, 0x2ABCD, 0x155), 0x4AAF_3555);
        assert_eq!(imm_fields(0x4AAF_3555), (4, 0x2ABCD, 0x155));
        let ctrl = Ctrl {
            kind: 2,
            seq: 0x155,
            comm: 0x2ABCD,
            len: 0x1122_3344,
            addr: 0x0102_0304_0506_0708,
            keys: vec![0xA0A1_A2A3, 0, 0, 0xD0D1_D2D3],
        };
        let golden = [
            0x52, 0x55, 0xf3, 0xaa, 0x44, 0x33, 0x22, 0x11, 8, 7, 6, 5, 4, 3, 2, 1, 0xa3, 0xa2,
            0xa1, 0xa0, 0, 0, 0, 0, 0, 0, 0, 0, 0xd3, 0xd2, 0xd1, 0xd0,
        ];
        assert_eq!(ctrl.write(false), golden);
        assert_eq!(Ctrl::read(&golden, false, 4), ctrl);
        assert_eq!(ctrl.write(true).len(), 48);
        assert_eq!(Ctrl::read(&ctrl.write(true), true, 4), ctrl);
        let mut buffer = [0; 528];
        let conn = Conn {
            kind: 1,
            rails: 4,
            control_rails: 3,
            local: 0x11111,
            remote: 0x22222,
        };
        conn.write(&mut buffer, |_, _| [7; NAME_LEN]);
        let head = [1, 0, 4, 0, 3, 0, 0, 0, 0x11, 0x11, 1, 0, 0x22, 0x22, 2, 0];
        assert_eq!(buffer[..16], head);
        assert_eq!(Conn::read(&buffer), conn);
        let said = close(&mut Rng(1), 0x1122_3344_5566_7788, 0x33333);
        assert_eq!(
            said[8..20],
            [
                0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0x33, 0x33, 3, 0
            ]
        );
        assert_eq!((said.len(), said[0] & 0xF), (24, 4));
    }

    /// The engine's codecs against the same bytes, through its public functions.
    #[test]
    fn the_engines_codecs_agree_with_the_text() {
        use ofi_rdma::wire::{
            close::Close, conn::Conn as Theirs, ctrl::Ctrl as TheirCtrl, handle::Handle,
        };
        let mut rng = Rng(7);
        for _ in 0..200 {
            let conn = Conn {
                kind: 0,
                rails: 3,
                control_rails: 1,
                local: u32::try_from(rng.below(1 << 18)).unwrap_or(0),
                remote: u32::try_from(rng.below(1 << 18)).unwrap_or(0),
            };
            let mut bytes = recycled(&mut rng);
            conn.write(&mut bytes, |control, rail| {
                let mut name = [9; NAME_LEN];
                (name[0], name[1]) = (u8::from(control), u8::try_from(rail).unwrap_or(0));
                name
            });
            let got = Theirs::decode(&bytes).expect("rubbish where nothing is said is accepted");
            assert_eq!((got.local_id, got.remote_id), (conn.local, conn.remote));
            assert_eq!((got.rails, got.control_rails), (3, 1));
            assert_eq!(got.capabilities, None, "rubbish is no capability word");
            assert_eq!(
                (got.control_names[0].bytes[0], got.data_names[2].bytes[1]),
                (1, 2)
            );
            let ctrl = Ctrl {
                kind: if rng.percent(50) { 2 } else { 5 },
                seq: u32::try_from(rng.below(1024)).unwrap_or(0),
                comm: u32::try_from(rng.below(1 << 18)).unwrap_or(0),
                len: u32::try_from(rng.below(1 << 31)).unwrap_or(0),
                addr: rng.word(),
                keys: vec![rng.word() >> 32, rng.word() >> 32],
            };
            for long in [false, true] {
                let (got, _) = TheirCtrl::decode(&ctrl.write(long), 2).expect("a CTRL");
                assert_eq!(u32::from(got.seq), ctrl.seq);
                assert_eq!(
                    (got.comm_id, got.buff_len, got.buff_addr),
                    (ctrl.comm, ctrl.len, ctrl.addr)
                );
                assert_eq!(
                    (&got.keys[..2], got.no_completion),
                    (&ctrl.keys[..], ctrl.kind == 5)
                );
            }
            let (ctrls, comm) = (rng.word(), u32::try_from(rng.below(1 << 18)).unwrap_or(0));
            let got = Close::decode(&close(&mut rng, ctrls, comm)).expect("a CLOSE");
            assert_eq!((got.ctrl_count, got.send_comm_id), (ctrls, comm));
        }
        // 2b: name at 0, id at 56, zeros to 88, the rest the caller's.
        let mut handle = [0xEE; 128];
        let (name, comm_id) = ([3; 56], 0x0102_0304);
        Handle { name, comm_id }.encode(&mut handle);
        assert_eq!(
            (handle[55], &handle[56..64]),
            (3, &[4, 3, 2, 1, 0, 0, 0, 0][..])
        );
        assert!(handle[64..88].iter().all(|b| *b == 0) && handle[88..].iter().all(|b| *b == 0xEE));
    }
}
