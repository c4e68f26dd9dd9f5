//! One progress pass: harvest, pump, collect events.

use super::port::{Port, RAIL};
use crate::clock;
use crate::contexts::Owner;
use crate::error::{self, Code, NetError};
use crate::locked::Guarded;
use crate::lost::Lost;
use crate::pace::Pace;
use crate::progress::Role;
use crate::report::Note;
use crate::stats::{Meter, Passes, of_rail};
use crate::watch::Watch;
use efa_fabric::{CompletionError, CompletionFlags, Cq, CqPoll, TaggedEntry};
use ofi_rdma::{Cause, CommKey, Event};
use ofi_sendrecv::{Engine, Rest};
use std::collections::HashMap;
use std::sync::Arc;

/// Batches that a pass takes.
const BATCHES_MAX: usize = 4;

/// Error entries taken between two reads: more would mean that the queue gives the same one again.
const ERRORS_MAX: usize = 1024;

/// What the domain's lock protects.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) engine: Engine,
    /// Before the queue: the endpoint closes first.
    pub(crate) port: Port,
    pub(crate) cq: Cq<TaggedEntry>,
    pub(crate) batch: Box<[TaggedEntry]>,
    /// The communicators that callers hold.
    pub(crate) open: HashMap<CommKey, Role>,
    /// Passes, modulo what lies between two looks at `meter`.
    pub(crate) passes: Passes,
    /// Where what happens is written for others, if it is.
    pub(crate) meter: Option<Box<Meter>>,
    pub(crate) pace: Pace,
    pub(crate) watch: Arc<Watch>,
    pub(crate) lost: Lost,
    /// The provider reads: flushes work.
    pub(crate) reads: bool,
    /// What makes the domain unusable.
    pub(crate) poison: Option<NetError>,
}

impl Guarded for Core {
    #[inline]
    fn notes(&mut self) -> &mut Vec<Note> {
        &mut self.port.notes
    }

    #[inline]
    fn poison(&mut self) -> &mut Option<NetError> {
        &mut self.poison
    }

    fn is_unused(&self) -> bool {
        self.open.is_empty()
    }
}

impl Core {
    /// One pass; how many completions there were.
    pub(crate) fn progress(&mut self) -> usize {
        let harvested = self.harvest();
        if self.pace.pass(harvested) {
            self.look();
        }
        self.drain();
        self.passes = self.passes.wrapping_add(1);
        if self.passes == 0 {
            self.publish();
        }
        harvested
    }

    /// Looks at the clock: whether something stalls, and whether a dump is due.
    #[cold]
    fn look(&mut self) {
        let now_ms = clock::now_ms();
        let away_ms = self.pace.look(now_ms);
        if away_ms > 0 {
            self.engine.on_absence(away_ms);
        }
        self.engine.tick(now_ms);
        self.watch.tick(now_ms);
    }

    /// What every command and input is followed by.
    #[inline]
    pub(crate) fn drain(&mut self) {
        let Self {
            engine,
            port,
            watch,
            ..
        } = self;
        engine.pump(port);
        let mut failed = false;
        while let Some(event) = engine.poll_event() {
            if let Event::Failed(comm, _) = event {
                failed = true;
                let waits = &mut port.regions.waits;
                waits.forget(|request| engine.request_comm(request) == Some(comm));
            }
            watch.event(event);
            let note = port.event(event);
            port.note(note);
        }
        if let Some(trace) = &mut port.trace {
            trace.flush();
        }
        if failed {
            // What comes next may well be the end of the process.
            self.publish();
        }
    }

    fn harvest(&mut self) -> usize {
        let Self {
            engine,
            port,
            cq,
            batch,
            poison,
            watch,
            ..
        } = self;
        let mut demux = Demux { engine, port };
        let mut harvested = 0;
        for _ in 0..BATCHES_MAX {
            match cq.read_batch(batch) {
                Ok(CqPoll::Entries(count)) => {
                    let entries = batch.get(..count).unwrap_or(&[]);
                    entries.iter().for_each(|entry| demux.entry(entry));
                    harvested += count;
                    if count < batch.len() {
                        break;
                    }
                }
                Ok(CqPoll::Empty) => break,
                Ok(CqPoll::ErrorAvailable) => harvested += demux.errors(cq),
                Err(error) => {
                    // fi_cq(3): an overrun queue has lost completions for good.
                    let what = format!("the completion queue failed: {error}");
                    poison.get_or_insert_with(|| NetError::new(Code::Poisoned, what));
                    watch.failed();
                    break;
                }
            }
        }
        let seen = of_rail(&mut port.seen, RAIL);
        seen.completions = seen.completions.wrapping_add(harvested as u64);
        harvested
    }
}

struct Demux<'a> {
    engine: &'a mut Engine,
    port: &'a mut Port,
}

impl Demux<'_> {
    #[inline]
    fn entry(&mut self, tagged: &TaggedEntry) {
        let entry = tagged.entry();
        if self.port.is_traced() {
            self.port.trace_done(tagged);
        }
        match self.port.contexts.finish(entry.context().cast()) {
            Some(Owner::Post(token)) => {
                let len = entry.len() as u64;
                if entry.flags().contains(CompletionFlags::RECV) {
                    let seen = of_rail(&mut self.port.seen, RAIL);
                    seen.bytes = seen.bytes.wrapping_add(len);
                }
                self.engine.on_local(token, len);
            }
            Some(Owner::Control(token, slot)) => {
                if entry.flags().contains(CompletionFlags::RECV) {
                    let engine = &mut *self.engine;
                    let read = |bytes: &[u8]| engine.on_connect(token, bytes);
                    let lent = self.port.with_slot(slot, entry.len(), read);
                    debug_assert!(lent.is_some(), "a completed receive has a buffer");
                } else {
                    self.engine.on_local(token, 0);
                }
                self.port.give_slot(slot);
            }
            Some(Owner::Receive(..)) | None => {
                self.unowned(format!("a completion without an operation: {tagged:?}"));
            }
        }
    }

    /// All error entries there are now; how many.
    #[cold]
    fn errors(&mut self, cq: &Cq<TaggedEntry>) -> usize {
        for taken in 0..ERRORS_MAX {
            match cq.read_error() {
                Ok(Some(error)) => self.error(&error),
                Ok(None) => return taken,
                Err(error) => {
                    self.unowned(error.to_string());
                    return taken;
                }
            }
        }
        ERRORS_MAX
    }

    fn error(&mut self, error: &CompletionError) {
        of_rail(&mut self.port.seen, RAIL).errors += u64::from(!error.is_cancelled());
        let cause = Cause {
            errno: error.errno().code(),
            provider_errno: error.prov_errno(),
        };
        let owner = self.port.contexts.finish(error.context().cast());
        self.port.trace_failed(owner, cause);
        let (token, rest) = match owner {
            Some(Owner::Post(token)) => (token, self.port.rest_of(error)),
            Some(Owner::Control(token, slot)) => {
                self.port.give_slot(slot);
                (token, Rest::Unknown)
            }
            Some(Owner::Receive(..)) | None => return self.unowned(error::decoded(error)),
        };
        if error.is_truncated() {
            self.engine.on_truncated(token, rest);
        } else {
            self.engine.on_failed(token, cause);
        }
    }

    #[cold]
    fn unowned(&mut self, text: String) {
        self.port.note(Note::Unowned { rail: 0, text });
    }
}
