//! Messages for nobody: garbage, unknown ids, ids of the wrong kind. A correct engine drops each of
//! them, counts it, and nothing else changes (decision 14).

use ofi_rdma::{Lane, PeerAddr, Wire};

use crate::ledger::{Role, UNUSED_IDS};
use crate::timeline::Happening;
use crate::view::Imm;
use crate::world::{CqEntry, World};

impl World {
    /// Now and then, something comes that is for nobody.
    pub(crate) fn maybe_stray(&mut self, host: u8) {
        if !self.rng.chance(self.config.faults.stray_ppm) || self.node(host).dead {
            return;
        }
        self.report.faults.strays += 1;
        match self.rng.below(4) {
            0 => self.stray_control(host, true),
            1 => self.stray_control(host, false),
            2 => self.stray_write(host),
            _ => self.stray_eager(host),
        }
    }

    /// An id of this host that no receiver has: never given away, or another kind's.
    fn foreign_id(&mut self, host: u8, role: Role) -> u32 {
        let bound = self.ledger.id_bound(host);
        let known = u32::try_from(self.rng.below(u64::from(bound) + 1)).unwrap_or(0);
        if self.ledger.is_foreign(host, known, role) {
            return known;
        }
        // Far beyond anything that is given away while this runs.
        let far = u64::from(UNUSED_IDS) + self.rng.below(0x1_FFFF);
        u32::try_from(far).unwrap_or(0)
    }

    fn stray_control(&mut self, host: u8, garbage: bool) {
        let control_rails = if self.config.control_rr {
            self.config.rails
        } else {
            1
        };
        let rail = self.rng.below(control_rails.into());
        let lane = Lane::control(u8::try_from(rail).unwrap_or(0));
        let wire = Wire::Control {
            peer: PeerAddr(0),
            len: 0,
        };
        let bytes = if garbage {
            self.garbage()
        } else {
            self.misdirected(host)
        };
        let number = self.ops.add(host, host, lane, wire);
        self.ops.get_mut(number).bytes.extend_from_slice(&bytes);
        self.timeline.plan(self.now + 1, Happening::Deliver(number));
    }

    /// Bytes that are no message: an unknown type, or a length that its type does not have.
    fn garbage(&mut self) -> Vec<u8> {
        let len = usize::try_from(self.rng.below(529)).unwrap_or(0);
        let mut bytes: Vec<u8> = (0..len)
            .map(|_| self.rng.next_u64().to_le_bytes()[3])
            .collect();
        let legal = [20, 24, 28, 32, 40, 48, 528].contains(&len);
        if let Some(first) = bytes.first_mut().filter(|_| legal) {
            *first |= 0xF;
        }
        bytes
    }

    /// A good message for an id that is nobody's.
    fn misdirected(&mut self, host: u8) -> Vec<u8> {
        let kind = self.rng.below(4);
        let role = if kind == 0 {
            Role::Listener
        } else {
            Role::Send
        };
        let id = self.foreign_id(host, role);
        match kind {
            0 | 1 => {
                let mut conn = vec![0; 528];
                conn[0] = u8::try_from(kind).unwrap_or(0);
                conn[2] = self.config.rails;
                conn[4] = if self.config.control_rr {
                    self.config.rails
                } else {
                    1
                };
                conn[12..16].copy_from_slice(&id.to_le_bytes());
                conn
            }
            2 => {
                let width = if self.config.long_keys { 8 } else { 4 };
                let mut ctrl = vec![0; 16 + usize::from(self.config.rails) * width];
                let word = 2 | (self.rng.below(1024) << 4) | (u64::from(id) << 14);
                ctrl[..4].copy_from_slice(&word.to_le_bytes()[..4]);
                ctrl
            }
            _ => {
                let mut close = vec![0; 24];
                close[0] = 4;
                close[16..20].copy_from_slice(&id.to_le_bytes());
                close
            }
        }
    }

    fn stray_imm(&mut self, host: u8) -> u32 {
        let comm = self.foreign_id(host, Role::Recv);
        let nseg = u32::try_from(self.rng.below(16)).unwrap_or(0);
        Imm {
            nseg,
            comm,
            seq: self.rng.next_u64(),
        }
        .word(self.ledger.seq_bits)
    }

    fn stray_write(&mut self, host: u8) {
        // Nobody agreed on anything above the immediate: what stands there is not looked at.
        let above = if self.config.wide_data {
            self.rng.below(1 << 20) << 32
        } else {
            0
        };
        let data = u64::from(self.stray_imm(host)) | above;
        let rail = u8::try_from(self.rng.below(self.config.rails.into())).unwrap_or(0);
        let len = self.config.report_len.then_some(self.rng.below(1 << 20));
        self.complete(host, rail, CqEntry::RemoteWrite { data, len });
    }

    fn stray_eager(&mut self, host: u8) {
        if self.config.eager_max < 0 {
            return;
        }
        let imm = self.stray_imm(host);
        let rail = u8::try_from(self.rng.below(self.config.rails.into())).unwrap_or(0);
        let wire = Wire::Eager {
            peer: PeerAddr(0),
            addr: 0,
            len: 0,
            region: self.node(host).page,
            imm,
        };
        let number = self.ops.add(host, host, Lane::data(rail), wire);
        self.timeline.plan(self.now + 1, Happening::Deliver(number));
    }
}
