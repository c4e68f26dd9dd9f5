//! Completion queues: bounded, fed by this process' operations and by what peers did to its
//! endpoints.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use ofi_sys::errno as e;

use super::domain::Domain;
use super::endpoint::Ep;
use super::locked;
use super::vector::Vector;
use crate::mem::events::{self, Happened};
use crate::mem::layout::{EVENTS, Events};
use crate::mem::{receives, unexpected};
use crate::plan::{Code, PollVerdict};

/// Empty reads between two looks at the clock ..
const CLOCK_EVERY: u32 = 64;
/// .. and nanoseconds between two looks for receives that dead senders hold.
const RESTORE_NS: u64 = 20_000_000;

/// A completion, good or bad.
#[derive(Clone, Debug)]
pub(crate) struct Completion {
    pub(crate) happened: Happened,
    /// Where the source's number can be looked up.
    pub(crate) vector: Option<Arc<Vector>>,
}

/// A completion queue.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) domain: Arc<Domain>,
    pub(crate) capacity: usize,
    /// Endpoints that are bound to it, once for each binding.
    pub(crate) users: AtomicUsize,
    state: Mutex<State>,
    endpoints: RwLock<Vec<Arc<Ep>>>,
    /// Where peers put what they do to its endpoints, from the first of these on.
    ring: OnceLock<usize>,
    /// Somebody is stopped who may put something there yet.
    is_ring_kept: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    ready: VecDeque<Completion>,
    /// Completions that show later: when, and what.
    late: Vec<(u64, Completion)>,
    /// Entries that operations are about to make.
    places: usize,
    idle_reads: u32,
    /// When receives that dead senders hold were looked for, in nanoseconds of the process.
    restored_ns: u64,
}

impl State {
    /// Entries that are here, or will be.
    fn held(&self) -> usize {
        self.ready.len() + self.late.len() + self.places
    }
}

/// Place for an entry of a queue, which nobody else takes.
#[derive(Debug)]
pub(super) struct Place<'q>(&'q Queue);

impl Place<'_> {
    /// Adds a completion that shows now, or later.
    pub(super) fn fill(self, completion: Completion, show_at: Option<u64>) {
        self.0.push(completion, show_at);
    }

    /// Adds a completion that its owner asked for, however it is called: no error of anybody's.
    pub(super) fn fill_as_asked(self, completion: Completion) {
        self.0.flush(completion);
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut state = locked(&self.0.state);
        state.places -= 1;
        self.0.fits(&state);
    }
}

/// What a read finds first.
#[derive(Debug)]
pub(crate) enum Read {
    Empty,
    /// So many good ones were given.
    Entries(usize),
    /// An error is first.
    Error,
}

impl Queue {
    /// A new queue. `None` if the domain has as many as it can.
    pub(crate) fn new(domain: Arc<Domain>, capacity: usize) -> Option<Self> {
        domain.cqs.take()?;
        domain.users.fetch_add(1, Ordering::Relaxed);
        let stats = domain.nic.stats(domain.process);
        stats.cqs.fetch_add(1, Ordering::Relaxed);
        Some(Self {
            capacity,
            users: AtomicUsize::new(0),
            state: Mutex::new(State {
                ready: VecDeque::with_capacity(capacity.min(1024)),
                ..State::default()
            }),
            endpoints: RwLock::default(),
            ring: OnceLock::new(),
            is_ring_kept: AtomicBool::new(false),
            domain,
        })
    }

    /// The number by which peers find it; it has one from the first call on.
    ///
    /// # Errors
    /// ENOMEM: the process has no more, or there is no room for another one in shared memory.
    pub(super) fn share(&self) -> Result<u32, i32> {
        // Nobody else is at it, and nothing is added meanwhile.
        let state = locked(&self.state);
        let number = match self.ring.get() {
            Some(number) => *number,
            None => {
                let process = self.domain.process;
                let number = process.take_ring().ok_or(e::FI_ENOMEM)?;
                let (capacity, held) = (short(self.capacity), short(state.held()));
                if events::open(&process.segment().queues[number], capacity, held).is_err() {
                    process.return_ring(number);
                    return Err(e::FI_ENOMEM);
                }
                *self.ring.get_or_init(|| number)
            }
        };
        drop(state);
        Ok(short(number))
    }

    fn ring(&self) -> Option<&'static Events> {
        let number = self.ring.get()?;
        self.domain.process.segment().queues.get(*number)
    }

    /// Its ring is not used again: somebody is stopped who may put something there.
    pub(super) fn keep_ring(&self) {
        self.is_ring_kept.store(true, Ordering::Relaxed);
    }

    /// Whether what is held and what waits in the ring is no more than there are places; peers are told.
    fn fits(&self, state: &State) -> bool {
        match self.ring() {
            Some(ring) => events::holds(ring, short(state.held())),
            None => state.held() <= self.capacity,
        }
    }

    /// Place for a completion. `None` while the queue is full.
    pub(super) fn place(&self) -> Option<Place<'_>> {
        let mut state = locked(&self.state);
        state.places += 1;
        if self.fits(&state) {
            drop(state);
            return Some(Place(self));
        }
        state.places -= 1;
        self.fits(&state);
        None
    }

    /// Adds what ended with its endpoint, or was taken back: there is no place to wait for, and nothing is lost.
    /// No error of anybody's.
    pub(super) fn flush(&self, completion: Completion) {
        let mut state = locked(&self.state);
        state.ready.push_back(completion);
        self.fits(&state);
    }

    /// Adds a completion that shows now, or later, whether or not there is a place.
    pub(super) fn push(&self, completion: Completion, show_at: Option<u64>) {
        self.count_error(&completion.happened);
        let mut state = locked(&self.state);
        match show_at {
            None => state.ready.push_back(completion),
            Some(when) => state.late.push((when, completion)),
        }
        self.fits(&state);
    }

    /// Counts it if it is an error, and told for the first time.
    fn count_error(&self, happened: &Happened) {
        let Some((_, prov_errno)) = happened.error.filter(|_| !happened.is_repeat) else {
            return;
        };
        let stats = self.domain.nic.stats(self.domain.process);
        stats.count_error(i32::from(prov_errno));
    }

    pub(super) fn attach(&self, endpoint: &Arc<Ep>) {
        let mut endpoints = self
            .endpoints
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if !endpoints.iter().any(|e| Arc::ptr_eq(e, endpoint)) {
            endpoints.push(Arc::clone(endpoint));
        }
    }

    pub(super) fn detach(&self, endpoint: &Ep) {
        let mut endpoints = self
            .endpoints
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        endpoints.retain(|e| !core::ptr::eq(Arc::as_ptr(e), endpoint));
    }

    /// Makes progress, and gives up to `count` good completions to `take`.
    pub(crate) fn read(&self, count: usize, mut take: impl FnMut(usize, &Completion)) -> Read {
        let verdict = self.domain.nic.on_poll(self.domain.process);
        if verdict == PollVerdict::Stalled {
            return Read::Empty;
        }
        self.advance();
        self.domain.nic.count_traffic(self.domain.process);
        if verdict == PollVerdict::Empty {
            return Read::Empty;
        }
        let mut state = locked(&self.state);
        self.collect(&mut state, count.max(1));
        let mut given = 0;
        while given < count {
            match state.ready.front() {
                Some(first) if first.happened.error.is_none() => take(given, first),
                Some(_) if given == 0 => return Read::Error,
                _ => break,
            }
            state.ready.pop_front();
            given += 1;
        }
        if given > 0 {
            self.fits(&state);
        }
        if given == 0 && count > 0 {
            self.idle(&mut state);
            return Read::Empty;
        }
        Read::Entries(given)
    }

    /// Takes the error that is first, if the plan lets it.
    pub(crate) fn read_error(&self) -> Option<Completion> {
        if self.domain.nic.on_readerr(self.domain.process) {
            return None;
        }
        let mut state = locked(&self.state);
        self.collect(&mut state, 1);
        let is_error = state.ready.front()?.happened.error.is_some();
        let error = is_error.then(|| state.ready.pop_front())?;
        self.fits(&state);
        error
    }

    /// Lets the endpoints' operations go.
    fn advance(&self) {
        let endpoints = self
            .endpoints
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        for endpoint in endpoints.iter() {
            endpoint.progress();
        }
        drop(endpoints);
        self.domain.process.serve();
    }

    /// Fills the queue from where completions wait: those that were late, and events.
    fn collect(&self, state: &mut State, wanted: usize) {
        if !state.late.is_empty() {
            let now = self.domain.process.now_ns();
            let (due, late) = state.late.drain(..).partition(|(when, _)| *when <= now);
            state.late = late;
            let due: Vec<(u64, Completion)> = due;
            state
                .ready
                .extend(due.into_iter().map(|(_, completion)| completion));
        }
        if state.ready.len() >= wanted {
            return;
        }
        let endpoints = self
            .endpoints
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        for endpoint in endpoints.iter() {
            if endpoint.receives_into(self).is_some() {
                endpoint.contained(Ep::look_after_unexpected);
            }
        }
        self.take_events(&endpoints, state, wanted);
    }

    /// Takes events out of the ring until so many completions are ready.
    fn take_events(&self, endpoints: &[Arc<Ep>], state: &mut State, wanted: usize) {
        let Some(ring) = self.ring() else {
            return;
        };
        while state.ready.len() < wanted {
            let Some((slot, happened)) = events::first(ring) else {
                events::rewind(ring, self.domain.process.user());
                return;
            };
            let endpoint = endpoints.iter().find(|endpoint| endpoint.slot() == slot);
            let bound = endpoint.and_then(|endpoint| endpoint.receives_into(self));
            // All of an endpoint's are taken before it closes.
            if let (Some(endpoint), Some(bound)) = (endpoint, bound) {
                self.count_error(&happened);
                endpoint.count_received(&happened);
                let completion = Completion {
                    happened,
                    vector: Some(Arc::clone(&bound.vector)),
                };
                match happened.late_ns {
                    0 => state.ready.push_back(completion),
                    late => {
                        let when = self.domain.process.now_ns().saturating_add(late);
                        state.late.push((when, completion));
                    }
                }
                self.fits(state);
            }
            events::remove_first(ring);
        }
    }

    /// Takes all events: nobody else does before an endpoint closes.
    pub(super) fn take_all(&self) {
        let mut state = locked(&self.state);
        let endpoints = self
            .endpoints
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        self.take_events(&endpoints, &mut state, usize::MAX);
    }

    /// A queue may hold more than its ring does: the ring is emptied before it is full.
    pub(super) fn relieve(&self) {
        let half = EVENTS as u64 / 2;
        let is_filling =
            self.capacity > EVENTS && (self.ring()).is_some_and(|ring| events::unread(ring) > half);
        if is_filling {
            self.take_all();
        }
    }

    /// Now and then, receives that dead senders hold are posted again.
    fn idle(&self, state: &mut State) {
        state.idle_reads = state.idle_reads.wrapping_add(1);
        if state.idle_reads % CLOCK_EVERY != 0 {
            return;
        }
        let now = self.domain.process.now_ns();
        if now.saturating_sub(state.restored_ns) < RESTORE_NS {
            return;
        }
        state.restored_ns = now;
        let endpoints = self
            .endpoints
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        for endpoint in endpoints.iter() {
            let shared = endpoint.shared();
            let Some(_held) = shared.lock.acquire(self.domain.process.user()) else {
                continue;
            };
            receives::restore(shared);
            unexpected::forget_dead(shared);
        }
        unexpected::release_dead(self.domain.process.segment());
        if let Some(ring) = self.ring() {
            events::restore(ring, self.domain.process.user());
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        let process = self.domain.process;
        if let (Some(ring), Some(number)) = (self.ring(), self.ring.get()) {
            let is_free = events::close(ring, process.user());
            if is_free && !self.is_ring_kept.load(Ordering::Relaxed) {
                process.return_ring(*number);
            }
        }
        let stats = self.domain.nic.stats(process);
        stats.cqs.fetch_sub(1, Ordering::Relaxed);
        self.domain.cqs.give_back();
        self.domain.users.fetch_sub(1, Ordering::Relaxed);
    }
}

fn short(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// The error of a completion.
pub(crate) fn failure(code: Code) -> Option<(u16, u16)> {
    Some((
        u16::try_from(code.err).unwrap_or(u16::MAX),
        u16::try_from(code.prov_errno).unwrap_or(u16::MAX),
    ))
}
