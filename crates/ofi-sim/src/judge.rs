//! Oracles of what an engine posts: every operation has to be one that the protocol and the caller's
//! requests call for, once, with the right bytes, ids, addresses and keys.

use ofi_rdma::{Lane, RegionId, Wire};

use crate::ledger::{Owner, Part, RECV, Role, SEND};
use crate::view::{Control, Imm, ctrl_key, immediate};
use crate::world::World;

/// Source and target of an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    pub(crate) src: u8,
    pub(crate) dst: u8,
    pub(crate) lane: Lane,
}

/// A segment, as posted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(crate) addr: u64,
    pub(crate) len: u64,
    pub(crate) remote_addr: u64,
    pub(crate) remote_key: u64,
}

impl World {
    /// Looks at an operation that is being posted; says whose it is.
    pub(crate) fn judge_post(&mut self, number: u32) -> Option<Owner> {
        let op = self.ops.get_mut(number);
        let route = Route {
            src: op.src,
            dst: op.dst,
            lane: op.lane,
        };
        let bytes = core::mem::take(&mut op.bytes);
        let verdict = match op.wire {
            Wire::Control { .. } => self.judge_control(route, &bytes),
            Wire::Eager {
                addr,
                len,
                region,
                imm,
                ..
            } => {
                let imm = Imm::read(imm, self.ledger.seq_bits);
                self.judge_eager(route, imm, addr, len.into(), region)
            }
            Wire::Write {
                addr,
                len,
                region,
                remote_addr,
                remote_key,
                data,
                ..
            } => {
                let segment = Segment {
                    addr,
                    len,
                    remote_addr,
                    remote_key,
                };
                self.judge_source(route.src, region, addr, len)
                    .and_then(|()| match data {
                        Some(data) => self.judge_write(route, data, segment),
                        None => self.judge_silent(route, region, segment),
                    })
            }
            Wire::EagerCopy {
                rx,
                len,
                addr,
                region,
            } => self.judge_copy(route, rx.index, len.into(), addr, region),
            Wire::FlushRead { addr, region } => self.judge_flush(route, addr, region),
            Wire::Put { .. } | Wire::Get { .. } => {
                let wire = op.wire;
                self.judge_one_sided(route, &wire)
            }
        };
        self.ops.get_mut(number).bytes = bytes;
        match verdict {
            Ok(owner) => Some(owner),
            Err(what) => {
                self.violation(format!("host {}: {what}", route.src));
                None
            }
        }
    }

    /// An operation was accepted: what it does is done once.
    pub(crate) fn commit_post(&mut self, owner: Option<Owner>) {
        let Some(owner) = owner else { return };
        if let Some(record) = self.ledger.record_mut(owner) {
            record.flying += 1;
        }
    }

    /// The engine was told that an operation completed.
    pub(crate) fn settle(&mut self, owner: Option<Owner>) {
        let Some(owner) = owner else { return };
        if let Some(record) = self.ledger.record_mut(owner) {
            record.flying = record.flying.saturating_sub(1);
        }
    }

    pub(crate) fn judge_source(
        &self,
        host: u8,
        region: RegionId,
        addr: u64,
        len: u64,
    ) -> Result<(), String> {
        if self.node(host).memory.local_access(region, addr, len) {
            return Ok(());
        }
        Err(format!(
            "{len} bytes at {addr:#x} are not in {region:?}, or it is gone"
        ))
    }

    fn judge_control(&mut self, route: Route, bytes: &[u8]) -> Result<Owner, String> {
        let Route { src, dst, lane } = route;
        let message = Control::read(bytes);
        if !matches!(message, Control::Ctrl { .. }) && lane.rail() != 0 {
            return Err(format!(
                "{message:?} on control rail {}, not 0",
                lane.rail()
            ));
        }
        match message {
            Control::Conn { local, remote } => {
                let found = self.ledger.by_id(dst, remote, Role::Listener);
                let (link, life) = found.ok_or_else(|| format!("CONN for no listener {remote}"))?;
                self.ledger.take_id(src, local, link, Role::Send)?;
                self.setup_owner(link, life, SEND)
            }
            Control::ConnResp { local, remote } => {
                let found = self.ledger.by_id(dst, remote, Role::Send);
                let (link, life) =
                    found.ok_or_else(|| format!("CONN_RESP for nobody: {remote}"))?;
                self.ledger.take_id(src, local, link, Role::Recv)?;
                self.setup_owner(link, life, RECV)
            }
            Control::Ctrl {
                comm,
                seq,
                len,
                addr,
                silent,
            } => {
                let owner = self.ctrl_owner(dst, comm, seq)?;
                self.judge_ctrl(route, owner, (len, addr, silent), bytes)?;
                Ok(owner)
            }
            Control::Close { comm, ctrls } => self.judge_close(dst, comm, ctrls),
            Control::Unknown => Err(format!(
                "{} bytes that are no message: {bytes:x?}",
                bytes.len()
            )),
        }
    }

    fn setup_owner(&self, link: u16, life: u32, side: usize) -> Result<Owner, String> {
        if self.ledger.link(link).life == life && self.ledger.link(link).closed[side] {
            return Err(format!(
                "a connection message of link {link} after its close"
            ));
        }
        Ok(Owner {
            link,
            life,
            k: 0,
            part: Part::Setup,
        })
    }

    fn ctrl_owner(&self, dst: u8, comm: u32, seq: u64) -> Result<Owner, String> {
        let found = self.ledger.by_id(dst, comm, Role::Send);
        let (link, life) = found.ok_or_else(|| format!("CTRL for no sender {comm}"))?;
        let truth = self.ledger.link(link);
        if truth.closed[RECV] || truth.life != life {
            return Err(format!(
                "CTRL {seq} of link {link} after its receiver closed"
            ));
        }
        let k = truth.rings[RECV].by_seq(seq, self.ledger.seq_bits);
        let k = k.ok_or_else(|| format!("CTRL {seq} of link {link} without a receive"))?;
        Ok(Owner {
            link,
            life,
            k,
            part: Part::Ctrl,
        })
    }

    fn judge_ctrl(
        &mut self,
        route: Route,
        owner: Owner,
        (len, addr, silent): (u64, u64, bool),
        bytes: &[u8],
    ) -> Result<(), String> {
        let (rails, control_rr) = (usize::from(self.config.rails), self.config.control_rr);
        let width = if self.config.long_keys { 8 } else { 4 };
        let Owner { link, k, .. } = owner;
        if bytes.len() != 16 + rails * width || (!control_rr && route.lane.rail() != 0) {
            return Err(format!("CTRL of {} bytes on {:?}", bytes.len(), route.lane));
        }
        let record = self.ledger.record_mut(owner);
        let record = record.ok_or_else(|| format!("CTRL for receive {k}, which is not there"))?;
        if core::mem::replace(&mut record.ctrl, true) {
            return Err(format!("a second CTRL for receive {k} of link {link}"));
        }
        let record = *record;
        let memory = &self.node(route.src).memory;
        let (wire, keys) = (
            memory.wire_addr(record.region, record.addr),
            memory.keys(record.region),
        );
        if (len, addr, silent) != (record.len, wire, record.optional) {
            return Err(format!(
                "CTRL {k} says {len} bytes at {addr:#x}, silently: {silent}: {record:?}"
            ));
        }
        for (rail, key) in keys.iter().enumerate().take(rails) {
            if ctrl_key(bytes, rail, width) != *key {
                return Err(format!(
                    "CTRL {k} has another key than {key:#x} for rail {rail}"
                ));
            }
        }
        self.ledger.link_mut(link).ctrls += 1;
        Ok(())
    }

    fn judge_close(&mut self, dst: u8, comm: u32, ctrls: u64) -> Result<Owner, String> {
        let found = self.ledger.by_id(dst, comm, Role::Send);
        let (link, life) = found.ok_or_else(|| format!("CLOSE for no sender {comm}"))?;
        let on = self.config.close_messages;
        let truth = self.ledger.link_mut(link);
        if truth.life == life {
            truth.closes += 1;
            let legal = on && truth.closed[RECV] && truth.closes == 1 && ctrls > 0;
            // A CTRL that failed after the close is posted, and does not count.
            let counts = ctrls == truth.ctrls || (truth.tainted && ctrls < truth.ctrls);
            if !legal || !counts {
                let (posted, closes) = (truth.ctrls, truth.closes);
                return Err(format!(
                    "CLOSE {closes} of link {link} counts {ctrls} CTRLs of {posted}"
                ));
            }
        }
        Ok(Owner {
            link,
            life,
            k: 0,
            part: Part::Setup,
        })
    }

    /// The send that an immediate names.
    fn data_owner(&self, dst: u8, imm: Imm) -> Result<Owner, String> {
        let found = self.ledger.by_id(dst, imm.comm, Role::Recv);
        let (link, life) = found.ok_or_else(|| format!("{imm:?} for no receiver"))?;
        let truth = self.ledger.link(link);
        if truth.closed[SEND] || truth.life != life {
            return Err(format!(
                "{imm:?}: data of link {link} after its sender closed"
            ));
        }
        let k = truth.rings[SEND].by_seq(imm.seq, self.ledger.seq_bits);
        let k = k.ok_or_else(|| format!("{imm:?}: data of link {link} without a send"))?;
        Ok(Owner {
            link,
            life,
            k,
            part: Part::Data,
        })
    }

    fn judge_eager(
        &mut self,
        route: Route,
        imm: Imm,
        addr: u64,
        len: u64,
        region: RegionId,
    ) -> Result<Owner, String> {
        if len > 0 {
            self.judge_source(route.src, region, addr, len)?;
        }
        let owner = self.data_owner(route.dst, imm)?;
        let max = self.config.eager_max;
        let record = self.ledger.record_mut(owner);
        let record = record.ok_or_else(|| format!("{imm:?}: eager data of no send"))?;
        let first = record.segs == 0 && !record.eager;
        if !first || imm.nseg != 1 || len != record.len || (len > 0 && addr != record.addr) {
            return Err(format!(
                "{imm:?}: eager {len} bytes at {addr:#x} for {record:?}"
            ));
        }
        record.eager = true;
        record.moved = len;
        if i128::from(len) > i128::from(max) {
            return Err(format!("{imm:?}: {len} bytes eagerly, above {max}"));
        }
        Ok(owner)
    }

    fn judge_write(&mut self, route: Route, data: u64, seg: Segment) -> Result<Owner, String> {
        let told = (data >> 32).checked_sub(1);
        if told != self.config.tells_lengths().then_some(seg.len) {
            return Err(format!("{data:#x}: the length of {seg:?} in it"));
        }
        let imm = Imm::read(immediate(data), self.ledger.seq_bits);
        let owner = self.data_owner(route.dst, imm)?;
        self.judge_segment(route, owner, seg, Some(imm.nseg))?;
        Ok(owner)
    }

    /// A segment of a send: of so many, or without an immediate where the receive is optional.
    pub(crate) fn judge_segment(
        &mut self,
        route: Route,
        owner: Owner,
        seg: Segment,
        promised: Option<u32>,
    ) -> Result<(), String> {
        let Owner { link, k, .. } = owner;
        let sizes = self.ledger.link(link).plan.sizes(k, &self.config);
        let truth = self.ledger.link_mut(link);
        let (posted, wanted) = {
            let [sends, recvs] = &mut truth.rings;
            (sends.get_mut(k), recvs.get(k).copied())
        };
        let posted = posted.ok_or_else(|| format!("{owner:?}: a segment of no send"))?;
        posted.segs += 1;
        posted.moved += seg.len;
        let nseg = match promised {
            Some(nseg) if posted.segs == 1 => nseg,
            Some(_) => posted.nseg,
            None => posted.segs,
        };
        posted.nseg = nseg;
        let counts = promised.is_none_or(|promised| promised == nseg)
            && posted.segs <= nseg
            && (1..=4).contains(&nseg);
        if !counts || posted.eager || posted.moved > sizes.moved() {
            return Err(format!("{owner:?}: {seg:?} is too much for {posted:?}"));
        }
        let offset = seg.addr.wrapping_sub(posted.addr);
        let tainted = truth.tainted || truth.closed[RECV];
        // After an abrupt end at the receiver its record says nothing.
        let Some(wanted) = wanted.filter(|_| !tainted) else {
            return Ok(());
        };
        let memory = &self.node(route.dst).memory;
        let rail = usize::from(route.lane.rail());
        let place = memory
            .wire_addr(wanted.region, wanted.addr)
            .wrapping_add(offset);
        let key = memory.keys(wanted.region)[rail];
        if seg.remote_key != key || (seg.len > 0 && seg.remote_addr != place) {
            return Err(format!(
                "{owner:?}: {seg:?} on rail {rail} has its place at {place:#x}, {key:#x}"
            ));
        }
        if wanted.optional != promised.is_none() {
            return Err(format!(
                "{owner:?}: immediate of {promised:?} segments for {wanted:?}"
            ));
        }
        Ok(())
    }

    fn judge_copy(
        &mut self,
        route: Route,
        rx: u32,
        len: u64,
        addr: u64,
        region: RegionId,
    ) -> Result<Owner, String> {
        self.judge_source(route.src, region, addr, len)?;
        let bounce = &self.node(route.src).bounce[usize::from(route.lane.rail())];
        if !bounce.is_held(rx) || len == 0 || len > bounce.bytes {
            return Err(format!(
                "{len} bytes copied from buffer {rx}, which is not held"
            ));
        }
        let link = self.ledger.by_region(route.src, region);
        let link = link.ok_or_else(|| format!("a copy into {region:?}, which is no receive's"))?;
        let truth = self.ledger.link_mut(link);
        let (life, ring) = (truth.life, &mut truth.rings[RECV]);
        let first = ring.next.saturating_sub(512);
        let found = (first..ring.next).rev().find(|&k| {
            ring.get(k)
                .is_some_and(|r| r.addr == addr && r.region == region && !r.copied)
        });
        let record = found.and_then(|k| ring.get_mut(k));
        let record = record.ok_or_else(|| format!("a copy to {addr:#x}, where no receive is"))?;
        record.copied = true;
        let (k, room) = (record.k, record.len);
        if len > room {
            return Err(format!("{len} bytes copied into a receive of {room}"));
        }
        Ok(Owner {
            link,
            life,
            k,
            part: Part::Copy,
        })
    }

    fn judge_flush(&self, route: Route, addr: u64, region: RegionId) -> Result<Owner, String> {
        self.judge_source(route.src, region, addr, 4)?;
        let link = self.ledger.by_region(route.src, region);
        let link = link.ok_or_else(|| format!("a flush of {region:?}, which is no receive's"))?;
        Ok(Owner {
            link,
            life: self.ledger.link(link).life,
            k: 0,
            part: Part::Flush,
        })
    }
}
