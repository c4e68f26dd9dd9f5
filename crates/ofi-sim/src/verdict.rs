//! Oracles of what a caller sees: that "not now" is true, and that a request that is done is done.

use ofi_rdma::{Admission, Dialect, Done, NotNow};

use crate::caller::Caller;
use crate::ledger::{RECV, Record, SEND};
use crate::pattern::{GUARD, GUARD_BYTES, first_difference, first_other};

impl<D: Dialect> Caller<'_, D> {
    /// Whatever was done went over rails that there are, one at least.
    pub(crate) fn judge_rails(&mut self, done: Done) -> u64 {
        let known = (1_u8 << self.world.config.rails) - 1;
        let rails = done.rails.bits();
        if (rails == 0 && done.bytes > 0) || rails & !known != 0 {
            self.violation(format!("{done:?} with {} rails", self.world.config.rails));
        }
        done.bytes
    }

    /// "Not now" has to be true.
    pub(crate) fn judge_admission(&mut self, next: u64, admission: Admission) {
        let pending = &self.link.sides[self.side].pending;
        let oldest = pending.iter().map(|p| p.k).min().unwrap_or(next);
        let others = self.link.sides[self.side].one_sided.len() as u64;
        let full = next - oldest + others >= self.world.ledger.inflight_max;
        let waiting = self.engine.posts_waiting() > 0;
        let (legal, reason) = match admission {
            Admission::Admitted(_) => (!full, None),
            Admission::NotNow(NotNow::Connecting) => (false, Some(0)),
            Admission::NotNow(NotNow::InFlightCap) => (full, Some(1)),
            Admission::NotNow(NotNow::PostsWaiting) => (waiting, Some(2)),
            Admission::NotNow(NotNow::ProviderBusy) => (false, Some(3)),
        };
        if let Some(reason) = reason {
            self.world.report.not_now[reason] += 1;
        }
        if !legal {
            self.violation(format!(
                "{admission:?} with messages {oldest}..{next} in flight"
            ));
        }
    }

    /// Eager exactly when no CTRL is known, it is short, and no send that was not eager is
    /// outstanding (protocol 2e.2).
    pub(crate) fn is_eager(&self, k: u64, len: u64) -> bool {
        let truth = self.world.ledger.link(self.link.index);
        let known = truth.rings[SEND].knows_ctrl(k);
        let short = i128::from(len) <= i128::from(self.world.config.eager_max);
        !known && short && truth.writes_out == 0
    }

    pub(crate) fn judge_choice(&mut self, (k, len): (u64, u64), legal: bool, chosen: bool) {
        if chosen != legal {
            self.violation(format!(
                "send {k} of {len} bytes eager: {chosen}, by the rule: {legal}"
            ));
        }
    }

    pub(crate) fn judge_send(&mut self, k: u64, bytes: u64) {
        let truth = self.world.ledger.link(self.link.index);
        let moved = truth.plan.sizes(k, &self.world.config).moved();
        let Some(&record) = truth.rings[SEND].get(k) else {
            return;
        };
        let whole = record.eager
            || (record.segs == record.nseg && record.moved == moved && record.segs > 0);
        if bytes != moved || record.flying != 0 || !record.ctrl || !whole {
            self.violation(format!(
                "send {k} says {bytes} of {moved} bytes: {record:?}"
            ));
        }
    }

    pub(crate) fn judge_recv(&mut self, k: u64, slot: u16, bytes: u64) {
        let (host, config) = (self.host(), &self.world.config);
        let truth = self.world.ledger.link(self.link.index);
        let sizes = truth.plan.sizes(k, config);
        let Some(&record) = truth.rings[RECV].get(k) else {
            return;
        };
        let eager = record.segs == 0;
        // Where the provider tells no length, the engine can only say the room (decision 16).
        let unknown = !config.report_len && !config.tells_lengths() && !eager;
        let said = if unknown { sizes.recv } else { sizes.moved() };
        let whole = eager || (record.segs == record.nseg && record.moved == sizes.moved());
        let addr = self.link.buffer(RECV, slot, config);
        let seed = truth.plan.content(k);
        let wrong = self.compare(host, addr, sizes.moved(), sizes.recv, seed);
        if bytes != said || record.flying != 0 || !record.ctrl || !whole {
            self.violation(format!(
                "receive {k} says {bytes} bytes of {sizes:?}: {record:?}"
            ));
        }
        if let Some(at) = wrong {
            self.violation(format!("receive {k} of {sizes:?} has a wrong byte at {at}"));
        }
        self.count(k, &record, sizes.moved());
        self.world.report.eager += u64::from(eager);
    }

    /// All data of an optional receive is there.
    pub(crate) fn judge_come(&mut self, k: u64, slot: u16) {
        let (host, config) = (self.host(), &self.world.config);
        let truth = self.world.ledger.link(self.link.index);
        let sizes = truth.plan.sizes(k, config);
        let Some(&record) = truth.rings[RECV].get(k) else {
            return;
        };
        let addr = self.link.buffer(RECV, slot, config);
        let seed = truth.plan.content(k);
        if let Some(at) = self.compare(host, addr, sizes.moved(), sizes.recv, seed) {
            self.violation(format!(
                "optional receive {k} of {sizes:?} has a wrong byte at {at}"
            ));
        }
        self.count(k, &record, sizes.moved());
        self.world.report.optional += 1;
    }

    fn count(&mut self, k: u64, record: &Record, bytes: u64) {
        let bits = self.world.ledger.seq_bits;
        let report = &mut self.world.report;
        report.messages += 1;
        report.segments += u64::from(record.segs);
        report.bytes += bytes;
        report.wraps += u64::from((k + 1) & ((1 << bits) - 1) == 0);
    }

    /// Offset of the first byte that is neither the message nor, around it, what was there before.
    fn compare(&self, host: u8, addr: u64, moved: u64, room: u64, seed: u64) -> Option<i64> {
        let memory = &self.world.node(host).memory;
        if let Some(at) = first_difference(memory.at(addr, moved), seed) {
            return i64::try_from(at).ok();
        }
        let after = memory.at(addr + moved, room - moved + GUARD_BYTES);
        if let Some(at) = first_other(after, GUARD) {
            return i64::try_from(at)
                .ok()
                .map(|at| at + i64::try_from(moved).unwrap_or(0));
        }
        let before = memory.at(addr - GUARD_BYTES, GUARD_BYTES);
        let at = first_other(before, GUARD)?;
        i64::try_from(at).ok().map(|at| at - 32)
    }
}
