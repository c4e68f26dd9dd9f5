//! The states of communicators and requests, as two tables. Nothing else changes a state.
//!
//! `states.txt` beside this file is what the tables print; a test compares the two, so a change of
//! a machine is seen in review.

/// State of a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CommState {
    /// Listener: no connection yet (one may be half made).
    Listening,
    /// Listener: gave its communicator.
    Accepted,
    /// Send: CONN queued or sent, no answer taken.
    Connecting,
    /// Receive: `CONN_RESP` queued or sent.
    Answering,
    /// Receive: as Answering, for a peer set up differently, which is told by our true counts.
    Refusing,
    /// Receive: the peer was told.
    Refused,
    /// Messages flow.
    Up,
    /// Closed by the caller; CLOSE goes out once all operations are back.
    Parting,
    /// Send: closed by the caller; its id stays until the peer's CLOSE and all its CTRLs came.
    Lingering,
    /// Closed by the caller; ends once all operations are back.
    Ending,
    /// Its slot and id are free.
    Gone,
}

/// What happens to a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommInput {
    /// Listener: the caller got the receive communicator.
    ChildTaken,
    /// Listener: the receive communicator failed before.
    ChildLost,
    /// Send: a good `CONN_RESP` was taken.
    AnswerTaken,
    /// Receive: `CONN_RESP` completed.
    AnswerSent,
    /// The caller closes.
    Close,
    /// The caller closes, and the peer is to be told.
    CloseAndSay,
    /// The caller closes, and the peer will say that it did.
    CloseAndAwait,
    /// CLOSE came, and as many CTRLs as it says.
    HeardOut,
    /// Nothing is queued or at the provider.
    Quiet,
    /// The provider does not take the CLOSE, or the peer sends none, within the bound.
    GiveUp,
}

impl CommState {
    /// The table. `None`: this cannot happen in this state, and changes nothing.
    pub(crate) const fn next(self, input: CommInput) -> Option<Self> {
        Some(match (self, input) {
            (Self::Listening, CommInput::ChildTaken) => Self::Accepted,
            (Self::Listening, CommInput::ChildLost) => Self::Listening,
            (Self::Connecting, CommInput::AnswerTaken)
            | (Self::Answering, CommInput::AnswerSent) => Self::Up,
            (Self::Refusing, CommInput::AnswerSent) => Self::Refused,
            (Self::Up, CommInput::CloseAndSay) => Self::Parting,
            (Self::Up, CommInput::CloseAndAwait) => Self::Lingering,
            (Self::Parting, CommInput::Quiet | CommInput::GiveUp)
            | (Self::Lingering, CommInput::HeardOut | CommInput::GiveUp) => Self::Ending,
            (Self::Ending, CommInput::Quiet) => Self::Gone,
            (Self::Parting | Self::Lingering | Self::Ending | Self::Gone, _) => return None,
            (_, CommInput::Close) => Self::Ending,
            _ => return None,
        })
    }

    /// As people read it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Listening => "listening",
            Self::Accepted => "accepted",
            Self::Connecting => "connecting",
            Self::Answering => "answering",
            Self::Refusing => "refusing",
            Self::Refused => "refused",
            Self::Up => "up",
            Self::Parting => "parting",
            Self::Lingering => "lingering",
            Self::Ending => "ending",
            Self::Gone => "gone",
        }
    }

    /// Closed by the caller: its key is stale, messages for it are strays.
    pub(crate) const fn is_closed(self) -> bool {
        matches!(
            self,
            Self::Parting | Self::Lingering | Self::Ending | Self::Gone
        )
    }
}

/// State of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ReqState {
    /// Completions are missing.
    Live,
    /// All done; `test` has not taken it.
    Done,
    /// Nobody will test it: it stays until the provider gave back the last operation.
    Orphan,
    /// Its slot is free.
    Gone,
}

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReqInput {
    /// The last completion it needs.
    Complete,
    /// `test` takes it.
    Take,
    /// `test` reports the failure of its communicator.
    Report,
    /// Its communicator was closed.
    Close,
    /// Nothing of it is queued or at the provider.
    Quiet,
}

impl ReqState {
    /// The table. `None`: this cannot happen in this state, and changes nothing.
    #[inline(always)]
    pub(crate) const fn next(self, input: ReqInput) -> Option<Self> {
        Some(match (self, input) {
            (Self::Live, ReqInput::Complete) => Self::Done,
            (Self::Done, ReqInput::Take) | (Self::Orphan, ReqInput::Quiet) => Self::Gone,
            (Self::Live, ReqInput::Report) | (Self::Live | Self::Done, ReqInput::Close) => {
                Self::Orphan
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::String;

    const COMM_STATES: [CommState; 11] = [
        CommState::Listening,
        CommState::Accepted,
        CommState::Connecting,
        CommState::Answering,
        CommState::Refusing,
        CommState::Refused,
        CommState::Up,
        CommState::Parting,
        CommState::Lingering,
        CommState::Ending,
        CommState::Gone,
    ];
    const COMM_INPUTS: [CommInput; 10] = [
        CommInput::ChildTaken,
        CommInput::ChildLost,
        CommInput::AnswerTaken,
        CommInput::AnswerSent,
        CommInput::Close,
        CommInput::CloseAndSay,
        CommInput::CloseAndAwait,
        CommInput::HeardOut,
        CommInput::Quiet,
        CommInput::GiveUp,
    ];
    const REQ_STATES: [ReqState; 4] = [
        ReqState::Live,
        ReqState::Done,
        ReqState::Orphan,
        ReqState::Gone,
    ];
    const REQ_INPUTS: [ReqInput; 5] = [
        ReqInput::Complete,
        ReqInput::Take,
        ReqInput::Report,
        ReqInput::Close,
        ReqInput::Quiet,
    ];

    fn print() -> String {
        let mut out = String::from("communicator\n");
        for state in COMM_STATES {
            for input in COMM_INPUTS {
                if let Some(next) = state.next(input) {
                    out += &format!("  {state:?} --{input:?}--> {next:?}\n");
                }
            }
        }
        out += "request\n";
        for state in REQ_STATES {
            for input in REQ_INPUTS {
                if let Some(next) = state.next(input) {
                    out += &format!("  {state:?} --{input:?}--> {next:?}\n");
                }
            }
        }
        out
    }

    #[test]
    fn the_tables_are_the_committed_ones() {
        assert_eq!(
            print(),
            include_str!("states.txt"),
            "update states.txt if this is meant"
        );
    }

    #[test]
    fn every_communicator_can_end() {
        for state in COMM_STATES {
            let closed = if state.is_closed() {
                Some(state)
            } else {
                state.next(CommInput::Close)
            };
            let mut at = closed.unwrap();
            // Parting needs two steps; Lingering ends at the bound.
            for input in [CommInput::GiveUp, CommInput::Quiet] {
                at = at.next(input).unwrap_or(at);
            }
            assert_eq!(at, CommState::Gone, "from {state:?}");
        }
    }

    #[test]
    fn gone_is_final() {
        assert!(
            COMM_INPUTS
                .iter()
                .all(|&i| CommState::Gone.next(i).is_none())
        );
        assert!(REQ_INPUTS.iter().all(|&i| ReqState::Gone.next(i).is_none()));
    }
}
