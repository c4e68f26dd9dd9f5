//! Optional receives (protocol 2e.10): done with their CTRL, and their data comes without an immediate. The
//! caller looks for itself when it is there, and the oracles with it.

use ofi_rdma::{Dialect, RegionId};

use crate::caller::Caller;
use crate::judge::{Route, Segment};
use crate::ledger::{Owner, Part, RECV, SEND};
use crate::world::World;

impl World {
    /// A write without an immediate: whose it is follows from where its bytes are.
    pub(crate) fn judge_silent(
        &mut self,
        route: Route,
        region: RegionId,
        seg: Segment,
    ) -> Result<Owner, String> {
        let link = self.ledger.by_region(route.src, region);
        let link = link.filter(|_| seg.len > 0);
        let link = link.ok_or_else(|| format!("{seg:?} from {region:?}, silently"))?;
        let truth = self.ledger.link(link);
        if truth.closed[SEND] {
            return Err(format!(
                "a silent write of link {link} after its sender closed"
            ));
        }
        let ring = &truth.rings[SEND];
        let holds = |k: &u64| {
            ring.get(*k).is_some_and(|send| {
                let at = seg.addr.wrapping_sub(send.addr);
                send.region == region && at <= send.len && seg.len <= send.len - at
            })
        };
        let oldest = ring.next.saturating_sub(self.ledger.inflight_max);
        let k = (oldest..ring.next).rev().find(holds);
        let k = k.ok_or_else(|| format!("{seg:?} of link {link} is of no send"))?;
        let owner = Owner {
            link,
            life: truth.life,
            k,
            part: Part::Data,
        };
        self.judge_segment(route, owner, seg, None)?;
        Ok(owner)
    }

    /// A silent write lands: only in a receive that waits for these bytes.
    pub(crate) fn judge_silent_landing(&mut self, owner: Option<Owner>, to: u64, len: u64) {
        let Some(owner) = owner else { return };
        let truth = self.ledger.link_mut(owner.link);
        if truth.life != owner.life || truth.closed[RECV] {
            return;
        }
        let sizes = truth.plan.sizes(owner.k, &self.config);
        let Some(record) = truth.rings[RECV].get_mut(owner.k) else {
            return self.violation(format!(
                "{owner:?}: {len} bytes land in a receive that is over"
            ));
        };
        record.segs += 1;
        record.moved += len;
        let inside = to >= record.addr && to + len <= record.addr + sizes.moved();
        if !inside || !record.optional || record.moved > sizes.moved() {
            let record = *record;
            self.violation(format!("{len} silent bytes land at {to:#x} of {record:?}"));
        }
    }
}

impl<D: Dialect> Caller<'_, D> {
    /// Whether the next receive says that it is optional. One that gets no bytes never does: there
    /// would be nothing to see.
    pub(crate) fn wants_optional(&mut self) -> bool {
        let truth = self.world.ledger.link(self.link.index);
        let next = truth.rings[RECV].next;
        let sizes = truth.plan.sizes(next, &self.world.config);
        sizes.moved() > 0 && self.link.rng.chance(self.world.config.optional_ppm)
    }

    /// Whether so many receives whose data is still to come have been started as can be in flight:
    /// the caller's part of the bargain, since the engine cannot know. Beyond it they would leave the
    /// sender's window of sequence numbers.
    pub(crate) fn is_too_far_ahead(&self, next: u64) -> bool {
        let oldest = self.link.sides[self.side].awaited.iter().min();
        oldest.is_some_and(|&(k, _)| next - k >= self.world.ledger.inflight_max)
    }

    /// test said that an optional receive is done: with its CTRL, and no bytes.
    pub(crate) fn judge_early(&mut self, k: u64, bytes: u64) {
        let truth = self.world.ledger.link(self.link.index);
        let Some(&record) = truth.rings[RECV].get(k) else {
            return;
        };
        if bytes != 0 || !record.ctrl || record.flying != 0 {
            self.violation(format!(
                "optional receive {k} says {bytes} bytes: {record:?}"
            ));
        }
    }

    /// The caller looks whether data has come, as it promised.
    pub(crate) fn look_for_data(&mut self) -> bool {
        let mut moved = false;
        let mut at = 0;
        while let Some(&(k, slot)) = self.link.sides[RECV].awaited.get(at) {
            let truth = self.world.ledger.link(self.link.index);
            let wanted = truth.plan.sizes(k, &self.world.config).moved();
            let record = truth.rings[RECV].get(k);
            if record.is_some_and(|record| record.moved < wanted) {
                at += 1;
                continue;
            }
            self.link.sides[RECV].awaited.swap_remove(at);
            self.judge_come(k, slot);
            self.over(k, slot);
            moved = true;
        }
        moved
    }
}
