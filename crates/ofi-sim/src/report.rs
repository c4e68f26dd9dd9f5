//! What a simulation says at its end.

use core::fmt;

use crate::coverage::Coverage;

/// What happened in a simulation that found nothing wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Messages whose receive ended well, each compared byte for byte.
    pub messages: u64,
    /// Of them, sent eagerly.
    pub eager: u64,
    /// Bytes compared.
    pub bytes: u64,
    /// Segments written.
    pub segments: u64,
    /// One-sided operations that ended well.
    pub one_sided: u64,
    /// Receives that were done before their data, which came.
    pub optional: u64,
    /// Flushes that ended.
    pub flushes: u64,
    /// Events of virtual time.
    pub events: u64,
    /// Virtual time, nanoseconds.
    pub virtual_ns: u64,
    /// Lives of links that began, and that ended by a failure or an abrupt close.
    pub lives: u64,
    /// See [`Report::lives`].
    pub lives_failed: u64,
    /// Times a sequence number began again at 0.
    pub wraps: u64,
    /// Commands answered "not now", by reason: connecting, in-flight cap, posts waiting, provider
    /// busy.
    pub not_now: [u64; 4],
    /// Stalls that engines reported.
    pub stalls: u64,
    /// Faults made, by kind.
    pub faults: Hits,
    /// What was gone through.
    pub coverage: Coverage,
    /// A number that two runs share only if everything happened alike.
    pub fingerprint: u64,
}

impl Report {
    /// Adds another run: sums, and what was gone through together. The fingerprint is nobody's then.
    pub fn absorb(&mut self, other: &Self) {
        let sums = [
            (&mut self.messages, other.messages),
            (&mut self.eager, other.eager),
            (&mut self.bytes, other.bytes),
            (&mut self.segments, other.segments),
            (&mut self.one_sided, other.one_sided),
            (&mut self.optional, other.optional),
            (&mut self.flushes, other.flushes),
            (&mut self.events, other.events),
            (&mut self.virtual_ns, other.virtual_ns),
            (&mut self.lives, other.lives),
            (&mut self.lives_failed, other.lives_failed),
            (&mut self.wraps, other.wraps),
            (&mut self.stalls, other.stalls),
        ];
        let refusals = self.not_now.iter_mut().zip(other.not_now);
        let faults = self.faults.all_mut().into_iter();
        let faults = faults
            .zip(other.faults.all())
            .map(|((_, sum), (_, more))| (sum, more));
        for (sum, more) in sums.into_iter().chain(refusals).chain(faults) {
            *sum += more;
        }
        self.coverage.absorb(&other.coverage);
    }
}

/// How often each kind of fault was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hits {
    /// EAGAIN answers.
    pub busy: u64,
    /// Storms of EAGAIN.
    pub storms: u64,
    /// Operations refused.
    pub refused: u64,
    /// Error completions.
    pub errors: u64,
    /// Injected control messages.
    pub injected: u64,
    /// Local completions before the effect.
    pub early_locals: u64,
    /// CTRLs that came before `CONN_RESP`.
    pub overtaken: u64,
    /// Repeated control messages delivered.
    pub repeated: u64,
    /// Strays delivered.
    pub strays: u64,
    /// Sides that closed with work in flight.
    pub abrupt: u64,
    /// Writes that found their region gone.
    pub late_writes: u64,
    /// Messages that waited for a receive buffer.
    pub not_ready: u64,
    /// Operations that vanished with a dead host.
    pub vanished: u64,
}

impl Hits {
    /// Each kind by name, with how often it was made.
    #[must_use]
    pub fn all(&self) -> [(&'static str, u64); 13] {
        let mut copy = *self;
        copy.all_mut().map(|(name, hits)| (name, *hits))
    }

    fn all_mut(&mut self) -> [(&'static str, &mut u64); 13] {
        [
            ("busy", &mut self.busy),
            ("storms", &mut self.storms),
            ("refused", &mut self.refused),
            ("errors", &mut self.errors),
            ("injected", &mut self.injected),
            ("early locals", &mut self.early_locals),
            ("overtaken", &mut self.overtaken),
            ("repeated", &mut self.repeated),
            ("strays", &mut self.strays),
            ("abrupt", &mut self.abrupt),
            ("late writes", &mut self.late_writes),
            ("not ready", &mut self.not_ready),
            ("vanished", &mut self.vanished),
        ]
    }
}

/// Kinds of event in the trace of a failure; `a` and `b` of a [`Record`] are named for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Operation accepted: kind, owner's message number.
    Post,
    /// Operation answered EAGAIN: kind, lane.
    Busy,
    /// Operation landed: kind, owner's message number.
    Land,
    /// Local completion given to the engine: token, 1 when failed.
    Complete,
    /// Control message given to the engine: first word, length.
    Control,
    /// Immediate of a write given to the engine: immediate, length.
    Write,
    /// Eager message given to the engine: immediate, length.
    Eager,
    /// isend admitted: link, message number.
    Isend,
    /// irecv admitted: link, message number.
    Irecv,
    /// One-sided operation admitted: link, its number.
    OneSided,
    /// Request done: link, message number.
    Done,
    /// Side opened (0 listen, 1 connect, 2 connected, 3 accepted): link, step.
    Open,
    /// Side closed (0 send, 1 receive): link, side.
    Close,
    /// Communicator failed: link, side.
    Fail,
    /// Host died.
    Death,
}

/// One event of the trace of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Virtual time, nanoseconds.
    pub at_ns: u64,
    /// The host it happened at.
    pub host: u8,
    /// What happened.
    pub what: What,
    /// See [`What`].
    pub a: u64,
    /// See [`What`].
    pub b: u64,
}

/// What an oracle found. Its text is one line that replays it; `{:#}` adds the last events.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Failure {
    /// The configuration, as text that parses back.
    pub spec: String,
    /// The seed, also in `spec`.
    pub seed: u64,
    /// Event at which it was found.
    pub step: u64,
    /// Virtual time, nanoseconds.
    pub at_ns: u64,
    /// What is wrong.
    pub what: String,
    /// The last events before it, oldest first.
    pub recent: Vec<Record>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            spec,
            step,
            at_ns,
            what,
            recent,
            ..
        } = self;
        write!(f, "{what} (event {step}, {at_ns} ns; replay: \"{spec}\")")?;
        if f.alternate() {
            for Record {
                at_ns,
                host,
                what,
                a,
                b,
            } in recent
            {
                write!(f, "\n{at_ns:>12} ns  host {host}  {what:?} {a:#x} {b:#x}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            messages,
            eager,
            bytes,
            segments,
            events,
            lives,
            lives_failed,
            wraps,
            ..
        } = self;
        let ms = self.virtual_ns / 1_000_000;
        write!(
            f,
            "{messages} messages ({eager} eager), {bytes} bytes compared, {segments} segments, \
             {lives} lives ({lives_failed} failed), {wraps} wraps, {events} events in {ms} virtual \
             ms, {:?}",
            self.faults
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_one_line_that_replays() {
        let spec = "seed=7 hosts=3".to_owned();
        let record = Record {
            at_ns: 5,
            host: 1,
            what: What::Post,
            a: 1,
            b: 2,
        };
        let (what, recent) = ("lost".to_owned(), vec![record]);
        let failure = Failure {
            spec,
            seed: 7,
            step: 9,
            at_ns: 6,
            what,
            recent,
        };
        assert_eq!(
            failure.to_string(),
            "lost (event 9, 6 ns; replay: \"seed=7 hosts=3\")"
        );
        assert_eq!(format!("{failure:#}").lines().count(), 2);
    }
}
