//! Lanes without a receive: whoever sends to them waits, and does not know why.

use crate::error::{Code, NetError};
use crate::progress::Core;
use crate::report::{self, Note};
use ofi_rdma::Lane;

impl Core {
    /// There is a listener from now on: all lanes get receives.
    ///
    /// # Errors
    /// One gets none: memory for them was refused. There is no new listener then.
    pub(crate) fn receive_all(&mut self) -> Result<(), NetError> {
        let was_listening = self.port.receives.listen();
        let filled = self.fill_lanes(|_| true);
        if filled.is_err() && !was_listening {
            self.port.receives.unlisten();
        }
        filled
    }

    /// There is a send communicator more from now on, whose peer sends control messages.
    ///
    /// # Errors
    /// None can come in: memory for them was refused. The communicator is not counted then.
    pub(crate) fn receive_control(&mut self) -> Result<(), NetError> {
        // Each lane gets what it needs before the first takes all for what it would like.
        self.port.receives.want_more();
        self.fill_lanes(Lane::is_control)?;
        self.port.receives.sender_added();
        self.fill_receives();
        Ok(())
    }

    fn fill_lanes(&mut self, needed: impl Fn(Lane) -> bool) -> Result<(), NetError> {
        let before = self.port.notes.len();
        self.fill_receives();
        let Some(refused) = self.port.receives.refused(needed) else {
            return Ok(());
        };
        let error = refused.clone().context("memory for messages of peers");
        // The error says what these would: one line for one fault.
        let notes = self.port.notes.split_off(before);
        let others = notes
            .into_iter()
            .filter(|note| !matches!(note, Note::Receive { .. }));
        self.port.notes.extend(others);
        Err(error)
    }

    /// Tells of a lane that has no receive, and tries those again that were refused memory.
    pub(crate) fn look_at_receives(&mut self, now_ms: u64, away_ms: u64) {
        self.deaf = None;
        for lane in self.port.receives.given_up() {
            self.port.note(Note::GivenUp(lane));
            if let Some(meter) = &self.meter {
                meter.gave_up_lane();
            }
        }
        match self.port.receives.bare(now_ms, away_ms) {
            Some((lane, ms)) => self.look_at_bare(lane, ms),
            None => self.is_bare_told = false,
        }
        self.port.receives.feed();
    }

    fn look_at_bare(&mut self, lane: Lane, ms: u64) {
        let config = self.engine.config();
        let (warn, fail) = (config.stall_warn_ms, config.stall_fail_ms);
        if fail.is_some_and(|limit| ms >= limit) {
            let bare = report::bare(lane, ms);
            let refused = self.port.receives.refused(|other| other == lane);
            self.deaf = Some(match refused {
                Some(refused) => refused.clone().context(bare),
                None => NetError::new(Code::Stalled, bare),
            });
        }
        if !self.is_bare_told && warn.is_some_and(|limit| ms >= limit) {
            self.is_bare_told = true;
            self.port.note(Note::Bare { lane, ms });
            self.watch.stalled();
        }
    }

    /// What came; an error if nothing did and nothing can.
    pub(crate) fn heard<T>(&self, what: Option<T>) -> Result<Option<T>, NetError> {
        match (&what, &self.deaf) {
            (None, Some(deaf)) => Err(deaf.clone()),
            _ => Ok(what),
        }
    }
}
