//! A NIC of this process: what it is, what its plan says, what it counts.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::Mutex;

use ofi_sys::errno as e;

use super::locked;
use super::process::Process;
use crate::mem::layout::nic_flags;
use crate::plan::{Code, NicPlan, OpFault, OpKind, PollVerdict, PostVerdict, RegVerdict};
use crate::plan::{Registered, Registration, Schedule};
use crate::shape::NicSpec;
use crate::stats::NicStats;

/// A NIC.
#[derive(Debug)]
pub(crate) struct Nic {
    pub(crate) index: usize,
    pub(crate) spec: NicSpec,
    plan: Mutex<NicPlan>,
    /// The plan never says anything: it is not asked.
    is_plain: bool,
    /// Set once it is lost or mute.
    is_silent: AtomicU32,
    loss: Mutex<Option<Code>>,
    /// When a slow NIC will have sent what was posted, in nanoseconds of the process.
    busy_until: AtomicU64,
    regions: AtomicU64,
    region_bytes: AtomicU64,
    region_pages: AtomicU64,
}

/// Pages that memory touches, from its first byte to its last.
fn pages((base, len): (u64, u64)) -> u64 {
    let lead = base % 4096;
    lead.saturating_add(len).div_ceil(4096)
}

fn count_strikes(process: &Process, plan: &NicPlan) {
    for rule in plan.struck() {
        process.stats().strike(*rule);
    }
}

impl Nic {
    pub(crate) fn new(index: usize, spec: NicSpec, plan: NicPlan) -> Self {
        Self {
            index,
            spec,
            is_plain: plan.is_plain(),
            plan: Mutex::new(plan),
            is_silent: AtomicU32::new(0),
            loss: Mutex::new(None),
            busy_until: AtomicU64::new(0),
            regions: AtomicU64::new(0),
            region_bytes: AtomicU64::new(0),
            region_pages: AtomicU64::new(0),
        }
    }

    /// The number in addresses.
    pub(crate) fn number(&self) -> u16 {
        u16::try_from(self.index).unwrap_or(u16::MAX)
    }

    pub(crate) fn stats<'a>(&self, process: &'a Process) -> &'a NicStats {
        process.stats().nic(self.index)
    }

    /// Adds what peers wrote and read by this NIC since the last time to what it counts.
    pub(crate) fn count_traffic(&self, process: &Process) {
        let Some(traffic) = process.segment().traffic.get(self.index) else {
            return;
        };
        let stats = self.stats(process);
        for (moved, counter) in [
            (&traffic.written, &stats.bytes_in),
            (&traffic.read, &stats.bytes_out),
        ] {
            if moved.load(Ordering::Relaxed) > 0 {
                counter.fetch_add(moved.swap(0, Ordering::Relaxed), Ordering::Relaxed);
            }
        }
    }

    /// How a post goes that is otherwise fine: all that the plan says of it is decided, done and counted
    /// here, for every kind alike.
    ///
    /// # Errors
    /// A positive errno of the plan's; EAGAIN if the post is to be tried again.
    pub(crate) fn on_post(
        &self,
        process: &Process,
        kind: OpKind,
        len: u64,
    ) -> Result<Schedule, i32> {
        if self.is_plain {
            return Ok(Schedule::default());
        }
        let stats = self.stats(process);
        let verdict = self.ask(process, kind, len);
        let is_fault = match &verdict {
            PostVerdict::Accept(schedule) => schedule.fault != OpFault::None,
            PostVerdict::Again | PostVerdict::Fail { .. } | PostVerdict::Kill => true,
        };
        if is_fault {
            stats.injected.fetch_add(1, Ordering::Relaxed);
        }
        match verdict {
            PostVerdict::Accept(schedule) => Ok(schedule),
            PostVerdict::Again => {
                stats.again.fetch_add(1, Ordering::Relaxed);
                Err(e::FI_EAGAIN)
            }
            PostVerdict::Fail { errno } => Err(errno),
            PostVerdict::Kill => process.die(),
        }
    }

    fn ask(&self, process: &Process, kind: OpKind, len: u64) -> PostVerdict {
        let mut plan = locked(&self.plan);
        let mut verdict = plan.on_post(kind, len);
        count_strikes(process, &plan);
        if process.config().stats.is_some() {
            let stats = self.stats(process);
            stats.schedule.store(plan.digest(), Ordering::Relaxed);
        }
        if let (PostVerdict::Accept(schedule), Some(bps)) = (&mut verdict, plan.slow_bps()) {
            if kind != OpKind::Recv {
                let wire = self.wire(process.now_ns(), len, bps);
                schedule.delay_ns = schedule.delay_ns.saturating_add(wire);
            }
        }
        let lost = plan.is_lost().then(|| plan.loss());
        let is_mute = plan.is_mute();
        drop(plan);
        if (lost.is_some() || is_mute) && self.is_silent.load(Ordering::Relaxed) == 0 {
            *locked(&self.loss) = lost;
            self.is_silent.store(1, Ordering::Relaxed);
            if let Some(flags) = process.segment().nics.get(self.index) {
                flags.fetch_or(nic_flags::SILENT, Ordering::Relaxed);
            }
        }
        verdict
    }

    /// How long it takes until bytes posted now have left a slow NIC, behind those before them.
    fn wire(&self, now: u64, len: u64, bps: u64) -> u64 {
        let bits_e9 = u128::from(len) * 8_000_000_000;
        let takes = u64::try_from(bits_e9 / u128::from(bps.max(1))).unwrap_or(u64::MAX / 4);
        let starts = self.busy_until.load(Ordering::Relaxed).max(now);
        let ends = starts.saturating_add(takes);
        self.busy_until.store(ends, Ordering::Relaxed);
        ends - now
    }

    /// Whether nothing goes out any more, and what becomes of what is pending: the error, or `None`
    /// if it just stays.
    pub(crate) fn silence(&self) -> Option<Option<Code>> {
        (self.is_silent.load(Ordering::Relaxed) != 0).then(|| *locked(&self.loss))
    }

    pub(crate) fn on_poll(&self, process: &Process) -> PollVerdict {
        if self.is_plain {
            return PollVerdict::Go;
        }
        let mut plan = locked(&self.plan);
        let verdict = plan.on_poll();
        count_strikes(process, &plan);
        verdict
    }

    pub(crate) fn on_readerr(&self, process: &Process) -> bool {
        if self.is_plain {
            return false;
        }
        let mut plan = locked(&self.plan);
        let is_busy = plan.on_readerr();
        count_strikes(process, &plan);
        is_busy
    }

    /// Counts a region in, if the plan lets it: its end of use, or the errno of the refusal.
    ///
    /// # Errors
    /// A positive errno.
    pub(crate) fn register(
        &self,
        process: &Process,
        memory: (u64, u64),
    ) -> Result<Option<u32>, i32> {
        let (len, pages) = (memory.1, pages(memory));
        let ask = Registration { len, pages };
        let mut plan = locked(&self.plan);
        let now = Registered {
            count: self.regions.load(Ordering::Relaxed),
            bytes: self.region_bytes.load(Ordering::Relaxed),
            pages: self.region_pages.load(Ordering::Relaxed),
        };
        let verdict = plan.on_register(ask, now);
        count_strikes(process, &plan);
        match verdict {
            RegVerdict::Fail { errno } => {
                self.stats(process).injected.fetch_add(1, Ordering::Relaxed);
                Err(errno)
            }
            RegVerdict::Accept { revoke_after } => {
                self.regions.fetch_add(1, Ordering::Relaxed);
                self.region_bytes.fetch_add(len, Ordering::Relaxed);
                self.region_pages.fetch_add(pages, Ordering::Relaxed);
                let stats = self.stats(process);
                stats.regions.fetch_add(1, Ordering::Relaxed);
                stats.regions_bytes.fetch_add(len, Ordering::Relaxed);
                stats.regions_pages.fetch_add(pages, Ordering::Relaxed);
                Ok(revoke_after)
            }
        }
    }

    /// Counts a region out.
    pub(crate) fn deregister(&self, process: &Process, memory: (u64, u64)) {
        let (len, pages) = (memory.1, pages(memory));
        self.regions.fetch_sub(1, Ordering::Relaxed);
        self.region_bytes.fetch_sub(len, Ordering::Relaxed);
        self.region_pages.fetch_sub(pages, Ordering::Relaxed);
        let stats = self.stats(process);
        stats.regions.fetch_sub(1, Ordering::Relaxed);
        stats.regions_bytes.fetch_sub(len, Ordering::Relaxed);
        stats.regions_pages.fetch_sub(pages, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::pages;

    #[test]
    fn pages_are_those_that_are_touched() {
        for (base, len, touched) in [
            (0, 4096, 1),
            (4096, 4097, 2),
            (100, 4096, 2),
            (4095, 2, 2),
            (8191, 1, 1),
        ] {
            assert_eq!(pages((base, len)), touched, "{base} {len}");
        }
    }
}
