//! The engine: its state, how it is made, and what can be asked of it.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use ofi_pools::{Key, Table};
use ofi_rdma::{
    CommCounters, CommInfo, CommKey, CommKind, Counters, Event, Failure, PeerAddr, RegionId,
    ReqKey, Stray, Token, Why,
};

use crate::comm::{Comm, Place, Request};
use crate::config::Config;
use crate::error::Error;
use crate::limits::{EVENTS_MAX, FIRST_TAG};
use crate::outbox::Outbox;
use crate::state::{CommInput, CommState, ReqInput, ReqState};
use crate::token::{Named, Op, SLOTS_MAX};

/// The protocol engine of one endpoint. See the crate's first page for the contract.
#[derive(Debug)]
pub struct Engine {
    pub(crate) config: Config,
    /// The last tag given to a listener: they are never given again (protocol 2c.10).
    pub(crate) last_tag: u32,
    pub(crate) comms: Table<Comm>,
    pub(crate) requests: Table<Request>,
    pub(crate) outbox: Outbox,
    /// Receives to be cancelled.
    pub(crate) cancels: Vec<Token>,
    pub(crate) region_refs: Vec<u32>,
    pub(crate) events: VecDeque<Event>,
    pub(crate) counters: Counters,
    /// Counts what happens: completions, messages, calls that change something.
    pub(crate) happened: u32,
    /// Poll epoch (decision 35) and whether a progress pass was asked for in it.
    pub(crate) epoch: u32,
    pub(crate) polled: bool,
    /// When the stall detector looks next.
    pub(crate) next_look_ms: u64,
}

impl Engine {
    /// An engine without communicators.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            config,
            last_tag: FIRST_TAG - 1,
            comms: Table::with_max(SLOTS_MAX),
            requests: Table::with_max(SLOTS_MAX),
            outbox: Outbox::default(),
            cancels: Vec::new(),
            region_refs: Vec::new(),
            events: VecDeque::new(),
            counters: Counters::default(),
            happened: 1,
            epoch: 1,
            polled: false,
            next_look_ms: 0,
        }
    }

    /// The settings it runs with.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// What happened so far. Of the counters those of other protocols stay 0.
    #[must_use]
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    /// What happened on a communicator; `None` when it is closed.
    #[must_use]
    pub fn comm_counters(&self, comm: CommKey) -> Option<CommCounters> {
        let c = self.comms.get(key_of(comm.to_bits()))?;
        (!c.state.is_closed()).then_some(c.counters)
    }

    /// The peer's endpoint; `None` for a listener, and when it is closed.
    #[must_use]
    pub fn comm_peer(&self, comm: CommKey) -> Option<PeerAddr> {
        self.comms.get(key_of(comm.to_bits()))?.peer_address()
    }

    /// The communicator of an operation.
    pub(crate) fn comm_of(&mut self, named: Named) -> Option<&mut Comm> {
        let comm = match named.op.is_own() {
            true => named.owner,
            false => self.requests.get(named.owner)?.comm,
        };
        self.comms.get_mut(comm)
    }

    /// Requests that refer to a region: while there are any, it must stay registered.
    #[must_use]
    pub fn region_refs(&self, region: RegionId) -> u32 {
        let refs = self.region_refs.get(region.0 as usize);
        refs.copied().unwrap_or(0)
    }

    /// Whether waiting for a region makes sense: an operation on it is queued or at the provider, or a
    /// communicator that has not failed has a request on it to which something will still happen.
    /// Requests that are over, or of a failed communicator, only wait for their `test`. O(requests): for
    /// deregistration.
    #[must_use]
    pub fn region_awaited(&self, region: RegionId) -> bool {
        self.region_refs(region) > 0 && self.awaited_requests(region).next().is_some()
    }

    /// The requests that waiting for a region makes sense for ([`Self::region_awaited`]).
    pub fn awaited_requests(&self, region: RegionId) -> impl Iterator<Item = ReqKey> + Clone {
        let failed = |r: &Request| self.comms.get(r.comm).is_none_or(|c| c.failure.is_some());
        let waits = move |r: &Request| !(r.is_quiet() && (Self::is_over(r) || failed(r)));
        let here = self
            .requests
            .iter()
            .filter(move |(_, r)| r.buffer.region == region);
        here.filter(move |(_, r)| waits(r))
            .map(|(key, _)| req_key(key))
    }

    /// The requests there are, those included that nobody will test and that still drain.
    pub fn requests(&self) -> impl Iterator<Item = ReqKey> {
        self.requests.iter().map(|(key, _)| req_key(key))
    }

    const fn is_over(request: &Request) -> bool {
        matches!(request.state, ReqState::Done | ReqState::Short)
    }

    /// Communicators there are, those included that were closed and still drain.
    #[must_use]
    pub const fn live_comms(&self) -> usize {
        self.comms.len() as usize
    }

    /// Requests there are, those included that nobody will test and that still drain.
    #[must_use]
    pub const fn live_requests(&self) -> usize {
        self.requests.len() as usize
    }

    /// Operations that wait for the provider.
    #[must_use]
    pub const fn posts_waiting(&self) -> usize {
        self.outbox.len()
    }

    /// The communicator of a request.
    #[must_use]
    pub fn request_comm(&self, request: ReqKey) -> Option<CommKey> {
        self.requests
            .get(key_of(request.to_bits()))
            .map(|r| comm_key(r.comm))
    }

    /// What there is to say about a communicator; `None` when it is closed.
    #[must_use]
    pub fn comm_info(&self, comm: CommKey) -> Option<CommInfo> {
        let key = key_of(comm.to_bits());
        let c = self.comms.get(key)?;
        if c.state.is_closed() {
            return None;
        }
        Some(CommInfo {
            kind: c.kind,
            local_id: c.tag,
            remote_id: c.tag,
            outstanding: c.outstanding + c.flushes_out,
            connected: c.state == CommState::Up,
            failure: c.failure,
            stage: self.stage_of(key, c),
        })
    }

    /// Takes the oldest event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    pub(crate) fn event(&mut self, event: Event) {
        if self.events.len() < EVENTS_MAX {
            self.events.push_back(event);
        } else {
            self.counters.events_lost += 1;
        }
    }

    #[cold]
    pub(crate) fn stray(&mut self, stray: Stray) {
        self.counters.strays += 1;
        self.event(Event::Stray(stray));
    }

    /// Something happened: the poll epoch ends (decision 35).
    #[inline]
    pub(crate) const fn news(&mut self) {
        self.happened = self.happened.wrapping_add(1);
        self.next_epoch();
    }

    /// The poll epoch ends.
    #[inline]
    pub(crate) const fn next_epoch(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
        self.polled = false;
    }

    /// A live communicator of one kind, not failed.
    #[inline]
    pub(crate) fn usable(&self, comm: CommKey, kind: CommKind) -> Result<(Key, &Comm), Error> {
        let key = key_of(comm.to_bits());
        let c = self.comms.get(key).ok_or(Error::NO_SUCH_COMM)?;
        if c.kind != kind || c.state.is_closed() {
            return Err(Error::NO_SUCH_COMM);
        }
        match c.failure {
            Some(failure) => Err(Error::failed(failure)),
            None => Ok((key, c)),
        }
    }

    /// Makes a request and counts its use of the region.
    pub(crate) fn new_request(&mut self, request: Request) -> Option<Key> {
        let region = request.buffer.region.0 as usize;
        let key = self.requests.insert(request).ok()?;
        if region >= self.region_refs.len() {
            self.region_refs.resize(region + 1, 0);
        }
        self.region_refs[region] += 1;
        Some(key)
    }

    /// Removes a request nobody needs any more.
    pub(crate) fn drop_request(&mut self, key: Key) {
        if let Some(request) = self.requests.remove(key) {
            self.region_refs[request.buffer.region.0 as usize] -= 1;
        }
    }

    /// An orphan goes once its operation is neither queued nor at the provider.
    pub(crate) fn drop_orphan(&mut self, key: Key) {
        let Some(request) = self.requests.get_mut(key) else {
            return;
        };
        if request.is_quiet() {
            request.step(ReqInput::Quiet);
            if request.state == ReqState::Gone {
                self.drop_request(key);
            }
        }
    }

    /// The first failure of a communicator sticks; what follows is counted (decision 11). Its queued
    /// operations are dropped, its receives at the provider are cancelled.
    #[cold]
    pub(crate) fn fail(&mut self, key: Key, why: Why) {
        self.fail_of(key, None, why);
    }

    /// The same, by something that happened to a request.
    #[cold]
    pub(crate) fn fail_of(&mut self, key: Key, request: Option<Key>, why: Why) {
        let request = request.and_then(|key| Some((key, self.requests.get(key)?)));
        let seq = request
            .filter(|(_, r)| r.kind.is_message())
            .map(|(_, r)| r.seq);
        let request = request.map(|(key, request)| request.told(key));
        let Some(comm) = self.comms.get_mut(key) else {
            return;
        };
        if !comm.is_healthy() {
            // What a communicator that closes gets back is no failure.
            self.counters.followers += u64::from(comm.failure.is_some());
            return;
        }
        let failure = Failure {
            comm_id: comm.tag,
            seq,
            request,
            why,
            peer: comm.peer_address(),
        };
        comm.failure = Some(failure);
        self.counters.failures += 1;
        self.withdraw(key);
        self.event(Event::Failed(comm_key(key), failure));
        self.news();
    }

    /// Drops what a communicator has queued and asks for its receives back: nothing more is to be
    /// written to the caller's memory. O(requests).
    pub(crate) fn withdraw(&mut self, key: Key) {
        let Self {
            outbox,
            requests,
            comms,
            cancels,
            ..
        } = self;
        outbox.drop_comm(key.index(), |named| {
            if let Some(request) = requests.get_mut(named.owner).filter(|_| !named.op.is_own()) {
                request.place = Place::Home;
            }
        });
        let own = comms.get(key).and_then(|comm| comm.own_flying);
        if own == Some(Op::Await) {
            cancels.push(
                Named {
                    op: Op::Await,
                    owner: key,
                }
                .token(),
            );
        }
        for (owner, request) in requests.iter().filter(|(_, r)| r.comm == key) {
            let op = request.kind.op();
            if request.place == Place::Flying && op == Op::Recv {
                cancels.push(Named { op, owner }.token());
            }
        }
    }

    /// A closed communicator with nothing queued or at the provider goes.
    pub(crate) fn reap_if_quiet(&mut self, key: Key) {
        let Some(comm) = self.comms.get_mut(key) else {
            return;
        };
        let quiet = comm.flying == 0 && self.outbox.waiting(key.index()) == 0;
        if quiet && comm.step(CommInput::Quiet) {
            self.comms.remove(key);
        }
    }
}

/// The table key in a word of a communicator or request.
#[inline]
pub(crate) const fn key_of(bits: u64) -> Key {
    Key::from_bits(bits)
}

/// A table key as callers see it.
#[inline]
pub(crate) const fn comm_key(key: Key) -> CommKey {
    CommKey::from_bits(key.to_bits())
}

/// A table key as callers see it.
#[inline]
pub(crate) const fn req_key(key: Key) -> ReqKey {
    ReqKey::from_bits(key.to_bits())
}
