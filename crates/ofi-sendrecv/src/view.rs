//! What can be told of every communicator, for people who look for what a job waits for. Never on the
//! path of a message.

use ofi_pools::Key;
use ofi_rdma::{CommView, RequestView};

use crate::comm::{Comm, Place, Request};
use crate::engine::{Engine, comm_key, req_key};
use crate::state::ReqState;

impl Comm {
    /// The number of the oldest message that `test` has not taken, if they are tested in order. Nothing
    /// goes over the wire with it: it is counted by both sides.
    pub(crate) const fn oldest_seq(&self) -> u16 {
        low(self.counters.messages).wrapping_sub(self.outstanding)
    }
}

/// The low bits of a count.
pub(crate) const fn low(count: u64) -> u16 {
    let [a, b, ..] = count.to_le_bytes();
    u16::from_le_bytes([a, b])
}

impl Engine {
    /// All communicators, those that drain after their close included. Sequence numbers count the
    /// messages of a communicator, modulo 2^16; both ids are the tag. O(communicators * requests).
    pub fn views(&self, now_ms: u64) -> impl Iterator<Item = CommView> + '_ {
        let keys = (0..self.comms.capacity()).filter_map(|index| self.comms.key_at(index));
        keys.filter_map(move |key| Some(self.view(key, self.comms.get(key)?, now_ms)))
    }

    fn view(&self, key: Key, comm: &Comm, now_ms: u64) -> CommView {
        CommView {
            comm: comm_key(key),
            kind: comm.kind,
            state: comm.state.name(),
            closed: comm.state.is_closed(),
            local_id: comm.tag,
            remote_id: comm.tag,
            next_seq: low(comm.counters.messages),
            oldest_seq: comm.oldest_seq(),
            outstanding: comm.outstanding + comm.flushes_out,
            done: self.done(key),
            early: comm.arrived.is_some().into(),
            ctrls: 0,
            queued: self.queued(key),
            flying: comm.flying,
            busy: comm.counters.busy,
            idle_ms: comm.idle_ms(now_ms),
            away_ms: comm.away_ms.into(),
            asked: comm.asked > 0,
            answered: false,
            stage: match comm.failure {
                None => self.stage_of(key, comm),
                Some(_) => None,
            },
            oldest: self.oldest_seen(key, comm, now_ms),
            failure: comm.failure,
            peer: comm.peer_address(),
        }
    }

    /// Operations of a communicator that the provider does not have yet.
    pub(crate) fn queued(&self, key: Key) -> u32 {
        u32::try_from(self.outbox.waiting(key.index())).unwrap_or(u32::MAX)
    }

    /// Requests of a communicator that wait for `test` alone.
    fn done(&self, key: Key) -> u16 {
        let is_done =
            |r: &Request| r.comm == key && matches!(r.state, ReqState::Done | ReqState::Short);
        let done = self.requests.iter().filter(|(_, r)| is_done(r)).count();
        u16::try_from(done).unwrap_or(u16::MAX)
    }

    /// The request of a communicator that is not done and was started first, of messages if there is one.
    /// O(requests).
    pub(crate) fn oldest_live(&self, key: Key, comm: &Comm) -> Option<(Key, &Request)> {
        let live = |r: &Request| r.comm == key && r.state == ReqState::Live;
        let requests = self.requests.iter().filter(|(_, r)| live(r));
        let first = comm.oldest_seq();
        requests.min_by_key(|(_, r)| (!r.kind.is_message(), r.seq.wrapping_sub(first)))
    }

    /// The same, for people.
    pub(crate) fn oldest_seen(&self, key: Key, comm: &Comm, now_ms: u64) -> Option<RequestView> {
        let (request, live) = self.oldest_live(key, comm)?;
        Some(RequestView {
            request: req_key(request),
            kind: live.kind.told(),
            seq: live.kind.is_message().then_some(live.seq),
            len: u32::try_from(live.buffer.len).unwrap_or(u32::MAX),
            bytes: u32::try_from(live.bytes).unwrap_or(u32::MAX),
            need: 1,
            have: 0,
            queued: (live.place == Place::Queued).into(),
            flying: (live.place == Place::Flying).into(),
            segments: (0, 0),
            ctrl_seen: false,
            age_ms: live.age.ms(now_ms),
        })
    }
}
