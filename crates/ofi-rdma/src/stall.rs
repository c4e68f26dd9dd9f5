//! Deadlines: who makes no progress, since when, and what it waits for (decision 12).
//!
//! No clock on the data path: a completion or a post only sets a mark, and the detector, called now
//! and then with the time, turns "marked since I last looked" into "moved just now". So a stall is
//! never reported early, and at most one look late.

use ofi_pools::Key;
use ofi_sched::Policy;

use crate::comm::{Comm, CommKind};
use crate::dialect::Dialect;
use crate::engine::Engine;
use crate::error::{Stage, Why};
use crate::event::Event;
use crate::key::CommKey;
use crate::request::Request;
use crate::state::{CommInput, CommState, ReqState};
use crate::window::{Lookup, Slot};

/// Between two looks: an eighth of the shortest limit, within these bounds.
const LOOK_MS_MIN: u64 = 10;
const LOOK_MS_MAX: u64 = 1000;

impl<D: Dialect, S: Policy> Engine<D, S> {
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
        if comm.has_failed() && !comm.state.is_closed() {
            return;
        }
        match comm.state {
            CommState::Up => self.look_at_requests(key, now_ms),
            CommState::Connecting | CommState::Answering | CommState::Refusing => {
                self.warn_if_due(key, now_ms);
            }
            CommState::Listening => self.look_at_listener(key, now_ms),
            CommState::Parting | CommState::Lingering | CommState::Ending => {
                self.look_at_closing(key, now_ms);
            }
            CommState::Accepted | CommState::Refused | CommState::Gone => {}
        }
    }

    fn look_at_requests(&mut self, key: Key, now_ms: u64) {
        let Some(comm) = self.comms.get_mut(key) else {
            return;
        };
        if comm.moved || comm.outstanding() == 0 {
            return comm.wait_from(now_ms);
        }
        let idle_ms = comm.idle_ms(now_ms);
        // A request that is done waits for the caller's test, not for the network.
        let Some(stage) = self.comms.get(key).and_then(|c| self.stage_of(key, c)) else {
            return;
        };
        if self
            .config
            .stall_fail_ms
            .is_some_and(|limit| idle_ms >= limit)
        {
            let comm = self.comms.get(key);
            let live = comm.and_then(|comm| Some(self.oldest_live(key, comm)?.0));
            self.fail_of(key, live, Why::Stalled { idle_ms, stage });
        } else {
            self.warn_if_due(key, now_ms);
        }
    }

    /// A listener waits while accept is called and no connection is half made.
    fn look_at_listener(&mut self, key: Key, now_ms: u64) {
        let Some(comm) = self.comms.get_mut(key) else {
            return;
        };
        let waits = comm.asked > 0 && comm.child.is_none();
        comm.asked = comm.asked.saturating_sub(1);
        if comm.moved || !waits {
            return comm.wait_from(now_ms);
        }
        self.warn_if_due(key, now_ms);
    }

    /// Says, once, that nothing has moved for too long.
    fn warn_if_due(&mut self, key: Key, now_ms: u64) {
        let Some(comm) = self.comms.get(key) else {
            return;
        };
        let idle_ms = comm.idle_ms(now_ms);
        let due = self
            .config
            .stall_warn_ms
            .is_some_and(|limit| idle_ms >= limit);
        if comm.warned || !due {
            return;
        }
        let Some(stage) = self.stage_of(key, comm) else {
            return;
        };
        let event = Event::Stalled {
            comm: CommKey(key),
            kind: comm.kind,
            local_id: comm.local_id,
            remote_id: comm.remote_id,
            stage,
            oldest_seq: comm.window.oldest(),
            outstanding: comm.outstanding(),
            idle_ms,
            away_ms: comm.away_ms.into(),
            queued: comm.queued,
            busy: comm.busy.get(),
            oldest: self.oldest_seen(key, comm, now_ms),
            peer: comm.peer_address(),
        };
        self.event(event);
        if let Some(comm) = self.comms.get_mut(key) {
            comm.warned = true;
        }
    }

    /// A CLOSE that the provider does not take, or that the peer does not send, is given up at the bound
    /// of connect: close is always bounded.
    fn look_at_closing(&mut self, key: Key, now_ms: u64) {
        self.warn_if_due(key, now_ms);
        let Some(comm) = self.comms.get_mut(key) else {
            return;
        };
        let overdue = now_ms.saturating_sub(comm.since_ms) > self.config.connect_timeout_ms;
        let waits = comm.queued > 0 || comm.state == CommState::Lingering;
        if overdue && waits {
            comm.step(CommInput::GiveUp);
            self.drop_queued(key);
            self.reap_if_quiet(key);
        }
    }

    /// What a communicator waits for: the most telling of its oldest unfinished request.
    pub(crate) fn stage_of(&self, key: Key, comm: &Comm<D>) -> Option<Stage> {
        match comm.state {
            // With its answer here it waits for the caller.
            CommState::Connecting if comm.message.is_some() => return None,
            CommState::Connecting => return Some(self.connect_stage(key)),
            CommState::Answering | CommState::Refusing => return Some(Stage::SendConnResp),
            CommState::Listening if comm.asked > 0 && comm.child.is_none() => {
                return Some(Stage::AwaitConn);
            }
            _ if comm.queued > 0 => return Some(Stage::Posting),
            _ if comm.state.is_closed() && comm.flying > 0 => return Some(Stage::Completions),
            CommState::Lingering => return Some(Stage::AwaitClose),
            _ => {}
        }
        let (_, live) = self.oldest_live(key, comm)?;
        Some(if live.flying != 0 {
            Stage::Completions
        } else if comm.kind == CommKind::Send {
            Stage::AwaitCtrl
        } else {
            Stage::AwaitData
        })
    }

    /// The request of a communicator that is not done and was started first, of messages if there is one.
    pub(crate) fn oldest_live(&self, key: Key, comm: &Comm<D>) -> Option<(Key, &Request)> {
        let mut seq = comm.window.oldest();
        for _ in 0..comm.window.outstanding() {
            if let Lookup::Within(Slot::Active(index)) = comm.window.lookup(seq) {
                let request = self.requests.key_at(index);
                let request = request.and_then(|k| Some((k, self.requests.get(k)?)));
                let live = request.filter(|(_, r)| r.comm == key && r.state() == ReqState::Live);
                if live.is_some() {
                    return live;
                }
            }
            seq = seq.wrapping_add(1);
        }
        if comm.out_of_window() == 0 {
            return None;
        }
        let mut others = self.requests.iter();
        others.find(|(_, r)| r.comm == key && !r.kind.in_window() && r.state() == ReqState::Live)
    }
}
