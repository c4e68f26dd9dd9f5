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
        let mut index = 0;
        while index < self.comms.capacity() {
            if let Some(key) = self.comms.key_at(index) {
                self.look(key, now_ms);
            }
            index += 1;
        }
    }

    fn look(&mut self, key: Key, now_ms: u64) {
        let Some(comm) = self.comms.get_mut(key) else {
            return;
        };
        if comm.state != CommState::Up || comm.failure.is_some() {
            return;
        }
        let busy = comm.outstanding > 0 || comm.flushes_out > 0;
        if comm.moved || !busy {
            comm.moved = false;
            comm.warned = false;
            comm.since_ms = now_ms;
            return;
        }
        let (idle_ms, warned) = (now_ms.saturating_sub(comm.since_ms), comm.warned);
        // A request that is done waits for the caller's test, not for the network.
        let Some(stage) = self.comms.get(key).and_then(|c| self.stage_of(key, c)) else {
            return;
        };
        let over = |limit: Option<u64>| limit.is_some_and(|limit| idle_ms >= limit);
        if over(self.config.stall_fail_ms) {
            self.fail(key, Why::Stalled { idle_ms, stage });
        } else if !warned && over(self.config.stall_warn_ms) {
            self.warn(key, idle_ms, stage);
        }
    }

    fn warn(&mut self, key: Key, idle_ms: u64, stage: Stage) {
        let Some(comm) = self.comms.get_mut(key) else {
            return;
        };
        comm.warned = true;
        let event = Event::Stalled {
            comm: comm_key(key),
            local_id: comm.tag,
            stage,
            oldest_seq: 0,
            outstanding: comm.outstanding + comm.flushes_out,
            idle_ms,
            peer: comm.peer_address(),
        };
        self.event(event);
    }

    /// What a communicator waits for; `None` if for nothing. O(requests).
    pub(crate) fn stage_of(&self, key: Key, comm: &Comm) -> Option<Stage> {
        if comm.state == CommState::Connecting {
            return Some(self.connect_stage(key));
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
