//! Deadlines: who makes no progress, since when, and what it waits for (decision 12).
//!
//! No clock on the data path: a completion or a post only sets a mark, and the detector, called now
//! and then with the time, turns "marked since I last looked" into "moved just now".

use ofi_pools::Key;
use ofi_rdma::{CommKind, Event, Stage, Why};

use crate::comm::Comm;
use crate::engine::{Engine, comm_key};
use crate::state::{CommState, ReqState};

/// Between two looks: an eighth of the shortest limit, within these bounds.
const LOOK_MS_MIN: u64 = 10;
const LOOK_MS_MAX: u64 = 1000;

impl Engine {
    /// Time passed. Calling it often costs a comparison; a look is O(communicators + requests).
    pub fn tick(&mut self, now_ms: u64) {
        if now_ms < self.next_look_ms {
            return;
        }
        let limits = [self.config.stall_warn_ms, self.config.stall_fail_ms];
        let shortest = limits.into_iter().flatten().min().unwrap_or(u64::MAX);
        self.next_look_ms = now_ms + (shortest / 8).clamp(LOOK_MS_MIN, LOOK_MS_MAX);
        for (_, request) in self.requests.iter_mut() {
            request.age.look(now_ms);
        }
        let mut index = 0;
        while index < self.comms.capacity() {
            if let Some(key) = self.comms.key_at(index) {
                self.look(key, now_ms);
            }
            index += 1;
        }
    }

    /// The caller made no call for so long: time in which nothing could move, and no fault of the
    /// network. Limits of stalls do not count it. O(communicators).
    pub fn on_absence(&mut self, ms: u64) {
        let ms = u32::try_from(ms).unwrap_or(u32::MAX);
        for index in 0..self.comms.capacity() {
            let key = self.comms.key_at(index);
            if let Some(comm) = key.and_then(|key| self.comms.get_mut(key)) {
                comm.away_ms = comm.away_ms.saturating_add(ms);
            }
        }
    }

    fn look(&mut self, key: Key, now_ms: u64) {
        let Some(comm) = self.comms.get_mut(key) else {
            return;
        };
        if comm.failure.is_some() && !comm.state.is_closed() {
            return;
        }
        match comm.state {
            CommState::Up => self.look_at_requests(key, now_ms),
            CommState::Connecting | CommState::Ending => self.warn_if_due(key, now_ms),
            CommState::Listening => self.look_at_listener(key, now_ms),
            CommState::Accepted | CommState::Gone => {}
        }
    }

    fn look_at_requests(&mut self, key: Key, now_ms: u64) {
        let Some(comm) = self.comms.get_mut(key) else {
            return;
        };
        let busy = comm.outstanding > 0 || comm.flushes_out > 0;
        if comm.moved || !busy {
            return comm.wait_from(now_ms);
        }
        let idle_ms = comm.idle_ms(now_ms);
        // A request that is done waits for the caller's test, not for the network.
        let Some(stage) = self.comms.get(key).and_then(|c| self.stage_of(key, c)) else {
            return;
        };
        let fail = self.config.stall_fail_ms;
        if fail.is_some_and(|limit| idle_ms >= limit) {
            let comm = self.comms.get(key);
            let live = comm.and_then(|comm| Some(self.oldest_live(key, comm)?.0));
            self.fail_of(key, live, Why::Stalled { idle_ms, stage });
        } else {
            self.warn_if_due(key, now_ms);
        }
    }

    /// A listener waits while accept is called and no connect message is here. That nobody connects is no failure;
    /// that its receive cannot be posted is, for then nobody can.
    fn look_at_listener(&mut self, key: Key, now_ms: u64) {
        let is_deaf = self.outbox.waiting(key.index()) > 0;
        let Some(comm) = self.comms.get_mut(key) else {
            return;
        };
        let waits = comm.asked > 0 && comm.arrived.is_none();
        comm.asked = comm.asked.saturating_sub(1);
        if comm.moved || !waits {
            return comm.wait_from(now_ms);
        }
        let idle_ms = comm.idle_ms(now_ms);
        let fail = self.config.stall_fail_ms;
        if is_deaf && fail.is_some_and(|limit| idle_ms >= limit) {
            let stage = Stage::Posting;
            return self.fail_of(key, None, Why::Stalled { idle_ms, stage });
        }
        self.warn_if_due(key, now_ms);
    }

    /// Says, once, that nothing has moved for too long.
    fn warn_if_due(&mut self, key: Key, now_ms: u64) {
        let Some(comm) = self.comms.get(key) else {
            return;
        };
        let idle_ms = comm.idle_ms(now_ms);
        let limit = self.config.stall_warn_ms;
        if comm.warned || limit.is_none_or(|limit| idle_ms < limit) {
            return;
        }
        let Some(stage) = self.stage_of(key, comm) else {
            return;
        };
        let event = Event::Stalled {
            comm: comm_key(key),
            kind: comm.kind,
            local_id: comm.tag,
            remote_id: comm.tag,
            stage,
            oldest_seq: comm.oldest_seq(),
            outstanding: comm.outstanding + comm.flushes_out,
            idle_ms,
            away_ms: comm.away_ms.into(),
            queued: self.queued(key),
            busy: comm.counters.busy,
            oldest: self.oldest_seen(key, comm, now_ms),
            peer: comm.peer_address(),
        };
        self.event(event);
        if let Some(comm) = self.comms.get_mut(key) {
            comm.warned = true;
        }
    }

    /// What a communicator waits for; `None` if for nothing. O(requests).
    pub(crate) fn stage_of(&self, key: Key, comm: &Comm) -> Option<Stage> {
        match comm.state {
            CommState::Connecting => return Some(self.connect_stage(key)),
            CommState::Listening if comm.asked > 0 && comm.arrived.is_none() => {
                let is_deaf = self.outbox.waiting(key.index()) > 0;
                return Some(if is_deaf {
                    Stage::Posting
                } else {
                    Stage::AwaitConn
                });
            }
            CommState::Listening | CommState::Accepted | CommState::Gone => return None,
            // Nothing of it is queued any more.
            CommState::Ending => return (comm.flying > 0).then_some(Stage::Completions),
            CommState::Up => {}
        }
        let live = |kind| {
            let mut all = self.requests.iter().map(|(_, r)| r);
            all.any(|r| r.comm == key && r.state == ReqState::Live && r.kind.op() == kind)
        };
        if self.outbox.waiting(key.index()) > 0 {
            Some(Stage::Posting)
        } else if comm.kind == CommKind::Send {
            live(crate::Op::Send).then_some(Stage::Completions)
        } else if live(crate::Op::Recv) {
            Some(Stage::AwaitData)
        } else {
            live(crate::Op::Flush).then_some(Stage::Completions)
        }
    }
}
