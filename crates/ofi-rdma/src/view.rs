//! What can be told of every communicator, for people who look for what a job waits for. Never on the
//! path of a message.

use ofi_pools::Key;
use ofi_sched::Policy;

use crate::comm::{Comm, CommKind};
use crate::dialect::Dialect;
use crate::engine::Engine;
use crate::error::{Failure, Stage};
use crate::key::{CommKey, ReqKey};
use crate::port::PeerAddr;
use crate::request::{Kind, Request};
use crate::state::{CommState, ReqState};
use crate::window::{Lookup, Slot};

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestKind {
    /// A send that waits for, or follows, the peer's CTRL.
    Send,
    /// A send that went out without it.
    EagerSend,
    /// A receive.
    Recv,
    /// A flush.
    Flush,
    /// A one-sided write.
    Put,
    /// A one-sided read.
    Get,
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestView {
    /// Its name.
    pub request: ReqKey,
    /// What it is for.
    pub kind: RequestKind,
    /// Its sequence number, if it is a message.
    pub seq: Option<u16>,
    /// Bytes asked for.
    pub len: u32,
    /// Bytes known to have moved.
    pub bytes: u32,
    /// Completions that finish it; 0 while a send has no CTRL.
    pub need: u8,
    /// Completions so far.
    pub have: u8,
    /// Operations that the provider was too busy for.
    pub queued: u8,
    /// Operations at the provider: a bit for each [`crate::Lane::index`].
    pub flying: u8,
    /// Receive: segments that came, and how many there are; both 0 before the first.
    pub segments: (u8, u8),
    /// Send: the peer's CTRL is here.
    pub ctrl_seen: bool,
    /// How old it is, milliseconds: since the stall detector first looked at it, which looks every second
    /// at most, and never while completions come. Time in which the caller did not look is part of it.
    pub age_ms: u64,
}

/// One communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommView {
    /// Its name here.
    pub comm: CommKey,
    /// Its kind.
    pub kind: CommKind,
    /// Its state: one of those of `states.txt`, in lower case.
    pub state: &'static str,
    /// The caller has closed it.
    pub closed: bool,
    /// Our wire id.
    pub local_id: u32,
    /// The peer's wire id; while connecting that of its listener.
    pub remote_id: u32,
    /// Sequence number of the next message.
    pub next_seq: u16,
    /// Sequence number of the oldest message that `test` has not taken.
    pub oldest_seq: u16,
    /// Requests not taken by `test`.
    pub outstanding: u16,
    /// Of them, those that are done: the caller has not tested them.
    pub done: u16,
    /// Messages of the peer that wait for our call.
    pub early: u16,
    /// Receive: CTRLs whose send completed. Send: CTRLs that came.
    pub ctrls: u64,
    /// Operations that the provider was too busy for.
    pub queued: u32,
    /// Operations at the provider.
    pub flying: u32,
    /// Times the provider said EAGAIN to its operations.
    pub busy: u64,
    /// How long nothing has moved while the caller looked, milliseconds; as exact as the looks are.
    pub idle_ms: u64,
    /// How long the caller did not look meanwhile.
    pub away_ms: u64,
    /// Listener: accept is being called.
    pub asked: bool,
    /// Send: the answer to its connection message is here, and connect has not been called since.
    pub answered: bool,
    /// What it waits for, if for anything.
    pub stage: Option<Stage>,
    /// The oldest request that is not done.
    pub oldest: Option<RequestView>,
    /// The failure that sticks to it.
    pub failure: Option<Failure>,
    /// Control endpoint 0 of the peer; `None` for a listener.
    pub peer: Option<PeerAddr>,
}

impl From<Kind> for RequestKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Send => Self::Send,
            Kind::EagerSend => Self::EagerSend,
            Kind::Recv => Self::Recv,
            Kind::Flush => Self::Flush,
            Kind::Put => Self::Put,
            Kind::Get => Self::Get,
        }
    }
}

impl RequestView {
    /// `age_ms`: how old it is.
    pub(crate) fn of((key, request): (Key, &Request), age_ms: u64) -> Self {
        let (need, have) = request.progress();
        Self {
            request: ReqKey(key),
            kind: request.kind.into(),
            seq: request.kind.in_window().then_some(request.seq),
            len: request.len,
            bytes: request.bytes_so_far(),
            need,
            have,
            queued: request.queued,
            flying: request.flying,
            segments: request.segments(),
            ctrl_seen: request.ctrl_seen,
            age_ms,
        }
    }
}

impl<D: Dialect, S: Policy> Engine<D, S> {
    /// All communicators, those that drain after their close included. O(communicators + requests).
    pub fn views(&self, now_ms: u64) -> impl Iterator<Item = CommView> + '_ {
        let keys = (0..self.comms.capacity()).filter_map(|index| self.comms.key_at(index));
        keys.filter_map(move |key| Some(self.view(key, self.comms.get(key)?, now_ms)))
    }

    fn view(&self, key: Key, comm: &Comm<D>, now_ms: u64) -> CommView {
        let (mut done, mut early) = (0, 0);
        for ahead in 0..D::WINDOW {
            match comm.window.lookup(comm.window.oldest().wrapping_add(ahead)) {
                Lookup::Within(Slot::Active(index)) => {
                    let request = self.requests.key_at(index);
                    let request = request.and_then(|key| self.requests.get(key));
                    let is_done = |r: &Request| r.comm == key && r.state() == ReqState::Done;
                    done += u16::from(request.is_some_and(is_done));
                }
                Lookup::Within(Slot::Early(_)) => early += 1,
                _ => {}
            }
        }
        CommView {
            comm: CommKey(key),
            kind: comm.kind,
            state: comm.state.name(),
            closed: comm.state.is_closed(),
            local_id: comm.local_id,
            remote_id: comm.remote_id,
            next_seq: comm.window.next(),
            oldest_seq: comm.window.oldest(),
            outstanding: comm.outstanding(),
            done,
            early,
            ctrls: comm.ctrls,
            queued: comm.queued,
            flying: comm.flying,
            busy: comm.busy.get(),
            idle_ms: comm.idle_ms(now_ms),
            away_ms: comm.away_ms.into(),
            asked: comm.asked > 0,
            answered: comm.state == CommState::Connecting && comm.message.is_some(),
            stage: match comm.failure() {
                None => self.stage_of(key, comm),
                Some(_) => None,
            },
            oldest: self.oldest_seen(key, comm, now_ms),
            failure: comm.failure(),
            peer: comm.peer_address(),
        }
    }

    /// The request that a communicator waits for, if for one.
    pub(crate) fn oldest_seen(&self, key: Key, comm: &Comm<D>, now_ms: u64) -> Option<RequestView> {
        let live = self.oldest_live(key, comm)?;
        Some(RequestView::of(live, live.1.age.ms(now_ms)))
    }
}
