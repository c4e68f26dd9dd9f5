//! What happens when an operation reaches its target, and when it completes at its source.

use ofi_rdma::{Cause, Lane, PutSource, RegionId, RxId, Token, Wire};

use crate::config::{Death, Sabotage};
use crate::ledger::{Owner, RECV, Role};
use crate::memory::index;
use crate::ops::Fate;
use crate::report::What;
use crate::timeline::Happening;
use crate::view::{Imm, immediate};
use crate::world::{CqEntry, World};

/// ECONNABORTED: what a provider says of a peer that died.
const PEER_GONE: Cause = Cause {
    errno: 103,
    provider_errno: 0,
};

/// EACCES: a remote access with a key that opens nothing.
const NO_ACCESS: Cause = Cause {
    errno: 13,
    provider_errno: 0,
};

/// How long a provider tries before it says that a peer is gone, nanoseconds.
const GIVE_UP_NS: u64 = 400_000;

/// How far behind its sender a repeated CTRL may come: later, its sequence number would mean
/// another message, and no network of the real world repeats at all.
const REPEAT_WITHIN: u64 = 200;

/// A write, as it lands.
#[derive(Clone, Copy, Debug)]
struct Landing {
    rail: u8,
    remote_addr: u64,
    remote_key: u64,
    len: u64,
    data: Option<u64>,
}

impl World {
    /// An operation reaches its target.
    pub(crate) fn land(&mut self, number: u32) {
        let op = self.ops.get_mut(number);
        op.landed = true;
        let (dst, wire, owner, repeated) = (op.dst, op.wire, op.owner, op.repeated);
        let lost = matches!(op.fate, Fate::Bad { lands: false, .. });
        let dropped = lost || (repeated && self.too_late(owner));
        if self.node(dst).dead {
            self.ops.get_mut(number).landed = false;
        } else if !dropped {
            self.note(
                dst,
                What::Land,
                kind(&wire),
                owner.map_or(u64::MAX, |o| o.k),
            );
            match wire {
                Wire::Control { .. } => self.land_control(number),
                Wire::Eager { len, imm, .. } => self.land_eager(number, imm, len),
                Wire::Write {
                    len,
                    remote_addr,
                    remote_key,
                    data,
                    ..
                } => {
                    let rail = self.ops.get(number).lane.rail();
                    let landing = Landing {
                        rail,
                        remote_addr,
                        remote_key,
                        len,
                        data,
                    };
                    self.land_write(number, landing);
                }
                Wire::EagerCopy {
                    rx,
                    len,
                    addr,
                    region,
                } => {
                    self.still_there(dst, region, addr, len.into());
                    self.land_copy(dst, rx, len.into(), addr);
                }
                Wire::FlushRead { addr, region } => self.still_there(dst, region, addr, 4),
                Wire::Put { .. } | Wire::Get { .. } => self.land_one_sided(number),
            }
        }
        self.ops.release(number);
    }

    /// An operation completes at its source.
    pub(crate) fn local(&mut self, number: u32) {
        let op = self.ops.get(number);
        let (src, dst, lane, token, owner) = (op.src, op.dst, op.lane, op.token, op.owner);
        let (fate, landed) = (op.fate, op.landed);
        if let Some(token) = token.filter(|_| !self.node(src).dead) {
            if self.node(dst).dead && !landed && dst != src {
                self.end_at_dead_peer(number, src, lane, token, owner);
            } else {
                self.keep_payload(number);
                let entry = match fate {
                    Fate::Good => CqEntry::Local { token, owner },
                    Fate::Bad { cause, .. } => CqEntry::Failed {
                        token,
                        cause,
                        owner,
                    },
                };
                self.complete(src, lane.rail(), entry);
            }
        }
        self.ops.release(number);
    }

    /// The engine is about to learn that the operation is complete: from then on its source buffer
    /// is the caller's, so what has not travelled yet is copied now.
    fn keep_payload(&mut self, number: u32) {
        let op = self.ops.get_mut(number);
        op.completed = true;
        let (addr, len) = match op.wire {
            Wire::Eager { addr, len, .. } if !op.landed => (addr, u64::from(len)),
            Wire::Write { addr, len, .. } if !op.landed => (addr, len),
            Wire::Put {
                addr,
                len,
                source: PutSource::Region(_),
                ..
            } if !op.landed => (addr, u64::from(len)),
            _ => return,
        };
        let mut bytes = core::mem::take(&mut op.bytes);
        if len > 0 {
            bytes.extend_from_slice(self.nodes[usize::from(op.src)].memory.at(addr, len));
        }
        self.ops.get_mut(number).bytes = bytes;
    }

    /// What a provider says of an operation to a host that died first.
    fn end_at_dead_peer(
        &mut self,
        number: u32,
        src: u8,
        lane: Lane,
        token: Token,
        owner: Option<Owner>,
    ) {
        match self.config.faults.death {
            Death::Silent | Death::Busy => {
                self.report.faults.vanished += 1;
                self.vanished.push((src, lane, token, owner));
            }
            Death::Success => {
                self.keep_payload(number);
                self.complete(src, lane.rail(), CqEntry::Local { token, owner });
            }
            Death::Error if self.ops.get(number).fate == Fate::Good => {
                let op = self.ops.get_mut(number);
                op.fate = Fate::Bad {
                    cause: PEER_GONE,
                    lands: false,
                };
                op.refs += 1;
                self.timeline
                    .plan(self.now + GIVE_UP_NS, Happening::Local(number));
            }
            Death::Error => {
                self.complete(
                    src,
                    lane.rail(),
                    CqEntry::Failed {
                        token,
                        cause: PEER_GONE,
                        owner,
                    },
                );
            }
        }
    }

    /// Whether a repeated CTRL would be taken for another message.
    fn too_late(&self, owner: Option<Owner>) -> bool {
        let near = REPEAT_WITHIN.min((1 << self.ledger.seq_bits) / 8);
        owner.is_none_or(|owner| {
            let truth = self.ledger.link(owner.link);
            truth.life != owner.life || owner.k + near < truth.rings[0].next
        })
    }

    fn land_control(&mut self, number: u32) {
        if self.config.faults.sabotage == Sabotage::DropControl && self.sabotage_now() {
            return;
        }
        let op = self.ops.get_mut(number);
        let (dst, rail, repeated) = (op.dst, op.lane.rail(), op.repeated);
        op.refs += 1;
        self.report.faults.repeated += u64::from(repeated);
        let control = &mut self.node_mut(dst).control[usize::from(rail)];
        if control.posted == 0 {
            control.waiting.push_back(number);
            self.report.faults.not_ready += 1;
            return;
        }
        control.posted -= 1;
        self.complete(dst, rail, CqEntry::Control { op: number });
    }

    /// A control message was read: its buffer is posted again.
    pub(crate) fn control_reposted(&mut self, host: u8, rail: u8) {
        let control = &mut self.node_mut(host).control[usize::from(rail)];
        match control.waiting.pop_front() {
            Some(op) => self.complete(host, rail, CqEntry::Control { op }),
            None => control.posted += 1,
        }
    }

    fn land_eager(&mut self, number: u32, imm: u32, len: u32) {
        let op = self.ops.get(number);
        let (dst, rail) = (op.dst, op.lane.rail());
        let Some(buffer) = self.node_mut(dst).bounce[usize::from(rail)].take() else {
            let op = self.ops.get_mut(number);
            op.refs += 1;
            op.landed = false;
            self.report.faults.not_ready += 1;
            self.node_mut(dst).bounce[usize::from(rail)]
                .waiting
                .push_back(number);
            return;
        };
        let to = self.node(dst).bounce[usize::from(rail)]
            .addr(buffer)
            .unwrap_or(0);
        self.ops.get_mut(number).landed = true;
        self.carry(number, to, len.into());
        let rx = RxId {
            rail,
            index: buffer,
        };
        self.complete(dst, rail, CqEntry::Eager { imm, len, rx });
    }

    /// Bounce buffers were posted: messages that found none come now.
    pub(crate) fn eager_reposted(&mut self, host: u8, rail: u8) {
        let bounce = &mut self.node_mut(host).bounce[usize::from(rail)];
        if let Some(number) = bounce.waiting.pop_front() {
            if let Wire::Eager { imm, len, .. } = self.ops.get(number).wire {
                self.land_eager(number, imm, len);
            }
            self.ops.release(number);
        }
    }

    fn land_write(&mut self, number: u32, landing: Landing) {
        let dst = self.ops.get(number).dst;
        let Landing {
            rail,
            remote_addr,
            remote_key,
            len,
            data,
        } = landing;
        let memory = &self.node(dst).memory;
        let Some(mut to) = memory.remote_access(rail, remote_key, remote_addr, len) else {
            self.miss(number, RECV);
            return;
        };
        match data {
            Some(data) => self.judge_landing(number, immediate(data), to, len),
            None => self.judge_silent_landing(self.ops.get(number).owner, to, len),
        }
        let shifted = self.config.faults.sabotage == Sabotage::Misplace && len > 0;
        if shifted && self.sabotage_now() {
            to += 64;
        }
        self.carry(number, to, len);
        let Some(data) = data else { return };
        let told = self.config.report_len;
        let mut reported = len;
        let sabotage = self.config.faults.sabotage;
        let of_report = matches!(
            sabotage,
            Sabotage::DropImmediate | Sabotage::WrongLength | Sabotage::DoubleImmediate
        );
        if of_report && self.sabotage_now() {
            match sabotage {
                Sabotage::DropImmediate => return,
                Sabotage::WrongLength => reported += 1,
                _ => self.complete(
                    dst,
                    rail,
                    CqEntry::RemoteWrite {
                        data,
                        len: told.then_some(len),
                    },
                ),
            }
        }
        let len = told.then_some(reported);
        self.complete(dst, rail, CqEntry::RemoteWrite { data, len });
    }

    /// A write or read found no region: legal only once the side whose region it was has closed.
    pub(crate) fn miss(&mut self, number: u32, side: usize) {
        let op = self.ops.get_mut(number);
        let (wire, owner) = (op.wire, op.owner);
        op.fate = Fate::Bad {
            cause: NO_ACCESS,
            lands: false,
        };
        self.report.faults.late_writes += 1;
        let gone = owner.is_some_and(|owner| {
            let truth = self.ledger.link(owner.link);
            truth.life != owner.life || truth.closed[side]
        });
        if !gone {
            self.violation(format!("{wire:?} reaches no registered memory"));
        }
    }

    /// A write lands: only in a receive that is posted and waits for these bytes.
    fn judge_landing(&mut self, number: u32, imm: u32, to: u64, len: u64) {
        let op = self.ops.get(number);
        let Some(owner) = op.owner else { return };
        let seg = Imm::read(imm, self.ledger.seq_bits);
        let truth = self.ledger.link_mut(owner.link);
        if truth.life != owner.life || truth.closed[RECV] {
            return;
        }
        let sizes = truth.plan.sizes(owner.k, &self.config);
        let Some(record) = truth.rings[RECV].get_mut(owner.k) else {
            self.violation(format!(
                "{seg:?} lands in receive {}, which is over",
                owner.k
            ));
            return;
        };
        record.segs += 1;
        record.nseg = seg.nseg;
        record.moved += len;
        let inside = len == 0 || (to >= record.addr && to + len <= record.addr + sizes.moved());
        if !inside || record.segs > seg.nseg || record.moved > sizes.moved() {
            let record = *record;
            self.violation(format!(
                "{seg:?}: {len} bytes land at {to:#x} of {record:?}"
            ));
        }
    }

    /// Copies the payload of an operation to `to` at its target.
    pub(crate) fn carry(&mut self, number: u32, to: u64, len: u64) {
        if len == 0 {
            return;
        }
        let op = self.ops.get(number);
        let (src, dst) = (usize::from(op.src), usize::from(op.dst));
        let (Wire::Eager {
            addr: from, region, ..
        }
        | Wire::Write {
            addr: from, region, ..
        }
        | Wire::Put {
            addr: from,
            source: PutSource::Region(region),
            ..
        }) = op.wire
        else {
            // The bytes of an inline write were taken when it was posted.
            let target = self.nodes[dst].memory.at_mut(to, len);
            return target.copy_from_slice(&op.bytes[..index(len)]);
        };
        if op.completed {
            let target = self.nodes[dst].memory.at_mut(to, len);
            target.copy_from_slice(&op.bytes[..index(len)]);
        } else if !self.nodes[src].dead && !self.nodes[src].memory.local_access(region, from, len) {
            self.violation(format!(
                "{region:?} of host {src} went while an operation read it"
            ));
        } else if src == dst {
            self.nodes[src].memory.copy_within(from, to, len);
        } else {
            let (low, high) = self.nodes.split_at_mut(src.max(dst));
            let (a, b) = (&mut low[src.min(dst)], &mut high[0]);
            let (source, target) = if src < dst { (a, b) } else { (b, a) };
            target
                .memory
                .at_mut(to, len)
                .copy_from_slice(source.memory.at(from, len));
        }
        if self.config.faults.sabotage == Sabotage::FlipBit && self.sabotage_now() {
            self.nodes[dst].memory.at_mut(to, len)[index(len / 2)] ^= 1;
        }
    }

    fn land_copy(&mut self, host: u8, rx: RxId, len: u64, to: u64) {
        let node = self.node_mut(host);
        match node.bounce[usize::from(rx.rail)].addr(rx.index) {
            Some(from) => node.memory.copy_within(from, to, len),
            None => self.violation(format!("{rx:?} of host {host} does not exist")),
        }
    }

    /// A region has to stay registered while an operation of its own host uses it.
    pub(crate) fn still_there(&mut self, host: u8, region: RegionId, addr: u64, len: u64) {
        if !self.node(host).memory.local_access(region, addr, len) {
            self.violation(format!(
                "{region:?} of host {host} went while an operation used it"
            ));
        }
    }

    /// Whether an immediate is for nobody at a host: unknown, of another kind, or of an old life.
    pub(crate) fn is_stray(&self, host: u8, imm: u32) -> bool {
        let seg = Imm::read(imm, self.ledger.seq_bits);
        self.ledger.is_foreign(host, seg.comm, Role::Recv)
    }
}

/// The kind of an operation as a number for the trace.
fn kind(wire: &Wire) -> u64 {
    match wire {
        Wire::Control { .. } => 0,
        Wire::Eager { .. } => 1,
        Wire::Write { .. } => 2,
        Wire::EagerCopy { .. } => 3,
        Wire::FlushRead { .. } => 4,
        Wire::Put { .. } => 5,
        Wire::Get { .. } => 6,
    }
}
