//! What a domain adds to the file.

use super::file::{StatsFile, unix_ms};
use super::{MemoryCounts, Seen, SeenRails};
use ofi_rdma::{CommCounters, CommInfo, CommKey, CommKind, Counters};
use ofi_trace::stats::{CommAt, RailAt, Total, comm_word, rail_word};
use std::sync::Arc;

/// Communicators written in one go: a domain with thousands of them is no slower for it.
const COMMS_PER_GO: usize = 32;

/// An engine that counts.
pub(crate) trait Counted {
    /// All of it.
    fn all(&self) -> Counters;

    /// One communicator.
    fn one(&self, comm: CommKey) -> Option<(CommInfo, CommCounters)>;
}

/// What a domain has written, and where.
#[derive(Debug)]
pub(crate) struct Meter {
    file: Arc<StatsFile>,
    memory: Arc<MemoryCounts>,
    device: usize,
    /// Number of the domain in its device.
    number: usize,
    rails: Vec<Option<usize>>,
    written: Counters,
    written_seen: SeenRails,
    written_memory: [u64; 4],
    /// Those that are open, with their slots.
    comms: Vec<(CommKey, Option<usize>)>,
    /// The next one to write.
    turn: usize,
}

/// A domain of a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Open<'a> {
    /// Index of the device.
    pub(crate) device: usize,
    /// Number of the domain in it.
    pub(crate) number: usize,
    /// Its NICs, by rail.
    pub(crate) nics: &'a [&'a str],
}

impl Meter {
    /// Of a domain that was just opened.
    pub(crate) fn new(file: &Arc<StatsFile>, memory: &Arc<MemoryCounts>, open: &Open<'_>) -> Self {
        let &Open {
            device,
            number,
            nics,
        } = open;
        let rails = nics.iter().enumerate();
        Self {
            rails: rails
                .map(|(rail, nic)| file.rail(device, rail, nic))
                .collect(),
            file: Arc::clone(file),
            memory: Arc::clone(memory),
            device,
            number,
            written: Counters::default(),
            written_seen: SeenRails::default(),
            written_memory: [0; 4],
            comms: Vec::new(),
            turn: 0,
        }
    }

    /// A communicator is there.
    pub(crate) fn opened(&mut self, comm: CommKey, engine: &impl Counted, peer: Option<&str>) {
        let Some((info, _)) = engine.one(comm) else {
            return;
        };
        let (file, device, number) = (&self.file, self.device as u64, self.number as u64);
        let slot = file.take_comm(|slot| {
            for (at, value) in [
                (CommAt::Side, u64::from(info.kind == CommKind::Recv)),
                (CommAt::Id, u64::from(info.local_id)),
                (CommAt::Device, device),
                (CommAt::Domain, number),
                (CommAt::Opened, unix_ms()),
                (CommAt::Messages, 0),
                (CommAt::Eager, 0),
                (CommAt::Bytes, 0),
                (CommAt::Busy, 0),
                (CommAt::Outstanding, 0),
            ] {
                file.set(comm_word(slot, at), value);
            }
            file.set_text::<8>(comm_word(slot, CommAt::Peer), peer.unwrap_or_default());
        });
        self.comms.push((comm, slot));
    }

    /// A communicator is closed. Its numbers stay in those of its rails and of the process.
    pub(crate) fn closed(&mut self, comm: CommKey) {
        if let Some(at) = self.comms.iter().position(|(key, _)| *key == comm) {
            let (_, slot) = self.comms.swap_remove(at);
            self.file.give_comm(slot);
        }
    }

    /// The receives of a lane only failed.
    pub(crate) fn gave_up_lane(&self) {
        self.file.add_total(Total::LanesGivenUp, 1);
        self.file.updated();
    }

    /// Writes what was added since the last time, and some of the communicators in turn.
    #[cold]
    pub(crate) fn publish(&mut self, engine: &impl Counted, seen: &SeenRails) {
        let now = engine.all();
        self.totals(&now);
        self.rail_numbers(seen);
        let memory = self.memory.read();
        let kinds = [
            Total::RegRequests,
            Total::Registrations,
            Total::RegHits,
            Total::RegFailures,
        ];
        for (total, (now, then)) in kinds
            .into_iter()
            .zip(memory.into_iter().zip(self.written_memory))
        {
            self.file.add_total(total, now.wrapping_sub(then));
        }
        self.written_memory = memory;
        self.written = now;
        self.written_seen = *seen;
        for _ in 0..self.comms.len().min(COMMS_PER_GO) {
            self.turn = if self.turn + 1 < self.comms.len() {
                self.turn + 1
            } else {
                0
            };
            if let Some(&(comm, Some(slot))) = self.comms.get(self.turn) {
                self.comm(engine, comm, slot);
            }
        }
        self.file.updated();
    }

    fn totals(&self, now: &Counters) {
        let then = &self.written;
        for (total, now, then) in [
            (Total::Sends, now.sends, then.sends),
            (Total::EagerSends, now.eager_sends, then.eager_sends),
            (Total::Recvs, now.recvs, then.recvs),
            (Total::OneSided, now.one_sided, then.one_sided),
            (Total::BytesSent, now.bytes_sent, then.bytes_sent),
            (
                Total::BytesReceived,
                now.bytes_received,
                then.bytes_received,
            ),
            (Total::Segments, now.segments, then.segments),
            (Total::Ctrls, now.ctrls, then.ctrls),
            (Total::Busy, now.busy, then.busy),
            (Total::Retried, now.retried, then.retried),
            (Total::NotNow, now.not_now, then.not_now),
            (Total::Strays, now.strays, then.strays),
            (Total::Failures, now.failures, then.failures),
            (Total::Followers, now.followers, then.followers),
            (Total::EventsLost, now.events_lost, then.events_lost),
        ] {
            self.file.add_total(total, now.wrapping_sub(then));
        }
    }

    fn rail_numbers(&self, seen: &SeenRails) {
        let mut errors = 0;
        for (rail, (now, then)) in seen.iter().zip(&self.written_seen).enumerate() {
            let grown = |of: fn(&Seen) -> u64| of(now).wrapping_sub(of(then));
            errors += grown(|seen| seen.errors);
            let Some(&Some(slot)) = self.rails.get(rail) else {
                continue;
            };
            for (at, by) in [
                (RailAt::Segments, grown(|seen| seen.segments)),
                (RailAt::BytesSent, grown(|seen| seen.sent)),
                (RailAt::BytesReceived, grown(|seen| seen.bytes)),
                (RailAt::Completions, grown(|seen| seen.completions)),
                (RailAt::Busy, grown(|seen| seen.busy)),
                (RailAt::Errors, grown(|seen| seen.errors)),
            ] {
                self.file.add(rail_word(slot, at), by);
            }
        }
        self.file.add_total(Total::Errors, errors);
    }

    fn comm(&self, engine: &impl Counted, comm: CommKey, slot: usize) {
        let Some((info, counted)) = engine.one(comm) else {
            return;
        };
        for (at, value) in [
            (CommAt::Messages, counted.messages),
            (CommAt::Eager, counted.eager),
            (CommAt::Bytes, counted.bytes),
            (CommAt::Busy, counted.busy),
            (CommAt::Outstanding, u64::from(info.outstanding)),
        ] {
            self.file.set(comm_word(slot, at), value);
        }
    }
}

impl Drop for Meter {
    /// What is still open ends with its domain.
    fn drop(&mut self) {
        for (_, slot) in self.comms.drain(..) {
            self.file.give_comm(slot);
        }
    }
}

impl Counted for ofi_rdma::Engine {
    fn all(&self) -> Counters {
        self.counters()
    }

    fn one(&self, comm: CommKey) -> Option<(CommInfo, CommCounters)> {
        self.comm_info(comm).zip(self.comm_counters(comm))
    }
}

impl Counted for ofi_sendrecv::Engine {
    fn all(&self) -> Counters {
        self.counters()
    }

    fn one(&self, comm: CommKey) -> Option<(CommInfo, CommCounters)> {
        self.comm_info(comm).zip(self.comm_counters(comm))
    }
}
