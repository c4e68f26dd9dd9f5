//! The engine: its state, how it is made, and what can be asked of it.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use ofi_pools::{CacheLine, IdPool, Key, Table};
use ofi_sched::{Policy, RailCount, Threshold};

use crate::batch::Batch;
use crate::comm::{Comm, CommKind};
use crate::comms::Comms;
use crate::config::{Config, ConfigError};
use crate::counts::CommCounters;
use crate::datapath::Backoff;
use crate::dialect::{Base, Bounds, Dialect};
use crate::error::{Error, Failure, OpKind, Stage};
use crate::event::{Counters, Event, Stray};
use crate::key::{CommKey, ReqKey, SLOTS_MAX};
use crate::limits::{EVENTS_MAX, ID_QUARANTINE, MAX_RAILS};
use crate::outbox::Outbox;
use crate::port::{Lane, PeerAddr, RegionId, RxId};
use crate::request::{Kind, Request};
use crate::state::{CommState, ReqInput, ReqState};
use crate::wire::host::HostName;

/// What the peer sent before our call: kept until that call (protocol 2.k 1, 2.k 4).
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) enum Early {
    /// A CTRL whose isend has not been called.
    Ctrl(EarlyCtrl),
    /// An eager payload whose irecv has not been called.
    Eager { rx: RxId, len: u32 },
}

/// The part of a CTRL that a send needs.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct EarlyCtrl {
    pub(crate) addr: u64,
    pub(crate) keys: [u64; MAX_RAILS],
    pub(crate) len: u32,
    pub(crate) no_completion: bool,
}

/// One domain's protocol engine. See the crate's first page for the contract.
#[derive(Clone, Debug)]
pub struct Engine<D: Dialect = Base, S: Policy = Threshold> {
    pub(crate) config: Config,
    /// What peers are told of our host.
    pub(crate) host: Option<HostName>,
    pub(crate) data_rails: RailCount,
    pub(crate) control_rails: RailCount,
    pub(crate) policy: S,
    pub(crate) ids: IdPool,
    pub(crate) comms: Comms<D>,
    pub(crate) requests: Table<Request, CacheLine>,
    pub(crate) early: Table<Early>,
    /// What was made since the last pump, in order.
    pub(crate) ready: Vec<Batch>,
    pub(crate) outbox: Outbox,
    pub(crate) region_refs: Vec<u32>,
    pub(crate) released: Vec<RxId>,
    pub(crate) events: VecDeque<Event>,
    /// But for what is counted on communicators: there it is that of those that are gone.
    pub(crate) counters: Counters,
    /// By lane: when a busy one is tried again.
    pub(crate) backoff: [Backoff; Lane::COUNT_MAX],
    /// The poll epoch (decision 35): it ends when something happens (a completion, a message, a call that
    /// changes something), and when a request is tested again in it. 64 bits, which do not wrap.
    pub(crate) epoch: u64,
    /// Those of the epochs that ended though nothing had happened.
    pub(crate) retests: u64,
    /// The last epoch in which a progress pass was asked for.
    pub(crate) polled: u64,
    /// The last such epoch in which no communicator was failed: a request that is tested in it for the
    /// first time and is not done needs no second look.
    pub(crate) calm: u64,
    /// Communicators there are that have failed: while there is none, `test` need not look for one.
    pub(crate) failed_comms: u32,
    /// When the stall detector looks next.
    pub(crate) next_look_ms: u64,
}

/// What can be told of a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommInfo {
    /// Its kind.
    pub kind: CommKind,
    /// Its wire id.
    pub local_id: u32,
    /// The peer's wire id; 0 until connected.
    pub remote_id: u32,
    /// Requests not taken by `test`: messages, one-sided operations, flushes.
    pub outstanding: u16,
    /// Whether messages can flow.
    pub connected: bool,
    /// The failure that sticks to it.
    pub failure: Option<Failure>,
    /// What it waits for, if for anything.
    pub stage: Option<Stage>,
}

impl<D: Dialect> Engine<D, Threshold> {
    /// An engine with the stripe policy of the protocol (2g.6).
    ///
    /// # Errors
    /// A setting that cannot work.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.check()?;
        let policy = Threshold::new(ofi_sched::Config {
            min_stripe_bytes: config.min_stripe_bytes,
            small_max_bytes: config.small_max_bytes,
        })
        .map_err(|_| ConfigError::ZeroStripe)?;
        Self::with_policy(config, policy)
    }
}

impl<D: Dialect, S: Policy> Engine<D, S> {
    /// An engine with a policy of the caller.
    ///
    /// # Errors
    /// A setting that cannot work.
    pub fn with_policy(config: Config, policy: S) -> Result<Self, ConfigError> {
        let () = Bounds::<D>::HOLD;
        config.check()?;
        let count = |rails: u8| RailCount::new(rails).ok_or(ConfigError::Rails(rails));
        Ok(Self {
            data_rails: count(config.data_rails)?,
            control_rails: count(config.control_rails)?,
            config,
            host: None,
            policy,
            ids: IdPool::full(ID_QUARANTINE),
            comms: Comms::default(),
            requests: Table::aligned(SLOTS_MAX),
            early: Table::with_max(SLOTS_MAX),
            ready: Vec::new(),
            outbox: Outbox::default(),
            region_refs: Vec::new(),
            released: Vec::new(),
            events: VecDeque::new(),
            counters: Counters::default(),
            backoff: [Backoff::default(); Lane::COUNT_MAX],
            epoch: 1,
            retests: 0,
            polled: 0,
            calm: 0,
            failed_comms: 0,
            next_look_ms: 0,
        })
    }

    /// Tells peers of ours from now on which host they talk to ([`crate::wire::host`]).
    pub const fn name_host(&mut self, host: Option<HostName>) {
        self.host = host;
    }

    /// The settings it runs with.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// What happened so far, on communicators that were closed too. O(communicators).
    #[must_use]
    pub fn counters(&self) -> Counters {
        let mut sum = self.counters;
        self.comms.iter().for_each(|comm| sum.take_over(comm));
        sum
    }

    /// What happened on a communicator; `None` when it is closed.
    #[must_use]
    pub fn comm_counters(&self, comm: CommKey) -> Option<CommCounters> {
        let c = self.comms.get(comm.0)?;
        (!c.state.is_closed()).then(|| c.counters())
    }

    /// The peer's control endpoint 0; `None` for a listener, and when it is closed.
    #[must_use]
    pub fn comm_peer(&self, comm: CommKey) -> Option<PeerAddr> {
        self.comms.get(comm.0)?.peer_address()
    }

    /// The provider said EAGAIN to an operation of a request, or of a communicator itself.
    #[cold]
    pub(crate) fn count_busy(&mut self, op: OpKind, owner: Key) {
        self.counters.busy += 1;
        let comm = match op.is_own() {
            true => Some(owner),
            false => self.requests.get(owner).map(|request| request.comm),
        };
        if let Some(comm) = comm.and_then(|comm| self.comms.get_mut(comm)) {
            comm.busy.one_more_at_most();
        }
    }

    /// Requests that refer to a region: while there are any, it must stay registered.
    #[must_use]
    pub fn region_refs(&self, region: RegionId) -> u32 {
        self.region_refs
            .get(region.0 as usize)
            .copied()
            .unwrap_or(0)
    }

    /// Whether waiting for a region makes sense: an operation on it is queued or at the provider, or a
    /// communicator that has not failed has a request on it to which something will still happen.
    /// Quiet requests that are done, of a failed communicator, or eager sends, whose bytes have left,
    /// only wait for their `test`. O(requests): for deregistration.
    #[must_use]
    pub fn region_awaited(&self, region: RegionId) -> bool {
        self.region_refs(region) > 0 && self.awaited_requests(region).next().is_some()
    }

    /// The requests that waiting for a region makes sense for ([`Self::region_awaited`]).
    pub fn awaited_requests(&self, region: RegionId) -> impl Iterator<Item = ReqKey> + Clone {
        let failed = |r: &Request| self.comms.get(r.comm).is_none_or(Comm::has_failed);
        let waits = move |r: &Request| !(r.is_quiet() && (Self::is_over(r) || failed(r)));
        let here = self
            .requests
            .iter()
            .filter(move |(_, r)| r.region == region);
        here.filter(move |(_, r)| waits(r))
            .map(|(key, _)| ReqKey(key))
    }

    /// The requests there are, those included that nobody will test and that still drain.
    pub fn requests(&self) -> impl Iterator<Item = ReqKey> {
        self.requests.iter().map(|(key, _)| ReqKey(key))
    }

    fn is_over(request: &Request) -> bool {
        request.state() == ReqState::Done || request.kind == Kind::EagerSend
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

    /// Messages of peers kept for calls to come.
    #[must_use]
    pub const fn early_messages(&self) -> usize {
        self.early.len() as usize
    }

    /// Operations that wait for the provider.
    #[must_use]
    pub fn posts_waiting(&self) -> usize {
        let made = self.ready.iter().map(|batch| usize::from(batch.left()));
        self.outbox.len() + made.sum::<usize>()
    }

    /// The communicator of a request.
    #[must_use]
    pub fn request_comm(&self, request: ReqKey) -> Option<CommKey> {
        self.requests.get(request.0).map(|r| CommKey(r.comm))
    }

    /// What there is to say about a communicator; `None` when it is closed.
    #[must_use]
    pub fn comm_info(&self, comm: CommKey) -> Option<CommInfo> {
        let c = self.comms.get(comm.0)?;
        if c.state.is_closed() {
            return None;
        }
        Some(CommInfo {
            kind: c.kind,
            local_id: c.local_id,
            remote_id: c.remote_id,
            outstanding: c.outstanding(),
            connected: c.state == CommState::Up,
            failure: c.failure(),
            stage: self.stage_of(comm.0, c),
        })
    }

    /// Takes a receive buffer that the engine held: post it again.
    pub fn take_released(&mut self) -> Option<RxId> {
        self.released.pop()
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
        self.epoch = self.epoch.wrapping_add(1);
    }

    /// What happened so far, counted.
    #[inline]
    pub(crate) const fn happened(&self) -> u64 {
        self.epoch.wrapping_sub(self.retests)
    }

    /// A live communicator of one kind, not failed.
    pub(crate) fn usable(&self, key: CommKey, kind: CommKind) -> Result<&Comm<D>, Error> {
        let comm = self.comms.get(key.0).ok_or(Error::NoSuchComm)?;
        if comm.kind != kind || comm.state.is_closed() {
            return Err(Error::NoSuchComm);
        }
        match comm.failure() {
            Some(failure) => Err(Error::Failed(failure)),
            None => Ok(comm),
        }
    }

    pub(crate) fn new_comm(
        &mut self,
        kind: CommKind,
        state: CommState,
        now_ms: u64,
    ) -> Result<(Key, u32), Error> {
        let id = self.ids.alloc().ok_or(Error::OutOfIds)?.raw;
        match self.comms.insert(Comm::new(kind, state, id, now_ms)) {
            Some(key) => Ok((key, id)),
            None => {
                debug_assert!(false, "an id that is free has a communicator");
                Err(Error::OutOfIds)
            }
        }
    }

    pub(crate) fn free_id(&mut self, id: u32) {
        let freed = self.ids.free(id);
        debug_assert!(freed.is_ok(), "an id is freed once: {freed:?}");
    }

    /// Makes a request and counts its use of the region.
    pub(crate) fn new_request(&mut self, request: Request) -> Option<Key> {
        let region = request.region;
        let key = self.requests.insert(request).ok()?;
        self.refer(region);
        Some(key)
    }

    /// Counts a request's use of a region.
    #[inline]
    pub(crate) fn refer(&mut self, region: RegionId) {
        let at = region.0 as usize;
        if at >= self.region_refs.len() {
            self.grow_regions(at);
        }
        if let Some(count) = self.region_refs.get_mut(at) {
            // At most one a request, of which there are less than 2^26.
            *count = count.wrapping_add(1);
        }
    }

    #[cold]
    fn grow_regions(&mut self, at: usize) {
        self.region_refs.resize(at + 1, 0);
    }

    /// Removes a request nobody needs any more.
    pub(crate) fn drop_request(&mut self, key: Key) {
        if let Some(request) = self.requests.remove(key) {
            self.unrefer(request.region);
        }
    }

    /// A request that used a region is gone.
    #[inline]
    pub(crate) fn unrefer(&mut self, region: RegionId) {
        if let Some(count) = self.region_refs.get_mut(region.0 as usize) {
            debug_assert!(*count > 0, "a region is used as often as it is given back");
            *count = count.wrapping_sub(1);
        }
    }

    /// An orphan goes once nothing of it is queued or at the provider.
    pub(crate) fn drop_orphan(&mut self, key: Key) {
        let Some(request) = self.requests.get_mut(key) else {
            return;
        };
        if request.is_quiet() {
            request.step(ReqInput::Quiet);
            if request.state() == ReqState::Gone {
                self.drop_request(key);
            }
        }
    }

    /// The request in a window slot.
    #[inline]
    pub(crate) fn request_at(&mut self, index: u32) -> Option<(Key, &mut Request)> {
        self.requests.at_mut(index)
    }
}
