//! The counters of this process in a file that it maps (`OFI_NCCL_STATS_DIR`), for `ofi top` and `ofi stats`.
//!
//! ```text
//! engine: counters, always on --+
//! port, harvest: Seen, by rail -+--> Meter (of a domain) --> StatsFile (of the process) ~~~> ofi stats, ofi top
//! registrations: MemoryCounts --+     what was added since      atomic words, mapped
//! ```
//!
//! Nothing is written on the path of a message. A domain writes what was added every 256th progress pass,
//! and when a communicator opens or closes; so what stands in the file is that old at most while calls come,
//! and exact after a close. Off, it costs one look at an `Option` every 256th pass.

mod core;
mod file;
mod hw;
mod map;
mod meter;

pub(crate) use self::core::Passes;
pub(crate) use file::{About, StatsFile};
pub(crate) use hw::read as hardware;
pub(crate) use meter::{Counted, Meter, Open};

use ::core::sync::atomic::{AtomicU64, Ordering};
use efa_fabric::Info;
use ofi_rdma::limits::MAX_RAILS;
use ofi_rdma::{CommCounters, CommKind, Counters};

/// What went over one rail, counted where operations are posted and completions harvested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Segments that the provider took; under SENDRECV: sends.
    pub(crate) segments: u64,
    /// Bytes that it took: of segments, eager messages, one-sided writes.
    pub(crate) sent: u64,
    /// Times it said EAGAIN.
    pub(crate) busy: u64,
    /// Bytes that came in, as far as the provider tells lengths.
    pub(crate) bytes: u64,
    /// Completions.
    pub(crate) completions: u64,
    /// Error entries, cancelled receives not counted.
    pub(crate) errors: u64,
}

/// By rail.
pub(crate) type SeenRails = [Seen; MAX_RAILS];

impl Seen {
    /// The provider took so many bytes. Wrapping, so that no overflow check is left in the hot path; a build
    /// with `--cfg ofi_without_counters` is what it is measured against.
    #[inline(always)]
    pub(crate) const fn took(&mut self, segments: u64, bytes: usize) {
        if cfg!(not(ofi_without_counters)) {
            self.segments = self.segments.wrapping_add(segments);
            self.sent = self.sent.wrapping_add(bytes as u64);
        }
    }
}

/// Of a rail, whatever number it has.
#[inline(always)]
pub(crate) const fn of_rail(rails: &mut SeenRails, rail: u8) -> &mut Seen {
    const { assert!(MAX_RAILS == 4) };
    &mut rails[(rail & 3) as usize]
}

/// What became of the caller's memory: counted outside the lock of a domain.
#[derive(Debug, Default)]
pub(crate) struct MemoryCounts {
    /// Calls that register.
    pub(crate) requests: AtomicU64,
    /// Registrations that the provider made for them.
    pub(crate) registrations: AtomicU64,
    /// Calls that failed.
    pub(crate) failures: AtomicU64,
}

impl MemoryCounts {
    /// One more.
    pub(crate) fn add(count: &AtomicU64) {
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Requests, registrations, requests that found one, failures.
    pub(crate) fn read(&self) -> [u64; 4] {
        let [requests, registrations, failures] =
            [&self.requests, &self.registrations, &self.failures]
                .map(|n| n.load(Ordering::Relaxed));
        let served = requests.saturating_sub(failures);
        [
            requests,
            registrations,
            served.saturating_sub(registrations),
            failures,
        ]
    }
}

/// What the device of a rail is called in sysfs, where it has one, else what libfabric calls it.
pub(crate) fn nic_name(info: &Info) -> &str {
    let name = info.nic().and_then(|nic| nic.name());
    name.unwrap_or_else(|| info.domain_name())
}

/// What several domains counted together.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    counters: Counters,
    errors: u64,
    memory: [u64; 4],
}

impl Tally {
    /// One domain more.
    pub(crate) fn take(&mut self, engine: &impl Counted, seen: &SeenRails, memory: &MemoryCounts) {
        self.counters += engine.all();
        self.errors += seen.iter().map(|seen| seen.errors).sum::<u64>();
        let sum = self.memory.iter_mut().zip(memory.read());
        sum.for_each(|(sum, more)| *sum += more);
    }

    /// The line at the end of a process; `None` when nothing happened.
    pub(crate) fn line(&self) -> Option<String> {
        let idle = self.counters == Counters::default() && self.errors == 0;
        (!idle).then(|| process_line(&self.counters, self.errors, self.memory))
    }
}

/// What a communicator did, for the line at its close.
pub(crate) fn comm_line(id: u32, kind: CommKind, counted: &CommCounters) -> String {
    let CommCounters {
        messages,
        eager,
        bytes,
        busy,
    } = counted;
    let (did, eager) = match kind {
        CommKind::Send => ("sent", format!(" ({eager} eagerly)")),
        _ => ("received", String::new()),
    };
    format!(
        "communicator {id} closed: {did} {messages} messages{eager}, {bytes} bytes; EAGAIN {busy} times"
    )
}

/// What a process did, for the line at its end.
fn process_line(counted: &Counters, errors: u64, memory: [u64; 4]) -> String {
    let Counters {
        sends,
        eager_sends,
        recvs,
        bytes_sent,
        bytes_received,
        segments,
        busy,
        strays,
        failures,
        ..
    } = counted;
    let [_, registrations, hits, _] = memory;
    format!(
        "closed: sent {sends} messages ({eager_sends} eagerly), {bytes_sent} bytes in {segments} segments; \
         received {recvs}, {bytes_received} bytes; EAGAIN {busy} times, {registrations} registrations and \
         {hits} hits, {strays} strays, {errors} errors, {failures} communicators failed"
    )
}
