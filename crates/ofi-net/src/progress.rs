//! One progress pass: harvest every rail, demultiplex, complete, pump the outboxes, refill receives,
//! collect events. The loop that names the order is [`Core::progress`].
//!
//! Every entry of a batch is handled, whatever became of the one before; a failed operation marks its
//! own request (decision 11). A pass takes at most [`BATCHES_MAX`] batches from a rail, so that a busy
//! rail does not starve the others, and starts with another rail each time.

use crate::clock;
use crate::contexts::Owner;
use crate::error::{self, Code, NetError};
use crate::handle_words::CommWord;
use crate::locked::Guarded;
use crate::lost::Lost;
use crate::pace::Pace;
use crate::rail::Port;
use crate::report::Note;
use crate::rx::{Lanes, lanes};
use crate::stats::{Meter, Passes, of_rail};
use crate::watch::Watch;
use efa_fabric::{CompletionError, CompletionFlags, Cq, CqEntry, CqPoll};
use ofi_pools::Slot;
use ofi_rdma::{Cause, CommKey, Engine, Event, Lane, RxFate, RxId, Token};
use ofi_trace::Record;
use std::collections::HashMap;
use std::sync::Arc;

/// A write of a peer that says for whom it is. Without CQ data an entry's data means nothing (`fi_cq(3)`),
/// though it may read as a message for somebody.
const TOLD_WRITE: CompletionFlags =
    CompletionFlags::REMOTE_WRITE.union(CompletionFlags::REMOTE_CQ_DATA);

/// Completions taken by one read, when the user did not say (`OFI_NCCL_CQ_READ_COUNT`).
pub(crate) const BATCH_DEFAULT: usize = 32;

/// Most completions taken by one read.
pub(crate) const BATCH_MAX: usize = 64;

/// Batches that a pass takes from one rail.
const BATCHES_MAX: usize = 4;

/// Error entries taken between two reads: more would mean that the queue gives the same one again.
const ERRORS_MAX: usize = 1024;

/// What the domain's lock protects.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) engine: Engine,
    /// Before the queues: endpoints close first.
    pub(crate) port: Port,
    pub(crate) cqs: Vec<Cq>,
    pub(crate) batch: Box<[CqEntry]>,
    /// The communicators that callers hold, and whether they send.
    pub(crate) open: HashMap<CommKey, Role>,
    /// Listeners whose connection is being made on another domain, and what as: with an endpoint for
    /// each communicator of a peer.
    pub(crate) adopted: HashMap<CommKey, CommWord>,
    /// An incoming write without a length is one whose length the provider does not tell.
    pub(crate) lengths_missing: bool,
    pub(crate) next_rail: usize,
    /// Passes, modulo what lies between two looks at `meter`.
    pub(crate) passes: Passes,
    /// Where what happens is written for others, if it is.
    pub(crate) meter: Option<Box<Meter>>,
    pub(crate) pace: Pace,
    pub(crate) watch: Arc<Watch>,
    pub(crate) lost: Lost,
    /// A lane has no receive, and that was told.
    pub(crate) is_bare_told: bool,
    /// It has had none for so long that nobody need wait for what comes: an accept fails. Requests have a bound
    /// of their own.
    pub(crate) deaf: Option<NetError>,
    /// What makes the domain unusable.
    pub(crate) poison: Option<NetError>,
}

/// What a communicator of a caller is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It listens.
    Listener,
    /// It sends.
    Send,
    /// It receives.
    Recv,
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
        self.look_at_receives(now_ms, away_ms);
        self.watch.tick(now_ms);
    }

    /// Takes completions from every rail and tells the engine.
    pub(crate) fn harvest(&mut self) -> usize {
        let rails = self.cqs.len();
        let next = |rail: usize| if rail + 1 < rails { rail + 1 } else { 0 };
        let mut rail = self.next_rail;
        self.next_rail = next(rail);
        let mut harvested = 0;
        for _ in 0..rails {
            harvested += self.harvest_rail(rail);
            rail = next(rail);
        }
        harvested
    }

    /// What every command and input is followed by: posts go out, receives are refilled, events are
    /// kept for the log.
    pub(crate) fn drain(&mut self) {
        let Self {
            engine,
            port,
            watch,
            ..
        } = self;
        engine.pump(port);
        while let Some(rx) = engine.take_released() {
            if let Some(buffer) = port.receives.held(rx.rail, rx.index) {
                port.recycle(buffer);
            }
        }
        if port.receives.any_low() {
            Self::refill_low(engine, port);
        }
        let mut failed = false;
        while let Some(event) = engine.poll_event() {
            if let Event::Failed(comm, _) = event {
                failed = true;
                let waits = &mut port.regions.waits;
                waits.forget(|request| engine.request_comm(request) == Some(comm));
            }
            watch.event(event);
            let control_0 = port.lane(Lane::control(0));
            port.note(control_0.map_or(Note::Event(event), |end| end.peers.note(event)));
        }
        if let Some(trace) = &mut port.trace {
            trace.flush();
        }
        if failed {
            // What comes next may well be the end of the process.
            self.publish();
        }
    }

    /// Fills up the lanes that have few receives left.
    #[cold]
    fn refill_low(engine: &Engine, port: &mut Port) {
        for lane in lanes_of(engine) {
            if port.receives.is_low(lane) {
                port.refill(lane);
            }
        }
    }

    /// Fills every lane up to its target: after that has grown.
    pub(crate) fn fill_receives(&mut self) {
        for lane in lanes_of(&self.engine) {
            self.port.refill(lane);
        }
    }

    fn harvest_rail(&mut self, rail: usize) -> usize {
        let Self {
            engine,
            port,
            cqs,
            batch,
            lengths_missing,
            poison,
            watch,
            ..
        } = self;
        let Some(cq) = cqs.get(rail) else { return 0 };
        let rail = u8::try_from(rail).unwrap_or(u8::MAX);
        let mut demux = Demux {
            engine,
            port,
            rail,
            lengths_missing: *lengths_missing,
            came: 0,
            failed: 0,
        };
        let mut harvested = 0;
        for _ in 0..BATCHES_MAX {
            match cq.read_batch(batch) {
                Ok(CqPoll::Entries(count)) => {
                    demux.batch(batch.get(..count).unwrap_or(&[]));
                    harvested += count;
                    if count < batch.len() {
                        break;
                    }
                }
                Ok(CqPoll::Empty) => break,
                Ok(CqPoll::ErrorAvailable) => harvested += demux.errors(cq),
                Err(error) => {
                    // fi_cq(3): an overrun queue has lost completions for good.
                    let what = format!("rail {rail}: the completion queue failed: {error}");
                    poison.get_or_insert_with(|| NetError::new(Code::Poisoned, what));
                    watch.failed();
                    break;
                }
            }
        }
        if harvested > 0 {
            demux.add_up(harvested);
        }
        harvested
    }
}

/// The lanes of an engine's domain.
pub(crate) fn lanes_of(engine: &Engine) -> Lanes {
    let config = engine.config();
    lanes(
        u32::from(config.data_rails),
        u32::from(config.control_rails),
    )
}

struct Demux<'a> {
    engine: &'a mut Engine,
    port: &'a mut Port,
    rail: u8,
    lengths_missing: bool,
    /// Bytes that came in, as far as the provider tells.
    came: u64,
    /// Error entries.
    failed: u64,
}

/// The low 32 bits of CQ data: what the protocol uses, and all that EFA carries (decision 3).
#[expect(
    clippy::cast_possible_truncation,
    reason = "the low half is what is wanted"
)]
const fn imm_of(data: u64) -> u32 {
    data as u32
}

impl Demux<'_> {
    /// What one read of the queue gave. Whether there is a trace is asked once.
    #[inline]
    fn batch(&mut self, entries: &[CqEntry]) {
        if self.port.is_traced() {
            return self.batch_traced(entries);
        }
        let mut came = 0_u64;
        for entry in entries {
            self.entry(entry, &mut came);
        }
        self.came(came);
    }

    #[cold]
    fn batch_traced(&mut self, entries: &[CqEntry]) {
        for entry in entries {
            self.trace(entry);
            let mut came = 0;
            self.entry(entry, &mut came);
            self.came(came);
        }
    }

    /// One good completion; bytes that came in with it, as far as the provider tells, are added to `came`. The order is
    /// that of protocol 2f: an incoming write has no context; the rest is told by what was posted.
    #[inline(always)]
    fn entry(&mut self, entry: &CqEntry, came: &mut u64) {
        if entry.flags().contains(TOLD_WRITE) {
            let known = !(self.lengths_missing && entry.is_empty());
            let len = known.then_some(entry.len() as u64);
            self.engine.on_remote_write(self.rail, entry.data(), len);
            *came = came.wrapping_add(entry.len() as u64);
            return;
        }
        match self.port.contexts.finish(entry.context().cast()) {
            Some(Owner::Post(token)) => self.engine.on_local(token),
            Some(Owner::Control(token, slot)) => {
                self.port.give_send(slot);
                self.engine.on_local(token);
            }
            Some(Owner::Receive(lane, slot)) => {
                *came = came.wrapping_add(self.received(lane, slot, entry));
            }
            None => self.unowned(|| format!("a completion without an operation: {entry:?}")),
        }
    }

    /// Puts what was counted to the rail's numbers.
    fn add_up(&mut self, harvested: usize) {
        if cfg!(ofi_without_counters) {
            return;
        }
        let seen = of_rail(&mut self.port.seen, self.rail);
        seen.bytes = seen.bytes.wrapping_add(self.came);
        seen.completions = seen.completions.wrapping_add(harvested as u64);
        seen.errors = seen.errors.wrapping_add(self.failed);
    }

    /// Counts bytes that came in.
    #[inline(always)]
    const fn came(&mut self, bytes: u64) {
        if cfg!(not(ofi_without_counters)) {
            self.came = self.came.wrapping_add(bytes);
        }
    }

    /// Writes a good completion down, before anything becomes of it.
    #[cold]
    fn trace(&mut self, entry: &CqEntry) {
        let Port {
            trace: Some(trace),
            contexts,
            ..
        } = &mut *self.port
        else {
            return;
        };
        let (data, len) = (entry.data(), entry.len() as u64);
        if entry.flags().contains(TOLD_WRITE) {
            let known = !(self.lengths_missing && entry.is_empty());
            let len = known.then_some(len);
            return trace.keep(Lane::data(self.rail), Record::RemoteWrite { data, len });
        }
        match contexts.owner(entry.context().cast()) {
            Some(Owner::Post(Token(token))) => {
                trace.keep(Lane::data(self.rail), Record::Done { token });
            }
            Some(Owner::Control(Token(token), _)) => {
                trace.keep(Lane::control(self.rail), Record::Done { token });
            }
            Some(Owner::Receive(lane, _))
                if entry.flags().contains(CompletionFlags::REMOTE_CQ_DATA) =>
            {
                trace.keep(lane, Record::Eager { data, len });
            }
            // With its bytes, once they are lent.
            Some(Owner::Receive(..)) | None => {}
        }
    }

    /// A receive that is over; the bytes of a payload.
    fn received(&mut self, lane: Lane, slot: Slot, entry: &CqEntry) -> u64 {
        let buffer = self.port.receives.received(lane, slot);
        // Eager or control is told by CQ data alone (trap 1).
        if !entry.flags().contains(CompletionFlags::REMOTE_CQ_DATA) {
            if entry.flags().contains(CompletionFlags::REMOTE_WRITE) {
                self.unowned(|| format!("a write without CQ data took a receive: {entry:?}"));
                self.port.recycle(buffer);
                return 0;
            }
            let (engine, trace) = (&mut *self.engine, &mut self.port.trace);
            let lent = self.port.receives.lend(&buffer, entry.len(), |message| {
                if let Some(trace) = trace {
                    trace.keep(lane, Record::Control { message });
                }
                engine.on_control(message);
            });
            debug_assert!(lent.is_some(), "a completed receive has a buffer");
        } else if lane.is_control() {
            self.unowned(|| format!("CQ data on a control endpoint: {entry:?}"));
        } else {
            let rx = RxId {
                rail: lane.rail(),
                index: slot.index(),
            };
            let len = u32::try_from(entry.len()).unwrap_or(u32::MAX);
            match self.engine.on_eager(imm_of(entry.data()), len, rx) {
                RxFate::Held => buffer.hold(),
                RxFate::Repost => self.port.recycle(buffer),
            }
            return entry.len() as u64;
        }
        self.port.recycle(buffer);
        0
    }

    /// All error entries there are now; how many.
    #[cold]
    fn errors(&mut self, cq: &Cq) -> usize {
        for taken in 0..ERRORS_MAX {
            match cq.read_error() {
                Ok(Some(error)) => self.error(&error),
                Ok(None) => return taken,
                Err(error) => {
                    self.unowned(|| error.to_string());
                    return taken;
                }
            }
        }
        ERRORS_MAX
    }

    fn error(&mut self, error: &CompletionError) {
        self.failed += u64::from(!error.is_cancelled());
        let cause = Cause {
            errno: error.errno().code(),
            provider_errno: error.prov_errno(),
        };
        let owner = self.port.contexts.finish(error.context().cast());
        if let Some(trace) = &mut self.port.trace {
            let (lane, token) = match owner {
                Some(Owner::Post(token)) => (Lane::data(self.rail), Some(token)),
                Some(Owner::Control(token, _)) => (Lane::control(self.rail), Some(token)),
                Some(Owner::Receive(lane, _)) => (lane, None),
                None => (Lane::data(self.rail), None),
            };
            trace.failed(lane, token, cause);
        }
        match owner {
            Some(Owner::Post(token)) => self.engine.on_failed(token, cause),
            Some(Owner::Control(token, slot)) => {
                self.port.give_send(slot);
                self.engine.on_failed(token, cause);
            }
            Some(Owner::Receive(lane, slot)) => {
                let buffer = self.port.receives.failed(lane, slot);
                self.port.receives.give(buffer);
                self.note_receive(lane, error);
            }
            None => self.unowned(|| error::decoded(error)),
        }
    }

    fn note_receive(&mut self, lane: Lane, error: &CompletionError) {
        if error.is_truncated() {
            let lost = error.overflow();
            self.port.note(Note::Truncated { lane, lost });
        } else if !error.is_cancelled() {
            self.port.note(Note::Receive {
                lane,
                text: error::decoded(error),
            });
        }
    }

    #[cold]
    fn unowned(&mut self, text: impl FnOnce() -> String) {
        let (rail, text) = (self.rail, text());
        self.port.note(Note::Unowned { rail, text });
    }
}
