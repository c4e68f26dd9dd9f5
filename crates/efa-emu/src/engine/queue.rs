//! Completion queues: bounded, fed by this process' operations and by what peers did to its
//! endpoints.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use super::domain::Domain;
use super::endpoint::Ep;
use super::locked;
use super::vector::Vector;
use crate::mem::events::{self, Happened};
use crate::mem::{receives, unexpected};
use crate::plan::{Code, PollVerdict};

/// Empty reads between two looks for receives that dead senders hold.
const RESTORE_EVERY: u32 = 1 << 16;

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
}

#[derive(Debug, Default)]
struct State {
    ready: VecDeque<Completion>,
    /// Completions that show later: when, and what.
    late: Vec<(u64, Completion)>,
    idle_reads: u32,
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
    pub(crate) fn new(domain: Arc<Domain>, capacity: usize) -> Self {
        domain.users.fetch_add(1, Ordering::Relaxed);
        let stats = domain.nic.stats(domain.process);
        stats.cqs.fetch_add(1, Ordering::Relaxed);
        Self {
            capacity,
            users: AtomicUsize::new(0),
            state: Mutex::new(State {
                ready: VecDeque::with_capacity(capacity.min(1024)),
                ..State::default()
            }),
            endpoints: RwLock::default(),
            domain,
        }
    }

    /// Whether a completion of an operation still fits.
    pub(crate) fn has_room(&self) -> bool {
        let state = locked(&self.state);
        state.ready.len() + state.late.len() < self.capacity
    }

    /// Adds what was pending when its endpoint closed: no error of anybody's.
    pub(super) fn flush(&self, completion: Completion) {
        locked(&self.state).ready.push_back(completion);
    }

    /// Adds a completion that shows now, or later.
    pub(crate) fn push(&self, completion: Completion, show_at: Option<u64>) {
        if let Some((_, prov)) = completion.happened.error {
            self.count_error(prov);
        }
        let mut state = locked(&self.state);
        match show_at {
            None => state.ready.push_back(completion),
            Some(when) => state.late.push((when, completion)),
        }
    }

    fn count_error(&self, prov_errno: u16) {
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
        is_error.then(|| state.ready.pop_front())?
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
            let Some(bound) = endpoint.receives_into(self) else {
                continue;
            };
            endpoint.contained(Ep::look_after_unexpected);
            let shared = endpoint.shared();
            while state.ready.len() < wanted {
                let Some(happened) = events::pop(shared) else {
                    events::rewind(shared, self.domain.process.user());
                    break;
                };
                if let Some((_, prov)) = happened.error {
                    self.count_error(prov);
                }
                endpoint.count_received(&happened);
                state.ready.push_back(Completion {
                    happened,
                    vector: Some(Arc::clone(&bound.vector)),
                });
            }
        }
    }

    /// Now and then, receives that dead senders hold are posted again.
    fn idle(&self, state: &mut State) {
        state.idle_reads = state.idle_reads.wrapping_add(1);
        if state.idle_reads % RESTORE_EVERY != 0 {
            return;
        }
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
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        let stats = self.domain.nic.stats(self.domain.process);
        stats.cqs.fetch_sub(1, Ordering::Relaxed);
        self.domain.users.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The error of a completion.
pub(crate) fn failure(code: Code) -> Option<(u16, u16)> {
    Some((
        u16::try_from(code.err).unwrap_or(u16::MAX),
        u16::try_from(code.prov_errno).unwrap_or(u16::MAX),
    ))
}
